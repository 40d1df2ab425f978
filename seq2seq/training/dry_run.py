"""What a run would take, without one: `scripts/train.py dry_run=true`."""

from __future__ import annotations

import logging
import re
import statistics
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.data import DataLoader

from seq2seq.config import TrainConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.tokenizer import PAD, Tokenizer
from seq2seq.errors import RunError
from seq2seq.model.dropout import Dropout, WordDropout
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.hardware import peak_memory
from seq2seq.training.memory import ran_out
from seq2seq.training.optim import hidden_matrices
from seq2seq.training.task import TranslationTask

log = logging.getLogger(__name__)

MIB = 2**20
FLOAT = 4  # bytes of a weight, of its gradient, of each average that the optimiser keeps
LEAST, MOST, LONG = 3, 20, 5.0  # batches that are timed, and seconds
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
    measured = _measure(config, task, [largest, *[typical] * MOST], accelerator, precision)
    _tell("memory, of the largest batch", _memory(config, task, measured))
    _tell("time", _time(config, typical, measured))


def _measure(
    config: TrainConfig,
    task: TranslationTask,
    batches: list[Batch],
    accelerator: str,
    precision: str,
) -> Measure:
    """Train on the first batches, as a run would.

    Raises:
        RunError: memory ran out.
    """
    warnings.filterwarnings("ignore", message=".*no `val_dataloader`.*")
    measured = Measure()
    trainer = L.Trainer(
        accelerator=accelerator,
        devices=1,
        precision=precision,  # type: ignore[arg-type]  # checked by our settings
        max_epochs=1,
        max_steps=max(config.trainer.max_steps, len(batches)),
        callbacks=[measured],
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader: DataLoader[Batch] = DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
    try:
        trainer.fit(task, loader)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        batch, t = task.batch or batches[0], config.trainer
        raise RunError(
            f"out of memory with a batch of {batch.source.size(0)} pairs, {_shapes_of(batch)}: "
            f"lower data.max_tokens={config.data.max_tokens} and raise trainer.accumulate="
            f"{t.accumulate} by the same factor, or choose a smaller model"
        ) from error
    return measured


class Measure(L.Callback):
    """Times each batch; counts what the first one keeps for its backward pass.

    It stops after `LEAST` batches, or later if they are short: after `LONG` seconds.

    Attributes:
        seconds: of each batch.
        shape: of the first batch, in words.
        saved: bytes of tensors that were kept, weights left out.
        peak: most bytes in use.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.saved = 0

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        self._started = time.perf_counter()
        self._hooks: saved_tensors_hooks | None = None
        if not self.seconds:
            self.shape = f"{batch.source.size(0)} pairs, {_shapes_of(batch)}"
            weights = {p.untyped_storage().data_ptr() for p in pl_module.parameters()}
            seen: set[int] = set()

            def count(tensor: Tensor) -> Tensor:
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in weights | seen:
                    seen.add(storage.data_ptr())
                    self.saved += storage.nbytes()
                return tensor

            self._hooks = saved_tensors_hooks(count, lambda tensor: tensor)
            self._hooks.__enter__()

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor
    ) -> None:
        if self._hooks is not None:
            self._hooks.__exit__()
            self._hooks = None

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *batch: Any
    ) -> None:
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - self._started)
        self.peak = peak_memory(pl_module.device.type)
        if len(self.seconds) >= LEAST and sum(self.seconds) >= LONG:
            trainer.should_stop = True


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


def _memory(config: TrainConfig, task: TranslationTask, measured: Measure) -> Iterator[str]:
    weights = FLOAT * sum(p.numel() for p in task.model.parameters())
    muon = config.optim.optimizer == "muon"
    matrices = FLOAT * sum(p.numel() for p in hidden_matrices(task.model)) if muon else 0
    parts = {
        "weights": weights,
        "gradients": weights,
        "optimiser": 2 * weights - matrices,  # AdamW keeps two averages of each, Muon one
        "EMA": weights if config.optim.ema else 0,
        "activations": measured.saved,
    }
    for name, size in {**parts, "together": sum(parts.values())}.items():
        yield f"{name:12}{size / MIB:>10,.0f} MiB"
    where = "of the GPU" if task.device.type == "cuda" else "of the process, libraries included"
    yield f"{'measured':12}{measured.peak / MIB:>10,.0f} MiB at most, {where}: {measured.shape}"


def _time(config: TrainConfig, typical: Batch, measured: Measure) -> Iterator[str]:
    t = config.trainer
    largest, _, *others = measured.seconds  # the second may still allocate and compile
    batch = statistics.median(others)
    yield f"batch        {batch:.3f} s, {typical.target_tokens / batch:,.0f} target tokens/s"
    yield f"first        {largest:.3f} s, the largest batch and all that is done once"
    seconds = batch * t.accumulate * t.max_steps
    yield (
        f"training     {timedelta(seconds=round(seconds))} for {t.max_steps:,} steps, by one batch "
        "of median size; validation and checkpoints come on top"
    )
