"""Subtitles (SubRip and WebVTT): translate the text of each cue, on at most as many lines.

A sentence over two cues is translated cue by cue. The text is replaced where it stands, because
subtitle libraries lose cue settings, styles or notes when they write a file.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import accumulate

from seq2seq.documents import Document, Wanted
from seq2seq.documents.text import Place, decoded, escaped, spliced, tagged
from seq2seq.errors import DataError
from seq2seq.inference.text.tags import Span, Token

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}"
_CUE = re.compile(rf"^{_TIME}[ \t]*-->[ \t]*{_TIME}.*\n((?:.*\S.*(?:\n|\Z))*)", re.MULTILINE)
_MARK = re.compile(r"<(/?)([A-Za-z]*)[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
_WORD = re.compile(rf"(?:{_MARK.pattern}|\S)+")
# Lines of one speaker: a line of the next speaker begins with a dash, <v Name> or NAME:, a line of
# a song with ♪.
_NEXT = r"\s*(?:<[^<>\n]{0,200}>\s*)*(?:[-–—♪]|[A-ZÀ-Þ][A-ZÀ-Þ .'’#\d-]*:(?!\d))|\s*<v[ .]"
_SPEECH = re.compile(rf".+(?:\n(?!{_NEXT}).+)*")


def read(data: bytes, wanted: Wanted) -> Document:
    """Read the texts of all cues; the lines of one speaker in a cue are one text.

    Raises:
        DataError: the document has no subtitles of this kind.
    """
    text, encode = decoded(data)
    if "-->" not in text or (wanted.kind == ".vtt" and not text.startswith("WEBVTT")):
        raise DataError(f"the document has no subtitles of the kind {wanted.kind}: is it another?")
    places = [
        _place(text, speech.span(), wanted.kind)
        for cue in _CUE.finditer(text)
        for speech in _SPEECH.finditer(text, *cue.span(1))
    ]
    return spliced(text, places, encode)


def _place(text: str, span: Span, kind: str) -> Place:
    tokens = [
        Token(*mark.span(), mark[2] or "", opens=bool(mark[2]) and not mark[1],
              closes=bool(mark[1]))
        for mark in _MARK.finditer(text, *span)
    ]  # fmt: skip
    lines = text.count("\n", *span) + 1
    escapes = (html.unescape, escaped) if kind == ".vtt" else (str, str)
    place = tagged(text, span, tokens, *escapes)
    return replace(place, write=lambda translation: _cut(place.write(translation), lines))


def _cut(text: str, lines: int) -> str:
    """Break a text into at most `lines` lines of similar length."""
    words = [found[0] for found in _WORD.finditer(text)]  # a tag with a space in it is not split
    lengths = [len(_MARK.sub("", word)) + 1 for word in words]
    made: list[list[str]] = [[] for _ in range(lines)]
    for word, length, end in zip(words, lengths, accumulate(lengths), strict=True):
        made[int(lines * (end - length / 2) / sum(lengths))].append(word)
    return "\n".join(" ".join(line) for line in made if line)
