"""Shipping a model: the bundle of a run becomes the one that comes with the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from seq2seq.errors import RunError
from seq2seq.evaluation.evaluate import file_sha256
from seq2seq.inference.bundle import Bundle, load_bundle
from seq2seq.inference.bundle_folder import bundle_folder
from seq2seq.report.results import keep, places_of, renamed
from seq2seq.report.run import Run, read_run
from seq2seq.report.shipped_card import read_notes, shipped_card

LIMIT = 32 * 2**20  # bytes: it stands in the history of git for ever, and in every wheel
# Weights are small numbers: float16 has 3 bits more of each than bfloat16, whose larger range they
# do not need. Log probabilities change a tenth as much.
WEIGHTS = torch.float16


def ship(run: Path, folder: Path, results: Path) -> int:
    """Make the bundle of a run the shipped one; returns its size in bytes.

    The small files of the run are kept in `results`, where `notes.md` is the part of the card that
    is written by hand. Where things lie on this machine is told by neither.

    Args:
        run: finished, and evaluated with the weights of its bundle.
        folder: of the shipped bundle; an earlier one is replaced, at once.
        results: for the small files; those of an earlier run are replaced.

    Raises:
        UserError: the run cannot be shipped, which is found before anything is written; or the
            disk fails.
    """
    found = read_run(run, results.name)
    _require_scored(found)
    notes = read_notes(results / "notes.md")
    bundle = load_bundle(run)
    places = places_of(found, results.name, bundle.training)
    bundle = replace(bundle, training=renamed(bundle.training, places))
    card = shipped_card(found, bundle, notes)
    size = _size(bundle, card)
    if size > LIMIT:
        raise RunError(
            f"the bundle of {run} has {size / 2**20:.1f} MiB in 16 bits, and at most "
            f"{LIMIT / 2**20:g} MiB are shipped, since git keeps them for ever: train a smaller "
            "model (model.d_model=, model.encoder_layers=, tokenizer.vocab_size=)"
        )
    bundle.save(folder, dtype=WEIGHTS, card=card)
    keep(run, results, replace=True)
    return size


def _require_scored(run: Run) -> None:
    """Raise RunError unless the run is finished, and its scores are those of its bundle."""
    if not run.summary:
        raise RunError(
            f"{run.folder} is not finished: python scripts/train.py resume={run.folder} first"
        )
    evaluate = f"python scripts/evaluate.py model={run.folder} data=NAME split=test"
    if not run.evaluations:
        raise RunError(f"{run.folder} was not evaluated: {evaluate} first, for its card")
    weights = file_sha256(bundle_folder(run.folder) / "model.safetensors")
    for place, one in run.evaluations.items():
        if (one.model or {}).get("sha256") != weights:
            raise RunError(
                f"{place} has scores of other weights than those of the bundle: evaluate again "
                f"({evaluate}), and remove that folder"
            )


def _size(bundle: Bundle, card: str) -> int:
    """Bytes of the shipped bundle, found by writing it elsewhere."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bundle"
        bundle.save(folder, dtype=WEIGHTS, card=card)
        return sum(file.stat().st_size for file in folder.iterdir())
