"""Translations for the report: samples of validations over time, and scored test sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any

from seq2seq.errors import UserError
from seq2seq.evaluation.metrics import chrf_scores
from seq2seq.evaluation.texts import Texts, stored_texts
from seq2seq.report.run import Run, Sample
from seq2seq.text import evenly

SENTENCES = 240  # shown sentences, of all evaluations of a page together
WORDS = 60  # words of a sentence that are compared and shown
VALIDATIONS = 24  # shown validations, of all runs together;
TOKENS = 6000  # fewer are shown if their translations would have more tokens than this
SURE = 0.9  # a token of this probability or more is not marked

Words = list[tuple[str, bool]]  # words, and whether the other text lacks them


def evaluated(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Choose sentences of each evaluation whose texts can be read, and mark the differences."""
    found = []
    for run in runs:
        for folder, one in run.evaluations.items():
            title = f"{run.name}: {one.label}" if len(runs) > 1 else one.label
            with suppress(UserError):  # the texts were not kept, or have changed
                found.append((title, stored_texts(one, folder)))
    return [_sentences(title, texts, max(4, SENTENCES // len(found))) for title, texts in found]


def _sentences(title: str, texts: Texts, most: int) -> dict[str, Any]:
    """Choose `most` sentences: a third are the worst, a third the best, the rest from between.

    The sentences are sorted by chrF2, the worst first; those between are picked evenly.
    """
    _, chrf = chrf_scores(texts.hypotheses, texts.references)
    rows = sorted(range(len(chrf)), key=lambda row: (chrf[row], row))
    third = most // 3
    if len(rows) > most:
        rows = [*rows[:third], *evenly(rows[third:-third], most - 2 * third), *rows[-third:]]
    sentences = []
    for row in rows:
        reference, hypothesis = compared(texts.references[row], texts.hypotheses[row])
        sentences.append({
            "line": row + 1,
            "chrf": chrf[row],
            "length": len(texts.references[row]),
            "source": texts.sources[row] if texts.sources is not None else None,
            "reference": reference,
            "hypothesis": hypothesis,
        })  # fmt: skip
    return {"title": title, "of": len(chrf), "sentences": sentences}


def compared(reference: str, hypothesis: str) -> tuple[Words, Words]:
    """Split two texts into words, and mark each word that has no match in the other text."""
    sides = [text.split()[:WORDS] for text in (reference, hypothesis)]
    blocks = SequenceMatcher(a=sides[0], b=sides[1], autojunk=False).get_matching_blocks()
    same = [{block[side] + i for block in blocks for i in range(block.size)} for side in (0, 1)]
    ours, theirs = (
        [(word, at not in known) for at, word in enumerate(words)]
        for words, known in zip(sides, same, strict=True)
    )
    return ours, theirs


def samples(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return, for each run with samples, the same sentences over time and the worst sentences."""
    having = [run for run in runs if run.samples]
    return [_samples(run, len(having)) for run in having]


def _samples(run: Run, runs: int) -> dict[str, Any]:
    longest = max(
        sum(len(each.get("tokens") or []) for each in (*one["sentences"], *one["worst"]))
        for one in run.samples
    )
    room = min(VALIDATIONS // runs, TOKENS // runs // max(1, longest))
    *earlier, latest = run.samples
    shown = [*evenly(earlier, room - 1), latest]
    fixed = []
    for index, sentence in enumerate(latest["sentences"]):
        found = [
            (at, f"{one['step']:,}", marked(one["sentences"][index]))
            for at, one in enumerate(shown)
            # A resumed run may have other sentences.
            if index < len(one["sentences"])
            and one["sentences"][index]["source"] == sentence["source"]
        ]
        fixed.append({**sentence, "found": found})
    return {
        "name": run.name,
        "labels": [f"{one['step']:,} (BLEU {one['bleu']:.1f})" for one in shown],
        "left_out": len(run.samples) - len(shown),
        "fixed": fixed,
        "worst": [[marked(sentence) for sentence in one["worst"]] for one in shown],
    }


def marked(one: Sample) -> Sample:
    """Add `pieces` to a sentence: its tokens, each with its probability if that is below SURE."""
    tokens, log_probs = one.get("tokens") or [], one.get("token_log_probs") or []
    if len(log_probs) < len(tokens):
        tokens = []
    pieces: list[tuple[str, float | None]] = []
    for token, log_prob in zip(tokens[: 2 * WORDS], log_probs, strict=False):
        text, probability = token.replace("▁", " "), math.exp(min(0.0, log_prob))
        text = text if pieces else text.lstrip()
        if probability >= SURE:
            pieces.append((text, None))
        else:
            pieces += [(" ", None)] * text.startswith(" ") + [(text.lstrip(), probability)]
    return {**one, "pieces": pieces, "cut": len(tokens) > 2 * WORDS}
