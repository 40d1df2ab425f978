"""Subword tokenizer: text <-> token ids, losslessly, for both languages at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from seq2seq.errors import UserError

PAD, BOS, EOS = 0, 1, 2
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>")

# Said here, because the library warns when loader workers fork after it has run; they never use it.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


class Tokenizer:
    """Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019).

    Every text can be encoded, since its parts go down to bytes, and `decode(encode(text))` is
    the text itself. A space in front of the text makes a word the same token wherever it
    stands; decoding takes that space away. Digits are tokens of their own, so that numbers are
    copied digit by digit.
    """

    def __init__(self, backend: tokenizers.Tokenizer):
        self.backend = backend
        # A text that contains "</s>" is encoded as those characters, not as the special token.
        backend.encode_special_tokens = True

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Learn a joint vocabulary of at most `vocab_size` tokens from texts of both languages."""
        backend = tokenizers.Tokenizer(models.BPE())
        backend.normalizer = normalizers.Prepend(" ")
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        backend.decoder = decoders.Sequence(
            [decoders.ByteLevel(), decoders.Strip(content=" ", left=1, right=0)]
        )
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(texts, trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a `tokenizer.json`.

        Raises:
            UserError: the file is missing, damaged, or lacks our special tokens.
        """
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception for everything
            raise UserError(
                f"cannot read the tokenizer {path}: {error}. "
                "Give a tokenizer.json that a run of this project wrote"
            ) from error
        for index, token in enumerate(SPECIAL_TOKENS):
            if backend.token_to_id(token) != index:
                raise UserError(
                    f"{path} is not a tokenizer of this project: {token} should be token {index}, "
                    f"but is {backend.token_to_id(token)}"
                )
        return cls(backend)

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json`, whole or not at all."""
        path = Path(path)
        partial = path.with_suffix(".partial")
        partial.write_text(self.backend.to_str(pretty=True), encoding="utf-8")
        partial.replace(path)

    @property
    def vocab_size(self) -> int:
        return self.backend.get_vocab_size()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without start or end marks."""
        encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, batch: Iterable[list[int]]) -> list[str]:
        """The texts of lists of ids; special tokens are left out."""
        return self.backend.decode_batch(list(batch), skip_special_tokens=True)
