"""The report of runs: one HTML file that needs nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import yaml

from seq2seq.errors import RunError, command_line
from seq2seq.files import replace_text
from seq2seq.html_page import render
from seq2seq.report.attention import attention
from seq2seq.report.charts import Line
from seq2seq.report.comparison import Rows, settings_table, trade_off
from seq2seq.report.curves import curves
from seq2seq.report.data import corpora
from seq2seq.report.facts import facts
from seq2seq.report.run import Run, damage_named, read_runs
from seq2seq.report.scores import by_test_set
from seq2seq.report.translations import evaluated, samples

log = logging.getLogger(__name__)

SECTIONS = ("Curves", "Scores", "Translations", "Attention", "Data", "Settings", "Make it again")
MARK = "<!-- report of seq2seq runs -->"  # a file that begins so is a report, and replaceable


def write_report(runs: Sequence[Path], output: Path, tests: Rows | None = None) -> None:
    """Write the page of one or several runs, whole or not at all; see `report_page`.

    Raises:
        RunError: a folder is no run, or damaged; `output` exists and is no report, or cannot be
            written.
    """
    try:
        if output.exists():
            if not output.is_file():  # opening a pipe would wait for its writer
                raise RunError(f"{output} cannot be written: it is not a regular file. Name a file")
            with output.open("rb") as old:
                start = old.read(len(MARK))
            if start != MARK.encode():
                raise RunError(f"{output} is not a report of runs: name another file, or remove it")
        with damage_named(runs):
            page = report_page(read_runs(runs), tests)
        replace_text(output, page)
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror}. Name a file") from error


def run_of(place: Path) -> Path | None:
    """Return the folder of the run, if `place` is a run or the bundle of one; else None."""
    return next((p for p in (place, place.parent) if (p / "config.yaml").is_file()), None)


def refresh_report(run: Path) -> None:
    """Rewrite the report of a run, if it has one."""
    if (run / "report.html").is_file():
        try_report(run)


def try_report(run: Path) -> None:
    """Write the report of a run; if that fails, only log a warning."""
    output = run / "report.html"
    try:
        write_report([run], output)
        log.info("look        %s", output)
    except Exception as error:
        log.warning(
            "%s was not written: %s. To try again: %s",
            *(output, error or type(error).__name__, command_line("report", run)),
        )


def report_page(runs: Sequence[Run], tests: Rows | None = None) -> str:
    """Make the whole page; `tests` is a table of significance tests of the runs' scores."""
    page = render(
        "run.html",
        title=f"{runs[0].name if len(runs) == 1 else f'{len(runs)} runs'}: report",
        runs=runs,
        sections=SECTIONS,
        facts=[facts(run) for run in runs],
        legend=[Line(run.name, [(0, 0)], look) for look, run in enumerate(runs)],
        trade_off=trade_off(runs) if len(runs) > 1 else None,
        tests=tests,
        curves=curves(runs),
        test_sets=by_test_set(runs),
        translations=evaluated(runs),
        samples=samples(runs),
        attention=attention(runs),
        corpora=corpora(runs),
        differences=settings_table(runs),
        settings=yaml.safe_dump(runs[0].settings, sort_keys=False, allow_unicode=True),
    )
    return f"{MARK}\n{page}"
