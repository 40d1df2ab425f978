"""Translations that cannot be right, whatever the source says: told by their looks alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

# Human translations pass these limits in 2 of 38,000 sentences (Multi30k, news, wiki, subtitles and
# web text); most of them do not come near.
WORDS = 8  # longest phrase whose repetition is looked for
REPEATS = 3  # times that a phrase may not stand in a row, unless the source does the like
CHARACTERS = 6  # longest part of a word whose repetition is looked for
LETTERS = 6  # times that it may not
STUTTER = re.compile(rf"(.{{1,{CHARACTERS}}}?)\1{{{LETTERS - 1}}}")  # soon tells whether it does
COPIED = 4  # words of a source that may not come back as they were; fewer are often a name
LONGER, SHORTER = 2.5, 0.4  # characters of a translation for each of its source ...
ROOM = 20  # ... beside so many, since short texts vary


def faults(source: str, target: str) -> list[str]:
    """What is wrong with a translation: repetition, copy, empty, too long, too short."""
    source, target = " ".join(source.split()), " ".join(target.split())
    if not target:
        return ["empty"] if source else []
    found = []
    words, source_words = (re.findall(r"\w+", text.lower()) for text in (target, source))
    if _repeats_more(words, source_words, WORDS, REPEATS) or (
        STUTTER.search(target.lower())
        and _repeats_more(target.lower(), source.lower(), CHARACTERS, LETTERS)
    ):
        found.append("repetition")
    if len(source_words) >= COPIED and words == source_words:
        found.append("copy")
    if len(target) > LONGER * len(source) + ROOM:
        found.append("too long")
    if len(target) < SHORTER * (len(source) - ROOM):
        found.append("too short")
    return found


def _repeats_more(
    target: Sequence[str], source: Sequence[str], longest: int, allowed: int
) -> bool:
    """Whether a part stands in a row too often, and more often than any of the source."""
    if max(Counter(target).values(), default=0) < allowed:
        return False  # nothing is there often enough: the usual case, and soon seen
    return repeats(target, longest) >= max(allowed, repeats(source, longest) + 1)


def repeats(sequence: Sequence[str], longest: int) -> int:
    """The most times that any part of at most `longest` elements stands in a row."""
    most = 1
    for period in range(1, longest + 1):
        run = 0  # elements that equal the one a period before
        for previous, element in zip(sequence, sequence[period:], strict=False):
            run = run + 1 if element == previous else 0
            most = max(most, run // period + 1)
    return most
