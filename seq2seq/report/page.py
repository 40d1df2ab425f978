"""The report of runs: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from seq2seq.errors import RunError
from seq2seq.files import replace_text
from seq2seq.html_page import html_page, tiles, visible
from seq2seq.report.attention import attention_section
from seq2seq.report.curves import curves_section
from seq2seq.report.data import data_section
from seq2seq.report.facts import Fact, facts
from seq2seq.report.reproduction import reproduction_section
from seq2seq.report.run import Run, read_runs
from seq2seq.report.samples import samples_section
from seq2seq.report.scores import scores_section
from seq2seq.report.settings import settings_section

# Those whose size depends on the runs have budgets, in all below 3 MB.
SECTIONS = {
    "Curves": curves_section,
    "Scores": scores_section,
    "Samples": samples_section,
    "Attention": attention_section,
    "Data": data_section,
    "Settings": settings_section,
    "Make it again": reproduction_section,
}
MARK = "<!-- report of seq2seq runs -->"  # by which a file is known that may be replaced


def write_report(runs: Sequence[Path], output: Path) -> None:
    """Write the page of one or several runs, whole or not at all.

    Args:
        runs: their folders.
        output: the file; an earlier report there is replaced.

    Raises:
        RunError: a folder is no run, or damaged; the file is something else, or cannot be written.
    """
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
    page = report_page(read_runs(runs))
    try:
        replace_text(output, page)
    except OSError as error:
        raise RunError(
            f"the report {output} cannot be written: {error.strerror}. Name another file"
        ) from error


def report_page(runs: Sequence[Run]) -> str:
    """The whole page."""
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    links = "".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in SECTIONS)
    sections = (
        f'<section id="{_anchor(name)}"><h2>{name}</h2>{section(runs)}</section>'
        for name, section in SECTIONS.items()
    )
    head = f"<h1>{escape(visible(title))}</h1>{_head(runs)}<nav>{links}</nav>"
    style, script = (
        (Path(__file__).with_name(f"page.{kind}")).read_text(encoding="utf-8")
        for kind in ("css", "js")
    )
    return MARK + "\n" + html_page(f"{title}: report", [head, *sections], style, script)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _head(runs: Sequence[Run]) -> str:
    """The most important numbers: tiles of one run, a table of several."""
    found = [facts(run) for run in runs]
    if len(runs) == 1:
        model, data = runs[0].settings["model"], runs[0].settings["data"]
        text = f"{model.get('name')} model, trained on {data.get('name')}"
        return f"<p>{escape(visible(text))}</p>" + tiles((name, *f) for name, f in found[0].items())
    columns = "".join(f'<th scope="col">{escape(visible(run.name))}</th>' for run in runs)
    rows = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(_cell(one.get(name)) for one in found)}</tr>'
        for name in dict.fromkeys(name for one in found for name in one)
    )
    return (
        '<div class="wide"><table class="facts"><thead><tr><th scope="col"></th>'
        f"{columns}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(fact: Fact | None) -> str:
    number, more = map(escape, map(visible, fact or ("–", "")))
    return f"<td><b>{number}</b><small>{more}</small></td>"
