"""Builds the starter corpus: `python data/starter/build.py [--check]`.

The composed sentences are drawn from the grammar with a fixed seed; the hand-written
ones are read from `phrases/`. The same inputs always give the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bilingual import Combination, Sentence
from drawing import Draw, Pattern
from grammar import PATTERNS

FOLDER = Path(__file__).resolve().parent
SEED = 2024
PER_PATTERN = 560
ATTEMPTS = 6
HELD_OUT_PERCENT = 5
VALIDATION, TEST = 500, 1000
HEADER = "en\tfr\n"
NEWLINE = b"\n"

Pair = tuple[str, str]


@dataclass(frozen=True)
class Corpus:
    """The three splits; `composed` is the part of `train` drawn from the grammar."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    composed: list[Pair]


def is_held_out(combination: Combination) -> bool:
    """Tell whether a combination of content words is kept out of training."""
    text = f"{SEED}|{'|'.join(sorted(combination))}"
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < HELD_OUT_PERCENT


def is_unseen(sentence: Sentence) -> bool:
    """Tell whether a sentence shows a held-out combination."""
    return any(map(is_held_out, sentence.combinations))


def draw_all(seed: int = SEED) -> list[tuple[Pattern, Sentence]]:
    """Draw up to `PER_PATTERN` distinct sentences from every pattern.

    Raises:
        ValueError: If two patterns translate the same English differently.
    """
    draw = Draw(seed)
    translations: dict[str, str] = {}
    drawn: list[tuple[Pattern, Sentence]] = []
    for pattern in PATTERNS:
        found = 0
        for _ in range(PER_PATTERN * ATTEMPTS):
            sentence = pattern(draw)
            known = translations.setdefault(sentence.en, sentence.fr)
            if known != sentence.fr:
                raise ValueError(f"two translations of '{sentence.en}': {known} / {sentence.fr}")
            if len(translations) > len(drawn):
                drawn.append((pattern, sentence))
                found += 1
            if found == PER_PATTERN:
                break
    return drawn


def read_phrases(folder: Path = FOLDER / "phrases") -> list[Pair]:
    """Read the hand-written pairs without repeats, in the order of the file names.

    Raises:
        ValueError: If a file has no header, or a line does not have two columns.
    """
    pairs: dict[Pair, None] = {}
    for path in sorted(folder.glob("*.tsv")):
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        if header != HEADER.strip():
            raise ValueError(f"{path.name}, line 1: expected the header en<TAB>fr")
        for number, line in enumerate(lines, start=2):
            cells = line.split("\t")
            if len(cells) != 2 or not all(cells):
                raise ValueError(f"{path.name}, line {number}: expected two columns")
            pairs[(cells[0], cells[1])] = None
    return list(pairs)


def _share_out(candidates: dict[str, list[Pair]], size: int) -> list[Pair]:
    """Take pairs from the patterns in turn until there are `size`.

    Raises:
        ValueError: If the patterns have fewer pairs.
    """
    chosen: list[Pair] = []
    while len(chosen) < size:
        before = len(chosen)
        for pairs in candidates.values():
            if pairs and len(chosen) < size:
                chosen.append(pairs.pop())
        if len(chosen) == before:
            raise ValueError(f"only {before} of {size} held-out sentences could be drawn")
    return chosen


def build() -> Corpus:
    """Draw the composed sentences, read the hand-written ones and split them."""
    return split(draw_all(), read_phrases())


def split(drawn: list[tuple[Pattern, Sentence]], phrases: list[Pair]) -> Corpus:
    """Send every sentence with a held-out combination to validation and test.

    A pair whose English or French text is also in a training pair stays out of both.
    """
    written = {text for pair in phrases for text in pair}
    composed = [(s.en, s.fr) for _, s in drawn if not is_unseen(s) and s.en not in written]
    seen = written | {text for pair in composed for text in pair}
    candidates: dict[str, list[Pair]] = defaultdict(list)
    for pattern, s in drawn:
        if is_unseen(s) and s.en not in seen and s.fr not in seen:
            candidates[pattern.__name__].append((s.en, s.fr))
            seen.update((s.en, s.fr))
    held_out = _share_out(candidates, VALIDATION + TEST)
    shuffler = random.Random(SEED)
    shuffler.shuffle(held_out)
    train = composed + phrases
    shuffler.shuffle(train)
    return Corpus(train, held_out[:VALIDATION], held_out[VALIDATION:], composed)


def _table(pairs: Iterable[Pair]) -> bytes:
    return (HEADER + "".join(f"{en}\t{fr}\n" for en, fr in pairs)).encode()


def _compress(content: bytes) -> bytes:
    """Compress without a file name or a time, so that the bytes are reproducible."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def tables(corpus: Corpus) -> dict[str, bytes]:
    """Return the uncompressed content of every file."""
    return {
        "train.tsv.gz": _table(corpus.train),
        "val.tsv": _table(corpus.validation),
        "test.tsv": _table(corpus.test),
    }


def check(corpus: Corpus) -> list[str]:
    """Return one complaint for every file that is missing or differs in content."""
    complaints = []
    for name, expected in tables(corpus).items():
        path = FOLDER / name
        if not path.exists():
            complaints.append(f"data/starter/{name} is missing: run data/starter/build.py")
            continue
        content = path.read_bytes()
        # zlib versions compress differently, so the uncompressed content is compared.
        if (gzip.decompress(content) if name.endswith(".gz") else content) != expected:
            complaints.append(f"data/starter/{name} is out of date: run data/starter/build.py")
    return complaints


def write(corpus: Corpus) -> None:
    """Write the three files and print their sizes."""
    for name, content in tables(corpus).items():
        data = _compress(content) if name.endswith(".gz") else content
        (FOLDER / name).write_bytes(data)
        print(f"data/starter/{name}: {content.count(NEWLINE) - 1} pairs, {len(data)} bytes")


def report() -> None:
    """Print how many distinct sentences each pattern produced."""
    counts = Counter(pattern.__name__ for pattern, _ in draw_all())
    for name, count in counts.items():
        print(f"{count:5d}  {name}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare, write nothing")
    parser.add_argument("--report", action="store_true", help="print sentences per pattern")
    options = parser.parse_args(arguments)
    if options.report:
        report()
        return 0
    corpus = build()
    if not options.check:
        write(corpus)
        return 0
    complaints = check(corpus)
    print("\n".join(complaints) or "data/starter: all files are up to date")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
