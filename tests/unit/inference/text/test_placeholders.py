"""Numbers, links and placeholders: found in a source, and missed in a translation."""

from __future__ import annotations

import time
import timeit

import pytest

from seq2seq.inference.text.placeholders import Placeholders, find_items, lost
from seq2seq.inference.translation import Translation


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "See https://a.org/b_(c)?d=e, or (www.x.fr/(y)).",
            ["https://a.org/b_(c)?d=e", "www.x.fr/(y)"],
        ),
        ("(https://a.org/b.).).) www.x.fr/(y).)", ["https://a.org/b", "www.x.fr/(y)"]),
        ("Mail a.b+c@d-e.co.uk.", ["a.b+c@d-e.co.uk"]),
        ("Hi {name}, {{user}} and {0:.2f}", ["{name}", "{{user}}", "{0:.2f}"]),
        ("%s of %(n)d, %1$s, %.2f%% %zu", ["%s", "%(n)d", "%1$s", "%.2f%%", "%zu"]),
        ("50% of it, 5%d", ["50%", "5"]),  # no placeholders: a percentage
        ("$HOME/${dir} costs $5", ["$HOME", "${dir}", "$5"]),
        ("He's 6'2\" tall, in the '90s", ["6'2\"", "90"]),
        ("Don`t worry, we can`t lose", []),
        ("-5°C, £30 and 9 p.m.", ["-5°C", "£30", "9 p.m"]),
        ("Run `rm -rf x` now", ["`rm -rf x`"]),
        ("1,000.50 at 10:30 on 12/05/2024, v1.2.3", ["1,000.50", "10:30", "12/05/2024", "1.2.3"]),
        ("a B2B MP3 & {not closed, 'x@y'", ["2", "3"]),
        ("", []),
    ],
)
def test_items_of_a_source(text, found):
    assert [item.text for item in find_items(text)] == found
    assert all(text[slice(*item.span)] == item.text for item in find_items(text))


@pytest.mark.parametrize(
    ("source", "french"),
    [("1,000", "1\u202f000"), ("3.5", "3,5"), ("1,234,567.8", "1\u202f234\u202f567,8"),
     ("1.2.3", "1.2.3"), ("1,5", "1,5"), ("10:30", "10:30"), ("1234", "1234"),
     ("$1,000.50", "1\u202f000,50\xa0$"),
     ("-5°C", "-5\xa0°C"), ("9:30 p.m.", "21\xa0h\xa030"), ("12/25/2020", "12/25/2020")],
)  # fmt: skip
def test_numbers_as_french_writes_them(source, french):
    [item] = find_items(source)
    assert item.french == french
    assert lost([item], french) == []


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
        ("10:30", "dix heures et demie", []),
        ("10:00", "dix heures", []),
        ("9:30 p.m.", "21 h 30", []),
        ("9:30 p.m.", "9 h 30", ["9:30 p.m"]),
        ("9 p.m.", "neuf heures du soir", []),
        ("9 PM and 10:30 P.M.", "21 h et 22 h 30", []),
        ("3 Am I late, 20 AM stations", "3 retard, 20 stations", []),
        ("12/05", "12-05", []),
        ("12/25/2020", "25 décembre 2020", []),
        ("12/25/2020", "12 25 2020", ["12/25/2020"]),
        ("$1,000.50", "1 000,50 $", []),
        ("$1,000.50", "1000,5 dollars", []),
        ("$1,000.50", "1 000 50 $", ["$1,000.50"]),
        ("$1,234.56", "1,234,56", ["$1,234.56"]),
        ("£30", "rompre30", ["£30"]),
        ("£30", "30", ["£30"]),
        ("-5°C (23°F)", "-5 (23)", ["-5°C", "23°F"]),
        ("-5°C", "moins 5 degrés", []),
        ("50%", "50 pour cent", []),
        ("26.2", "26 2", ["26.2"]),
        ("3-2", "3,2", ["3-2"]),
        ("2-3 km", "2 à 3 km", []),
        ("30 people, 80 dogs, 100 cats", "trente, quatre-vingts, cent", []),
        ("0 degrees", "zéro degré", []),
        ("Room 0 is full.", "La salle est pleine.", ["0"]),
        ("6 of life, 11 of mine", "la vie, la mie", ["6", "11"]),
        ("the 4th, 5th, 9th and 10th", "le quatrième, cinquième, neuvième et dixième", []),
        ("15 people", "une quinzaine de personnes", []),
        ("the 21st century", "le XXIe siècle", []),
        ("the 1990s and the 80s", "les années 90 et 1980", []),
        ("5", "1 005", ["5"]),
        ("500", "1\u202f500", ["500"]),  # the end of another number, as French writes thousands
        ("500", "1\xa0500", ["500"]),
        ("500", "1.500", ["500"]),
        ("500", "500\u202f000", ["500"]),
        ("25", "2 5", ["25"]),
        ("25", "125 250", ["25"]),
        ("2.5", "25", ["2.5"]),
        ("3 3", "3", ["3"]),
        ("$3.00 for 3 items", "3,00 $ pour 3 articles", []),
        ("1,000 here, 1000 there", "1 000 ici, 1000 là", []),
        ("1 000 000 users", "1\u202f000\u202f000 utilisateurs", []),
        ("1 000 000 users", "1 000 utilisateurs 000", ["1 000 000"]),
        ("555 123 4567", "555 123 4567", []),
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
    seconds = timeit.repeat(lambda: find_items(text), timer=time.thread_time, number=1, repeat=3)
    assert min(seconds) < 1  # a collection of garbage may fall into one of them


def test_a_number_of_many_digits_is_a_sequence_of_digits():
    digits = "12345" * 5000
    assert lost(find_items(digits), digits) == []
    assert len(lost(find_items(digits), digits[:-1])) == 1


def test_what_means_another_number_in_french_is_written_as_french():
    step = Placeholders()
    _, items = step.before("1,000 cats, 2,500.5 dogs and 3.5 mice")
    one = Translation("1,000 chats, 2,500.5 chiens et 3.5 souris", -1.0)
    assert step.faults(one, items) == []
    printed = "1\u202f000 chats, 2\u202f500,5 chiens et 3.5 souris"
    assert step.after(one, items, None).text == printed
    _, items = step.before("It melts at -1,000°C.")
    assert step.after(Translation("à -1,000 °C", -1.0), items, None).text == "à -1\u202f000 °C"


def test_numbers_of_other_languages_are_not_judged():
    step = Placeholders(("de", "fr"))
    assert [item.text for item in step.before("1.000 {x}")[1]] == ["{x}"]


@pytest.mark.parametrize(
    ("text", "target", "missing"),
    [
        ("Home → Contact ❤️ ★★★", "Accueil → Contact ❤️ ★★★", []),
        ("Home → Contact ❤️ ★★★", "Accueil Contact ❤️ ★★★★", ["→", "★★★"]),
        ("Press *️⃣ or #️⃣", "Tapez *️⃣ ou #️⃣", []),
        ("Press 1️⃣ or 2", "Tapez 1 ou 2", ["1️⃣"]),
        ("🎉 now 🎉", "🎉 maintenant", ["🎉"]),
        ("2×4 `a → b` https://x.org/→", "", ["2", "4", "`a → b`", "https://x.org/→"]),
    ],
)  # fmt: skip
def test_symbols_are_kept_by_models_that_have_learnt_them(text, target, missing):
    _, items = Placeholders(symbols=True).before(text)
    assert [item.text for item in lost(items, target)] == missing
