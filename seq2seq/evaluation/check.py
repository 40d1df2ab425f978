"""`scripts/evaluate.py --check`: every number of a record again, from the texts it was made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seq2seq.errors import RunError
from seq2seq.evaluation import comet
from seq2seq.evaluation.findings import find, stored_texts
from seq2seq.evaluation.record import NAME, Evaluation, Findings

SHOWN = 10  # differences that are named


def check(path: Path) -> str:
    """Compute an evaluation again, to the last digit; returns what was found, in words.

    What COMET says of each sentence is taken as it stands in the file, and only its mean is
    computed: its model may not be here.

    Raises:
        UserError: a number differs, or a file is missing or was changed.
    """
    path = path / NAME if path.is_dir() else path
    record = Evaluation.read(path)
    again = find(stored_texts(record, path.parent), record.data["language"])
    if "comet" in record.files and (stored := record.score("COMET")):
        values = [float(line) for line in record.lines("comet", path.parent)]
        score = comet.comet_score(values, stored.signature)
        again = replace(again, scores=[*again.scores, score])
    names = [one.name for one in fields(Findings)]
    differences = list(_differences({name: asdict(record)[name] for name in names}, asdict(again)))
    if not differences:
        return f"{path}: all numbers are those of its {record.sentences} sentences"
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


def _differences(stored: Any, again: Any, where: str = "") -> Iterator[str]:
    """What differs between two values as JSON has them, a line for each."""
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in stored.keys() | again.keys():
            place = f"{where}.{key}" if where else str(key)
            yield from _differences(stored.get(key), again.get(key), place)
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for one, other in zip(stored, again, strict=True):
            name = one.get("name") or one.get("by") if isinstance(one, dict) else ""
            yield from _differences(one, other, f"{where}[{name}]")
    elif stored != again:
        yield f"{where} is {stored} there and {again} by its texts"
