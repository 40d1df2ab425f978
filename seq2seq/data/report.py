"""The report of preparing a corpus, and its file; `seq2seq/report/data.py` shows the report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.files import atomic_write

NAME = "report.json"
RARE = 10  # a token seen fewer times is learned badly


@dataclass
class Report:
    """What was read, dropped and kept. All sides are [source, target].

    Attributes:
        fingerprint: of everything that decides the prepared data.
        settings: of data, cleaning and tokenizer.
        files: "member", "file", "pairs" and "dropped" (by reason, without duplicates) of each
            source; older reports lack "dropped".
        read: number of pairs read; `kept` likewise.
        dropped: number of pairs by reason, in the order of the filters.
        examples: a few dropped pairs by reason.
        words: number of words (between spaces) in the kept pairs; `characters` likewise.
        tokens: number of subwords, without end marks.
        lengths: for each side, how many pairs have n tokens, n = 0, 1, ...; the last: n or more.
        ratios: pairs by log2(target tokens / source tokens), 41 bins around -2.0, -1.9, ..., 2.0;
            the outer bins hold all ratios beyond.
        vocabulary: of each vocabulary, "name", "size", "used" (tokens seen), "rare" (seen fewer
            than RARE times) and "counts", [rank, count] of some tokens by falling count.
        overlap: of each evaluation split, "split", "pairs" and "in_training": pairs with a side, or
            words in a row, that were in the training text before the filter leakage, if it is on.
        samples: some kept pairs.
        mixture: "member", "pairs", "weight" (times per epoch) and "share" (of an epoch).
        seconds: wall time by stage.
    """

    name: str
    fingerprint: str
    settings: dict[str, Any]
    files: list[dict[str, Any]]
    read: int
    kept: int
    dropped: dict[str, int]
    examples: dict[str, list[list[str]]]
    words: list[int]
    characters: list[int]
    tokens: list[int]
    lengths: list[list[int]]
    ratios: list[int]
    vocabulary: list[dict[str, Any]]
    overlap: list[dict[str, Any]]
    samples: list[list[str]]
    mixture: list[dict[str, Any]]
    seconds: dict[str, float]

    def length(self, side: int, share: float) -> int:
        """Return the smallest number of tokens that a share of the pairs stays within, per side."""
        seen = np.cumsum([0, *self.lengths[side]])[1:]
        return int(np.searchsorted(seen, share * seen[-1])) if len(seen) else 0

    @property
    def pairs_per_second(self) -> float:
        return self.read / max(sum(self.seconds.values()), 1e-9)


def write_report(report: Report, folder: Path) -> None:
    """Write report.json atomically, and remove the page of an earlier report."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / NAME) as file:
        # Damaged text may hold half a surrogate pair; \udc80 is also how JSON writes one.
        text = json.dumps(asdict(report), ensure_ascii=False)
        file.write(text.encode("utf-8", "backslashreplace"))
    (folder / "report.html").unlink(missing_ok=True)


def read_report(folder: Path) -> Report:
    """Read the report that `write_report` wrote to a folder."""
    return Report(**json.loads((folder / NAME).read_text(encoding="utf-8")))
