"""Where the sentences of an English text end."""

from __future__ import annotations


def sentences(line: str) -> list[str]:
    """The sentences of a line, each with the space after it; joined they are the line again.

    Args:
        line: a text without line breaks.
    """
    import sentencex  # rules for abbreviations, decimals, ellipses and quotes; few texts need it

    found = list(sentencex.segment("en", line))
    return found if "".join(found) == line else [line]
