"""Tokenizer of imported models: SentencePiece (Kudo and Richardson 2018) with Marian's ids."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.errors import UserError
from seq2seq.files import replace_text

KEY = "sentencepiece"  # key in the JSON file; this project's own vocabularies lack it
UNKNOWN = "<unk>"


class SentencePieceTokenizer:
    """A SentencePiece model, with the vocabulary that gives its pieces their ids.

    It has the methods of `Tokenizer`, but is not lossless: SentencePiece normalises the text, and a
    piece that the vocabulary lacks becomes `<unk>`, which decodes to nothing. A text may begin with
    a language code such as `>>fra<<`, which is one token.

    Args:
        model: content of a `.spm` file.
        names: names of the tokens, by id; PAD, BOS and EOS come first.
    """

    has_merges = False

    def __init__(self, model: bytes, names: Sequence[str]):
        from sentencepiece import SentencePieceProcessor  # which only imported models need

        self.model, self._names = model, list(names)
        self._pieces: Any = SentencePieceProcessor(model_proto=model)
        self._ids = {name: i for i, name in enumerate(self._names)}
        # Decoding leaves out the tokens that stand for no text.
        self._silent = {PAD, BOS, EOS, self._ids[UNKNOWN]}

    def __reduce__(self) -> tuple[type[SentencePieceTokenizer], tuple[bytes, list[str]]]:
        return SentencePieceTokenizer, (self.model, self._names)

    @classmethod
    def load(cls, path: Path) -> SentencePieceTokenizer:
        """Read what `save` wrote.

        Raises:
            UserError: the file is damaged.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(base64.b64decode(content[KEY]), content["names"])
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise UserError(
                f"cannot read the vocabulary {path}: {error}. Import the model again"
            ) from error

    def save(self, path: str | Path) -> None:
        """Write a JSON file atomically."""
        replace_text(Path(path), self.to_json())

    def to_json(self) -> str:
        """Return the model and the names as JSON."""
        content = {KEY: base64.b64encode(self.model).decode("ascii"), "names": self._names}
        return json.dumps(content, ensure_ascii=False)

    @property
    def vocab_size(self) -> int:
        return len(self._names)

    def names(self) -> list[str]:
        """Return the name of each token, by id; no two names are equal."""
        return list(self._names)

    def encode(
        self, texts: Iterable[str], dropout: float = 0.0, rng: random.Random | None = None
    ) -> list[list[int]]:
        """Return the token ids of each text, without start or end marks.

        Raises:
            ValueError: `dropout` is given, which needs byte-pair encoding of this project.
        """
        if dropout:
            raise ValueError("dropout needs a random generator and byte-pair encoding")
        unknown = self._ids[UNKNOWN]
        parts = [_language_code(text) for text in texts]
        pieces = self._pieces.encode([text for _, text in parts], out_type=str)
        return [
            [self._ids.get(piece, unknown) for piece in (*code, *own)]
            for (code, _), own in zip(parts, pieces, strict=True)
        ]

    def decode(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """Return the texts of lists of ids; special tokens are left out."""
        return [self._text([i for i in ids if i not in self._silent]) for ids in batch]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return each token as text for people: ▁ for a space, special tokens by their names."""
        return [self._names[i] for i in ids]

    def ends(self, ids: Iterable[int]) -> list[int]:
        """Return where each token ends in the decoded text, in characters."""
        so_far: list[int] = []
        found = []
        for i in ids:
            if i not in self._silent:
                so_far.append(i)
            found.append(len(self._text(so_far)))
        return found

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._pieces.decode_pieces([self._names[i] for i in ids])
        return text.replace("▁", " ").strip()


def _language_code(text: str) -> tuple[list[str], str]:
    """Split a text into the code of a target language in front, if there is one, and the rest."""
    if text.startswith(">>") and "<<" in text:
        code, mark, rest = text.partition("<<")
        return [code + mark], rest
    return [], text
