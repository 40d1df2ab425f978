"""What is translated, piece by piece, and the line that answers it.

    lines      one text in each; a line for each translation
    --json     the same, but an object for each text
    .tsv       one column is translated, its row gets a further column
    .jsonl     one text of an object is translated, the object gets a further text
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from seq2seq.errors import DataError

if TYPE_CHECKING:
    from seq2seq.inference.translation import Translation


@dataclass(frozen=True)
class Record:
    """A line of the input.

    Attributes:
        line: as it was read, without its end.
        text: what is to be translated; None: nothing is, and `row` is the line that answers it.
        row: whatever else is needed for the answer.
        end: what stands behind the answer; no line break behind a part of a line.
    """

    line: str
    text: str | None
    row: Any = None
    end: str = "\n"


@dataclass(frozen=True)
class Wanted:
    """What is told of a translation besides its text.

    Attributes:
        n_best: translations of each text.
        scores: of each translation.
        token_scores: its tokens and their log probabilities too, where there is room for them.
        alignments: which word translates which.
    """

    n_best: int = 1
    scores: bool = False
    token_scores: bool = False
    alignments: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines of text. Scores stand before a translation and alignments behind, parted by tabs."""

    wanted: Wanted

    def read(self, lines: Iterable[str]) -> Iterator[Record]:
        """One record for each line."""
        return (Record(line, line) for line in lines)

    def answer(self, record: Record, translation: Translation) -> str:
        """What is written for a record: a line without its end, or `n_best` of them."""
        found = [translation, *translation.alternatives]
        lines = [self._line(each, bool(record.line.strip())) for each in found]
        # Some texts have fewer translations that differ: the next text still begins n lines on.
        return "\n".join(lines + [""] * (self.wanted.n_best - len(lines)))

    def _line(self, translation: Translation, searched: bool) -> str:
        score = [_score(translation)] if self.wanted.scores and searched else []
        links = [_links(translation)] if self.wanted.alignments and searched else []
        if not score and not links:
            return re.sub(r"[\r\n]+", " ", translation.text)
        return "\t".join([*score, _cell(translation.text), *links])


class JsonLines(Lines):
    """Lines of text, answered by objects."""

    def answer(self, record: Record, translation: Translation) -> str:
        return _dumps({"source": record.text} | _described(translation, "translation", self.wanted))


@dataclass(frozen=True)
class Objects:
    """A JSON object in each line, one text of which is translated.

    Args:
        name: of the file, for messages.
        column: key of the text to translate.
        into: key of its translation; replaces what stands there.
    """

    name: str
    column: str
    into: str
    wanted: Wanted

    def read(self, lines: Iterable[str]) -> Iterator[Record]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                yield Record(line, None, "")
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{self.name}, line {number}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise DataError(f"{self.name}, line {number}: not an object: {line[:60]}")
            if not isinstance(row.get(self.column), str):
                has = ", ".join(key for key, value in row.items() if isinstance(value, str))
                raise DataError(
                    f"{self.name}, line {number} has no text {self.column!r}; it has: "
                    f"{has or 'none'}. Name one of them: --column NAME"
                )
            _refuse_overwriting(f"{self.name}, line {number}", row, self._added(), self.into)
            yield Record(line, row[self.column], row)

    def _added(self) -> list[str]:
        """Keys that an answer may have besides the translation."""
        wanted = self.wanted
        return [
            *["score"] * wanted.scores, *["tokens", "token_scores"] * wanted.token_scores,
            *["alignment"] * wanted.alignments, "notes", *["alternatives"] * (wanted.n_best > 1),
        ]  # fmt: skip

    def answer(self, record: Record, translation: Translation) -> str:
        return _dumps(record.row | _described(translation, self.into, self.wanted))


class Rows:
    """Rows of a table, with tabs between the columns, one of which is translated.

    Args:
        name: of the file, for messages.
        column: what to translate: a name from the first line, or a number from 0 on in a table
            whose first line is a row like the others.
        into: name of the column for translations; replaces one that is there. None in a table
            without names: a further column.
    """

    def __init__(self, name: str, column: str, into: str | None, wanted: Wanted):
        self.name, self.wanted = name, wanted
        self._column, self._into = column, into
        self._added = [into or "", *["score"] * wanted.scores, *["alignment"] * wanted.alignments]

    def read(self, lines: Iterable[str]) -> Iterator[Record]:
        named = not self._column.isdecimal()
        source, places, width = -1, [0], 0  # known from the first line on
        for number, line in enumerate(lines, 1):
            fields = line.split("\t")
            if number == 1:
                source, places = self._places(fields)
                width = len(fields)
                if named:
                    yield Record(line, None, _filled(fields, places, self._added))
                    continue
            if not line:
                yield Record(line, None, "")
            elif not source < len(fields) <= width:
                raise DataError(
                    f"{self.name}, line {number}: {len(fields)} column(s), but the first line has "
                    f"{width}, and column {self._column} is wanted; tabs stand between columns"
                )
            else:
                yield Record(line, fields[source], (fields, places))

    def _places(self, first: list[str]) -> tuple[int, list[int]]:
        """Places of the column to translate, and of those that are added, by the first line."""
        new = iter(range(len(first), len(first) + len(self._added)))
        if self._column.isdecimal():
            if int(self._column) >= len(first):
                raise DataError(
                    f"{self.name} has {len(first)} column(s), so there is no --column "
                    f"{self._column}: they are counted from 0"
                )
            into = [int(self._into) if self._into and int(self._into) < len(first) else next(new)]
            return int(self._column), [*into, *(next(new) for _ in self._added[1:])]
        if self._column not in first:
            raise DataError(
                f"{self.name} has no column {self._column!r}; it has: {', '.join(first)}. Name one "
                "of them, or give a number from 0 on if its first line holds no names: --column"
            )
        _refuse_overwriting(self.name, first, self._added[1:], self._into)
        places = [first.index(name) if name in first else next(new) for name in self._added]
        return first.index(self._column), places

    def answer(self, record: Record, translation: Translation) -> str:
        fields, places = record.row
        values = [_cell(translation.text)]
        if self.wanted.scores:
            values.append(_score(translation))
        if self.wanted.alignments:
            values.append(_links(translation))
        return _filled(fields, places, values)


Form = Lines | JsonLines | Objects | Rows  # of input, with its form of output


def _refuse_overwriting(
    where: str, there: Iterable[str], added: Iterable[str], into: str | None
) -> None:
    """Raises DataError where a column that is added would take the place of one that is there."""
    taken = set(there) - {into}
    for name in added:
        if name in taken:
            raise DataError(
                f"{where} has {name!r} already, which is what is told of a translation here too: "
                "give it another name, or take it away"
            )


def _filled(fields: list[str], places: list[int], values: list[str]) -> str:
    """A row with values put at these places, which may lie behind its end."""
    row = fields + [""] * (max(places) + 1 - len(fields))
    for place, value in zip(places, values, strict=True):
        row[place] = value
    return "\t".join(row)


def _cell(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)


def _score(translation: Translation) -> str:
    """Empty where nothing was translated."""
    return "" if translation.score is None else f"{translation.score:.4f}"


def _links(translation: Translation) -> str:
    """Links of words in the notation of Pharaoh: source-target, from 0 on."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def _described(translation: Translation, name: str, wanted: Wanted) -> dict[str, Any]:
    """A translation as fields of an object, those of its alternatives inside."""
    fields: dict[str, Any] = {name: translation.text}
    if wanted.scores:
        fields["score"] = translation.score
    if wanted.token_scores:
        # None where the engine does not tell them, or nothing was translated.
        scores = translation.token_scores or None
        fields |= {"tokens": translation.tokens, "token_scores": scores}
    if wanted.alignments:
        fields["alignment"] = translation.alignment
    if translation.notes:
        fields["notes"] = translation.notes
    if wanted.n_best > 1:
        alone = replace(wanted, n_best=1)
        others = translation.alternatives
        fields["alternatives"] = [_described(each, name, alone) for each in others]
    return fields


def _dumps(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, ensure_ascii=False)
    if text.isascii() or text == text.encode("utf-8", "ignore").decode():
        return text
    return json.dumps(fields)  # half a surrogate pair, which only an escape can hold
