"""French as it is printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.translation import Translation
from seq2seq.inference.typography import french_typography, printed

N, B = "\u202f", "\xa0"  # narrow and wide spaces that do not break


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("l'homme d'ici", "l’homme d’ici"),
        ("Quoi ? Non! Si ; oui : là", f"Quoi{N}? Non{N}! Si{N}; oui{B}: là"),
        ("Quoi ?! Oui?", f"Quoi{N}?! Oui{N}?"),
        ('Il dit "oui" !', f"Il dit «{N}oui{N}»{N}!"),
        ("« oui » et “non”", f"«{N}oui{N}» et «{N}non{N}»"),
        ("«oui»", f"«{N}oui{N}»"),
        ("50 % et 3 €", f"50{B}% et 3{B}€"),
        ("Attendez...", "Attendez…"),
        ("à 10:30 (!) :-)", "à 10:30 (!) :-)"),
        ("voir https://a.fr/?b;c!d et <a title='x ?'>ici</a> !",
         f"voir https://a.fr/?b;c!d et <a title='x ?'>ici</a>{N}!"),
        ("{a ? b} `x ; y` %s ! &amp; $A:", f"{{a{N}? b}} `x ; y` %s{N}! &amp; $A{B}:"),
        ('<b class="x">"oui"</b>', f'<b class="x">«{N}oui{N}»</b>'),
        ("5' et 6\"", "5' et 6\""),
        ("", ""),
        ("? !", "? !"),
    ],
)  # fmt: skip
def test_typography(text, printed):
    assert french_typography(text) == printed


@given(st.text(st.sampled_from("aé1 '\"«»“”;:!?.…%€\u202f\xa0<b>/{}`()\n"), max_size=40))
def test_print_stays_print(text):
    once = french_typography(text)
    assert french_typography(once) == once


def test_links_follow_the_words_that_typography_parts():
    one = Translation('Il dit "oui": non...', -1.0, alignment=[(0, 0), (2, 1), (3, 2), (5, 3)])
    found = printed(one)
    assert found.text.split() == ["Il", "dit", "«", "oui", "»", ":", "non…"]
    assert found.alignment == [(0, 0), (2, 1), (3, 2), (3, 3), (3, 4), (3, 5), (5, 6)]


MARKS = st.text(st.sampled_from("aé1 '\"«»“”;:!?.…%€\u202f\xa0<b>/{}`()\n"), max_size=40)


@given(MARKS)
def test_each_word_keeps_its_links_in_order(text):
    """Each word of the text is linked to itself."""
    one = Translation(text, -1.0, alignment=[(n, n) for n in range(len(text.split()))])
    found = printed(one)
    assert [new for _, new in found.alignment] == list(range(len(found.text.split())))
    old = [word for word, _ in found.alignment]
    assert sorted(set(old)) == list(range(len(text.split())))
    assert old == sorted(old)
