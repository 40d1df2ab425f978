"""Codes: inline elements of a sentence, carried through the translation as tags.

A code is any inline element of a format: the runs of a bold word, a link's address, a footnote. The
translator sees <g1>tags</g1> and moves them along with their words. It splits texts at line feeds.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from seq2seq.inference.text.tags import unescaped

_SPACE = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"`[^`\n<>&]+`")  # the translator leaves these as they are
SINGLE = ("alone", "break")  # kinds of codes without a partner and without text
_TAG = re.compile(r"</?[gx]\d+/?>|\n|`[^`\n]+`")


@dataclass(frozen=True, eq=False)
class Code:
    """An inline element, or its begin or end.

    Attributes:
        kind: a code opens or closes an element, stands alone, is a word of the sentence (such as
            an identifier of a program), or breaks the line.
        content: what the module of the format needs to write the code.
        text: of a code that is a word.
    """

    kind: Literal["open", "close", "alone", "word", "break"]
    content: Any
    text: str = ""


Part = str | Code


class Inline:
    """A stretch of text with its codes.

    Args:
        parts: in order. Codes that open and close are properly nested.

    Attributes:
        text: for the translator; empty if there is nothing to translate.
    """

    def __init__(self, parts: Sequence[Part]):
        self._tags = _tags(parts)
        start, end = self._find_text(parts)
        self._before, self._parts, self._after = parts[:start], parts[start:end], parts[end:]
        texts = [self._tags[part] if isinstance(part, Code) else
                 html.escape(_SPACE.sub(" ", part), quote=False)
                 for part in self._parts]  # fmt: skip
        prose = "".join(part for part in self._parts if isinstance(part, str))
        self.text = "".join(texts) if any(map(str.isalpha, prose)) else ""

    def fill(self, translation: str) -> list[Part]:
        """Return the parts with the translation in the place of the text.

        If the translation lacks a code, or nests the codes otherwise, the codes keep their order
        and nesting of the source, and each text between them gets a share of the words in
        proportion to its length.
        """
        found = self._read(translation)
        if self._enclosing(found) != self._enclosing(self._parts):
            found = self._as_in_source(found)
        return [*self._before, *found, *self._after]

    def _find_text(self, parts: Sequence[Part]) -> tuple[int, int]:
        """Return start and end of the parts to translate, without codes around all of the text."""
        start, end = 0, len(parts)

        def bare(part: Part) -> bool:
            return not part.strip() if isinstance(part, str) else part.kind in SINGLE

        while True:
            while start < end and bare(parts[start]):
                start += 1
            while start < end and bare(parts[end - 1]):
                end -= 1
            if start == end:
                return start, end
            first, last = (self._tags.get(parts[place]) for place in (start, end - 1))
            if first is None or last != first.replace("<", "</"):
                return start, end
            start, end = start + 1, end - 1

    def _read(self, translation: str) -> list[Part]:
        found: list[Part] = []
        waiting: dict[str, list[Code]] = {}
        codes = [part for part in self._parts if isinstance(part, Code)]
        for code in reversed(codes):
            waiting.setdefault(self._tags[code], []).append(code)
        # Single codes keep their order, as a field can consist of several codes.
        singles = iter([code for code in codes if code.kind in SINGLE])
        at = 0
        for tag in _TAG.finditer(translation):
            if not waiting.get(tag[0]) and tag[0][0] == "`":
                continue
            found.append(unescaped(translation[at : tag.start()]))
            at = tag.end()
            if waiting.get(tag[0]):
                code = waiting[tag[0]].pop()
                found.append(next(singles) if code.kind in SINGLE else code)
            else:
                found.append(" " * (tag[0] == "\n"))
        return [part for part in [*found, unescaped(translation[at:])] if part != ""]

    def _enclosing(self, parts: Sequence[Part]) -> dict[Code, str] | None:
        """Map each code to the tag that encloses it; None if the codes are not properly nested."""
        opened = [""]
        found: dict[Code, str] = {}
        for code in parts:
            if isinstance(code, Code):
                tag = self._tags[code]
                if code.kind == "close" and opened.pop() != tag.replace("/", ""):
                    return None
                found[code] = opened[-1]
                if code.kind == "open":
                    opened.append(tag)
        return found

    def _as_in_source(self, found: Sequence[Part]) -> list[Part]:
        words = " ".join(part if isinstance(part, str) else " " for part in found).split()
        prose = [part if isinstance(part, str) and any(map(str.isalpha, part)) else ""
                 for part in self._parts]  # fmt: skip
        ends = [len(words) * done // sum(map(len, prose)) for done in accumulate(map(len, prose))]
        parts: list[Part] = []
        for part, text, start, end in zip(self._parts, prose, [0, *ends], ends, strict=False):
            if isinstance(part, Code):
                parts.append(part)
            elif text and start < end:
                first, last = (" " * one.isspace() for one in (text[0], text[-1]))
                parts.append(first + " ".join(words[start:end]) + last)
            elif not text:
                parts.append(" ")
        return parts


def _tags(parts: Sequence[Part]) -> dict[Part, str]:
    """Map each code to the tag that the translator sees."""
    opened: list[int] = []
    found: dict[Part, str] = {}
    for number, code in enumerate(part for part in parts if isinstance(part, Code)):
        tag = f"<x{number}/>"
        if code.kind == "open":
            opened.append(number)
            tag = f"<g{number}>"
        elif code.kind == "close":
            tag = f"</g{opened.pop()}>"
        elif code.kind == "break":
            tag = "\n"
        elif code.kind == "word" and _WORD.fullmatch(f"`{code.text}`"):
            tag = f"`{code.text}`"
        found[code] = tag
    return found
