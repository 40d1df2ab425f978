"""The translator: text in, text out, on any trained bundle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.splitting import split_text
from seq2seq.model.translation_model import TranslationModel
from seq2seq.text import normaliser

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: the French text; empty for an empty source.
        score: what the search ranked by: log probability / tokens ** length_penalty.
        finished: False if the output limit cut it off.
    """

    text: str
    score: float
    finished: bool = True

    def __str__(self) -> str:
        return self.text


class Translator:
    """Translates texts with a model; `Translator.load(path)` makes one.

    Args:
        model: the network, on the device that it shall work on.
        vocabularies: of its source and its target.
        decode: search settings.
        normalise: what was done to the sources it was trained on (`seq2seq/text.py`).
    """

    def __init__(
        self,
        model: TranslationModel,
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        normalise: Sequence[str] = (),
    ):
        self.model, self.vocabularies, self.decode = model, vocabularies, decode
        self._normalise = normaliser(normalise)

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Translator:
        """Read the bundle in `path`, or of the run `path`.

        Raises:
            BundleError: nothing usable is there.
            UserError: the device is not there.
        """
        bundle = load_bundle(Path(path), choose_device(device))
        return cls(bundle.model, bundle.vocabularies, bundle.decode, bundle.normalise)

    def translate(
        self,
        texts: list[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        """The best translation of each text, in order.

        Empty texts come back empty. A text longer than the model's limit is cut at punctuation
        or spaces, with a warning, and the translations of its parts are joined.

        Args:
            texts: English, one sentence each for the best quality.
            beam: hypotheses kept per sentence (1 = greedy); None = as the model was validated.
            length_penalty: exponent of length in the score; None likewise.
            progress: called with the number of pieces of text that were just translated.
        """
        return [results[0] for results in self._translate(texts, beam, length_penalty, 1, progress)]

    def n_best(self, text: str, n: int, *, beam: int | None = None) -> list[Translation]:
        """Up to `n` translations of one text, best first."""
        width = max(n, self.decode.beam) if beam is None else beam
        return self._translate([text], width, None, n, None)[0]

    def _translate(
        self,
        texts: list[str],
        beam: int | None,
        length_penalty: float | None,
        n_best: int,
        progress: Callable[[int], object] | None,
    ) -> list[list[Translation]]:
        decode = replace(
            self.decode,
            beam=self.decode.beam if beam is None else beam,
            n_best=n_best,
            length_penalty=(
                self.decode.length_penalty if length_penalty is None else length_penalty
            ),
        )
        pieces = [self._pieces(text) for text in texts]
        flat = [piece for parts in pieces for piece in parts]
        found = iter(
            search(
                ModelStep(self.model),
                [Request(source) for source in self.vocabularies.source.encode(flat)],
                decode,
                max_length=self.model.config.max_length,
                device=next(self.model.parameters()).device,
                progress=progress,
            )
        )
        return [self._join([next(found) for _ in parts]) for parts in pieces]

    def as_read(self, text: str) -> str:
        """A text as the model reads it: without outer space, and normalised as in training."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates -> ?
        return self._normalise(text).strip()

    def _pieces(self, text: str) -> list[str]:
        """A text as parts that fit the model; none if it is empty."""
        text = self.as_read(text)
        if not text:
            return []
        limit = self.model.config.max_length - 1  # the end mark needs a place too
        encode = self.vocabularies.source.encode
        pieces = split_text(text, lambda part: len(encode([part])[0]) <= limit)
        if len(pieces) > 1:
            log.warning(
                "a text of %d characters is longer than the model's %d tokens: translated in %d "
                "parts (%s...)",
                *(len(text), limit + 1, len(pieces), text[:40]),
            )
        return pieces

    def _join(self, parts: list[list[Hypothesis]]) -> list[Translation]:
        """Translations of a text from those of its parts, the i-th best with the i-th best."""
        if not parts:
            return [Translation("", 0.0)]
        texts = [self.vocabularies.target.decode([h.tokens for h in part]) for part in parts]
        return [
            Translation(
                text=" ".join(candidates[rank].strip() for candidates in texts),
                score=sum(part[rank].score for part in parts) / len(parts),
                finished=all(part[rank].finished for part in parts),
            )
            for rank in range(min(len(part) for part in parts))
        ]


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
