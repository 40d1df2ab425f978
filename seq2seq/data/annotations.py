"""Placeholders, which a translator copies, and inline terms, which it obeys.

Both are special tokens that no user types (`SYMBOLS`, for `tokenizer.symbols`). Three uses:

    I paid ⟦1⟧ to ⟦2⟧.                              J'ai payé ⟦1⟧ à ⟦2⟧.
    Click⟦1⟧ Start⟦2⟧ to begin.                     Cliquez sur⟦1⟧ Démarrer⟦2⟧ pour commencer.
    The⟦term⟧ old mill⟦as⟧ vieux moulin⟦/term⟧ works.  Le vieux moulin tourne.

A placeholder can replace a word or more (an amount, a name, an address); it then has the spaces
that the words would have. As a tag, a placeholder opens or closes something; it then comes before
the space, so that the words inside are the same tokens as anywhere else. The marks of a term come
before the space, too. Placeholders are numbered from 1 to 8; each occurs once on each side.

User text with one of the two brackets must pass through `escaped` before a model reads it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seq2seq.data.word_links import Phrase, Span, WordLinks

if TYPE_CHECKING:  # pyarrow takes a while to load, and translating needs none
    from seq2seq.data.corpus import Pair

PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, 9))
TERM, AS, END_TERM = "⟦term⟧", "⟦as⟧", "⟦/term⟧"
SYMBOLS = (*PLACEHOLDERS, TERM, AS, END_TERM)
_ESCAPES = str.maketrans("⟦⟧", "[]")

# Words that may be the same on both sides: numbers, names, addresses, file names.
_SHARED = re.compile(r"\w(?:[\w.@:/+&%=~-]*\w)?(?:/(?=\s|$))?")
_SIGNS = re.compile(r"[\dA-Z@/_]|\w\.\w")


def escaped(text: str) -> str:
    """Replace the brackets of special tokens, so that no user's text is read as such a token."""
    return text.translate(_ESCAPES)


def shared_spans(source: str, target: str) -> list[Phrase]:
    """Find names, numbers and addresses that occur exactly once on each side, in the same form."""
    left, right = _once(source), _once(target)
    found: list[Phrase] = []
    for text, place in left.items():
        if text not in right or not _SIGNS.search(text) or text in ("I", "A"):
            continue
        phrase = Phrase(place, right[text])
        if found:
            last = found[-1]
            between = source[last.source[1] : place[0]], target[last.target[1] : phrase.target[0]]
            if between == (" ", " "):  # as in "John Smith"
                found.pop()
                phrase = Phrase((last.source[0], place[1]), (last.target[0], phrase.target[1]))
        found.append(phrase)
    return found


def _once(text: str) -> dict[str, Span]:
    places = [(match[0], match.span()) for match in _SHARED.finditer(text)]
    words = [word for word, _ in places]
    return {word: place for word, place in places if words.count(word) == 1}


def placeholders(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """Replace names and numbers, or some words and their translations, with placeholders."""
    phrases = shared_spans(source, target)
    if draw.random() < (0.2 if phrases else 0.4):  # any word, even a verb; mostly a name
        phrases = _long(source, links.phrases(source, target, longest=2))
    chosen = _apart(phrases, draw, draw.choice((1, 1, 1, 2, 2, 3, 4)))
    if 2 * sum(end - start for start, end in (one.source for one in chosen)) > len(source):
        chosen = chosen[:1]  # some words should be left to translate
    return marked(source, target, list(zip(chosen, _numbers(len(chosen), draw), strict=True)))


def tags(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """Put placeholders before and after words and their translations, as markup would be."""
    phrases = links.phrases(source, target) + shared_spans(source, target)
    chosen = _apart(phrases, draw, draw.choice((1, 1, 1, 2)))
    spaced = (
        Phrase(_with_space(source, one.source), _with_space(target, one.target)) for one in chosen
    )
    numbers = iter(_numbers(2 * len(chosen), draw))
    return marked(source, target, [(one, f"{next(numbers)}{{}}{next(numbers)}") for one in spaced])


def terms(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """Annotate some source words with their translations in the target."""
    phrases = _long(source, links.phrases(source, target))
    chosen = _apart(phrases, draw, draw.choice((1, 1, 1, 2, 2, 3)))
    marks = [f"{TERM}{{}}{AS} {target[slice(*one.target)]}{END_TERM}" for one in chosen]
    spans = [_with_space(source, one.source) for one in chosen]
    return _replaced(source, zip(spans, marks, strict=True)), target


def _long(source: str, phrases: list[Phrase]) -> list[Phrase]:
    """Return phrases of more than three letters: no user gives a translation of "but"."""
    return [one for one in phrases if one.source[1] - one.source[0] > 3]


def _numbers(count: int, draw: random.Random) -> list[str]:
    """Return `count` placeholders in ascending order: mostly from 1 on, else random ones."""
    if draw.random() < 0.6:
        return list(PLACEHOLDERS[:count])
    return [PLACEHOLDERS[place] for place in sorted(draw.sample(range(len(PLACEHOLDERS)), count))]


def _apart(phrases: list[Phrase], draw: random.Random, count: int) -> list[Phrase]:
    """Choose up to `count` phrases without overlap on either side, in the order of the source."""
    chosen: list[Phrase] = []
    for one in draw.sample(phrases, len(phrases)):
        if len(chosen) < count and all(
            a[1] <= b[0] or b[1] <= a[0]
            for other in chosen
            for a, b in ((one.source, other.source), (one.target, other.target))
        ):
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.source)


def _with_space(text: str, span: Span) -> Span:
    start, end = span
    return (start - 1 if text[start - 1 : start] == " " else start), end


def marked(source: str, target: str, marks: Sequence[tuple[Phrase, str]]) -> Pair:
    """Replace phrases on both sides; {} in a replacement stands for the old text of the side."""
    return (
        _replaced(source, ((one.source, mark) for one, mark in marks)),
        _replaced(target, ((one.target, mark) for one, mark in marks)),
    )


def _replaced(text: str, edits: Iterable[tuple[Span, str]]) -> str:
    """Replace spans of a text; {} in a replacement stands for the old text of the span."""
    for (start, end), new in sorted(edits, reverse=True):
        text = text[:start] + new.replace("{}", text[start:end]) + text[end:]
    return text
