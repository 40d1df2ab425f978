"""Codes: what stands inside of sentences and is no text, carried through a translation as tags.

A code is whatever a format has there: the runs of a bold word, a link's address, a footnote. The
translator sees <g1>tags</g1>, and puts them where their words went; a line feed is where it splits.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seq2seq.inference.text.tags import ENTITY

_SPACE = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"`[^`\n<>&]+`")  # which the translator keeps as code
_TAG = re.compile(r"</?[gx]\d+/?>|\n|`[^`\n]+`")


@dataclass(frozen=True, eq=False)
class Code:
    """What is no text.

    Attributes:
        kind: a code opens or closes what it encloses, stands alone, is a word of the sentence (as
            a name in a program is), or breaks the line.
        content: what the writer of the format makes of it.
        text: of a word.
    """

    kind: Literal["open", "close", "alone", "word", "break"]
    content: Any
    text: str = ""


Part = str | Code


class Inline:
    """A stretch of text with its codes.

    Args:
        parts: in order. Codes that open and close enclose each other properly.

    Attributes:
        text: for the translator; empty if there is nothing to translate.
    """

    def __init__(self, parts: Sequence[Part]):
        start, end = _peeled(parts)
        self._before, self._parts, self._after = parts[:start], parts[start:end], parts[end:]
        self._names = dict(_names(self._parts))
        self._codes = [part for part in self._parts if isinstance(part, Code)]
        texts = [self._names[id(one)] if isinstance(one, Code) else
                 html.escape(_SPACE.sub(" ", one), quote=False)
                 for one in self._parts]  # fmt: skip
        prose = "".join(part for part in self._parts if isinstance(part, str))
        self.text = "".join(texts) if any(map(str.isalpha, prose)) else ""

    def fill(self, translation: str) -> list[Part]:
        """The parts with a translation for their text.

        If it lacks a code, or encloses otherwise, the codes stay where they were in the source,
        and all text goes to the first place.
        """
        found = self._read(translation)
        if self._enclosing(found) != self._enclosing(self._parts):
            found = self._as_in_source(found)
        return [*self._before, *found, *self._after]

    def _read(self, translation: str) -> list[Part]:
        found: list[Part] = []
        waiting: dict[str, list[Code]] = {}
        for code in reversed(self._codes):
            waiting.setdefault(self._names[id(code)], []).append(code)
        # Those without a partner stay in their order, as fields of several codes need it.
        singles = iter([code for code in self._codes if code.kind in ("alone", "break")])
        at = 0
        for tag in _TAG.finditer(translation):
            if not waiting.get(tag[0]) and tag[0][0] == "`":
                continue
            found.append(_unescaped(translation[at : tag.start()]))
            at = tag.end()
            if waiting.get(tag[0]):
                code = waiting[tag[0]].pop()
                found.append(next(singles) if code.kind in ("alone", "break") else code)
            else:
                found.append(" " * (tag[0] == "\n"))
        return [part for part in [*found, _unescaped(translation[at:])] if part != ""]

    def _enclosing(self, parts: Sequence[Part]) -> Counter[tuple[int, str]]:
        """Each code, by its name, with what encloses it; nothing is equal to what is not proper."""
        stack: list[str] = []
        found: Counter[tuple[int, str]] = Counter()
        for code in parts:
            if isinstance(code, Code):
                name = self._names[id(code)]
                if code.kind == "close" and (not stack or stack.pop() != f"<{name[2:]}"):
                    return Counter()
                # A code is itself and not its like: two line breaks are two.
                found[id(code), stack[-1] if stack else ""] += 1
                if code.kind == "open":
                    stack.append(name)
        return found

    def _as_in_source(self, found: Sequence[Part]) -> list[Part]:
        text = " ".join("".join(p if isinstance(p, str) else " " for p in found).split())
        place = next(n for n, part in enumerate(self._parts)
                     if isinstance(part, str) and any(map(str.isalpha, part)))  # fmt: skip
        parts: list[Part] = [text if n == place else part
                             for n, part in enumerate(self._parts)]  # fmt: skip
        return [part for part in parts if isinstance(part, Code) or part is text]


def _peeled(parts: Sequence[Part]) -> tuple[int, int]:
    """The place of the text: codes around all of it need no place in it."""
    start, end, partners = 0, len(parts), _partners(parts)

    def bare(part: Part) -> bool:
        return not part.strip() if isinstance(part, str) else part.kind in ("alone", "break")

    while True:
        while start < end and bare(parts[start]):
            start += 1
        while start < end and bare(parts[end - 1]):
            end -= 1
        if start == end or partners.get(start) != end - 1:
            return start, end
        start, end = start + 1, end - 1


def _partners(parts: Sequence[Part]) -> dict[int, int]:
    """The places of codes that open, and of those that close what they open."""
    opened: list[int] = []
    found = {}
    for place, part in enumerate(parts):
        if isinstance(part, Code) and part.kind == "open":
            opened.append(place)
        elif isinstance(part, Code) and part.kind == "close":
            found[opened.pop()] = place
    return found


def _names(parts: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """Each code as the translator sees it."""
    opened: list[int] = []
    for number, code in enumerate(part for part in parts if isinstance(part, Code)):
        name = f"<x{number}/>"
        if code.kind == "open":
            opened.append(number)
            name = f"<g{number}>"
        elif code.kind == "close":
            name = f"</g{opened.pop()}>"
        elif code.kind == "break":
            name = "\n"
        elif code.kind == "word" and _WORD.fullmatch(f"`{code.text}`"):
            name = f"`{code.text}`"
        yield id(code), name


def _unescaped(text: str) -> str:
    return str(ENTITY.sub(lambda entity: html.unescape(entity[0]), text))
