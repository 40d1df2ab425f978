"""Each filter drops what it names and nothing that a careful reader would keep."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config import FILTERS as CONFIGURED
from seq2seq.config import CleaningConfig
from seq2seq.data.cleaning import FILTERS, Cleaner, pair_key, text_key

GOOD = ("The cat sleeps on the sofa.", "Le chat dort sur le canapé.")
TEXT = st.text(st.sampled_from("aBéÉ 1.:<>&;{[=Ã\0\ufffd\u0301’") | st.characters(), max_size=30)


def only(name: str, **limits: float) -> Cleaner:
    return Cleaner(CleaningConfig(filters=[name], **limits))


def dropped(name: str, source: str, target: str, **limits: float) -> bool:
    return only(name, **limits)(source, target)[2] == name


def test_every_filter_but_duplicate_is_here_in_the_order_of_the_settings():
    assert [*FILTERS, "duplicate", "near_duplicate"] == list(CONFIGURED)


def test_a_good_pair_comes_back_normalised():
    cleaner = Cleaner(CleaningConfig(), [("Another sentence.", "Une autre phrase.")])
    assert cleaner(" The cat\xa0sleeps\u200b on\tthe sofa. ", GOOD[1]) == (*GOOD, None)


def test_the_first_filter_of_the_list_is_named():
    text = "10:30 <b> 10:30 <b> 10:30"
    assert Cleaner(CleaningConfig(filters=["symbols", "markup"]))(text, text)[2] == "symbols"
    assert Cleaner(CleaningConfig(filters=["markup", "symbols"]))(text, text)[2] == "markup"
    assert Cleaner(CleaningConfig(filters=[]))(text, text)[2] is None


DIRTY = {
    "empty": ["", " ", "\u200b\xa0\t"],
    "damaged": [
        "a\0b",
        "caf\ufffd",
        "caf\udce9",
        "la tÃªte",
        "jusqu'Ã aujourd'hui",
        "voilÃ\xa0",
        "l\u00e2\u0080\u0099Europe",
        "lâ€™Europe",
        "20 Â° dehors",
        "Â« oui Â»",
        "le cÅ“ur",
        "Ãœber",
        "l'Ã‰tat",
        "ï»¿Bonjour",
    ],
    "markup": [
        "<p>Bonjour</p>",
        "ligne<br/>suite",
        '<a href="x">ici</a>',
        "<!-- note --> ici",
        "Dupont &amp; fils",
        "l&#8217;été",
        "l&#xe9;t&eacute;",
        "{{Infobox ville}}",
        "Voir [[Paris|la ville]]",
        "'''Paris''' est une ville",
        "== Histoire ==",
        "https://exemple.fr/une/page",
        "Voir www.exemple.fr/une/page ici",
    ],
    "symbols": ["10:30", "3,14 - 2,71 = 0,43", "***", "1 a 2 3 4", "x = 12 + 7"],
    "wrong_language": [
        "Das ist ein Satz, der mit dem Haus zu tun hat.",
        "La casa de mi abuelo está muy lejos de aquí.",
        "Il gatto dorme sul divano di mia nonna.",
        "O gato dorme no sofá da minha avó.",
        "Ik weet niet waar hij vandaan komt.",
        "Is dat wat we hadden of was het over?",
        "Was will er uns damit eigentlich sagen?",
        "Mais uma vez, a Comissão não respondeu.",
        "Il presidente ha parlato con il ministro ieri.",
        "Я не знаю, откуда он пришёл к нам.",
    ],
}
DIRTY["quotation"] = ["“Oui.”", "« Oui »", "Le mot 'oui'", '"Oui', "— Oui.", "- Oui", "--Oui"]
CLEAN = {
    "quotation": ["L'un et l'autre, aujourd'hui", "- 5", "-5 °C", "— 1 —"],
    "empty": [".", "a"],
    "damaged": [
        "Œuvre, ÂGE, âge, SÃO PAULO, JOÃO, «\xa0été\xa0» – l’île… naïve ÿ €",
        "À 20 °C, l'Ångström « Å » ; cœur, Noël, où ; 5 € – ça !",
    ],
    "markup": ["a < b", "si x <y et z> w", "R&D; AT&T; Q&A", "[note] (voir) {a}", "5 = 3 + 2",
               "Le site se trouve sur https://exemple.fr/page, et nous l'avons bien visité hier.",
               "''oui'' et <3", "et/ou"],
    "symbols": ["It is 10:30.", "Il a 12 ans.", "été à", "Oh...", "12 é", "Non !", "Я не знаю"],
    "wrong_language": ["Bon.", "Je ne sais pas d'où il vient.", "José María Álvarez del Manzano",
                       "M. Ó Neachtain parle très bien l'irlandais.",
                       "12 - 6 - 3 - 2 - 1 - 0"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in DIRTY for text in DIRTY[name]])
def test_either_side_can_be_the_reason(name, text):
    assert dropped(name, GOOD[0], text)
    assert dropped(name, text, GOOD[1])


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in CLEAN for text in CLEAN[name]])
def test_what_only_looks_alike_is_kept(name, text):
    assert not dropped(name, GOOD[0], text)
    if name != "wrong_language":
        assert not dropped(name, text, GOOD[1])


@pytest.mark.parametrize(
    "pair",
    [("“Yes,” he said.", "« Oui », dit-il."), ("the 'lost' ones", "les « perdus »"),
     ("— Yes.", "– Oui."), ("'I do'", '"Oui"')],
)  # fmt: skip
def test_speech_that_both_sides_mark_is_kept(pair):
    assert not dropped("quotation", *pair)


@given(TEXT.filter(lambda text: text.isascii() and "\0" not in text))
def test_plain_ascii_is_never_damaged(text):
    assert not dropped("damaged", text, text)


@given(st.text(st.sampled_from("aàâæçéèêëîïôœùûüÿAÀÂÆÇÉÈÊËÎÏÔŒÙÛÜŸ '’«»…–-.,;:!?\xa0()0°€")))
def test_a_guard_of_damaged_names_no_french_of_two_words(text):
    """Only an Â that stands before a sign can be doubted, which no French word ends in."""
    if not any(sign in text for sign in ("Â«", "Â»", "Â°", "Â\xa0", "â€")):
        assert not dropped("damaged", text, text)


def test_too_long_counts_words_and_characters_of_either_side():
    limits = {"max_words": 5, "max_characters": 20}
    for text, long in [
        ("a b c d e", False),
        ("a b c d e f", True),
        ("x" * 20, False),
        ("x" * 21, True),
        ("aaa bb ccc d ee f", True),
    ]:
        assert dropped("too_long", text, "a", **limits) == long
        assert dropped("too_long", "a", text, **limits) == long


@given(st.integers(0, 60), st.integers(0, 60))
def test_length_ratio_is_the_formula(source, target):
    longer, shorter = max(source, target), min(source, target)
    expected = longer >= 20 and (shorter == 0 or longer / shorter > 3)
    assert dropped("length_ratio", "x" * source, "y" * target) == expected


def test_identical_ignores_case_and_spares_short_texts():
    assert dropped("identical", "Rio De Janeiro Airport", "rio de janeiro airport")
    assert not dropped("identical", "Rio de Janeiro", "Rio de Janeiro")
    assert not dropped("identical", "Rio de Janeiro airport", "Rio de Janeiro Airports")


@given(TEXT, st.floats(0, 0.9))
def test_symbols_counts_letters_against_numbers_and_rows_of_signs(text, least):
    text = Cleaner(CleaningConfig(filters=[]))(text, "")[0]
    runs = [char for char, _ in groupby("0" if char.isdecimal() else char for char in text)]
    letters = sum(char.isalpha() for char in text)
    signs = sum(not char.isalpha() and not char.isspace() for char in runs)
    expected = letters < least * (letters + signs)
    assert dropped("symbols", text, text, min_letters=least) == expected


def test_swapped_sides_are_dropped_and_meant_ones_kept():
    source, target = GOOD
    assert dropped("wrong_language", target, source)
    swapped = Cleaner(CleaningConfig(filters=["wrong_language"], languages=["fr", "en"]))
    assert swapped(target, source)[2] is None
    assert swapped(source, target)[2] == "wrong_language"


def test_short_sides_have_no_language():
    german = "Das ist ein Haus."
    assert not dropped("wrong_language", GOOD[0], german)
    assert dropped("wrong_language", GOOD[0], german, language_from=4)


def test_leakage_finds_either_side_however_it_is_written():
    evaluation = [("Where is it?", "Où est-ce ?"), ("...", "!")]
    cleaner = Cleaner(CleaningConfig(filters=["leakage"], leakage_from=1), evaluation)
    assert cleaner("WHERE is it", "C'est où, ça ?")[2] == "leakage"
    assert cleaner("Where’s that", "« Où est-ce »")[2] == "leakage"
    assert cleaner("Where are you?", "Où es-tu ?")[2] is None
    assert cleaner("?", "...")[2] is None  # without letters there is nothing to recognise


def test_leakage_finds_whole_pairs_always_and_sides_that_are_long_enough():
    long = ("I have never seen so many", "Je n'en ai jamais vu autant")
    config = CleaningConfig(filters=["leakage"], leakage_from=6)
    cleaner = Cleaner(config, [("Thank you.", "Merci."), long])
    assert cleaner("thank you", "Merci !")[2] == "leakage"
    assert cleaner("Thank you.", "Je vous remercie.")[2] is None
    assert cleaner(long[0] + "!", "autre chose")[2] == "leakage"
    assert cleaner("something else", long[1])[2] == "leakage"


WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


@given(WORDS, WORDS)
def test_leakage_finds_words_in_a_row(train, test):
    config = CleaningConfig(filters=["leakage"], leakage_from=100, leakage_ngram=4)
    cleaner = Cleaner(config, [(" ".join(test), "x")])
    rows = [[side[i : i + 4] for i in range(len(side) - 3)] for side in (train, test)]
    shared = any(row in rows[1] for row in rows[0])
    assert (cleaner(", ".join(train).upper(), "y")[2] == "leakage") == shared


def test_a_cleaner_travels_to_another_process():
    cleaner = Cleaner(CleaningConfig(), [GOOD])
    cleaner("Je ne sais pas du tout.", "I do not know at all.")  # the detector is loaded
    data = pickle.dumps(cleaner)
    assert len(data) < 10_000
    assert pickle.loads(data)(*GOOD)[2] == "leakage"


@given(TEXT, TEXT)
def test_no_text_makes_a_filter_fail_and_a_clean_pair_stays_clean(source, target):
    cleaner = Cleaner(CleaningConfig())
    source, target, reason = cleaner(source, target)
    assert cleaner(source, target) == (source, target, reason)


@given(TEXT)
def test_keys_of_texts_see_letters_and_digits_only(text):
    kept = "".join(char for char in text if char.isalnum())
    changed = f" «{text.upper().lower()}!_"
    assert text_key(f"...{text}\xa0-_") == text_key(text)
    assert (text_key(text) == 0) == (not kept)
    if text.isascii():
        assert text_key(changed) == text_key(text) == text_key(kept)


def test_keys_tell_texts_and_pairs_apart_and_fit_64_bits():
    texts = [f"{word} {i}" for word in ("été", "ete", "a") for i in range(5000)]
    keys = {text_key(text) for text in texts}
    assert len(keys) == len(texts)
    assert max(keys).bit_length() == 64
    cuts = {pair_key("a1b 2"[:i], "a1b 2"[i:]) for i in range(6)}
    assert len(cuts | {pair_key("A", "1b 2"), pair_key("a ", "1b 2")}) == 8


def test_keys_are_the_same_in_every_process():
    code = "from seq2seq.data.cleaning import *; print(text_key('Été !'), pair_key('a', 'é'))"
    run = [sys.executable, "-c", code]
    outputs = {
        subprocess.run(run, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{text_key('été')} {pair_key('a', 'é')}\n"}
