"""`seq2seq dashboard`: build the dashboard of a W&B project."""

from __future__ import annotations

import os
from collections.abc import Iterator

from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked
from seq2seq.dashboard import make_workspace, outline
from seq2seq.errors import UserError
from seq2seq.trackers.wandb import unavailable


class DashboardOptions(Checked, section="option"):
    """Build a dashboard for the runs of a W&B project."""

    project: str = option("seq2seq", "W&B project, as in logger.project", "PROJECT")
    entity: str | None = option(
        None, "user or team; default: $WANDB_ENTITY, or the owner of the key", "ENTITY"
    )
    dry_run: bool = option(False, "only print what the view would have")

    def rules(self) -> Iterator[str]:
        if not self.project.strip():
            yield "--project is empty: give the name of a W&B project, as in logger.project"


COMMAND = Command(
    "seq2seq dashboard",
    DashboardOptions,
    examples="""\
  seq2seq dashboard --dry-run               # print what the view would have
  seq2seq dashboard --project seq2seq       # add a view to the project's page
  seq2seq dashboard --entity my-team        # for a project of a team""",
    docs="docs/reference/records.md",
)


@COMMAND.main
def main(options: DashboardOptions) -> None:
    entity = options.entity or os.environ.get("WANDB_ENTITY")
    make_workspace(entity or "entity", options.project)  # all except sending
    if options.dry_run:
        print("\n".join(outline()))
        print("nothing was sent (--dry-run)")
        return
    if (why := unavailable()) is not None:
        print("\n".join(outline()))
        raise UserError(
            f"no dashboard was made: {why}. W&B can only show runs that were uploaded: upload "
            "those that were logged offline first (wandb sync RUN/wandb/offline-run-*)"
        )
    import wandb

    try:
        entity = entity or wandb.Api().default_entity
        if entity is not None:
            made = make_workspace(entity, options.project)
            made.save()
    except Exception as error:  # from the package, W&B's client or the network
        why = f"W&B did not take the dashboard of project {options.project}: {error}"
        raise UserError(f"{why}. Does the key have write access to it (--entity NAME)?") from error
    if entity is None:
        raise UserError("this key belongs to no user or team: give --entity NAME")
    print(made.url)
