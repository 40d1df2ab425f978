"""How far a translation of many lines is: lines, speed and time left, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


class LineProgress:
    """Counts lines; within a block it goes by pieces of text, of which a line may have several."""

    def __init__(self, bar: tqdm[Any] | None = None):
        self._bar, self._ahead = bar, 0

    @contextmanager
    def block(self, lines: int) -> Iterator[None]:
        """While so many lines are translated."""
        self._ahead = lines
        yield
        self.advance(lines)

    def advance(self, pieces: int) -> None:
        """Count so many pieces of the block as lines."""
        if self._bar is not None:
            self._bar.update(min(pieces, self._ahead))
        self._ahead -= min(pieces, self._ahead)


@contextmanager
def line_progress(shown: bool, total: int | None, done: int = 0) -> Iterator[LineProgress]:
    """A bar on standard error, if it is to be shown.

    Args:
        shown: else nothing is printed.
        total: lines, if that is known.
        done: lines that an earlier run translated.
    """
    if not shown:
        yield LineProgress()
        return
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    bar: tqdm[Any] = tqdm(
        total=total, initial=done, unit=" lines", file=sys.stderr, dynamic_ncols=True
    )
    with bar, logging_redirect_tqdm():  # else warnings would break the bar
        yield LineProgress(bar)
