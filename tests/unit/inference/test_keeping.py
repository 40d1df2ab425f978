"""Sentences whose items got lost are translated around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from seq2seq.inference.items import find_items
from seq2seq.inference.keeping import keep_items
from seq2seq.inference.source import Candidates, Source
from seq2seq.inference.translation import Translation

DROPPED = {"{name}", "www.a.fr", "%s", "1,000", "3.5", "77"}


def forgetful(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
    """Shouts each word, drops some items, and ends with a full stop."""
    found = []
    for source in sources:
        words = [word.upper() for word in source.text.split() if word.strip(".,()") not in DROPPED]
        found.append([Translation(" ".join(words).rstrip(".") + ".", -1.0)])
    return found


def kept(text: str) -> Translation:
    source = [Source(text)]
    return keep_items(source, forgetful(source), forgetful)[0][0]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("a man sits.", "A MAN SITS."),
        ("see www.a.fr for more.", "SEE www.a.fr FOR MORE."),
        ("{name} sits.", "{name} SITS."),
        ("he sits with {name}", "HE SITS WITH {name}"),
        ("he, {name}, and (%s) sit.", "HE, {name}, AND (%s) SIT."),
        ("a 3.5 b 1,000 c", "A 3,5 B 1\u202f000 C"),
        ("{name} %s", "{name} %s"),
    ],
)
def test_items_stand_where_they_stood(source, target):
    assert kept(source).text == target


def test_what_was_done_is_noted():
    assert kept("a man sits").notes == []
    assert kept("{name} and 77 sit").notes == ["translated around {name}, 77"]


def test_a_hypothesis_that_holds_the_items_is_taken_first():
    found = [[Translation("un", -1.0), Translation("un {name}", -2.0)]]
    [[best, other]] = keep_items([Source("a {name}")], found, forgetful)
    assert (best.text, best.notes, other.text) == ("un {name}", [], "un")


def test_alternatives_stay_behind_what_was_translated_around_items():
    found = [[Translation(text, -1.0) for text in ("UN", "DEUX", "A {name}")]]
    source = Source("a {name} %s")
    [texts] = [[one.text for one in each] for each in keep_items([source], found, forgetful)]
    assert texts == ["A {name} %s", "A {name}", "UN", "DEUX"]


def test_items_that_only_parts_lose_are_kept_too():
    """The search drops a number only when it stands beside nothing else that is an item."""

    def moody(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
        def answer(text: str) -> str:
            return text.replace("www.a.fr", "") if "www" in text else text.replace("77", "")

        return [[Translation(answer(source.text), -1.0)] for source in sources]

    source = [Source("at www.a.fr are 77 dogs")]
    [[best, _]] = keep_items(source, moody(source), moody)
    assert best.text == "at www.a.fr are 77 dogs"
    assert not [item for item in find_items(source[0].text) if item.text not in best.text]


def test_a_prefix_stays_with_the_first_part():
    asked: list[Source] = []

    def noting(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
        asked.extend(sources)
        return forgetful(sources)

    source = [Source("a {name} b", prefix="UN")]
    keep_items(source, forgetful(source), noting)
    assert asked == [Source("a", prefix="UN"), Source("b")]


def test_only_the_items_that_are_asked_for_are_kept():
    source = [Source("a {name} and 77")]
    found = keep_items(
        source, forgetful(source), forgetful,
        lambda text: [item for item in find_items(text) if item.kind != "number"],
    )  # fmt: skip
    assert found[0][0].text == "A {name} AND"


def test_what_is_cut_by_what_was_asked_for_is_left_and_its_losses_are_noted():
    cut = Translation("UN", -1.0, finished=False, tokens=["UN"])
    [[best]] = keep_items([Source("a {name} b", most=1)], [[cut]], forgetful)
    assert (best.text, best.notes) == ("UN", ["lost: {name}"])
    whole = Translation("UN", -1.0, tokens=["UN"])

    def two_each(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
        return [[Translation("X X", -1.0, tokens=["X", "X"])] for _ in sources]

    for most, text in ((4, "UN"), (5, "X X {name} X X")):
        [[best, *_]] = keep_items([Source("a {name} b", most=most)], [[whole]], two_each)
        assert best.text == text
