"""`seq2seq report`: look at a run in a browser."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked
from seq2seq.errors import ConfigError


class ReportOptions(Checked, section="option"):
    """Write one HTML file about a run: curves, scores, samples over time, attention, data,
    settings, and how to make it again."""

    runs: list[Path] = option([], "folder of a run", "RUN", positional=True)
    output: Path | None = option(None, "file to write (default: RUN/report.html)", "FILE")

    def rules(self) -> Iterator[str]:
        if not self.runs:
            yield "nothing to report on: name the folder of a run, seq2seq report runs/demo"


COMMAND = Command(
    "seq2seq report",
    ReportOptions,
    examples="""\
  seq2seq report runs/demo
  seq2seq report runs/demo --output demo.html
  seq2seq report results/general --output general.html""",
    docs="docs/tutorials/read-a-run.md",
)


@COMMAND.main
def main(options: ReportOptions) -> None:
    if len(options.runs) > 1:
        instead = shlex.join(map(str, [*options.runs, "--output", options.output or "both.html"]))
        why = "report shows one run. To compare several: seq2seq compare"
        raise ConfigError(f"{why} {instead}")
    from seq2seq.report.page import write_report  # torch takes seconds to load

    output = options.output or options.runs[0] / "report.html"
    write_report(options.runs, output)
    print(f"{output} ({output.stat().st_size / 1000:,.0f} kB): open it in a browser")
