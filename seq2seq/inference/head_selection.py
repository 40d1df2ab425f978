"""Choice of the attention head that aligns best: the one that agrees most with lexical links.

Lexical links come from counts and do not depend on the model: IBM model 1 (Brown et al. 1993) with
a preference for equal relative positions (Dyer et al. 2013, "A simple, fast, and effective
reparameterization of IBM model 2"), in both directions; links that both directions find are kept.
Most of these are right (Och and Ney 2003), though many tokens get none.

Shapes: S source and T target length, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seq2seq.data.word_links import nearness, translation_table
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.forced import forced_maps
from seq2seq.decoding.request import IdPair, fits
from seq2seq.model.attention_maps import cross_attentions
from seq2seq.model.translation_model import TranslationModel

Ids = Sequence[Sequence[int]]

TENSION = 4.0  # how strongly equal relative positions are preferred
PAIRS = 500  # suffice to choose a head: agreements then vary by one percent


def choose_head(model: TranslationModel, pairs: Sequence[IdPair]) -> AttentionHead:
    """Choose the head, or the mean of a layer's heads, whose strongest weights agree best with the
    lexical links of these pairs.

    Such links are no gold standard, but they do not depend on the model, and their mistakes favour
    no head. So heads that agree more with them align better.

    Args:
        model: in evaluation mode.
        pairs: held-out data with reference translations; the first 500 that fit are used.
    """
    fitting = [pair for pair in pairs if fits(pair, model.config.max_length)][:PAIRS]
    if not fitting:
        return AttentionHead()
    agreement = agreements(model, fitting)
    layer, head = np.unravel_index(agreement.argmax(), agreement.shape)
    mean = head == agreement.shape[1] - 1
    return AttentionHead(int(layer), None if mean else int(head))


def agreements(model: TranslationModel, pairs: Sequence[IdPair]) -> np.ndarray:
    """Return the share of lexical links that each head agrees with: (layers, H + 1), means last."""
    links = ibm1_links(*zip(*pairs, strict=True))
    modules = cross_attentions(model)
    hits, total = np.zeros((len(modules), 1)), 0
    for row, maps in forced_maps(model, pairs, modules):
        if not links[row]:
            continue
        s, t = np.array(links[row]).T
        heads = np.stack([np.concatenate([m, m.mean(axis=0, keepdims=True)]) for m in maps])
        best = heads[..., :-1].argmax(axis=-1)  # for each target token; the end mark is no word
        hits = hits + (best[..., t] == s).sum(axis=-1)
        total += len(s)
    return hits / max(1, total)


def ibm1_links(sources: Ids, targets: Ids) -> list[list[tuple[int, int]]]:
    """Return the lexical links (s, t) between the tokens of each pair.

    Args:
        sources, targets: ids without special tokens, none empty; more pairs give better counts.
    """
    forward, backward = likeliest_sources(sources, targets), likeliest_sources(targets, sources)
    return [
        [(int(s), t) for t, s in enumerate(best_T) if best_S[s] == t]
        for best_T, best_S in zip(forward, backward, strict=True)
    ]


def likeliest_sources(sources: Ids, targets: Ids) -> list[np.ndarray]:
    """Return for each pair the places (T,) of the likeliest source token of each target token."""
    table = translation_table(sources, targets, TENSION, least=0)
    found = []
    for source, target in zip(sources, targets, strict=True):
        probs_TS = np.array([[table.get((s, t), 0.0) for s in source] for t in target])
        found.append((probs_TS * nearness(len(target), len(source), TENSION)).argmax(axis=1))
    return found
