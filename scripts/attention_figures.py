"""Draw the figures of docs/attention.md: python scripts/attention_figures.py --output FOLDER.

Masks and the scale are drawn from the functions of `seq2seq.model`, the weights from a trained
transformer, the shipped `general`, that translates one sentence.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure

from seq2seq.cli.exits import run_command
from seq2seq.data.collate import collate
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import UserError
from seq2seq.inference.attention_figure import Sentence, attention_figure, draw_attention
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model import masks
from seq2seq.model.attention import attention_weights
from seq2seq.model.attention_maps import attention_maps

SENTENCE = "My neighbor bought a red car yesterday."
STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Draw the figures of docs/attention.md.")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new folder")
    return parser


def draw(folder: Path) -> None:
    """Write one SVG file for each figure.

    Raises:
        UserError: the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        why = f"{error.strerror}. Name a new folder"
        raise UserError(f"--output {folder}: {why}") from error
    translator = Translator.load("general", "cpu", precision="float32")
    translation = translator.translate([SENTENCE])[0].text
    print(f"{SENTENCE} -> {translation}")
    pair = (translator.as_read(SENTENCE), translation)
    draw_attention(translator, [pair], folder / "weights.svg")
    with matplotlib.rc_context(STYLE):
        self_attention_figure(translator, *pair).savefig(folder / "self_attention.svg")
        scale_figure().savefig(folder / "scale.svg")
        masks_figure().savefig(folder / "masks.svg")


def self_attention_figure(translator: Translator, source: str, translation: str) -> Figure:
    """Each head of the first encoder and the first decoder layer."""
    assert isinstance(translator.engine, TorchEngine)
    model, vocabularies = translator.engine.models[0], translator.vocabularies
    ids = vocabularies.source.encode([source])
    target_ids = vocabularies.target.encode([translation])
    batch = collate(ids, target_ids)
    maps = attention_maps(model, batch.source, batch.source_real, batch.target_in)
    read = [*vocabularies.source.tokens(ids[0]), "</s>"]
    written = ["<s>", *vocabularies.target.tokens(target_ids[0])]
    sentences = [
        Sentence([maps[f"{side}.0.self_attention"][0].numpy()], tokens, tokens)
        for side, tokens in (("encoder", read), ("decoder", written))
    ]
    caption = """\
Above: the encoder, which sees the whole sentence. Below: the decoder, which sees no later token.
Rows: tokens whose queries read. Columns: tokens that are read. Each row sums to 1."""
    return attention_figure(sentences, AttentionHead(-1, -1), caption)


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
        queries, keys = allowed.shape[2:]
        axes.pcolormesh(allowed[0, 0], cmap="Blues", vmin=-0.2, vmax=1.4, edgecolors="white")
        axes.invert_yaxis()
        axes.set_xticks([key + 0.5 for key in range(keys)], range(1, keys + 1))
        axes.set_yticks(
            [query + 0.5 for query in range(queries)], range(keys - queries + 1, keys + 1)
        )
        axes.set(title=title, xlabel="key", ylabel="query", anchor="N", aspect="equal")
    return figure


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
    for (name, points), color in zip(sharpness.items(), ("#d9762b", "#2f6db3"), strict=True):
        for axes, values in zip((largest, entropy_axes), zip(*points, strict=True), strict=True):
            axes.semilogx(widths, values, "o-", base=2, color=color, label=name, markersize=4)
    largest.set(title="largest weight of a query (mean)", ylim=(0, 1.05))
    largest.legend(frameon=False)
    entropy_axes.set(title=f"entropy of the weights of {keys} keys, bits", ylim=(0, 5.25))
    for axes in (largest, entropy_axes):
        axes.set_xlabel("width of a head, E")
    return figure


if __name__ == "__main__":
    run_command(lambda: draw(parser().parse_args().output))
