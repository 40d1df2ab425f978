"""Callbacks of training: samples of validations, progress, figures, findings.

The trainer (`training/trainer.py`) calls the methods of `Callback` in the order of its list of
callbacks. Validation (`training/validation.py`) is no callback: the trainer runs it itself. Of
several processes only the first has all callbacks; the others have those that gather figures of
all processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seq2seq.data.collate import Batch

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer


class Callback:
    """Base class whose methods do nothing; override those that you need.

    Checkpoints store the result of `state_dict` under the class's name. A resumed run passes it to
    `load_state_dict` before `on_train_start`.
    """

    def on_train_start(self, trainer: Trainer) -> None:
        """Run before the first step of a new or a resumed run."""

    def on_step_end(self, trainer: Trainer, batches: Sequence[Batch]) -> None:
        """Run after an update, made or skipped; `batches` are those of this process."""

    def on_validation_end(self, trainer: Trainer) -> None:
        """Run after a validation; the model still has the weights that were validated."""

    def on_train_end(self, trainer: Trainer) -> None:
        """Run after the last step and its validation."""

    def close(self) -> None:
        """Run at the very end, also after an error."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs; empty = nothing is saved."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
