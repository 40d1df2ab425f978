"""Plain text, and what all text formats share: encodings, and replacing parts of a text."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seq2seq.documents import Document, Wanted
from seq2seq.documents.inline import Code, Inline, Part
from seq2seq.errors import DataError
from seq2seq.inference.text.tags import Span, Token, partners

WORDS = {"code", "kbd", "samp", "tt", "var"}  # elements whose text is code, not prose
MARKS = [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
         (codecs.BOM_UTF16_BE, "utf-16-be")]  # fmt: skip
OF_PYTHON = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}


def read(data: bytes, wanted: Wanted) -> Document:
    """Read plain text: each line is a text."""
    text, encode = decoded(data)
    lines = [found.span() for found in re.finditer(r"[^\r\n]+", text)]
    return spliced(text, [Place(*line, text[slice(*line)], str) for line in lines], encode)


def decoded(
    data: bytes, declared: str = "", errors: str = "strict"
) -> tuple[str, Callable[[str], bytes]]:
    """Decode a file; return its text and a function that encodes a text in the same way.

    If all lines end with CR LF, the text has LF instead, and the function writes CR LF again.

    Args:
        declared: encoding that the file declares; empty: UTF-8. A byte order mark takes precedence.
        errors: how to write characters that the encoding lacks, as in `str.encode`.

    Raises:
        DataError: the file is in another encoding, or is no text.
    """
    mark, encoding = next(((m, e) for m, e in MARKS if data.startswith(m)), (b"", declared))
    encoding = encoding or "utf-8"
    try:
        if codecs.lookup(encoding).name in OF_PYTHON:
            raise LookupError("which is not an encoding of documents")
        text = data[len(mark) :].decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise DataError(
            f"the document is not {encoding} ({error}): convert it, for example: iconv -f latin1 "
            "-t utf-8"
        ) from error
    if "\0" in text:
        raise DataError("the document has null characters, so it is not text: is it another kind?")
    lines = "\r\n" if text.count("\r\n") == text.count("\n") else "\n"

    def encode(changed: str) -> bytes:
        changed = changed.replace("\n", lines)
        try:
            return mark + changed.encode(encoding, errors)
        except UnicodeEncodeError as error:
            letter = changed[error.start]
            raise DataError(
                f"{letter} cannot be written in the document's encoding, {encoding}: convert it "
                "to UTF-8"
            ) from error

    return text.replace(lines, "\n"), encode


def escaped(text: str) -> str:
    """Escape &, < and > for HTML or WebVTT."""
    return html.escape(text, quote=False)


@dataclass(frozen=True)
class Place:
    """A part of a file that is to be translated.

    Attributes:
        start, end: its span, in characters.
        text: for the translator.
        write: turns a translation into the content of the file at this place.
    """

    start: int
    end: int
    text: str
    write: Callable[[str], str]


def tagged(
    text: str,
    span: Span,
    tokens: Sequence[Token],
    read: Callable[[str], str] = str,
    write: Callable[[str], str] = str,
) -> Place:
    """Make a place from text with tags.

    Args:
        span: of the place.
        tokens: the tags in it. A token that is a whole element stays as it is; if it is code, the
            translator sees it as a word.
        read, write: unescape and escape text.
    """
    start, end = span
    start += len(text[start:end]) - len(text[start:end].lstrip())
    end -= len(text[start:end]) - len(text[start:end].rstrip())
    pairs, at, parts = partners(tokens), start, list[Part]()
    for number, token in enumerate(tokens):
        whole, other = text[token.start : token.end], pairs.get(number)
        code = Code("alone", whole)
        if other is not None:
            code = Code("open" if other > number else "close", whole)
        elif token.name in WORDS and not token.opens and not token.closes:
            code = Code("word", whole, read(re.sub("<[^>]*>", "", whole)))
        parts += [read(text[at : token.start]), code]
        at = token.end
    return coded((start, end), [*parts, read(text[at:end])], write)


def coded(span: Span, parts: Sequence[Part], write: Callable[[str], str]) -> Place:
    """Make a place from text with codes; the content of each code is the source of its tag."""
    inline = Inline(parts)

    def written(translation: str) -> str:
        return "".join(write(part) if isinstance(part, str) else part.content
                       for part in inline.fill(translation))  # fmt: skip

    return Place(*span, inline.text, written)


def spliced(text: str, places: Sequence[Place], encode: Callable[[str], bytes]) -> Document:
    """Make a document from a text: its places are translated, everything else stays."""
    places = [one for one in places if any(map(str.isalpha, one.text))]

    def write(translations: Sequence[str]) -> bytes:
        parts, at = list[str](), 0
        for one, said in zip(places, translations, strict=True):
            same = said == one.text
            parts += [text[at : one.start], text[one.start : one.end] if same else one.write(said)]
            at = one.end
        return encode("".join([*parts, text[at:]]))

    return Document([one.text for one in places], write)
