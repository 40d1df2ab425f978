"""Vocabularies are learned from the right side, and come back from their folder."""

from __future__ import annotations

import pickle

import pytest

from seq2seq.config import TokenizerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import UserError

PAIRS = [("the house is big", "la maison est grande"), ("the old house", "la vieille maison")] * 10


def learn(**changes) -> Vocabularies:
    config = TokenizerConfig(**{"vocab_size": 300, **changes})
    return Vocabularies.train(lambda: iter(PAIRS), config)


@pytest.fixture(scope="module")
def separate() -> Vocabularies:
    return learn(joint=False)


@pytest.fixture(scope="module")
def joint() -> Vocabularies:
    return learn()


def pieces(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode([text])[0])


def test_one_vocabulary_knows_both_languages(joint):
    assert joint.joint
    assert joint.source is joint.target
    assert [pieces(joint.source, word) for word in ("house", "maison")] == [1, 1]


def test_two_vocabularies_know_a_language_each(separate):
    assert not separate.joint
    assert pieces(separate.source, "house") == pieces(separate.target, "maison") == 1
    assert pieces(separate.source, "maison") > 2 < pieces(separate.target, "house")


def test_a_vocabulary_of_one_side_is_that_of_its_texts_alone(separate):
    alone = Tokenizer.train([target for _, target in PAIRS], 300)
    assert separate.target.backend.get_vocab() == alone.backend.get_vocab()
    assert separate.sizes == (separate.source.vocab_size, alone.vocab_size)


@pytest.mark.parametrize(("want_joint", "times"), [(True, 1), (False, 2)])
def test_the_text_is_read_once_for_each_vocabulary_and_never_kept(want_joint, times):
    calls = []

    def pairs():
        calls.append(None)
        yield from PAIRS

    Vocabularies.train(pairs, TokenizerConfig(vocab_size=300, joint=want_joint))
    assert len(calls) == times


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte"])
def test_all_settings_reach_both_tokenizers(kind):
    size = 259 if kind == "byte" else 265
    learned = learn(kind=kind, vocab_size=size, joint=False, symbols=["<name>"])
    for side, tokenizer in enumerate((learned.source, learned.target)):
        alone = Tokenizer.train([pair[side] for pair in PAIRS], size, kind, ["<name>"])
        assert tokenizer.backend.to_str() == alone.backend.to_str()


@pytest.mark.parametrize("name", ["joint", "separate"])
def test_saved_vocabularies_come_back(name, request, tmp_path):
    saved = request.getfixturevalue(name)
    saved.save(tmp_path)
    loaded = Vocabularies.load(tmp_path)
    assert loaded.joint == saved.joint
    assert loaded.content_hash() == saved.content_hash()
    for before, after in ((saved.source, loaded.source), (saved.target, loaded.target)):
        assert after.backend.get_vocab() == before.backend.get_vocab()


def test_the_last_ones_saved_are_loaded(joint, separate, tmp_path):
    for saved in (joint, separate, joint):
        saved.save(tmp_path)
        assert Vocabularies.load(tmp_path).content_hash() == saved.content_hash()


def test_one_file_is_a_joint_vocabulary(joint, tmp_path):
    joint.source.save(tmp_path / "mine.json")
    loaded = Vocabularies.load(tmp_path / "mine.json")
    assert loaded.joint
    assert loaded.content_hash() == joint.content_hash()


def test_other_content_has_another_hash(joint, separate):
    swapped = Vocabularies(separate.target, separate.source)
    doubled = Vocabularies(joint.source, learn().source)  # equal, but two of them
    different = (joint, separate, swapped, doubled, learn(symbols=["<name>"]))
    assert len({v.content_hash() for v in different}) == len(different)
    assert learn().content_hash() == joint.content_hash()


def test_another_process_has_them_as_they_are(joint, separate):
    for before in (joint, separate):
        after = pickle.loads(pickle.dumps(before))
        assert (after.joint, after.content_hash()) == (before.joint, before.content_hash())


def test_what_is_missing_is_named(separate, tmp_path):
    with pytest.raises(UserError, match=r"no vocabulary: tokenizer\.json missing\. Give a token"):
        Vocabularies.load(tmp_path)
    separate.source.save(tmp_path / "tokenizer.source.json")
    with pytest.raises(UserError, match=r"no vocabulary: tokenizer\.target\.json missing"):
        Vocabularies.load(tmp_path)
    with pytest.raises(UserError, match=r"cannot read the tokenizer \S*nowhere"):
        Vocabularies.load(tmp_path / "nowhere")
