"""What each step around the model is worth: on and off, on real text and on lines made from it.

python scripts/benchmarks/text_steps.py FILE.parquet... [--model DIR] [--lines N] [--made N]
    [--terms N] [--engine ctranslate2]

Files have columns `en` and `fr`. Printed are, for each file and step, BLEU without it, and the
lines that it changes with their chrF; then, for lines made of these, what survives with all steps
and without the one that is for it.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from seq2seq.data.word_links import WordLinks
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.inference.text import NAMES
from seq2seq.inference.text.placeholders import find_items, lost
from seq2seq.inference.text.tags import find_markup
from seq2seq.inference.translator import Translator

EMOJI = ["👍", "🎉🎉", "❤️", "👩‍🚀", "→", "★"]
TAGS = ["<b>{}</b>", '<a href="x?a=1&b=2" title="a > b">{}</a>', "<i class='k'>{}</i><br/>"]
THINGS = ["{name}", "https://example.org/a?b=c&d=e_f", "%(count)d", "jo.smith@mail-a.example.org",
          "`rm -rf x`", "$HOME"]  # fmt: skip


class Pair(NamedTuple):
    """A line and its reference."""

    en: str
    fr: str


class Made(NamedTuple):
    """A line that was made of another, what has to survive, and the reference without that."""

    text: str
    kept: Callable[[str], bool]
    fr: str


def read(path: Path, limit: int | None) -> list[Pair]:
    columns = pq.read_table(path, columns=["en", "fr"]).to_pydict()
    return [Pair(*row) for row in zip(columns["en"], columns["fr"], strict=True)][:limit]


def translated(translator: Translator, texts: Sequence[str], without: Sequence[str]) -> list[str]:
    return [one.text for one in translator.translate(texts, without=without)]


def score(kind: str, outputs: Sequence[str], references: Sequence[str]) -> float:
    return corpus_scores(outputs, references, [kind])[0].value if outputs else 0.0


def compare_steps(translator: Translator, name: str, pairs: Sequence[Pair]) -> None:
    """Print a row for each step: the whole pipeline beside the one without it."""
    texts, references = [pair.en for pair in pairs], [pair.fr for pair in pairs]
    full = translated(translator, texts, ())
    print(f"\n{name}, {len(pairs)} lines: BLEU {score('BLEU', full, references):.2f}")
    print("| without | BLEU | lines that it changes | chrF with | without |")
    print("| --- |" + " ---: |" * 4)
    for step in NAMES:
        off = translated(translator, texts, [step])
        changed = [i for i in range(len(texts)) if full[i] != off[i]]
        with_it, without = (
            score("chrF2", [outputs[i] for i in changed], [references[i] for i in changed])
            for outputs in (full, off)
        )
        print(f"| {step} | {score('BLEU', off, references):.2f} | {len(changed)} | {with_it:.1f} | "
              f"{without:.1f} |", flush=True)  # fmt: skip


def made_lines(pairs: Sequence[Pair], count: int) -> dict[str, tuple[str, list[Made]]]:
    """Lines of each kind: the step that is for it, and the lines."""
    rng = random.Random(0)
    plain = [p for p in pairs if 5 <= len(p.en.split()) <= 25 and p.en.isascii()
             and not re.search(r"[<>&{}\"\d]", p.en)]  # fmt: skip
    rng.shuffle(plain)
    some = plain[:count]
    return {
        "tags": ("markup", [_tagged(pair, rng) for pair in some]),
        "symbols": ("markup", [_with_symbol(pair, rng) for pair in some]),
        "things": ("placeholders", [_with_thing(pair, rng) for pair in some]),
        "numbers": ("placeholders", [_numbered(p) for p in pairs if find_items(p.en)][:count]),
        "capitals": ("casing", [
            Made(p.en.upper(), str.isupper, p.fr.upper()) for p in some]),
        "apostrophes": ("typography", [
            Made(re.sub("(?<=[a-z])'(?=[a-z])", rng.choice("’`´"), p.en), lambda out: True, p.fr)
            for p in plain if re.search("[a-z]'[a-z]", p.en)][:count]),
        "quotations": ("quotation", [
            Made(p.en, lambda out: len(re.findall('["«»]', out)) == 2, p.fr)
            for p in pairs if p.en.count('"') == 2][:count]),
    }  # fmt: skip


def _tagged(pair: Pair, rng: random.Random) -> Made:
    words = pair.en.split()
    first = rng.randrange(len(words) - 2)
    last = first + rng.choice((1, 2))
    tag = rng.choice(TAGS)
    text = " ".join([*words[:first], tag.format(" ".join(words[first:last])), *words[last:]])
    tokens = [text[token.start : token.end] for token in find_markup(text)]
    return Made(text, lambda out: _has(out, tokens), pair.fr)


def _with_symbol(pair: Pair, rng: random.Random) -> Made:
    words, sign = pair.en.split(), rng.choice(EMOJI)
    words.insert(rng.choice((0, len(words) // 2, len(words))), sign)
    return Made(" ".join(words), lambda out: out.count(sign) == 1, pair.fr)


def _with_thing(pair: Pair, rng: random.Random) -> Made:
    thing = rng.choice(THINGS)
    form = rng.choice(("{0}: {1}", "{1} ({0})", "{1} {0}"))
    return Made(form.format(thing, pair.en), lambda out: thing in out, form.format(thing, pair.fr))


def _numbered(pair: Pair) -> Made:
    return Made(pair.en, lambda out: not lost(find_items(pair.en), out), pair.fr)


def _has(output: str, tokens: Sequence[str]) -> bool:
    found = [output[token.start : token.end] for token in find_markup(output)]
    return sorted(found) == sorted(tokens)


def compare_made(translator: Translator, pairs: Sequence[Pair], count: int) -> None:
    """Print for each kind of line what survives with all steps and without the one for it."""
    print("\n| lines | step | survived with | without | chrF with | without |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for kind, (step, lines) in made_lines(pairs, count).items():
        cells = []
        for out in ((), (step,)):
            outputs = translated(translator, [line.text for line in lines], out)
            kept = sum(line.kept(one) for line, one in zip(lines, outputs, strict=True))
            bare = [_without_markup(one) for one in outputs]
            cells.append((kept, score("chrF2", bare, [line.fr for line in lines])))
        (kept, chrf), (other, worse) = cells
        print(f"| {kind}, {len(lines)} | {step} | {kept} | {other} | {chrf:.1f} | {worse:.1f} |",
              flush=True)  # fmt: skip


def _without_markup(text: str) -> str:
    for token in reversed(find_markup(text)):
        text = text[: token.start] + text[token.end :]
    return " ".join(text.split())


def compare_terms(translator: Translator, pairs: Sequence[Pair], count: int) -> None:
    """Print what terms do that references have and free translations lack."""
    links = WordLinks(pairs)
    rng = random.Random(0)
    rows = []
    for pair in pairs:
        phrases = [one for one in links.phrases(*pair) if one.source[1] - one.source[0] > 3]
        if phrases:
            one = rng.choice(phrases)
            rows.append((pair, pair.en[slice(*one.source)], pair.fr[slice(*one.target)]))
    free = translator.translate([pair.en for pair, *_ in rows])
    each = [(row, one) for row, one in zip(rows, free, strict=True)
            if row[2].lower() not in one.text.lower()][:count]  # fmt: skip
    found = [translator.translate([pair.en], terms={source: target})[0]
             for (pair, source, target), _ in each]  # fmt: skip
    references = [pair.fr for (pair, *_), _ in each]
    there = sum(target.lower() in one.text.lower()
                for ((_, _, target), _), one in zip(each, found, strict=True))  # fmt: skip
    print(f"\nterms that the free translation lacks: {len(each)}, written: {there}")
    for name, outputs in (("free", [one.text for _, one in each]), ("terms", [*map(str, found)])):
        likely = [
            one.per_token for one in translator.score(
                [(pair.en, out) for ((pair, *_), _), out in zip(each, outputs, strict=True)])
        ]  # fmt: skip
        print(f"  {name}: chrF {score('chrF2', outputs, references):.1f}, "
              f"characters {sum(map(len, outputs))}, log probability of a token "
              f"{sum(likely) / max(1, len(likely)):.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", help="a run or bundle; without, the shipped model")
    parser.add_argument("--engine", default="torch", choices=("torch", "ctranslate2"))
    parser.add_argument("--lines", type=int, help="of each file, at most")
    parser.add_argument("--made", type=int, default=300, help="lines of each kind")
    parser.add_argument("--terms", type=int, default=500, help="lines with a term")
    options = parser.parse_args()
    translator = Translator.load(options.model, device="cpu", engine=options.engine)
    sets = {path.stem: read(path, options.lines) for path in options.files}
    for name, pairs in sets.items():
        compare_steps(translator, name, pairs)
    every = [pair for pairs in sets.values() for pair in pairs]
    compare_made(translator, every, options.made)
    compare_terms(translator, every, options.terms)


if __name__ == "__main__":
    main()
