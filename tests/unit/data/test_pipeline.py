"""Preparation: what it keeps, what it makes again and what it finds again."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig, TokenizerConfig
from seq2seq.data import dedup, steps
from seq2seq.data import pipeline as module
from seq2seq.data.cleaning import Cleaner
from seq2seq.data.pipeline import prepare
from seq2seq.data.prepared import Prepared
from seq2seq.data.report import read_report
from seq2seq.errors import ConfigError, DataError, UserError
from seq2seq.files import lock

TRAIN = [(f"I see {n} big houses", f"je vois {n} grandes maisons") for n in range(240)]
VAL = [("three small dogs", "trois petits chiens"), ("a cat", "un chat")]
TOKENIZER = TokenizerConfig(vocab_size=300)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(steps, "PAIRS", 50)


def write(folder: Path, name: str, pairs) -> None:
    lines = "".join(f"{source}\t{target}\n" for source, target in [("en", "fr"), *pairs])
    (folder / f"{name}.tsv").write_text(lines, encoding="utf-8")


@pytest.fixture
def data(tmp_path) -> DataConfig:
    write(tmp_path, "train", TRAIN)
    write(tmp_path, "val", VAL)
    return DataConfig(
        name="mine", path=str(tmp_path), test=None, cache=str(tmp_path / "cache"), processes=1
    )


def run(data, tokenizer=TOKENIZER, **settings) -> Prepared:
    cleaning = settings.pop("cleaning", CleaningConfig())
    return prepare(data, cleaning, tokenizer, **settings)


def texts(prepared: Prepared, variant=0) -> list[tuple[str, str]]:
    shards = prepared.shards()[variant]
    sides = shards.ids(np.arange(len(shards)))
    both = (prepared.vocabularies.source, prepared.vocabularies.target)
    decoded = [
        tokenizer.decode([ids.tolist() for ids in side])
        for side, tokenizer in zip(sides, both, strict=True)
    ]
    return list(zip(*decoded, strict=True))


class Broken:
    """An engine that must not be asked for anything."""


def files(prepared: Prepared) -> dict[Path, int]:
    root = prepared.folder.parent
    return {p: p.stat().st_mtime_ns for p in root.rglob("*.arrow")}


def test_the_ids_are_those_of_the_training_text(data):
    prepared = run(data)
    assert texts(prepared) == TRAIN
    assert prepared.members == [("mine", 0, len(TRAIN))]
    assert (prepared.report.read, prepared.report.kept) == (240, 240)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte"])
@pytest.mark.parametrize("joint", [True, False])
def test_any_vocabulary_gives_the_text_back(data, kind, joint):
    size = 259 if kind == "byte" else 300
    settings = TokenizerConfig(kind=kind, vocab_size=size, joint=joint, symbols=["<x>"])
    prepared = run(data, settings)
    assert texts(prepared) == TRAIN
    assert prepared.vocabularies.joint is joint
    assert [v["name"] for v in prepared.report.vocabulary] == (
        ["joint"] if joint else ["source", "target"]
    )


TEXTS = st.text("ab é1<>&;\u00a0\u200b\ufffd", max_size=12)


@settings(max_examples=25, deadline=None, database=None)
@given(
    train=st.lists(st.tuples(TEXTS, TEXTS), max_size=40),
    val=st.lists(st.tuples(TEXTS, TEXTS), max_size=3),
    size=st.integers(1, 9),
)
def test_any_corpus_is_prepared_as_one_pair_after_the_other(train, val, size, tmp_path_factory):
    """Compared with a loop: the pairs that the cleaner keeps, each once, in their order."""
    folder = tmp_path_factory.mktemp("random")
    for name, pairs in (("train", train), ("val", val)):
        lines = [json.dumps({"en": source, "fr": target}) for source, target in pairs]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    cleaner = Cleaner(CleaningConfig(), val)
    cleaned = [cleaner(source.strip(), target.strip()) for source, target in train]
    expected = list(dict.fromkeys((s, t) for s, t, reason in cleaned if reason is None))
    config = DataConfig(path=str(folder), test=None, cache=str(folder / "cache"), processes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "PAIRS", size)
        if not expected:
            with pytest.raises(DataError, match="no usable train pair"):
                run(config)
            return
        prepared = run(config)
    assert texts(prepared) == expected
    report = prepared.report
    assert (report.read, report.kept) == (len(train), len(expected))
    assert sum(report.dropped.values()) == len(train) - len(expected)


def test_duplicates_and_leaks_go_and_are_counted(data, tmp_path):
    said = "I had never seen so many", "je n'en avais jamais vu autant"
    write(tmp_path, "val", [*VAL, said])
    repeated = [*TRAIN[:60], *TRAIN, ("A cat!", "Un chat."), (said[0] + "!", "jamais autant")]
    write(tmp_path, "train", [*repeated, ("  I see 7  big houses", "je vois 7 grandes maisons")])
    prepared = run(data)
    assert texts(prepared) == TRAIN
    report = prepared.report
    assert (report.read, report.kept) == (303, 240)
    assert {name: n for name, n in report.dropped.items() if n} == {"leakage": 2, "duplicate": 61}
    assert report.examples["duplicate"][0] == list(TRAIN[0])
    assert report.overlap == [{"split": "val", "pairs": 3, "in_training": 2}]


def test_what_each_file_loses_is_told(data, tmp_path):
    write(tmp_path, "train-0", [*TRAIN[:3], TRAIN[0], ("", "vide"), ("<b>a</b>", "un"), ("b", "")])
    write(tmp_path, "train-1", TRAIN[3:])
    report = run(replace(data, train="train-*.tsv")).report
    assert [file["dropped"] for file in report.files] == [{"empty": 2, "markup": 1}, {}]


def test_without_the_filter_words_in_a_row_are_counted_and_stay(data, tmp_path):
    row = "one two three four five"
    write(tmp_path, "val", [*VAL, (f"they say {row}", "ils le disent")])
    train = [*TRAIN, (f"{row} were there", "ils étaient là")]
    write(tmp_path, "train", train)
    settings = {"filters": ["empty"], "leakage_from": 9}
    assert run(data, cleaning=CleaningConfig(**settings)).report.overlap == []
    prepared = run(data, cleaning=CleaningConfig(**settings, leakage_ngram=5))
    assert texts(prepared) == train
    assert prepared.report.overlap == [{"split": "val", "pairs": 3, "in_training": 1}]


def test_near_duplicates_go_if_asked_for_and_are_counted_apart(data, tmp_path):
    long = "a sentence of many words that was copied with another {} at its end".format
    pairs = [(long("mark"), long("point")), TRAIN[3], TRAIN[3], (long("mark!"), long("poinT."))]
    write(tmp_path, "train", pairs)
    filters = ["empty", "duplicate", "near_duplicate"]
    prepared = run(data, cleaning=CleaningConfig(filters=filters))
    assert texts(prepared) == [*pairs[:2]]
    assert prepared.report.dropped == {"empty": 0, "duplicate": 1, "near_duplicate": 1}
    assert prepared.report.examples["near_duplicate"] == [list(pairs[3])]


def test_short_sides_of_evaluation_text_stay_in_training(data, tmp_path):
    write(tmp_path, "train", [*TRAIN, ("A cat!", "le chat"), ("some dogs", "Trois petits chiens.")])
    assert run(data).report.kept == len(TRAIN) + 2
    report = run(data, cleaning=CleaningConfig(leakage_from=1)).report
    assert report.dropped["leakage"] == 2
    assert report.overlap == [{"split": "val", "pairs": 2, "in_training": 2}]


def test_without_filters_everything_stays(data, tmp_path):
    write(tmp_path, "train", [*TRAIN, *TRAIN, VAL[0]])
    prepared = run(data, cleaning=CleaningConfig(normalise=[], filters=["empty"]))
    assert texts(prepared) == [*TRAIN, *TRAIN, VAL[0]]


def test_the_report_agrees_with_counting_by_hand(data):
    prepared = run(data)
    report = prepared.report
    [shards] = prepared.shards()
    sides = shards.ids(np.arange(len(shards)))
    assert report.tokens == [sum(len(ids) for ids in side) for side in sides]
    assert report.words == [sum(len(t.split()) for t in side) for side in zip(*TRAIN, strict=True)]
    assert report.characters == [sum(len(t) for t in side) for side in zip(*TRAIN, strict=True)]
    for histogram, side in zip(report.lengths, sides, strict=True):
        for length, count in enumerate(histogram):
            assert count == sum(len(ids) == length for ids in side)
    assert sum(report.ratios) == len(TRAIN)
    used = {int(token) for side in sides for ids in side for token in ids}
    [vocabulary] = report.vocabulary
    assert vocabulary["used"] == len(used)
    assert vocabulary["size"] == prepared.vocabularies.source.vocab_size
    assert 0 < len(report.samples) <= 20
    assert all(tuple(pair) in TRAIN for pair in report.samples)
    assert read_report(prepared.folder) == report


def test_the_same_again_reads_nothing_and_writes_nothing(data, monkeypatch):
    first = run(data)
    before = files(first)
    second = run(data, engine=Broken())
    assert second.report.fingerprint == first.report.fingerprint
    assert files(second) == before
    assert texts(second) == TRAIN


CHANGES = {
    "training text": lambda d, c, t: write(Path(d.path), "train", [*TRAIN, ("new", "nouveau")]),
    "validation text": lambda d, c, t: write(Path(d.path), "val", [("new", "nouveau")]),
    "test text": lambda d, c, t: write(Path(d.path), "test", [("new", "nouveau")]),
    "normalisation": lambda d, c, t: c.normalise.append("quotes"),
    "filters": lambda d, c, t: c.filters.remove("symbols"),
    "a threshold": lambda d, c, t: setattr(c, "max_words", 100),
    "vocabulary size": lambda d, c, t: setattr(t, "vocab_size", 270),
    "kind of vocabulary": lambda d, c, t: setattr(t, "kind", "unigram"),
    "languages": lambda d, c, t: c.languages.reverse(),
    "order of filters": lambda d, c, t: c.filters.insert(0, c.filters.pop(1)),
    "two vocabularies": lambda d, c, t: setattr(t, "joint", False),
    "columns": lambda d, c, t: vars(d).update(source_column="fr", target_column="en"),
    "symbols": lambda d, c, t: t.symbols.append("<x>"),
    "dropout": lambda d, c, t: setattr(t, "dropout", 0.1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_input_or_setting_changes_the_fingerprint(data, change):
    cleaning, tokenizer = CleaningConfig(max_dropped=1), TokenizerConfig(vocab_size=300)
    data.test = "test"
    write(Path(data.path), "test", VAL)
    first = run(data, tokenizer, cleaning=cleaning)
    CHANGES[change](data, cleaning, tokenizer)
    second = run(data, tokenizer, cleaning=cleaning)
    assert second.report.fingerprint != first.report.fingerprint
    assert first.folder.exists()  # what others may use stays


@pytest.mark.parametrize(
    "change", [{"max_tokens": 99}, {"num_workers": 2}, {"processes": 2}, {"length_multiple": 8}]
)
def test_settings_that_do_not_touch_the_text_reuse_it(data, change):
    assert run(replace(data, **change)).report.fingerprint == run(data).report.fingerprint


def test_the_same_files_elsewhere_are_the_same_data(data, tmp_path):
    first = run(data)
    shutil.copytree(tmp_path, tmp_path.with_name(tmp_path.name + "-copy"), dirs_exist_ok=True)
    moved = replace(data, path=str(tmp_path) + "-copy")
    assert run(moved).folder == first.folder


def test_another_vocabulary_keeps_the_cleaned_text(data):
    before = files(run(data))
    after = files(run(data, TokenizerConfig(vocab_size=280)))
    text = [path for path in before if path.parent.name == "text"]
    assert all(after[path] == before[path] for path in text)


@pytest.mark.parametrize("name", ["text/00000-000001.arrow", "ids-*/00000-000001.arrow",
                                  "ids-*/000-lengths.npy", "ids-*/vocabulary/tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "other bytes"])
def test_damaged_files_are_made_again(data, damage, name, caplog):
    first = run(data)
    [victim] = first.folder.parent.glob(name)
    if name.startswith("text"):
        (first.folder / "manifest.json").unlink()
    content = victim.read_bytes()
    if damage == "gone":
        victim.unlink()
    else:
        victim.write_bytes(content[:-5] if damage == "cut" else content[:-5] + b"12345")
    config = replace(data, verify=damage == "other bytes")
    if name.startswith("ids"):  # whoever only looks leaves all as it is
        assert module.Preparation(config, CleaningConfig(), TOKENIZER, None).find() is None
        assert victim.exists() == (damage != "gone")
    again = run(config)
    assert texts(again) == TRAIN
    assert victim.read_bytes() == content
    assert f"{victim} is damaged or missing" in caplog.text


def test_a_start_reads_nothing_of_the_shards_and_verify_reads_all(data, tmp_path, monkeypatch):
    first = run(data)
    read = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda f, k: read.append(f.name) or digest(f, k))
    run(data)
    assert read == []
    run(replace(data, verify=True))
    others = {first.folder / name for name in ("000-lengths.npy", "vocabulary/tokenizer.json")}
    source = tmp_path / "train.tsv"
    assert {*map(Path, read)} == {source, *first.shards()[0].paths, *others}


def test_a_set_of_another_version_is_prepared_anew(data, caplog):
    caplog.set_level(logging.INFO)
    first = run(data)
    manifest = first.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 1'))
    assert texts(run(data)) == TRAIN
    assert f"{first.folder} was prepared by another version of seq2seq" in caplog.text


@pytest.mark.parametrize("stop_after", [0, 1, 3, 5, 7, 9])
def test_an_interrupted_preparation_goes_on(data, stop_after, monkeypatch):
    calls = itertools.count()
    real = steps.write_table

    def stopping(*args, **options):
        if next(calls) == stop_after:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(steps, "write_table", stopping)
    monkeypatch.setattr(dedup, "write_table", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(data)
    monkeypatch.setattr(steps, "write_table", real)
    monkeypatch.setattr(dedup, "write_table", real)
    before = {path: path.stat().st_mtime_ns for path in Path(data.cache).rglob("*.arrow")}
    prepared = run(data)
    assert texts(prepared) == TRAIN
    after = files(prepared)
    assert all(after[path] == time for path, time in before.items())  # nothing twice


@pytest.mark.parametrize("where", ["vocabulary-*", "ids-*/vocabulary"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"whole?"])
def test_a_damaged_vocabulary_is_made_again(data, where, damage):
    first = run(data)
    [folder] = first.folder.parent.glob(where)
    content = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(damage or content[: len(content) // 2])
    for path in first.shards()[0].paths:
        path.unlink()
    assert texts(run(data)) == TRAIN
    assert (folder / "tokenizer.json").read_bytes() == content


def test_evaluation_text_counts_only_where_it_is_compared(data, tmp_path):
    cleaning = CleaningConfig(filters=["empty"])
    first = run(data, cleaning=cleaning)
    write(tmp_path, "val", [("new", "nouveau")])
    assert run(data, cleaning=cleaning).report.fingerprint == first.report.fingerprint


def test_evaluation_text_is_compared_as_training_text_is_cleaned(data, tmp_path):
    odd = ("the c\x9cur", "le c\x9cur bat")  # a Windows character in a file of UTF-8
    write(tmp_path, "train", [*TRAIN, odd])
    write(tmp_path, "val", [odd])
    report = run(data).report
    assert report.dropped["leakage"] == 1
    assert report.overlap == [{"split": "val", "pairs": 1, "in_training": 1}]


def test_a_member_without_test_text_does_not_keep_the_others_from_being_compared(data, tmp_path):
    write(tmp_path, "own", [VAL[0], ("quite another thing", "tout autre chose")])
    members = {
        "captions": CorpusConfig(path=data.path, train="train", val=None, test="val"),
        "own": CorpusConfig(path=data.path, train="own", val=None, test="nowhere"),
    }
    prepared = run(replace(data, path=None, train=None, val=None, members=members))
    assert prepared.report.dropped["leakage"] == 1
    (tmp_path / "val.tsv").write_bytes(b"en\tfr\n\xff\tx\n")
    with pytest.raises(DataError, match=r"val\.tsv, line 2: not UTF-8"):  # never passed over
        run(replace(data, path=None, train=None, val=None, members=members))


def test_the_report_of_a_prepared_mixture_has_the_weights_of_now(data, tmp_path):
    write(tmp_path, "more", [("quite another thing", "tout autre chose")])
    members = {name: CorpusConfig(path=data.path, train=name, val=None, test=None)
               for name in ("train", "more")}
    mixed = replace(data, train=None, members=members, weights={"more": 60})
    assert [member["share"] for member in run(mixed).report.mixture] == [0.8, 0.2]
    again = run(replace(mixed, weights={"more": 240}))
    assert [member["share"] for member in again.report.mixture] == [0.5, 0.5]
    assert read_report(again.folder) == again.report


def test_dropout_needs_a_vocabulary_with_merges(data, tmp_path):
    run(data, TokenizerConfig(kind="unigram", vocab_size=300)).vocabularies.save(tmp_path)
    settings = TokenizerConfig(path=str(tmp_path / "tokenizer.json"), dropout=0.1)
    with pytest.raises(UserError, match=r"dropout=0\.1 leaves out merges.*json has none"):
        run(data, settings)


def test_dropout_makes_segmentations_that_can_be_made_again(data):
    settings = TokenizerConfig(vocab_size=300, dropout=0.3, dropout_variants=3)
    first = run(data, settings)
    assert len(first.shards()) == 3
    ids = [next(shards.tokens(0)).tolist() for shards in first.shards()]
    assert len({tuple(variant) for variant in ids}) == 3
    for variant in range(3):
        assert texts(first, variant) == TRAIN
    victim = first.shards()[1].paths[2]
    content = victim.read_bytes()
    victim.unlink()
    run(data, settings)
    assert victim.read_bytes() == content


def test_a_vocabulary_that_is_given_is_used(data, tmp_path):
    first = run(data)
    first.vocabularies.save(tmp_path)
    other = TokenizerConfig(vocab_size=500, path=str(tmp_path / "tokenizer.json"))
    assert run(data, other).vocabularies.sizes == first.vocabularies.sizes
    again = run(data, TokenizerConfig(vocab_size=500), vocabularies=first.vocabularies)
    assert again.folder == first.folder


def test_the_vocabulary_is_learned_from_a_bounded_sample(data, monkeypatch):
    seen = []
    train = module.Vocabularies.train

    def spy(pairs, config):
        seen.extend(pairs())
        return train(pairs, config)

    monkeypatch.setattr(module.Vocabularies, "train", spy)
    run(data, TokenizerConfig(vocab_size=300, sample=60))
    assert 30 < len(seen) < 100  # on average 60
    assert set(seen) < set(TRAIN)


def test_members_of_a_mixture_stand_one_after_the_other(data, tmp_path):
    write(tmp_path, "more", [("quite another thing", "tout autre chose"), *TRAIN[:10]])
    corpora = {name: DataConfig(path=data.path, train=name, val=None, test=None)
               for name in ("train", "more")}
    mixed = replace(data, train=None, members=corpora, weights={"more": 2.5})
    prepared = run(mixed)
    assert prepared.members == [("train", 0, 240), ("more", 240, 241)]
    assert [m["weight"] for m in prepared.report.mixture] == [1, 2.5]


def test_an_empty_member_is_an_error(data, tmp_path):
    write(tmp_path, "more", TRAIN[:10])
    corpora = {name: DataConfig(path=data.path, train=name, val=None, test=None)
               for name in ("train", "more")}
    mixed = replace(data, train=None, members=corpora)
    with pytest.raises(DataError, match=r"data\.members\.more is empty: .* or all pairs that"):
        run(mixed)
    write(tmp_path, "more", [("", "vide")])
    with pytest.raises(DataError, match=r"data\.members\.more is empty: .*Look at its files"):
        run(mixed)


ENGLISH = "I do not know where the house number {n} is"
QUESTIONS = {
    "swapped columns": ("je ne sais pas où est la maison numéro {n}", ENGLISH,
                        r"99 of 100 pairs are not in .*columns swapped\?.*languages=\[fr,en\]"),
    "another language": (ENGLISH, "ich weiß nicht wo das Haus mit der Nummer {n} steht",
                         r"99 of 100 .*looks like en, de\. .*cleaning\.languages=\[en,de\]"),
    "nearly nothing left": ("<b>house {n}</b>", "<b>maison {n}</b>",
                            r"drops 200 of 201 pairs, 200 of them by the filter markup, such as"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_corpus_that_is_hardly_meant_stops_with_a_question(data, tmp_path, name):
    source, target, question = QUESTIONS[name]
    good = ("the cat is in the house of my friend", "le chat est dans la maison de mon ami")
    bad = [(source.format(n=n), target.format(n=n)) for n in range(200)]
    write(tmp_path, "train", [good, *bad])
    with pytest.raises(DataError, match=question):
        run(data)
    assert texts(run(data, cleaning=CleaningConfig(max_dropped=1.0))) == [good]


def test_losses_are_told_before_the_next_file_is_read_whole(data, tmp_path):
    write(tmp_path, "train-0", [(f"<b>house {n}</b>", f"<b>maison {n}</b>") for n in range(200)])
    (tmp_path / "train-1.tsv").write_bytes(b"en\tfr\n" + b"one\tun\n" * 60 + b"one\xff\tun\n")
    with pytest.raises(DataError, match=r"train-0\.tsv: cleaning drops 200 of 200 pairs"):
        run(replace(data, train="train-*.tsv"))


def test_short_sentences_do_not_hide_that_columns_are_swapped(data, tmp_path):
    """They are not judged, and are most of many a corpus."""
    long = [(f"je ne sais pas où est la maison {n}", ENGLISH.format(n=n)) for n in range(150)]
    short = [(f"bonjour {n}", f"hello {n}") for n in range(300)]
    write(tmp_path, "train", [*short, *long])
    with pytest.raises(DataError, match=r"\d+ of \d+ pairs are not in .*columns swapped\?"):
        run(data)


GREETINGS = [(f"le chien noir {n}", f"the black dog {n}") for n in range(1000, 1120)]


def shards_of_swapped_columns(folder: Path) -> None:
    for n in range(4):
        pairs = [(f"je ne sais pas où est la maison {i}", ENGLISH.format(n=i)) for i in range(50)]
        write(folder, f"train-{n}", pairs)


REFUSED = {  # text of a whole member, and the question
    "shards": (shards_of_swapped_columns,
               r"train-0\.tsv and 3 more: 200 of 200 pairs are not in .*columns swapped\?"),
    "duplicates": (lambda folder: write(folder, "train-0", TRAIN[:1] * 200),
                   r"drops 199 of 200 pairs, 199 of them by the filter duplicate, such"),
    "short text": (lambda folder: write(folder, "train-0", GREETINGS),
                   r"120 of 120 pairs are not in .*looks like fr, en\. .*columns swapped\?"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_member_is_judged_as_a_whole(data, tmp_path, name):
    make, question = REFUSED[name]
    make(tmp_path)
    config = replace(data, train="train-*.tsv")
    with pytest.raises(DataError, match=question):
        run(config)
    with pytest.raises(DataError, match=question):  # nor is the cleaned text that it left taken
        run(config)


FAIR = {  # short text that has no language, or both
    "names": [(f"Anna Müller {n}", f"Anna Müller {n}") for n in range(150)],
    "numbers": [(f"{n} a", f"{n} b") for n in range(150)],
    "English on both sides": [(f"Save the file {n}", f"Open the file {n}") for n in range(150)],
    "as it should be": [pair[::-1] for pair in GREETINGS],
}


@pytest.mark.parametrize("name", FAIR)
def test_short_text_is_refused_only_if_each_side_looks_like_the_other(data, tmp_path, name):
    write(tmp_path, "train", FAIR[name])
    filters = ["wrong_language", "duplicate"]
    assert run(data, cleaning=CleaningConfig(filters=filters)).report.kept == len(FAIR[name])


def test_a_corpus_of_other_languages_is_prepared(data, tmp_path):
    german = [(f"ich weiß nicht wo das Haus mit der Nummer {n} steht", ENGLISH.format(n=n))
              for n in range(150)]
    french = ("je ne sais pas où est la maison de mon ami", ENGLISH.format(n=7))
    write(tmp_path, "train", [*german, french])
    prepared = run(data, cleaning=CleaningConfig(languages=["de", "en"]))
    assert texts(prepared) == german
    assert prepared.report.dropped["wrong_language"] == 1
    with pytest.raises(ConfigError, match=r"wrong_language does not know xx\."):
        run(data, cleaning=CleaningConfig(languages=["xx", "en"]))


def test_a_fault_of_a_member_names_its_own_setting(data):
    members = {"own": CorpusConfig(path="/nonexistent", val=None, test=None)}
    place = r"own \(its own settings are data\.members\.own\.\*\)"
    with pytest.raises(DataError, match=rf"{place}: data\.path=/nonexistent is not"):
        run(replace(data, path=None, train=None, val=None, members=members))
    members["own"] = CorpusConfig(path=data.path, train="data.train.tsv", val=None, test=None)
    with pytest.raises(DataError, match=r"no corpus file .*/data\.train\.tsv "):
        run(replace(data, path=None, train=None, val=None, members=members))


def test_nothing_left_is_an_error(data, tmp_path):
    write(tmp_path, "train", [("", "vide")])
    command = (
        rf"\(empty 1\)\. .*prepare data=files data\.path={tmp_path} data\.name=mine "
        r"data\.test=null cleaning=none shows"
    )
    with pytest.raises(DataError, match=rf"data=mine has no usable train pair: .*{command}"):
        run(data)
    write(tmp_path, "train", [])
    with pytest.raises(DataError, match=r"no usable train pair: there is no text in \S*train\.tsv"):
        run(data)


def test_a_full_disk_is_said_and_what_is_done_stays(data, monkeypatch):
    calls, real = itertools.count(), steps.write_table

    def full(*args, **options):
        if next(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    monkeypatch.setattr(steps, "write_table", full)
    with pytest.raises(DataError, match=r"No space left.*What is done stays.*data\.cache=FOLDER"):
        run(data)
    assert len([*Path(data.cache).rglob("*.arrow")]) == 2


def test_a_cache_that_cannot_be_written_is_an_error(data, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"cannot be prepared.*data\.cache=FOLDER"):
        run(replace(data, cache=str(tmp_path / "file")))


def test_missing_test_text_is_said_and_not_fatal(data, caplog):
    with caplog.at_level(logging.WARNING):
        run(replace(data, test="newstest"))
    assert "training text is not compared with test text of mine: no corpus file" in caplog.text


def hold(data, started, done) -> None:
    work = module.Preparation(data, CleaningConfig(), TOKENIZER, None)
    work.folder.mkdir(parents=True)
    with lock(work.folder / "lock", lambda: None):
        started.set()
        done.wait(20)


def test_a_second_process_waits_for_the_first(data, caplog):
    context = multiprocessing.get_context("spawn")
    started, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(data, started, done))
    other.start()
    assert started.wait(30)
    threading.Timer(1.0, done.set).start()
    with caplog.at_level(logging.INFO):
        assert texts(run(data)) == TRAIN
    other.join()
    assert done.is_set()
    assert "another process prepares the same data" in caplog.text


def test_the_manifest_says_what_is_there_and_what_decided_it(data):
    prepared = run(data)
    said = json.loads((prepared.folder / "manifest.json").read_text())
    assert (said["pairs"], said["members"]) == (240, [["mine", 0, 240]])
    assert said["fingerprint"] == prepared.report.fingerprint
    assert said["settings"]["cleaning"]["max_words"] == 200
    assert said["versions"]["tokenizers"]
    for file in said["files"]:
        content = (prepared.folder / file["file"]).read_bytes()
        assert len(content) == file["bytes"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"]


def test_verify_reads_the_sources_too(data, tmp_path):
    """One may have the size and the time of the file that it replaced."""
    path = tmp_path / "train.tsv"
    first, state = run(data), path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("houses", "horses"), encoding="utf-8")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert run(data).folder == first.folder
    assert texts(run(replace(data, verify=True)))[0] == (TRAIN[0][0].replace("u", "r"), TRAIN[0][1])


def test_duplicates_are_listed_with_the_text_and_found_again_if_damaged(data, tmp_path):
    write(tmp_path, "train", [*TRAIN, *TRAIN[:30]])
    text = run(data).folder.parent / "text"
    listed = json.loads((text / "manifest.json").read_text())["files"]
    assert {file["file"] for file in listed} == {path.name for path in text.glob("*.arrow")}
    victim = text / "duplicates.arrow"
    content = victim.read_bytes()
    rows, others = np.arange(40, 50).tobytes(), np.arange(30, 40).tobytes()  # of the fifth part
    assert content.count(rows) == 1
    victim.write_bytes(content.replace(rows, others))
    again = run(replace(data, verify=True), TokenizerConfig(vocab_size=280))
    assert victim.read_bytes() == content
    assert texts(again) == TRAIN


def test_what_killed_preparations_left_half_written_is_removed(data):
    first = run(data)
    [vocabulary] = first.folder.parent.glob("vocabulary-*")
    folders = (first.folder.parent / "text", vocabulary, first.folder, first.folder / "vocabulary")
    left = [folder / "a.0123abcd.partial" for folder in folders]
    for path in left:
        path.touch()
    (first.folder / "manifest.json").unlink()
    assert texts(run(data)) == TRAIN
    assert not any(path.exists() for path in left)
