"""`seq2seq report`: look at runs in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seq2seq.cli.exits import run_command
from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked


class ReportOptions(Checked, section="option"):
    """Write one HTML file about a run, or one that compares several: curves, scores, samples over
    time, attention, data, settings, and how to make them again."""

    runs: list[Path] = option([], "folder of a run", "RUN", positional=True)
    output: Path | None = option(
        None, "where to; RUN/report.html if not given, of several runs report.html", "FILE"
    )

    def rules(self) -> Iterator[str]:
        if not self.runs:
            yield "nothing to report on: name the folder of a run, seq2seq report runs/demo"


COMMAND = Command(
    "seq2seq report",
    ReportOptions,
    examples="""\
  seq2seq report runs/demo
  seq2seq report runs/a runs/b --output compared.html
  seq2seq report results/*""",
    docs="docs/results.md",
)


def main() -> None:
    run_command(lambda: _run(COMMAND.read()))


def _run(options: ReportOptions) -> None:
    from seq2seq.report.page import write_report  # torch takes seconds to load

    default = options.runs[0] / "report.html" if len(options.runs) == 1 else Path("report.html")
    output = options.output or default
    write_report(options.runs, output)
    print(f"{output} ({output.stat().st_size / 1000:,.0f} kB): open it in a browser")
