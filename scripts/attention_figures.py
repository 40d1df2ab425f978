"""Draw the figures of docs/attention.md: python scripts/attention_figures.py --model runs/demo.

Masks, heads and the scale are drawn from the functions of `seq2seq.model`, the weights from a
trained transformer that translates one sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from seq2seq.cli.exits import run_command
from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import EOS, Tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.bundle import Bundle, load_bundle
from seq2seq.inference.torch_engine import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model import masks
from seq2seq.model.attention import attention_weights
from seq2seq.model.attention_maps import attention_maps
from seq2seq.model.transformer import Transformer

SENTENCE = "My neighbor bought a red car yesterday."
BLUE, ORANGE, GREY = "#2f6db3", "#d9762b", "#e9e9e9"
STYLE = {
    "svg.hashsalt": "seq2seq",  # the same names inside the file each time
    "svg.fonttype": "none",
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass
class Reading:
    """What a model looks at while it translates one sentence."""

    maps: dict[str, Tensor]  # (H, queries, keys) by the name of the attention
    source: list[str]  # S tokens, the end mark last
    read: list[str]  # T tokens that the decoder is given, the start mark first
    predicted: list[str]  # T tokens that it is to predict, the end mark last

    def of(self, kind: str) -> dict[str, Tensor]:
        """The maps of one kind, such as `cross_attention`."""
        return {name: weights for name, weights in self.maps.items() if name.endswith(kind)}


def main() -> None:
    run_command(lambda: draw(parser().parse_args()))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Draw the figures of docs/attention.md.")
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="run or bundle")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="for the files")
    parser.add_argument("--sentence", default=SENTENCE, help="English sentence (%(default)s)")
    parser.add_argument("--png", action="store_true", help="PNG files as well, to look at")
    parser.add_argument("--force", action="store_true", help="replace figures that are there")
    return parser


def draw(options: argparse.Namespace) -> None:
    kinds = ("svg", "png") if options.png else ("svg",)
    present = [file for kind in kinds for file in options.output.glob(f"*.{kind}")]
    if present and not options.force:
        raise UserError(
            f"--output {options.output} already holds {present[0].name}: choose another folder, or "
            "replace the figures in it with --force"
        )
    reading = read_sentence(load_bundle(options.model), options.sentence)
    with matplotlib.rc_context(STYLE):
        figures = {
            "scale": scale_figure(),
            "masks": masks_figure(),
            "heads": heads_figure(),
            "weights": weights_figure(reading),
            "self_attention": self_attention_figure(reading),
        }
        try:
            options.output.mkdir(parents=True, exist_ok=True)
            for name, figure in figures.items():
                for kind in kinds:
                    file = options.output / f"{name}.{kind}"
                    metadata = {"Date": None, "Creator": None} if kind == "svg" else None
                    figure.savefig(file, dpi=130, metadata=metadata, bbox_inches="tight")
                    print(file)
        except OSError as error:
            raise UserError(f"cannot write to --output {options.output}: {error}") from error


def read_sentence(bundle: Bundle, sentence: str) -> Reading:
    """Translate a sentence, then run the model once over both sides and keep its weights.

    Raises:
        UserError: the model is no transformer, or the sentence is empty or too long for it.
    """
    model, vocabularies = bundle.model, bundle.vocabularies
    if not isinstance(model, Transformer):
        raise UserError(
            f"the figures show self-attention, which a {model.config.architecture} model lacks: "
            "give a transformer"
        )
    translator = Translator(TorchEngine([model]), vocabularies, bundle.decode, bundle.normalise)
    source = vocabularies.source.encode([translator.as_read(sentence)])[0]
    limit = model.config.max_length - 1
    if not 0 < len(source) <= limit:
        raise UserError(
            f"--sentence has {len(source)} tokens, and this model reads 1 to {limit}: give one "
            "sentence that fits"
        )
    translation = translator.translate([sentence])[0].text
    print(f"{sentence} -> {translation}")
    target = vocabularies.target.encode([translation])[0][:limit]
    batch = collate([source], [target])
    maps = attention_maps(model, batch.source, batch.source_real, batch.target_in)
    return Reading(
        {name: weights[0] for name, weights in maps.items()},
        words(vocabularies.source, batch.source[0].tolist()),
        ["<s>", *words(vocabularies.target, target)],
        words(vocabularies.target, batch.labels[0].tolist()),
    )


def words(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    texts = tokenizer.decode([[token] for token in ids])
    return ["</s>" if token == EOS else text for token, text in zip(ids, texts, strict=True)]


def masks_figure() -> Figure:
    """The masks of `masks.py` as boards of queries and keys."""
    padding = masks.padding(torch.arange(5)[None] < 3)
    left = masks.padding(torch.arange(5)[None] >= 2)
    order = masks.causal(5, 5)
    boards = {
        "padding\nkeys 4, 5 pad": padding.expand(1, 1, 5, 5),
        "causal": order,
        "padding and\ncausal": masks.combine(padding, order),
        "left padding and causal\nqueries 1, 2 see nothing": masks.combine(left, order),
        "causal, cached\n2 queries, 5 keys": masks.causal(2, 5),
    }
    figure = Figure(figsize=(9, 2.3), layout="constrained")
    for axes, (title, allowed) in zip(figure.subplots(1, len(boards)), boards.items(), strict=True):
        assert allowed is not None
        board(axes, allowed[0, 0].float(), lowest=GREY)
        queries, keys = allowed.shape[2:]
        label_axes(axes, range(1, keys + 1), range(keys - queries + 1, keys + 1))
        axes.set_title(title)
        axes.set_xlabel("key")
        axes.set_ylabel("query")
        axes.set_anchor("N")
    return figure


def heads_figure(heads: int = 8) -> Figure:
    """Lines from each query head h to its key/value head h // (H / K)."""
    kinds = {"multi-head, K = 8": 8, "grouped-query, K = 2": 2, "multi-query, K = 1": 1}
    figure = Figure(figsize=(9, 1.9), layout="constrained")
    for axes, (title, kv_heads) in zip(figure.subplots(1, 3), kinds.items(), strict=True):
        group = heads // kv_heads
        places = [read * group + (group - 1) / 2 for read in range(kv_heads)]  # middle of a group
        for h in range(heads):
            axes.plot([h, places[h // group]], [1, 0], color="#999999", linewidth=1, zorder=1)
            dot(axes, h, 1, h, BLUE)
        for read, place in enumerate(places):
            dot(axes, place, 0, read, ORANGE)
        axes.set_title(title)
        axes.set_xlim(-0.7, heads - 0.3)
        axes.set_ylim(-0.35, 1.35)
        axes.set_yticks([0, 1], ["key/value\nhead", "query\nhead"])
        axes.tick_params(length=0)
        axes.set_xticks([])
        axes.spines[:].set_visible(False)
    for axes in figure.axes[1:]:
        axes.set_yticks([])
    return figure


def dot(axes: Axes, x: float, y: float, number: int, color: str) -> None:
    axes.scatter([x], [y], s=170, color=color, zorder=2)
    axes.text(x, y, str(number), color="white", ha="center", va="center_baseline", zorder=3)


def scale_figure(keys: int = 32) -> Figure:
    """How sharp the softmax of random queries and keys is, with the scale and without."""
    generator = torch.Generator().manual_seed(0)
    widths = [2**power for power in range(1, 11)]
    sharpness: dict[str, list[tuple[float, float]]] = {"not scaled": [], "divided by √E": []}
    for width in widths:
        q, k = torch.randn(2, 64, 1, keys, width, generator=generator)
        for name, queries in (("not scaled", q * width**0.5), ("divided by √E", q)):
            weights = attention_weights(queries, k)  # divides by √E
            entropy = -torch.xlogy(weights, weights).sum(-1).mean() / torch.log(torch.tensor(2.0))
            sharpness[name].append((weights.amax(-1).mean().item(), entropy.item()))
    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    largest, entropy_axes = figure.subplots(1, 2)
    for (name, points), color in zip(sharpness.items(), (ORANGE, BLUE), strict=True):
        for axes, values in zip((largest, entropy_axes), zip(*points, strict=True), strict=True):
            axes.plot(widths, values, "o-", color=color, label=name, markersize=4)
    largest.set_title("largest weight of a query (mean)")
    largest.set_ylim(0, 1.05)
    largest.legend(frameon=False)
    entropy_axes.set_title(f"entropy of the weights of {keys} keys, bits")
    entropy_axes.set_ylim(0, 5.25)
    for axes in (largest, entropy_axes):
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 8, 32, 128, 512], ["2", "8", "32", "128", "512"])
        axes.set_xlabel("width of a head, E")
    return figure


def weights_figure(reading: Reading) -> Figure:
    """Cross-attention: the layer that is surest, large, and all layers, small; means of heads."""
    maps = reading.of("cross_attention")
    means = {name: weights.mean(dim=0) for name, weights in maps.items()}
    surest = max(means, key=lambda name: means[name].amax(-1).mean().item())
    figure = Figure(figsize=(7.4, 4.4), layout="constrained")
    grid = figure.add_gridspec((len(means) + 1) // 2, 3, width_ratios=[2.4, 1, 1])
    large = figure.add_subplot(grid[:, 0])
    board(large, means[surest])
    label_axes(large, reading.source, reading.predicted)
    large.set_title(f"{surest}, mean of its heads")
    large.set_xlabel("English, read as keys and values")
    large.set_ylabel("French word that the query predicts")
    for place, (name, mean) in enumerate(means.items()):
        axes = figure.add_subplot(grid[place // 2, 1 + place % 2])
        board(axes, mean)
        label_axes(axes, (), ())
        axes.set_title(name.removesuffix(".cross_attention"))
    return figure


def self_attention_figure(reading: Reading) -> Figure:
    """Each head of the first encoder and the first decoder layer."""
    rows = (("encoder.0", reading.source), ("decoder.0", reading.read))
    heads = len(reading.maps["encoder.0.self_attention"])
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    for row, (layer, tokens) in enumerate(rows):
        for head, weights in enumerate(reading.maps[f"{layer}.self_attention"]):
            axes = figure.add_subplot(2, heads, row * heads + head + 1)
            board(axes, weights)
            label_axes(axes, tokens, tokens if head == 0 else ())
            axes.set_title(f"{layer}, head {head}")
    return figure


def board(axes: Axes, values_TS: Tensor, lowest: str = "#ffffff") -> None:
    """Squares from 0 (`lowest`) to 1 (blue), the first query above, the first key on the left."""
    queries, keys = values_TS.shape
    shades = LinearSegmentedColormap.from_list("shades", [lowest, BLUE])
    axes.add_patch(Rectangle((0, 0), keys, queries, color=lowest))
    seen = [(t, s) for t in range(queries) for s in range(keys) if values_TS[t, s] > 0.03]
    squares = [[(s, t), (s + 1, t), (s + 1, t + 1), (s, t + 1)] for t, s in seen]
    colors = [shades(values_TS[place].item()) for place in seen]
    axes.add_collection(PolyCollection(squares, facecolors=colors, linewidths=0, clip_on=False))
    axes.hlines(range(queries + 1), 0, keys, colors="#d4d4d4", linewidths=0.6)
    axes.vlines(range(keys + 1), 0, queries, colors="#d4d4d4", linewidths=0.6)
    axes.set_xlim(0, keys)
    axes.set_ylim(queries, 0)
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)


def label_axes(axes: Axes, keys: Sequence[object], queries: Sequence[object]) -> None:
    turn = 60 if any(len(str(key)) > 2 for key in keys) else 0
    axes.set_xticks(
        [place + 0.5 for place in range(len(keys))],
        [str(key) for key in keys],
        rotation=turn,
        ha="right" if turn else "center",
        rotation_mode="anchor",
    )
    axes.set_yticks([place + 0.5 for place in range(len(queries))], [str(q) for q in queries])
    axes.tick_params(length=0)


if __name__ == "__main__":
    main()
