"""What stops a preparation: a corpus that is hardly what the settings say, or holds nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seq2seq.config import CleaningConfig, DataConfig
from seq2seq.data.cleaning import language_of
from seq2seq.data.sources import Source, check_chosen
from seq2seq.data.steps import EXAMPLES
from seq2seq.errors import DataError, command_line

JUDGED = 100  # pairs below which their losses say nothing


class Losses:
    """Adds up what cleaning drops of each source, and asks when that can hardly be meant.

    Attributes:
        read: pairs of each source.
        judged: kept pairs of each source that are long enough to have a language.
        dropped: pairs of each source, by reason.
        examples: a few of these pairs.
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
        """Count a block of a source; `facts` are those of `clean_rows`."""
        self.read[source] += facts["read"]
        self.judged[source] += facts.get("judged", facts["read"])  # older parts do not say
        self.dropped[source].update(facts["dropped"])
        for reason, pairs in facts["examples"].items():
            own = self.examples[source].setdefault(reason, [])
            own += pairs[: EXAMPLES - len(own)]
        self.leaked.update(facts["leaked"])

    def check_language(self, source: int) -> None:
        """Judge what was read of a source until now.

        Raises:
            DataError: nearly all that is long enough to have a language is in other ones.
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

    def check(self) -> None:
        """Judge the sources as a whole.

        Raises:
            DataError: nearly all of one is dropped.
        """
        for source, dropped in enumerate(self.dropped):
            if not self._is_too_much(dropped.total(), self.read[source]):
                continue
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
    """Refuse a corpus of which nothing is left, or a member with no pair of its own.

    Args:
        data, sources: what is prepared.
        kept: pairs of each member.

    Raises:
        DataError: names the member.
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
                f"data.members.{member} is empty: all that cleaning= keeps of it stands in members "
                "before it. Look at its files, or leave it out"
            )
