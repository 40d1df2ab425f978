"""Read the folder of a run; only `config.yaml` is required, other files may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateError

from seq2seq.config import migrated
from seq2seq.data.report import Report
from seq2seq.errors import RunError
from seq2seq.evaluation.record import Evaluation, records_of
from seq2seq.findings import Finding, Record, findings
from seq2seq.provenance import DATA_REPORT, Provenance
from seq2seq.trackers.csv import METRICS, read_curves

SAMPLES = "samples.jsonl"  # docs/reference/files.md lists its entries
REMEDY = "restore it, or delete it to do without"

Sample = dict[str, Any]  # a line of SAMPLES, or a sentence of it


@dataclass(frozen=True, kw_only=True)
class Run(Record):
    """A run, finished or not, with its evaluations by the folder of their record."""

    folder: Path
    name: str  # unique on the page
    summary: dict[str, Any] = field(default_factory=dict)  # empty while the run is not finished
    evaluations: dict[Path, Evaluation] = field(default_factory=dict)
    origin: Provenance | None = None  # None if unknown

    @cached_property
    def findings(self) -> list[Finding]:
        """What looks wrong with the run."""
        return findings(self)


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read runs, and give each a unique name.

    Raises:
        RunError: a folder is no run, or something in it is damaged.
    """
    return [read_run(f, n) for f, n in zip(folders, _names(folders), strict=True)]


def _names(folders: Sequence[Path]) -> list[str]:
    """Name each run by the last parts of its path, as few as make all names differ."""
    paths = [folder.resolve().parts for folder in folders]
    for folder, path in zip(folders, paths, strict=True):
        if paths.count(path) > 1:
            raise RunError(f"the run {folder} is given twice: name each run once")
    length, names = 1, [path[-1] for path in paths]
    while len(set(names)) < len(names):
        length += 1
        names = ["/".join(path[-length:]) for path in paths]
    return names


def read_run(folder: Path, name: str) -> Run:
    """Read one run.

    Raises:
        RunError: the folder is no run, or a file in it is damaged.
    """
    if not (folder / "config.yaml").is_file():
        raise RunError(
            f"{folder} is not a run, since it has no config.yaml: give the folder that training "
            "wrote, such as runs/NAME"
        )
    settings = migrated(_read(folder / "config.yaml", yaml.safe_load, dict))
    for part in ("model", "data", "trainer"):
        if not isinstance(settings.get(part), dict):
            raise RunError(f"{folder / 'config.yaml'} is damaged, it has no {part}: restore it")
    origin = Provenance.read(folder)
    return Run(
        folder=folder,
        name=name,
        settings=settings,
        summary=_read(folder / "summary.json", json.loads, dict) or {},
        curves=read_curves(folder / METRICS),
        evaluations={path.parent: one for path, one in records_of(folder).items()},
        samples=read_samples(folder),
        data=_read(folder / DATA_REPORT, lambda text: Report(**json.loads(text)), Report),
        device=origin.starts[-1].device if origin and origin.starts else "",
        origin=origin,
    )


def read_samples(run_dir: Path) -> list[Sample]:
    """Read the translations of each validation, without lines that a power cut damaged.

    `sentences` are the same through the whole run, from short to long; `worst` are those with the
    lowest chrF2 of that validation.
    """
    file = run_dir / SAMPLES
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = []
    # Not `splitlines`: texts may have other characters that Python takes for the end of a line.
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
            if type(entry["step"]) is int and isinstance(entry["sentences"], list):
                found.append(entry)
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _read(path: Path, parse: Any, kind: type) -> Any:
    """Read and parse a file; None if it does not exist."""
    try:
        found = parse(path.read_text(encoding="utf-8"))
        if not isinstance(found, kind):
            raise TypeError(f"it holds a {type(found).__name__}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())[:200]
        raise RunError(f"{path} is damaged ({why}): {REMEDY}") from error
    return found


@contextmanager
def damage_named(folders: Sequence[Path]) -> Iterator[None]:
    """While the block reads and shows runs, report values that it cannot show as damage.

    Raises:
        RunError: a file of one of the runs has values that training does not write.
    """
    try:
        yield
    except (OSError, KeyError, TypeError, ValueError, AttributeError, TemplateError) as error:
        raise RunError(
            f"a file of {' or '.join(map(str, folders))} is damaged ({error!r}): {REMEDY}"
        ) from error
