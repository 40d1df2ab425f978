"""Build the dashboard of a W&B project: `scripts/make_dashboard.py`."""

from __future__ import annotations

import argparse
import os

from seq2seq.cli.report import run_command
from seq2seq.dashboard import make_report, make_workspace, outline
from seq2seq.errors import UserError
from seq2seq.trackers.wandb import unavailable

EXAMPLES = """examples:
  python scripts/make_dashboard.py --dry-run               # what would it have?
  python scripts/make_dashboard.py --project seq2seq       # a view of the project's page
  python scripts/make_dashboard.py --report                # a page to be given to others

Exit codes: 0 done, 1 W&B cannot be used, 2 wrong option."""


def main() -> None:
    """The `make_dashboard` script."""
    run_command(lambda: _run(_parser().parse_args()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make_dashboard.py",
        description="Build a dashboard for the runs of a W&B project.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--project", default="seq2seq", help="as logger.project (%(default)s)")
    parser.add_argument("--entity", help="user or team (default: $WANDB_ENTITY, or the key's own)")
    parser.add_argument("--report", action="store_true", help="a report instead of a workspace")
    parser.add_argument("--dry-run", action="store_true", help="only say what it would have")
    return parser


def _run(options: argparse.Namespace) -> None:
    if not options.project.strip():
        raise UserError("--project is empty: give the name of a W&B project, as logger.project")
    make = make_report if options.report else make_workspace
    entity = options.entity or os.environ.get("WANDB_ENTITY")
    make(entity or "entity", options.project)  # all but sending it
    if options.dry_run:
        print("\n".join(outline()))
        print("nothing was sent (--dry-run)")
        return
    if (why := unavailable()) is not None:
        print("\n".join(outline()))
        raise UserError(
            f"this dashboard was not made, since {why}. It belongs to runs that W&B has: "
            "upload those that were logged offline (wandb sync RUN/wandb/offline-run-*), "
            "then try again"
        )
    import wandb

    try:
        entity = entity or wandb.Api().default_entity
        if entity is not None:
            made = make(entity, options.project)
            made.save()
    except Exception as error:  # of the package, of W&B's client, of the network
        raise UserError(
            f"W&B did not take the dashboard of project {options.project}: {error}. See that the "
            "project is there and that the key may write to it (--entity NAME)"
        ) from error
    if entity is None:
        raise UserError("this key stands for no user or team of its own: give --entity NAME")
    print(made.url)
