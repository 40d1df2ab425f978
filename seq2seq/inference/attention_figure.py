"""A picture of what each head of each layer looked at while one sentence was translated.

Shapes: H heads, S and T source and target tokens, end marks included.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq.decoding.forced_attention import AttentionHead, forced_maps
from seq2seq.errors import UserError
from seq2seq.inference.engine import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.attention_maps import cross_attentions

if TYPE_CHECKING:  # matplotlib takes a second to load, and few translations are drawn
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

ENDINGS = (".pdf", ".png", ".svg")
STYLE: Any = {"font.size": 8, "text.parse_math": False, "svg.fonttype": "none"}  # $ is a dollar
COLOURS, FRAME = "Blues", "#d9762b"  # one hue that darkens, and orange: seen by every eye
TOKEN, GAP, TITLE, LEGEND = 0.17, 0.2, 0.3, 0.8  # inches
CAPTION = """\
Rows: tokens of the translation, as they were predicted. Columns: tokens of the source.
White: not looked at; dark blue: all attention. Each row sums to 1. ▁ stands for a space.
Orange frame: what alignments are taken from."""
LONGEST_SIDE, DPI = 12_000, 150  # of the picture, in pixels


def draw_attention(translator: Translator, source: str, target: str, path: Path) -> None:
    """Write the attention of a translation to its source as a picture.

    Args:
        translator: on a `TorchEngine`; of an ensemble the first model is drawn.
        source, target: a sentence and its translation.
        path: of the file; its ending says which kind.

    Raises:
        UserError: there is nothing to draw, or the file cannot be written.
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
    model, head = engine.models[0], engine.heads[0]
    source_ids = translator.vocabularies.source.encode([translator.as_read(source)])[0]
    target_ids = translator.vocabularies.target.encode([target.strip()])[0]
    if not source_ids or not target_ids:
        raise UserError("a figure of attention needs a text and its translation: one is empty")
    if (longest := max(len(source_ids), len(target_ids))) >= engine.max_length:
        raise UserError(
            f"a figure of attention shows one sentence of at most {engine.max_length} tokens, and "
            f"this has {longest + 1}: give a shorter one"
        )
    modules = cross_attentions(model)
    ((_, maps),) = forced_maps(model, [(source_ids, target_ids)], modules)
    labels = [
        [*vocabulary.tokens(ids), "</s>"]
        for vocabulary, ids in ((translator.vocabularies.source, source_ids),
                                (translator.vocabularies.target, target_ids))
    ]  # fmt: skip
    layer = modules.index(head.module(model))
    _write(path, maps, labels[0], labels[1], AttentionHead(layer, head.head))


def _write(
    path: Path,
    maps: Sequence[np.ndarray],
    source: Sequence[str],
    target: Sequence[str],
    aligns: AttentionHead,
) -> None:
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        figure = attention_figure(maps, source, target, aligns)
        dpi = min(DPI, LONGEST_SIDE / max(figure.get_size_inches()))
        try:
            figure.savefig(path, dpi=dpi)
        except OSError as error:
            raise UserError(f"the figure {path} cannot be written: {error.strerror}") from error


def attention_figure(
    maps: Sequence[np.ndarray],
    source: Sequence[str],
    target: Sequence[str],
    aligns: AttentionHead,
) -> Figure:
    """A row for each layer: the mean of its heads, then each of them.

    Args:
        maps: weights (H, T, S) of each layer, the lowest first.
        source, target: labels of S and T tokens.
        aligns: the head (of a layer from 0) that alignments are taken from, which gets a frame.
    """
    from matplotlib.figure import Figure

    layers, heads = len(maps), len(maps[0])
    columns = 1 + heads if heads > 1 else 1
    width, height = TOKEN * len(source), TOKEN * len(target)
    left, bottom = (0.4 + 0.075 * max(map(len, labels)) for labels in (target, source))
    size = (
        max(left + columns * (width + GAP), 6.5),
        LEGEND + bottom + layers * (height + GAP + TITLE),
    )
    figure = Figure(figsize=size)
    for layer, weights_HTS in enumerate(maps):
        shown = [weights_HTS.mean(axis=0), *weights_HTS] if heads > 1 else [weights_HTS[0]]
        for column, weights_TS in enumerate(shown):
            x = left + column * (width + GAP)
            y = LEGEND + bottom + (layers - 1 - layer) * (height + GAP + TITLE)
            place = (x / size[0], y / size[1], width / size[0], height / size[1])
            axes = figure.add_axes(place)
            _panel(axes, weights_TS)
            name = "mean of heads" if heads > 1 and not column else f"head {max(column - 1, 0)}"
            axes.set_title(f"layer {layer}, {name}" if not column else name)
            _label(axes.xaxis, source if layer == layers - 1 else (), 90)
            _label(axes.yaxis, target if not column else ())
            if (layer, column - 1 if column else None) == (aligns.layer, aligns.head):
                axes.spines[:].set(color=FRAME, linewidth=2.5)
    figure.text(0.1 / size[0], 0.12 / size[1], CAPTION, linespacing=1.4, va="bottom")
    return figure


def _panel(axes: Axes, weights_TS: np.ndarray) -> None:
    axes.imshow(weights_TS, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    rows, columns = weights_TS.shape
    axes.hlines(np.arange(rows - 1) + 0.5, -0.5, columns - 0.5, colors="#dddddd", linewidths=0.4)
    axes.vlines(np.arange(columns - 1) + 0.5, -0.5, rows - 0.5, colors="#dddddd", linewidths=0.4)
    axes.spines[:].set(color="#999999", linewidth=0.6)


def _label(axis: Axis, labels: Sequence[str], rotation: int = 0) -> None:
    axis.set_tick_params(length=0, pad=2)
    axis.set_ticks(range(len(labels)), labels, rotation=rotation)
