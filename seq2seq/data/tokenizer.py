"""Subword tokenizer: any text <-> token ids, without loss."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import regex
import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, trainers

from seq2seq.config import BYTE_VOCABULARY
from seq2seq.data.bpe_dropout import BpeDropout, byte_characters
from seq2seq.errors import UserError
from seq2seq.files import replace_text

PAD, BOS, EOS = 0, 1, 2
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>")

# Set here, because the library warns if loader workers fork after it has run; they do not use it.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

PRE_TOKENIZER = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
)
# One expression for the words that PRE_TOKENIZER cuts a text into: each digit is a word, and all
# space before a digit is one word, like space at the end of the text.
WORDS = regex.compile(
    r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
)
CACHED_WORDS = 2**17  # about 30 MB; natural text has few other words


class Tokenizer:
    """Byte-level subwords: byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019), a
    unigram language model (Kudo 2018), or the bytes themselves.

    Every text can be encoded, since the smallest tokens are bytes, and `decode(encode(text))` is
    the text itself. A space in front of the text makes a word the same token wherever it occurs;
    decoding removes that space. Digits are tokens of their own, so that numbers are copied digit
    by digit.

    A word's ids do not depend on its neighbours, so a cache keeps them; only words that the cache
    lacks go through the library. This is three times as fast.
    """

    def __init__(self, backend: tokenizers.Tokenizer):
        # Older files add the space in front here. `encode` adds it instead, since the pieces of
        # text around a symbol are encoded separately, and each piece would get a space.
        backend.normalizer = None
        # A text that contains "</s>" is encoded as those characters, not as the special token.
        backend.encode_special_tokens = True
        self.backend = backend
        added = backend.get_added_tokens_decoder()
        self._symbols = {t.content: i for i, t in added.items() if i >= len(SPECIAL_TOKENS)}
        self._cut = _cutter(self._symbols)
        self._ids = lru_cache(CACHED_WORDS)(self._find_ids)
        self._bytes = _token_bytes(backend)

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[tokenizers.Tokenizer]]:
        return Tokenizer, (self.backend,)  # a worker begins with an empty cache

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        kind: str = "bpe",
        symbols: Sequence[str] = (),
    ) -> Tokenizer:
        """Learn a vocabulary.

        Args:
            texts: of one language or several; read once.
            vocab_size: largest number of tokens, symbols not counted.
            kind: bpe, unigram or byte; a vocabulary of bytes is not learned.
            symbols: texts that become one token each wherever they occur.

        Raises:
            UserError: a symbol cannot be told from another token.
        """
        backend = tokenizers.Tokenizer(models.Unigram() if kind == "unigram" else models.BPE())
        backend.pre_tokenizer = PRE_TOKENIZER
        if kind == "byte" or vocab_size <= BYTE_VOCABULARY:
            vocab_size, texts = BYTE_VOCABULARY, ()
        # Nothing is learned from symbols, so no token holds a piece of one.
        cut = _cutter(symbols)
        pieces = (piece for text in texts for piece in cut(" " + text) if piece not in symbols)
        backend.train_from_iterator(pieces, _trainer(kind, vocab_size))
        if kind == "unigram":
            backend.model = _reproducible(backend)
        for symbol in symbols:
            if backend.token_to_id(symbol) is not None:
                raise UserError(
                    f"the symbol {symbol!r} is another token's name, or named twice: "
                    f"choose another, such as <{symbol}>"
                )
            backend.add_tokens([AddedToken(symbol, normalized=False, special=False)])
        return cls(backend)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a `tokenizer.json`.

        Raises:
            UserError: the file is missing, damaged, or not of this project.
        """
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception for everything
            raise UserError(
                f"cannot read the tokenizer {path}: {error}. "
                "Give a tokenizer.json that a run of this project wrote"
            ) from error
        special = [backend.token_to_id(token) for token in SPECIAL_TOKENS]
        if special != [PAD, BOS, EOS] or str(backend.pre_tokenizer) != str(PRE_TOKENIZER):
            raise UserError(
                f"{path} is not a tokenizer of this project: it has other special tokens, or cuts "
                "text into words in another way. Give a tokenizer.json that a run of this project "
                "wrote"
            )
        return cls(backend)

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json` atomically."""
        replace_text(Path(path), self.backend.to_str(pretty=True))

    def to_json(self) -> str:
        """Return the tokenizer as JSON."""
        return self.backend.to_str()

    @property
    def symbols(self) -> list[str]:
        """Texts that are one token each wherever they occur."""
        return list(self._symbols)

    @property
    def vocab_size(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def has_merges(self) -> bool:
        """Whether this is a byte-pair encoding with merges."""
        return bool(json.loads(self.backend.to_str())["model"].get("merges"))

    def encode(
        self, texts: Iterable[str], dropout: float = 0.0, rng: random.Random | None = None
    ) -> list[list[int]]:
        """Return the token ids of each text, without start or end marks.

        Args:
            texts: any texts.
            dropout: probability of leaving out a merge of byte-pair encoding (BPE-dropout), for
                training only.
            rng: draws the merges to leave out; needed for dropout.

        Raises:
            ValueError: dropout without `rng`, or for a vocabulary that has no merges.
        """
        ids_of: Callable[[str], tuple[int, ...]] = self._ids
        if dropout:
            if rng is None or not isinstance(self.backend.model, models.BPE):
                raise ValueError("dropout needs a random generator and byte-pair encoding")
            ids_of = partial(self._varied_ids, dropout, rng)
        return [list(chain.from_iterable(map(ids_of, self._words(text)))) for text in texts]

    def decode(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """Return the texts of lists of ids; special tokens are left out."""
        texts = (b"".join(map(self._bytes.__getitem__, ids)) for ids in batch)
        return [text.decode("utf-8", "replace").removeprefix(" ") for text in texts]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return each token as text for people: ▁ for a space, special tokens by their names."""
        special = dict(enumerate(SPECIAL_TOKENS))
        return [
            special.get(i) or self._bytes[i].decode("utf-8", "replace").replace(" ", "▁")
            for i in ids
        ]

    def names(self) -> list[str]:
        """Return the name of each token in the vocabulary file, by id; no two names are equal."""
        return [str(self.backend.id_to_token(i)) for i in range(self.vocab_size)]

    def ends(self, ids: Iterable[int]) -> list[int]:
        """Return where each token ends in `decode(encode(text))`, in characters.

        The space in front of the text does not count. If a character spans several tokens, each of
        them ends where the character ends.
        """
        end, found = -1, []
        for i in ids:
            end += sum(byte & 0xC0 != 0x80 for byte in self._bytes[i])  # first bytes of characters
            found.append(max(end, 0))
        return found

    def _words(self, text: str) -> list[str]:
        """Cut a text into words and symbols; an empty text has none."""
        if not text:
            return []
        words: list[str] = []
        for piece in self._cut(" " + text):
            words += (piece,) if piece in self._symbols else WORDS.findall(piece)
        return words

    def _find_ids(self, word: str) -> tuple[int, ...]:
        if word in self._symbols:
            return (self._symbols[word],)
        return tuple(self.backend.encode(word, add_special_tokens=False).ids)

    def _varied_ids(self, dropout: float, rng: random.Random, word: str) -> tuple[int, ...]:
        return self._ids(word) if word in self._symbols else self._bpe.segment(word, dropout, rng)

    @cached_property
    def _bpe(self) -> BpeDropout:
        return BpeDropout(self.backend)


def _cutter(symbols: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that cuts out symbols; where several begin, it cuts out the longest."""
    ordered = sorted(symbols, key=len, reverse=True)
    if not ordered:
        return lambda text: [text]
    return re.compile(f"({'|'.join(map(re.escape, ordered))})").split


def _trainer(kind: str, vocab_size: int) -> trainers.Trainer:
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(SPECIAL_TOKENS),
        "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),
        "show_progress": False,
    }
    if kind == "unigram":
        return trainers.UnigramTrainer(**common)
    return trainers.BpeTrainer(min_frequency=2, **common)


def _reproducible(backend: tokenizers.Tokenizer) -> models.Unigram:
    """Remove from the learned model what depends on the order of hash tables: the last bits of
    scores, and the order of the bytes that were never seen.

    The library spreads these bytes over 256 steps of 0.0001 above the lowest score; here they all
    get the lowest score.
    """
    vocab = json.loads(backend.to_str())["model"]["vocab"][len(SPECIAL_TOKENS) :]
    # Without any text there are no scores.
    scores = {piece: 0.0 if score is None else round(score, 6) for piece, score in vocab}
    lowest = min(scores.values())
    for piece, score in scores.items():
        if len(piece) == 1 and score < lowest + 0.0257:
            scores[piece] = lowest
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return models.Unigram([(token, 0.0) for token in SPECIAL_TOKENS] + ordered, None)


def _token_bytes(backend: tokenizers.Tokenizer) -> list[bytes]:
    """Return the bytes that each id stands for, by id; none for special tokens."""
    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    added = backend.get_added_tokens_decoder()
    table = [b""] * backend.get_vocab_size()
    for token, i in backend.get_vocab().items():
        if i in added:
            table[i] = b"" if added[i].special else token.encode()
        else:
            table[i] = bytes(byte_of[character] for character in token)
    return table
