"""What watches the steps of training: records of validations, progress, figures, findings.

The trainer (`training/trainer.py`) calls each callback at the moments of `Callback`, in the order
of its list. Validation (`training/validation.py`) is no callback: the trainer runs it itself. Of
several processes only the first has callbacks, but for those that gather figures of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seq2seq.data.collate import Batch

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer


class Callback:
    """Does nothing at each moment of training; override what you need.

    What `state_dict` gives is saved in checkpoints under the class's name, and comes back by
    `load_state_dict` before `on_train_start`.
    """

    def on_train_start(self, trainer: Trainer) -> None:
        """Before the first step, or the first after going on."""

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        """After an update, made or skipped; `batches` are those of this process."""

    def on_validation_end(self, trainer: Trainer) -> None:
        """After a validation; the model still has the weights that were validated."""

    def on_train_end(self, trainer: Trainer) -> None:
        """After the last step and its validation."""

    def close(self) -> None:
        """At the very end, also after an error."""

    def state_dict(self) -> dict[str, Any]:
        """What a run that goes on needs; empty = nothing is saved."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
