"""A small picture of what one head looked at, for places where many of them are shown.

Shapes: S and T source and target tokens, end marks included.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from seq2seq.html_page import visible
from seq2seq.inference.attention_figure import COLOURS, STYLE, TOKEN

DPI = 72  # small files: words of 8 points can still be read
EDGE = 0.1  # inches
LONGEST = 80  # tokens of a side that are drawn: about 3 MB of pixels
LABEL = 20  # characters of a token that are shown


def head_picture(
    weights_TS: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> np.ndarray:
    """Pixels (height, width, 3) from 0 to 255: target tokens below each other, the source on top.

    What is beyond `LONGEST` tokens is left out: a hypothesis may run to the output limit.

    Args:
        weights_TS: from 0 (white) to 1 (dark blue); rows sum to 1.
        source, target: labels of the tokens.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # needs no display
    from matplotlib.figure import Figure

    weights_TS = weights_TS[:LONGEST, :LONGEST]
    source, target = (
        [visible(token)[:LABEL] for token in labels[:LONGEST]] for labels in (source, target)
    )
    left, top = (0.2 + 0.075 * max(map(len, labels)) for labels in (target, source))
    across, down = TOKEN * len(source), TOKEN * len(target)
    width, height = left + across + EDGE, top + down + EDGE
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        figure = Figure(figsize=(width, height), dpi=DPI)
        canvas = FigureCanvasAgg(figure)
        place = (left / width, EDGE / height, across / width, down / height)
        axes = figure.add_axes(place)
        axes.imshow(weights_TS, cmap=COLOURS, vmin=0, vmax=1, aspect="auto")
        axes.tick_params(length=0, pad=2, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.set_xticks(range(len(source)), source, rotation=90)
        axes.set_yticks(range(len(target)), target)
        axes.spines[:].set(color="#999999", linewidth=0.6)
        canvas.draw()  # type: ignore[no-untyped-call]
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]
