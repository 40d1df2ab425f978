"""Average the weights of several states of a run, or of several models of the same sizes.

  seq2seq average run=runs/mine output=runs/averaged           a run with checkpoint.average=N
  seq2seq average run=runs/mine average=3 by=best output=runs/averaged
  seq2seq average inputs=[runs/a,runs/b] output=runs/averaged

Read on in docs/training.md.
"""

from __future__ import annotations

from seq2seq.cli.settings import hydra_command
from seq2seq.config import AverageConfig


def main() -> None:
    hydra_command("average_checkpoints", AverageConfig, run, __doc__)


def run(config: AverageConfig) -> None:
    from seq2seq.bundle.averaging import average  # torch loads after the settings are checked

    average(config)
