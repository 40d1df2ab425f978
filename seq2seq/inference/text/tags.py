"""Find the markup of a text: tags, comments, entities, symbols, and quotation marks if asked."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import chain
from typing import Any

import regex

from seq2seq.inference.text.placeholders import find_items, find_symbols

Span = tuple[int, int]  # start and end (exclusive), in units or in characters

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param",
        "source", "track", "wbr"}  # fmt: skip
BLOCKS = {"address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "div", "dl",
          "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4",
          "h5", "h6", "head", "header", "hr", "html", "legend", "li", "main", "nav", "ol",
          "option", "p", "pre", "script", "section", "style", "summary", "table", "tbody", "td",
          "tfoot", "th", "thead", "title", "tr", "ul"}  # fmt: skip
BARE = {"async", "autofocus", "autoplay", "checked", "controls", "default", "defer", "disabled",
        "download", "hidden", "inert", "ismap", "itemscope", "loop", "multiple", "muted", "nowrap",
        "open", "readonly", "required", "reversed", "selected"}  # fmt: skip

ENTITY = regex.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,30});")
_QUOTED = regex.compile(r"""(?<![^\s(\[{/—–-])"(?=[^\s"])[^"\n]*(?<=[^\s"])"(?!\w)""")
_TAG_NAME = regex.compile(r"[A-Za-z][\w:.-]*")


@dataclass(frozen=True)
class Token:
    """A piece of markup in a text.

    Attributes:
        start, end: its place, in characters.
        name: of the element, in lower case; empty if it belongs to no element.
        opens, closes: whether it begins or ends an element that may enclose something.
    """

    start: int
    end: int
    name: str = ""
    opens: bool = False
    closes: bool = False


class _Tokenizer(HTMLParser):
    """A parser that finds the tags, comments and declarations of a text, by the rules of HTML."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.text, self.found = text, list[Token]()
        self.closed = set(regex.findall(r"</([a-z][\w:.-]*)", text.lower()))
        self.lines = [0, *(match.end() for match in regex.finditer("\n", text))]
        # No tag begins behind the last ">", and the parser would search long for its end there.
        self.feed(text[: text.rfind(">") + 1])
        self.close()

    def _add(self, end: int, name: str = "", opens: bool = False, closes: bool = False) -> None:
        if end > self._at():
            self.found.append(Token(self._at(), end, name, opens, closes))

    def _at(self) -> int:
        line, column = self.getpos()
        start: int = self.lines[line - 1]
        return start + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        whole = self.get_starttag_text() or ""
        # "a <b and c> d" is a comparison: no attribute of HTML, no value, no end tag.
        sure = not attrs or tag in VOID or tag in self.closed
        known = sure or any(value is not None or name in BARE for name, value in attrs)
        if known and _TAG_NAME.fullmatch(tag):
            alone = tag in VOID or whole.endswith("/>")
            self._add(self._at() + len(whole), tag, opens=not alone)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if _TAG_NAME.fullmatch(tag):
            end = self.text.find(">", self._at()) + 1
            self._add(end, tag, closes=tag not in VOID)

    def set_cdata_mode(self, elem: str, **options: Any) -> None:
        if regex.compile(f"</{elem}", regex.IGNORECASE).search(self.text, self._at()):
            super().set_cdata_mode(elem, **options)

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:  # a script or a style sheet
            self._add(self._at() + len(data))

    def handle_comment(self, data: str) -> None:
        if self.text.startswith("<!--", self._at()):
            self._add(self.text.find("-->", self._at()) + 3)
        else:  # what browsers read as a comment, such as </>
            self._add(self.text.find(">", self._at()) + 1)

    def handle_decl(self, decl: str) -> None:
        self._add(self.text.find(">", self._at()) + 1)

    def handle_pi(self, data: str) -> None:
        self.handle_decl(data)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        return self.parse_bogus_comment(i)  # the inherited method stops at unknown sections


def find_tags(text: str) -> list[Token]:
    """Return the tags, comments and declarations of a text, from left to right."""
    return _Tokenizer(text).found if "<" in text and ">" in text else []


def find_markup(text: str, quotations: bool = False, symbols: bool = True) -> list[Token]:
    """Return all that is no text: tags, symbols, and entities for no letter or mark.

    Args:
        quotations: whether pairs of quotation marks are markup, too.
        symbols: whether symbols are markup.
    """
    tags = find_tags(text)
    if text.isascii() and "&" not in text and not (quotations and '"' in text):
        return tags
    found, prose = [*tags], blanked(text, tags)
    if "`" in text:
        code = [Token(*item.span) for item in find_items(prose) if item.kind == "code"]
        for one in code:
            whole = text[one.start : one.end]
            if ENTITY.search(whole) and whole == prose[one.start : one.end]:
                found.append(one)  # else its entities would be decoded
        prose = blanked(prose, code)
    if symbols:
        found += [Token(*span) for span in find_symbols(prose)]
    for entity in ENTITY.finditer(prose):
        if not _readable(html.unescape(entity[0])):
            found.append(Token(*entity.span()))
    if quotations:
        for quoted in _QUOTED.finditer(prose):
            found.append(Token(quoted.start(), quoted.start() + 1, '"', opens=True))
            found.append(Token(quoted.end() - 1, quoted.end(), '"', closes=True))
    return sorted(found, key=lambda token: token.start)


def outside(text: str, tokens: Sequence[Token]) -> Iterable[Span]:
    """Return the spans of a text between its markup, from left to right."""
    edges = [0, *chain.from_iterable((token.start, token.end) for token in tokens), len(text)]
    return zip(edges[::2], edges[1::2], strict=True)


def unescaped(text: str) -> str:
    """Decode the entities of a text; not the &copy of ?a=1&copy=2, which has no semicolon."""
    return str(ENTITY.sub(lambda entity: html.unescape(entity[0]), text))


def _readable(character: str) -> bool:
    """Tell whether an entity stands for a letter or a mark, which the model should read."""
    return character.isalnum() or character in "&<>\"'‘’“”«»–—…"


def blanked(text: str, tokens: Iterable[Token], filler: str = " ") -> str:
    """Replace each character of a text's markup by a filler."""
    parts, at = [], 0
    for token in tokens:
        parts += [text[at : token.start], filler * (token.end - token.start)]
        at = token.end
    return "".join([*parts, text[at:]])


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Map the number of each tag that opens or closes an element to that of its other tag."""
    found: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()  # of open elements, which may be many
    for number, token in enumerate(tokens):
        if token.opens:
            opened.append(number)
            names[token.name] += 1
        elif token.closes and names[token.name]:
            # Elements that were opened inside and never closed stay without a partner.
            while True:
                other = opened.pop()
                names[tokens[other].name] -= 1
                if tokens[other].name == token.name:
                    break
            found |= {number: other, other: number}
    return found


def stand_in(text: str) -> str:
    """Return a private-use character that is not in a text with less than 100,000 of them."""
    codes = chain(range(0xE000, 0xF900), range(0xF0000, 0x10FFFE))
    return next(chr(code) for code in codes if chr(code) not in text)


def in_prose(text: str, change: Callable[[str], str]) -> str:
    """Change the prose of a text; its markup, links and placeholders stay.

    Args:
        change: changes a text in which one letter stands for each part that is no prose; it must
            keep this letter.
    """
    kept = [(token.start, token.end) for token in find_markup(text)]
    kept += [one.span() for one in ENTITY.finditer(text)]
    kept += [item.span for item in find_items(text) if not item.is_number]
    mark = stand_in(text)
    prose, originals, at = [], [], 0
    for start, end in sorted(kept, key=lambda span: (span[0], -span[1])):
        if start >= at:
            prose.append(text[at:start])
            originals.append(text[start:end])
            at = end
    first, *rest = change(mark.join([*prose, text[at:]])).split(mark)
    pairs = zip(originals, rest, strict=True)
    return first + "".join(original + after for original, after in pairs)
