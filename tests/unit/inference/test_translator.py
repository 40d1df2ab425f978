"""The translator: every text gets its translation, in order, whatever the text is."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.bundle.bundle import Bundle
from seq2seq.config import DecodeConfig, TransformerConfig
from seq2seq.data.annotations import SYMBOLS
from seq2seq.data.tokenizer import EOS, Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.errors import ConfigError, RequestError, UserError
from seq2seq.inference.engines.torch import TorchEngine, choose_device
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator, readable
from seq2seq.model.transformer import Transformer

LIMIT = 24  # tokens of the tiny model
TEXTS = ["the house", "a big house is here", "no", "the old man reads", "houses"]
TRAINING = {"step": 1, "scores": {}}
LONG = "the big house is here, and the old man reads. " * 6


def make(limit: int = LIMIT, normalise: tuple[str, ...] = ()) -> Translator:
    texts = ["the big old house is here", "a man reads", "la maison est ici", "un homme lit"]
    tokenizer = Tokenizer.train(texts * 5, 320)
    torch.manual_seed(0)
    config = TransformerConfig(
        d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=limit
    )
    model = Transformer(config, tokenizer.vocab_size).eval()
    decode = DecodeConfig(beam=3, max_ratio=1.0, max_extra=4)
    return Translator(TorchEngine([model]), Vocabularies(tokenizer, tokenizer), decode, normalise)


@pytest.fixture(scope="session")
def translator() -> Translator:
    return make()


@pytest.fixture(scope="session")
def finishing() -> Translator:
    """A translator that likes to end, so that a beam fills with finished hypotheses."""
    made = make()
    with torch.no_grad():
        [model] = made.engine.models
        model.decoder_norm.bias.fill_(1.0)
        model.output.weight[EOS] += 0.3  # adds 16 * 0.3 to the score of the end mark
    return made


def n_best(translator: Translator, text: str, n: int, **settings) -> list[Translation]:
    [best] = translator.translate([text], n_best=n, **settings)
    return [best, *best.alternatives]


def pieces_of(translator: Translator, text: str) -> list[str]:
    return [source for source, _ in translator.translate([text])[0].parts]


def close(a: Translation, b: Translation) -> bool:
    return (a.text, a.finished) == (b.text, b.finished) and a.score == pytest.approx(
        b.score, abs=1e-4
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_a_text_has_the_same_translation_alone_and_among_others(translator, beam):
    together = translator.translate(TEXTS, beam=beam)
    alone = [translator.translate([text], beam=beam)[0] for text in TEXTS]
    assert all(close(a, b) for a, b in zip(together, alone, strict=True))
    assert len({result.text for result in together}) > 1  # else the order could not be seen


def test_results_stand_in_the_order_of_the_texts(translator):
    forward, backward = translator.translate(TEXTS), translator.translate(TEXTS[::-1])
    assert all(close(a, b) for a, b in zip(forward, backward[::-1], strict=True))


@pytest.mark.parametrize("empty", ["", " ", "\n\t \u3000"])
def test_an_empty_text_comes_back_empty_in_its_place(translator, empty):
    first, middle, last = translator.translate(["the house", empty, "no"])
    assert middle == Translation("", None, True)
    assert close(first, translator.translate(["the house"])[0])
    assert close(last, translator.translate(["no"])[0])


def test_nothing_gives_nothing(translator):
    assert translator.translate([]) == []
    assert translator.translate([""]) == [Translation("", None)]


def test_space_around_a_text_stays_and_does_not_matter(translator):
    first, second = translator.translate(["the house", "  the house\n"])
    assert second.text == f"  {first.text}\n"
    assert second.score == pytest.approx(first.score, abs=1e-4)
    plain, spaced = translator.translate(["the house", "  the house\n"], protect=False)
    assert close(plain, spaced)


def test_a_long_text_is_split_with_a_warning_and_every_piece_fits(caplog):
    translator = make()
    with caplog.at_level(logging.WARNING):
        [found] = translator.translate([LONG], split=False)
        pieces = [source for source, _ in found.parts]
    lengths = [len(ids) + 1 for ids in translator.vocabularies.source.encode(pieces)]
    assert len(pieces) > 1
    assert max(lengths) <= LIMIT
    assert "".join("".join(pieces).split()) == "".join(LONG.split())
    assert (
        f"longer than the model's {LIMIT} tokens: translated in {len(pieces)} parts" in caplog.text
    )


def test_the_translation_of_a_long_text_is_that_of_its_pieces(translator):
    parts = translator.translate(pieces_of(translator, LONG))
    [whole] = translator.translate([LONG])
    assert whole.text == " ".join(part.text for part in parts) + " "  # as the source ends
    assert whole.score == pytest.approx(sum(p.score for p in parts) / len(parts), abs=1e-4)


def test_a_text_that_just_fits_is_not_split(translator, caplog):
    text = "a" * (LIMIT * 2)
    while len(translator.vocabularies.source.encode([text])[0]) > LIMIT - 1:
        text = text[:-1]
    assert len(translator.vocabularies.source.encode([text])[0]) == LIMIT - 1
    assert pieces_of(translator, text) == [text]
    assert len(pieces_of(translator, text + "a")) > 1


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\x00", "\x01\x1b[31m\x7f", "\u202e\ufeff", "😀" * 40, "a" * 500]
)
def test_odd_characters_do_not_crash(translator, text):
    result, after = translator.translate([text, "the house"], protect=False)
    assert result.score < 0
    assert close(after, translator.translate(["the house"])[0])


def test_lone_surrogates_are_read_as_question_marks(translator):
    first, second = translator.translate(["the \ud800 house", "the ? house"])
    assert close(first, second)


def test_n_best_are_distinct_and_best_first(finishing):
    found = n_best(finishing, "the house", 3)
    scores = [translation.score for translation in found]
    assert len(found) == 3
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_the_first_of_n_best_is_the_translation(finishing):
    assert close(n_best(finishing, "the house", 1)[0], finishing.translate(["the house"])[0])


def test_n_best_widens_the_beam_unless_one_is_given(finishing):
    assert len(n_best(finishing, "the house", 5)) == 5
    with pytest.raises(ConfigError, match=r"n_best=5 needs as many hypotheses"):
        n_best(finishing, "the house", 5, beam=2)


def test_n_best_of_empty_and_long_texts(finishing):
    assert n_best(finishing, "", 3) == [Translation("", None)]
    scores = [translation.score for translation in n_best(finishing, LONG, 2)]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


def test_progress_counts_every_piece_once(translator):
    counts: list[int] = []
    translator.translate([*TEXTS, "", LONG], progress=counts.append)
    assert sum(counts) == len(TEXTS) + len(pieces_of(translator, LONG))


def test_settings_of_a_call_do_not_stay(translator):
    before = translator.translate(TEXTS)
    translator.translate(TEXTS, beam=1, max_ratio=0, max_extra=2)
    assert translator.translate(TEXTS) == before


def test_a_translation_prints_as_its_text():
    assert str(Translation("bonjour", -1.0)) == "bonjour"


def test_a_translator_is_loaded_from_a_bundle(translator, tmp_path):
    [model] = translator.engine.models
    Bundle(model, translator.vocabularies, translator.decode, TRAINING).save(tmp_path / "b")
    loaded = Translator.load(tmp_path / "b", device="cpu")
    pairs = zip(loaded.translate(TEXTS), translator.translate(TEXTS), strict=True)
    assert all(close(a, b) for a, b in pairs)


def test_a_bundle_tells_what_was_done_to_its_targets(translator, tmp_path):
    """Its settings do; a bundle without them did the same to both sides."""
    cleaning = {"languages": ["en", "fr"], "normalise": ["spaces", "quotes", "french_spacing"]}
    for made, steps in (({"cleaning": cleaning}, cleaning["normalise"]), ({}, ["spaces"])):
        training = TRAINING | {"config": made}
        parts = (translator.engine.models[0], translator.vocabularies, translator.decode, training)
        bundle = Bundle(*parts, ["spaces"])
        bundle.save(tmp_path / str(len(made)))
        loaded = Translator.load(tmp_path / str(len(made)), "cpu")
        assert bundle.normalise_target == steps
        assert loaded.as_written("l’homme\xa0?") == ("l'homme ?" if made else "l’homme ?")
        assert loaded.as_read("l’homme?") == "l’homme?"


def test_given_translations_are_read_as_the_targets_of_training_were(tmp_path):
    plain = make()
    steps = ["spaces", "quotes", "french_spacing"]
    translator = Translator(plain.engine, plain.vocabularies, plain.decode, ["spaces"], steps)
    typed, learnt = ("a man reads", "l’homme lit «\u202fici\u202f» ?"), "l'homme lit « ici » ?"
    [found], [expected] = translator.score([typed]), plain.score([(typed[0], learnt)])
    assert found == expected
    assert found.words == 6
    assert plain.score([typed])[0].tokens != expected.tokens  # else nothing was normalised
    assert translator.align([typed]) == plain.align([(typed[0], learnt)])


ODD = "the\u00a0 old\u200b house"


def test_a_text_is_normalised_as_in_training_before_it_is_read(translator):
    normalising = make(normalise=("nfc", "controls", "spaces"))
    [plain, odd] = normalising.translate(["the old house", ODD])
    assert close(plain, odd)
    assert normalising.as_read(f" {ODD}\n") == "the old house"
    assert translator.as_read(f" {ODD}\n") == ODD  # a model of before there was a choice


def test_a_text_that_normalisation_empties_comes_back_empty_in_its_place():
    results = make(normalise=("controls",)).translate(["no", "\u200b\x01", "no"])
    assert [bool(result.text) for result in results] == [True, False, True]


def test_a_bundle_keeps_the_normalisation(translator, tmp_path):
    Bundle(
        translator.engine.models[0],
        translator.vocabularies,
        translator.decode,
        TRAINING,
        ["controls", "spaces"],
    ).save(tmp_path / "b")
    assert Translator.load(tmp_path / "b", device="cpu").as_read(ODD) == "the old house"


def two_vocabularies(tie: str) -> Translator:
    """A translator whose outputs are of a vocabulary that is larger than that of its source."""
    source = Tokenizer.train(["the house is here"] * 5, 265)
    target = Tokenizer.train(["la grande maison est ici"] * 5, 300)
    torch.manual_seed(0)
    config = TransformerConfig(
        d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=LIMIT,
        tie_embeddings=tie,
    )  # fmt: skip
    model = Transformer(config, source.vocab_size, target.vocab_size).eval()
    with torch.no_grad():
        model.output.weight[target.encode(["maison"])[0]] *= 50
    decode = DecodeConfig(beam=2, max_extra=4)
    return Translator(TorchEngine([model]), Vocabularies(source, target), decode)


@pytest.mark.parametrize("tie", ["none", "decoder"])
def test_outputs_are_read_with_the_vocabulary_of_the_target(tie, tmp_path):
    translator = two_vocabularies(tie)
    assert any("maison" in result.text for result in translator.translate(TEXTS))
    [model] = translator.engine.models
    Bundle(model, translator.vocabularies, translator.decode, TRAINING).save(tmp_path / "b")
    pairs = zip(
        Translator.load(tmp_path / "b").translate(TEXTS), translator.translate(TEXTS), strict=True
    )
    assert all(close(a, b) for a, b in pairs)


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("auto", "cpu", "cpu:0"):
        assert choose_device(name) == torch.device("cpu")
    with pytest.raises(UserError, match=r"cuda was asked for, but torch finds no such GPU"):
        choose_device("cuda")
    for name in ("gpux", "meta", "mps", "xpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1"):
        with pytest.raises(UserError, match=rf"device '{name}' is not known: use auto, cpu or cud"):
            choose_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UserError, match=r"torch finds no such GPU: use cpu, cuda:0, cuda:1$"):
        choose_device("cuda:9")


def test_a_character_longer_than_the_model_does_not_crash():
    assert len(make(limit=8).translate(["😀"])) == 1


def test_a_text_that_fits_in_any_case_is_cut_into_tokens_once(monkeypatch):
    translator, cut = make(limit=48), []
    encode = translator.vocabularies.source.encode

    def counted(texts, **options):
        texts = list(texts)
        cut.extend(texts)
        return encode(texts, **options)

    monkeypatch.setattr(translator.vocabularies.source, "encode", counted)
    texts = ["the house is here", "a man {x} reads <b>77</b>.", "no"]
    translator.translate(texts, split=False, protect=False, rescue=False)
    assert [text for text in cut if text in texts] == texts


@settings(deadline=None)
@given(st.text(max_size=30))
def test_a_text_has_no_more_tokens_than_bytes_and_one(text):
    """What lets the translator do without counting them."""
    text = readable(text)
    assert len(make().vocabularies.source.encode([text])[0]) <= len(text.encode()) + 1


# Text around the model


def test_lines_and_sentences_are_translated_one_by_one(translator):
    whole, *parts = translator.translate(["the house. A man!\n\n- houses", "the house.", "A man!",
                                          "houses"])  # fmt: skip
    house, man, houses = (part.text for part in parts)
    assert whole.text == f"{house} {man}\n\n- {houses}"
    [corpus] = translator.translate_corpus(["- the house. A man!"])
    as_it_is = {"split": False, "protect": False, "rescue": False}
    [plain] = translator.translate(["- the house. A man!"], **as_it_is)
    assert corpus == plain
    assert not corpus.text.startswith(f"- {house}")


def test_terms_stand_in_the_translation(translator):
    terms = {"house": "lit grande", "zebra": "zèbre"}
    texts = ["the house", "The House. a man", "a man"]
    found = translator.translate(texts, terms=terms, max_extra=20)
    assert ["lit grande" in one.text.lower() for one in found] == [True, True, False]
    assert not any("zèbre" in one.text for one in found)


def test_what_is_banned_comes_in_no_translation_or_is_noted():
    translator = two_vocabularies("none")
    settings = {"rescue": False, "beam": 3, "n_best": 3}
    free = translator.translate(TEXTS, **settings)
    assert any("maison" in one.text for one in free)
    for one in translator.translate(TEXTS, banned=["Maison", "maison"], **settings):
        for candidate in (one, *one.alternatives):
            held = re.search(r"(?<!\w)maison", candidate.text, re.IGNORECASE)
            assert bool(held) == any("holds the banned" in note for note in candidate.notes)


def test_of_what_is_found_the_banned_comes_last_and_is_noted(monkeypatch):
    translator = make()
    texts = ["La maison", "maisons", "un homme", "est ici"]
    found = [
        Hypothesis(ids, -1.0 - rank, -1.0 - rank, True)
        for rank, ids in enumerate(translator.vocabularies.target.encode(texts))
    ]
    monkeypatch.setattr(translator.engine, "search", lambda *_: [found])
    ordered = n_best(translator, "no", 4, banned=["la", "maison"], rescue=False)
    assert [one.text for one in ordered] == ["un homme", "est ici", "La maison", "maisons"]
    assert [one.notes for one in ordered] == [
        [],
        [],
        ["holds the banned 'La'", "holds the banned 'maison'"],
        ["holds the banned 'maison'"],
    ]


def test_a_prefix_that_does_not_fit_is_left_out_and_noted_and_terms_stay(translator):
    texts = ["the big old house is here and a man reads", "house", "no"]
    settings = {"max_extra": 1, "rescue": False}
    term = {"terms": {"house": "maison ici lit un homme"}}
    counts: list[int] = []
    long, short, other = translator.translate(texts, **settings, **term, progress=counts.append)
    assert "maison ici lit un homme" in long.text.lower()
    assert "maison ici lit un homme" in short.text.lower()
    assert other.notes == []
    assert sum(counts) == 3
    begun = translator.translate(texts, **settings, **term, prefix="un homme lit ici la maison")
    assert begun[0].text.startswith("un homme lit ici la maison")
    assert "no room for the prefix" in begun[1].notes[0]
    assert begun[2].notes == ["no room for the prefix"]


def test_what_contradicts_itself_is_an_error_also_where_another_has_no_room(translator):
    texts = ["house", "the big old house is here and a man reads"]
    with pytest.raises(RequestError, match=r"sentence 2 cannot be translated so: the banned tok"):
        translator.translate(texts, prefix="un homme lit ici la maison", banned=["un"])


def test_surrogates_are_question_marks_in_every_wish(translator):
    wishes = {"prefix": "\ud800", "terms": {"\ud800": "a", "house": "\ud801"}}
    [one] = translator.translate(["the house"], **wishes, banned=["x\ud800"], max_extra=20)
    assert one.text.startswith("?")


@pytest.mark.parametrize("wrong", [None, "ab", ("a",), ("a", "b", "c"), ("a", None), ("a", 1)])
def test_what_is_no_pair_of_texts_is_refused(translator, wrong):
    for method in (translator.score, translator.align):
        with pytest.raises(UserError, match=r"pair 2 is .*must be two texts"):
            method([("a", "b"), wrong])


def test_a_single_text_or_what_is_none_is_refused(translator):
    with pytest.raises(UserError, match=r"texts is a single text, .* list, such as \['no'\]"):
        translator.translate("no")
    with pytest.raises(UserError, match=r"texts is a single text"):
        next(translator.stream("no"))
    with pytest.raises(UserError, match=r"banned is a single text"):
        translator.translate(["no"], banned="non")
    with pytest.raises(UserError, match=r"texts has a int in place 2, where a text must be"):
        translator.translate(["no", 3])


def test_a_prefix_begins_the_translation_of_each_text(translator):
    texts = ["the house. a man", "no"]
    first, second = translator.translate(texts, prefix="la grande", max_extra=20)
    assert first.text.startswith("la grande")
    assert second.text.startswith("la grande")


def test_typography_is_an_option(translator):
    plain, printed = (
        translator.translate(["house"], prefix="l'homme lit", max_extra=20, typography=on)[0].text
        for on in (False, True)
    )
    assert plain.startswith("l'homme lit")
    assert printed.startswith("l’homme lit")


def test_what_was_done_is_logged_for_the_first_texts_and_noted_for_all(caplog):
    translator, texts = make(), [f"house {{x{n}}} man" for n in range(8)]
    with caplog.at_level(logging.WARNING):
        found = [one for part in (texts[:3], texts[3:]) for one in translator.translate(part)]
    assert all(f"lost {{x{n}}}" in " ".join(one.notes) for n, one in enumerate(found))
    assert sum("lost {x" in record.message for record in caplog.records) == 5
    assert caplog.records[-1].message == "further notes are in Translation.notes, and in --json"
    assert len(caplog.records) == 6


def test_the_same_text_is_translated_in_the_same_way_alone_and_among_others(translator):
    """Also where something was degenerate or lost, and only some were translated again."""
    texts = ["the {x} house", "a <b>man</b> reads 77 houses", "no", "the house. <i>no</i>"]
    together = translator.translate(texts)
    assert [one.text for one in together] == [str(translator.translate([t])[0]) for t in texts]
    assert any(one.notes for one in together)


def test_without_rescue_outputs_stay_as_the_search_found_them(translator):
    found = translator.translate(TEXTS, rescue=False, protect=False)
    assert not any(one.notes for one in found)
    rescued = translator.translate(TEXTS, protect=False)
    changed = [a.text != b.text for a, b in zip(found, rescued, strict=True)]
    assert any(changed)
    assert all(one.notes for one, other in zip(rescued, changed, strict=True) if other)


@pytest.mark.parametrize("most", [3, 6])
def test_a_limit_that_was_asked_for_holds_whatever_is_done_to_a_sentence(translator, most):
    """Outputs of this model are degenerate, and it keeps no item by itself."""
    texts = [*TEXTS, "the big old house is here and a man reads", "{x} the house {y} is here"]
    settings = {"split": False, "max_ratio": 0.0, "max_extra": most}
    for text in texts:
        [cut] = translator.translate([text], **settings)
        assert len(cut.tokens) + cut.finished <= most
        [free] = translator.translate([text], split=False)
        assert not any("too short" in note for note in cut.notes) or "too short" in free.notes
    lost = translator.translate(texts[-1:], **settings)[0].notes
    assert any("lost" in note and "{x}" in note for note in lost)


def test_a_term_may_replace_a_number_or_a_link(translator):
    text = "a man reads 24 houses www.a.com"
    settings = {"max_extra": 30, "split": False, "rescue": False}
    [kept] = translator.translate([text], **settings)
    assert "lost 24, www.a.com: translated again in parts" in kept.notes
    [found] = translator.translate([text], terms={"24": "deux"}, **settings)
    assert "24" not in " ".join(found.notes)


# Steps


class Echo:
    """An engine that says what it reads, without some words, and notes what it was asked."""

    max_length = 200

    def __init__(self, tokenizer: Tokenizer, drops: str = ""):
        self.tokenizer, self.drops, self.read = tokenizer, drops, []

    def search(self, requests, config, progress=None):
        texts = self.tokenizer.decode([request.source for request in requests])
        self.read += texts
        said = [" ".join(text.replace(self.drops or "\0", "").split()) for text in texts]
        return [[Hypothesis(ids, -1.0, -1.0, True)] for ids in self.tokenizer.encode(said)]

    def attention(self, pairs):
        return [np.eye(len(t) + 1, len(s) + 1) for s, t in pairs]

    def score(self, pairs):
        return [[-1.0] * (len(target) + 1) for _, target in pairs]


def echo(drops: str = "", **options) -> Translator:
    tokenizer = Tokenizer.train(["a"], 259, symbols=options.pop("symbols", ()))
    both = Vocabularies(tokenizer, tokenizer)
    return Translator(Echo(tokenizer, drops), both, DecodeConfig(), ["nfc", "spaces"], **options)


ALL = "PRESS `x` ON THE <b>“BIG” BUTTON</b> 👍 NOW"


def test_what_the_model_reads_of_a_sentence():
    translator = echo()
    translator.translate([ALL], rescue=False)
    assert translator.engine.read == ["Press `x` on the big button now"]


@pytest.mark.parametrize(
    ("step", "read"),
    [
        ("casing", "PRESS `x` ON THE BIG BUTTON NOW"),
        ("typography", "Press `x` on the “big” button now"),
        ("markup", 'Press `x` on the <b>"big" button</b> 👍 now'),
        ("quotation", 'Press `x` on the "big" button now'),
    ],
)
def test_each_step_can_be_left_out(step, read):
    translator = echo()
    translator.translate([ALL], rescue=False, without=[step])
    assert translator.engine.read == [read]


@pytest.mark.parametrize("without", [{}, {"protect": False}, {"without": ["typography"]}])
def test_french_is_printed_whenever_it_is_asked_for(without):
    [one] = echo().translate(["l'ami ?"], rescue=False, typography=True, **without)
    assert one.text == "l’ami\u202f?"
    italian = echo(languages=("en", "it"))
    assert italian.translate(["l'uomo"], rescue=False, typography=True)[0].text == "l'uomo"


def test_links_are_those_of_the_words_of_print():
    [one] = echo().translate(["L'ami: oui"], rescue=False, typography=True, align=True)
    assert one.text == "L’ami\xa0: oui"
    assert one.alignment == [(0, 0), (0, 1), (1, 2)]


def test_unknown_steps_are_refused():
    with pytest.raises(UserError, match="step markups is not known: did you mean 'markup'"):
        echo().translate(["a"], without=["markups"])
    with pytest.raises(UserError, match="step x is not known"):
        echo().translate(["a"], without=["x"])


def test_without_fallback_there_is_one_search():
    parts = ["see", "now"]
    for out, read in (((), ["see {x} now", *parts]), (["fallback"], ["see {x} now"])):
        translator = echo(drops="{x}")
        translator.translate(["see {x} now"], rescue=False, without=out)
        assert translator.engine.read == read


def test_a_model_that_has_learnt_marks_reads_them_and_no_others():
    translator = echo("{x}", symbols=SYMBOLS)
    [one] = translator.translate(
        ["see {x} and the old mill ⟦1⟧"], terms={"old mill": "moulin"}, rescue=False
    )
    marked = "the⟦term⟧ old mill⟦as⟧ moulin⟦/term⟧ [1]"
    assert translator.engine.read[:2] == [f"see {{x}} and {marked}", f"see ⟦1⟧ and {marked}"]
    assert "see {x} and" in one.text


@pytest.mark.parametrize(
    ("wish", "text", "notes"),
    [
        ("check", "où est le chat ?", ["looks like French"]),
        ("leave", "Où est le chat ?", ["looks like French: left as it is"]),
        ("trust", "où est le chat ?", []),
    ],
)
def test_a_text_in_another_language_is_noted_or_left(wish, text, notes):
    [one] = echo().translate(["où est le chat ?".capitalize()], rescue=False, source_language=wish)
    assert (one.text.lower(), one.notes) == (text.lower(), notes)
    with pytest.raises(UserError, match="source_language=guess: choose check, leave, trust"):
        echo().translate(["a"], source_language="guess")


def test_a_long_line_is_translated_block_by_block():
    translator, counts = echo(), []
    search = translator.engine.search

    def counted(requests, config, progress=None):
        counts.append(len(requests))
        return search(requests, config, progress)

    translator.engine.search = counted
    line = "A man is here. " * 3000
    [one] = translator.translate([line], rescue=False)
    assert one.text == line
    assert max(counts) <= 1024
    assert sum(counts) == 3000


def test_what_has_nothing_to_translate_has_no_score(translator):
    found = translator.translate(["", "123", "Привет", "the house", "www.a.com"])
    assert [one.score is None for one in found] == [True, True, True, False, True]
    assert [one.text for one in found][1:3] == ["123", "Привет"]


def test_a_sentence_stays_one_line_whatever_the_model_writes(monkeypatch):
    translator = make()
    [ids] = translator.vocabularies.target.encode(["un\n\nhomme\x85 \u2028lit\n"])
    found = [Hypothesis(ids, -1.0, -1.0, True)]
    monkeypatch.setattr(translator.engine, "search", lambda *_: [found])
    [one] = translator.translate(["no"], rescue=False)
    assert one.text.split() == ["un", "homme", "lit"]
    assert one.text.splitlines() == [one.text]
