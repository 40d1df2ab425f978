"""Variants of training pairs: in capitals, with typos, with symbols, with placeholders or terms.

Corpora are clean sentences, and a model that saw nothing else fails on what people type. A corpus
with `variants` gives some of its training pairs twice: as they are, and in another form. The text
itself decides which pairs, so the choice is the same in each epoch and on every machine.

Of the forms here, only `typos` leaves the target as it is, since a translator should understand
typos, not make them. Other forms are in symbols.py and annotations.py.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping

from seq2seq.data.annotations import placeholders, tags, terms
from seq2seq.data.cleaning import pair_key
from seq2seq.data.corpus import Pair
from seq2seq.data.symbols import symbols
from seq2seq.data.word_links import WordLinks

# Words that have no capital in English headings, unless they come first.
_SMALL = "a an and as at but by for from in of on or the to with".split()  # noqa: SIM905
# A stop at the end, with the space that French puts before "!"; not the stop of "..." or "U.S.".
_STOP = re.compile(r"(?<![.!\s])(?<!\.\w)\s*(?:!+|\.)$")
_QUESTION = re.compile(r"(?<=\w)\s*\?$")
_PUNCTUATION = string.punctuation + "«»…"
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # of a keyboard
_TYPED = re.compile(r"(?<![\w@#/.-])[A-Za-z][a-z]{3,}(?![\w@/-]|\.\w)")  # no part of an address


def capitals(source: str, target: str) -> Pair:
    """Write everything in capitals, as in warnings and on forms."""
    return source.upper(), target.upper()


def plain(source: str, target: str) -> Pair:
    """Remove the capital at the beginning and the full stop at the end, as in chats."""
    left, right = _without_stops(source, target)
    return _small(left, target), _small(right, source)


def unmarked(source: str, target: str) -> Pair:
    """Remove the punctuation at the end, also a question mark if both sides have one."""
    left, right = _QUESTION.sub("", source), _QUESTION.sub("", target)
    both = left != source and right != target
    return (left, right) if both else _without_stops(source, target)


def chat(source: str, target: str) -> Pair:
    """Remove the punctuation at the end, and the capital at the beginning."""
    left, right = unmarked(source, target)
    return _small(left, target), _small(right, source)


def heading(source: str, target: str) -> Pair:
    """Write English Like a Heading, both without full stop; French headings look like sentences."""
    left, right = _without_stops(source, target)
    words = enumerate(left.split(" "))
    title = [w if n and w in _SMALL else w[:1].upper() + w[1:] for n, w in words]
    return " ".join(title), right


def joined(before: Pair, pair: Pair) -> Pair:
    """Join two pairs of whole sentences; return the second alone if a side is no sentence."""
    if all(side[-1:] in (".", "!", "?") for side in (*before, *pair)):
        return f"{before[0]} {pair[0]}", f"{before[1]} {pair[1]}"
    return pair


def typos(source: str, target: str, draw: random.Random) -> Pair:
    """Put a typo into the source or, into some longer ones, two.

    A letter is swapped with the next one, left out, doubled, or replaced by a neighbour on the
    keyboard; or an apostrophe is left out.
    """
    slips = 1 + (len(source) > 60 and draw.random() < 0.5)
    for _ in range(slips):
        source = _slip(source, draw)
    return source, target


def _slip(text: str, draw: random.Random) -> str:
    if draw.random() < 0.2 and (found := re.search(r"(?<=\w)['’](?=(?:t|s|m|re|ve|ll|d)\b)", text)):
        return text[: found.start()] + text[found.end() :]
    words = list(_TYPED.finditer(text))
    if not words:
        return text
    word = draw.choice(words)
    at = draw.randrange(word.start() + 1, word.end())  # first letters are seldom wrong
    letter, kind = text[at], draw.randrange(4)
    if kind == 0 and at + 1 < word.end():
        return text[:at] + text[at + 1] + letter + text[at + 2 :]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text[:at] + letter + text[at:]
    row = next(row for row in _ROWS if letter in row)
    place = row.index(letter)
    return text[:at] + draw.choice(row[max(place - 1, 0) : place] + row[place + 1 : place + 2]) \
        + text[at + 1 :]  # fmt: skip


def _without_stops(source: str, target: str) -> Pair:
    """Remove the full stop or exclamation mark of both sides.

    If a side ends in another sign, such as ? or ..., both stay: else the other side would say less.
    """
    bare = _STOP.sub("", source), _STOP.sub("", target)
    for text, rest in zip((source, target), bare, strict=True):
        if rest == text and not text[-1:].isalnum():
            return source, target
    return bare


def _small(text: str, other: str) -> str:
    """Make the first letter small, except in I, abbreviations, and names (in both texts)."""
    first = _words(text)[0]
    is_name = first.strip(_PUNCTUATION) in (word.strip(_PUNCTUATION) for word in _words(other))
    is_abbreviation = len(first) > 1 and not first[1:].islower()
    keeps = first == "I" or is_name or is_abbreviation
    return text if keeps and first not in ("A", "À") else text[:1].lower() + text[1:]


def _words(text: str) -> list[str]:
    return re.split("[ '’]", text)  # J'ai: J + ai


# Each makes the other form of a pair, or returns a pair that the form does not suit.
FORMS: dict[str, Callable[[str, str], Pair]] = {
    one.__name__: one for one in (capitals, plain, heading, unmarked, chat)
}
LINKED_FORMS: dict[str, Callable[[str, str, random.Random, WordLinks], Pair]] = {
    one.__name__: one for one in (symbols, placeholders, tags, terms)
}


def varied(
    pairs: Iterable[Pair], shares: Mapping[str, float], links: Callable[[], WordLinks]
) -> Iterator[Pair]:
    """Yield each pair, and some pairs a second time, in another form.

    Args:
        pairs: of a corpus.
        shares: share of the pairs that get each variant, by the variant's name.
        links: returns the word links of the corpus, which are slow to learn.
    """
    before = ("", "")
    for pair in pairs:
        yield pair
        for name, share in shares.items():
            if not share or (key := pair_key(*pair, salt=name)) >= share * 2**64:
                continue
            draw = random.Random(key)
            if name in FORMS:
                other = FORMS[name](*pair)
            elif name == "joined":
                other = joined(before, pair)
            elif name == "typos":
                other = typos(*pair, draw)
            else:
                other = LINKED_FORMS[name](*pair, draw, links())
            if other != pair:
                yield other
        before = pair
