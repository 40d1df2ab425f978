"""What a run would take, without one: `scripts/train.py dry_run=true`."""

from __future__ import annotations

import logging
import os
import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from seq2seq.config import TrainConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.tokenizer import PAD, Tokenizer
from seq2seq.model.dropout import Dropout, WordDropout
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.distributed import make_fabric
from seq2seq.training.hardware import out_of_memory, peak_memory, ran_out
from seq2seq.training.optim import hidden_matrices
from seq2seq.training.run_folder import Run
from seq2seq.training.task import TranslationTask
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

MIB = 2**20
FLOAT = 4  # bytes of a weight, of its gradient, of each average that the optimiser keeps
MIN_STEPS, MAX_STEPS = 2, 20  # of a typical batch
ENOUGH_SECONDS = 5.0  # that these steps take together
PAIRS = 3  # of the first batch that are shown


def dry_run(
    config: TrainConfig,
    data: TranslationData,
    task: TranslationTask,
    accelerator: str,
    precision: str,
) -> None:
    """Say how large everything is and how long training would take; make a few steps to find out.

    Args:
        config: settings, all lengths in steps.
        data: prepared or opened.
        task: with its model, whose weights are changed by the steps made.
        accelerator, precision: as chosen for this device.
    """
    first, typical, largest = data.examples()
    _tell("parameters", _sizes(task.model))
    _tell("length", _lengths(config, data, typical))
    _tell("shapes of the first batch, by module", shapes(task.model, first))
    _tell("first batch, as the model sees it", _as_text(data, first))
    run = Run(Path(os.devnull), {}, precision)
    trainer = Trainer(
        make_fabric(accelerator, precision),
        task,
        run,
        max_tokens=config.data.max_tokens,
        gradient_clip=config.trainer.gradient_clip,
        spike=config.trainer.max_loss_spike,
        compile=config.trainer.compile,
    )
    try:
        measured = measure(trainer, largest, typical)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise out_of_memory(
            trainer.batch or largest,
            accelerator,
            max_tokens=config.data.max_tokens,
            accumulate=config.trainer.accumulate,
            beam=config.decode.beam,
            batch_tokens=config.decode.batch_tokens,
        ) from error
    _tell("memory, of the largest batch", _memory(config, task, measured))
    _tell("time", _time(config, typical, measured))


@dataclass
class Measured:
    """A few steps of training.

    Attributes:
        batch: the largest one, in words.
        kept: bytes of tensors that its backward pass needed, weights left out.
        first: seconds of its step.
        others: seconds of the steps after it, each of a typical batch.
        peak: most bytes in use.
    """

    batch: str
    kept: int
    first: float
    others: list[float]
    peak: int


def measure(trainer: Trainer, largest: Batch, typical: Batch) -> Measured:
    """Train on the largest batch, then on a typical one until that has taken some time."""
    with counted_tensors(trainer.model) as kept:
        first = _seconds(trainer, largest)
    others: list[float] = []
    while len(others) < MIN_STEPS or (len(others) < MAX_STEPS and sum(others) < ENOUGH_SECONDS):
        others.append(_seconds(trainer, typical))
    size = f"{largest.source.size(0)} pairs, {_shapes_of(largest)}"
    return Measured(size, kept["bytes"], first, others, peak_memory(trainer.device.type))


def _seconds(trainer: Trainer, batch: Batch) -> float:
    """One step, by the timer of training."""
    before = trainer.timer.read()
    list(trainer.train_some(iter([batch]), steps=1))
    return (trainer.timer.read() - before).total


@contextmanager
def counted_tensors(model: nn.Module) -> Iterator[dict[str, int]]:
    """Counts the bytes of what is kept for a backward pass, the model's own weights left out."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: set[int] = set()
    kept = {"bytes": 0}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights | seen:
            seen.add(storage.data_ptr())
            kept["bytes"] += storage.nbytes()
        return tensor

    with saved_tensors_hooks(count, lambda tensor: tensor):
        yield kept


def _tell(title: str, lines: Iterator[str]) -> None:
    log.info("%s", "\n".join([f"\n{title}", *(f"  {line}" for line in lines)]))


def _sizes(model: TranslationModel) -> Iterator[str]:
    parts = dict.fromkeys(("embeddings", "encoder", "decoder", "output"), 0)
    for name, parameter in model.named_parameters():  # each once: a shared one where it is first
        parts[_part(name)] += parameter.numel()
    for part, count in {**parts, "together": sum(parts.values())}.items():
        shared = " (shared with the embeddings)" if not count else ""
        yield f"{part:12}{count:>14,} {count * FLOAT / MIB:>10.1f} MiB{shared}"


def _part(name: str) -> str:
    top = name.split(".")[0]
    if "embedding" in top or "tokens" in top:
        return "embeddings"
    if "encoder" in top or top == "first_state":
        return "encoder"
    return "output" if top == "output" else "decoder"


def _lengths(config: TrainConfig, data: TranslationData, typical: Batch) -> Iterator[str]:
    t = config.trainer
    processes = t.devices * t.num_nodes
    per_step = processes * t.accumulate
    what = f"{t.accumulate} batches each of {processes} processes"
    if data.prepared is None:
        tokens = float(typical.target_tokens)
        yield "streaming    nobody knows how long an epoch is"
    else:
        batches, target_tokens = data.epoch()
        tokens = target_tokens / batches
        steps = batches / per_step
        yield f"epoch        {batches:,} batches, {target_tokens:,} target tokens"
        yield f"epochs       {t.max_steps / steps:,.1f} of {steps:,.1f} steps"
    yield f"step         {tokens * per_step:,.0f} target tokens" + (
        f" ({what})" if per_step > 1 else ""
    )
    yield f"steps        {t.max_steps:,}"


@torch.no_grad()
def shapes(model: TranslationModel, batch: Batch) -> Iterator[str]:
    """One line for each module of the first two levels, in the order in which they run."""
    rows = [("source", batch.source), ("target_in", batch.target_in)]
    hooks = []

    def note(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            value = getattr(value, "data", value)  # of packed sequences, too
            if isinstance(value, Tensor):
                rows.append((name, value))

        return hook

    for name, module in model.named_modules():
        if name and name.count(".") < 2 and not isinstance(module, (Dropout, WordDropout)):
            hooks.append(module.register_forward_hook(note(name)))
    was_training = model.training
    hidden_BTD = model.eval()(batch.source, batch.source_real, batch.target_in)
    model.project(hidden_BTD[batch.labels != PAD])
    model.train(was_training)
    for hook in hooks:
        hook.remove()
    yield (
        f"{batch.source.size(0)} pairs (B), {batch.source.size(1)} source and "
        f"{batch.labels.size(1)} target positions (S, T), {batch.target_tokens} real target tokens"
    )
    layers = ((re.sub(r"\.\d+$", ".*", name), tuple(value.shape)) for name, value in rows)
    yield from dict.fromkeys(f"{name:30} {shape}" for name, shape in layers)


def _as_text(data: TranslationData, batch: Batch) -> Iterator[str]:
    def words(tokenizer: Tokenizer, ids: Tensor) -> str:
        return " ".join(tokenizer.tokens(ids.tolist()))

    source, target = data.vocabularies.source, data.vocabularies.target
    for row in range(min(PAIRS, batch.source.size(0))):
        yield f"source      {words(source, batch.source[row])}"
        yield f"target_in   {words(target, batch.target_in[row])}"
        yield f"labels      {words(target, batch.labels[row])}"


def _shapes_of(batch: Batch) -> str:
    return f"source {tuple(batch.source.shape)}, target {tuple(batch.labels.shape)}"


def _memory(config: TrainConfig, task: TranslationTask, measured: Measured) -> Iterator[str]:
    weights = FLOAT * sum(p.numel() for p in task.model.parameters())
    muon = config.optim.optimizer == "muon"
    matrices = FLOAT * sum(p.numel() for p in hidden_matrices(task.model)) if muon else 0
    parts = {
        "weights": weights,
        "gradients": weights,
        "optimiser": 2 * weights - matrices,  # AdamW keeps two averages of each, Muon one
        "EMA": weights if config.optim.ema else 0,
        "activations": measured.kept,
    }
    for name, size in {**parts, "together": sum(parts.values())}.items():
        yield f"{name:12}{size / MIB:>10,.0f} MiB"
    where = "of the GPU" if task.device.type == "cuda" else "of the process, libraries included"
    yield f"{'measured':12}{measured.peak / MIB:>10,.0f} MiB at most, {where}: {measured.batch}"


def _time(config: TrainConfig, typical: Batch, measured: Measured) -> Iterator[str]:
    t = config.trainer
    batch = statistics.median(measured.others)
    yield f"batch        {batch:.3f} s, {typical.target_tokens / batch:,.0f} target tokens/s"
    yield f"first        {measured.first:.3f} s, the largest batch and all that is done once"
    seconds = batch * t.accumulate * t.max_steps
    yield (
        f"training     {timedelta(seconds=round(seconds))} for {t.max_steps:,} steps, by one batch "
        "of median size; validation and checkpoints come on top"
    )
