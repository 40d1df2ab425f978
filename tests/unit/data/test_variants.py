"""Pairs that come again in another form: how the forms look, and where they are."""

from __future__ import annotations

import difflib
import random
from itertools import pairwise
from pathlib import Path

import pytest

from seq2seq.config import DataConfig
from seq2seq.config.data import VARIANTS
from seq2seq.data import word_links
from seq2seq.data.sources import find_sources, load_pairs
from seq2seq.data.variants import capitals, chat, heading, joined, plain, typos, unmarked

MANY = [(f"We see {n} dogs.", f"Nous voyons {n} chiens.") for n in range(3000)]


def write(folder: Path, **splits: list[tuple[str, str]]) -> None:
    for split, pairs in splits.items():
        lines = "".join(f"{en}\t{fr}\n" for en, fr in [("en", "fr"), *pairs])
        (folder / f"{split}.tsv").write_text(lines, encoding="utf-8")


def corpus(folder: Path, **settings) -> DataConfig:
    return DataConfig(path=str(folder), **{"test": None, **settings})


def test_capitals():
    assert capitals("No smoking!", "Défense de fumer !") == ("NO SMOKING!", "DÉFENSE DE FUMER !")


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("The dog is here.", "Le chien est là."), ("the dog is here", "le chien est là")),
        # "!" goes with the space that French puts before it; "?" says something, and stays.
        (("Come here!", "Viens ici !"), ("come here", "viens ici")),
        (("Stop it!!", "Arrête\u202f!"), ("stop it", "arrête")),
        (("Who is it?", "Qui est-ce ?"), ("who is it?", "qui est-ce ?")),
        # I, names and abbreviations keep their capitals.
        (("I am hungry.", "J'ai faim."), ("I am hungry", "j'ai faim")),
        (("I’m hungry.", "J’ai faim."), ("I’m hungry", "j’ai faim")),
        (("Tom, come here.", "Viens, Tom."), ("Tom, come here", "viens, Tom")),
        (("Tom's father sang.", "Le père de Tom chantait."),
         ("Tom's father sang", "le père de Tom chantait")),
        (("O'Brien left.", "O'Brien est parti."), ("O'Brien left", "O'Brien est parti")),
        (("U.S. troops left.", "L'armée est partie."), ("U.S. troops left", "l'armée est partie")),
        (("TV is dull.", "La télé est ennuyeuse."), ("TV is dull", "la télé est ennuyeuse")),
        # Words of one letter are words, though "A" may begin both.
        (("A cat sleeps.", "A qui est ce chat ?"), ("a cat sleeps.", "a qui est ce chat ?")),
        (("A quarter to ten.", "À dix heures."), ("a quarter to ten", "à dix heures")),
        (("Is there any?", "Y en a-t-il ?"), ("is there any?", "y en a-t-il ?")),
        # Sentences that are left open stay so on both sides, and no side says less than the other.
        (("He left...", "Il est parti..."), ("he left...", "il est parti...")),
        (("He left…", "Il est parti."), ("he left…", "il est parti.")),
        (("Really?", "Vraiment."), ("really?", "vraiment.")),
        (("He knows the U.S.", "Il connaît les États-Unis."),
         ("he knows the U.S.", "il connaît les États-Unis.")),
        # No stop is no other mark: both are without one afterwards.
        (("Yes", "Oui."), ("yes", "oui")),
        (("", ""), ("", "")),
    ],
)  # fmt: skip
def test_plain(pair, expected):
    assert plain(*pair) == expected


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("The history of the world.", "L'histoire du monde."),
         ("The History of the World", "L'histoire du monde")),
        (("Of mice and men", "Des souris et des hommes"),
         ("Of Mice and Men", "Des souris et des hommes")),
        (("Where is my BBC mug?", "Où est ma tasse BBC ?"),
         ("Where Is My BBC Mug?", "Où est ma tasse BBC ?")),
    ],
)  # fmt: skip
def test_heading(pair, expected):
    assert heading(*pair) == expected


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("He left.", "Il est parti."), ("He left", "Il est parti")),
        (("Stop!", "Arrête !"), ("Stop", "Arrête")),
        (("Is it you?", "C'est toi ?"), ("Is it you", "C'est toi")),
        # A mark of one side alone stays, and so does what is left open.
        (("Is it you?", "C'est toi."), ("Is it you?", "C'est toi.")),
        (("He left...", "Il est parti..."), ("He left...", "Il est parti...")),
        (("Why :-)", "Pourquoi :-)"), ("Why :-)", "Pourquoi :-)")),
    ],
)
def test_unmarked(pair, expected):
    assert unmarked(*pair) == expected


def test_chat_has_neither_mark_nor_capital_but_for_names():
    assert chat("Where is it?", "Où est-ce ?") == ("where is it", "où est-ce")
    assert chat("Tom left.", "Tom est parti.") == ("Tom left", "Tom est parti")


def test_joined_makes_one_message_of_two_sentences():
    yes, no = ("Yes.", "Oui."), ("I do!", "Bien sûr !")
    assert joined(yes, no) == ("Yes. I do!", "Oui. Bien sûr !")
    for other in (("", ""), ("a word", "un mot"), ("Yes.", "oui")):
        assert joined(other, yes) == yes
        assert joined(yes, other) == other


@pytest.mark.parametrize("seed", range(200))
def test_a_slip_changes_a_letter_or_two_of_the_source(seed):
    pair = ("I don't remember the number of the house.", "Je ne sais plus le numéro de la maison.")
    source, target = typos(*pair, random.Random(seed))
    assert target == pair[1]
    assert difflib.SequenceMatcher(None, source, pair[0]).ratio() > 0.94
    assert typos(*pair, random.Random(seed)) == (source, target)


def test_slips_are_of_every_kind():
    made = {typos("We remember.", "", random.Random(seed))[0] for seed in range(300)}
    assert {"We rmeember.", "We rmember.", "We reemember.", "We rrmember."} <= made


@pytest.mark.parametrize(
    "text", ["", "12 + 7", "See www.example.com/help", "@anna #travel", "of it"]
)
def test_addresses_numbers_and_short_words_have_no_slips(text):
    made = {typos(text, "", random.Random(seed))[0] for seed in range(100)}
    assert made == {text}


FORMS = {"capitals": capitals, "plain": plain, "heading": heading}


@pytest.mark.parametrize("name", FORMS)
def test_about_so_many_pairs_follow_themselves_in_another_form(name, tmp_path):
    write(tmp_path, train=MANY)
    found = load_pairs(corpus(tmp_path, variants={name: 0.1}), "train")
    assert found == load_pairs(corpus(tmp_path, variants={name: 0.1}), "train")
    assert [pair for pair in found if pair in set(MANY)] == MANY
    others = [(one, other) for one, other in pairwise(found) if other not in set(MANY)]
    assert all(other == FORMS[name](*one) for one, other in others)
    assert 240 < len(others) < 360  # five standard deviations of 300 are 82


def test_each_variant_draws_for_itself(tmp_path):
    write(tmp_path, train=MANY)
    both = load_pairs(corpus(tmp_path, variants={"capitals": 0.5, "plain": 0.5}), "train")
    chosen = [{pair for pair in MANY if FORMS[name](*pair) in set(both)}
              for name in ("capitals", "plain")]
    assert 600 < len(chosen[0] & chosen[1]) < 900  # a quarter of 3,000


def test_a_pair_that_stays_as_it_is_comes_once(tmp_path):
    pairs = [("OK", "OK"), ("12 + 3", "12 + 3"), ("yes", "oui")]
    write(tmp_path, train=pairs)
    assert load_pairs(corpus(tmp_path, variants={"plain": 1}), "train") == pairs
    assert load_pairs(corpus(tmp_path, variants={"heading": 0}), "train") == pairs
    doubled = [*pairs, ("YES", "OUI")]
    assert load_pairs(corpus(tmp_path, variants={"capitals": 1}), "train") == doubled


def test_text_that_a_model_is_judged_by_stays_as_it_is(tmp_path):
    write(tmp_path, train=MANY[:2], val=MANY[2:4], test=MANY[4:6])
    data = corpus(tmp_path, test="test", variants={"capitals": 1})
    assert load_pairs(data, "val") == MANY[2:4]
    assert load_pairs(data, "test") == MANY[4:6]
    assert len(load_pairs(data, "train")) == 4


def test_shares_decide_what_is_prepared(tmp_path):
    write(tmp_path, train=MANY[:2])

    def known(**settings) -> list[object]:
        [source] = find_sources(corpus(tmp_path, **settings), "train")
        return source.identity(tmp_path / "known")

    without, some, more = (known(variants=v) for v in ({}, {"plain": 0.1}, {"plain": 0.2}))
    assert without == known() != some != more


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_that_can_be_set_makes_pairs(name, tmp_path, monkeypatch):
    monkeypatch.setattr(word_links, "FREQUENT", 0)  # of so few words none would be left
    dogs = [(f"We see {n} dogs and Tom.", f"Nous voyons {n} chiens et Tom.") for n in range(300)]
    write(tmp_path, train=dogs)
    found = load_pairs(corpus(tmp_path, variants={name: 1.0}), "train")
    assert found == load_pairs(corpus(tmp_path, variants={name: 1.0}), "train")
    assert [pair for pair in found if pair in set(dogs)] == dogs
    assert len(found) > 1.5 * len(dogs)


def test_links_are_learned_from_the_first_file_of_a_corpus(tmp_path):
    write(tmp_path, **{"train-1": MANY[:50], "train-2": MANY[50:100]})
    sources = find_sources(corpus(tmp_path, train="train-*.tsv", variants={"terms": 1}), "train")
    assert len(sources) == 2
    assert sources[0].links is sources[1].links
    first = [*sources[0].source.pairs()]
    assert sources[1].links()._likely == word_links.WordLinks(first)._likely
