"""Pictures of attention: of each head of each layer while a text was translated, or of one head.

Shapes: H heads, S and T source and target tokens, end marks included.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.forced import forced_maps
from seq2seq.decoding.request import IdPair
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
STYLE: Any = {"font.size": 8, "text.parse_math": False, "svg.fonttype": "none"}  # $ is a dollar
COLOURS, FRAME = "Blues", "#d9762b"  # one hue that darkens, and orange: seen by every eye
TOKEN, GAP, TITLE, HEAD, LEGEND = 0.17, 0.2, 0.3, 0.22, 0.8  # inches
LETTER = 0.085  # of a title, in bold
CAPTION = """\
Rows: tokens of the translation, as they were predicted. Columns: tokens of the source.
White: not looked at; dark blue: all attention. Each row sums to 1. ▁ stands for a space.
Orange frame: what alignments are taken from."""
LONGEST_SIDE, DPI = 12_000, 150  # of the picture, in pixels
LEAST_DPI = 60  # at which tokens can just be read
SENTENCES = 8  # of a text that are drawn
# Of the picture of one head, many of which are shown: small files, whose words can still be read.
SMALL_DPI, EDGE = 72, 0.1  # inches
LONGEST = 80  # tokens of a side that are drawn: about 3 MB of pixels
LABEL = 20  # characters of a token that are shown


class Sentence(NamedTuple):
    """What is drawn of a sentence.

    Attributes:
        maps: weights (H, T, S) of each layer, the lowest first.
        source, target: labels of S and T tokens.
        title: above them; "" = none.
    """

    maps: Sequence[np.ndarray]
    source: Sequence[str]
    target: Sequence[str]
    title: str = ""


def draw_attention(translator: Translator, pairs: Sequence[tuple[str, str]], path: Path) -> None:
    """Write the attention of translations to their sources as a picture.

    Args:
        translator: on a `TorchEngine`; of an ensemble the first model is drawn.
        pairs: sentences and their translations, drawn below each other; the first 8.
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
    modules = cross_attentions(model)
    source, target = translator.vocabularies.source, translator.vocabularies.target
    ids = translator.vocabularies.encode_pairs(pairs[:SENTENCES], translator.as_read)
    _require_room(ids, engine.max_length)
    maps = dict(forced_maps(model, ids, modules))
    sentences = [
        Sentence(maps[row], [*source.tokens(one), "</s>"], [*target.tokens(other), "</s>"],
                 visible(" → ".join(pairs[row])))
        for row, (one, other) in enumerate(ids)
    ]
    sentences = sentences if path.suffix.lower() != ".png" else _legible(sentences)
    layer, shown = modules.index(head.module(modules)), len(sentences)
    left_out = f"\nThe first {shown} of {len(pairs)} sentences." if len(pairs) > shown else ""
    if shown < len(ids):
        left_out += " A .pdf or .svg file has room for more."
    _write(path, sentences, AttentionHead(layer, head.head), CAPTION + left_out)


def _require_room(ids: Sequence[IdPair], limit: int) -> None:
    """Raise UserError unless the model can read each pair."""
    if not ids or not all(all(pair) for pair in ids):
        raise UserError("a figure of attention needs a text and its translation: one is empty")
    if (longest := max(len(side) for pair in ids for side in pair)) >= limit:
        raise UserError(
            f"a figure of attention shows sentences of at most {limit} tokens, and one of these "
            f"has {longest + 1}: give a shorter one"
        )


def _legible(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The first of them, as many as can be read in one picture of pixels."""
    room = LONGEST_SIDE / LEAST_DPI - LEGEND
    found: list[Sentence] = []
    height = 0.0
    for sentence in sentences:
        across, down = _size(sentence)
        height += down
        if max(across, height) > room:
            break
        found.append(sentence)
    if not found:
        raise UserError("the figure would be too large for a .png file that can be read: name a "
                        ".pdf or .svg file, or give a shorter sentence")  # fmt: skip
    return found


def _write(path: Path, sentences: Sequence[Sentence], aligns: AttentionHead, caption: str) -> None:
    with _style():
        figure = attention_figure(sentences, aligns, caption)
        dpi = min(DPI, LONGEST_SIDE / max(figure.get_size_inches()))
        try:
            figure.savefig(path, dpi=dpi)
        except OSError as error:
            raise UserError(f"the figure {path} cannot be written: {error.strerror}") from error


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        yield


def attention_figure(
    sentences: Sequence[Sentence], aligns: AttentionHead, caption: str = CAPTION
) -> Figure:
    """For each sentence, a row for each layer: the mean of its heads, then each of them.

    Args:
        sentences: below each other, at least one.
        aligns: the head (of a layer from 0) that alignments are taken from, which gets a frame.
        caption: below them.
    """
    from matplotlib.figure import Figure

    sizes = [_size(sentence) for sentence in sentences]
    legend = LEGEND + 0.15 * (caption.count("\n") - CAPTION.count("\n"))
    width = max(6.5, *(across for across, _ in sizes))
    height = legend + sum(down for _, down in sizes)
    figure = Figure(figsize=(width, height))
    bottom = height
    for sentence, (_, down) in zip(sentences, sizes, strict=True):
        bottom -= down
        _draw(figure, sentence, aligns, bottom)
    figure.text(0.1 / width, 0.12 / height, caption, linespacing=1.4, va="bottom")
    return figure


def _margins(source: Sequence[str], target: Sequence[str]) -> tuple[float, float]:
    """Inches that the labels need beside the rows, and beside the columns."""
    left, edge = (0.25 + 0.075 * max(map(len, labels)) for labels in (target, source))
    return left, edge


def _size(sentence: Sentence) -> tuple[float, float]:
    """Width and height of a sentence, in inches."""
    left, bottom = _margins(sentence.source, sentence.target)
    layers, heads = len(sentence.maps), len(sentence.maps[0])
    columns = 1 + heads if heads > 1 else 1
    rows = layers * (TOKEN * len(sentence.target) + GAP + TITLE)
    return (
        left + columns * (TOKEN * len(sentence.source) + GAP),
        bottom + rows + HEAD * bool(sentence.title),
    )


def _draw(figure: Figure, sentence: Sentence, aligns: AttentionHead, floor: float) -> None:
    """Draw a sentence, `floor` inches above the lower edge of the figure."""
    size = figure.get_size_inches()
    maps, source, target, title = sentence
    layers, heads = len(maps), len(maps[0])
    width, height = TOKEN * len(source), TOKEN * len(target)
    left, bottom = _margins(source, target)
    if title:
        room = int((size[0] - 0.2) / LETTER)
        line = title if len(title) <= room else f"{title[: room - 1]}…"
        top = floor + _size(sentence)[1] - 0.1
        figure.text(0.1 / size[0], top / size[1], line, va="top", weight="bold", size=9)
    for layer, weights_HTS in enumerate(maps):
        shown = [weights_HTS.mean(axis=0), *weights_HTS] if heads > 1 else [weights_HTS[0]]
        for column, weights_TS in enumerate(shown):
            x = left + column * (width + GAP)
            y = floor + bottom + (layers - 1 - layer) * (height + GAP + TITLE)
            place = (x / size[0], y / size[1], width / size[0], height / size[1])
            axes = figure.add_axes(place)
            _panel(axes, weights_TS)
            name = "mean of heads" if heads > 1 and not column else f"head {max(column - 1, 0)}"
            axes.set_title(f"layer {layer}, {name}" if not column else name)
            _label(axes.xaxis, source if layer == layers - 1 else (), 90)
            _label(axes.yaxis, target if not column else ())
            head = column - 1 if column else None
            if layer == aligns.layer and (heads == 1 or head == aligns.head):
                axes.spines[:].set(color=FRAME, linewidth=2.5)


def _panel(axes: Axes, weights_TS: np.ndarray) -> None:
    axes.imshow(weights_TS, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    rows, columns = weights_TS.shape
    axes.hlines(np.arange(rows - 1) + 0.5, -0.5, columns - 0.5, colors="#dddddd", linewidths=0.4)
    axes.vlines(np.arange(columns - 1) + 0.5, -0.5, rows - 0.5, colors="#dddddd", linewidths=0.4)
    axes.spines[:].set(color="#999999", linewidth=0.6)


def _label(axis: Axis, labels: Sequence[str], rotation: int = 0) -> None:
    axis.set_tick_params(length=0, pad=2)
    axis.set_ticks(range(len(labels)), labels, rotation=rotation)


def head_picture(
    weights_TS: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> np.ndarray:
    """Pixels (height, width, 3) from 0 to 255: target tokens below each other, the source on top.

    What is beyond `LONGEST` tokens is left out: a hypothesis may run to the output limit.

    Args:
        weights_TS: from 0 (white) to 1 (dark blue); rows sum to 1.
        source, target: labels of the tokens.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # needs no display
    from matplotlib.figure import Figure

    weights_TS = weights_TS[:LONGEST, :LONGEST]
    source, target = (
        [visible(token)[:LABEL] for token in labels[:LONGEST]] for labels in (source, target)
    )
    left, top = _margins(source, target)
    across, down = TOKEN * len(source), TOKEN * len(target)
    width, height = left + across + EDGE, top + down + EDGE
    with _style():
        figure = Figure(figsize=(width, height), dpi=SMALL_DPI)
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((left / width, EDGE / height, across / width, down / height))
        _panel(axes, weights_TS)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
        _label(axes.xaxis, source, 90)
        _label(axes.yaxis, target)
        canvas.draw()  # type: ignore[no-untyped-call]
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]
