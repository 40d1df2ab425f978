"""What of a text is prose: no tag, link, address, placeholder, entity or code."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq.inference.items import find_items
from seq2seq.inference.tags import TAG, stand_in


def in_prose(text: str, change: Callable[[str], str]) -> str:
    """A text whose prose was changed, and all else was not.

    Args:
        text: any.
        change: sees one letter, which it has to leave alone, for each thing that is no prose.
    """
    kept = [match.span() for match in TAG.finditer(text)]
    kept += [(item.start, item.end) for item in find_items(text) if item.kind != "number"]
    mark = stand_in(text)
    prose, originals, at = [], [], 0
    for start, end in _outermost(kept):
        prose.append(text[at:start])
        originals.append(text[start:end])
        at = end
    first, *rest = change(mark.join([*prose, text[at:]])).split(mark)
    pairs = zip(originals, rest, strict=True)
    return first + "".join(original + after for original, after in pairs)


def _outermost(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans without those that begin inside another."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not found or start >= found[-1][1]:
            found.append((start, end))
    return found
