"""The first steps of a training run, and what each of their parts takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq.config import TrainConfig
from seq2seq.data.datamodule import Consumer
from seq2seq.model.build import build_model
from seq2seq.model.flops import BatchSize, training_flops
from seq2seq.training.lengths import in_steps
from seq2seq.training.random_state import seed_everything
from seq2seq.training.timing import PARTS
from seq2seq.training.train import open_data
from seq2seq.training.trainer import Trainer, trainer_alone


@dataclass
class Step:
    """One update of the weights.

    Attributes:
        source_tokens, target_tokens: real ones.
        positions: of both sides, padding included.
        flops: floating-point operations of the model, see `model/flops.py`.
        seconds: of each of `PARTS`; all of the time belongs to one of them.
    """

    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))


def train_steps(
    config: TrainConfig, steps: int, accelerator: str, precision: str
) -> tuple[Trainer, list[Step]]:
    """Train for a few steps as `training/train.py` does, but for validations and checkpoints."""
    data = open_data(config)
    config = in_steps(config, data)
    seed_everything(config.seed)
    model = build_model(config.model, *data.vocabularies.sizes)
    trainer = trainer_alone(config, model, accelerator, precision)
    accumulate = config.trainer.accumulate
    data.consumer = Consumer(accumulate=accumulate, pin_memory=accelerator == "gpu")
    batches, passes = iter(data.train_dataloader()), 2 if config.optim.r_drop else 1
    found = []
    for _ in range(steps):
        used, times = trainer.timed_step(batches)
        between = times.total - sum(times.parts.values())  # what the loop itself takes
        step = Step(seconds={**times.parts, "optimiser": times.parts["optimiser"] + between})
        for batch in used:
            step.source_tokens += batch.source_tokens
            step.target_tokens += batch.target_tokens
            step.positions += batch.source.numel() + batch.labels.numel()
            size = BatchSize(batch.source.size(0), batch.source_tokens, batch.target_tokens)
            step.flops += passes * training_flops(config.model, data.vocabularies.sizes[1], size)
        found.append(step)
    return trainer, found
