"""The ladder of translations that are degenerate or lost something: what is tried, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from seq2seq.config import DecodeConfig
from seq2seq.inference.text.fallback import (
    Candidates,
    Degeneration,
    Source,
    degenerate,
    repeats,
    retry_faulty,
)
from seq2seq.inference.text.placeholders import Placeholders
from seq2seq.inference.text.step import Fault
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.translation import Translation

LOOP = "un un un un"
TEXT = "one two, three four"
CHECKS = [Placeholders(), Degeneration()]


def source(text: str, prefix: str = "") -> Source:
    return Source(text, prefix, [(step, step.before(text)[1]) for step in CHECKS])


class Scripted:
    """A pipeline that answers by the text and the settings, and counts what it was asked."""

    decode = DecodeConfig(beam=2, n_best=2)
    placeholders = False
    language = "fr"
    terms = Terminology({}, ["la demeure"])

    def __init__(self, plain: dict[str, list[str]], restrained: dict[str, list[str]]):
        self.plain, self.restrained = plain, restrained
        self.asked: list[tuple[list[str], dict[str, Any]]] = []

    def again(self, pieces: Sequence[tuple[str, str]], **changes: Any) -> list[Candidates]:
        if texts := [text for text, _ in pieces]:
            self.asked.append((texts, changes))
        answers = self.restrained if changes else self.plain
        return [[Translation(text, -1.0) for text in answers[one]] for one in texts]

    def likeliest(self, source: str, targets: Sequence[str]) -> int:
        self.compared = list(targets)
        return len(targets) - 1

    def retry_faulty(self, *texts: str, placeholders: bool = False) -> list[Translation]:
        sources = [source(text) for text in texts]
        found = self.again([(text, "") for text in texts])
        self.asked.clear()
        self.placeholders = placeholders
        return [candidates[0] for candidates in retry_faulty(self, sources, found)]


def test_what_is_good_stays_and_costs_nothing():
    search = Scripted({TEXT: ["un deux trois"], "x": ["y"]}, {})
    assert [str(one) for one in search.retry_faulty(TEXT, "x")] == ["un deux trois", "y"]
    assert search.asked == []


def test_first_comes_another_hypothesis_of_the_same_search():
    search = Scripted({TEXT: [LOOP, "un deux trois", "deux"], "a {x}": ["un", "un {x}"]}, {})
    best, other = search.retry_faulty(TEXT, "a {x}")
    assert best.text == "un deux trois"
    assert best.notes == ["repetition: the next hypothesis was taken"]
    assert (other.text, other.notes) == ("un {x}", [])
    assert search.asked == []


def test_a_translation_that_lost_something_is_worse_than_one_with_any_other_fault():
    whole, lost = Translation(f"{LOOP} {{x}}", -1.0), Translation("un", -1.0)
    both = Translation(LOOP, -1.0)
    assert source("a {x}").rank(whole) == (0, 1)
    assert sorted([both, lost, whole], key=source("a {x}").rank) == [whole, lost, both]


def test_a_model_that_has_learnt_placeholders_gets_them():
    plain = {"{a} paid $1,000 to {b}": ["Payé"], "⟦1⟧ paid ⟦2⟧ to ⟦3⟧": ["⟦3⟧ ⟦2⟧ ⟦1⟧"]}
    [best] = Scripted(plain, {}).retry_faulty("{a} paid $1,000 to {b}", placeholders=True)
    assert best.text == "{b} 1\u202f000\xa0$ {a}"
    assert best.notes == ["lost {a}, $1,000, {b}: translated again with placeholders"]


def test_placeholders_that_do_not_come_back_once_are_not_taken():
    plain = {"a {x} b": ["A"], "a ⟦1⟧ b": ["⟦1⟧ ⟦1⟧", "⟦2⟧", "un ⟦1⟧"]}
    [best] = Scripted(plain, {}).retry_faulty("a {x} b", placeholders=True)
    assert best.text == "un {x}"


def test_what_repeats_itself_is_translated_in_halves_without_repetition():
    halves = {"one two,": ["un deux,"], "three four": ["trois quatre"]}
    search = Scripted({TEXT: [LOOP], "x": ["y"]}, halves)
    best, other = search.retry_faulty(TEXT, "x")
    assert (best.text, other.text) == ("un deux, trois quatre", "y")
    assert best.notes == ["repetition: translated again in parts"]
    assert other.notes == []
    assert search.asked == [(["one two,", "three four"], {"no_repeat_ngram": 3})]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("see www.a.fr for more.", "SEE www.a.fr FOR MORE."),
        ("he sits with {name}", "HE SITS WITH {name}"),
        ("he, {name}, and (%s) sit.", "HE {name}, AND (%s) SIT."),
        ("a 3.5 b 1,000 c", "A 3,5 B 1\u202f000 C"),
        ("{name} %s", "{name} %s"),
    ],
)
def test_at_last_a_sentence_is_translated_around_what_gets_lost(text, target):
    class Shouting(Scripted):
        def again(self, pieces: Sequence[tuple[str, str]], **changes: Any) -> list[Candidates]:
            words = [[w.upper() for w in re.findall(r"\b[a-z]+\b", text)] for text, _ in pieces]
            return [[Translation(" ".join(own) + ".", -1.0)] for own in words]

    one = source(text)
    one = replace(one, checks=one.checks[:1])  # what is shouted is a copy, too
    [[best, *_]] = retry_faulty(Shouting({}, {}), [one], [[Translation("", -1.0)]])
    assert best.text == target
    assert best.notes[0].endswith("translated again in parts")


@pytest.mark.parametrize(("prefix", "ratio"), [("UN", 2.0), ("", 0.0)])
def test_there_are_no_parts_behind_a_prefix_or_within_a_limit(prefix, ratio):
    """In parts, {name} would stand before the prefix, and each part would have all the room."""
    search = Scripted({}, {"b": ["B"]})
    search.decode = DecodeConfig(beam=2, n_best=2, max_ratio=ratio)
    [[best]] = retry_faulty(search, [source("{name} b", prefix)], [[Translation("UN", -1.0)]])
    assert (best.text, best.notes) == ("UN", ["lost: {name}"])


def test_without_success_the_least_faulty_stays_and_that_is_said():
    halves = {"one two,": [LOOP], "three four": ["trois"]}
    search = Scripted({TEXT: [LOOP + " long" * 30]}, halves)
    [best] = search.retry_faulty(TEXT)
    assert best.text == f"{LOOP} trois"
    assert best.notes == [
        "repetition and too long: translated again in parts",
        "degenerate (repetition): nothing better was found",
    ]


def test_alternatives_stay_behind_what_was_found():
    found = [[Translation(text, -1.0) for text in ("UN", "DEUX", "A {name}")]]
    search = Scripted({}, {"a": ["A"]})
    [own] = retry_faulty(search, [source("a {name} %s")], found)
    assert [one.text for one in own] == ["A {name} %s", "A {name}", "UN", "DEUX"]


class Wanted(Degeneration):
    """Asks for a term for each house of a source."""

    def faults(self, result: Translation, state: str) -> list[Fault]:
        if "demeure" in result.text.lower():
            return []
        places = [match.span() for match in re.finditer("house", state)]
        return [Fault("the term", "term", "demeure", place) for place in places]


def mended_house(answers, restrained, placeholders) -> tuple[str, list[str]]:
    search = Scripted(answers, restrained)
    search.placeholders = placeholders
    one = replace(source("the house of {x}"), checks=[(Wanted(), "the house of {x}")])
    [[best, *_]] = retry_faulty(search, [one], [[Translation("la maison de {x}", -1.0)]])
    return best.text, best.notes


def test_a_placeholder_stands_for_a_missing_term_or_the_term_itself_for_other_models():
    answers = {"the ⟦1⟧ of {x}": ["le ⟦1⟧ de {x}"], "the demeure of {x}": ["la demeure de {x}"]}
    how = "lost the term: translated again with"
    assert mended_house(answers, {}, True)[1] == [f"{how} placeholders"]
    assert mended_house(answers, {}, False) == ("la demeure de {x}", [f"{how} its terms"])


@pytest.mark.parametrize(
    ("written", "prefix", "compared"),
    [
        ("l'⟦1⟧ de {x}", "", ["le demeure de {x}"]),  # the banned "la demeure" is left out
        ("notre ⟦1⟧ de {x}", "", ["notre demeure de {x}"]),
        ("ce ⟦1⟧ de {x}", "", ["ce demeure de {x}", "cette demeure de {x}"]),
        ("l'⟦1⟧ de {x}", "l'", ["l'demeure de {x}"]),
        ("⟦1⟧ de {x}", "", ["Demeure de {x}"]),
    ],
)
def test_the_model_chooses_the_article_before_a_term(written, prefix, compared):
    search = Scripted({"the ⟦1⟧ of {x}": [written]}, {})
    search.placeholders = True
    one = Source("the house of {x}", prefix, [(Wanted(), "the house of {x}")])
    [[best, *_]] = retry_faulty(search, [one], [[Translation("la maison de {x}", -1.0)]])
    assert search.compared == compared
    assert best.text == compared[-1]


def test_at_last_a_term_is_put_between_parts():
    parts = {"the": ["le"], "of {x}": ["de {x}"]}
    text, notes = mended_house({"the demeure of {x}": ["un toit"]}, parts, False)
    assert (text, notes) == ("le demeure de {x}", ["lost the term: translated again in parts"])


def test_what_a_limit_cut_off_is_not_too_short():
    long = "one two three four, five six seven eight"
    assert Degeneration().faults(Translation("un", -1.0, finished=False), long) == []
    assert Degeneration().faults(Translation("un", -1.0), long) == [Fault("too short")]


# What cannot be right, by its looks

GOOD = [
    ("", ""),
    ("Paris", "Paris"),
    ("New York City Hall", "Hôtel de ville de New York"),
    ("no no no no", "non non non non"),
    ("Ha ha ha!", "Ha ha ha !"),
    ("Very, very good.", "Très, très bon."),
    ("Hmmmmmmmm", "Hmmmmmmmm"),
    ("Yes", "Oui, bien sûr"),
    ("Star Wars", "Star Wars"),
    ("IP 192.168.1.1", "IP 192.168.1.1"),
    ("He is tall, he is old, he is here.", "Il est grand, il est vieux, il est là."),
]
BAD = [
    ("A man.", "", ["empty"]),
    ("A man.", " \n", ["empty"]),
    ("A dog is running on grass.", "Un chien court court court sur l'herbe", ["repetition"]),
    ("A dog is running on grass.", "Un chien et un chien et un chien et", ["repetition"]),
    ("no no no", "non non non non", ["repetition"]),
    ("A small town", "Une petite villlllllle", ["repetition"]),
    ("A small town", "la lalalalalala", ["repetition"]),
    ("The old man is  here.", "the old man is here.", ["copy"]),
    ("A dog.", "Un chien qui se promène dans la rue avec sa queue", ["too long"]),
    ("A man in a red shirt is riding his bicycle down the street.", "Un homme.", ["too short"]),
]


@pytest.mark.parametrize(("source", "target"), GOOD)
def test_good_translations_have_no_faults(source, target):
    assert degenerate(source, target) == []


@pytest.mark.parametrize(("source", "target", "found"), BAD)
def test_bad_translations_have_theirs(source, target, found):
    assert degenerate(source, target) == found


@pytest.mark.parametrize("text", ["", "a", "aab", "ababab", "xabcabcabcabx", "aaaa", "abcd" * 5])
def test_repeats_are_those_of_a_search_in_all_places(text):
    naive = max(
        (n for start in range(len(text)) for size in range(1, 4) for n in range(1, len(text) + 1)
         if text[start : start + size] * n == text[start : start + size * n]
         and start + size * n <= len(text)),
        default=1,
    )  # fmt: skip
    assert repeats(text, 3) == naive


@pytest.mark.parametrize(("text", "faults"), [
    ("The cat sleeps on it all day.", [Fault("copy")]), ("I don't know", [Fault("copy")]),
    ("Où est donc passé le chat de Marie ?", []), ("C'est la vie", []),
])  # fmt: skip
def test_a_copy_of_what_is_no_english_is_no_fault(text, faults):
    assert Degeneration().faults(Translation(text, None), text) == faults
