"""How far many lines are: lines, speed and time left, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def line_progress(
    shown: bool, total: int | None = None, done: int = 0
) -> Iterator[Callable[[int], object]]:
    """What counts further lines: in a bar on standard error, if it is to be shown.

    Args:
        shown: else nothing is printed.
        total: lines, if that is known.
        done: lines that an earlier run translated.
    """
    if not shown:
        yield lambda lines: None
        return
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    with (
        tqdm(total=total, initial=done, unit=" lines", file=sys.stderr, dynamic_ncols=True) as bar,
        logging_redirect_tqdm(),  # else warnings would break the bar
    ):
        yield bar.update
