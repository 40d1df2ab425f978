"""The processes of a run: how they start, and the messages that they exchange."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.strategies.strategy import Strategy
from torch.nn.parallel import DistributedDataParallel

from seq2seq.config import TrainerConfig
from seq2seq.errors import ConfigError, RunError, UserError, command_line
from seq2seq.training.sharding import sharded_strategy

T = TypeVar("T")

GROUP_TIMEOUT = timedelta(hours=2)  # one process may validate for long while the others wait


def make_fabric(
    accelerator: str, precision: str, devices: int = 1, num_nodes: int = 1, strategy: str = "auto"
) -> Fabric:
    """Make the Fabric, which starts processes, places tensors and knows the precision."""
    chosen: str | Strategy = strategy
    if strategy == "fsdp":
        chosen = sharded_strategy(devices * num_nodes, bf16=precision == "bf16-mixed")
    elif strategy == "ddp" or devices * num_nodes > 1:
        # Buffers are equal tables in all processes. torch 2.13 renamed the argument.
        known = inspect.signature(DistributedDataParallel).parameters
        name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        chosen = DDPStrategy(gradient_as_bucket_view=True, **dict[str, Any]({name: False}))
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=num_nodes,
        strategy=chosen,
        precision=precision,  # type: ignore[arg-type]  # checked by our settings
    )


def process_rank() -> int:
    """Return the rank of this process in a distributed run; 0 if it is the only process.

    The rank is known before Fabric starts: torchrun sets RANK, SLURM sets SLURM_PROCID, and
    Fabric's own launcher sets LOCAL_RANK for the processes that it starts.
    """
    names = ("RANK", "SLURM_PROCID", "LOCAL_RANK")
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def check_processes(config: TrainerConfig, precision: str) -> None:
    """Refuse settings with which the processes of a run cannot work together.

    Raises:
        ConfigError: torchrun has started another number of processes than the settings say, or
            could hang when it restarts them; or FSDP has one process only, or runs in fp16.
    """
    problems = []
    wanted, started = config.devices * config.num_nodes, int(os.environ.get("WORLD_SIZE", 0))
    if "TORCHELASTIC_RUN_ID" in os.environ and started != wanted:
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        problems.append(
            f"torchrun has started {started} processes, {here} of them on this machine, but "
            f"trainer.devices={config.devices} x trainer.num_nodes={config.num_nodes} makes "
            f"{wanted}: set trainer.devices={here} trainer.num_nodes={started // here}"
        )
    if config.num_nodes > 1 and not {"RANK", "SLURM_PROCID"} & os.environ.keys():
        problems.append(
            f"trainer.num_nodes={config.num_nodes}, and nothing says which machine this is: "
            "start the run on each machine with torchrun or srun (docs/how-to/several-gpus.md)"
        )
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if restarts != "0" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        problems.append(
            f"torchrun --max-restarts={restarts} can hang after a restart, when processes find the "
            "addresses of those before in its store (pytorch issue 135712): put "
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before the command, and give it --standalone, or "
            "--rdzv-backend=c10d for several machines"
        )
    if config.strategy == "fsdp" and wanted == 1:
        problems.append(
            "trainer.strategy=fsdp shares the weights among processes, and this is one: start "
            "several with torchrun --nproc-per-node=N, or use trainer=auto"
        )
    if config.strategy == "fsdp" and precision == "16-mixed":
        problems.append(
            "trainer.strategy=fsdp does not go with trainer.precision=16-mixed, whose loss scale "
            "each shard would set for itself: use bf16-mixed or 32-true, or trainer=ddp"
        )
    if problems:
        raise ConfigError(*problems)


class Processes:
    """All processes of a run. They exchange small messages through the CPU, so that no GPU waits.

    Create the object after Fabric has started the processes. Creating it and calling its methods
    are collective: every process must do so, in the same order. With a single process, every method
    is trivial.
    """

    def __init__(self) -> None:
        self.rank, self.size, self._group = 0, 1, None
        if dist.is_initialized() and dist.get_world_size() > 1:
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
            self._group = dist.new_group(backend="gloo", timeout=GROUP_TIMEOUT)

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, ordered by rank."""
        if self._group is None:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self._group)
        return values

    def require_same(self, steps: int | list[int], what: str, run_dir: Path) -> None:
        """Raise RunError unless all processes found files of the same steps in the run's folder."""
        found = self.gather(steps)
        if any(other != steps for other in found):
            raise RunError(
                f"the processes found different {what} of {run_dir} (steps "
                f"{', '.join(map(str, found))}): see that all machines read the same folder, then "
                f"continue: {command_line('train', f'resume={run_dir}')}"
            )

    def start_all_reduce_max(self, *numbers: int) -> Callable[[], list[int]]:
        """Start to compute the maximum of each number over all processes.

        Returns:
            A function that waits for the maxima and returns them.
        """
        values, work = torch.tensor(numbers), None
        if self._group is not None:
            work = dist.all_reduce(values, dist.ReduceOp.MAX, self._group, async_op=True)

        def answer() -> list[int]:
            if work is not None:
                work.wait()
            return [int(value) for value in values]

        return answer

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Make all processes fail if the block fails in one, so that none waits for another.

        Raises:
            UserError, OSError: as raised in the block; the other processes raise a RunError with
                the same message.
        """
        error: UserError | OSError | None = None
        try:
            yield
        except (UserError, OSError) as caught:
            error = caught
        messages = self.gather(error and str(error))
        if error is not None:
            raise error
        if failed := [message for message in messages if message is not None]:
            raise RunError(failed[0])
