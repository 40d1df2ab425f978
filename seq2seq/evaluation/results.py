"""Where the record of an evaluation and its texts are written, and how it is shown."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.errors import RunError
from seq2seq.evaluation.record import NAME, Evaluation, TextFile
from seq2seq.files import replace_text

OPTIONAL = ("groups", "comet")  # texts that some evaluations have, whatever they are of
ROLES = ("hypotheses", "references", "sources", *OPTIONAL)


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


def write(record: Evaluation, contents: Mapping[str, Sequence[str]], path: Path) -> None:
    """Write a record and its texts; an earlier record may have had more texts, which go.

    Raises:
        RunError: they cannot be written.
    """
    with _writing(path):
        for role, lines in contents.items():
            text = "".join(f"{line}\n" for line in lines)
            replace_text(path.parent / record.files[role].path, text)
        record.write(path)
        for role in set(OPTIONAL) - record.files.keys():
            (path.parent / _file_name(role, path)).unlink(missing_ok=True)


def require_place(path: Path, identity: str, roles: Sequence[str]) -> None:
    """Raise RunError if a record would overwrite anything but that of the same evaluation.

    Args:
        path: of the record, which the user chose.
        identity: of the evaluation.
        roles: of the files that are written beside it.
    """
    if path.exists():
        try:
            free = Evaluation.read(path).identity == identity
        except RunError:  # whatever it is, it is not ours to replace
            free = False
    else:
        free = not any((path.parent / _file_name(role, path)).exists() for role in roles)
    if not free:
        raise RunError(
            f"{path} or files beside it are of another evaluation, or damaged, and would be "
            "overwritten: name another place, output="
        )


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


def in_words(record: Evaluation) -> Iterator[str]:
    """Lines that say what a record has, but for its notes."""
    for score in record.scores:
        limits = "" if score.low is None else f"{score.low:.2f} to {score.high:.2f}"
        yield f"{score.name:>10}  {score.value:6.2f}  {limits:14}  {score.signature}"
    faults = ""
    if record.degenerate:
        kinds = [f"{name} {n}" for name, n in record.degenerate.items() if name != "any" and n]
        faults = f"; {record.degenerate['any']} degenerate" + f" ({', '.join(kinds)})" * bool(kinds)
    yield (
        f"{record.sentences} sentences; lengths {record.length_ratio:.3f} of the references'; "
        f"{record.exact_matches} exact matches{faults}"
    )
    for breakdown in record.breakdowns:
        yield f"by {breakdown.by}:"
        for group in breakdown.groups:
            scores = "  ".join(f"{name} {value:6.2f}" for name, value in group.scores.items())
            yield f"{group.name:>10}  {scores}  {group.sentences} sentences"
    if "unknown" in record.overlap:
        yield f"not compared with training text: {record.overlap['unknown']}"
    if record.seconds is not None:
        rate = record.sentences / max(record.seconds, 1e-9)
        yield f"translated in {record.seconds:.1f} s ({rate:.1f} sentences per second)"
