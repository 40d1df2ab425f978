"""Checkpoints as files: written whole or not at all, verified when they are read.

What Lightning stores is completed by an entry `seq2seq`:

    format         raised when older checkpoints would be read wrongly
    version        of this package that wrote it
    settings       of the run, as a plain dict
    validated      False if a validation was due after this step and had not been made
    random_states  of each process, see `random_state.py`
"""

from __future__ import annotations

import logging
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import nn

from seq2seq import __version__
from seq2seq.config import may_change, migrated
from seq2seq.disk import sync
from seq2seq.errors import RunError

log = logging.getLogger(__name__)

FORMAT = 1
KEEP = 2  # the newest, and the one before in case the newest was damaged


class SafeFiles(TorchCheckpointIO):
    """How Lightning writes a checkpoint: beside its place, forced to the disk, then moved there.

    Attributes:
        error: what kept the last one from being written. It is not raised, since only the first
            process writes, and the others wait for it.
    """

    error: OSError | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any = None
    ) -> None:
        path, self.error = Path(path), None
        partial = path.with_suffix(".partial")
        try:
            with partial.open("wb") as file:
                torch.save(checkpoint, file)
            sync(partial)
            os.replace(partial, path)
            sync(path.parent)
        except (OSError, RuntimeError) as error:
            self.error = _disk_error(error)
            partial.unlink(missing_ok=True)


def _disk_error(error: OSError | RuntimeError) -> OSError:
    """The error of the disk; torch may have wrapped it into one of its own."""
    for cause in (error, error.__cause__, error.__context__):
        if isinstance(cause, OSError):
            return cause
    raise error


def checkpoint_path(run_dir: Path, step: int) -> Path:
    return run_dir / "checkpoints" / f"step-{step:08d}.ckpt"


def step_of(path: Path) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(path.stem.removeprefix("step-"))


def checkpoint_files(run_dir: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = (run_dir / "checkpoints").glob("step-*.ckpt")
    return sorted(path for path in found if re.fullmatch(r"step-\d{8}", path.stem))


def remove_old(run_dir: Path, step: int) -> None:
    """Keep the newest checkpoints up to a step; those after it were damaged, and are replaced."""
    up_to = [path for path in checkpoint_files(run_dir) if step_of(path) <= step]
    unfinished = (run_dir / "checkpoints").glob("*.partial")  # of a process that was killed
    for path in (*up_to[:-KEEP], *unfinished):
        path.unlink()


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
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)["state_dict"]
    except Exception as error:  # whatever it is, the one before may be whole
        return str(error) or type(error).__name__
    return None


def read_entry(path: Path) -> dict[str, Any]:
    """The entry `seq2seq` of a checkpoint, without reading its tensors.

    Raises:
        RunError: it has another format.
    """
    content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    entry: dict[str, Any] = content.get("seq2seq", {"format": 0, "version": "of before 0.1.0"})
    if entry["format"] != FORMAT:
        raise RunError(
            f"{path} has format {entry['format']}, this version of seq2seq ({__version__}) goes "
            f"on from format {FORMAT}: install the version that wrote it ({entry['version']}), or "
            f"start a new run from its weights: init_from={path.parents[1]}"
        )
    return entry


def check_settings(path: Path, entry: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse a checkpoint of a run whose config.yaml was edited since.

    Args:
        path: of the checkpoint.
        entry: what it says.
        settings: those of now, in the same form.

    Raises:
        RunError: names each setting that differs, then and now.
    """
    then, now = _flat(migrated(entry["settings"])), _flat(settings)
    changed = []
    for key, value in then.items():
        new = now.get(key, "gone")
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


def check_shapes(path: Path, model: nn.Module) -> None:
    """Refuse a checkpoint whose weights are not those of the model.

    Raises:
        RunError: names the first weight that differs.
    """
    stored = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["state_dict"]
    shapes = {name.removeprefix("model."): tuple(value.shape) for name, value in stored.items()}
    for name, value in model.state_dict().items():
        if shapes.get(name) != tuple(value.shape):
            raise RunError(
                f"the checkpoint {path} belongs to another model: {name} has shape "
                f"{shapes.get(name, 'missing')} there, and {tuple(value.shape)} by the run's "
                "config.yaml and tokenizer.json. Put back the files that belong together"
            )
