"""Markdown: translate paragraphs, headings, list items and cells; code, link targets and tags stay.

The parser finds the texts, and each text is replaced where it stands in the source. A paragraph of
several lines becomes one line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from seq2seq.documents import Document, Wanted
from seq2seq.documents.html import places as html_places
from seq2seq.documents.inline import Code, Part
from seq2seq.documents.text import Place, coded, decoded, spliced
from seq2seq.errors import DataError
from seq2seq.inference.text.tags import Span

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_SPECIAL = re.compile(r"[\\`*|]|\](?=[(\[:])|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w)|~~|&(?=#?\w+;)")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
# A label of an alert, or of a footnote, which is no text.
_LABEL = re.compile(r"\[(?:!\w+\][ \t]*$|\^[^\]\s]+\]:[ \t]*)")
_BLOCK = re.compile(r"(?=#{1,6}(?:\s|\Z)|[-+](?:\s|\Z)|>|---)|\d{1,9}(?=[.)](?:\s|\Z))")
LONGEST = 10_000  # characters of a paragraph; the parser's time grows with their square
# Characters of each emphasis mark before and after the position of its token.
EMPHASIS = {"strong_open": (1, 1), "strong_close": (0, 2), "em_open": (0, 1), "em_close": (0, 1),
            "s_open": (0, 2), "s_close": (0, 2)}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A match of an inline rule of the parser.

    Attributes:
        start, end: its span, in characters of the paragraph.
        label: where the text of a link ends.
        tokens: that the rule made, each with its position. The parser gives those of emphasis
            their final types only at the end of the paragraph.
    """

    rule: str
    start: int
    end: int
    label: int
    tokens: list[tuple[int, Token]]


def read(data: bytes, wanted: Wanted) -> Document:
    """Read the texts of a document, and those of HTML in it.

    Raises:
        DataError: a paragraph is too long, or the document cannot be decoded.
    """
    text, encode = decoded(data)
    front = _FRONT_MATTER.match(text)
    return spliced(text, list(_places(text, front.end() if front else 0)), encode)


def _parser() -> MarkdownIt:
    """Make a parser that reads blocks, and whose inline rules record their matches (`Found`)."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.disable(["inline", "text_join", "fragments_join"])
    rules = parser.inline.ruler
    for name, rule in zip(rules.get_active_rules(), rules.getRules(""), strict=True):
        if name != "text":
            rules.at(name, partial(_noted, name, rule))
    return parser


def _noted(name: str, rule: Any, state: StateInline, silent: bool) -> bool:
    start, before, found = state.pos, len(state.tokens), state.env["found"]
    known, place = len(found), start - len(state.pending)
    if not rule(state, silent):
        return False
    if not silent:
        if name == "image":
            del found[known:]  # of its alternative text
        label = state.md.helpers.parseLinkLabel(state, start, True) if name == "link" else 0
        made = []
        for token in state.tokens[before:]:
            made.append((place, token))
            place += len(token.content)
        found.append(Found(name, start, state.pos, label, made))
    return True


def _places(text: str, start: int) -> Iterator[Place]:
    starts = [start, *(start + found.end() for found in re.finditer(r"\r\n?|\n", text[start:]))]
    parser, env = _parser(), dict[str, Any]()
    at = start
    for block in parser.parse(text[start:], env):
        if block.type not in ("inline", "html_block") or block.map is None:
            continue
        if len(block.content) > LONGEST:
            raise DataError(f"a paragraph has more than {LONGEST:,} characters: cut it in parts")
        at, end = max(at, starts[block.map[0]]), [*starts, len(text)][block.map[1]]
        spans = list[Span]()
        for line in block.content.removesuffix("\n").split("\n"):
            if (found := text.find(line, at, end)) < 0:
                break  # the source differs from the content, for example \| in a table
            at = found + len(line)
            spans.append((found, at))
        else:
            if block.type == "html_block":
                first = spans[0][0]
                for place in html_places(text[first : spans[-1][1]]):
                    yield replace(place, start=place.start + first, end=place.end + first)
            else:
                for lines in filter(None, _unlabelled(text, spans)):
                    content = "\n".join(text[a:b] for a, b in lines)
                    yield _place(text, lines, content, parser, env)


def _unlabelled(text: str, spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield the lines of a paragraph that belong together: a label begins a text of its own."""
    lines = list[Span]()
    for start, end in spans:
        if label := _LABEL.match(text, start, end):
            yield lines
            lines, start = [], label.end()
        lines += [(start, end)] * (start < end)
    yield lines


def _place(
    text: str, spans: Sequence[Span], content: str, parser: MarkdownIt, env: dict[str, Any]
) -> Place:
    """Make the place of a paragraph whose lines are at these spans of the text."""
    env["found"] = []
    parser.inline.parse(content, parser, env, [])
    # Between two lines the source has more than a line feed, such as the > of a quotation.
    between = [text[a:b] for (_, a), (b, _) in pairwise(spans)]

    def source(start: int, end: int) -> str:
        lines, first = content[start:end].split("\n"), content.count("\n", 0, start)
        return lines[0] + "".join(map("".join, zip(between[first:], lines[1:], strict=False)))

    parts, at = list[Part](), 0
    for start, end, part in sorted(_parts(content, env["found"], source), key=lambda one: one[:2]):
        parts += [content[at:start], part]
        at = end
    return coded((spans[0][0], spans[-1][1]), [*parts, content[at:]], _escaped)


def _parts(
    content: str, found: Sequence[Found], source: Callable[[int, int], str]
) -> Iterator[tuple[int, int, Part]]:
    """Yield each part of a paragraph that is no plain text: start, end, part."""
    for one in found:
        start, end, whole = one.start, one.end, source(one.start, one.end)
        kinds = [token.type for _, token in one.tokens]
        if one.rule == "link":
            target = source(one.label, end)
            if target in ("]", "][]"):  # the text is also the label of the target
                target = f"][{source(start + 1, one.label)}]"
            yield start, start + 1, Code("open", "[")
            yield one.label, end, Code("close", target)
        elif one.rule in ("emphasis", "strikethrough"):
            for place, token in one.tokens:
                if token.type in EMPHASIS:
                    before, behind = EMPHASIS[token.type]
                    kind: Any = token.type.rpartition("_")[2]
                    mark = content[place - before : place + behind]
                    yield place - before, place + behind, Code(kind, mark)
        elif "hardbreak" in kinds:
            spaces = len(content[:start]) - len(content[:start].rstrip(" "))
            yield start - spaces, end, Code("break", " " * spaces + whole)
        elif "softbreak" in kinds:
            yield start, end, " "
        elif one.rule in ("escape", "entity"):
            yield start, end, html.unescape(whole) if one.rule == "entity" else whole[1:]
        elif one.rule == "backticks" and "code_inline" in kinds:
            yield start, end, Code("word", whole, one.tokens[-1][1].content)
        elif one.rule in ("image", "autolink", "html_inline"):
            yield start, end, Code("break" if _BREAK.fullmatch(whole) else "alone", whole)


def _escaped(text: str) -> str:
    """Escape text so that it is no markup and begins no list, heading or other block."""
    text = _SPECIAL.sub(r"\\\g<0>", text)
    begins = _BLOCK.match(text)
    return f"{text[: begins.end()]}\\{text[begins.end() :]}" if begins else text
