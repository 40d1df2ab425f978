"""The table of results: from the runs under results/ into the README, or of given runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq.cli.report import run_command

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="results.py",
        description="Write the table of the runs under results/ into README.md. "
        "With RUNs: print a table of them, beside published lines, and write nothing.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="evaluated run")
    parser.add_argument("--keep", metavar="NAME", help="first keep the RUN as results/NAME")
    options = parser.parse_args()
    if options.keep and (len(options.runs) != 1 or Path(options.keep).name != options.keep):
        parser.error("--keep takes a name without slashes and exactly one RUN")
    from seq2seq.report.results import Published, keep, results_table, write_table
    from seq2seq.report.run import read_runs

    if options.runs and not options.keep:
        published = Published.read(ROOT / "results" / "published.yaml")
        print(results_table(read_runs(options.runs), published))
        return
    if options.keep:
        keep(options.runs[0], ROOT / "results" / options.keep)
    print(f"README.md:\n{write_table(ROOT)}")


if __name__ == "__main__":
    run_command(main)
