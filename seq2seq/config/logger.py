"""Settings of trackers: where curves go, and what leaves the machine (`logger.*`)."""

from __future__ import annotations

from seq2seq.config.checked import Checked, setting


class LoggerConfig(Checked, section="logger"):
    """Where curves go in addition to `<run>/metrics`, and what is kept of each validation."""

    kind: str = setting(
        "wandb", "tracker: wandb, trackio, mlflow, tensorboard; csv or none: only the run's files",
        choices=("wandb", "trackio", "mlflow", "tensorboard", "csv", "none"),
    )  # fmt: skip
    project: str = setting("seq2seq", "project of W&B or Trackio, experiment of MLflow")
    group: str | None = setting(None, "group of W&B runs; null = the run's sweep, if any")
    share: str = setting(
        "curves", "what leaves this machine: curves (and settings), text (sentences and the report "
        "of the data, too), or all (the bundle, too)", choices=("curves", "text", "all"),
    )  # fmt: skip
    samples: int = setting(
        10, "number of fixed sentences in samples.jsonl, and of worst sentences; 0 = no file. "
        "Beyond 20, some sentences have no picture in W&B", at_least=0
    )  # fmt: skip
