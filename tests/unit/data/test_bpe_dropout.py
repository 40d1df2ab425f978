"""BPE-dropout draws segmentations as often as the paper's algorithm does."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from seq2seq.data.bpe_dropout import BpeDropout, byte_characters

MERGES = [("a", "b"), ("b", "a"), ("ab", "ab"), ("b", "c"), ("ab", "c"), ("c", "a"), ("a", "bc")]
DRAWS = 20_000


@pytest.fixture(scope="module")
def backend() -> Tokenizer:
    tokens = [*byte_characters(), *("".join(pair) for pair in MERGES)]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    backend = Tokenizer(models.BPE(vocab, MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return backend


def by_the_paper(split: Sequence[str], p: float) -> dict[tuple[str, ...], float]:
    """How probable each final split is: algorithm 1, over all choices of what is dropped."""
    merges = [i for i, pair in enumerate(pairwise(split)) if pair in MERGES]
    result: dict[tuple[str, ...], float] = defaultdict(float)
    for kept in product([False, True], repeat=len(merges)):
        chance = p ** kept.count(False) * (1 - p) ** kept.count(True)
        left = [i for i, is_kept in zip(merges, kept, strict=True) if is_kept]
        if not left:
            result[tuple(split)] += chance
            continue
        i = min(left, key=lambda i: (MERGES.index((split[i], split[i + 1])), i))
        merged = [*split[:i], split[i] + split[i + 1], *split[i + 2 :]]
        for final, then in by_the_paper(merged, p).items():
            result[final] += chance * then
    return result


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("word", ["abc", "ababc", "cabab"])
def test_splits_are_as_frequent_as_the_paper_says(word, p, backend):
    bpe, rng = BpeDropout(backend), random.Random(0)
    drawn = Counter(bpe.segment(word, p, rng) for _ in range(DRAWS))
    expected = by_the_paper(word, p)
    assert sum(expected.values()) == pytest.approx(1)
    ids = {split: tuple(map(backend.token_to_id, split)) for split in expected}
    assert drawn.keys() <= set(ids.values())
    for split, chance in expected.items():
        deviation = (chance * (1 - chance) / DRAWS) ** 0.5
        assert drawn[ids[split]] / DRAWS == pytest.approx(chance, abs=5 * deviation + 1e-9)


@pytest.mark.parametrize("word", ["", "a", "abc", "ababcab", "xéy", "日本", "cab" * 20])
def test_without_dropout_it_is_the_library(word, backend):
    ids = BpeDropout(backend).segment(word, 0.0, random.Random(0))
    assert list(ids) == backend.encode(word).ids


def test_long_words_are_drawn_like_short_ones(backend, monkeypatch):
    expected = by_the_paper("ababc", 0.5)
    monkeypatch.setattr("seq2seq.data.bpe_dropout.LONGEST", 4)
    bpe, rng = BpeDropout(backend), random.Random(0)
    drawn = Counter(bpe.segment("ababc", 0.5, rng) for _ in range(DRAWS))
    for split, chance in expected.items():
        ids = tuple(map(backend.token_to_id, split))
        assert drawn[ids] / DRAWS == pytest.approx(chance, abs=0.02)


@pytest.mark.parametrize("word", ["", "abc", "ababcab", "xéy", "ab" * 50])
def test_with_all_merges_dropped_only_bytes_are_left(word, backend):
    ids = BpeDropout(backend).segment(word, 1.0, random.Random(0))
    assert list(ids) == list(word.encode())


def test_every_byte_has_the_character_that_the_library_gives_it():
    characters = byte_characters()
    assert set(characters) == set(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in map(chr, [*range(0x800), 0x20AC, 0xFFFD, 0x1F600, 0x10FFFF]):
        [(shown, _)] = split.pre_tokenize_str(text)
        assert shown == "".join(characters[byte] for byte in text.encode())
