"""Cross-attention of each head in some translations, as data for the viewer of page.js.

Shapes: L layers, H heads, S source tokens, T target tokens; S and T include end marks.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.decoding.forced import forced_maps
from seq2seq.errors import UserError
from seq2seq.html_page import visible
from seq2seq.model.attention_maps import cross_attentions
from seq2seq.report.run import Run
from seq2seq.text import evenly, normaliser

SENTENCES, WORDS = 6, 30  # sentences of a run; words of the longest sentence
BYTES = 500_000  # attention weights on a page, before their encoding in base64


def attention(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the viewer's data for each run, or the reason why there are none."""
    found = []
    for run in runs:
        try:
            found.append({"name": run.name, "why_not": "", **_viewer(run, BYTES // len(runs))})
        except UserError as error:
            found.append({"name": run.name, "why_not": str(error)})
    return found


def _viewer(run: Run, limit: int) -> dict[str, Any]:
    """Return the data of a run's viewer: attention of the bundle in the last validation's samples.

    `step` is the step of the samples. `read_by` names the weights that computed the attention,
    since those of the bundle may be older or newer than the samples.
    """
    if not run.samples:
        raise UserError(
            "samples.jsonl of this run holds no translations (logger.samples=0 keeps none)"
        )
    last = run.samples[-1]
    pairs = [(one["source"], one["hypothesis"]) for one in last["sentences"]]
    fitting = [pair for pair in pairs if all(0 < len(text.split()) <= WORDS for text in pair)]
    fitting.sort(key=lambda pair: len(pair[0].split()))
    bundle = load_bundle(run.folder)
    data = attention_data(bundle, evenly(fitting, SENTENCES), limit)
    if not data["sentences"]:
        raise UserError(f"no translation is short enough: its weights take {limit:,} bytes at most")
    of = "an average of weights up to" if "averaged" in bundle.training else "the weights of"
    made = bundle.training.get("step")
    read_by = f"{of} step {made:,}" if isinstance(made, int) else "the weights of the bundle"
    return {"step": last["step"], "read_by": read_by, "data": data}


def attention_data(bundle: Bundle, pairs: Sequence[tuple[str, str]], limit: int) -> dict[str, Any]:
    """Compute what the viewer reads: tokens, and weights (L, H, T, S) as bytes in base64.

    Weights of 0 to 1 become 0 to 255. All take `limit` bytes at most: later pairs are left out.
    """
    model, source, target = bundle.model, bundle.vocabularies.source, bundle.vocabularies.target
    encoded = bundle.vocabularies.encode_pairs(pairs, normaliser(bundle.normalise))
    rows = [row for row, sides in enumerate(encoded)
            if all(sides) and max(map(len, sides)) < model.config.max_length]  # fmt: skip
    texts, ids = [pairs[row][0] for row in rows], [encoded[row] for row in rows]
    modules = cross_attentions(model)
    found: list[dict[str, Any]] = []
    shape = (0, 0)
    for row, maps in sorted(forced_maps(model, ids, modules), key=lambda item: item[0]):
        weights_LHTS = np.round(255 * np.stack(maps)).astype(np.uint8)
        shape, limit = weights_LHTS.shape[:2], limit - weights_LHTS.size
        if limit < 0:
            break
        found.append({
            "text": visible(texts[row]),
            "source": _readable(source.tokens(ids[row][0])),
            "target": _readable(target.tokens(ids[row][1])),
            "weights": base64.b64encode(weights_LHTS.tobytes()).decode("ascii"),
        })  # fmt: skip
    aligns = [modules.index(bundle.alignment.module(modules)), bundle.alignment.head]
    return {"sentences": found, "layers": shape[0], "heads": shape[1], "aligns": aligns}


def _readable(tokens: Sequence[str]) -> list[str]:
    """Make tokens readable: without the sign for a space; a dot if one continues a word."""
    found = []
    for token in map(visible, tokens):
        if token.startswith("▁"):
            found.append(token.removeprefix("▁") or "␣")
        else:
            found.append(f"·{token}" if found and token[:1].isalnum() else token)
    return [*found, "(end)"]
