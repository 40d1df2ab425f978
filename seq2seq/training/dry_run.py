"""What a run will be: said when it starts, and measured by `scripts/train.py dry_run=true`."""

from __future__ import annotations

import logging
import os
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from torch import Tensor, nn

from seq2seq.config import TrainConfig, TrainerConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import TranslationData
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.distributed import make_fabric
from seq2seq.training.hardware import peak_memory, plain_memory_errors
from seq2seq.training.run_folder import Run
from seq2seq.training.timing import Times
from seq2seq.training.trainer import Trainer, make_trainer

log = logging.getLogger(__name__)

MIB = 2**20
MIN_STEPS, MAX_STEPS = 2, 20  # of a typical batch
ENOUGH_SECONDS = 5.0  # that these steps take together
SHORT_RUN, FEWEST_SCORED = 50, 50  # steps; pairs that it translates at least


def announce(
    config: TrainConfig, run_dir: Path, data: TranslationData, model: nn.Module, device: str
) -> None:
    """Log what will be trained on what."""
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(data.vocabularies.sizes))
    t = config.trainer
    processes, final = t.devices * t.num_nodes, config.data.final_steps
    lines = [
        f"data        {config.data.name}: {data.summary()}, {sizes} subwords",
        f"prepared    {data.prepared.folder / 'report.html'}",
        f"model       {config.model.name}: {count_parameters(model):,} parameters; "
        f"{config.model.summary()}",
        *([f"weights     of {config.init_from}"] if config.init_from else []),
        f"device      {device}",
        f"steps       {t.max_steps:,} of {config.data.max_tokens:,} tokens, both sides together"
        + (f" x {t.accumulate} batches" if t.accumulate > 1 else "")
        + (f" x {processes} processes" if processes > 1 else ""),
        *([f"last steps  {final:,} of them with data.final_weights"] if final else []),
        *([] if config.dry_run else [f"results in  {run_dir}"]),
    ]
    if config.data.name == "starter":
        lines.append(
            "real data   this is the built-in starter corpus; to train on your own text: "
            "data=files data.path=FOLDER (holding train, val and test files)"
        )
    pairs, scored = len(data.val_pairs), scored_pairs(config.trainer, len(data.val_pairs))
    if scored < pairs:
        lines.append(
            f"note        so short a run translates {scored} of the {pairs:,} sentences of its "
            f"validation set only: trainer.val_pairs={pairs} translates all"
        )
    log.info("\n".join(lines))


def scored_pairs(config: TrainerConfig, pairs: int) -> int:
    """Validation pairs that are translated; translating all could take longer than a short run."""
    if config.val_pairs is not None or config.max_steps > SHORT_RUN:
        return pairs
    return min(pairs, max(FEWEST_SCORED, 10 * config.max_steps))


def count_parameters(model: nn.Module) -> int:
    """Trained numbers, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def dry_run(
    config: TrainConfig,
    data: TranslationData,
    model: TranslationModel,
    accelerator: str,
    precision: str,
) -> None:
    """Say how large everything is and how long training takes, by making a few steps."""
    _, typical, largest = data.examples()
    _tell("parameters", _sizes(model))
    _tell("length", _lengths(config, data))
    one_batch = replace(config, trainer=replace(config.trainer, accumulate=1))
    trainer = trainer_alone(one_batch, model, accelerator, precision)
    trainer.batch = largest  # the one to name when memory runs out
    with plain_memory_errors(config, trainer):
        first, *others = measure(trainer, largest, typical)
    _tell("memory", _memory(trainer, largest))
    _tell("time", _time(config, typical, first, statistics.median(others)))


def trainer_alone(
    config: TrainConfig, model: TranslationModel, accelerator: str, precision: str
) -> Trainer:
    """A trainer in this process that keeps nothing, so that its steps can be measured."""
    run = Run(Path(os.devnull), {}, precision)
    return make_trainer(config, model, make_fabric(accelerator, precision), run)


def timed_step(trainer: Trainer, batches: Iterator[Batch]) -> tuple[list[Batch], Times]:
    """Make a step; returns its batches and how long it took. Waits for the GPU."""
    before = trainer.timer.read()
    used = trainer.train_step(batches)
    return used, trainer.timer.read() - before


def measure(trainer: Trainer, largest: Batch, typical: Batch) -> list[float]:
    """Train on the largest batch, then on a typical one until that has taken some time.

    Returns:
        Seconds of each step.
    """
    found: list[float] = []
    while len(found) <= MIN_STEPS or (
        len(found) <= MAX_STEPS and sum(found[1:]) < ENOUGH_SECONDS
    ):
        _, times = timed_step(trainer, iter([typical if found else largest]))
        found.append(times.total)
    return found


def _tell(title: str, lines: Iterator[str]) -> None:
    log.info("%s", "\n".join([f"\n{title}", *(f"  {line}" for line in lines)]))


def _sizes(model: TranslationModel) -> Iterator[str]:
    """Numbers of each part of the model; one that is shared counts where it is first."""
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = name.partition(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    for part, count in {**parts, "together": sum(parts.values())}.items():
        yield f"{part:16}{count:>14,} {count * 4 / MIB:>10.1f} MiB"


def _lengths(config: TrainConfig, data: TranslationData) -> Iterator[str]:
    t = config.trainer
    processes = t.devices * t.num_nodes
    per_step = processes * t.accumulate
    batches, target_tokens = data.epoch()
    tokens = target_tokens / batches
    steps = batches / per_step
    yield f"epoch        {batches:,} batches, {target_tokens:,} target tokens"
    yield f"epochs       {t.max_steps / steps:,.1f} of {steps:,.1f} steps"
    made_of = f" ({t.accumulate} batches each of {processes} processes)" if per_step > 1 else ""
    yield f"step         {tokens * per_step:,.0f} target tokens{made_of}"
    yield f"steps        {t.max_steps:,}"


def _memory(trainer: Trainer, largest: Batch) -> Iterator[str]:
    """What each process keeps, and its peak, which activations belong to as well."""
    weights = list(trainer.model.parameters())
    kept: dict[str, Iterable[Tensor]] = {
        "weights": weights,
        "gradients": [weight.grad for weight in weights if weight.grad is not None],
        "optimiser": [x for one in trainer.optimizer.state.values() for x in one.values()],
        "EMA": [] if trainer.ema is None else trainer.ema.shadow.values(),
    }
    sizes = {name: sum(tensor.nbytes for tensor in tensors) for name, tensors in kept.items()}
    for name, size in {**sizes, "together": sum(sizes.values())}.items():
        yield f"{name:12}{size / MIB:>10,.0f} MiB"
    device = trainer.device.type
    where = "of the GPU" if device == "cuda" else "of the process, libraries included"
    yield (
        f"{'measured':12}{peak_memory(device) / MIB:>10,.0f} MiB at most, {where}: "
        f"{largest.source.size(0)} pairs, source {tuple(largest.source.shape)}, target "
        f"{tuple(largest.labels.shape)}"
    )


def _time(config: TrainConfig, typical: Batch, first: float, others: float) -> Iterator[str]:
    t = config.trainer
    yield f"batch        {others:.3f} s, {typical.target_tokens / others:,.0f} target tokens/s"
    yield f"first        {first:.3f} s, the largest batch and all that is done once"
    seconds = others * t.accumulate * t.max_steps
    yield (
        f"training     {timedelta(seconds=round(seconds))} for {t.max_steps:,} steps, by one batch "
        "of median size; validation and checkpoints come on top"
    )
