"""`evaluate check=FILE`: every number of a record again, from the texts it was made of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.errors import RunError
from seq2seq.evaluation import comet
from seq2seq.evaluation.findings import Texts, by_length, find, one_line, read_groups
from seq2seq.evaluation.notes import notes_on
from seq2seq.evaluation.record import NAME, Evaluation
from seq2seq.evaluation.training_text import SHOWN as EXAMPLES
from seq2seq.lines import lines_of

SHOWN = 10  # differences that are named
BY_LENGTH = "source words"
SEED = "SACREBLEU_SEED"


def check(path: Path, given: Mapping[str, Path] | None = None) -> str:
    """Compute an evaluation again, to the last digit; returns what was found, in words.

    What COMET says of each sentence is taken as it stands in the file, and only its mean is
    computed: its model may not be here. What needs files that are not kept is left out, and said.

    Args:
        path: of the record, or its folder.
        given: references and sources, by these names, if they are not kept beside it.

    Raises:
        UserError: a number differs, or a file is missing or was changed.
    """
    path = path / NAME if path.is_dir() else path
    record, left_out = _without_lost(Evaluation.read(path), path.parent)
    again = _again(record, _texts(record, path.parent, given or {}), path.parent)
    values = asdict(record)
    differences = list(_differences({name: values[name] for name in again}, again))
    if not differences:
        missing = f"; left out: {', '.join(left_out)}" if left_out else ""
        return f"{path}: all numbers are those of its {record.sentences} sentences{missing}"
    if len(differences) > SHOWN:
        differences[SHOWN:] = [f"and {len(differences) - SHOWN} more"]
    others = [
        f"{name} {stored} then, {version(name)} now"
        for name, stored in record.versions.items()
        if name in ("sacrebleu", "sacremoses") and version(name) != stored
    ]
    raise RunError(
        f"{path} does not agree with its texts:\n  "
        + "\n  ".join([*differences, *others])
        + "\nevaluate again, or install the versions that it names"
    )


def _without_lost(record: Evaluation, folder: Path) -> tuple[Evaluation, list[str]]:
    """A record as far as it can be checked without files that are not kept; what is left out."""
    lost = {
        role
        for role in ("groups", "comet")
        if role in record.files and not (folder / record.files[role].path).is_file()
    }
    left_out = []
    if "groups" in lost:  # only these follow from the texts themselves
        kept = [one for one in record.breakdowns if one.by == BY_LENGTH]
        left_out = [f"by {one.by}" for one in record.breakdowns if one.by != BY_LENGTH]
        left_out = [*left_out, "overlap"] if "sources" in record.overlap else left_out
        record = replace(record, breakdowns=kept)
    if "comet" in lost:
        scores = [score for score in record.scores if score.name != "COMET"]
        record, left_out = replace(record, scores=scores), [*left_out, "COMET"]
    files = {role: file for role, file in record.files.items() if role not in lost}
    return replace(record, files=files), left_out


def _texts(record: Evaluation, folder: Path, given: Mapping[str, Path]) -> Texts:
    """What was scored, from the files of the record and those that are given."""
    sources = _lines(record, "sources", folder, given) if "sources" in record.files else None
    groups = {} if sources is None else {BY_LENGTH: by_length(sources)}
    if "groups" in record.files:
        groups = read_groups(record.lines("groups", folder))
    references = _lines(record, "references", folder, given)
    return Texts(record.lines("hypotheses", folder), references, sources, groups)


def _lines(record: Evaluation, role: str, folder: Path, given: Mapping[str, Path]) -> list[str]:
    """Lines of the test set, whose files may be elsewhere."""
    path, setting = folder / record.files[role].path, role.removesuffix("s")
    if path.is_file():
        return record.lines(role, folder)
    if setting not in given:
        raise RunError(
            f"{path} is not there, and the numbers follow from it: name the {role} of the test "
            f"set, one on each line, {setting}=FILE"
        )
    lines = [one_line(line) for line in lines_of(given[setting])]
    if text_fingerprint(lines) != record.files[role].fingerprint:
        raise RunError(
            f"{setting}={given[setting]} holds other lines than the {role} that were scored: name "
            f"those of {record.label}"
        )
    return lines


def _again(record: Evaluation, texts: Texts, folder: Path) -> dict[str, Any]:
    """What follows from the texts, as the record has it."""
    with _seed(record):
        findings = find(texts, record.data["language"])
        if "comet" in record.files and (stored := record.score("COMET")):
            values = [float(line) for line in record.lines("comet", folder)]
            score = comet.comet_score(values, stored.signature)
            findings = replace(findings, scores=[*findings.scores, score])
    overlap = record.overlap
    if "groups" in record.files and "sources" in overlap:
        seen = texts.groups.get("in training", ["no"] * record.sentences)
        same = [s for s, own in zip(texts.sources or [], seen, strict=False) if own == "yes"]
        overlap = overlap | {"sources": len(same), "examples": same[:EXAMPLES]}
    return asdict(findings) | {
        "overlap": overlap,
        "notes": notes_on(texts, findings, overlap, record.data["language"]),
        "data": record.data | {"fingerprint": texts.fingerprint},
    }


@contextmanager
def _seed(record: Evaluation) -> Iterator[None]:
    """Resamples are drawn as they were for the record, whatever the environment says."""
    before = os.environ.get(SEED)
    if record.intervals is not None:
        os.environ[SEED] = str(record.intervals["seed"])
    try:
        yield
    finally:
        os.environ.pop(SEED, None)
        if before is not None:
            os.environ[SEED] = before


def _differences(stored: Any, again: Any, where: str = "") -> Iterator[str]:
    """What differs between two values as JSON has them, a line for each."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in stored | again:
            place = f"{where}.{key}" if where else str(key)
            yield from _differences(stored.get(key), again.get(key), place)
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for one, other in zip(stored, again, strict=True):
            name = one.get("name") or one.get("by") if isinstance(one, dict) else ""
            yield from _differences(one, other, f"{where}[{name}]")
    elif stored != again:
        yield f"{where} is {stored} there and {again} by its texts"
