"""Look at runs in a browser: python scripts/report.py runs/NAME [runs/OTHER ...]."""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq.cli.report import run_command


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="report.py",
        description="Write one HTML file about a run, or one that compares several: curves, "
        "scores, samples over time, attention, data, settings, and how to make them again.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument("--output", type=Path, metavar="FILE",
                        help="(default: RUN/report.html; of several runs report.html)")  # fmt: skip
    options = parser.parse_args()
    from seq2seq.report.page import write_report  # torch takes seconds to load

    default = options.runs[0] / "report.html" if len(options.runs) == 1 else Path("report.html")
    output = options.output or default
    write_report(options.runs, output)
    print(f"{output} ({output.stat().st_size / 1000:,.0f} kB): open it in a browser")


if __name__ == "__main__":
    run_command(main)
