"""Checks that stop a preparation: cleaning drops nearly all of a source, or a corpus is empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seq2seq.config import CleaningConfig, DataConfig
from seq2seq.data.cleaning import language_of
from seq2seq.data.sources import Source, check_chosen
from seq2seq.data.steps import EXAMPLES
from seq2seq.errors import DataError, command_line

JUDGED = 100  # the losses of fewer pairs say nothing


class Losses:
    """Counts of the pairs that cleaning drops of each source, and checks that refuse large losses.

    Attributes:
        read: number of pairs read of each source.
        judged: number of kept pairs of each source that are long enough to have a language.
        dropped: number of dropped pairs of each source, by reason.
        examples: a few dropped pairs of each source, by reason.
        leaked: keys that dropped pairs share with evaluation text.
    """

    def __init__(self, cleaning: CleaningConfig, sources: Sequence[Source]):
        self.cleaning, self.sources = cleaning, sources
        self.read = [0] * len(sources)
        self.judged = [0] * len(sources)
        self.dropped: list[Counter[str]] = [Counter() for _ in sources]
        self.examples: list[dict[str, list[list[str]]]] = [{} for _ in sources]
        self.leaked: set[int] = set()

    def add(self, source: int, facts: Mapping[str, Any]) -> None:
        """Count the pairs of a block of a source; `facts` come from `clean_rows`."""
        self.read[source] += facts["read"]
        self.judged[source] += facts.get("judged", facts["read"])  # older parts lack it
        self.dropped[source].update(facts["dropped"])
        for reason, pairs in facts["examples"].items():
            own = self.examples[source].setdefault(reason, [])
            own += pairs[: EXAMPLES - len(own)]
        self.leaked.update(facts["leaked"])

    def check_language(self, source: int) -> None:
        """Check the language of the pairs of a source that were read until now.

        Raises:
            DataError: nearly all pairs long enough to have a language are in another one.
        """
        wrong = self.dropped[source]["wrong_language"]
        if not self._is_too_much(wrong, wrong + self.judged[source]):
            return
        examples = self.examples[source]["wrong_language"]
        found = [language_of(" ".join(side)) for side in zip(*examples, strict=True)]
        raise DataError(
            f"{self.sources[source].name}: {wrong:,} of {self.read[source]:,} pairs are not in "
            f"cleaning.languages ({', '.join(self.cleaning.languages)}), such as "
            f"{tuple(examples[0])}. The text looks like {', '.join(found)}. Are the columns "
            "swapped? Then exchange data.source_column and data.target_column. Or give another "
            f"corpus, set cleaning.languages=[{','.join(found)}], or allow it: "
            "cleaning.max_dropped=1"
        )

    def check(self, source: int) -> None:
        """Check the losses of a source as a whole.

        Raises:
            DataError: nearly all pairs of the source are dropped.
        """
        dropped = self.dropped[source]
        if not self._is_too_much(dropped.total(), self.read[source]):
            return
        [(worst, count)] = dropped.most_common(1)
        pairs = [tuple(pair) for pair in self.examples[source][worst][:2]]
        raise DataError(
            f"{self.sources[source].name}: cleaning drops {dropped.total():,} of "
            f"{self.read[source]:,} pairs, {count:,} of them by the filter {worst}, such as "
            f"{'; '.join(map(str, pairs))}. Is this the right corpus? If so, leave the filter "
            "out of cleaning.filters, or allow it: cleaning.max_dropped=1"
        )

    def _is_too_much(self, dropped: int, of: int) -> bool:
        return of >= JUDGED and dropped > self.cleaning.max_dropped * of


def check_members(data: DataConfig, sources: Sequence[Source], kept: Mapping[str, int]) -> None:
    """Refuse a corpus without a pair after cleaning, or a member without a pair of its own.

    Args:
        data: settings of the corpus.
        sources: of its training text.
        kept: number of kept pairs of each member.

    Raises:
        DataError: the corpus or a member is empty; names it.
    """
    if not all(kept.values()):
        check_chosen(sources, data)
    if not any(kept.values()):
        raise DataError(
            f"data={data.name} has no usable train pair: the filters of cleaning= left nothing of "
            f"{', '.join(source.name for source in sources[:3])}. "
            f"{command_line('prepare', f'data={data.name}', 'cleaning=none')} shows what is there"
        )
    for member, pairs in kept.items():
        if pairs == 0:
            raise DataError(
                f"data.members.{member} is empty: all pairs that cleaning= keeps of it are in "
                "members before it. Look at its files, or leave it out"
            )
