"""A small evaluation on disk, made by the code itself: of any texts, in a moment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seq2seq.config import EvaluateConfig
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.evaluation.record import Evaluation

SOURCES = ["The house is big.", "A man reads.", "It is cold today, is it not?", "Two cats sleep."]
REFERENCES = [
    "La maison est grande.",
    "Un homme lit.",
    "Il fait froid aujourd'hui, n'est-ce pas ?",
    "Deux chats dorment.",
]


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def given_files(
    folder: Path,
    hypotheses: Sequence[str],
    references: Sequence[str] = REFERENCES,
    sources: Sequence[str] | None = SOURCES,
) -> dict[str, str]:
    """Settings that name these texts, which are written to `folder`."""
    texts = {"hypothesis": hypotheses, "reference": references, "source": sources}
    return {
        name: str(write_lines(folder / f"{name}.txt", lines))
        for name, lines in texts.items()
        if lines is not None
    }


def tiny_evaluation(
    folder: Path, hypotheses: Sequence[str], *texts: Any, **settings: Any
) -> Evaluation:
    """That of given translations, in `folder`/evaluation.json."""
    files = given_files(folder, hypotheses, *texts)
    output = str(folder / "evaluation.json")
    return evaluate(EvaluateConfig(**files, output=output, **settings))
