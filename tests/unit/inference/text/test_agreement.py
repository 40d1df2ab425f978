"""The word before an inserted phrase: which forms are possible."""

from __future__ import annotations

import pytest

from seq2seq.inference.text.agreement import FRENCH, endings


@pytest.mark.parametrize(
    ("before", "phrase", "ways"),
    [
        ("plupart de l'", "familles", ["plupart du ", "plupart de la ", "plupart des "]),
        ("dans l’", "maison", ["dans le ", "dans la "]),  # no plural
        ("La ", "ombre", ["L'"]),
        ("La ", "ombres", ["L'", "Les "]),
        ("prix d'", "42", ["prix de "]),
        ("mort de ", "Óscar", ["mort d'"]),
        ("jusqu'à l'", "gare", ["jusqu'au ", "jusqu'à la "]),
        ("cause d'une ", "toit", ["cause d'une ", "cause d'un "]),  # the written form is first
        ("réélection de ", "Obama", ["réélection d'"]),
        ("il dit qu'", "nous", ["il dit que "]),
        ("cet ", "homme", ["cet ", "ce ", "cette "]),  # no rule tells which h elides
        ("sa ", "amie", ["son "]),
    ],
)
def test_all_forms_that_can_stand_before_the_phrase(before, phrase, ways):
    assert endings(before, phrase, "fr") == ways


@pytest.mark.parametrize(
    ("before", "phrase", "language"),
    [
        ("", "maison", "fr"),
        ("mange ", "maison", "fr"),
        ("aujourd'", "hui", "fr"),  # the end of a word
        ("assieds-le ", "maison", "fr"),  # a pronoun
        ("page de ", "42", "fr"),
        ("das Haus de ", "Obama", "de"),
    ],
)
def test_other_text_stays_as_it_is(before, phrase, language):
    assert endings(before, phrase, language) == [before]


def test_no_form_breaks_the_rule_of_elision():
    elided = {form[:-1] for forms in FRENCH for form in forms.vowel if form.endswith("'")}
    full = {"le", "la", "de", "du", "de la", "au", "à la", "je", "me", "ne", "que", "se", "te"}
    for forms in FRENCH:
        assert not any(form.endswith("'") for form in forms.consonant)
        if any(form[:-1] in elided for form in forms.vowel):
            assert not full & set(forms.vowel)
