"""Forms of input: which text of each line is translated, and the line that answers it.

lines      each line is a text; a line for each translation
--json     each line is a text; a JSON object for each text
.tsv       one column is translated; each row gets a further column
.jsonl     one text of each object is translated; the object gets a further text
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seq2seq.cli.translate_options import AnswerOptions
from seq2seq.errors import DataError

if TYPE_CHECKING:
    from seq2seq.inference.translation import Translation


@dataclass(frozen=True)
class Record:
    """A line of the input."""

    line: str  # as it was read, without its end
    text: str | None  # the text to translate; if it is None, `row` is the answer
    row: Any = None  # what else the answer needs
    end: str = "\n"  # follows the answer; after a part of a line, no line break


@dataclass(frozen=True)
class Lines:
    """Lines of text. If asked, a score and a tab precede a translation; a tab and links follow."""

    wanted: AnswerOptions

    def read(self, lines: Iterable[str]) -> Iterator[Record]:
        """Return one record for each line."""
        return (Record(line, line) for line in lines)

    def answer(self, record: Record, translation: Translation) -> str:
        """Return what is written for a record: a line without its end, or `n_best` of them."""
        found = [translation, *translation.alternatives]
        lines = [self._line(each, bool(record.line.strip())) for each in found]
        # If fewer translations differ, empty lines follow: each text gets `n_best` lines.
        return "\n".join(lines + [""] * ((self.wanted.n_best or 1) - len(lines)))

    def _line(self, translation: Translation, searched: bool) -> str:
        score = [_score(translation)] if self.wanted.scores and searched else []
        links = [_links(translation)] if self.wanted.alignments and searched else []
        if not score and not links:
            return re.sub(r"[\r\n]+", " ", translation.text)
        return "\t".join([*score, _cell(translation.text), *links])


class JsonLines(Lines):
    """Lines of text; the answers are JSON objects."""

    def answer(self, record: Record, translation: Translation) -> str:
        return _dumps({"source": record.text} | _described(translation, "translation", self.wanted))


@dataclass(frozen=True)
class Objects:
    """JSON objects, one in each line; one text of each object is translated."""

    name: str  # of the file, for messages
    column: str  # key of the text to translate
    into: str  # key of its translation, which replaces an existing value; all other keys stay
    wanted: AnswerOptions

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
            yield Record(line, row[self.column], row)

    def answer(self, record: Record, translation: Translation) -> str:
        told = _described(translation, self.into, self.wanted)
        kept = {key: value for key, value in record.row.items() if key != self.into}
        return _dumps(record.row | told | kept)


class Rows:
    """Rows of a table, with tabs between the columns; one column is translated.

    `column` is a name from the first line, or a number, from 0, if the first line is a row like
    the others. `into` names the column for translations, which replaces an existing column; in a
    table without names, None = a further column.
    """

    def __init__(self, name: str, column: str, into: str | None, wanted: AnswerOptions):
        self.name, self.column, self.into, self.wanted = name, column, into, wanted
        self._width = self._place = 0  # read from the first line

    def read(self, lines: Iterable[str]) -> Iterator[Record]:
        source = -1
        for number, line in enumerate(lines, 1):
            fields = line.split("\t")
            if number == 1:
                self._width = len(fields)
                source, self._place = self._places(fields)
                if not self.column.isdecimal():
                    wanted = self.wanted
                    names = ["score"] * wanted.scores + ["alignment"] * wanted.alignments
                    yield Record(line, None, self._row(fields, self.into or "", names))
                    continue
            if not line:
                yield Record(line, None, "")
            elif source < len(fields) <= self._width:
                yield Record(line, fields[source], fields)
            else:
                raise DataError(
                    f"{self.name}, line {number}: {len(fields)} column(s), but the first line has "
                    f"{self._width}, and column {self.column} is wanted; tabs separate columns"
                )

    def _places(self, first: list[str]) -> tuple[int, int]:
        """Find the columns of the text to translate and of the translation in the first line."""
        if self.column.isdecimal():
            names, why = [str(place) for place in range(len(first))], "they are counted from 0"
        else:
            names, why = first, "numbers are for a table whose first line holds no names"
        if self.column not in names:
            raise DataError(
                f"{self.name} has no column {self.column!r}; it has: {', '.join(names)}. Name one "
                f"of them, --column; {why}"
            )
        into = self.into or ""
        return names.index(self.column), names.index(into) if into in names else len(names)

    def _row(self, fields: list[str], translation: str, others: list[str]) -> str:
        row = fields + [""] * (self._width - len(fields))
        row[self._place : self._place + 1] = [translation]
        return "\t".join([*row, *others])

    def answer(self, record: Record, translation: Translation) -> str:
        score = [_score(translation)] if self.wanted.scores else []
        links = [_links(translation)] if self.wanted.alignments else []
        return self._row(record.row, _cell(translation.text), score + links)


Form = Lines | JsonLines | Objects | Rows  # each reads a form of input and writes its answers


def _cell(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)


def _score(translation: Translation) -> str:
    """Return the score as text, empty if nothing was translated."""
    return "" if translation.score is None else f"{translation.score:.4f}"


def _links(translation: Translation) -> str:
    """Return links of words in the notation of Pharaoh: source-target, from 0."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def _described(
    translation: Translation, name: str, wanted: AnswerOptions, best: bool = True
) -> dict[str, Any]:
    """Return a translation as fields of an object; its alternatives are objects in one field."""
    fields: dict[str, Any] = {name: translation.text}
    if wanted.scores or wanted.json:
        fields["score"] = translation.score
    if wanted.scores:
        # None if the engine does not return them, or nothing was translated.
        scores = translation.token_scores or None
        fields |= {"tokens": translation.tokens, "token_scores": scores}
    if wanted.alignments:
        fields["alignment"] = translation.alignment
    if translation.notes:
        fields["notes"] = translation.notes
    if best and (wanted.n_best or 1) > 1:
        others = translation.alternatives
        fields["alternatives"] = [_described(each, name, wanted, False) for each in others]
    return fields


def _dumps(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, ensure_ascii=False)
    # Only an escape can hold half a surrogate pair; \udc80 is also how JSON writes one.
    return text.encode("utf-8", "backslashreplace").decode()
