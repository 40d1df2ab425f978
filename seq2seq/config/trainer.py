"""Settings of the training loop (`trainer.*`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seq2seq.config.checked import Checked, setting

PRECISIONS = ("auto", "32-true", "bf16-mixed", "16-mixed")


class TrainerConfig(Checked, section="trainer"):
    """The training loop. One step is one update of the weights.

    `max_steps` and `val_every_n_steps` are steps, or text such as 20epochs or 500Mtokens.
    """

    max_steps: Any = setting(10000, "length of the run", length=True)
    accelerator: str = setting("auto", "device of the training", choices=("auto", "cpu", "gpu"))
    devices: int = setting(1, "number of processes (GPUs) on each machine", at_least=1)
    num_nodes: int = setting(1, "number of machines", at_least=1)
    strategy: str = setting(
        "auto", "how several processes share the work; auto = ddp", choices=("auto", "ddp", "fsdp")
    )
    precision: str = setting(
        "auto", "precision of the arithmetic; auto = the fastest that is safe on this device",
        choices=PRECISIONS,
    )  # fmt: skip
    compile: bool = setting(False, "compile a transformer's layers with torch.compile")
    accumulate: int = setting(1, "batches per step", at_least=1)
    gradient_clip: float = setting(
        1.0, "clip the norm of all gradients to this; 0 = never", at_least=0
    )
    on_loss_spike: str = setting(
        "skip", "if the loss spikes or is not finite: skip the step, or stop the run",
        choices=("skip", "stop"),
    )  # fmt: skip
    max_loss_spike: float = setting(
        5.0, "a loss spikes if it is this many nats per token above its recent average",
        at_least=0.1,
    )  # fmt: skip
    val_every_n_steps: Any = setting(1000, "length between validations", length=True)
    patience: int | None = setting(
        None, "validations without a better BLEU before training stops; null = never", at_least=1
    )
    log_every_n_steps: int = setting(50, "steps between lines of metrics", at_least=1)
    train_pairs: int | None = setting(None, "train on the first pairs only; null = all", at_least=1)
    val_pairs: int | None = setting(
        None, "validate on the first pairs only; null = all", at_least=1
    )
    val_on_train: bool = setting(
        False, "validate on the training pairs, to see whether the model learns at all"
    )
    profile: bool = setting(False, "write a trace of a few steps to <run>/profile")

    def rules(self) -> Iterator[str]:
        if self.val_on_train and self.train_pairs is None and self.val_pairs is None:
            yield (
                "trainer.val_on_train=true would translate the whole training text at each "
                "validation: say how much of it, trainer.val_pairs=NUMBER"
            )
        if self.strategy == "fsdp" and self.compile:
            yield (
                "trainer.compile=true does not go with trainer.strategy=fsdp, whose weights come "
                "and go while a step runs: leave it out, or use trainer=ddp"
            )
