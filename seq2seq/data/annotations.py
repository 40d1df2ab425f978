"""Marks that a translator copies or obeys: placeholders, and terms that are given inline.

Three uses of tokens that nobody types (`SYMBOLS`, for `tokenizer.symbols`):

    I paid ⟦1⟧ to ⟦2⟧.                              J'ai payé ⟦1⟧ à ⟦2⟧.
    Click⟦1⟧ Start⟦2⟧ to begin.                     Cliquez sur⟦1⟧ Démarrer⟦2⟧ pour commencer.
    The⟦term⟧ old mill⟦as⟧ vieux moulin⟦/term⟧ works.  Le vieux moulin tourne.

A placeholder stands for a word or more (an amount, a name, an address), and then has spaces as
that would have. As a tag it opens or closes something, and then stands before the space, so that
the words inside are the same tokens as anywhere else; so do the marks of a term. Numbers go from
1 to 8, each stands once on either side.

Text that holds one of the two brackets itself must be `escaped` before it meets a model.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from seq2seq.data.word_links import Phrase, Span, WordLinks

if TYPE_CHECKING:  # pyarrow takes a while to load, and translating needs none
    from seq2seq.data.corpus import Pair

PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, 9))
TERM, AS, END_TERM = "⟦term⟧", "⟦as⟧", "⟦/term⟧"
SYMBOLS = (*PLACEHOLDERS, TERM, AS, END_TERM)
_ESCAPES = str.maketrans("⟦⟧", "[]")

# What both sides may share: a number, a name, an address, a file.
_SHARED = re.compile(r"\w(?:[\w.@:/+&%=~-]*\w)?(?:/(?=\s|$))?")
_SIGNS = re.compile(r"[\dA-Z@/_]|\w\.\w")


def escaped(text: str) -> str:
    """The text without the brackets that make a token: nobody's words are taken for a mark."""
    return text.translate(_ESCAPES)


def shared_spans(source: str, target: str) -> list[Phrase]:
    """Names, numbers and addresses that stand once on each side, as they are."""
    left, right = _once(source), _once(target)
    found: list[Phrase] = []
    for text, place in left.items():
        if text not in right or not _SIGNS.search(text) or text in ("I", "A"):
            continue
        phrase = Phrase(place, right[text])
        if found and (longer := _joined(found[-1], phrase, source, target)):
            found[-1] = longer
        else:
            found.append(phrase)
    return found


def _once(text: str) -> dict[str, Span]:
    places = [(match[0], match.span()) for match in _SHARED.finditer(text)]
    words = [word for word, _ in places]
    return {word: place for word, place in places if words.count(word) == 1}


def _joined(first: Phrase, second: Phrase, source: str, target: str) -> Phrase | None:
    """Both as one, where one space alone is between them on both sides, as in "John Smith"."""
    for text, a, b in (
        (source, first.source, second.source),
        (target, first.target, second.target),
    ):
        if b[0] != a[1] + 1 or text[a[1]] != " ":
            return None
    return Phrase((first.source[0], second.source[1]), (first.target[0], second.target[1]))


def placeholders(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """A pair whose names and numbers, or some words and their translations, are placeholders."""
    phrases = shared_spans(source, target)
    if draw.random() < (0.2 if phrases else 0.4):  # any word, a verb too; mostly it is a name
        phrases = _long(source, links.phrases(source, target, longest=2))
    chosen = _apart(phrases, draw, draw.choice((1, 1, 1, 2, 2, 3, 4)))
    if 2 * sum(end - start for start, end in (one.source for one in chosen)) > len(source):
        chosen = chosen[:1]  # some words should be left to translate
    marks = list(zip(chosen, _numbers(len(chosen), draw), strict=True))
    return (
        _replaced(source, [(one.source, mark) for one, mark in marks]),
        _replaced(target, [(one.target, mark) for one, mark in marks]),
    )


def tags(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """A pair with placeholders before and behind words and their translations, as markup stands."""
    phrases = links.phrases(source, target) + shared_spans(source, target)
    chosen = _apart(phrases, draw, draw.choice((1, 1, 1, 2)))
    numbers = iter(_numbers(2 * len(chosen), draw))
    marks = [(one, f"{next(numbers)}{{}}{next(numbers)}") for one in chosen]
    return (
        _replaced(source, [(_with_space(source, one.source), mark) for one, mark in marks]),
        _replaced(target, [(_with_space(target, one.target), mark) for one, mark in marks]),
    )


def terms(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """A source that says how some of its words are to be translated: as the target does."""
    phrases = _long(source, links.phrases(source, target))
    chosen = _apart(phrases, draw, draw.choice((1, 1, 1, 2, 2, 3)))
    edits = [
        (
            _with_space(source, one.source),
            f"{TERM}{{}}{AS} {target[slice(*one.target)]}{END_TERM}",
        )
        for one in chosen
    ]
    return _replaced(source, edits), target


def _long(source: str, phrases: list[Phrase]) -> list[Phrase]:
    """Those of more than three letters: nobody asks how "but" is to be translated."""
    return [one for one in phrases if one.source[1] - one.source[0] > 3]


def _numbers(count: int, draw: random.Random) -> list[str]:
    """So many placeholders: mostly from 1 on, else any of them, in their order."""
    if draw.random() < 0.6:
        return list(PLACEHOLDERS[:count])
    return [PLACEHOLDERS[place] for place in sorted(draw.sample(range(len(PLACEHOLDERS)), count))]


def _apart(phrases: list[Phrase], draw: random.Random, count: int) -> list[Phrase]:
    """Some phrases that do not overlap on either side, in the order of the source."""
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


def _replaced(text: str, edits: list[tuple[Span, str]]) -> str:
    """The text with other text in some places; {} in it is what stood there."""
    for (start, end), new in sorted(edits, reverse=True):
        text = text[:start] + new.replace("{}", text[start:end]) + text[end:]
    return text
