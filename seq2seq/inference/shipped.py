"""Models that come with the package: bundles in `seq2seq/pretrained/`, each with a name."""

from __future__ import annotations

from pathlib import Path

from seq2seq.errors import BundleError

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"
GENERAL = "general"  # the one that is taken where none is named
PARTS = ("config.json", "config.yaml", "bundle")  # one of them is in each bundle and run


def shipped_model(name: str = GENERAL) -> Path | None:
    """The folder of a shipped model; None if there is none of this name."""
    folder = PRETRAINED / name
    named = Path(name).name == name  # and no path, which leads elsewhere
    return folder if named and (folder / "config.json").is_file() else None


def model_folder(name: str | Path) -> Path:
    """The folder that is called so; else that of the shipped model of this name.

    A folder of something else, say of data, does not hide the shipped one.

    Raises:
        BundleError: there is neither.
    """
    folder, shipped = Path(name), shipped_model(str(name))
    if shipped and not any((folder / part).exists() for part in PARTS):
        return shipped
    if folder.is_dir():
        return folder
    known = ", ".join(sorted(file.parent.name for file in PRETRAINED.glob("*/config.json")))
    absent = "" if known or str(name) != GENERAL else f"; the shipped model is not in {PRETRAINED}"
    raise BundleError(
        f"no model folder {name}: give the folder of a run (runs/...) or of a bundle"
        + (f", or the name of a shipped model ({known})" if known else absent)
    )


def is_shipped(folder: Path) -> bool:
    """Whether a folder is that of a shipped model, beside which nothing is to be written."""
    return folder.resolve().parent == PRETRAINED
