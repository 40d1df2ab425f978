"""What preparing a corpus did: as text for the terminal, as JSON, and as a page with plots."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.files import atomic_write

WIDTH = 80  # of the text
RARE = 10  # a token seen fewer times is learned badly

STAGES = {
    "clean": "reading and filtering",
    "duplicates": "finding duplicates",
    "tokenizer": "learning the vocabulary",
    "tokenise": "cutting into tokens",
}


@dataclass
class Report:
    """What was read, dropped and kept. All sides are [source, target].

    Attributes:
        fingerprint: of everything that decides the prepared data.
        settings: of data, cleaning and tokenizer.
        files: "member", "file" and "pairs" of each.
        dropped: pairs by reason, in the order of the filters.
        examples: a few dropped pairs by reason.
        words: between spaces, of what was kept; `characters` likewise.
        tokens: subwords, without end marks.
        lengths: for each side, how many pairs have n tokens, n = 0, 1, ...; the last: n or more.
        ratios: pairs by log2(target tokens / source tokens), 41 bins around -2.0, -1.9, ..., 2.0;
            the outer ones hold what is beyond.
        vocabulary: "name", "size", "used" (tokens seen), "rare" (seen fewer than RARE times) and
            "counts", some [rank, count] of the tokens by falling count; of each vocabulary.
        overlap: "split", "pairs" and "in_training", pairs with a side that stood in the training
            text before the leakage filter; of each evaluation split.
        samples: some pairs that were kept.
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
        """The least number of tokens that this share of the pairs does not exceed on a side."""
        seen = np.cumsum([0, *self.lengths[side]])[1:]
        return int(np.searchsorted(seen, share * seen[-1])) if len(seen) else 0

    @property
    def pairs_per_second(self) -> float:
        return self.read / max(sum(self.seconds.values()), 1e-9)


def write_report(report: Report, folder: Path) -> None:
    """Write report.json, report.txt and report.html, each whole or not at all."""
    from seq2seq.report.data import report_page  # matplotlib takes a second to import

    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "report.json", json.dumps(asdict(report), ensure_ascii=False))
    _write(folder / "report.txt", report_text(report))
    _write(folder / "report.html", report_page(report))


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        # Damaged text may hold half a surrogate pair; \udc80 is also how JSON writes one.
        file.write(text.encode("utf-8", "backslashreplace"))


def read_report(folder: Path) -> Report:
    """The report of a folder that `write_report` wrote."""
    return Report(**json.loads((folder / "report.json").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Table:
    """Numbers as they are shown, in the text as on the page."""

    title: str
    rows: list[list[str]]  # the first holds the names of the columns
    note: str = ""


def percent(part: float, whole: float) -> str:
    if not whole:
        return "-"
    return "<0.01%" if 0 < part / whole < 0.00005 else f"{part / whole:.2%}"


def duration(seconds: float) -> str:
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def sides_table(report: Report) -> Table:
    """How much text was kept, and how it was cut into tokens."""

    def quotient(name: str, above: list[int], below: list[int]) -> list[str]:
        pairs = zip(above, below, strict=True)
        return [name, *(f"{a / b:.2f}" if b else "-" for a, b in pairs)]

    def length(name: str, share: float) -> list[str]:
        found = [report.length(side, share) for side in (0, 1)]
        ends = [len(histogram) - 1 for histogram in report.lengths]
        # The last bin of a histogram also holds what is longer.
        return [name, *(f"{n:,}{'+' * (n == end > 0)}" for n, end in zip(found, ends, strict=True))]

    rows = [
        ["", "source", "target"],
        ["words", *(f"{n:,}" for n in report.words)],
        ["characters", *(f"{n:,}" for n in report.characters)],
        ["tokens", *(f"{n:,}" for n in report.tokens)],
        quotient("tokens per word", report.tokens, report.words),
        quotient("characters per token", report.characters, report.tokens),
        length("sentence length: median", 0.5),
        length("sentence length: 95% up to", 0.95),
        length("sentence length: longest", 1.0),
    ]
    note = (
        "Words stand between spaces, tokens are subwords. Lengths are in tokens; + means: or more."
    )
    return Table("Kept text", rows, note)


def vocabulary_table(report: Report) -> Table:
    rows = [
        [
            each["name"],
            f"{each['size']:,}",
            f"{each['used']:,}",
            percent(each["used"], each["size"]),
            f"{each['rare']:,}",
            percent(each["rare"], each["size"]),
        ]
        for each in report.vocabulary
    ]
    note = (
        "Used tokens occur in the kept text. Rare ones occur in it fewer than 10 times, or never: "
        "a model learns little about them. Where many are rare, take a smaller vocabulary."
    )
    return Table("Vocabulary", [["", "tokens", "used", "share", "rare", "share"], *rows], note)


def overlap_table(report: Report) -> Table:
    rows = [
        [
            each["split"],
            f"{each['pairs']:,}",
            f"{each['in_training']:,}",
            percent(each["in_training"], each["pairs"]),
        ]
        for each in report.overlap
    ]
    note = (
        "Pairs with a side that stood in the training text. The leakage filter dropped those "
        "training pairs."
    )
    return Table(
        "Evaluation text found in training", [["", "pairs", "found", "share"], *rows], note
    )


def mixture_table(report: Report) -> Table:
    rows = [
        [each["member"], f"{each['pairs']:,}", f"{each['weight']:.3g}", percent(each["share"], 1)]
        for each in report.mixture
    ]
    note = "The weight says how often each pair is seen in an epoch."
    return Table("Mixture", [["", "pairs", "weight", "share of an epoch"], *rows], note)


def time_table(report: Report) -> Table:
    rows = [[STAGES.get(name, name), duration(time)] for name, time in report.seconds.items()]
    total = ["all", duration(sum(report.seconds.values()))]
    note = f"{report.pairs_per_second:,.0f} pairs read per second."
    return Table("Time", [["", "wall time"], *rows, total], note)


def report_text(report: Report) -> str:
    """The report as lines of at most 80 characters, unless names are very long."""
    dropped = [
        [reason, f"{count:,}", percent(count, report.read)]
        for reason, count in report.dropped.items()
    ]
    lost = report.read - report.kept
    total = ["all", f"{lost:,}", percent(lost, report.read)]
    tables = [
        Table("Dropped", [["", "pairs", "of all read"], *dropped, total]),
        sides_table(report),
        vocabulary_table(report),
    ]
    tables += [overlap_table(report)] if report.overlap else []
    tables += [mixture_table(report)] if len(report.mixture) > 1 else []
    head = (
        f"{report.name}: {report.read:,} pairs read, {report.kept:,} kept "
        f"({percent(report.kept, report.read)})"
    )
    blocks = [head, *map(_block, [*tables, time_table(report)])]
    return "\n\n".join(blocks) + f"\n\nfingerprint {report.fingerprint}\n"


def _block(table: Table) -> str:
    """A table as aligned lines: the first column to the left, numbers to the right."""
    rows = [[table.title, *table.rows[0][1:]]]
    rows += [[f"  {row[0]}", *row[1:]] for row in table.rows[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *textwrap.wrap(table.note, WIDTH)])
