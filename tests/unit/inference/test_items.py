"""Numbers, links and placeholders: found in a source, and missed in a translation."""

from __future__ import annotations

import time

import pytest

from seq2seq.inference.items import find_items, lost


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See https://a.org/b_(c)?d=e, or (www.x.fr/(y)).",
         ["https://a.org/b_(c)?d=e", "www.x.fr/(y)"]),
        ("(https://a.org/b.).).) www.x.fr/(y).)", ["https://a.org/b", "www.x.fr/(y)"]),
        ("Mail a.b+c@d-e.co.uk.", ["a.b+c@d-e.co.uk"]),
        ("Hi {name}, {{user}} and {0:.2f}", ["{name}", "{{user}}", "{0:.2f}"]),
        ("%s of %(n)d, %1$s, %.2f%%", ["%s", "%(n)d", "%1$s", "%.2f"]),
        ("50% of it, 5%d", ["50", "5"]),  # no placeholders: a percentage
        ("$HOME/${dir} costs $5", ["$HOME", "${dir}", "5"]),
        ("A &amp; B&#39;s", ["&amp;", "&#39;"]),
        ("Run `rm -rf x` now", ["`rm -rf x`"]),
        ("1,000.50 at 10:30 on 12/05/2024, v1.2.3", ["1,000.50", "10:30", "12/05/2024", "1.2.3"]),
        ("a B2B MP3 & {not closed, 'x@y'", ["2", "3"]),
        ("", []),
    ],
)
def test_items_of_a_source(text, found):
    assert [item.text for item in find_items(text)] == found
    assert all(text[item.start : item.end] == item.text for item in find_items(text))


@pytest.mark.parametrize(
    ("source", "french"),
    [("1,000", "1\u202f000"), ("3.5", "3,5"), ("1,234,567.8", "1\u202f234\u202f567,8"),
     ("1.2.3", "1.2.3"), ("1,5", "1,5"), ("10:30", "10:30"), ("1234", "1234")],
)  # fmt: skip
def test_numbers_as_french_writes_them(source, french):
    [item] = find_items(source)
    assert item.french == french
    assert lost([item], french) == lost([item], source) == []


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("2 men, 20 dogs", "deux hommes, vingt chiens", []),
        ("1 man and 1 dog", "un homme et un chien", []),
        ("Take exit 1 to a house.", "Prenez la sortie vers une maison.", ["1"]),
        ("Exit 1", "Une sortie", []),
        ("the 1st of a row", "le premier d'un rang", []),
        ("2 times for some seconds", "pendant des secondes", ["2"]),
        ("the 2nd half", "la seconde moitié", []),
        ("the 1st and 3rd", "le premier et le troisième", []),
        ("1,000 and 12345", "1 000 et 12.345", []),
        ("10:30", "10 h 30", []),
        ("12/05", "12-05", []),
        ("25", "2 5", ["25"]),
        ("25", "125 250", ["25"]),
        ("2.5", "25", ["2.5"]),
        ("3 3", "3", ["3"]),
        ("7 www.a.fr/7", "www.a.fr/7", ["7"]),  # the digit of the link is not the number
        ("%s", "des %soles", ["%s"]),
        ("{a} {a} {b}", "{b} {a}", ["{a}"]),
        ("a@b.org", "aa@b.org", ["a@b.org"]),
        ("https://a.b/c https://a.b", "https://a.b/c", ["https://a.b"]),
    ],
)
def test_what_a_translation_lost(source, target, missing):
    assert [item.text for item in lost(find_items(source), target)] == missing


@pytest.mark.parametrize("text", ["%" + "0" * 50_000, "www.a.fr" + ")" * 50_000, "%.0" * 20_000])
def test_long_texts_are_read_in_no_time(text):
    start = time.process_time()
    find_items(text)
    assert time.process_time() - start < 1


def test_a_number_of_many_digits_is_a_sequence_of_digits():
    digits = "12345" * 5000
    assert lost(find_items(digits), digits) == []
    assert len(lost(find_items(digits), digits[:-1])) == 1
