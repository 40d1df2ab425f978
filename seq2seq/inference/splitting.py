"""Cut a text that is too long for the model where it hurts least."""

from __future__ import annotations

import re
from collections.abc import Callable

# From the best place to cut to the worst: sentence end, clause end, any space.
PLACES = (r"(?<=[.!?…])\s+", r"(?<=[,;:])\s+", r"\s+")


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Pieces of a text that each fit, cut near the middle of what is too long.

    A word that is too long by itself is cut between characters.

    Args:
        text: any text.
        fits: whether a piece is short enough; must hold for single characters.
    """
    if fits(text) or len(text) <= 1:
        return [text]
    for place in PLACES:
        cuts = [match for match in re.finditer(place, text) if 0 < match.start() < match.end()]
        cuts = [cut for cut in cuts if cut.end() < len(text)]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut.start() - len(text) / 2))
            left, right = text[: cut.start()], text[cut.end() :]
            break
    else:
        left, right = text[: len(text) // 2], text[len(text) // 2 :]
    return split_text(left, fits) + split_text(right, fits)
