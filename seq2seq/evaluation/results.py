"""Where evaluations are kept, and how they are shown."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.errors import RunError
from seq2seq.evaluation.findings import Texts, group_lines
from seq2seq.evaluation.record import NAME, Breakdown, Evaluation, TextFile
from seq2seq.files import replace_text

OPTIONAL = ("groups", "comet")  # files that an evaluation writes or not, whatever it is of
ROLES = ("hypotheses", "references", "sources", *OPTIONAL)


@dataclass(frozen=True)
class Identity:
    """What makes two evaluations one, so that the later may replace the earlier.

    Attributes:
        fingerprint: of the test set.
        model, decode: as in the record; None for given translations.
        hypotheses: the file of given translations; None if a model makes them.
    """

    fingerprint: str
    model: Mapping[str, Any] | None = None
    decode: Mapping[str, Any] | None = None
    hypotheses: Path | None = None

    def is_of(self, record: Evaluation, folder: Path) -> bool:
        """Whether the record in this folder is the same evaluation."""
        if self.hypotheses is not None:
            stored = folder / record.files["hypotheses"].path
            same = record.model is None and stored.resolve() == self.hypotheses.resolve()
        else:
            weights = [
                model and [model["sha256"], model["precision"]]
                for model in (self.model, record.model)
            ]
            same = weights[0] == weights[1] and self.decode == record.decode
        return same and self.fingerprint == record.data["fingerprint"]


def _is_free(path: Path, identity: Identity) -> bool:
    """Whether a record may be written: nothing is there but this very evaluation."""
    if not path.exists():  # of given translations, only the other files are written
        roles = ROLES if identity.hypotheses is None else OPTIONAL
        return not any((path.parent / _file_name(role, path)).exists() for role in roles)
    try:
        return identity.is_of(Evaluation.read(path), path.parent)
    except RunError:  # whatever it is, it is not ours to replace
        return False


def require_place(path: Path, identity: Identity) -> None:
    """Raise RunError if writing a record to `path` would overwrite something else."""
    if not _is_free(path, identity):
        raise RunError(
            f"{path} or files beside it are of another evaluation, or damaged, and would be "
            "overwritten: name another place, output="
        )


def free_folder(folder: Path, identity: Identity) -> Path:
    """The folder of this name, or with a number, that may be written."""
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(f for f in itertools.chain([folder], numbered) if _is_free(f / NAME, identity))


def texts_by_role(texts: Texts, comet: Sequence[float] | None) -> dict[str, list[str]]:
    """The lines of all files that belong to an evaluation."""
    lines = {
        "hypotheses": texts.hypotheses,
        "references": texts.references,
        "sources": texts.sources,
        "groups": group_lines(texts.groups) if texts.groups else None,
        "comet": None if comet is None else [repr(value) for value in comet],
    }
    return {role: own for role, own in lines.items() if own is not None}


def name_files(
    contents: Mapping[str, Sequence[str]], given: Mapping[str, Path], path: Path | None
) -> dict[str, TextFile]:
    """Names and fingerprints of the files of a record.

    Args:
        contents: their lines.
        given: those that are there, and stay where they are.
        path: of the record; None if it is not written.
    """
    folder, name = (Path(), NAME) if path is None else (path.parent, path.name)
    return {
        role: TextFile(
            os.path.relpath(given[role], folder) if role in given else _file_name(role, Path(name)),
            text_fingerprint(lines),
        )
        for role, lines in contents.items()
    }


def _file_name(role: str, record: Path) -> str:
    """Of a text that is written beside its record."""
    suffix = "tsv" if role == "groups" else "txt"
    return f"{role}.{suffix}" if record.name == NAME else f"{record.stem}.{role}.{suffix}"


def write(record: Evaluation, contents: Mapping[str, Sequence[str]], path: Path) -> None:
    """Write a record and its files; then remove those of the record before that it has no more.

    Raises:
        RunError: they cannot be written.
    """
    before = Evaluation.read(path).files if path.exists() else {}
    with _writing(path):
        for role, lines in contents.items():
            text = "".join(f"{line}\n" for line in lines)
            replace_text(path.parent / record.files[role].path, text)
        record.write(path)
        for role in OPTIONAL:
            if role in before and role not in record.files:
                (path.parent / _file_name(role, path)).unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Make the folder of a record; raise RunError if nothing can be written there."""
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


def table(record: Evaluation) -> str:
    """A record in words, but for its notes."""
    return "\n".join(_lines(record))


def _lines(record: Evaluation) -> Iterator[str]:
    for score in record.scores:
        limits = "" if score.low is None else f"{score.low:.2f} to {score.high:.2f}"
        yield f"{score.name:>10}  {score.value:6.2f}  {limits:14}  {score.signature}"
    yield (
        f"{record.sentences} sentences; lengths {record.length_ratio:.3f} of the references'; "
        f"{record.exact_matches} exact matches{_faults(record.degenerate)}"
    )
    for breakdown in record.breakdowns:
        yield from _groups(breakdown)
    if "unknown" in record.overlap:
        yield f"not compared with training text: {record.overlap['unknown']}"
    if record.seconds is not None:
        rate = record.sentences / max(record.seconds, 1e-9)
        yield f"translated in {record.seconds:.1f} s ({rate:.1f} sentences per second)"


def _faults(degenerate: Mapping[str, int]) -> str:
    if not degenerate:
        return ""
    kinds = [f"{name} {n}" for name, n in degenerate.items() if name != "any" and n]
    return f"; {degenerate['any']} degenerate" + (f" ({', '.join(kinds)})" if kinds else "")


def _groups(breakdown: Breakdown) -> Iterator[str]:
    yield f"by {breakdown.by}:"
    for group in breakdown.groups:
        scores = "  ".join(f"{name} {value:6.2f}" for name, value in group.scores.items())
        yield f"{group.name:>10}  {scores}  {group.sentences} sentences"
