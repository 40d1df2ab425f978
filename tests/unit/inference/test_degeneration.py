"""The detector of degenerate translations, on good and bad ones."""

from __future__ import annotations

import pytest

from seq2seq.inference.degeneration import faults, repeats

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
    assert faults(source, target) == []


@pytest.mark.parametrize(("source", "target", "found"), BAD)
def test_bad_translations_have_theirs(source, target, found):
    assert faults(source, target) == found


@pytest.mark.parametrize("text", ["", "a", "aab", "ababab", "xabcabcabcabx", "aaaa", "abcd" * 5])
def test_repeats_are_those_of_a_search_in_all_places(text):
    naive = max(
        (n for start in range(len(text)) for size in range(1, 4) for n in range(1, len(text) + 1)
         if text[start : start + size] * n == text[start : start + size * n]
         and start + size * n <= len(text)),
        default=1,
    )  # fmt: skip
    assert repeats(text, 3) == naive
