"""The report of runs: one HTML file that needs nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import yaml

from seq2seq.errors import RunError, command_line
from seq2seq.files import replace_text
from seq2seq.html_page import render
from seq2seq.provenance import Provenance
from seq2seq.report.attention import attention
from seq2seq.report.charts import Line
from seq2seq.report.comparison import LACKING, Rows, settings_table, trade_off
from seq2seq.report.curves import curves
from seq2seq.report.data import corpora
from seq2seq.report.facts import facts
from seq2seq.report.run import Run, damage_named, read_runs
from seq2seq.report.scores import by_test_set, score_table
from seq2seq.report.translations import evaluated, samples

log = logging.getLogger(__name__)

SECTIONS = ("Curves", "Scores", "Translations", "Attention", "Data", "Settings", "Make it again")
MARK = "<!-- report of seq2seq runs -->"  # by which a file is known that may be replaced


def write_report(runs: Sequence[Path], output: Path, tests: Rows | None = None) -> None:
    """Write the page of one or several runs, whole or not at all.

    Args:
        runs: their folders.
        output: the file; an earlier report there is replaced.
        tests: see `report_page`.

    Raises:
        RunError: a folder is no run, or damaged; the file is something else, or cannot be written.
    """
    require_report(output)
    with damage_named(runs):
        page = report_page(read_runs(runs), tests)
    try:
        replace_text(output, page)
    except OSError as error:
        raise RunError(
            f"the report {output} cannot be written: {error.strerror}. Name another file"
        ) from error


def run_of(place: Path) -> Path | None:
    """The folder of a run that a bundle is of; `place` is that folder, or that of the bundle."""
    return next((p for p in (place, place.parent) if (p / "config.yaml").is_file()), None)


def refresh_report(run: Path) -> None:
    """Write the report of a run anew, if it has one."""
    if (run / "report.html").is_file():
        try_report(run)


def try_report(run: Path) -> None:
    """Write the report of a run; what is wrong with that is only said."""
    output = run / "report.html"
    try:
        write_report([run], output)
        log.info("look        %s", output)
    except Exception as error:
        log.warning(
            "%s was not written: %s. To try again: %s",
            *(output, error or type(error).__name__, command_line("report", run)),
        )


def require_report(output: Path) -> None:
    """Raise RunError if a file is there that is no report, or cannot be replaced."""
    try:
        if output.exists() and not output.is_file():  # opening a pipe would wait for its writer
            raise RunError(f"{output} cannot be written: it is no ordinary file. Name a file")
        with output.open(encoding="utf-8", errors="replace") as old:
            if MARK not in old.read(len(MARK)):
                raise RunError(f"{output} is no report of runs: name another file, or remove it")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror}. Name a file") from error


def report_page(runs: Sequence[Run], tests: Rows | None = None) -> str:
    """The whole page.

    Args:
        runs: that it is about.
        tests: a table of the significance of the scores, which all runs have on one test set.
    """
    name = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    found = [facts(run) for run in runs]
    page = render(
        "run.html",
        title=f"{name}: report",
        name=name,
        runs=runs,
        sections=[(title.lower().replace(" ", "-"), title) for title in SECTIONS],
        facts=[
            (title, [one.get(title, (LACKING, "")) for one in found])
            for title in dict.fromkeys(title for one in found for title in one)
        ],
        legend=[Line(run.name, [(0, 0)], look) for look, run in enumerate(runs)],
        findings=[(run, wrong) for run in runs if (wrong := run.findings)],
        trade_off=trade_off(runs) if len(runs) > 1 else None,
        tests=tests,
        curves=curves(runs),
        test_sets=[score_table(one) for one in by_test_set(runs)],
        not_scored=[run.name for run in runs if not run.evaluations],
        translations=evaluated(runs),
        samples=samples(runs),
        no_samples=[run.name for run in runs if not run.samples],
        attention=attention(runs),
        corpora=corpora(runs),
        no_data=[run.name for run in runs if not run.data],
        differences=settings_table(runs),
        settings=yaml.safe_dump(runs[0].settings, sort_keys=False, allow_unicode=True),
        origins=[(run, *_origin(run.origin)) for run in runs],
    )  # fmt: skip
    return f"{MARK}\n{page}"


def _origin(origin: Provenance | None) -> tuple[list[str], list[str]]:
    """The commands that make a run again, and notes on what they ran on; empty if unknown."""
    if origin is None or not origin.starts:
        return [], []
    first, last = origin.starts[0], origin.starts[-1]
    commit = (first.revision or "").removesuffix("+")
    commands = [f"git checkout {commit}"] if commit else []
    versions = ", ".join(f"{name} {number}" for name, number in last.versions.items())
    notes = {
        f"started {first.time} on {first.device}": True,
        f"{first.processes} processes (torchrun)": first.processes > 1,
        "files of the code differed from this commit": "+" in (first.revision or ""),
        "the code was not under git": not first.revision,
        f"went on {len(origin.starts) - 1} times, last {last.time}": len(origin.starts) > 1,
        "the code changed before it went on": last.revision != first.revision,
        f"fingerprint of the data: {origin.data}": bool(origin.data),
        f"versions: {versions}": True,
    }
    commands += [start.command for start in origin.starts]
    return commands, [note for note, holds in notes.items() if holds]
