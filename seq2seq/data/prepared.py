"""A prepared corpus, as training reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2seq.data.corpus import Pair
from seq2seq.data.manifest import read_manifest
from seq2seq.data.report import Report
from seq2seq.data.shards import Shards, read_table
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import DataError

VOCABULARY = "vocabulary"  # folder beside the ids
DECODED = 10_000  # pairs decoded at once


@dataclass
class Prepared:
    """The files of a prepared corpus, its vocabularies and its report.

    Attributes:
        folder: of the ids and the report.
        fingerprint: of everything that decides the ids and the report.
        vocabularies: of both languages.
        variants: shards of each segmentation; one segmentation, unless BPE-dropout makes more.
        lengths: file of the lengths of each segmentation.
        members: name, first row, and first row after it, of each corpus of a mixture.
        report: what was kept, dropped and found.
    """

    folder: Path
    fingerprint: str
    vocabularies: Vocabularies
    variants: list[list[Path]]
    lengths: list[Path]
    members: list[tuple[str, int, int]]
    report: Report

    def shards(self) -> list[Shards]:
        """Open the ids of each segmentation."""
        both = zip(self.variants, self.lengths, strict=True)
        return [Shards(paths, lengths) for paths, lengths in both]


def prepared_pairs(folder: Path) -> Iterator[Pair]:
    """Yield the text of the prepared pairs, decoded from their ids, each pair once.

    Args:
        folder: of the ids, as in `Prepared`.

    Raises:
        DataError: the prepared data are incomplete.
    """
    said, vocabularies = read_manifest(folder), Vocabularies.load(folder / VOCABULARY)
    if said is None:
        raise DataError(f"the prepared data in {folder} are not whole: prepare them again")
    for name in said["variants"][0]:
        for batch in read_table(folder / name).to_batches(DECODED):
            source, target = (batch[side].to_pylist() for side in ("source", "target"))
            both = vocabularies.source.decode(source), vocabularies.target.decode(target)
            yield from zip(*both, strict=True)
