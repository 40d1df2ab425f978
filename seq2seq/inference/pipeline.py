"""Translation of sentences: the steps in order, the search, and the steps in reverse order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import Request, fits, output_limits
from seq2seq.inference.engines import Engine, Progress
from seq2seq.inference.text.fallback import Candidates, Source, retry_faulty
from seq2seq.inference.text.step import Attention, Step
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.translation import Translation

BLOCK = 1024  # sentences that are searched together; at a block's end, cores wait for others
NO_ROOM = "no room for the prefix"


@dataclass(frozen=True)
class Pipeline:
    """Translates sentences with fixed settings; it keeps nothing between calls.

    Attributes:
        engine: searches; it knows only token ids.
        steps: in the order before the search.
        terms: required terms and banned phrases.
        fallback: whether sentences in which steps find faults are translated again.
        placeholders: whether the model has learnt placeholders.
        language: of the translations.
        progress: called with the number of sentences that were just translated.
    """

    engine: Engine
    vocabularies: Vocabularies
    steps: Sequence[Step]
    decode: DecodeConfig
    terms: Terminology
    fallback: bool
    placeholders: bool
    language: str
    progress: Progress

    def __call__(self, pieces: Sequence[tuple[str, str]]) -> list[Candidates]:
        """Return the translations, best first, of any number of pairs (sentence, prefix)."""
        blocks = (pieces[start : start + BLOCK] for start in range(0, len(pieces), BLOCK))
        return [found for block in blocks for found in self._block(block)]

    def _block(self, pieces: Sequence[tuple[str, str]]) -> list[Candidates]:
        read = [self._read(text, prefix, self.steps) for text, prefix in pieces]
        sources = [source for source, _ in read]
        found = self._search(sources, self.decode, self.progress)
        if self.fallback:
            found = retry_faulty(self, sources, found)
        if self.decode.n_best == 1:  # an engine may return more
            found = [own[:1] for own in found]
        for number in reversed(range(len(self.steps))):
            states = [own[number] for _, own in read]
            found = backwards(self.engine, self.steps[number], states, found)
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
        texts = [self.terms.inline(one.text) for one in sources]
        lengths = map(len, self.vocabularies.source.encode(texts))
        fitting = [length < self.engine.max_length for length in lengths]
        short = [one for one, fits in zip(sources, fitting, strict=True) if fits]
        progress = self.progress
        shown = progress and (lambda _: progress(0))
        found = iter(self._search(short, replace(self.decode, **changes), shown) if short else [])
        return [next(found) if fits else [] for fits in fitting]

    def likeliest(self, source: str, targets: Sequence[str]) -> int:
        """Return the number of the translation of a sentence that the model finds most likely."""
        [read] = self.vocabularies.source.encode([self.terms.inline(source)])
        pairs = [(read, target) for target in self.vocabularies.target.encode(targets)]
        if len(pairs) == 1 or not all(fits(pair, self.engine.max_length) for pair in pairs):
            return 0
        likely = [sum(log_probs) for log_probs in self.engine.score(pairs)]
        return likely.index(max(likely))

    def _search(
        self, sources: Sequence[Source], decode: DecodeConfig, progress: Progress
    ) -> list[Candidates]:
        """Return the different translations of each source, best first, banned phrases last.

        A source that leaves no room for its prefix is translated without it, and a note says so.

        Raises:
            RequestError: the request for a source contradicts itself.
        """
        engine, source, target = self.engine, self.vocabularies.source, self.vocabularies.target
        ids = source.encode([self.terms.inline(one.text) for one in sources])
        prefixes = target.encode([one.prefix for one in sources])
        banned = target.encode(self.terms.banned)
        requests, notes = [], []
        for own, prefix in zip(ids, prefixes, strict=True):
            crowded = False
            if prefix:
                limits = output_limits(len(own) + 1, decode, engine.max_length, engine.length_ratio)
                crowded = len(prefix) >= limits.most  # the end mark needs a place, too
            requests.append(Request(own, () if crowded else prefix, banned))
            notes.append([NO_ROOM] * crowded)
        if decode.strategy == "beam" and decode.n_best > 1:  # hypotheses may have equal texts
            decode = replace(decode, n_best=decode.beam)
        results = []
        for hypotheses, note in zip(engine.search(requests, decode, progress), notes, strict=True):
            each = []
            for one in _different(map(self._translation, hypotheses)):
                wrong = [f"holds the banned {p!r}" for p in self.terms.forbidden(one.text)]
                each.append(one.with_notes(*note, *wrong))
            results.append(sorted(each, key=lambda one: len(one.notes) > len(note)))
        return results

    def _translation(self, found: Hypothesis) -> Translation:
        target = self.vocabularies.target
        [text] = target.decode([found.tokens])
        return Translation(
            text=" ".join(text.splitlines()).strip(),  # a sample may hold a line break
            score=found.score,
            finished=found.finished,
            tokens=list(map(sys.intern, target.tokens(found.tokens))),  # a long text has millions
            token_scores=list(found.token_log_probs),
        )

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


def _different(candidates: Iterable[Translation]) -> Candidates:
    """Return the translations without those whose text equals an earlier one."""
    unique: dict[str, Translation] = {}
    for one in candidates:
        unique.setdefault(one.text, one)
    return list(unique.values())
