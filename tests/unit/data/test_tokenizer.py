"""Text goes through the tokenizer and back unchanged, whatever it is."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, normalizers

from seq2seq.data.tokenizer import BOS, EOS, PAD, PRE_TOKENIZER, SPECIAL_TOKENS, WORDS, Tokenizer
from seq2seq.errors import UserError

TEXTS = [
    "The old house stands by the river.",
    "La vieille maison est au bord de la rivière.",
    "I have 12 apples and 12 pears, 2026.",
    "J'ai 12 pommes et 12 poires, 2026.",
] * 20
KINDS = ("bpe", "unigram", "byte")
# Symbols that overlap, contain each other, or look like bytes in disguise.
SYMBOLS = ("<name>", "<name>s", "⟨x⟩", "@@URL@@", "«nom»", "<na", "l'", "deux mots")
# Characters that all versions of Unicode tables know, so that they cut words alike.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=40)
MIXED_TEXT = st.lists(st.sampled_from(SYMBOLS) | st.sampled_from(" s<>1é") | ANY_TEXT).map("".join)
STARTER = Path(__file__).parents[3] / "data" / "starter"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 400)


@pytest.fixture(scope="module")
def kinds() -> dict[str, Tokenizer]:
    """A tokenizer of each kind, with symbols."""
    return {kind: Tokenizer.train(TEXTS, 300, kind, SYMBOLS) for kind in KINDS}


def by_the_library(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    spaced = [text and " " + text for text in texts]
    encodings = tokenizer.backend.encode_batch_fast(spaced, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def starter_texts() -> list[str]:
    packed = gzip.decompress((STARTER / "train.tsv.gz").read_bytes()).decode()
    files = [packed, *((STARTER / f"{name}.tsv").read_text() for name in ("val", "test"))]
    return [text for file in files for line in file.splitlines() for text in line.split("\t")]


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
    with pytest.raises(UserError, match=r"tokenizer\.json is not a tokenizer of this project"):
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
    with pytest.raises(UserError, match=r"is not a tokenizer of this project"):
        Tokenizer.load(file)


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_an_unreadable_tokenizer_is_named(content, tmp_path):
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=r"cannot read the tokenizer \S*tokenizer\.json: .*Give a"):
        Tokenizer.load(file)


def test_a_tokenizer_that_cuts_words_otherwise_is_refused(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["pre_tokenizer"] = {"type": "Whitespace"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"cuts text into words in another way"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_files_of_before_there_were_symbols_encode_as_they_did(tokenizer, tmp_path):
    older = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    older.normalizer = normalizers.Prepend(" ")
    older.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Strip(content=" ", left=1, right=0)]
    )
    older.save(str(tmp_path / "tokenizer.json"))
    older.encode_special_tokens = True
    texts = [*TEXTS[:4], "  </s> <pad> 3.14 naïve 😀\n", " ", "x"]
    ids = [encoding.ids for encoding in older.encode_batch(texts, add_special_tokens=False)]
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.encode(texts) == ids
    assert loaded.decode(ids) == older.decode_batch(ids)


# Kinds and symbols


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200, deadline=None, database=None)
@given(MIXED_TEXT)
@example("")
@example("   <name>")
@example("<name> <name>s<name></s> l'l' deux mots⟨x⟩ ")
@example("\x00@@URL@@\n👩‍👩‍👧«nom»é 12")
def test_every_kind_is_lossless_around_symbols(kinds, kind, text):
    tokenizer = kinds[kind]
    [ids] = tokenizer.encode([text])
    assert tokenizer.decode([ids]) == [text]
    assert not {PAD, BOS, EOS} & set(ids)
    assert by_the_library(tokenizer, [text]) == [ids]


@pytest.mark.parametrize("kind", KINDS)
def test_a_symbol_is_one_token_wherever_it_stands(kinds, kind):
    tokenizer = kinds[kind]
    for symbol in SYMBOLS:
        own = tokenizer.backend.token_to_id(symbol)
        assert own >= tokenizer.vocab_size - len(SYMBOLS)
        for text in (symbol, f"a{symbol}", f"{symbol}a", f"- {symbol} -", f"1{symbol}1"):
            assert tokenizer.encode([text])[0].count(own) == 1
        assert tokenizer.encode([symbol * 3])[0][-3:] == [own] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_are_no_part_of_what_is_learned_nor_of_its_size(kind):
    size = 259 if kind == "byte" else 280
    plain = Tokenizer.train(TEXTS, size, kind)
    marked = Tokenizer.train([f"{text}<name>" for text in TEXTS], size, kind, ["<name>"])
    learned = {t: i for t, i in marked.backend.get_vocab().items() if t != "<name>"}
    assert learned == plain.backend.get_vocab()
    assert marked.backend.token_to_id("<name>") == plain.vocab_size


@pytest.mark.parametrize("symbol", ["é", "a", "</s>", "Ġ"])
def test_a_symbol_that_is_the_name_of_a_token_is_refused(symbol):
    with pytest.raises(UserError, match=rf"the symbol '{symbol}' is .*such as <{symbol}>"):
        Tokenizer.train(TEXTS, 300, symbols=[symbol])


def test_a_symbol_given_twice_is_refused():
    with pytest.raises(UserError, match=r"'<x>' is another token's name, or named twice"):
        Tokenizer.train(TEXTS, 300, symbols=["<x>", "<x>"])


def test_bytes_are_tokens_of_their_own(kinds):
    tokenizer = Tokenizer.train(TEXTS, 259, "byte")
    assert tokenizer.vocab_size == 256 + len(SPECIAL_TOKENS)
    for text in ("house", "é 日本 12", "👩‍👩‍👧"):
        assert len(tokenizer.encode([text])[0]) == len(text.encode()) + 1  # the space in front


@pytest.mark.parametrize("size", [259, 260, 266])
def test_a_unigram_vocabulary_holds_all_bytes_and_no_more_than_asked(size):
    vocabulary = Tokenizer.train(TEXTS, size, "unigram").backend.get_vocab()
    assert len(vocabulary) == size
    assert vocabulary.keys() >= set(tokenizers.pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize("kind", KINDS)
def test_training_again_gives_the_same_file(kinds, kind):
    again = Tokenizer.train(iter(TEXTS), 300, kind, SYMBOLS)
    assert again.backend.to_str() == kinds[kind].backend.to_str()


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_processes_have_the_same_symbols(kinds, kind, tmp_path):
    kinds[kind].save(tmp_path / "tokenizer.json")
    text = ["<name> reads l'⟨x⟩, </s>  deux mots 12"]
    copies = Tokenizer.load(tmp_path / "tokenizer.json"), pickle.loads(pickle.dumps(kinds[kind]))
    for copy in copies:
        assert copy.encode(text) == kinds[kind].encode(text)
        assert copy.decode(copy.encode(text)) == text


# Words, one by one


@pytest.mark.parametrize("kind", KINDS)
def test_the_starter_corpus_is_encoded_as_by_the_library(kind):
    texts = starter_texts()[::9]  # both languages, which alternate; all of it would take long
    assert len(texts) > 10_000
    tokenizer = Tokenizer.train(texts[:4000], 1000 if kind != "byte" else 259, kind)
    assert tokenizer.encode(texts) == by_the_library(tokenizer, texts)


def test_words_are_cut_around_every_character_as_by_the_library():
    # Assigned long ago: tables of Unicode differ in age, and so in what the newest letters are.
    known = [
        chr(i)
        for i in (*range(0xD800), *range(0xE000, 0x30000))
        if unicodedata.ucd_3_2_0.category(chr(i)) != "Cn" or 0x1F300 <= i < 0x1F700
    ]
    assert len(known) > 50_000
    for start in range(0, len(known), 64):
        text = "".join(f"a{c}b-{c}-  {c} 1{c} '{c}s{c}{c}" for c in known[start : start + 64])
        spans = [span for _, span in PRE_TOKENIZER.pre_tokenize_str(text)]
        assert [match.span() for match in WORDS.finditer(text)] == spans


# Dropout


def test_dropout_changes_ids_and_never_the_text(kinds):
    tokenizer, texts = kinds["bpe"], [*TEXTS, "<name> </s> 日本  l'été", ""]
    plain, varied = tokenizer.encode(texts), tokenizer.encode(texts, 0.3, random.Random(0))
    assert tokenizer.decode(varied) == texts
    assert varied != plain
    assert len({tuple(ids) for ids in varied[:80:4]}) > 1  # the same text, drawn anew each time
    assert sum(map(len, varied)) > sum(map(len, plain))


def test_dropout_is_drawn_from_the_generator_alone(kinds):
    first, second, other = (
        kinds["bpe"].encode(TEXTS, 0.3, random.Random(seed)) for seed in (0, 0, 1)
    )
    assert first == second != other


def test_dropout_leaves_symbols_whole_and_bytes_at_its_end(kinds):
    [ids] = kinds["bpe"].encode(["été <name>"], 1.0, random.Random(0))
    assert ids == kinds["byte"].encode(["été "])[0] + [kinds["bpe"].backend.token_to_id("<name>")]


def test_dropout_leaves_no_trace(kinds):
    tokenizer = kinds["bpe"]
    file, before = tokenizer.backend.to_str(), tokenizer.encode(TEXTS)
    tokenizer.encode(TEXTS, 0.5, random.Random(0))
    assert (tokenizer.backend.to_str(), tokenizer.encode(TEXTS)) == (file, before)


@pytest.mark.parametrize(("kind", "rng"), [("bpe", None), ("unigram", random.Random(0))])
def test_dropout_that_cannot_be_is_refused(kinds, kind, rng):
    with pytest.raises(ValueError, match="needs a random generator and byte-pair encoding"):
        kinds[kind].encode(["a"], 0.1, rng)
