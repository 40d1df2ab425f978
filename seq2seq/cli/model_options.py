"""Options of commands that run a model: which model, on which device and engine."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.cli.options import option
from seq2seq.config.checked import Checked
from seq2seq.errors import nearest
from seq2seq.inference.engines import PRECISIONS


class ModelOptions(Checked, section="option"):
    """The model is --model, else $SEQ2SEQ_MODEL, else the one chosen by `translate --use`, else
    general."""

    model: list[str] = option(
        [], "a run, a bundle, or general (shipped); repeat the option for an ensemble", "DIR"
    )
    device: str = option("auto", "where the model runs: auto, cpu, cuda or cuda:1", "DEVICE")
    engine: str = option("torch", "engine that runs the model", choices=tuple(PRECISIONS))
    precision: str = option(
        "auto", "precision of the model: auto, float32, bfloat16, float16 or int8", "NAME"
    )

    def rules(self) -> Iterator[str]:
        known = PRECISIONS.get(self.engine, (self.precision,))
        if self.precision not in known:
            close = nearest(self.precision, known)
            if self.precision in PRECISIONS["ctranslate2"]:
                close = "add --engine ctranslate2, which has it"
            yield f"option.precision={self.precision} is not known: {close}"
