"""HTML: translate the text between block-level tags; code, scripts and styles stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from seq2seq.documents import Document, Wanted
from seq2seq.documents.text import WORDS, Place, decoded, escaped, spliced, tagged
from seq2seq.inference.text.tags import BLOCKS, Token, find_tags, partners

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
            yield tagged(text, (start, token.start), own, html.unescape, escaped)
            start, own = token.end, []
        else:
            own.append(token)
        number = last + 1
    yield tagged(text, (start, len(text)), own, html.unescape, escaped)
