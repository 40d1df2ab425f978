"""The state of a run as a file: written whole or not at all, verified when it is read.

`<run>/checkpoints/step-N.ckpt` is a dict of tensors and plain values, read with
`weights_only=True`:

    format         raised when older checkpoints would be read wrongly
    version        of this package that wrote it
    settings       of the run, as a plain dict
    step           updates that were made
    validated      False if a validation is due after this step and has not been made
    precision      in which the run computes
    random_states  of each process, see `random_state.py`
    model          the raw weights by name
    optimizer, schedule, scaler, spikes, data
    ema            the moving average; absent without one
    callbacks      by name
    shards         files of `step-N.shards`, with size and check sum; None without FSDP

With FSDP `model` is empty and `optimizer` lacks its large tensors: each process writes its part of
them into `step-N.shards` first (see `sharding.py`), so the file is there only if they are.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2seq import __version__
from seq2seq.config import may_change, migrated
from seq2seq.disk import sync
from seq2seq.errors import RunError

log = logging.getLogger(__name__)

FORMAT = 2
KEEP = 2  # the newest, and the one before in case the newest was damaged


def checkpoint_path(run_dir: Path, step: int) -> Path:
    return run_dir / "checkpoints" / f"step-{step:08d}.ckpt"


def step_of(path: Path) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(path.stem.removeprefix("step-"))


def checkpoint_files(run_dir: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = (run_dir / "checkpoints").glob("step-*.ckpt")
    return sorted(path for path in found if re.fullmatch(r"step-\d{8}", path.stem))


# Writing


class Schedule:
    """When the state is saved beside validations: every N steps, or after so many minutes.

    Args:
        every_n_steps, every_minutes: as in the settings.
    """

    def __init__(self, every_n_steps: int, every_minutes: float | None = None):
        self.every_n_steps, self.every_minutes = every_n_steps, every_minutes
        self.saved_at = time.monotonic()

    def is_due(self, step: int) -> bool:
        return step % self.every_n_steps == 0

    def is_late(self) -> bool:
        """Whether `every_minutes` have passed since the last checkpoint."""
        if self.every_minutes is None:
            return False
        return time.monotonic() - self.saved_at >= 60 * self.every_minutes


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write beside its place, force it to the disk, then move it there.

    Raises:
        OSError: the disk is full or broken; nothing is left of the new file.
    """
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            torch.save({"format": FORMAT, "version": __version__, **content}, file)
        sync(partial)
        os.replace(partial, path)
        sync(path.parent)
    except (OSError, RuntimeError) as error:
        partial.unlink(missing_ok=True)
        raise _disk_error(error) from error


def _disk_error(error: OSError | RuntimeError) -> OSError | RuntimeError:
    """The error of the disk; torch may have wrapped it into one of its own."""
    causes = (error, error.__cause__, error.__context__)
    return next((cause for cause in causes if isinstance(cause, OSError)), error)


def could_not_save(path: Path, reason: str) -> RunError:
    """What a process says when a checkpoint was not written."""
    return RunError(
        f"step {step_of(path)} could not be saved to {path}: {reason}. Make room or mend the "
        f"folder, then go on from the last checkpoint: "
        f"python scripts/train.py resume={path.parents[1]}"
    )


def remove_old(run_dir: Path, step: int) -> None:
    """Keep the newest checkpoints up to a step; those after it were damaged, and are replaced."""
    up_to = [path for path in checkpoint_files(run_dir) if step_of(path) <= step]
    for path in up_to[:-KEEP]:
        path.unlink()
    kept = {path.stem for path in checkpoint_files(run_dir)}
    for path in (run_dir / "checkpoints").iterdir():
        if path.suffix == ".partial":  # of a process that was killed
            path.unlink()
        elif path.suffix == ".shards" and path.stem not in kept:
            shutil.rmtree(path)


# Reading


def newest_checkpoint(run_dir: Path) -> Path | None:
    """The newest checkpoint that is whole; None if the run has none at all.

    Raises:
        RunError: there are checkpoints, but every one is damaged.
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
    """What is wrong with a file; None if it is whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # torch itself does not compare the check sums
        if broken is not None:
            return f"the check sum of {broken} is wrong"
        content = _load(path)
        if "state_dict" not in content:  # which format 1 has
            content["model"]
        for name, expected in (content.get("shards") or {}).items():
            if shard_sum(path.with_suffix(".shards") / name) != expected:
                return f"the check sum of {path.stem}.shards/{name} is wrong"
    except Exception as error:  # whatever it is, the one before may be whole
        return str(error) or type(error).__name__
    return None


def shard_sum(path: Path) -> list[int]:
    """Bytes and check sum of a file of shards."""
    total, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(2**24):
            total, size = zlib.crc32(block, total), size + len(block)
    return [size, total]


def _load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return content


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint in the form of the newest format; its tensors stay in the file until used.

    Raises:
        RunError: it has a format that this version cannot read.
    """
    content = _load(path)
    if content.get("seq2seq", {}).get("format") == 1:
        return _from_format_1(content)
    found = content.get("format", 0)
    if found != FORMAT:
        version = content.get("version", "of before 0.1.0")
        raise RunError(
            f"{path} has format {found}, this version of seq2seq ({__version__}) goes on from "
            f"formats 1 and {FORMAT}: install the version that wrote it ({version}), or start a "
            f"new run from its weights: init_from={path.parents[1]}"
        )
    return content


def _from_format_1(old: dict[str, Any]) -> dict[str, Any]:
    """What Lightning's Trainer wrote, up to revision 8b3eb09 (September 2026)."""
    callbacks = old["callbacks"]
    bleu = callbacks.get("ValidationBleu", {"best": -torch.inf, "best_step": 0})
    content = {
        **old["seq2seq"],
        "format": FORMAT,
        "step": old["global_step"],
        "model": {name.removeprefix("model."): w for name, w in old["state_dict"].items()},
        "optimizer": old["optimizer_states"][0],
        "schedule": old["lr_schedulers"][0],
        "scaler": old.get("MixedPrecision", {}),
        "spikes": old["guard"],
        "data": old["TranslationData"],
        "callbacks": {
            "Validation": {"worse": 0} | bleu,
            "GradientNorms": callbacks.get("GradientNorms", {"since_validation": {}}),
        },
        "shards": None,
    }
    return content | ({"ema": callbacks["EMA"]} if "EMA" in callbacks else {})


# Comparing with the run that goes on


def check_settings(path: Path, then_settings: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse a checkpoint of a run whose config.yaml was edited since.

    Args:
        path: of the checkpoint.
        then_settings: those in it.
        settings: those of now, in the same form.

    Raises:
        RunError: names each setting that differs, then and now.
    """
    then, now = _flat(migrated(then_settings)), _flat(settings)
    changed = []
    for key, value in then.items():
        new = now.get(key, "gone")
        if key not in now and may_change(key):
            continue  # a setting of an older version, which changed nothing that is learned
        if new != value and may_change(key):
            log.warning("resuming    %s was %s, and is %s from now on", key, value, new)
        elif new != value:
            changed.append(f"\n  - {key} was {value}, and is {new} now")
    if changed:
        raise RunError(
            f"the settings of this run differ from those that {path} was made with:"
            f"{''.join(changed)}\nGoing on would be neither the one run nor the other. Put "
            f"config.yaml back, or start a new run from these weights: init_from={path.parents[1]}"
        )


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def check_shapes(path: Path, content: dict[str, Any], model: nn.Module) -> None:
    """Refuse a checkpoint whose weights are not those of the model.

    Raises:
        RunError: names the first weight that differs.
    """
    if content["shards"] is not None:
        return  # reading the shards compares them
    shapes = {name: tuple(value.shape) for name, value in content["model"].items()}
    for name, value in model.state_dict().items():
        if shapes.get(name) != tuple(value.shape):
            raise RunError(
                f"the checkpoint {path} belongs to another model: {name} has shape "
                f"{shapes.get(name, 'missing')} there, and {tuple(value.shape)} by the run's "
                "config.yaml and tokenizer.json. Put back the files that belong together"
            )
