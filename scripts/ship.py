"""Ship the model of a run inside the package: python scripts/ship.py RUN."""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq.cli.report import run_command

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="ship.py",
        description="Make the model of a finished and evaluated RUN the one that comes with the "
        "package (seq2seq/pretrained/general), in place of an earlier one, and keep the small "
        "files of the run in results/general, where notes.md is what the card says by hand.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    run = parser.parse_args().run
    from seq2seq.inference.shipped import GENERAL
    from seq2seq.report.results import write_table
    from seq2seq.report.ship import ship

    folder = ROOT / "seq2seq" / "pretrained" / GENERAL
    size = ship(run, folder, ROOT / "results" / GENERAL)
    write_table(ROOT)
    print(f"shipped     {folder} ({size / 2**20:.1f} MiB)")
    print(f"kept        {ROOT / 'results' / GENERAL}, and the table in README.md")
    print('try         translate --model general "hello world"')


if __name__ == "__main__":
    run_command(main)
