"""Searches and scores of texts, which an engine knows as token ids."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import Request, RoomError
from seq2seq.errors import UserError
from seq2seq.inference.engines import Engine, Progress
from seq2seq.inference.text.fallback import Candidates, Source
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.translation import PairScore, Translation

Ids = tuple[list[int], list[int]]  # of a source and its target


class TextSearch:
    """Finds translations of sources, with any settings; holds no state between calls."""

    def __init__(self, engine: Engine, vocabularies: Vocabularies):
        self.engine, self.vocabularies = engine, vocabularies

    def __call__(
        self,
        sources: Sequence[Source],
        decode: DecodeConfig,
        terms: Terminology,
        progress: Progress = None,
    ) -> list[Candidates]:
        """Translations of each source, best first, those with banned phrases last; no text twice.

        A source without room for its prefix is translated without it, which is noted.

        Raises:
            RequestError: what is asked of one contradicts itself.
        """
        try:
            return self._candidates(sources, decode, terms, progress)
        except RoomError:
            if len(sources) > 1:  # in halves: most of them are still searched together
                middle = len(sources) // 2
                halves = sources[:middle], sources[middle:]
                return [found for half in halves for found in self(half, decode, terms, progress)]
            [source] = sources
            if not source.prefix:
                raise
        [found] = self([dataclasses.replace(source, prefix="")], decode, terms, progress)
        note = "no room for the prefix"
        return [[dataclasses.replace(one, notes=[note, *one.notes]) for one in found]]

    def _candidates(
        self,
        sources: Sequence[Source],
        decode: DecodeConfig,
        terms: Terminology,
        progress: Progress,
    ) -> list[Candidates]:
        source, target = self.vocabularies.source, self.vocabularies.target
        banned = target.encode(terms.banned)
        requests = [
            Request(ids, prefix=target.encode([one.prefix])[0], banned=banned)
            for one, ids in zip(sources, source.encode(one.text for one in sources), strict=True)
        ]
        results = []
        if decode.strategy == "beam" and decode.n_best > 1:  # some may be the same text
            decode = dataclasses.replace(decode, n_best=decode.beam)
        for hypotheses in self.engine.search(requests, decode, progress):
            unique: dict[str, Translation] = {}
            for one in map(self._translation, hypotheses):
                wrong = [f"holds the banned {p!r}" for p in terms.forbidden(one.text)]
                unique.setdefault(one.text, one.noted(*wrong))
            results.append(sorted(unique.values(), key=lambda one: bool(one.notes)))
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

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[Ids]:
        """The subwords of both sides of given translations, which are as in training."""
        source, target = self.vocabularies.source, self.vocabularies.target
        sources, targets = source.encode(s for s, _ in pairs), target.encode(t for _, t in pairs)
        return list(zip(sources, targets, strict=True))

    def score(self, ids: Sequence[Ids], words: Sequence[int]) -> list[PairScore]:
        """How likely given translations are, by the words of their targets.

        Raises:
            UserError: a side is longer than the model's limit.
        """
        for number, sides in enumerate(ids, 1):
            if (longest := max(map(len, sides))) >= self.engine.max_length:
                raise UserError(
                    f"pair {number} has a side of {longest + 1} tokens, and the model's limit is "
                    f"{self.engine.max_length}: score its sentences one by one"
                )
        each = zip(ids, self.engine.score(ids), words, strict=True)
        return [
            PairScore(sum(own), self.vocabularies.target.tokens(target), own, number)
            for (_, target), own, number in each
        ]
