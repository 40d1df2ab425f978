"""HTML: translate the text between block-level tags; code, scripts and styles stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from seq2seq.documents import Document, Wanted
from seq2seq.documents.text import WORDS, Place, decoded, escaped, spliced, tagged
from seq2seq.inference.text.tags import BLOCKS, Span, Token, find_tags, partners

APART = {"a", "button", "label"}  # texts of their own where they stand in a row, as in menus
KEPT = {*WORDS, "math", "pre", "script", "style", "svg", "textarea"}
_CHARSET = re.compile(rb"<meta[^>]{1,200}?charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_NOT_TRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b|\bnotranslate\b""", re.IGNORECASE)


def read(data: bytes, wanted: Wanted) -> Document:
    """Read the texts of a page; attributes are not translated."""
    declared = _CHARSET.search(data[:4096])
    encoding = declared[1].decode("ascii") if declared else ""
    text, encode = decoded(data, encoding, errors="xmlcharrefreplace")
    return spliced(text, list(places(text)), encode)


def places(text: str) -> Iterator[Place]:
    """Yield the texts of a page or of a part of a page."""
    tokens = find_tags(text)
    partner = partners(tokens)
    start, number, own = 0, 0, list[Token]()
    while number < len(tokens):
        token, last = tokens[number], number
        kept = token.name in KEPT or _NOT_TRANSLATED.search(text, token.start, token.end)
        if kept and partner.get(number, -1) > number:
            last = partner[number]
            token = Token(token.start, tokens[last].end, token.name)
        if token.name in BLOCKS:
            yield from _texts(text, (start, token.start), own)
            start, own = token.end, []
        else:
            own.append(token)
        number = last + 1
    yield from _texts(text, (start, len(text)), own)


def _texts(text: str, span: Span, own: list[Token]) -> Iterator[Place]:
    """Yield the text between two blocks; if it is a row of links, buttons or labels, yield each.

    Args:
        own: the tokens of the text.
    """
    partner, elements, between = partners(own), list[list[Token]](), ""
    at, number = span[0], 0
    while number < len(own):
        last = max(partner.get(number, number), number)
        between += text[at : own[number].start]
        if last > number:
            elements.append(own[number : last + 1])
        at, number = own[last].end, last + 1
    prose = any(map(str.isalpha, html.unescape(between + text[at : span[1]])))
    if prose or len(elements) < 2 or not all(one[0].name in APART for one in elements):
        yield tagged(text, span, own, html.unescape, escaped)
        return
    for one in elements:
        yield tagged(text, (one[0].start, one[-1].end), one, html.unescape, escaped)
