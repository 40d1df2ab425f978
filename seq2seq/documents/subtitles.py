"""Subtitles, SubRip and WebVTT: the text of a cue, which keeps its number of lines.

A sentence over two cues is translated cue by cue. What libraries of subtitles write lacks cue
settings, styles or notes, so the text is replaced where it stands.
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
# Lines up to one of another speaker, which begins with a dash; ♪ is a line of a song.
_SPEECH = re.compile(r".+(?:\n(?!\s*(?:<[^<>\n]{0,200}>\s*)*[-–—♪]).+)*")


def read(data: bytes, wanted: Wanted) -> Document:
    """The text of each cue; lines of one speaker are one text."""
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
    """A text in at most so many lines of like length."""
    words = [found[0] for found in _WORD.finditer(text)]  # the space of a tag cuts no word
    lengths = [len(_MARK.sub("", word)) + 1 for word in words]
    made: list[list[str]] = [[] for _ in range(lines)]
    for word, length, end in zip(words, lengths, accumulate(lengths), strict=True):
        made[int(lines * (end - length / 2) / sum(lengths))].append(word)
    return "\n".join(" ".join(line) for line in made if line)
