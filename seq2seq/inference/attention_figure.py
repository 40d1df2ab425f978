"""Figures of attention: all heads of all layers for a translated text, or a single head.

Shapes: H heads, S source and T target tokens, end marks included.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.forced import forced_maps
from seq2seq.errors import UserError
from seq2seq.html_page import visible
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.attention_maps import cross_attentions

if TYPE_CHECKING:  # matplotlib takes a second to load, and few translations are drawn
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

ENDINGS = (".pdf", ".png", ".svg")
# Without `parse_math`, a $ in a text stays a dollar sign.
STYLE: Any = {"font.size": 8, "text.parse_math": False, "svg.fonttype": "none"}
FRAME, LINES = "#d9762b", "#dddddd"  # every eye can tell orange from blue
TOKEN, LETTER = 0.17, 0.075  # inches
CAPTION = """\
Rows: tokens of the translation, as they were predicted. Columns: tokens of the source.
White: not looked at; dark blue: all attention. Each row sums to 1. ▁ stands for a space.
Orange frame: what alignments are taken from."""
# For a .png: usual resolution, lowest one at which tokens are readable, most pixels of a side.
DPI, LEAST_DPI, LONGEST_SIDE = 150, 60, 12_000
# For pictures of one head, of which many are shown: files are small, but words are readable.
SMALL_DPI, LONGEST, LABEL = 72, 80, 20  # resolution; tokens of a side; characters of a label


class Sentence(NamedTuple):
    """A sentence of a figure: its attention maps and their labels.

    Attributes:
        maps: weights (H, T, S) of each layer, the lowest first.
        source, target: labels of S and T tokens.
        title: text above the maps.
    """

    maps: Sequence[np.ndarray]
    source: Sequence[str]
    target: Sequence[str]
    title: str = ""


def draw_attention(translator: Translator, pairs: Sequence[tuple[str, str]], path: Path) -> None:
    """Draw the attention of a translation to its source, and write the figure to a file.

    Args:
        translator: must have a `TorchEngine`; of an ensemble, the first model is drawn.
        pairs: the sentences of a text and their translations; the first sentence is drawn, and the
            caption says so if there are others.
        path: of the file; its ending chooses the format.

    Raises:
        UserError: the figure cannot be drawn or written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UserError(
            f"a figure of attention is a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file: "
            f"{path} does not end so"
        )
    engine = translator.engine
    if not isinstance(engine, TorchEngine):
        raise UserError("a figure of attention needs the weights of all heads, which only the "
                        "torch engine has: leave out the other engine")  # fmt: skip
    modules, head = cross_attentions(engine.models[0]), engine.heads[0]
    source, target = translator.vocabularies.source, translator.vocabularies.target
    ids = translator.vocabularies.encode_pairs(pairs[:1], translator.as_read)
    if not ids or not all(ids[0]):
        raise UserError("a figure of attention needs a text and its translation: one is empty")
    if (longest := max(map(len, ids[0]))) >= engine.max_length:
        raise UserError(
            f"the sentence has {longest + 1} tokens, and a figure of attention has room for "
            f"{engine.max_length}. Give a shorter sentence"
        )
    [(_, maps)] = forced_maps(engine.models[0], ids, modules)
    sentence = Sentence(
        maps,
        [*source.tokens(ids[0][0]), "</s>"],
        [*target.tokens(ids[0][1]), "</s>"],
        visible(" → ".join(pairs[0])),
    )
    left_out = f"\nThe first of {len(pairs)} sentences." * (len(pairs) > 1)
    aligns = AttentionHead(modules.index(head.module(modules)), head.head)
    with _style():
        figure = attention_figure(sentence, aligns, CAPTION + left_out)
        dpi = min(DPI, LONGEST_SIDE / max(figure.get_size_inches()))
        if path.suffix.lower() == ".png" and dpi < LEAST_DPI:
            raise UserError("the figure would be too large for a .png file that can be read: name "
                            "a .pdf or .svg file, or give a shorter text")  # fmt: skip
        try:
            figure.savefig(path, dpi=dpi, bbox_inches="tight")
        except OSError as error:
            raise UserError(f"the figure {path} cannot be written: {error.strerror}") from error


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box is drawn instead
        yield


def attention_figure(sentence: Sentence, aligns: AttentionHead, caption: str = CAPTION) -> Figure:
    """Draw a row of maps per layer: the mean of its heads, then each head.

    Args:
        aligns: the head that alignments are taken from (layers count from 0); it gets a frame.
        caption: text below the maps.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    maps, source, target, title = sentence
    heads = len(maps[0])
    across = max(len(source) + 1, 9)  # columns of a map, with room for its name
    rows = [1 + layer * (len(target) + 1) for layer in range(len(maps))]  # names stand above
    columns = [across * number for number in range(1 if heads == 1 else 1 + heads)]
    width, height = TOKEN * across * len(columns), TOKEN * (rows[-1] + len(target))
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width / TOKEN), ylim=(height / TOKEN, 0))
    title = textwrap.shorten(title, max(40, int(width / LETTER)), placeholder="…")
    axes.set_title(title, loc="left", weight="bold", size=9)
    aligning = "mean of heads" if aligns.head is None and heads > 1 else f"head {aligns.head or 0}"
    for layer, (row, weights_HTS) in enumerate(zip(rows, maps, strict=True)):
        panels = {f"head {head}": weights_TS for head, weights_TS in enumerate(weights_HTS)}
        if heads > 1:
            panels = {"mean of heads": weights_HTS.mean(axis=0), **panels}
        for column, (name, weights_TS) in zip(columns, panels.items(), strict=True):
            _draw_map(axes, weights_TS, row, column)
            if layer == aligns.layer and name == aligning:
                place, size = (column, row), (len(source), len(target))
                axes.add_patch(Rectangle(place, *size, fill=False, edgecolor=FRAME, linewidth=2))
            axes.text(column, row - 0.3, name if column else f"layer {layer}: {name}")
    axes.spines[:].set_visible(False)
    _label(axes.yaxis, target, rows)
    _label(axes.xaxis, source, columns, rotation=90)
    below = 2 * TOKEN + LETTER * max(map(len, source))
    figure.text(0, -below / height, caption, linespacing=1.4, va="top")
    return figure


def _draw_map(axes: Axes, weights_TS: np.ndarray, top: int = 0, left: int = 0) -> None:
    """Draw weights from 0 (white) to 1 (dark blue); the first cell is at row `top`."""
    rows, columns = weights_TS.shape
    axes.pcolormesh(left + np.arange(columns + 1), top + np.arange(rows + 1), weights_TS,
                    cmap="Blues", vmin=0, vmax=1, edgecolor=LINES, linewidth=0.3)  # fmt: skip


def _label(axis: Axis, labels: Sequence[str], starts: Sequence[int], rotation: int = 0) -> None:
    """Write the labels of tokens beside each map; `starts` are the first places of the maps."""
    places = [start + i + 0.5 for start in starts for i in range(len(labels))]
    axis.set_tick_params(length=0, pad=2)
    axis.set_ticks(places, [*labels] * len(starts), rotation=rotation)


def head_picture(
    weights_TS: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> np.ndarray:
    """Draw the weights of one head as pixels (height, width, 3) from 0 to 255.

    Rows are target tokens, columns source tokens. Tokens beyond `LONGEST` are left out, because a
    hypothesis may run to the output limit.

    Args:
        weights_TS: from 0 (white) to 1 (dark blue); rows sum to 1.
        source, target: labels of the tokens.
    """
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    weights_TS = weights_TS[:LONGEST, :LONGEST]
    rows, columns = weights_TS.shape
    file = io.BytesIO()
    with _style():
        figure = Figure(figsize=(TOKEN * columns, TOKEN * rows))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, columns), ylim=(rows, 0))
        _draw_map(axes, weights_TS)
        axes.xaxis.tick_top()
        _label(axes.xaxis, [visible(token)[:LABEL] for token in source[:LONGEST]], [0], rotation=90)
        _label(axes.yaxis, [visible(token)[:LABEL] for token in target[:LONGEST]], [0])
        figure.savefig(file, format="png", dpi=SMALL_DPI, bbox_inches="tight")
    return np.asarray(255 * imread(io.BytesIO(file.getvalue()))[..., :3]).round().astype(np.uint8)
