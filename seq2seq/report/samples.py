"""Translations of the same sentences over time, and how sure the model was of each token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from seq2seq.html_page import shown, visible
from seq2seq.report.run import Run

VALIDATIONS = 24  # that are shown, of all runs together; each is some 10 kB,
BYTES = 800_000  # and fewer if they would make the page larger than this
TOKENS = 120  # of a translation that are shown
SURE = 0.9  # probability of a token from which it is not marked

Sample = dict[str, Any]  # a sentence of samples.jsonl


def samples_section(runs: Sequence[Run]) -> str:
    """A part for each run, the first of them open."""
    having = [run for run in runs if run.samples]
    lacking = [run.name for run in runs if not run.samples]
    parts = [_of_run(run, len(having), len(runs) > 1) for run in having]
    if lacking:
        names = escape(visible(", ".join(lacking)))
        parts.append(
            f'<p class="missing">No samples: {names}. Training writes <code>samples.jsonl</code> '
            "at each validation, unless it was an older version or was told not to.</p>"
        )
    return "".join(parts)


def _of_run(run: Run, runs: int, named: bool) -> str:
    """As much of a run as its share of the page allows."""
    count = max(1, VALIDATIONS // runs)
    while len((text := _validations(run, count, named)).encode()) > BYTES // runs:
        if count == 1:
            name = escape(visible(run.name))
            return (
                f'<p class="missing">There is no room for the samples of {name}: a report of fewer '
                "runs has them.</p>"
            )
        count //= 2
    return text


def _validations(run: Run, most: int, named: bool) -> str:
    shown_ones = evenly(run.samples, most)
    labels = "|".join(f"{one['step']:,} (BLEU {one['bleu']:.1f})" for one in shown_ones)
    last = len(shown_ones) - 1
    sentences = "".join(
        _sentence(index, shown_ones) for index in range(len(shown_ones[-1]["sentences"]))
    )
    worst = "".join(
        f'<ol class="worst" data-at="{at}">{"".join(map(_whole, one["worst"]))}</ol>'
        for at, one in enumerate(shown_ones)
    )
    name = f"<h3>{escape(visible(run.name))}</h3>" if named else ""
    left_out = len(run.samples) - len(shown_ones)
    note = f" {left_out} validations between them are left out." if left_out else ""
    return (
        f'{name}<div class="samples"><div class="slider"><label>After step <output>'
        f"{shown_ones[-1]['step']:,}</output>"
        f'<input type="range" min="0" max="{last}" value="{last}" data-labels="{labels}">'
        '</label><label><input type="checkbox"> all steps below each other</label></div>'
        "<p>Marked: what the model gave less than 90 % probability; the stronger, the less. Point "
        f"at it to see how much.{note}</p>"
        f'<h4>The same sentences at every validation</h4><ol class="cards">{sentences}</ol>'
        f"<h4>The worst sentences of this validation, by chrF</h4>{worst}</div>"
    )


def evenly(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of them, the last and, if there is room, the first included."""
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[round(i * last / (most - 1))] for i in range(most)] if most > 1 else [items[last]]


def _sentence(index: int, validations: Sequence[Sample]) -> str:
    """A sentence of the last validation, with its translations over time."""
    last = validations[-1]["sentences"][index]
    found = [
        (at, f"{each['step']:,}", each["sentences"][index])
        for at, each in enumerate(validations)
        if index < len(each["sentences"])
    ]
    over_time = "".join(
        f'<dd data-at="{at}"><small><i>{step}, </i>chrF {one["chrf"]:.0f}</small>{marked(one)}</dd>'
        for at, step, one in found
        if one["source"] == last["source"]  # the run went on with other sentences, if it is not
    )
    return f"<li>{_given(last)}<dt>translation</dt>{over_time}</dl></li>"


def _whole(one: Sample) -> str:
    return (
        f"<li>{_given(one)}<dt>translation</dt><dd><small>chrF {one['chrf']:.0f}</small>"
        f"{marked(one)}</dd></dl></li>"
    )


def _given(one: Sample) -> str:
    return (
        f'<dl><dt>source</dt><dd lang="en" dir="auto">{shown(one["source"])}</dd>'
        f'<dt>reference</dt><dd lang="fr" dir="auto">{shown(one["reference"])}</dd>'
    )


def marked(one: Sample) -> str:
    """A translation, with the tokens that the model doubted."""
    tokens, log_probs = one.get("tokens") or [], one.get("token_log_probs") or []
    if not tokens or len(log_probs) < len(tokens):
        return f"<span>{shown(one['hypothesis'])}</span>"
    parts = []
    for token, log_prob in zip(tokens[:TOKENS], log_probs, strict=False):
        text = escape(visible(token.replace("▁", " ")))
        probability = math.exp(min(0.0, log_prob))
        if probability < SURE:
            space = " " * text.startswith(" ")
            text = (
                f'{space}<mark style="--p:{1 - probability:.2f}" title="{probability:.0%}">'
                f"{text.removeprefix(' ')}</mark>"
            )
        parts.append(text)
    more = "…" if len(tokens) > TOKENS else ""
    return f'<span lang="fr">{"".join(parts).strip()}{more}</span>'
