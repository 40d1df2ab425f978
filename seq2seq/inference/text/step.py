"""A step around the search: it changes a text before, and a translation after."""

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
    """What is wrong with a translation.

    Attributes:
        text: in words; what got lost, as it stands in the source.
        kind: of what got lost: item or term; empty if the translation is degenerate.
        wanted: what the translation should hold.
        span: where in the source it stands, in characters.
    """

    text: str
    kind: str = ""
    wanted: str = ""
    span: tuple[int, int] = (0, 0)


class Attention(NamedTuple):
    """Which tokens of a source and of its translation belong together.

    Attributes:
        pieces: the token ids between which it is.
        weights_TS: of each target token to each source token, end marks included.
    """

    pieces: Pieces
    weights_TS: np.ndarray


class Step:
    """One of `Translator.steps`. It keeps nothing between texts, so that threads may share it.

    Attributes:
        name: by which it is left out.
        checks: whether it finds faults; it then sees a sentence as the model reads it.
    """

    name = ""
    checks = False

    def before(self, text: str) -> tuple[str, Any]:
        """The text for the next step, and what `after` has to know of it."""
        return text, text

    def pieces_to_align(self, result: Translation, state: Any) -> Pieces | None:
        """Parts of source and target between which `after` wants attention, if any."""
        return None

    def after(
        self, result: Translation, state: Any, attention: Attention | None = None
    ) -> Translation:
        """The translation for the step before.

        Args:
            result: as the next step left it.
            state: what `before` said of the source.
            attention: between `pieces_to_align`; None where there are none, or too many.
        """
        return result

    def faults(self, result: Translation, state: Any) -> list[Fault]:
        """What a result of the search lost, or did wrong; another search may do better."""
        return []


class Normalisation(Step):
    """Makes of a sentence what the model reads."""

    name = "normalisation"

    def __init__(self, normalise: Callable[[str], str]):
        self.normalise = normalise

    def before(self, text: str) -> tuple[str, None]:
        return self.normalise(text), None
