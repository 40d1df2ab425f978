"""The folder that a model is exported to: a new one, or one that replaces an earlier export."""

from __future__ import annotations

import os
from pathlib import Path

from seq2seq.bundle.find import is_exported, is_shipped
from seq2seq.errors import RunError
from seq2seq.files import read_json


def export_place(bundle: Path, output: Path | None, form: str, force: bool) -> Path:
    """Return the folder to export to.

    Args:
        output: as the user named it; None = beside the bundle, or in the current folder if the
            bundle is shipped.
        form: without `output`, the suffix of the bundle's name.
        force: replace an exported model that is there, but nothing else.

    Raises:
        RunError: the output exists.
    """
    beside = _absolute(Path(bundle.name) if is_shipped(bundle) else bundle)
    output = _absolute(output or beside.with_name(f"{beside.name}-{form}"))
    replaceable = output.is_dir() and (_was_exported(output) or not any(output.iterdir()))
    replaceable &= output != Path.cwd()
    if output.exists() and not (force and replaceable):
        raise RunError(
            f"{output} exists already: choose another folder with --output"
            + (", since --force replaces exported models only" if force else ", or add --force")
        )
    return output


def _was_exported(folder: Path) -> bool:
    """Tell whether this project exported a folder for another program."""
    if is_exported(folder):
        return True
    try:
        return {"model_type", "seq2seq"} <= read_json(folder / "config.json").keys()
    except (OSError, ValueError):
        return False


def _absolute(path: Path) -> Path:
    """Make a path absolute, so that "." has a name, too."""
    return Path(os.path.abspath(path))
