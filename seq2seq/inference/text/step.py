"""The interface of a step: it changes a text before the search, and the translation after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seq2seq.inference.translation import Translation

Ids = Sequence[int]
Pieces = tuple[Sequence[Ids], Sequence[Ids]]  # of a source and of its translation, in token ids


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with a translation: it lost something, or is degenerate.

    Attributes:
        text: what got lost, or what is wrong, in words.
        kind: of what got lost: item or term; empty if the translation is degenerate.
        wanted: what the translation should contain.
        span: place in the source of what got lost, in characters.
    """

    text: str
    kind: str = ""
    wanted: str = ""
    span: tuple[int, int] = (0, 0)


class Attention(NamedTuple):
    """Attention between pieces of a source and of its translation.

    Attributes:
        pieces: their token ids.
        weights_TS: from each target token to each source token, end marks included.
    """

    pieces: Pieces
    weights_TS: np.ndarray


class Step:
    """One of `Translator.steps`. It keeps nothing between texts, so threads may share it.

    Attributes:
        name: for leaving the step out; empty if it must stay.
        checks: whether it finds faults; such a step sees a sentence as the model reads it.
    """

    name = ""
    checks = False

    def before(self, text: str) -> tuple[str, Any]:
        """Return the text for the next step, and the state that `after` needs."""
        return text, text

    def pieces_to_align(self, result: Translation, state: Any) -> Pieces | None:
        """Return the parts of source and target between which `after` needs attention, if any."""
        return None

    def after(self, result: Translation, state: Any, attention: Attention | None) -> Translation:
        """Return the translation, changed, for the previous step.

        Args:
            result: as the next step left it.
            state: of the source, from `before`.
            attention: between `pieces_to_align`; None if there are none, or if they are too long.
        """
        return result

    def faults(self, result: Translation, state: Any) -> list[Fault]:
        """List what a result of the search lost or did wrong; another search may do better."""
        return []


class Normalisation(Step):
    """The step that turns a sentence into what the model reads."""

    def __init__(self, normalise: Callable[[str], str]):
        self.normalise = normalise

    def before(self, text: str) -> tuple[str, None]:
        return self.normalise(text), None
