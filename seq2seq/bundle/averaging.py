"""Average weights: of a run's snapshots, or of several bundles of one model.

The average of weights from the end of one run translates better than each of them alone (section
6.1 of Vaswani et al. 2017). A snapshot is `<run>/snapshots/step-N.safetensors`: the weights that
were validated after step N, with their BLEU in the file's metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seq2seq.bundle.bundle import translate_read_errors, unique_weights
from seq2seq.bundle.config import read_config
from seq2seq.config import FREE_OF_WEIGHTS
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, RunError, command_line
from seq2seq.files import atomic_write
from seq2seq.model.translation_model import TranslationModel


@dataclass(frozen=True)
class Snapshot:
    path: Path
    step: int
    bleu: float


def save_snapshot(model: TranslationModel, run_dir: Path, step: int, bleu: float) -> None:
    """Write a snapshot of a model's weights; raise RunError if it cannot be written."""
    path = run_dir / "snapshots" / f"step-{step:08d}.safetensors"
    facts = {"step": str(step), "bleu": repr(bleu)}
    try:
        path.parent.mkdir(exist_ok=True)
        with atomic_write(path) as file:
            safetensors.torch.save_file(unique_weights(model), file.name, facts)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"the weights of step {step} could not be saved to {path}: {error}. Make room or "
            "correct the folder's permissions, then continue: "
            f"{command_line('train', f'resume={run_dir}')}"
        ) from error


def read_snapshots(run_dir: Path) -> list[Snapshot]:
    """List the snapshots of a run, oldest first; raise BundleError if one is damaged."""
    found = []
    for path in sorted((run_dir / "snapshots").glob("step-*.safetensors")):
        try:
            with safe_open(path, "pt") as file:
                said = file.metadata() or {}
            found.append(Snapshot(path, int(said["step"]), float(said["bleu"])))
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise BundleError(
                f"the snapshot {path} cannot be read ({error!r}): it is damaged or not ours; "
                "delete it, and the others will do"
            ) from error
    return found


def choose(snapshots: Sequence[Snapshot], count: int, by: str) -> list[Snapshot]:
    """Return the last `count` snapshots, or the `count` with the best BLEU, ordered by step.

    Args:
        snapshots: oldest first. Of those with equal BLEU, the later one counts as better.
    """
    ranked = sorted(snapshots, key=lambda one: one.bleu) if by == "best" else snapshots
    return sorted(ranked[-count:], key=lambda one: one.step)


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of each tensor over safetensors files, summed in 64 bits, file by file.

    Means of 16-bit weights are 32-bit, because they fall between 16-bit values.

    Raises:
        BundleError: a file is damaged, or holds other tensors than the first.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:
        with translate_read_errors(path):
            weights = safetensors.torch.load_file(path)
        if sums and weights.keys() != sums.keys():
            raise BundleError(f"{path} and {paths[0]} hold weights of different models")
        for name, weight in weights.items():
            sums[name] = sums.get(name, 0) + weight.double()
    kinds = {name: torch.promote_types(w.dtype, torch.float32) for name, w in weights.items()}
    return {name: (total / len(paths)).to(kinds[name]) for name, total in sums.items()}


@torch.no_grad()
def copy_weights(model: TranslationModel, weights: dict[str, Tensor]) -> None:
    """Copy these weights into a model, in place."""
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])


def require_same_model(folders: list[Path]) -> None:
    """Raise BundleError, with the differences, unless model, vocabulary and normalisation agree."""
    first, *others = map(_of_model, folders)
    for folder, other in zip(folders[1:], others, strict=True):
        differences = [
            f"{name} is {first.get(name, 'none')} there and {other.get(name, 'none')} here"
            for name in sorted(first.keys() | other.keys())
            if first.get(name) != other.get(name)
        ]
        if differences:
            raise BundleError(
                f"{folder} cannot be averaged with {folders[0]}: {'; '.join(differences)}. Only "
                "models of the same sizes and vocabulary can, best from one run"
            )


def _of_model(folder: Path) -> dict[str, Any]:
    """Collect what must be equal in bundles that are averaged."""
    config = read_config(folder / "config.json")
    sizes = {f"model.{n}": v for n, v in asdict(config.model).items() if n not in FREE_OF_WEIGHTS}
    words = Vocabularies.load(folder).content_hash()
    return {**sizes, "normalise": config.normalise, "the vocabulary": words}
