"""Whatever is given, something comes back: no crash, no hang, nothing lost that was to be kept.

The model is a random one, which is the hardest case: nearly all that it says is degenerate, and it
keeps nothing by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from kept_lines import kept_lines
from odd_strings import PARTS, huge_strings, odd_strings
from tiny_translator import tiny_translator

from seq2seq.inference.text.markup import Markup
from seq2seq.inference.text.placeholders import find_items, lost
from seq2seq.inference.text.segmentation import Segmentation
from seq2seq.inference.text.tags import blanked, find_markup
from seq2seq.inference.translator import readable

# What is asked of the strings, in turns.
WISHES: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 2, "n_best": 2, "typography": True, "align": True},
    {"strategy": "sample", "temperature": 2.0},
    {"beam": 1, "prefix": "un homme", "terms": {"man": "homme", "house": "grande maison"}},
]


def check_odd_strings(count: int) -> None:
    texts = [text for _, text in odd_strings(count)]
    for first, wish in enumerate(WISHES):
        check_strings(texts[first :: len(WISHES)], wish)


def check_strings(texts: Sequence[str], wish: dict[str, Any]) -> None:
    translator = tiny_translator()
    found = translator.translate(texts, **wish)
    assert len(found) == len(texts)
    for text, one in zip(texts, found, strict=True):
        words, written = len(text.split()), len(one.text.split())
        assert all(0 <= s < words and 0 <= t < written for s, t in one.alignment)
        text = readable(text)
        one.text.encode("utf-8")
        if not translator.as_read(text):
            assert one.text == ""
            continue
        missing = markup(text) - markup(one.text)  # a sign between two letters is text
        assert Counter(one.text) >= markup(text), (text, one.text)
        assert not any(map(str.isascii, missing)), (text, one.text)
        assert sum(map(one.text.count, "\n\r")) == sum(map(text.count, "\n\r")), text
        reader = Markup(translator.vocabularies, translator.as_read)
        for piece, _ in one.parts:
            clean, _ = reader.before(piece)
            said = " ".join(note for note in one.notes if "lost" in note)
            for item in lost(find_items(clean), blanked(one.text, find_markup(one.text))):
                # Digits may stand beside those of another part of a word that was cut.
                assert item.text in one.text + said, (text, one)


def markup(text: str) -> Counter[str]:
    """The characters of the markup of a text: signs may have become neighbours."""
    return Counter("".join(text[token.start : token.end] for token in find_markup(text)))


def test_odd_strings_come_back():
    check_odd_strings(300)


@pytest.mark.slow
def test_ten_thousand_odd_strings_come_back():
    check_odd_strings(10_000)


def test_all_kinds_of_odd_strings_are_there():
    assert {kind for kind, _ in odd_strings(300)} == {*PARTS, "repeated"}


@pytest.mark.parametrize(("kind", "text"), huge_strings(100_000).items())
def test_a_huge_text_is_cut_in_time(kind, text):
    translator = tiny_translator()
    start = time.perf_counter()
    limit = translator.engine.max_length
    found = Segmentation(lambda piece: len(translator.as_read(piece)), limit).before(text)
    assert time.perf_counter() - start < 20
    assert found.fill(found.pieces) == text
    assert all(len(piece) < 400 for piece in found.pieces)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentences", "one word", "placeholders", "tags"])
def test_a_huge_text_is_translated(kind):
    [found] = tiny_translator().translate([huge_strings(100_000)[kind]], beam=1)
    assert len(found.text) > 10_000


def test_what_500_lines_hold_survives():
    """Tags, placeholders, links, numbers and layout, in the translations of a random model."""
    lines = kept_lines(500)
    found = tiny_translator().translate([line.source for line in lines], beam=1)
    for line, one in zip(lines, found, strict=True):
        for item in set(line.items):
            assert one.text.count(item) >= line.items.count(item), (line, one)
        if line.kind == "layout":
            assert one.text.startswith(line.items[0])
            assert one.text.endswith(line.source[len(line.source.rstrip()) :])


def test_without_protection_they_do_not_survive():
    """Else the test above could not fail."""
    lines = kept_lines(70)
    found = tiny_translator().translate([line.source for line in lines], beam=1, protect=False)
    both = zip(lines, found, strict=True)
    assert sum(all(item in one.text for item in line.items) for line, one in both) < 7


def test_pieces_are_cut_where_the_limit_is():
    assert Segmentation(lambda piece: len(piece.split()), 3).before("a b c d").pieces == [
        "a b",
        "c d",
    ]
