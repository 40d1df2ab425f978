"""Builds pairs.tsv.gz: the sentences of frames/, their slots filled.

    python data/templates/build.py            # writes the file
    python data/templates/build.py --check    # exits with 1 if it is out of date

A frame is a line `English<TAB>French` in frames/*.tsv. {price} is a slot: a kind of filler
(fillers.py), or a list in lists/. {price2} is another price. Only the standard library is needed,
and the file is the same each time: each frame has a random generator of its own.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from fillers import Filler, fill

HERE = Path(__file__).parent
OUTPUT = HERE / "pairs.tsv.gz"
TIMES = 60  # how often a frame with slots is filled
SLOT = re.compile(r"\{([a-z]+)(\d*)\}")
ELISION = re.compile(r"\b([dD]|[qQ]u)e (?=[AEIOUÉÈaeiouéè])")  # words that elide before a filler
QUOTES = [('"', '"')] * 4 + [("“", "”")] * 2 + [("'", "'")]  # as people type them in English


def frames() -> Iterator[Filler]:
    for file in sorted((HERE / "frames").glob("*.tsv")):
        for line in file.read_text(encoding="utf-8").splitlines()[1:]:
            english, french = line.split("\t")
            if set(SLOT.findall(english)) != set(SLOT.findall(french)):
                raise SystemExit(f"{file.name}: both sides must have the same slots: {line}")
            yield english, french


def filled(frame: Filler, draw: random.Random) -> Filler:
    """Fill the slots of a frame, and draw the style of its English quotation marks."""
    values: dict[str, Filler] = {}
    for kind, number in sorted(set(SLOT.findall(frame[0]))):
        values[kind + number] = fill(kind, draw)
    english, french = (
        SLOT.sub(lambda slot, side=side: values[slot[1] + slot[2]][side], frame[side])
        for side in (0, 1)
    )
    first, last = draw.choice(QUOTES)
    if "'" in english and first == "'":
        first = last = '"'
    english = re.sub('"([^"]*)"', rf"{first}\1{last}", english)
    return english.replace(".m..", ".m."), ELISION.sub(r"\1'", french)


def pairs() -> list[Filler]:
    """Make all pairs, each once, in the order of the frames."""
    found: dict[Filler, None] = {}
    for frame in frames():
        draw = random.Random(frame[0])
        for _ in range(TIMES if SLOT.search(frame[0]) else 1):
            found[filled(frame, draw)] = None
    return list(found)


def build() -> bytes:
    text = "".join(f"{english}\t{french}\n" for english, french in [("en", "fr"), *pairs()])
    return gzip.compress(text.encode(), mtime=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    check = parser.parse_args().check
    data = build()
    there = OUTPUT.read_bytes() if OUTPUT.exists() else b""
    if check:
        same = bool(there) and gzip.decompress(there) == gzip.decompress(data)
        print("pairs.tsv.gz is up to date" if same else "pairs.tsv.gz is out of date: run build.py")
        return 0 if same else 1
    OUTPUT.write_bytes(data)
    print(f"wrote {OUTPUT.name}: {gzip.decompress(data).count(10) - 1:,} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
