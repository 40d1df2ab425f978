"""Train a model on English-French text.

  seq2seq train experiment=demo                        a tiny model, in minutes on a CPU
  seq2seq train model=small data=files data.path=FOLDER optim.lr=1e-3 run_dir=runs/mine
  seq2seq train resume=runs/mine trainer.max_steps=20000

What would it take? Add dry_run=true. Several runs: -m seed=1,2,3. All settings: --cfg job.
Read on in docs/explanation/training.md, about the text in docs/reference/corpora.md.
"""

from __future__ import annotations

from pathlib import Path

from seq2seq.cli.settings import hydra_command
from seq2seq.cli.sweep import require_folder
from seq2seq.config import TrainConfig


def main() -> None:
    hydra_command("train", TrainConfig, run, __doc__)


def run(config: TrainConfig) -> float:
    """Train; return the best validation BLEU, which a sweep can maximise."""
    if config.resume is None and (config.run_dir is not None or not config.dry_run):
        require_folder(Path(config.run_dir or "runs"))
    from seq2seq.training.train import train  # torch loads only after the settings are checked

    return train(config)


if __name__ == "__main__":
    main()
