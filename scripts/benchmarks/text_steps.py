"""What each step around the model is worth: on and off, on real text and on lines made from it.

python scripts/benchmarks/text_steps.py PART FILE.parquet... [--model DIR] [--lines N]
    [--engine ctranslate2]

The files have columns `en` and `fr`. The parts:

steps      for each file and step: BLEU without the step, the lines that the step changes and their
           chrF, and the seconds for the lines that it may change
made       for lines made from those of the files (with tags, symbols, ...): how many keep what was
           added, with all steps and without the step for it
terms      effect of terms from the references that translations without terms lack
language   English lines taken for another language, and French lines recognised as such
engines    lines that --engine auto and torch translate differently, together and alone
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from seq2seq.data.word_links import WordLinks
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.inference.alignment import Links
from seq2seq.inference.text import NAMES
from seq2seq.inference.text.language import foreign
from seq2seq.inference.text.placeholders import find_items, lost
from seq2seq.inference.text.tags import find_markup
from seq2seq.inference.text.typography import plain
from seq2seq.inference.translation import Translation
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
    """A line made from another: its text, a test whether an output is right, and the reference."""

    text: str
    kept: Callable[[str], bool]
    fr: str


def read(path: Path, limit: int | None) -> list[Pair]:
    columns = pq.read_table(path, columns=["en", "fr"]).to_pydict()
    return [Pair(*row) for row in zip(columns["en"], columns["fr"], strict=True)][:limit]


def translated(
    translator: Translator, texts: Sequence[str], **options: Any
) -> tuple[list[str], float]:
    """Translate texts; return the translations and the seconds that they took."""
    started = time.perf_counter()
    found = [one.text for one in translator.translate(texts, **options)]
    return found, time.perf_counter() - started


def score(kind: str, outputs: Sequence[str], references: Sequence[str]) -> float:
    return corpus_scores(outputs, references, [kind])[0].value if outputs else 0.0


def touched(step: str, text: str, found: Translation) -> bool:
    """Tell whether the translation of a line could change without a step."""
    marked = {
        "language": foreign(text) != "",
        "segmentation": len(found.parts) > 1,
        "casing": re.search("[A-Z]{2}", text) is not None,
        "typography": plain(text) != text,
        "markup": bool(find_markup(text)) or "&" in text,
        "quotation": '"' in plain(text),
        "placeholders": bool(find_items(text)),
        "terminology": False,
        "degeneration": bool(found.notes),
        "fallback": bool(found.notes or find_items(text)),
    }
    return marked[step]


def compare_steps(translator: Translator, name: str, pairs: Sequence[Pair]) -> None:
    """Print a row for each step, comparing all steps with all but this one."""
    texts, references = [pair.en for pair in pairs], [pair.fr for pair in pairs]
    translator.translate(texts[:64])  # the first call is slower
    started = time.perf_counter()
    found = translator.translate(texts)
    seconds = time.perf_counter() - started
    full = [one.text for one in found]
    bleu = score("BLEU", full, references)
    print(f"\n{name}, {len(pairs)} lines: BLEU {bleu:.2f}, {seconds:.1f} s")
    print("| without | BLEU | lines it may change | changes | chrF with | without | seconds with "
          "| without |")  # fmt: skip
    print("| --- |" + " ---: |" * 7)
    for step in NAMES:
        rows = [i for i, one in enumerate(found) if touched(step, texts[i], one)]
        some = [texts[i] for i in rows]
        _, with_it = translated(translator, some)
        outputs, without = translated(translator, some, without=[step])
        off = list(full)
        for i, output in zip(rows, outputs, strict=True):
            off[i] = output
        rows = [i for i in rows if full[i] != off[i]]
        chrf = [
            score("chrF2", [every[i] for i in rows], [references[i] for i in rows])
            for every in (full, off)
        ]
        print(f"| {step} | {score('BLEU', off, references):.2f} | {len(some)} | {len(rows)} | "
              f"{chrf[0]:.1f} | {chrf[1]:.1f} | {with_it:.1f} | {without:.1f} |",
              flush=True)  # fmt: skip


def made_lines(pairs: Sequence[Pair], count: int) -> dict[str, tuple[str, list[Made]]]:
    """Make lines of each kind; return for each kind the step that handles it, and the lines."""
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
    """Print for each kind how many lines survive with all steps, and without the step for it."""
    print("\n| lines | step | survived with | without | chrF with | without |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for kind, (step, lines) in made_lines(pairs, count).items():
        cells = []
        for out in ((), (step,)):
            outputs, _ = translated(translator, [line.text for line in lines], without=out)
            kept = sum(line.kept(one) for line, one in zip(lines, outputs, strict=True))
            spans = [[(tag.start, tag.end) for tag in find_markup(one)] for one in outputs]
            bare = [_cut(*each) for each in zip(outputs, spans, strict=True)]
            cells.append((kept, score("chrF2", bare, [line.fr for line in lines])))
        (kept, chrf), (other, worse) = cells
        print(f"| {kind}, {len(lines)} | {step} | {kept} | {other} | {chrf:.1f} | {worse:.1f} |",
              flush=True)  # fmt: skip


class Term(NamedTuple):
    """A phrase of a line, and its translation in the reference."""

    pair: Pair
    source: str
    target: str


def compare_terms(translator: Translator, pairs: Sequence[Pair], count: int) -> None:
    """Print the effect of terms from the references that translations without terms lack.

    The rest of a translation is the translation without the term; in a translation without terms,
    it is the text without the words that are aligned to the source phrase.
    """
    links, rng = WordLinks(pairs), random.Random(0)
    rows = []
    for pair in pairs:
        phrases = [one for one in links.phrases(*pair) if one.source[1] - one.source[0] > 3]
        if phrases:
            one = rng.choice(phrases)
            rows.append(Term(pair, pair.en[slice(*one.source)], pair.fr[slice(*one.target)]))
    plainly = map(str, translator.translate([row.pair.en for row in rows]))
    free = [(row, text) for row, text in zip(rows, plainly, strict=True)
            if not _places(row.target, text)][:count]  # fmt: skip
    rows = [row for row, _ in free]
    free_texts = [text for _, text in free]
    found = [
        translator.translate([row.pair.en], terms={row.source: row.target})[0].text for row in rows
    ]
    print("| translations | terms written | chrF | chrF of the rest | log probability of a token "
          "of the rest | characters |")  # fmt: skip
    print("| --- |" + " ---: |" * 5)
    references = [row.pair.fr for row in rows]
    aligned_words = translator.align([(row.pair.en, text) for row, text in free])
    aligned = [_aligned(*each) for each in zip(rows, free_texts, aligned_words, strict=True)]
    own = [_places(row.target, text) for row, text in zip(rows, found, strict=True)]
    bare = [_cut(row.pair.fr, _places(row.target, row.pair.fr)) for row in rows]
    for name, outputs, spans in (("free", free_texts, aligned), ("with terms", found, own)):
        there = sum(bool(_places(row.target, text))
                    for row, text in zip(rows, outputs, strict=True))  # fmt: skip
        rest = [_cut(*each) for each in zip(outputs, spans, strict=True)]
        likely = _likely(translator, [row.pair.en for row in rows], outputs, spans)
        print(f"| {name}, {len(rows)} | {there} | {score('chrF2', outputs, references):.1f} | "
              f"{score('chrF2', rest, bare):.1f} | {likely:.3f} | "
              f"{sum(map(len, outputs))} |", flush=True)  # fmt: skip


def _places(phrase: str, text: str) -> list[tuple[int, int]]:
    """Find the spans of a phrase in a text, as whole words, ignoring case."""
    found = re.finditer(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE)
    return [match.span() for match in found]


def _aligned(row: Term, text: str, links: Links) -> list[tuple[int, int]]:
    """Find the spans of the words in a translation that are aligned to the source phrase."""
    spans = [match.span() for match in re.finditer(r"\S+", row.pair.en)]
    inside = {
        i for i, (start, end) in enumerate(spans)
        for a, b in _places(row.source, row.pair.en) if start < b and a < end
    }  # fmt: skip
    words = [match.span() for match in re.finditer(r"\S+", text)]
    return [words[j] for j in sorted({j for i, j in links if i in inside})]


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    return " ".join(text.split())


def _likely(
    translator: Translator,
    sources: Sequence[str],
    outputs: Sequence[str],
    spans: Sequence[Sequence[tuple[int, int]]],
) -> float:
    """Return the mean log probability of the tokens outside of these spans."""
    pairs = list(zip(sources, outputs, strict=True))
    ids = translator.encode(pairs)
    scores = []
    for (_, target), one, out in zip(ids, translator.score(pairs), spans, strict=True):
        ends = translator.vocabularies.target.ends(target)
        for start, end, log_prob in zip([0, *ends], ends, one.token_scores, strict=False):
            if not any(start < b and a < end for a, b in out):
                scores.append(log_prob)
    return sum(scores) / max(1, len(scores))


def compare_language(pairs: Sequence[Pair], name: str) -> None:
    """Print how many English lines are taken for another language, and French lines recognised."""
    accused = [pair.en for pair in pairs if foreign(pair.en)]
    long = [pair.fr for pair in pairs if len(pair.fr.split()) >= 6]
    found = sum(foreign(text) != "" for text in long)
    print(f"{name}: {len(accused)} of {len(pairs)} English lines accused, {found} of {len(long)} "
          f"French lines of six words found ({found / max(1, len(long)):.1%})")  # fmt: skip
    for text in accused[:5]:
        print(f"  {text}")


def compare_engines(model: str | None, texts: Sequence[str]) -> None:
    """Print the lines whose translations differ from those by torch, one line at a time."""
    torch, auto = (Translator.load(model, "cpu", engine=name) for name in ("torch", "auto"))
    expected = [torch.translate([text])[0].text for text in texts]
    ways = {
        "torch together": torch.translate(texts),
        "auto together": auto.translate(texts),
        "auto alone": [auto.translate([text])[0] for text in texts],
    }
    for name, found in ways.items():
        other = [i for i, one in enumerate(found) if one.text != expected[i]]
        print(f"{name}: {len(other)} of {len(texts)} lines differ from torch alone")
        for i in other:
            print(f"  {texts[i]}\n    {expected[i]}\n    {found[i].text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("part", choices=("steps", "made", "terms", "language", "engines"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", help="a run or bundle; without, the shipped model")
    parser.add_argument("--engine", default="torch", choices=("torch", "ctranslate2"))
    parser.add_argument("--lines", type=int, help="of each file, at most")
    parser.add_argument("--made", type=int, default=300, help="lines of each kind, or with a term")
    options = parser.parse_args()
    sets = {path.stem: read(path, options.lines) for path in options.files}
    every = [pair for pairs in sets.values() for pair in pairs]
    if options.part == "language":
        for name, pairs in sets.items():
            compare_language(pairs, name)
        return
    if options.part == "engines":
        compare_engines(options.model, [pair.en for pair in every])
        return
    translator = Translator.load(options.model, device="cpu", engine=options.engine)
    if options.part == "steps":
        for name, pairs in sets.items():
            compare_steps(translator, name, pairs)
    elif options.part == "made":
        compare_made(translator, every, options.made)
    else:
        compare_terms(translator, every, options.made)


if __name__ == "__main__":
    main()
