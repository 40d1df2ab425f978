"""The record of an evaluation: `evaluation.json`. docs/reference/files.md lists its entries.

The record names the files of the texts that were scored, relative to its own folder, with their
fingerprints, so that the scores can be computed again.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2seq.data.fingerprint import fingerprint, text_fingerprint
from seq2seq.errors import RunError, command_line
from seq2seq.files import replace_text
from seq2seq.lines import lines_of

log = logging.getLogger(__name__)

FORMAT = 1
NAME = "evaluation.json"
ROLES = ("hypotheses", "references", "sources")  # of the files; older records have others, too


class OtherVersion(RunError):
    """The record was written by another version of this project."""


@dataclass(frozen=True)
class Score:
    """A corpus score.

    The value is from 0 to 100, except for TER (0 is best, no upper bound).
    `low` and `high` are a 95 % interval by bootstrap; None if it was not computed.
    """

    name: str
    value: float
    signature: str  # how the score was computed, in sacrebleu's notation
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """A group of sentences with a common property: its name, size, and scores by name."""

    name: str
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Breakdown:
    """A division of the corpus by one property; each sentence is in exactly one group."""

    by: str
    groups: list[Group]


@dataclass(frozen=True)
class TextFile:
    """A file of texts that were scored: its path, relative to the record, and its fingerprint."""

    path: str
    fingerprint: str


@dataclass(frozen=True)
class Figures:
    """The part of a record that follows from the texts alone, and can be computed again."""

    scores: list[Score]
    intervals: dict[str, Any] | None
    sentences: int
    length_ratio: float
    exact_matches: int
    degenerate: dict[str, int]
    breakdowns: list[Breakdown]


@dataclass(frozen=True)
class Evaluation(Figures):
    """The content of `evaluation.json`."""

    overlap: dict[str, Any]
    notes: list[str]
    data: dict[str, Any]
    model: dict[str, Any] | None
    decode: dict[str, Any] | None
    seconds: float | None
    versions: dict[str, str]
    files: dict[str, TextFile]

    @property
    def identity(self) -> str:
        """The identity of the weights, search settings and texts; see `identity_of`."""
        given = self.files["hypotheses"].fingerprint if self.model is None else None
        return identity_of(self.data["fingerprint"], self.model, self.decode, given)

    def score(self, name: str) -> Score | None:
        """Return the score of this name; None if it was not computed."""
        return next((score for score in self.scores if score.name == name), None)

    @property
    def label(self) -> str:
        """The name of the test set and its split, for readers."""
        return f"{self.data['name']} {self.data['split']}".strip()

    @property
    def search(self) -> str:
        """The search that found the translations, in words; empty if they were given."""
        decode = self.decode or {}
        strategy = str(decode.get("strategy", ""))
        return f"beam {decode['beam']}" if strategy == "beam" else strategy

    def write(self, path: Path, contents: Mapping[str, Sequence[str]] | None = None) -> None:
        """Write the record atomically, and before it the files in `contents` (lines by role).

        Raises:
            RunError: a file cannot be written.
        """
        values = {"format": FORMAT, **asdict(self)}
        with _writing(path):
            for role, lines in (contents or {}).items():
                text = "".join(f"{line}\n" for line in lines)
                replace_text(path.parent / self.files[role].path, text)
            replace_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """Read a record.

        Raises:
            RunError: the record is missing or damaged.
            OtherVersion: the record was written by another version.
        """
        remedy = "evaluate again, or delete it"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {path} ({error}): {remedy}") from error
        version = values.pop("format", None) if isinstance(values, dict) else None
        if version != FORMAT:
            files = ("hypothesis=FILE", "reference=FILE", "output=OTHER.json")
            raise OtherVersion(
                f"{path} is not a record of this version of seq2seq (its format is "
                f"{version or 'not named'}, and this version reads {FORMAT}): evaluate again, or "
                f"score its texts into another file: {command_line('evaluate', *files)}"
            )
        try:
            values["scores"] = [Score(**score) for score in values["scores"]]
            values["breakdowns"] = [
                Breakdown(one["by"], [Group(**group) for group in one["groups"]])
                for one in values["breakdowns"]
            ]
            values["files"] = {role: TextFile(**file) for role, file in values["files"].items()}
            found = cls(**values)
            _ = found.identity, found.label, found.data["language"]
            _ = found.files["hypotheses"], found.files["references"]
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is damaged ({error!r}): {remedy}") from error
        return found

    def in_words(self) -> Iterator[str]:
        """Yield lines that describe the record, without its notes."""
        for score in self.scores:
            limits = "" if score.low is None else f"{score.low:.2f} to {score.high:.2f}"
            yield f"{score.name:>10}  {score.value:6.2f}  {limits:14}  {score.signature}"
        faults = ""
        if self.degenerate:
            kinds = [f"{name} {n}" for name, n in self.degenerate.items() if name != "any" and n]
            faults = f"; {self.degenerate['any']} degenerate"
            faults += f" ({', '.join(kinds)})" if kinds else ""
        yield (
            f"{self.sentences} sentences; lengths {self.length_ratio:.3f} of the references'; "
            f"{self.exact_matches} exact matches{faults}"
        )
        for breakdown in self.breakdowns:
            yield f"by {breakdown.by}:"
            for group in breakdown.groups:
                scores = "  ".join(f"{name} {value:6.2f}" for name, value in group.scores.items())
                yield f"{group.name:>10}  {scores}  {group.sentences} sentences"
        if "unknown" in self.overlap:
            yield f"not compared with training text: {self.overlap['unknown']}"
        if self.seconds is not None:
            rate = self.sentences / max(self.seconds, 1e-9)
            yield f"translated in {self.seconds:.1f} s ({rate:.1f} sentences per second)"

    def lines(self, role: str, folder: Path) -> list[str]:
        """Read the lines of one of the record's files; see `read_lines`."""
        return read_lines(folder / self.files[role].path, self.files[role].fingerprint)


def identity_of(
    test_set: str,
    model: Mapping[str, Any] | None = None,
    decode: Mapping[str, Any] | None = None,
    hypotheses: str | None = None,
) -> str:
    """Hash the weights, the search settings and the texts to eight hexadecimal digits.

    `test_set` and `hypotheses`, of given translations only, are fingerprints.
    """
    weights = None if model is None else [model["sha256"], model["precision"]]
    return fingerprint([weights, decode, test_set, hypotheses])[:8]


def records_of(run: Path) -> dict[Path, Evaluation]:
    """Read the evaluations of a run, by path; warn of those of other versions and omit them.

    Raises:
        RunError: a record is damaged.
    """
    found: dict[Path, Evaluation] = {}
    for path in sorted(run.glob(f"evaluation/*/{NAME}")):
        try:
            found[path] = Evaluation.read(path)
        except OtherVersion as error:
            log.warning("left out: %s", error)
    return found


def read_lines(path: Path, expected: str | None = None) -> list[str]:
    """Read the lines of a file, without spaces at their ends, which no metric sees.

    Raises:
        DataError: the file cannot be read.
        RunError: the lines do not have the `expected` fingerprint.
    """
    lines = [line.rstrip() for line in lines_of(path)]
    if expected is not None and text_fingerprint(lines) != expected:
        raise RunError(
            f"{path} was changed after it was scored, so its scores are those of another text: "
            "evaluate again, or restore it"
        )
    return lines


def name_files(
    contents: Mapping[str, Sequence[str]], given: Mapping[str, Path], path: Path | None
) -> dict[str, TextFile]:
    """Return paths and fingerprints of the files of the record at `path`, by role.

    Files that are `given` stay where they are; the others will be beside the record.
    """
    path = path or Path(NAME)
    return {
        role: TextFile(
            os.path.relpath(given[role], path.parent) if role in given else f"{role}.txt",
            text_fingerprint(lines),
        )
        for role, lines in contents.items()
    }


def require_place(path: Path, identity: str | None, roles: Sequence[str]) -> None:
    """Make the folder of a record; refuse a place where the record cannot be written.

    Files with these roles will be beside the record. If the `identity` of the evaluation is None,
    any record at `path` may be overwritten.

    Raises:
        RunError: another evaluation would be overwritten, or nothing can be written.
    """
    free = identity is None or not any(
        one.exists() for one in (path, *(path.parent / f"{role}.txt" for role in roles))
    )
    if not free and path.exists():
        with suppress(RunError):  # if the file is no readable record, it stays
            free = Evaluation.read(path).identity == identity
    if not free:
        raise RunError(
            f"{path} or files beside it are of another evaluation, or damaged, and would be "
            "overwritten: name another place, output="
        )
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write the results to {path}: {error}. Name another place: output="
        ) from error
