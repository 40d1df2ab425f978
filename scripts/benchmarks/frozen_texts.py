"""Judge a model on the frozen texts (tests/frozen/README.md).

python scripts/benchmarks/frozen_texts.py translate [--model DIR] [--plain] [--output FILE]
python scripts/benchmarks/frozen_texts.py sheet OLD NEW [--seed N] [--sheet FILE] [--key FILE]
python scripts/benchmarks/frozen_texts.py leaks FILE... [--columns en fr]
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from seq2seq.cli.exits import prepare_streams, run_command
from seq2seq.data.corpus import read_pairs
from seq2seq.errors import DataError
from seq2seq.lines import lines_of

FROZEN = Path(__file__).resolve().parents[2] / "tests/frozen"
SETS = ("everyday", "symbols")
OUTPUT = ("set", "kind", "en", "fr", "output", "lost")
SHEET = ("line", "set", "kind", "en", "fr", "first", "second", "first_right", "second_right")
# Texts from reports of users. With other marks they are texts that any learner needs, so only these
# exact ones are barred from training.
NAMED = {"See you tomorrow 👍", "Thanks ❤️", "Happy New Year 🎉🎉", 'I am "hungry".', '"mine"'}

SAME = str.maketrans("‘’ʼ′“”″−", "''''\"\"\"-", "\ufe0f")
SPACE = "\u2423"  # ␣
DOUBLE = r'"[^"]+"|«[^»]+»'
PAIRS = {"«»": DOUBLE, "‹›": rf"(?<!\w)'\S.*?'(?!\w)|‹[^›]+›|{DOUBLE}"}


class Text(NamedTuple):
    """A frozen text. `symbols` is in the notation of the README, and empty for everyday texts."""

    set: str
    kind: str
    en: str
    fr: str
    symbols: str = ""


def frozen_texts() -> list[Text]:
    """Read all frozen texts, everyday texts first."""
    return [Text(name, *row) for name in SETS for row in table(FROZEN / f"{name}.tsv")]


def table(path: Path) -> list[list[str]]:
    """Read the rows of a tab-separated file, without its head."""
    return [line.split("\t") for line in lines_of(path)][1:]


def lost(symbols: str, french: str) -> list[str]:
    """Return the items of `symbols` that a translation lacks, or has too few of."""
    text = " ".join(unicodedata.normalize("NFC", french).translate(SAME).split())
    text = re.sub(r"[nN][°º]", "n°", text)
    return [
        item
        for item, number in Counter(symbols.split()).items()
        if len(re.findall(_pattern(item), text)) < number
    ]


def _pattern(symbol: str) -> str:
    """Return a regular expression for an item; it matches only whole words and numbers."""
    if "|" in symbol and symbol != "|":
        return "|".join(map(_pattern, symbol.split("|")))
    if symbol in PAIRS:
        return f"(?:{PAIRS[symbol]})"
    parts: list[str] = []
    for match in re.finditer(r"\\(.)|(?<=\d)([.,])(?=\d)|(.)", symbol.translate(SAME)):
        escaped, mark, plain = match.groups()
        if mark:
            parts.append("[.,]" if mark == "." else "[ .,]?")
        else:
            parts.append(" ?" if plain == SPACE else re.escape(escaped or plain))
    start = r"(?<!\w)(?<!\d[.,])" if symbol[0].isdecimal() else r"(?<!\w)" * symbol[0].isalpha()
    end = r"(?!\w)(?![.,]\d)" if symbol[-1].isdecimal() else r"(?!\w)" * symbol[-1].isalpha()
    return start + "".join(parts) + end


def leak_key(text: str) -> str:
    """Return what variants of a text share: its letters; if they are fewer than three, the text."""
    text = unicodedata.normalize("NFKC", text).casefold()
    letters = "".join(c for c in text if unicodedata.category(c)[0] in "LM" and c != "\ufe0f")
    return letters if len(letters) > 2 else "".join(text.split())


def leaks(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the texts that must not be in training data, each with its frozen text."""
    barred = {leak_key(one.en): one.en for one in frozen_texts()}
    found = ((text, barred.get(leak_key(text), "")) for text in texts)
    return [(text, own) for text, own in found if own and (own not in NAMED or text == own)]


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = ["\t".join(row) + "\n" for row in (header, *rows)]
    path.write_text("".join(lines), encoding="utf-8")


def translate(options: argparse.Namespace) -> None:
    """Print chrF2 of both sets, and by kind, how many texts with symbols keep them all."""
    from seq2seq.evaluation.metrics import corpus_scores
    from seq2seq.inference.translator import Translator

    texts = frozen_texts()
    translator = Translator.load(options.model, engine=options.engine)
    run = translator.translate_corpus if options.plain else translator.translate
    outputs = [one.text for one in run([text.en for text in texts])]
    missing = [lost(text.symbols, output) for text, output in zip(texts, outputs, strict=True)]
    for name in SETS:
        pairs = [(o, t.fr) for o, t in zip(outputs, texts, strict=True) if t.set == name]
        [score] = corpus_scores([o for o, _ in pairs], [fr for _, fr in pairs], ["chrF2"], "fr")
        print(f"{name}: chrF2 {score.value:.1f} ({score.signature})")
    kept = [(t.kind, not gone) for t, gone in zip(texts, missing, strict=True) if t.symbols]
    for kind in ("", *dict.fromkeys(kind for kind, _ in kept)):
        own = [good for each, good in kept if kind in ("", each)]
        share = f"{sum(own):4} of {len(own):3} = {sum(own) / len(own):6.1%}"
        print(f"{kind or 'all symbols survive':20} {share}")
    if options.output:
        rows = zip(texts, outputs, missing, strict=True)
        write(options.output, OUTPUT, [(*t[:4], o, " ".join(gone)) for t, o, gone in rows])


def sheet(options: argparse.Namespace) -> None:
    """Write a sheet with two outputs in random order on each line, and the key in another file."""
    both = [table(path) for path in (options.old, options.new)]
    if [row[:4] for row in both[0]] != [row[:4] for row in both[1]]:
        raise DataError("the two outputs are not of the same texts: translate with both anew")
    draw, rows, key = random.Random(options.seed), [], []
    for number, (old, new) in enumerate(zip(*both, strict=True), 1):
        swapped = draw.random() < 0.5
        first, second = (new[4], old[4]) if swapped else (old[4], new[4])
        rows.append((str(number), *old[:4], first, second if second != first else "=", "", ""))
        key.append((str(number), *(("new", "old") if swapped else ("old", "new"))))
    write(options.sheet, SHEET, rows)
    write(options.key, ("line", "first", "second"), key)
    print(f"{options.sheet}: put 1 or 0 into the last two columns; {options.key} says which is new")


def list_leaks(options: argparse.Namespace) -> None:
    """Print the texts that must not be in training data; exit with 1 if there are any."""
    count = 0
    for path in options.files:
        for text, own in leaks(en for en, _ in read_pairs([path], tuple(options.columns))):
            print(f"{path}\t{text}\t{own}")
            count += 1
    sys.exit(1 if count else 0)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parts = made.add_subparsers(required=True, metavar="PART")
    part = parts.add_parser("translate", help="translate them with a model, and score that")
    part.add_argument("--model", help="a run or bundle; without, the shipped model")
    part.add_argument("--engine", default="auto", choices=("auto", "torch", "ctranslate2"))
    part.add_argument("--plain", action="store_true", help="the model alone: whole lines, nothing "
        "protected, nothing translated again")  # fmt: skip
    part.add_argument("--output", type=Path, metavar="FILE", help="a table of the translations")
    part.set_defaults(run=translate)
    part = parts.add_parser("sheet", help="two such tables as a sheet for blind judging")
    part.add_argument("old", type=Path)
    part.add_argument("new", type=Path)
    part.add_argument("--seed", type=int, default=0, help="of the order (default: 0)")
    part.add_argument("--sheet", type=Path, default=Path("sheet.tsv"))
    part.add_argument("--key", type=Path, default=Path("key.tsv"))
    part.set_defaults(run=sheet)
    part = parts.add_parser("leaks", help="list texts of training files that are frozen ones")
    part.add_argument("files", nargs="+", type=Path, metavar="FILE")
    part.add_argument("--columns", nargs=2, default=("en", "fr"), metavar=("SOURCE", "TARGET"))
    part.set_defaults(run=list_leaks)
    return made


def main() -> None:
    options = parser().parse_args()
    prepare_streams()
    options.run(options)


if __name__ == "__main__":
    run_command(main)
