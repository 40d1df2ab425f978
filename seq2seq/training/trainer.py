"""The training loop: accumulate, normalise, clip, skip or step, log, validate, save, stop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from seq2seq.config import CheckpointConfig, OptimConfig, TrainerConfig
from seq2seq.data.collate import Batch
from seq2seq.data.datamodule import Consumer, TranslationData
from seq2seq.errors import RunError
from seq2seq.model.translation_model import TranslationModel
from seq2seq.trackers import Tracker
from seq2seq.training.averaging import EMA
from seq2seq.training.callbacks import Callback
from seq2seq.training.checkpointing import Checkpoint, restore, restore_random_state, save
from seq2seq.training.compilation import compile_layers
from seq2seq.training.loss import TranslationTask
from seq2seq.training.loss_spikes import GOOD, LossSpikes, report_skipped_step
from seq2seq.training.optim import make_optimizer, peak_learning_rate, share_of_peak
from seq2seq.training.run_folder import Run
from seq2seq.training.sharding import full_tensor
from seq2seq.training.stopping import Interrupted
from seq2seq.training.timing import Timer
from seq2seq.training.validation import Validation

log = logging.getLogger(__name__)


class Trainer:
    """The training loop of a run.

    It minimises the mean loss over all N target tokens of an update, which takes `accumulate`
    batches in each process. N is known only after all of them have run. Until then each sum is
    divided by a fixed number of N's order, E = max_tokens * accumulate, which keeps gradients in
    the range of fp16. E cancels out:

        each batch     backward(sum / E)
        processes      DDP and FSDP take the average: / world_size
        each update    gradients * E * world_size / N

    So one process with a batch of 2n tokens, with two accumulated batches of n, and two processes
    with a batch of n each get the same gradients.

    Args:
        fabric: launched; starts processes, places tensors, knows the precision.
        model: with weights; with FSDP, in the first process only.
        run: its folder, messages between its processes, and signals.
        config: settings of the loop, with lengths in steps.
        max_tokens: most positions of a batch, source and target together.
        seed: of the run; a process without a random state to restore derives its seed from it.

    Attributes:
        callbacks: called at each moment of training, in this order.
        trackers: get the figures of each step; only the first process has any.
        step: updates so far, the skipped ones included.
        task: computes the losses of a batch with the model, which is a part of it.
        module: the task as Fabric wrapped it, so that processes exchange gradients; forward and
            backward passes go through it.
        metrics: the latest value of each figure.
        batch: the batch in training; None in validation.
        skipped: (), on the device: whether the last update was skipped.
        saved_steps: steps of the checkpoints that the next save may keep, oldest first.
        shard_sums: sizes and check sums of the newest checkpoint's shards (see
            `checkpointing.py`); None = it has no shards.
    """

    data: TranslationData
    validation: Validation
    saving: CheckpointConfig

    def __init__(
        self,
        fabric: Fabric,
        model: TranslationModel,
        run: Run,
        config: TrainerConfig,
        *,
        optim: OptimConfig,
        max_tokens: int,
        seed: int = 1,
    ):
        self.fabric, self.run, self.config, self.optim = fabric, run, config, optim
        self.seed = seed
        self.callbacks: Sequence[Callback] = ()
        self.trackers: Sequence[Tracker] = ()
        self.step, self.max_steps = 0, int(config.max_steps)
        self.metrics: dict[str, Any] = {}
        self.batch: Batch | None = None
        self._row: dict[str, Any] = {}
        self._saved_at = 0.0  # on the monotonic clock
        self.saved_steps: list[int] = []
        self.shard_sums: dict[str, list[int]] | None = None

        self.task = TranslationTask(model, optim.label_smoothing)
        self.module = fabric.setup_module(self.task)
        self.model, self.device = self.task.model, fabric.device
        self.sharded = isinstance(self.model, FSDPModule)
        if isinstance(self.model, FSDPModule) and config.accumulate > 1:
            self.model.set_reshard_after_forward(False)  # weights are gathered once per update
        self.optimizer = make_optimizer(self.model, optim, self.model.config.d_model)
        self.max_tokens, self.expected = max_tokens, max_tokens * config.accumulate
        self.timer = Timer(self.device)
        if config.compile:
            compile_layers(self.model, self.device, self._forward_backward, max_tokens)
        self.ema = EMA(self.model, optim.ema) if optim.ema else None
        self.spikes = LossSpikes(config.max_loss_spike, self.device)
        self.skipped = torch.zeros((), dtype=torch.bool, device=self.device)
        # The optimiser skips a step by itself; else the host waits for the verdict.
        on_gpu = self.device.type == "cuda"
        self.skips_on_device = on_gpu and not self.sharded and self.scaler is None

    def fit(
        self,
        data: TranslationData,
        validation: Validation,
        saving: CheckpointConfig,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Train to the end of the run.

        Args:
            data: prepared.
            checkpoint: the state to resume from; None = a new run.

        Raises:
            Interrupted: a signal came; the state is saved.
            RunError: the run diverged.
            OSError: the state could not be saved.
        """
        self.data, self.validation, self.saving = data, validation, saving
        with self.run.stop.listening(), ExitStack() as ending:
            for callback in self.callbacks:
                ending.callback(callback.close)
            batches = self._begin(checkpoint)
            while self.step < self.max_steps:
                if validation.out_of_patience:
                    break
                flags = self._ask_for_flags()
                used = self.train_step(batches)
                self._after_step(used)
                self._save_or_validate(*flags())
            with torch.compiler.set_stance("force_eager"):
                validation.score_average(self)
                for callback in self.callbacks:
                    callback.on_train_end(self)

    def _begin(self, checkpoint: Checkpoint | None) -> Iterator[Batch]:
        """Restore the state, open the data, and repeat a validation that was interrupted."""
        self.step = 0 if checkpoint is None else checkpoint.content["step"]
        self.run.processes.require_same(self.step, "checkpoints", self.run.folder)
        if checkpoint is not None:
            log.info("resuming    after step %d", self.step)
            restore(self, checkpoint)
        consumer = Consumer(
            rank=self.fabric.global_rank,
            world_size=self.fabric.world_size,
            accumulate=self.config.accumulate,
            first_step=self.step,
            max_steps=self.max_steps,
            pin_memory=self.device.type == "cuda",
        )
        batches = iter(self.data.train_dataloader(consumer))
        self.validation.begin(self.step)
        for callback in self.callbacks:
            callback.on_train_start(self)
        # Restore this last, since opening loaders and trackers may have drawn random numbers.
        restore_random_state(self, checkpoint)
        if checkpoint is not None and not checkpoint.content["validated"]:
            log.info("the validation after step %d was not finished: again", self.step)
            self._validate()
        self._saved_at = time.monotonic()
        self.timer.restart()
        return batches

    # A step

    def train_step(self, batches: Iterator[Batch]) -> list[Batch]:
        """Make one update, and nothing else; return its batches."""
        used: list[Batch] = []
        losses = []
        self.optimizer.zero_grad()
        self.model.train()
        for number in range(self.config.accumulate):
            with self.timer.part("data"):
                self.batch = batch = next(batches).to(self.device)
            last = number == self.config.accumulate - 1
            losses.append(self._forward_backward(batch, sync=last))
            used.append(batch)
        with self.timer.part("optimiser"):
            self._update(torch.stack(losses).sum(0), used)
            if self.ema is not None:
                self.ema.update(self.skipped)
        self.step += 1
        self.timer.step_done()
        return used

    def _forward_backward(self, batch: Batch, sync: bool = True) -> Tensor:
        """Add the gradients of a batch; return its summed loss and negative log-likelihood: (2,).

        Args:
            batch: on the device.
            sync: whether processes exchange their gradients now.
        """
        if isinstance(self.model, FSDPModule) and self.config.accumulate > 1:
            self.model.set_reshard_after_backward(sync)
        with self.fabric.no_backward_sync(self.module, enabled=not sync):
            with self.timer.part("forward"):
                loss, nll = self.module(batch)
            with self.timer.part("backward"):
                self.fabric.backward(loss / self.expected)
        return torch.stack([loss.detach(), nll])

    def _update(self, losses: Tensor, used: list[Batch]) -> None:
        """Rescale gradients to the mean loss per target token, clip them, and step."""
        own_tokens = losses.new_full((1,), sum(batch.target_tokens for batch in used))
        loss, nll, tokens = self.sum_over_processes(torch.cat([losses, own_tokens]))
        loss, nll = loss / tokens, nll / tokens
        self.fabric.strategy.precision.unscale_gradients(self.optimizer)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        factor = self.expected * self.fabric.world_size / tokens
        torch._foreach_mul_(gradients, factor.to(gradients[0].dtype))
        limit = self.config.gradient_clip or math.inf
        norm = full_tensor(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        self.metrics |= {"train/loss": loss, "train/nll": nll, "optim/grad_norm": norm}
        peak = peak_learning_rate(self.optim, self.model.config.d_model)
        rate = self.metrics["optim/lr"] = peak * share_of_peak(
            self.step, self.optim, self.max_steps
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._step_unless_bad(nll, norm)

    def sum_over_processes(self, values: Tensor) -> Tensor:
        """Return the sum of all processes' tensors, on the device; collective."""
        return torch.as_tensor(self.fabric.all_reduce(values, reduce_op="sum"))

    def _step_unless_bad(self, nll: Tensor, norm: Tensor) -> None:
        """Let the optimiser update the weights, unless the step is judged to be bad."""
        if self._overflowed(nll, norm):
            # Below, the scaler skips the step and lowers its scale.
            self.skipped = torch.ones_like(self.skipped)
        else:
            self.skipped = self.spikes.judge(self.step + 1, nll, norm)
            if self.skips_on_device:
                # As torch's GradScaler does it: the optimiser reads `found_inf`, and updates
                # nothing if it is 1.
                setattr(self.optimizer, "found_inf", self.skipped.float())  # noqa: B010
            elif self.skipped:
                self.optimizer.zero_grad()  # without gradients the optimiser does nothing
        self.fabric.strategy.optimizer_step(self.optimizer)

    def _overflowed(self, nll: Tensor, norm: Tensor) -> bool:
        """Tell whether the gradients were too large for fp16 under its loss scale.

        At a scale of 1 they are too large in themselves, and the step counts as bad.
        """
        if self.scaler is None or self.scaler.get_scale() <= 1:
            return False
        return bool(nll.isfinite() & ~norm.isfinite())

    @property
    def scaler(self) -> Any:
        """The scaler that keeps small fp16 gradients from becoming zero; None without fp16."""
        return getattr(self.fabric.strategy.precision, "scaler", None)

    # Between two steps

    def _ask_for_flags(self) -> Callable[[], list[int]]:
        """Start to gather two flags: whether a process got a signal, and whether the first
        process's clock says to save.

        The answer arrives while the step is made, so that no process waits for another.
        """
        minutes, first = self.saving.every_minutes, self.run.processes.rank == 0
        save_is_due = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        return self.run.processes.start_all_reduce_max(self.run.stop.signal, save_is_due and first)

    def _after_step(self, used: list[Batch]) -> None:
        for callback in self.callbacks:
            callback.on_step_end(self, used)
        if self.is_log_step:
            names = ("train/loss", "train/nll", "optim/grad_norm", "optim/lr")
            self.log({name: self.metrics[name] for name in names})
            perplexity = self.metrics["train/nll"].exp()
            self.log({"train/perplexity": perplexity, "epoch": self.data.epochs_done(self.step)})
        self.write_row()

    def _save_or_validate(self, signal: int, save_is_due: int) -> None:
        """Save and validate if due now; the arguments are maxima over all processes."""
        if self.run.processes.size == 1:
            signal = self.run.stop.signal  # a signal may have come since
        at_end = self.step >= self.max_steps
        validate_now = self.step % self.config.val_every_n_steps == 0 or at_end
        save_now = validate_now or self.step % self.saving.every_n_steps == 0
        save_now = bool(save_now or signal or save_is_due)
        error = self._report_skipped_steps(wait=save_now)
        if save_now or error is not None:
            self._save(validated=not validate_now)  # before a validation, which takes long
        if error is not None:
            raise error
        if signal:
            raise Interrupted(signal, self.step, self.run.folder)
        if validate_now:
            self._validate()

    def _report_skipped_steps(self, wait: bool) -> RunError | None:
        """Report skipped steps; return the error if they end the run.

        A GPU's verdict is read one step late, unless `wait`: then the host waits for the GPU.
        """
        error: RunError | None = None
        last = self.step - 1 if self.skips_on_device and not wait else self.step
        for step, verdict in self.spikes.read(last):
            if verdict.fault != GOOD:
                place, run = self.data.place(step - 1), self.run
                error = report_skipped_step(step, verdict, place, run=run, config=self.config)
        return error

    def _save(self, validated: bool) -> None:
        with self.timer.excluded():
            save(self, validated)
        self._saved_at = time.monotonic()

    def _validate(self) -> None:
        """Validate, with the averaged weights if there are any; then save with validated=True.

        Compiled layers run as if they were not compiled: graphs for a validation, a search and
        figures take longer to compile than a validation takes.
        """
        self.batch = None
        with self.timer.excluded(), torch.compiler.set_stance("force_eager"):
            self.model.eval()
            with nullcontext() if self.ema is None else self.ema.weights_in():
                self.validation.validate(self)
                for callback in self.callbacks:
                    callback.on_validation_end(self)
            self.write_row()
        self._save(validated=True)

    # Figures

    @property
    def is_log_step(self) -> bool:
        return self.step % self.config.log_every_n_steps == 0

    def log(self, values: Mapping[str, Any]) -> None:
        """Add figures to the row of this step."""
        self._row |= values

    def write_row(self) -> None:
        """Send the row to the trackers, which count steps from 0."""
        row = {name: float(value) for name, value in self._row.items()}
        self._row = {}
        self.metrics |= row
        for tracker in self.trackers:
            if row:
                tracker.log(row, self.step - 1)
