"""The vocabularies of both languages: one that they share, or one for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from seq2seq.config import TokenizerConfig
from seq2seq.data.sentencepiece import KEY, SentencePieceTokenizer
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError

if TYPE_CHECKING:  # pyarrow takes a while to load, and translating needs none
    from seq2seq.data.corpus import Pair

JOINT = "tokenizer.json"
SEPARATE = ("tokenizer.source.json", "tokenizer.target.json")
FILES = (JOINT, *SEPARATE)
AnyTokenizer: TypeAlias = Tokenizer | SentencePieceTokenizer


@dataclass(frozen=True)
class Vocabularies:
    """Tokenizers of the source and the target; the same object if both share one."""

    source: AnyTokenizer
    target: AnyTokenizer

    @classmethod
    def train(cls, pairs: Callable[[], Iterable[Pair]], config: TokenizerConfig) -> Vocabularies:
        """Learn the vocabularies of the settings, without keeping the text in memory.

        Args:
            pairs: returns all pairs to learn from; called once for a joint vocabulary, else once
                for each side.
            config: kind, size and symbols.

        Raises:
            UserError: a symbol cannot be told from another token.
        """

        def learn(texts: Iterable[str]) -> Tokenizer:
            return Tokenizer.train(texts, config.vocab_size, config.kind, config.symbols)

        if config.joint:
            shared = learn(chain.from_iterable(pairs()))
            return cls(shared, shared)
        return cls(learn(source for source, _ in pairs()), learn(target for _, target in pairs()))

    @classmethod
    def load(cls, path: str | Path) -> Vocabularies:
        """Read a `tokenizer.json`, or a folder that `save` wrote to.

        Raises:
            UserError: a file is missing or cannot be read.
        """
        path = Path(path)
        if path.is_dir() and (missing := missing_files(path)):
            raise UserError(
                f"{path} holds no vocabulary: {', '.join(missing)} missing. Give a tokenizer.json, "
                f"or a folder with it or with {' and '.join(SEPARATE)}"
            )
        if path.is_dir() and not (path / JOINT).is_file():
            source, target = (_load(path / name) for name in SEPARATE)
            return cls(source, target)
        shared = _load(path / JOINT if path.is_dir() else path)
        return cls(shared, shared)

    def save(self, folder: Path) -> None:
        """Write one joint file or two separate ones, and remove the other kind from the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, tokenizer in self._files().items():
            tokenizer.save(folder / name)
        for name in set(FILES) - self._files().keys():
            (folder / name).unlink(missing_ok=True)

    def encode_pairs(
        self,
        pairs: Sequence[tuple[str, str]],
        read: Callable[[str], str] = str,
        written: Callable[[str], str] = str,
    ) -> list[tuple[list[int], list[int]]]:
        """Return the ids of pairs as a model reads them, without outer space.

        Args:
            pairs: source and target.
            read, written: functions that normalise a source and a target.
        """
        sources = self.source.encode(read(source).strip() for source, _ in pairs)
        targets = self.target.encode(written(target).strip() for _, target in pairs)
        return list(zip(sources, targets, strict=True))

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self.source is self.target

    @property
    def sizes(self) -> tuple[int, int]:
        """Tokens of the source and of the target."""
        return self.source.vocab_size, self.target.vocab_size

    def content_hash(self) -> str:
        """Return a hash that is the same for the same vocabularies, wherever they are stored."""
        digest = hashlib.sha256()
        for name, tokenizer in self._files().items():
            digest.update(f"{name}\0{tokenizer.to_json()}\0".encode())
        return digest.hexdigest()

    def _files(self) -> dict[str, AnyTokenizer]:
        if self.joint:
            return {JOINT: self.source}
        return dict(zip(SEPARATE, (self.source, self.target), strict=True))


def _load(path: Path) -> AnyTokenizer:
    """Load a vocabulary of this project, or one of SentencePiece."""
    with suppress(OSError), path.open("rb") as file:  # if unreadable, the reader says why
        if f'"{KEY}"'.encode() in file.read(64):
            return SentencePieceTokenizer.load(path)
    return Tokenizer.load(path)


def given_vocabularies(config: TokenizerConfig) -> Vocabularies | None:
    """Load the vocabularies of `tokenizer.path`; None if vocabularies are to be learned.

    Raises:
        UserError: they cannot be read, or have no merges that `tokenizer.dropout` could leave out.
    """
    if config.path is None:
        return None
    given = Vocabularies.load(Path(config.path).expanduser())
    if config.dropout and not (given.source.has_merges and given.target.has_merges):
        raise UserError(
            f"tokenizer.dropout={config.dropout} leaves out merges of byte-pair encoding, and "
            f"{config.path} has none: set tokenizer.dropout=0, or give another vocabulary"
        )
    return given


def missing_files(folder: Path) -> list[str]:
    """Return the names of the vocabulary files that a folder lacks."""
    if (folder / JOINT).is_file():
        return []
    missing = [name for name in SEPARATE if not (folder / name).is_file()]
    return [JOINT] if len(missing) == len(SEPARATE) else missing
