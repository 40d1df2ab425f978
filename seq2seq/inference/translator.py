"""The translator: text in, text out, on any trained bundle."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import Request
from seq2seq.errors import UserError, nearest
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.engine import Engine, Progress, TorchEngine
from seq2seq.inference.splitting import split_text
from seq2seq.text import normaliser

log = logging.getLogger(__name__)

BLOCK = 512  # texts of a stream that are translated together


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: the French text; empty for an empty source.
        score: what the search ranked by: log probability, divided by a function of length.
        finished: False if the output limit cut it off.
        tokens: subwords of the output, without marks.
        token_scores: log probability of each, then of the end mark.
        alternatives: further translations of the same text, the next best first.
    """

    text: str
    score: float
    finished: bool = True
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alternatives: list[Translation] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class PairScore:
    """How likely the model finds a given translation.

    Attributes:
        log_prob: natural log of its probability, end mark included.
        tokens: its subwords, without marks.
        token_scores: log probability of each, then of the end mark.
        words: of the target, cut at spaces.
    """

    log_prob: float
    tokens: list[str]
    token_scores: list[float]
    words: int

    @property
    def per_token(self) -> float:
        """Mean log probability of a token, end mark included."""
        return self.log_prob / len(self.token_scores)

    @property
    def per_word(self) -> float:
        """The same for each word of the target, which compares between vocabularies."""
        return self.log_prob / max(1, self.words)


class Translator:
    """Translates texts; `Translator.load(path)` makes one. Threads may share it.

    Args:
        engine: searches on token ids.
        vocabularies: of its source and its target.
        decode: search settings.
        normalise: what was done to the sources it was trained on (`seq2seq/text.py`).
    """

    def __init__(
        self,
        engine: Engine,
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        normalise: Sequence[str] = (),
    ):
        self.engine, self.vocabularies, self.decode = engine, vocabularies, decode
        self._normalise = normaliser(normalise)

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Translator:
        """Read the bundle in `path`, or of the run `path`.

        Raises:
            BundleError: nothing usable is there.
            UserError: the device is not there.
        """
        bundle = load_bundle(Path(path), choose_device(device))
        engine = TorchEngine([bundle.model], bundle.length_ratio)
        return cls(engine, bundle.vocabularies, bundle.decode, bundle.normalise)

    def translate(
        self, texts: Sequence[str], *, progress: Progress = None, **settings: Any
    ) -> list[Translation]:
        """The best translation of each text, in order.

        Empty texts come back empty. A text longer than the model's limit is cut at punctuation
        or spaces, with a warning, and the translations of its parts are joined.

        Args:
            texts: English, one sentence each for the best quality.
            progress: called with the number of pieces of text that were just translated.
            settings: of `DecodeConfig` by name, such as `beam=5, n_best=3`; the others are as the
                model was validated.

        Raises:
            UserError: a setting is not known, or does not go with another.
        """
        decode = self._settings(settings)
        pieces = [self._pieces(text) for text in texts]
        sources = self.vocabularies.source.encode([piece for parts in pieces for piece in parts])
        spare = decode
        if decode.strategy == "beam" and decode.n_best > 1:  # as some may be the same text
            spare = dataclasses.replace(decode, n_best=decode.beam)
        found = iter(self.engine.search([Request(ids) for ids in sources], spare, progress))
        return [self._join([next(found) for _ in parts], decode.n_best) for parts in pieces]

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        """The translations of any number of texts, some hundreds of which are in memory."""
        rest = iter(texts)
        while block := list(islice(rest, BLOCK)):
            yield from self.translate(block, **settings)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """How likely the model finds given translations (source, target).

        Raises:
            UserError: a side is longer than the model's limit.
        """
        sources = self.vocabularies.source.encode([self.as_read(source) for source, _ in pairs])
        targets = self.vocabularies.target.encode([target.strip() for _, target in pairs])
        for number, sides in enumerate(zip(sources, targets, strict=True), 1):
            if (longest := max(map(len, sides))) >= self.engine.max_length:
                raise UserError(
                    f"pair {number} has a side of {longest + 1} tokens, and the model's limit is "
                    f"{self.engine.max_length}: score its sentences one by one"
                )
        scores = self.engine.score(list(zip(sources, targets, strict=True)))
        return [
            PairScore(sum(each), self.vocabularies.target.tokens(ids), each, len(target.split()))
            for each, ids, (_, target) in zip(scores, targets, pairs, strict=True)
        ]

    def _settings(self, changes: dict[str, Any]) -> DecodeConfig:
        known = [setting.name for setting in dataclasses.fields(DecodeConfig)]
        for name in changes:
            if name not in known:
                raise UserError(f"decode setting {name} is not known: {nearest(name, known)}")
        given = {name: value for name, value in changes.items() if value is not None}
        if "beam" not in given:  # as many hypotheses as are asked for
            given["beam"] = max(self.decode.beam, given.get("n_best", 1))
        return dataclasses.replace(self.decode, **given)

    def as_read(self, text: str) -> str:
        """A text as the model reads it: without outer space, and normalised as in training."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates -> ?
        return self._normalise(text).strip()

    def _pieces(self, text: str) -> list[str]:
        """A text as parts that fit the model; none if it is empty."""
        text = self.as_read(text)
        if not text:
            return []
        limit = self.engine.max_length - 1  # the end mark needs a place too
        encode = self.vocabularies.source.encode
        pieces = split_text(text, lambda part: len(encode([part])[0]) <= limit)
        if len(pieces) > 1:
            log.warning(
                "a text of %d characters is longer than the model's %d tokens: translated in %d "
                "parts (%s...)",
                *(len(text), limit + 1, len(pieces), text[:40]),
            )
        return pieces

    def _join(self, parts: list[list[Hypothesis]], n_best: int) -> Translation:
        """Translations of a text from those of its parts, the i-th best with the i-th best."""
        if not parts:
            return Translation("", 0.0)
        found: dict[str, Translation] = {}  # two token sequences may be the same text
        for rank in range(min(map(len, parts))):
            one = self._translation([part[rank] for part in parts])
            found.setdefault(one.text, one)
        best, *others = list(found.values())[:n_best]
        return dataclasses.replace(best, alternatives=others)

    def _translation(self, parts: list[Hypothesis]) -> Translation:
        target = self.vocabularies.target
        texts = target.decode([part.tokens for part in parts])
        return Translation(
            text=" ".join(text.strip() for text in texts),
            score=sum(part.score for part in parts) / len(parts),
            finished=all(part.finished for part in parts),
            tokens=[token for part in parts for token in target.tokens(part.tokens)],
            token_scores=[score for part in parts for score in part.token_log_probs],
        )


def choose_device(name: str = "auto") -> torch.device:
    """The device called `name`; auto is the GPU if there is one.

    Raises:
        UserError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device {name} was asked for, but torch sees no GPU here: use cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device {name!r} is not known: use auto, cpu or cuda") from error
