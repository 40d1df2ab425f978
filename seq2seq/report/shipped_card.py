"""The card of the shipped model: what the run tells of it, and what was written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from seq2seq.errors import RunError
from seq2seq.evaluation.record import Evaluation
from seq2seq.inference.bundle import Bundle
from seq2seq.inference.model_card import making
from seq2seq.report.facts import facts
from seq2seq.report.run import Run
from seq2seq.report.scores import interval

METRICS = ("BLEU", "chrF2")
COST = ("hardware", "updates", "time of updates", "speed")
SECTIONS = ("## Training data", "## Known weaknesses")  # of the notes
USE = """    translate "hello world"       # with --model general, where there are runs of your own
    python scripts/train.py init_from=general data=files data.path=FOLDER    # to fine-tune it

In Python, `Translator.load()` of `seq2seq` reads it."""
ROUNDED = (
    "Each line of these sets was translated as it stands; BLEU and chrF2 are sacreBLEU's, on "
    "detokenised, cased text, with 95 % intervals by bootstrap. Scored were the 32-bit weights, "
    "which were rounded to 16 bits (float16) afterwards."
)


def read_notes(path: Path) -> str:
    """What is written by hand about a shipped model.

    Raises:
        RunError: the file is missing, or has nothing to say on its data or its weaknesses.
    """
    try:
        notes = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise RunError(f"the notes {path} cannot be read ({error}): restore them") from error
    for section in SECTIONS:
        _, found, rest = f"\n{notes}\n".partition(f"\n{section}\n")
        if not found or not rest.partition("\n## ")[0].strip():
            raise RunError(
                f"{path} has nothing under `{section}`, which the card of a shipped model has to "
                "tell: write it, with examples of what the model really said"
            )
    return notes


def shipped_card(run: Run, bundle: Bundle, notes: str) -> str:
    """The README.md of a shipped model, in Markdown."""
    starts = run.origin.starts[-1:] if run.origin else []
    versions = [s.versions["seq2seq"] for s in starts if "seq2seq" in s.versions]
    title, *made = making(bundle, *versions)
    evaluations = list(run.evaluations.values())
    known = facts(run)
    cost = [(name, ", ".join(filter(None, known[name]))) for name in COST if name in known]
    parts = [
        title,
        USE,
        *made,
        _table((("training", ""), *cost)),
        "## Scores",
        ROUNDED,
        _table((("test set", "sentences", "search", *METRICS), *map(_scores, evaluations))),
        *(part for one in evaluations for part in _by_corpus(one)),
        "Signatures:",
        "\n".join(dict.fromkeys(line for one in evaluations for line in _signatures(one))),
        notes,
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _scores(one: Evaluation) -> list[str]:
    decode = one.decode or {}
    beam = decode.get("strategy") == "beam"
    search = f"beam {decode['beam']}" if beam else str(decode.get("strategy", ""))
    precision = (one.model or {}).get("precision", "float32")
    search += f", {precision}" * (precision != "float32")
    return [one.label, f"{one.sentences:,}", search, *(_score(one, name) for name in METRICS)]


def _score(one: Evaluation, metric: str) -> str:
    score = one.score(metric)
    if score is None:
        return ""
    ends = interval(score)
    return f"{score.value:.1f}" + (f" ({ends})" if ends else "")


def _by_corpus(one: Evaluation) -> Iterator[str]:
    """Scores of the corpora of a mixture."""
    for breakdown in one.breakdowns:
        if breakdown.by == "corpus":
            yield f"Of these, {one.label} by corpus:"
            yield _table((
                ("corpus", "sentences", *METRICS),
                *((group.name, f"{group.sentences:,}",
                   *(f"{group.scores[name]:.1f}" if name in group.scores else ""
                     for name in METRICS))
                  for group in breakdown.groups),
            ))  # fmt: skip


def _signatures(one: Evaluation) -> Iterator[str]:
    for name in METRICS:
        if score := one.score(name):
            yield f"- {name}: `{score.signature}`"
