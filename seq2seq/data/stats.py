"""What a preparation read, kept, dropped and found: checks of large losses, figures to report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seq2seq.config import CleaningConfig
from seq2seq.data.cleaning import Cleaner, language_of
from seq2seq.data.corpus import Pair
from seq2seq.data.report import RARE
from seq2seq.data.shards import Shards, read_facts
from seq2seq.data.steps import EXAMPLES
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import DataError

JUDGED = 100  # the losses of fewer pairs say nothing
JOINED = 1000  # about so many short pairs are judged as one text
POINTS = 200  # points of a curve
CHUNK = 2**20  # pairs that are counted at once
LONGEST_BIN = 512  # last bin of the histograms of lengths: this many tokens or more


@dataclass
class Losses:
    """Counts of the pairs that cleaning drops of a text, and checks that refuse large losses.

    Attributes:
        name: of the text, for errors.
        read: number of pairs read.
        judged: number of kept pairs that are long enough to have a language.
        dropped: number of dropped pairs by reason.
        examples: a few dropped pairs by reason.
        leaked: keys that pairs share with evaluation text.
    """

    name: str = ""
    read: int = 0
    judged: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[list[str]]] = field(default_factory=dict)
    leaked: set[int] = field(default_factory=set)

    def add(self, facts: Mapping[str, Any]) -> None:
        """Count the pairs of a block, or of a source; `facts` are like those of `clean_rows`."""
        self.read += facts["read"]
        self.judged += facts.get("judged", facts["read"])  # older parts lack it
        self.dropped.update(facts["dropped"])
        for reason, pairs in facts["examples"].items():
            own = self.examples.setdefault(reason, [])
            own += pairs[: EXAMPLES - len(own)]
        self.leaked.update(facts["leaked"])

    def check_language(self, cleaning: CleaningConfig, kept: Iterable[Pair] = ()) -> None:
        """Check the language of the pairs that were read until now.

        Args:
            cleaning: the settings.
            kept: some kept pairs. If hardly any pair is long enough to have a language, these are
                judged as one text, and refused only if each side looks like the other's language.

        Raises:
            DataError: nearly all pairs long enough to have a language are in another one.
        """
        if "wrong_language" not in cleaning.filters:
            return
        wrong, examples = self.dropped["wrong_language"], self.examples.get("wrong_language", [])
        of = wrong + self.judged
        joined = [*map(list, kept)] if of < JUDGED else []
        if len(joined) >= JUDGED and _languages(joined) == cleaning.languages[::-1]:
            wrong, of, examples = self.read, self.read, joined
        if not _is_too_much(wrong, of, cleaning):
            return
        found = _languages(examples)
        raise DataError(
            f"{self.name}: {wrong:,} of {self.read:,} pairs are not in "
            f"cleaning.languages ({', '.join(cleaning.languages)}), such as "
            f"{tuple(examples[0])}. The text looks like {', '.join(found)}. Are the columns "
            "swapped? Then exchange data.source_column and data.target_column. Or give another "
            f"corpus, set cleaning.languages=[{','.join(found)}], or allow it: "
            "cleaning.max_dropped=1"
        )

    def check(self, cleaning: CleaningConfig) -> None:
        """Check the losses as a whole.

        Raises:
            DataError: nearly all pairs are dropped.
        """
        if not _is_too_much(self.dropped.total(), self.read, cleaning):
            return
        [(worst, count)] = self.dropped.most_common(1)
        examples = "; ".join(str(tuple(pair)) for pair in self.examples[worst][:2])
        raise DataError(
            f"{self.name}: cleaning drops {self.dropped.total():,} of {self.read:,} pairs, "
            f"{count:,} of them by the filter {worst}, such as {examples}. Is this the right "
            "corpus? If so, leave the filter out of cleaning.filters, or allow it: "
            "cleaning.max_dropped=1"
        )


def add_up(parts: Iterable[Losses], name: str = "") -> Losses:
    """Return the losses of several texts together."""
    total = Losses(name)
    for part in parts:
        total.add(vars(part))
    return total


def _is_too_much(dropped: int, of: int, cleaning: CleaningConfig) -> bool:
    return of >= JUDGED and dropped > cleaning.max_dropped * of


def _languages(pairs: Iterable[Sequence[str]]) -> list[str]:
    """Return the languages that the sources, as one text, and the targets look like."""
    return [language_of(" ".join(side)) for side in zip(*pairs, strict=True)]


def overlap(
    leaked: set[int], evaluation: Mapping[str, Sequence[Pair]], cleaner: Cleaner
) -> list[dict[str, Any]]:
    """Count the pairs of each evaluation split that share a key with training text.

    Args:
        leaked: keys that training pairs share with evaluation text.
        evaluation: pairs of each split.
        cleaner: makes the keys of these pairs.
    """
    return [
        {
            "split": split,
            "pairs": len(pairs),
            "in_training": sum(
                not leaked.isdisjoint(cleaner.evidence(*cleaner.normalised(*pair)))
                for pair in pairs
            ),
        }
        for split, pairs in evaluation.items()
    ]


def token_figures(shards: Shards) -> dict[str, Any]:
    """Count words, characters and tokens of both sides; make histograms of lengths and ratios."""
    facts = [read_facts(path) for path in shards.paths]
    lengths = np.zeros((2, LONGEST_BIN + 1), np.int64)
    ratios, tokens = np.zeros(41, np.int64), np.zeros(2, np.int64)
    for first in range(0, len(shards), CHUNK):
        own = shards.lengths[first : first + CHUNK].astype(np.int64) - 1  # without the end mark
        ratio = np.log2(np.maximum(own[:, 1], 1) / np.maximum(own[:, 0], 1))
        bins = np.clip(np.rint(ratio * 10), -20, 20).astype(np.int64) + 20
        ratios += np.bincount(bins, minlength=41)
        tokens += own.sum(axis=0)
        for histogram, side in zip(lengths, own.T, strict=True):
            histogram += np.bincount(np.minimum(side, LONGEST_BIN), minlength=LONGEST_BIN + 1)
    return {
        "words": np.sum([part["words"] for part in facts], axis=0).tolist(),
        "characters": np.sum([part["characters"] for part in facts], axis=0).tolist(),
        "tokens": tokens.tolist(),
        # Up to one bin after the longest, so that the last bin is never "or more" by accident.
        "lengths": [own[: own.nonzero()[0].max(initial=0) + 2].tolist() for own in lengths],
        "ratios": ratios.tolist(),
    }


def vocabulary_figures(shards: Shards, vocabularies: Vocabularies) -> list[dict[str, Any]]:
    """Count how often the tokens of each vocabulary are used."""
    source, target = (np.zeros(size, np.int64) for size in vocabularies.sizes)
    for side, counts in enumerate((source, target)):
        for ids in shards.tokens(side):
            counts += np.bincount(ids, minlength=len(counts))
    if vocabularies.joint:
        return [_use("joint", source + target)]
    return [_use("source", source), _use("target", target)]


def _use(name: str, counts: np.ndarray) -> dict[str, Any]:
    descending = np.sort(counts)[::-1]
    used = int((counts > 0).sum())
    ranks = np.unique(np.geomspace(1, max(used, 1), POINTS).round().astype(np.int64))
    return {
        "name": name,
        "size": len(counts),
        "used": used,
        "rare": int((counts < RARE).sum()),
        "counts": [[int(rank), int(descending[rank - 1])] for rank in ranks],
    }
