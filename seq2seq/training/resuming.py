"""What a checkpoint holds of a trainer: saved after a step, and restored when a run goes on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.distributed.checkpoint.api import CheckpointException

from seq2seq.errors import RunError
from seq2seq.training.checkpointing import (
    check_shapes,
    checkpoint_path,
    could_not_save,
    remove_old,
    shard_sum,
    write_checkpoint,
)
from seq2seq.training.random_state import random_state, seed_process, set_random_state
from seq2seq.training.sharding import (
    load_shards,
    load_whole_state,
    load_whole_weights,
    save_shards,
    small_state,
)

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)


def save(trainer: Trainer, validated: bool) -> None:
    """Write the state after a step; collective.

    Args:
        trainer: between two steps, its model with the raw weights.
        validated: False if a validation of these weights is due.

    Raises:
        RunError: it could not be written; in all processes, so that none waits for another.
    """
    processes, path = trainer.run.processes, checkpoint_path(trainer.run.folder, trainer.step)
    random_states = processes.gather(random_state())
    error: BaseException | None = None
    try:
        if trainer.sharded:
            save_shards(trainer.model, trainer.optimizer, path.with_suffix(".shards"))
        if processes.rank == 0:
            state = _state(trainer, path)
            write_checkpoint(
                path, {**state, "validated": validated, "random_states": random_states}
            )
    except (OSError, CheckpointException) as caught:
        error = caught
    if processes.all_reduce_max(error is not None)[0]:
        reason = getattr(error, "strerror", None) or str(error or "see the first process")
        raise could_not_save(path, reason) from error
    if processes.rank == 0:
        remove_old(trainer.run.folder, trainer.step)


def _state(trainer: Trainer, path: Path) -> dict[str, Any]:
    """All but what each process has of its own."""
    whole = not trainer.sharded
    parts = [trainer.validation, *trainer.callbacks]
    states = {type(part).__name__: part.state_dict() for part in parts if part is not None}
    state = {
        "settings": trainer.run.settings,
        "step": trainer.step,
        "precision": trainer.run.precision,
        "model": trainer.model.state_dict() if whole else {},
        "optimizer": trainer.optimizer.state_dict() if whole else small_state(trainer.optimizer),
        "schedule": trainer.schedule.state_dict(),
        "scaler": trainer.fabric.strategy.precision.state_dict(),
        "spikes": trainer.spikes.state_dict(),
        "data": trainer.data.state_dict(trainer.step),
        "callbacks": {name: state for name, state in states.items() if state},
        "shards": None,
    }
    if not whole:
        files = sorted(path.with_suffix(".shards").iterdir())
        state["shards"] = {file.name: shard_sum(file) for file in files}
    if trainer.ema is not None:
        state["ema"] = trainer.ema.state_dict()
    return state


def restore(trainer: Trainer, path: Path, content: dict[str, Any]) -> None:
    """Give a trainer the state of a checkpoint; collective.

    Args:
        trainer: whose data know who takes them.
        path, content: of the checkpoint.

    Raises:
        RunError: the data have changed, the weights are those of another model, or the processes
            found different checkpoints.
    """
    processes, now = trainer.run.processes, trainer.run.precision
    steps = processes.gather(content["step"])
    if len(set(steps)) > 1:
        raise RunError(
            f"the processes found different checkpoints of {trainer.run.folder} (steps "
            f"{', '.join(map(str, steps))}): see that all machines read the same folder, then "
            "start again"
        )
    then = content.get("precision", now)
    if then != now and processes.rank == 0:
        log.warning(
            "the run computed in %s so far and goes on in %s: to keep it, resume with "
            "trainer.precision=%s",
            *(then, now, then),
        )
    _restore_weights(trainer, path, content)
    trainer.schedule.load_state_dict(content["schedule"])
    if content["scaler"]:
        trainer.fabric.strategy.precision.load_state_dict(content["scaler"])
    trainer.spikes.load_state_dict(content["spikes"])
    trainer.data.load_state_dict(content["data"])
    if trainer.ema is not None:
        trainer.ema.load_state_dict(content["ema"])
    for part in (trainer.validation, *trainer.callbacks):
        if part is not None and type(part).__name__ in content["callbacks"]:
            part.load_state_dict(content["callbacks"][type(part).__name__])


def _restore_weights(trainer: Trainer, path: Path, content: dict[str, Any]) -> None:
    model, optimizer = trainer.model, trainer.optimizer
    if content["shards"] is None:
        check_shapes(path, content, model)
        load_whole_weights(model, content["model"])
        load_whole_state(optimizer, content["optimizer"])
    else:
        optimizer.load_state_dict(content["optimizer"])
        load_shards(model, optimizer, path.with_suffix(".shards"))


def restore_random_state(trainer: Trainer, content: dict[str, Any] | None) -> None:
    """That of this process in the checkpoint; where it has none, new seeds."""
    states = [] if content is None else content["random_states"]
    rank, world = trainer.fabric.global_rank, trainer.fabric.world_size
    if states and len(states) != world:
        log.warning(
            "the run goes on with %d processes instead of %d: from the same weights and the "
            "same place in the data, but dropout and the order of additions are others, so "
            "its end is not the same to the bit",
            *(world, len(states)),
        )
    if rank < len(states):
        set_random_state(states[rank])
    elif rank > 0:  # the first process of a new run was seeded before its weights were made
        seed_process(trainer.seed, rank, trainer.step)
