"""Ship a model: the bundle of a run becomes the one that comes with the package.

python scripts/maintain/ship.py RUN

The small files of the run are kept in results/general, where notes.md is the part of the model's
card that is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from results import cell, keep, markdown, without_places, write_table
from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.bundle.card import card_paragraphs
from seq2seq.bundle.find import GENERAL, bundle_folder
from seq2seq.cli.exits import run_command
from seq2seq.errors import RunError
from seq2seq.evaluation.record import Evaluation
from seq2seq.files import checksum
from seq2seq.report.facts import facts
from seq2seq.report.run import Run, read_run

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 32 * 2**20  # bytes: the weights stay in the history of git for ever, and in every wheel
# Weights are small numbers, which do not need the larger range of bfloat16. float16 has 3 bits more
# of mantissa, and rounding to it changes log probabilities a tenth as much.
WEIGHTS = torch.float16
METRICS = ("BLEU", "chrF2")
COST = ("hardware", "updates", "time of updates", "speed")
SECTIONS = ("## Training data", "## Known weaknesses")  # that the notes must have
USE = """    translate "hello world"       # add --model general if you chose another model by --use
    seq2seq train init_from=general data=files data.path=FOLDER    # to fine-tune it

In Python, `Translator.load()` of `seq2seq` reads it."""
ROUNDED = (
    "Each line of these sets was translated as it stands; BLEU and chrF2 are sacreBLEU's, on "
    "detokenised, cased text, with 95 % intervals by bootstrap. Scored were the weights of the "
    "run, which are stored here in 16 bits (float16)."
)


def ship(run: Path, folder: Path, results: Path) -> int:
    """Make the bundle of a run the shipped one, and return the bytes of its weights.

    The small files of the run are kept in `results`, where `notes.md` is the part of the card that
    is written by hand. Neither bundle nor results reveal the folders of this machine.

    Args:
        run: finished, and evaluated with the weights of its bundle.
        folder: of the shipped bundle; an earlier bundle is replaced in one step.
        results: for the small files; those of an earlier run are replaced.

    Raises:
        UserError: the run cannot be shipped, and nothing was written; or the disk fails.
    """
    found = read_run(run, results.name)
    _require_scored(found)
    notes = read_notes(results / "notes.md")
    bundle = load_bundle(run)
    training = json.dumps(bundle.training, ensure_ascii=False)
    bundle = replace(bundle, training=json.loads(without_places(training, run, results.name)))
    card = shipped_card(found, bundle, notes)
    size = WEIGHTS.itemsize * sum(weight.numel() for weight in bundle.model.parameters())
    if size > LIMIT:
        raise RunError(
            f"the weights of {run} have {size / 2**20:.1f} MiB in 16 bits, and at most "
            f"{LIMIT / 2**20:g} MiB are shipped, since git keeps them for ever: train a smaller "
            "model (model.d_model=, model.encoder_layers=, tokenizer.vocab_size=)"
        )
    bundle.save(folder, dtype=WEIGHTS, card=card)
    keep(run, results)
    return size


def _require_scored(run: Run) -> None:
    """Raise RunError unless the run is finished, and its scores belong to the bundle's weights."""
    if not run.summary:
        raise RunError(
            f"{run.folder} is not finished: python scripts/train.py resume={run.folder} first"
        )
    evaluate = f"python scripts/evaluate.py bundle={run.folder} data=NAME split=test"
    if not run.evaluations:
        raise RunError(f"{run.folder} was not evaluated: {evaluate} first, for its card")
    weights = checksum(bundle_folder(run.folder) / "model.safetensors")
    for place, one in run.evaluations.items():
        if (one.model or {}).get("sha256") != weights:
            raise RunError(
                f"{place} has scores of other weights than those of the bundle: evaluate again "
                f"({evaluate}), and remove that folder"
            )


def read_notes(path: Path) -> str:
    """Read the hand-written notes on a shipped model.

    Raises:
        RunError: the file is missing, or says nothing on the model's data or its weaknesses.
    """
    try:
        notes = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise RunError(f"the notes {path} cannot be read ({error}): restore them") from error
    for section in SECTIONS:
        if not re.search(rf"^{section}\n\s*(?!## )\S", notes, re.MULTILINE):
            raise RunError(
                f"{path} has nothing under `{section}`, which the card of a shipped model has to "
                "tell: write it, with examples of what the model really said"
            )
    return notes


def shipped_card(run: Run, bundle: Bundle, notes: str) -> str:
    """Make the model card, the README.md of a shipped model."""
    starts = run.origin.starts[-1:] if run.origin else []
    versions = [s.versions["seq2seq"] for s in starts if "seq2seq" in s.versions]
    title, *made = card_paragraphs(bundle, *versions)
    evaluations = list(run.evaluations.values())
    known = facts(run)
    cost = [(name, ", ".join(filter(None, known[name]))) for name in COST if name in known]
    scores = [score for one in evaluations for name in METRICS if (score := one.score(name))]
    parts = [
        title,
        USE,
        *made,
        markdown((("training", ""), *cost)),
        "## Scores",
        ROUNDED,
        markdown((("test set", "sentences", "search", *METRICS), *map(_scores, evaluations))),
        *(part for one in evaluations for part in _by_corpus(one)),
        "Signatures:",
        "\n".join(dict.fromkeys(f"- {score.name}: `{score.signature}`" for score in scores)),
        notes,
    ]
    return "\n\n".join(parts) + "\n"


def _scores(one: Evaluation) -> list[str]:
    precision = (one.model or {}).get("precision", "float32")
    search = one.search + f", {precision}" * (precision != "float32")
    scores = [cell(one.score(name), " to ") for name in METRICS]
    return [one.label, f"{one.sentences:,}", search, *scores]


def _by_corpus(one: Evaluation) -> Iterator[str]:
    """Yield, for a mixture of corpora, a table of the scores of each corpus."""
    for breakdown in one.breakdowns:
        if breakdown.by == "corpus":
            rows: list[Sequence[str]] = [("corpus", "sentences", *METRICS)]
            for group in breakdown.groups:
                scores = [group.scores.get(name) for name in METRICS]
                shown = ["" if score is None else f"{score:.1f}" for score in scores]
                rows.append((group.name, f"{group.sentences:,}", *shown))
            yield f"Of these, {one.label} by corpus:"
            yield markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="finished and evaluated")
    folder, results = ROOT / "seq2seq" / "pretrained" / GENERAL, ROOT / "results" / GENERAL
    size = ship(parser.parse_args().run, folder, results)
    write_table(ROOT)
    print(f"shipped     {folder} ({size / 2**20:.1f} MiB)")
    print(f"kept        {results}, and the table in docs/explanation/results.md")
    print('try         translate --model general "hello world"')


if __name__ == "__main__":
    run_command(main)
