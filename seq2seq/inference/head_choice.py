"""Which attention of a model aligns best: the one that agrees most with links found by counting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.forced import forced_maps
from seq2seq.decoding.request import IdPair
from seq2seq.inference.lexical_links import lexical_links
from seq2seq.model.attention_maps import cross_attentions
from seq2seq.model.translation_model import TranslationModel

PAIRS = 500  # are enough to choose a head: agreements then vary by one percent


def choose_head(model: TranslationModel, pairs: Sequence[IdPair]) -> AttentionHead:
    """The head, or mean of a layer's heads, whose strongest weights agree best with links that
    mere counting finds in these pairs (`lexical_links`).

    Such links are no gold standard, but they know nothing of the model, and their mistakes
    favour no head: heads that agree more with them align better.

    Args:
        model: in evaluation mode.
        pairs: of held-out data with reference translations; the first 500 that fit count.
    """
    limit = model.config.max_length - 1  # the end mark needs a place too
    fitting = [pair for pair in pairs if all(0 < len(side) <= limit for side in pair)][:PAIRS]
    if not fitting:
        return AttentionHead()
    agreement = agreements(model, fitting)
    layer, head = np.unravel_index(agreement.argmax(), agreement.shape)
    mean = head == agreement.shape[1] - 1
    return AttentionHead(int(layer), None if mean else int(head))


def agreements(model: TranslationModel, pairs: Sequence[IdPair]) -> np.ndarray:
    """Share of lexical links that each head agrees with (layers, H + 1); the means stand last."""
    links = lexical_links(*zip(*pairs, strict=True))
    modules = cross_attentions(model)
    hits, total = np.zeros((len(modules), 1)), 0
    for row, maps in forced_maps(model, pairs, modules):
        if not links[row]:
            continue
        s, t = np.array(links[row]).T
        heads = np.stack([np.concatenate([m, m.mean(axis=0, keepdims=True)]) for m in maps])
        best = heads[..., :-1].argmax(axis=-1)  # of each target token; the end mark is no word
        hits = hits + (best[..., t] == s).sum(axis=-1)
        total += len(s)
    return hits / max(1, total)
