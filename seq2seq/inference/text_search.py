"""Search and scores for texts; an engine knows only token ids."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import IdPair, Request, output_limits
from seq2seq.errors import UserError
from seq2seq.inference.engines import Engine, Progress
from seq2seq.inference.text.fallback import Candidates, Source
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.translation import PairScore, Translation

NO_ROOM = "no room for the prefix"


class TextSearch:
    """Searches with the settings of each call, and scores; it keeps no state between calls."""

    def __init__(self, engine: Engine, vocabularies: Vocabularies):
        self.engine, self.vocabularies = engine, vocabularies

    def __call__(
        self,
        sources: Sequence[Source],
        decode: DecodeConfig,
        terms: Terminology,
        progress: Progress = None,
    ) -> list[Candidates]:
        """Return the different translations of each source, best first, banned phrases last.

        A source that leaves no room for its prefix is translated without it, and a note says so.

        Raises:
            RequestError: the request for a source contradicts itself.
        """
        banned = self.vocabularies.target.encode(terms.banned)
        texts = [terms.inline(one.text) for one in sources]
        prefixes = [one.prefix for one in sources]
        source, target = self.vocabularies.source, self.vocabularies.target
        ids = list(zip(source.encode(texts), target.encode(prefixes), strict=True))
        crowded = [self._has_no_room(*pair, decode) for pair in ids]
        requests = [
            Request(source, prefix=() if without else prefix, banned=banned)
            for (source, prefix), without in zip(ids, crowded, strict=True)
        ]
        if decode.strategy == "beam" and decode.n_best > 1:  # hypotheses may have equal texts
            decode = dataclasses.replace(decode, n_best=decode.beam)
        found = self.engine.search(requests, decode, progress)
        results = []
        for hypotheses, without in zip(found, crowded, strict=True):
            unique: dict[str, Translation] = {}
            for one in map(self._translation, hypotheses):
                wrong = [f"holds the banned {p!r}" for p in terms.forbidden(one.text)]
                unique.setdefault(one.text, one.with_notes(*wrong))
            ordered = sorted(unique.values(), key=lambda one: bool(one.notes))
            said = [NO_ROOM] * without
            results.append([dataclasses.replace(one, notes=said + one.notes) for one in ordered])
        return results

    def can_read(self, text: str, terms: Terminology) -> bool:
        """Tell whether the model has a position for each token of a source."""
        [ids] = self.vocabularies.source.encode([terms.inline(text)])
        return len(ids) < self.engine.max_length

    def _has_no_room(
        self, source: Sequence[int], prefix: Sequence[int], decode: DecodeConfig
    ) -> bool:
        """Tell whether a prefix leaves no room for the end mark."""
        if not prefix:
            return False
        limit, ratio = self.engine.max_length, self.engine.length_ratio
        return len(prefix) >= output_limits(len(source) + 1, decode, limit, ratio)[1]

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

    def score(self, ids: Sequence[IdPair], words: Sequence[int]) -> list[PairScore]:
        """Score given translations.

        Args:
            ids: token ids of the pairs.
            words: number of words of each target.

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
