"""Terms are found as whole words, and a file of them says which line is wrong."""

from __future__ import annotations

import pytest

from seq2seq.errors import DataError, UserError
from seq2seq.inference.text.placeholders import Placeholders
from seq2seq.inference.text.terminology import Terminology, load_terms
from seq2seq.inference.translation import Translation

TERMS = Terminology({"house": "demeure", "big house": "château", "C++": "C++", "art": "l'art"})


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("The House is here.", ("demeure",)),
        ("a big  house and a house", ("château", "demeure")),
        ("a house, a house", ("demeure", "demeure")),
        ("houses and parts", ()),
        ("I like C++.", ("C++",)),
        ("", ()),
    ],
)
def test_terms_of_a_source(source, targets):
    assert tuple(target for _, target in TERMS.terms(source)) == targets


def test_what_a_term_replaces_need_not_be_kept():
    text = "the 24  hours of www.a.fr, 24 of 7"
    terms = Terminology({"24 hours": "un jour", "7": "sept"})
    _, items = Placeholders(replaced=terms.spans).before(text)
    assert [(item.text, item.span[0]) for item in items] == [("www.a.fr", 17), ("24", 27)]


def test_no_terms_ask_for_nothing():
    assert Terminology({}).before("anything") == ("anything", [])


def test_terms_that_a_translation_lacks_are_faults():
    _, state = TERMS.before("The House and the big house, the house")
    found = TERMS.faults(Translation("Le Château", -1.0), state)
    assert [(fault.kind, fault.wanted) for fault in found] == [("term", "demeure")] * 2
    assert TERMS.faults(Translation("Demeure, château", -1.0), state) == []
    assert len(TERMS.faults(Translation("demeures châteaux", -1.0), state)) == 3


def test_a_model_that_has_learnt_terms_reads_them_inline():
    terms = Terminology({"old mill": "vieux moulin"}, inline=True)
    text = "The old mill works."
    assert terms.inline(text) == "The⟦term⟧ old mill⟦as⟧ vieux moulin⟦/term⟧ works."
    assert [fault.span for fault in terms.before(text)[1]] == [(4, 12)]
    assert Terminology({"old mill": "vieux moulin"}).inline(text) == text


@pytest.mark.parametrize(("term", "text"), [("house", "my houſe"), ("istanbul", "in İstanbul")])
def test_letters_that_only_a_pattern_takes_for_the_same_do_not_crash(term, text):
    assert Terminology({term: "x"}).terms(text) == []
    assert len(Terminology({term: "x"}).terms(f"{text}, {term}")) == 1


@pytest.mark.parametrize("pair", [("", "x"), (" ", "x"), ("house", ""), ("house", " ")])
def test_empty_phrases_are_refused(pair):
    with pytest.raises(UserError, match=r"the term .* has an empty phrase, which cannot be found"):
        Terminology(dict([pair]))


def test_what_is_banned_is_found_in_any_capitals_from_the_edge_of_a_word_on():
    terms = Terminology({}, ["la", " ", "grand  lit", "…"])
    assert terms.forbidden("La GRAND lits, la lampe, cela…") == ("La", "GRAND lit", "la", "…")
    assert terms.forbidden("voilà un plat") == Terminology({}).forbidden("la") == ()
    assert terms.banned == ["la", "La", "grand  lit", "Grand  lit", "…"]


def test_a_term_that_holds_what_is_banned_is_refused():
    with pytest.raises(UserError, match=r"'house': 'grand lit' holds the banned 'grand'"):
        Terminology({"house": "grand lit"}, ["grand"])


def test_a_file_of_terms(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("\ufeff# from\tto\nhouse\tdemeure\n\n Big  House \tchâteau\nhouse\tdemeure\n")
    assert load_terms(path) == {"house": "demeure", "big house": "château"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"house demeure\n", r"terms\.tsv, line 1: 'house demeure' is not a pair of phrases: w"),
        (b"a\tb\n\nhouse\t\n", r"line 3: 'house' is not a pair"),
        (b"a\tb\tc\n", r"line 1: .* is not a pair"),
        (b"a\tb\nc\td\nA\tx\n", r"line 3: 'A' is 'x' here, and 'b' in line 1: keep one of them"),
        (b"a\t\xff\n", r"cannot read the terms .*terms\.tsv: .* Give a UTF-8 text file"),
        (None, r"cannot read the terms .*terms\.tsv: .*No such file"),
    ],
)
def test_mistakes_name_the_line(content, text, tmp_path):
    path = tmp_path / "terms.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=text):
        load_terms(path)
