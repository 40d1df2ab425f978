"""A prepared corpus, as training reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """A prepared corpus.

    Attributes:
        folder: of the ids, the vocabularies and the report.
        manifest: what the folder's manifest says.
        vocabularies: of both languages.
        report: what was kept, dropped and found; its fingerprint covers all that decides the ids.
    """

    folder: Path
    manifest: dict[str, Any]
    vocabularies: Vocabularies
    report: Report

    @property
    def members(self) -> list[tuple[str, int, int]]:
        """Name, first row, and first row after it, of each corpus of a mixture."""
        return [(name, first, last) for name, first, last in self.manifest["members"]]

    def shards(self) -> list[Shards]:
        """Open the ids of each segmentation; there is one, unless BPE-dropout makes more."""
        both = zip(self.manifest["variants"], self.manifest["lengths"], strict=True)
        return [
            Shards([self.folder / name for name in names], self.folder / lengths)
            for names, lengths in both
        ]


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
