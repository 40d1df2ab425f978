"""French as it is printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.text.typography import PlainMarks, french_typography

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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Don`t, can\u2019t, won\u00b4t, isn\u2018t, I\u02bcm", "Don't, can't, won't, isn't, I'm"),
        ("\u201cyes\u201d, ``no\u0027\u0027 and \u201eso\u201c", '"yes", "no" and "so"'),
        ("Wait\u2026 a\u2011b, 5\u22123", "Wait... a-b, 5-3"),
        ("one \u2014 two \u2013 three", "one — two – three"),
        ("```python", None),
        ("run `rm -rf x` at https://x.org/\u2019 <a title='\u201cx\u201d'>", None),
        ("", None),
    ],
)
def test_marks_of_any_form_are_read_as_plain_ones(text, plain):
    assert PlainMarks().before(text)[0] == (plain or text)
