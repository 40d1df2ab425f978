"""What an evaluation found: `evaluation.json`, whose entries docs/reference/files.md lists.

The record names the files that its numbers come from, relative to its own folder, with their
fingerprints, so that the numbers can be computed again.
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
OPTIONAL = ("groups", "comet")  # texts that some evaluations have, whatever they are of
ROLES = ("hypotheses", "references", "sources", *OPTIONAL)


class OtherVersion(RunError):
    """A record of another version of this project."""


@dataclass(frozen=True)
class Score:
    """A corpus score.

    Attributes:
        name: BLEU, chrF2, ...
        value: its value; from 0 to 100 but for TER (0 is best, no upper bound) and COMET.
        signature: how it was computed, as sacrebleu writes it.
        low, high: 95 % interval by bootstrap; None where there is none.
    """

    name: str
    value: float
    signature: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """Sentences that have something in common, and their scores by name."""

    name: str
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Breakdown:
    """The corpus cut into groups by one property; all sentences are in one of them."""

    by: str
    groups: list[Group]


@dataclass(frozen=True)
class TextFile:
    """A file that numbers come from.

    Attributes:
        path: relative to the folder of the record.
        fingerprint: of its lines.
    """

    path: str
    fingerprint: str


@dataclass(frozen=True)
class Figures:
    """What follows from the texts alone, so that it can be computed again from them."""

    scores: list[Score]
    intervals: dict[str, Any] | None
    sentences: int
    length_ratio: float
    exact_matches: int
    degenerate: dict[str, int]
    breakdowns: list[Breakdown]


@dataclass(frozen=True)
class Evaluation(Figures):
    """All of `evaluation.json`."""

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
        """See `identity_of`."""
        given = self.files["hypotheses"].fingerprint if self.model is None else None
        return identity_of(self.data["fingerprint"], self.model, self.decode, given)

    def score(self, name: str) -> Score | None:
        """The score of this name, if it was computed."""
        return next((score for score in self.scores if score.name == name), None)

    @property
    def label(self) -> str:
        """The test set in words."""
        return f"{self.data['name']} {self.data['split']}".strip()

    @property
    def search(self) -> str:
        """How the translations were found, in words; empty if they were given."""
        decode = self.decode or {}
        strategy = str(decode.get("strategy", ""))
        return f"beam {decode['beam']}" if strategy == "beam" else strategy

    def write(self, path: Path, contents: Mapping[str, Sequence[str]] | None = None) -> None:
        """Write the record, and before it the lines of its files by role, each file whole.

        Raises:
            RunError: they cannot be written.
        """
        values = {"format": FORMAT, **asdict(self)}
        with _writing(path):
            for role, lines in (contents or {}).items():
                text = "".join(f"{line}\n" for line in lines)
                replace_text(path.parent / self.files[role].path, text)
            replace_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
            for role in set(OPTIONAL) - self.files.keys():  # of an earlier record that stood here
                (path.parent / _file_name(role, path)).unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """Read a record.

        Raises:
            RunError: it is missing or damaged; OtherVersion: it is of another version.
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
                f"{path} is no record of this version of seq2seq (its format is "
                f"{version or 'not named'}, and {FORMAT} is read): evaluate again, or score its "
                f"texts into another file: {command_line('evaluate', *files)}"
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
        """Lines that say what a record has, but for its notes."""
        for score in self.scores:
            limits = "" if score.low is None else f"{score.low:.2f} to {score.high:.2f}"
            yield f"{score.name:>10}  {score.value:6.2f}  {limits:14}  {score.signature}"
        faults = ""
        if self.degenerate:
            kinds = [f"{name} {n}" for name, n in self.degenerate.items() if name != "any" and n]
            faults = f"; {self.degenerate['any']} degenerate" + f" ({', '.join(kinds)})" * bool(
                kinds
            )
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
        """The lines of one of its files; see `read_lines`."""
        return read_lines(folder / self.files[role].path, self.files[role].fingerprint)


def identity_of(
    test_set: str,
    model: Mapping[str, Any] | None = None,
    decode: Mapping[str, Any] | None = None,
    hypotheses: str | None = None,
) -> str:
    """Eight digits that are those of the same weights, search and texts only.

    Args:
        test_set: fingerprint of sources and references.
        model, decode: as in the record.
        hypotheses: fingerprint of translations that were given.
    """
    weights = None if model is None else [model["sha256"], model["precision"]]
    return fingerprint([weights, decode, test_set, hypotheses])[:8]


def records_of(run: Path) -> dict[Path, Evaluation]:
    """The evaluations of a run by their paths; those of other versions are left out, and named.

    Raises:
        RunError: one is damaged.
    """
    found: dict[Path, Evaluation] = {}
    for path in sorted(run.glob(f"evaluation/*/{NAME}")):
        try:
            found[path] = Evaluation.read(path)
        except OtherVersion as error:
            log.warning("left out: %s", error)
    return found


def read_lines(path: Path, expected: str | None = None) -> list[str]:
    """Lines of a text, without spaces at their ends, which no metric sees.

    Args:
        path: of the file.
        expected: its fingerprint.

    Raises:
        DataError: it cannot be read.
        RunError: it is not the one that was fingerprinted.
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
    """Names and fingerprints of the files of a record.

    Args:
        contents: their lines.
        given: those that are there, and stay where they are.
        path: of the record; None if it is not written.
    """
    path = path or Path(NAME)
    return {
        role: TextFile(
            os.path.relpath(given[role], path.parent) if role in given else _file_name(role, path),
            text_fingerprint(lines),
        )
        for role, lines in contents.items()
    }


def _file_name(role: str, record: Path) -> str:
    """Of a text that is written beside its record."""
    suffix = "tsv" if role == "groups" else "txt"
    return f"{role}.{suffix}" if record.name == NAME else f"{record.stem}.{role}.{suffix}"


def require_place(path: Path, identity: str | None, roles: Sequence[str]) -> None:
    """Make the folder of a record, or say why it cannot stand there.

    Args:
        path: of the record.
        identity: of the evaluation; None if whatever stands there is of this one.
        roles: of the files that are written beside it.

    Raises:
        RunError: another evaluation would be overwritten, or nothing can be written.
    """
    free = identity is None or not any(
        one.exists() for one in (path, *(path.parent / _file_name(role, path) for role in roles))
    )
    if not free and path.exists():
        with suppress(RunError):  # whatever it is, it is not ours to replace
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
