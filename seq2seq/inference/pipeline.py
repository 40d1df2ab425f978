"""What happens to sentences: the steps in their order, the search, the steps backwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from seq2seq.config import DecodeConfig
from seq2seq.inference.engines import Engine, Progress
from seq2seq.inference.search import TextSearch
from seq2seq.inference.text.fallback import Candidates, Fallback, Source
from seq2seq.inference.text.step import AttentiveStep, Normalisation, Step
from seq2seq.inference.text.terminology import Terminology, TermWriter
from seq2seq.inference.translation import Translation


@dataclass(frozen=True)
class Pipeline:
    """Translates sentences in one way; nothing is kept between calls.

    Attributes:
        steps: in the order of the way to the search.
        search: finds translations.
        decode: its settings.
        terms: and what is banned.
        fallback: whether what the steps find at fault is translated again.
        placeholders: whether the model has learnt them.
        progress: called with the number of sentences that were just translated.
    """

    steps: Sequence[Step]
    search: TextSearch
    decode: DecodeConfig
    terms: Terminology
    fallback: bool = True
    placeholders: bool = False
    progress: Progress = None

    def __call__(self, pieces: Sequence[tuple[str, str]]) -> list[Candidates]:
        """Translations of sentences, best first, each sentence given with its prefix."""
        most = self.decode.max_extra if self.decode.max_ratio == 0 else None
        sources, states = [], []
        for text, prefix in pieces:
            source, own = self._source(text, prefix, most, self.steps)
            sources.append(source)
            states.append(own)
        found = self.search(sources, self.decode, self.terms, self.progress)
        if self.fallback:
            found = self._mended(sources, found)
        if self.decode.n_best == 1:  # the others came for free
            found = [own[:1] for own in found]
        for number in reversed(range(len(self.steps))):
            own = [state[number] for state in states]
            found = backwards(self.search.engine, self.steps[number], own, found)
        return [_different(own) for own in found]

    def _source(
        self, text: str, prefix: str, most: int | None, steps: Sequence[Step]
    ) -> tuple[Source, list[Any]]:
        """What the model reads of a sentence, and what the steps have to know of it."""
        states, plain = [], text
        for step in steps:
            text, state = step.before(text)
            states.append(state)
            if isinstance(step, Normalisation):
                plain = text
        each = zip(steps, states, strict=True)
        checks = [(step, state) for step, state in each if step.checks]
        return Source(text, plain, prefix, most, checks), states

    def _mended(self, sources: Sequence[Source], found: Sequence[Candidates]) -> list[Candidates]:
        def again(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
            other = dataclasses.replace(self.decode, **changes)
            return self.search(sources, other, self.terms, shown)

        def prepare(text: str, prefix: str, most: int | None) -> Source:
            return self._source(text, prefix, most, checking)[0]

        progress = self.progress
        shown = progress and (lambda _: progress(0))
        checking = [step for step in self.steps if step.checks]
        writer = TermWriter(self.search.engine, self.search.vocabularies)
        several = self.decode.n_best > 1
        return Fallback(again, prepare, writer, self.placeholders, several)(sources, found)


def backwards(
    engine: Engine, step: Step, states: Sequence[Any], found: Sequence[Candidates]
) -> list[Candidates]:
    """Translations as a step leaves them, given what it has to know of each source."""
    each = list(zip(found, states, strict=True))
    if not isinstance(step, AttentiveStep):
        return [[step.after(one, state) for one in own] for own, state in each]
    looks = [step.looks(one, state) for own, state in each for one in own]
    pairs = [tuple(list(chain(*side)) for side in look) if look else ([], []) for look in looks]
    rows = [
        i for i, both in enumerate(pairs) if all(both) and max(map(len, both)) < engine.max_length
    ]
    attention = engine.attention([(pairs[i][0], pairs[i][1]) for i in rows]) if rows else []
    weights = dict(zip(rows, attention, strict=True))
    number = count()
    return [[step.after(one, state, weights.get(next(number))) for one in own]
            for own, state in each]  # fmt: skip


def _different(candidates: Candidates) -> Candidates:
    """Translations without those that have become the same text as one before."""
    unique: dict[str, Translation] = {}
    for one in candidates:
        unique.setdefault(one.text, one)
    return list(unique.values())
