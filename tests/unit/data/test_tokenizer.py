"""Text goes through the tokenizer and back unchanged, whatever it is."""

from __future__ import annotations

import json

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seq2seq.data.tokenizer import BOS, EOS, PAD, SPECIAL_TOKENS, Tokenizer
from seq2seq.errors import UserError

TEXTS = [
    "The old house stands by the river.",
    "La vieille maison est au bord de la rivière.",
    "I have 12 apples and 12 pears, 2026.",
    "J'ai 12 pommes et 12 poires, 2026.",
] * 20
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 400)


@settings(max_examples=300, deadline=None, database=None)
@given(ANY_TEXT)
@example("")
@example(" ")
@example("   three before and after   ")
@example("a  b   c")
@example("\n\nline\nbreaks\r\n")
@example("👩‍👩‍👧 e\u0301 \u200b\ufeff")
@example("\x00 \x1f \x7f")
@example("<s>a</s> <pad>")
@example("٣ ½ Ⅷ 12")
def test_decode_undoes_encode(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


@given(st.lists(ANY_TEXT, max_size=6))
@settings(max_examples=50, deadline=None, database=None)
def test_a_text_has_the_same_ids_alone_and_in_a_list(tokenizer, texts):
    assert tokenizer.encode(texts) == [tokenizer.encode([text])[0] for text in texts]


@given(ANY_TEXT.map(lambda text: text + "</s>") | st.sampled_from(SPECIAL_TOKENS) | ANY_TEXT)
@settings(max_examples=100, deadline=None, database=None)
def test_no_text_becomes_a_special_id(tokenizer, text):
    [ids] = tokenizer.encode([text])
    assert not {PAD, BOS, EOS} & set(ids)
    assert all(0 <= i < tokenizer.vocab_size for i in ids)


def test_special_ids_stand_where_the_model_expects_them(tokenizer):
    assert [tokenizer.backend.token_to_id(token) for token in ("<pad>", "<s>", "</s>")] == [0, 1, 2]
    assert (PAD, BOS, EOS) == (0, 1, 2)


def test_special_ids_are_left_out_of_text(tokenizer):
    [ids] = tokenizer.encode(["the house"])
    assert tokenizer.decode([[BOS, *ids, EOS, PAD, PAD]]) == ["the house"]


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    odd = [*TEXTS[:4], "  </s> <pad> 3.14 naïve 😀\n"]
    assert loaded.backend.get_vocab() == tokenizer.backend.get_vocab()
    assert loaded.encode(odd) == tokenizer.encode(odd)
    assert loaded.decode(loaded.encode(odd)) == odd


def test_training_twice_gives_the_same_vocabulary(tokenizer):
    assert Tokenizer.train(TEXTS, 400).backend.get_vocab() == tokenizer.backend.get_vocab()


@pytest.mark.parametrize("digits", ["7", "2026", "3.14159", "x86", "12 12"])
def test_every_digit_is_a_token_of_its_own(tokenizer, digits):
    pieces = [tokenizer.backend.id_to_token(i) for i in tokenizer.encode([digits])[0]]
    holding = [piece for piece in pieces if any(map(str.isdigit, piece))]
    assert holding == [c for c in digits if c.isdigit()]


@pytest.mark.parametrize("size", [260, 300, 330])
def test_the_vocabulary_is_as_large_as_asked_where_the_text_allows(size):
    assert Tokenizer.train(TEXTS, size).vocab_size == size


def test_a_small_text_gives_a_smaller_vocabulary():
    assert Tokenizer.train(["a b"], 5000).vocab_size == 256 + len(SPECIAL_TOKENS)


def test_a_word_has_the_same_ids_at_the_start_and_inside(tokenizer):
    for word in ("house", "rivière", "zebra"):
        start, inside, before = tokenizer.encode([word, f"The {word}", "The"])
        assert inside == before + start


def test_frequent_words_become_single_tokens(tokenizer):
    assert [len(ids) for ids in tokenizer.encode(["house", "maison"])] == [1, 1]


def test_a_foreign_tokenizer_is_refused(tmp_path):
    file = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(file))
    with pytest.raises(
        UserError, match=r"tokenizer\.json is not a tokenizer of this project: <pad>"
    ):
        Tokenizer.load(file)


def test_special_tokens_in_another_order_are_refused(tokenizer, tmp_path):
    file = tmp_path / "tokenizer.json"
    tokenizer.save(file)
    content = json.loads(file.read_text())
    vocab = content["model"]["vocab"]
    vocab["<s>"], vocab["</s>"] = vocab["</s>"], vocab["<s>"]
    for token in content["added_tokens"]:
        token["id"] = vocab[token["content"]]
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"<s> should be token 1, but is 2"):
        Tokenizer.load(file)


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_an_unreadable_tokenizer_is_named(content, tmp_path):
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=r"cannot read the tokenizer \S*tokenizer\.json: .*Give a"):
        Tokenizer.load(file)
