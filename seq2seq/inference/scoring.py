"""How likely a model finds given translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import UserError
from seq2seq.inference.engine import Engine


@dataclass(frozen=True)
class PairScore:
    """How likely the model finds a given translation.

    Attributes:
        log_prob: natural log of its probability, end mark included.
        tokens: its subwords, without marks.
        token_scores: log probability of each, then of the end mark.
        words: of the target as it was given, cut at spaces.
    """

    log_prob: float
    tokens: list[str]
    token_scores: list[float]
    words: int

    @property
    def per_token(self) -> float:
        """Mean log probability of a token, end mark included."""
        return self.log_prob / len(self.token_scores)

    @property
    def per_word(self) -> float:
        """The same for each word of the target, which compares between vocabularies."""
        return self.log_prob / max(1, self.words)


def score_pairs(
    engine: Engine,
    vocabularies: Vocabularies,
    pairs: Sequence[tuple[str, str]],
    words: Sequence[int],
) -> list[PairScore]:
    """Scores of pairs.

    Args:
        engine: gives the probabilities.
        vocabularies: of the source and the target.
        pairs: source and target, both as in the model's training.
        words: of each target as it was given, which is the same for all models.

    Raises:
        UserError: a side is longer than the model's limit.
    """
    sources = vocabularies.source.encode(source for source, _ in pairs)
    targets = vocabularies.target.encode(target for _, target in pairs)
    ids = list(zip(sources, targets, strict=True))
    for number, sides in enumerate(ids, 1):
        if (longest := max(map(len, sides))) >= engine.max_length:
            raise UserError(
                f"pair {number} has a side of {longest + 1} tokens, and the model's limit is "
                f"{engine.max_length}: score its sentences one by one"
            )
    each = zip(engine.score(ids), targets, words, strict=True)
    return [
        PairScore(sum(own), vocabularies.target.tokens(tokens), own, count)
        for own, tokens, count in each
    ]
