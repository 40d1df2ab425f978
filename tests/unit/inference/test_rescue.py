"""The ladder of a degenerate translation: what is tried, in which order, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from seq2seq.inference.rescue import rescue_degenerate
from seq2seq.inference.source import Candidates, Source
from seq2seq.inference.translation import Translation

LOOP = "un un un un"
TEXT = "one two, three four"


class Scripted:
    """A search that answers by the text and the settings, and counts what it was asked."""

    def __init__(self, plain: dict[str, list[str]], restrained: dict[str, list[str]]):
        self.plain, self.restrained = plain, restrained
        self.asked: list[tuple[list[str], dict[str, Any]]] = []

    def __call__(self, sources: Sequence[Source], **changes: Any) -> list[Candidates]:
        self.asked.append(([source.text for source in sources], changes))
        answers = self.restrained if changes else self.plain
        return [[Translation(text, -1.0) for text in answers[one.text]] for one in sources]

    def rescued(self, *texts: str) -> list[Translation]:
        sources = [Source(text) for text in texts]
        found = rescue_degenerate(sources, self(sources), self)
        self.asked = [(texts, changes) for texts, changes in self.asked[1:] if texts]
        return [candidates[0] for candidates in found]


def test_what_is_good_stays_and_costs_nothing():
    search = Scripted({TEXT: ["un deux trois"], "x": ["y"]}, {})
    assert [str(one) for one in search.rescued(TEXT, "x")] == ["un deux trois", "y"]
    assert search.asked == []


def test_first_comes_another_hypothesis_of_the_same_search():
    search = Scripted({TEXT: [LOOP, "un deux trois", "deux"]}, {})
    [best] = search.rescued(TEXT)
    assert best.text == "un deux trois"
    assert best.notes == ["repetition: the next hypothesis was taken"]
    assert search.asked == []


def test_then_a_search_without_repetition_of_those_that_need_it():
    search = Scripted({TEXT: [LOOP], "x": ["y"]}, {TEXT: ["un deux trois"]})
    best, other = search.rescued(TEXT, "x")
    assert (best.text, other.text) == ("un deux trois", "y")
    assert best.notes == ["repetition: translated again without repetition"]
    assert other.notes == []
    assert search.asked == [([TEXT], {"no_repeat_ngram": 3})]


def test_then_the_halves():
    halves = {"one two,": ["un deux,"], "three four": ["trois quatre"]}
    search = Scripted({TEXT: [LOOP]}, {TEXT: [""], **halves})
    [best] = search.rescued(TEXT)
    assert best.text == "un deux, trois quatre"
    assert best.notes == ["repetition: translated again in two parts"]
    assert search.asked[1][0] == ["one two,", "three four"]


def test_without_success_the_least_faulty_stays_and_that_is_said():
    halves = {"one two,": [LOOP], "three four": [LOOP * 9]}
    search = Scripted({TEXT: [LOOP + " long" * 30]}, {TEXT: [LOOP], **halves})
    [best] = search.rescued(TEXT)
    assert best.text == LOOP
    assert best.notes == [
        "repetition and too long: translated again without repetition",
        "degenerate (repetition): nothing better was found",
    ]


def test_what_was_asked_to_be_short_is_not_too_short():
    long = "one two three four, five six seven eight"
    cut = Translation("un", -1.0, finished=False)
    search = Scripted({}, {long: ["un deux trois"]})
    for most, notes in ((2, []), (None, ["too short: translated again without repetition"])):
        [[best]] = rescue_degenerate([Source(long, most=most)], [[cut]], search)
        assert best.notes == notes


def test_halves_have_no_more_room_together_than_the_whole():
    parts = {"one two,": ["un deux"], "three four": ["trois quatre"]}
    search = Scripted({}, {TEXT: [LOOP], **parts})

    def counted(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
        assert all(source.most == most for source in sources)
        found = search(sources, **changes)
        return [[replace(one, tokens=one.text.split()) for one in own] for own in found]

    for most, text in ((4, LOOP), (5, "un deux trois quatre")):
        loop = Translation(LOOP, -1.0, tokens=["un"] * 3)
        [[best]] = rescue_degenerate([Source(TEXT, most=most)], [[loop]], counted)
        assert best.text == text


@pytest.mark.parametrize("answer", ["", LOOP])
def test_one_word_cannot_be_halved(answer):
    search = Scripted({"house": [answer]}, {"house": [answer]})
    assert search.rescued("house")[0].text == answer
    assert len(search.asked) == 1
