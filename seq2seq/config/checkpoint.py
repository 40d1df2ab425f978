"""Settings that say when a run saves its state (`checkpoint.*`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config.checked import Checked, setting


class CheckpointConfig(Checked, section="checkpoint"):
    """When a run saves its state. The bundle with the best validation BLEU is always kept, too."""

    every_n_steps: int = setting(500, "steps between checkpoints", at_least=1)
    every_minutes: float | None = setting(None, "also save after this many minutes", at_least=0.01)
    average: int = setting(
        0, "average the weights of this many validations at the end; 0 = none", at_least=0
    )
    average_by: str = setting(
        "last", "which validations: the last ones, or those with the best BLEU",
        choices=("last", "best"), only_with="average",
    )  # fmt: skip

    def rules(self) -> Iterator[str]:
        if self.average == 1:
            yield "checkpoint.average=1 averages nothing: give 0, or 2 and more"
