"""Checkpoints, the saved states of a run: written atomically, verified when read, and restored.

`<run>/checkpoints/step-N.ckpt` is a dict of tensors and plain values, read with
`weights_only=True`::

    format         number of the file format; raised when older files would be read wrongly
    version        the version of seq2seq that wrote the file
    settings       the settings of the run, as a plain dict
    step           number of updates so far
    validated      False if a validation is due after this step and has not been made
    precision      the precision of the run's arithmetic
    random_states  torch's random states in each process, of the CPU and of its GPU; other code that
                   draws numbers makes a generator from the run's seed and the place in the data
    model          the raw weights by name
    optimizer, scaler, spikes, data: the states of these parts
    ema            the state of the moving average; absent without one
    callbacks      the states of validation and callbacks, by class name
    shards         files of `step-N.shards`, with size and check sum; None without FSDP

With FSDP, `model` is empty and `optimizer` lacks its large tensors: each process first writes its
part of them into `step-N.shards` (see `sharding.py`), so a checkpoint never lacks its shards.

`resume=RUN` restores all of this from the newest undamaged checkpoint, and computes again what came
after it. The result is the same to the bit if the number of processes is the same and the device's
kernels are deterministic (those of a CPU are, some of a GPU are not)::

    the run stopped                    newest checkpoint           `resume=` continues with
    before the first save              none                        step 1
    between two saves                  step N of the last save     step N + 1
    in the first save of step N        the previous save           the step after that save
    in the validation after step N     step N, `validated` False   that validation
    or in the save after it
    after the last step N              step N, `validated` True    average, summary, report
    after `summary.json`               step N, `validated` True    a missing report; then it says
                                                                   that the run is finished
    by a signal (see `stopping.py`)    the step under way          the next step, or the validation

If one of several processes is killed, `torchrun` ends the others. With `--max-restarts` it starts
all of them again with the same command. Without `torchrun`, the first process ends the others if
one of them is killed; if the first is killed, end the others yourself.
"""

from __future__ import annotations

import logging
import shutil
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from seq2seq import __version__
from seq2seq.config import flat, may_change, migrated
from seq2seq.data.fingerprint import fingerprint
from seq2seq.errors import RunError
from seq2seq.files import atomic_write
from seq2seq.training.sharding import (
    load_shards,
    load_weights,
    load_whole_state,
    save_shards,
    small_state,
)

if TYPE_CHECKING:
    from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)

FORMAT = 2
LAST_VERSIONS = {1: "revision a4b07cc, seq2seq 0.1.0"}  # that can resume from older formats
KEEP = 2  # the newest, and the previous one in case the newest is damaged


class Checkpoint(NamedTuple):
    """A saved state, and the path of its file."""

    path: Path
    content: dict[str, Any]


def checkpoint_path(run_dir: Path, step: int) -> Path:
    """Return the path of the checkpoint after `step` updates."""
    return run_dir / "checkpoints" / f"step-{step:08d}.ckpt"


def step_of(path: Path) -> int:
    """Return the step of a checkpoint: the number of updates before it was written."""
    return int(path.stem.removeprefix("step-"))


def checkpoint_files(run_dir: Path) -> list[Path]:
    """List the checkpoints of a run, oldest first."""
    return sorted((run_dir / "checkpoints").glob(f"step-{8 * '[0-9]'}.ckpt"))


# Saving


def save(trainer: Trainer, validated: bool) -> None:
    """Write a checkpoint of the state after a step, and remove old checkpoints; collective.

    Args:
        trainer: is between two steps, and its model has the raw weights.
        validated: False if a validation of these weights is due.

    Raises:
        OSError: the checkpoint could not be written; the other processes raise RunError.
    """
    run, step = trainer.run, trainer.step
    path, first = checkpoint_path(run.folder, step), run.processes.rank == 0
    on_gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    random_states = run.processes.gather({"torch": torch.get_rng_state(), "cuda": on_gpu})
    with run.processes.failing_together():
        # A validation changes neither weights nor moments, so the save after it keeps the shards
        # of the save before it: a whole checkpoint of this step exists at every moment.
        shards_are_current = trainer.shard_sums is not None and step in trainer.saved_steps
        if trainer.sharded and not shards_are_current:
            shards = path.with_suffix(".shards")
            save_shards(trainer.model, trainer.optimizer, shards)
            files = sorted(shards.iterdir()) if first else []
            trainer.shard_sums = {file.name: shard_sum(file) for file in files}
        if first:
            own = {"validated": validated, "random_states": random_states}
            write_checkpoint(path, _state(trainer) | own)
    trainer.saved_steps = sorted({*trainer.saved_steps, step})[-KEEP:]
    if first:
        remove_others(run.folder, trainer.saved_steps)


def _state(trainer: Trainer) -> dict[str, Any]:
    """Return the content of a checkpoint, except `validated` and `random_states`."""
    whole = not trainer.sharded
    state = {
        "settings": trainer.run.settings,
        "step": trainer.step,
        "precision": trainer.run.precision,
        "model": trainer.model.state_dict() if whole else {},
        "optimizer": trainer.optimizer.state_dict() if whole else small_state(trainer.optimizer),
        "scaler": trainer.fabric.strategy.precision.state_dict(),
        "spikes": trainer.spikes.state_dict(),
        "data": trainer.data.state_dict(trainer.step),
        "callbacks": {
            name: own for name, part in _parts(trainer).items() if (own := part.state_dict())
        },
        "shards": trainer.shard_sums,
    }
    return state if trainer.ema is None else state | {"ema": trainer.ema.state_dict()}


def _parts(trainer: Trainer) -> dict[str, Any]:
    """Return the parts that may keep a state from step to step, by class name."""
    parts = (trainer.validation, *trainer.callbacks)
    return {type(part).__name__: part for part in parts}


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    Raises:
        OSError: the disk is full or broken; no partial file is left.
    """
    path.parent.mkdir(exist_ok=True)
    try:
        with atomic_write(path) as file:
            torch.save({"format": FORMAT, "version": __version__, **content}, file)
    except RuntimeError as error:
        causes = (error.__cause__, error.__context__)  # torch may wrap the disk's error
        raise next((cause for cause in causes if isinstance(cause, OSError)), error) from error


def shard_sum(path: Path) -> list[int]:
    """Return the size in bytes and the check sum (CRC-32) of a file of shards."""
    total, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(2**24):
            total, size = zlib.crc32(block, total), size + len(block)
    return [size, total]


def remove_others(run_dir: Path, keep: Collection[int]) -> None:
    """Remove all checkpoints, with their shards, except those of the steps in `keep`."""
    for path in checkpoint_files(run_dir):
        if step_of(path) not in keep:
            path.unlink()
    remove_stray_shards(run_dir)


def remove_stray_shards(run_dir: Path) -> None:
    """Remove shards whose checkpoint was removed, or never written in an interrupted save."""
    for shards in (run_dir / "checkpoints").glob("*.shards"):
        if not shards.with_suffix(".ckpt").exists():
            shutil.rmtree(shards)


# Reading


def newest_checkpoint(run_dir: Path) -> Path | None:
    """Return the newest undamaged checkpoint; None if the run has no checkpoints.

    Raises:
        RunError: there are checkpoints, but all of them are damaged.
    """
    files = checkpoint_files(run_dir)
    for path in reversed(files):
        if (fault := _fault(path)) is None:
            return path
        log.warning("%s is damaged (%s): trying the one before", path, fault)
    if files:
        raise RunError(
            f"every checkpoint of {run_dir} is damaged ({', '.join(f.name for f in files)}): "
            "start a new run, or copy them again from where they were whole"
        )
    return None


def _fault(path: Path) -> str | None:
    """Describe the damage of a checkpoint; None if it is whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # torch itself does not compare the check sums
        if broken is not None:
            return f"the check sum of {broken} is wrong"
        for name, expected in (_load(path).get("shards") or {}).items():
            if shard_sum(path.with_suffix(".shards") / name) != expected:
                return f"the check sum of {path.stem}.shards/{name} is wrong"
    except Exception as error:  # whatever the error is, the previous one may be whole
        return str(error) or type(error).__name__
    return None


def _load(path: Path) -> dict[str, Any]:
    return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; its tensors stay in the file until they are used.

    Raises:
        RunError: this version cannot read the format of the file.
    """
    content = _load(path)
    found = content.get("format", content.get("seq2seq", {}).get("format", 0))
    if found != FORMAT:
        version = LAST_VERSIONS.get(found, content.get("version", "of before 0.1.0"))
        raise RunError(
            f"{path} has format {found}, this version of seq2seq ({__version__}) continues "
            f"from format {FORMAT}: install the last version that continues from it ({version}), "
            f"or start a new run from its weights: init_from={path.parents[1]}"
        )
    return Checkpoint(path, content)


def find_checkpoint(run_dir: Path, settings: dict[str, Any]) -> Checkpoint | None:
    """Read the newest checkpoint of a run that resumes with these settings; None if it has none.

    Raises:
        RunError: all checkpoints are damaged, or the newest one was made with other settings or
            has a format that this version cannot read.
    """
    path = newest_checkpoint(run_dir)
    if path is None:
        return None
    checkpoint = read_checkpoint(path)
    check_settings(path, checkpoint.content["settings"], settings)
    return checkpoint


def check_settings(path: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a checkpoint if the run's config.yaml was edited after it was written.

    Raises:
        RunError: settings differ that may not change; names each with both values.
    """
    fixed, after = [], flat(now)
    for key, old in flat(migrated(then)).items():
        inside = {name: value for name, value in after.items() if name.startswith(f"{key}.")}
        new = after.get(key, inside or "gone")
        if new == old:
            continue
        if not may_change(key):
            fixed.append(f"\n  - {key} was {old}, and is {new} now")
        elif new != "gone":  # else a setting of an older version that did not affect learning
            log.warning("resuming    %s was %s, and is %s from now on", key, old, new)
    if fixed:
        raise RunError(
            f"the settings of this run differ from those that {path} was made with:"
            f"{''.join(fixed)}\nGoing on would be neither the one run nor the other. Put "
            f"config.yaml back, or start a new run from these weights: init_from={path.parents[1]}"
        )


# Resuming


def restore(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Restore a trainer from a checkpoint, except its random state; collective.

    Raises:
        RunError: the data have changed, or the weights belong to another model.
    """
    path, content = checkpoint
    then, now = content["precision"], trainer.run.precision
    if then != now and trainer.run.processes.rank == 0:
        log.warning(
            "the run computed in %s so far and continues in %s: to keep %s, resume with "
            "trainer.precision=%s",
            *(then, now, then, then),
        )
    if content["shards"] is None:
        try:
            load_weights(trainer.model, content["model"])
        except (RuntimeError, KeyError) as error:
            raise RunError(
                f"the checkpoint {path} belongs to another model than the run's config.yaml and "
                f"tokenizer.json: {error}. Put back the files that belong together"
            ) from error
        load_whole_state(trainer.optimizer, content["optimizer"])
    else:
        trainer.optimizer.load_state_dict(content["optimizer"])
        load_shards(trainer.model, trainer.optimizer, path.with_suffix(".shards"))
        trainer.shard_sums = content["shards"] if trainer.sharded else None
    # The next save removes all others, also the damaged ones after this one.
    steps = [step_of(file) for file in checkpoint_files(trainer.run.folder)]
    trainer.saved_steps = [step for step in steps if step <= content["step"]][-KEEP:]
    if content["scaler"]:
        trainer.fabric.strategy.precision.load_state_dict(content["scaler"])
    trainer.spikes.load_state_dict(content["spikes"])
    trainer.data.load_state_dict(content["data"])
    if trainer.ema is not None:
        trainer.ema.load_state_dict(content["ema"])
    for name, part in _parts(trainer).items():
        if name in content["callbacks"]:
            part.load_state_dict(content["callbacks"][name])


def restore_random_state(trainer: Trainer, checkpoint: Checkpoint | None) -> None:
    """Restore this process's random state, or seed it if the checkpoint has none for it."""
    states = [] if checkpoint is None else checkpoint.content["random_states"]
    rank, world = trainer.fabric.global_rank, trainer.fabric.world_size
    if states and len(states) != world:
        log.warning(
            "the run continues with %d processes instead of %d: its weights and its place in the "
            "data are the same, but dropout and the order of additions differ, so its result is "
            "not the same to the bit",
            *(world, len(states)),
        )
    if rank < len(states):
        torch.set_rng_state(states[rank]["torch"])
        if states[rank]["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(states[rank]["cuda"])
    elif rank > 0:  # the first process of a new run was seeded before its weights were made
        torch.manual_seed(int(fingerprint([trainer.seed, rank, trainer.step]), 16))
