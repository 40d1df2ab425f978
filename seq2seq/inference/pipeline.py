"""Translation of sentences: the steps in order, the search, and the steps in reverse order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from seq2seq.config import DecodeConfig
from seq2seq.decoding.request import fits
from seq2seq.inference.engines import Engine, Progress
from seq2seq.inference.text.fallback import Candidates, Source, retry_faulty
from seq2seq.inference.text.step import Attention, Step
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.text_search import TextSearch
from seq2seq.inference.translation import Translation

BLOCK = 1024  # sentences that are searched together; at a block's end, cores wait for others


@dataclass(frozen=True)
class Pipeline:
    """Translates sentences with fixed settings; it keeps nothing between calls.

    Attributes:
        steps: in the order before the search.
        search: finds translations.
        decode: settings of the search.
        terms: required terms and banned phrases.
        fallback: whether sentences in which steps find faults are translated again.
        placeholders: whether the model has learnt placeholders.
        language: of the translations.
        progress: called with the number of sentences that were just translated.
    """

    steps: Sequence[Step]
    search: TextSearch
    decode: DecodeConfig
    terms: Terminology
    fallback: bool = True
    placeholders: bool = False
    language: str = ""
    progress: Progress = None

    def __call__(self, pieces: Sequence[tuple[str, str]]) -> list[Candidates]:
        """Return the translations, best first, of any number of pairs (sentence, prefix)."""
        blocks = (pieces[start : start + BLOCK] for start in range(0, len(pieces), BLOCK))
        return [found for block in blocks for found in self._block(block)]

    def _block(self, pieces: Sequence[tuple[str, str]]) -> list[Candidates]:
        read = [self._read(text, prefix, self.steps) for text, prefix in pieces]
        sources = [source for source, _ in read]
        found = self.search(sources, self.decode, self.terms, self.progress)
        if self.fallback:
            found = retry_faulty(self, sources, found)
        if self.decode.n_best == 1:  # an engine may return more
            found = [own[:1] for own in found]
        for number in reversed(range(len(self.steps))):
            states = [own[number] for _, own in read]
            found = backwards(self.search.engine, self.steps[number], states, found)
        return [_different(own) for own in found]

    def again(self, pieces: Sequence[tuple[str, str]], **changes: Any) -> list[Candidates]:
        """Search again with changed settings, and return the translations.

        Args:
            pieces: sentences as the steps left them for the first search, or edited since, with
                the prefixes of their translations. A piece that has become longer than the
                model's limit gets no translations.
            changes: settings of `DecodeConfig` by name.
        """
        steps = [step for step in self.steps if step.checks]  # only these see a sentence again
        sources = [self._read(text, prefix, steps)[0] for text, prefix in pieces]
        fitting = [self.search.can_read(one.text, self.terms) for one in sources]
        short = [one for one, fits in zip(sources, fitting, strict=True) if fits]
        progress = self.progress
        shown = progress and (lambda _: progress(0))
        decode = dataclasses.replace(self.decode, **changes)
        found = iter(self.search(short, decode, self.terms, shown) if short else [])
        return [next(found) if fits else [] for fits in fitting]

    def likeliest(self, source: str, targets: Sequence[str]) -> int:
        """Return the number of the translation of a sentence that the model finds most likely."""
        vocabularies, engine = self.search.vocabularies, self.search.engine
        [read] = vocabularies.source.encode([self.terms.inline(source)])
        pairs = [(read, target) for target in vocabularies.target.encode(targets)]
        if len(pairs) == 1 or not all(fits(pair, engine.max_length) for pair in pairs):
            return 0
        likely = [sum(log_probs) for log_probs in engine.score(pairs)]
        return likely.index(max(likely))

    def _read(self, text: str, prefix: str, steps: Sequence[Step]) -> tuple[Source, list[Any]]:
        """Run the steps before the search; return what the model reads, and each step's state."""
        states = []
        for step in steps:
            text, state = step.before(text)
            states.append(state)
        each = zip(steps, states, strict=True)
        checks = [(step, state) for step, state in each if step.checks]
        return Source(text, prefix, checks), states


def backwards(
    engine: Engine, step: Step, states: Sequence[Any], found: Sequence[Candidates]
) -> list[Candidates]:
    """Apply the `after` of a step to all translations; `states` are its states of the sources."""
    each = [(one, state) for own, state in zip(found, states, strict=True) for one in own]
    asked = {}
    for number, both in enumerate(each):
        if pieces := step.pieces_to_align(*both):
            source, target = (list(chain(*side)) for side in pieces)
            if fits((source, target), engine.max_length):
                asked[number] = pieces, (source, target)
    weights = engine.attention([pair for _, pair in asked.values()]) if asked else []
    given = {
        number: Attention(pieces, weights_TS)
        for (number, (pieces, _)), weights_TS in zip(asked.items(), weights, strict=True)
    }
    results = iter([step.after(*both, given.get(number)) for number, both in enumerate(each)])
    return [[next(results) for _ in own] for own in found]


def _different(candidates: Candidates) -> Candidates:
    """Return the translations without those whose text equals an earlier one."""
    unique: dict[str, Translation] = {}
    for one in candidates:
        unique.setdefault(one.text, one)
    return list(unique.values())
