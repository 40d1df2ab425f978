"""Sampling: draw each token from the model's probabilities, perhaps without the small ones.

Shapes: B sources, n samples of each, R = B x n outputs being extended, L their tokens so far,
V vocabulary, G blocks of K ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.constraints import Constraint
from seq2seq.decoding.greedy import extend
from seq2seq.decoding.history import History
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.step import Searchable

BLOCK = 64  # neighbouring ids that are drawn as one block first


def sample_search(
    model: Searchable,
    source_BS: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return `config.width` samples for each source (B, S), best first; samples may be equal.

    Every sample has its own random numbers, which depend only on the seed, the source and the
    number of the sample: the same sentence gets the same samples in any batch.
    """
    count = config.width
    sources = [[token for token in row if token != PAD] for row in source_BS.tolist()]
    uniforms_BnL2 = np.zeros((len(sources), count, max(limits), 2))
    for b, (source, limit) in enumerate(zip(sources, limits, strict=True)):
        for number in range(count):
            draw = np.random.default_rng([config.seed, number, *source])
            uniforms_BnL2[b, number, :limit] = draw.random((limit, 2))

    on_device_BnL2 = torch.from_numpy(uniforms_BnL2).to(source_BS.device)

    def choose(adjusted_RV: Tensor, history: History) -> Tensor:
        number_R = torch.arange(len(adjusted_RV), device=adjusted_RV.device) % count
        uniforms_R2 = on_device_BnL2[history.sentence_R, number_R, history.length]
        # The greatest value is 0, so no temperature overflows.
        below_RV = adjusted_RV - adjusted_RV.amax(dim=1, keepdim=True)
        probs_RV = truncate(torch.softmax(below_RV / config.temperature, dim=1), config)
        return draw_tokens(probs_RV, uniforms_R2.to(probs_RV))

    found = extend(model, source_BS, limits, config, constraints, choose=choose, count=count)
    return [sorted(samples, key=lambda sample: -sample.score) for samples in found]


def truncate(probs_RV: Tensor, config: DecodeConfig) -> Tensor:
    """Set probabilities (R, V) of unlikely tokens to zero; rows then sum to at most 1.

    Three cuts, in this order: tokens below `min_p` times the largest probability (Nguyen et al.
    2024); tokens after the `top_k` likeliest (Fan et al. 2018); tokens after the likeliest that
    together have `top_p` of the remaining probability (Holtzman et al. 2020). A token as likely as
    the last one kept is kept, too.
    """
    if config.min_p > 0:
        least_R1 = config.min_p * probs_RV.amax(dim=1, keepdim=True)
        probs_RV = probs_RV.where(probs_RV >= least_R1, 0)
    if 0 < config.top_k < probs_RV.size(1):
        least_R1 = probs_RV.topk(config.top_k, dim=1).values[:, -1:]
        probs_RV = probs_RV.where(probs_RV >= least_R1, 0)
    if config.top_p < 1:
        probs_RV = probs_RV.where(probs_RV >= _least_of_nucleus(probs_RV, config.top_p), 0)
    return probs_RV


def _least_of_nucleus(probs_RV: Tensor, top_p: float, count: int = 64) -> Tensor:
    """Return the smallest (R, 1) of the largest probabilities that together have `top_p` of a row.

    A CPU first looks at the `count` largest, which are enough for most rows, because sorting all is
    slow. On a GPU sorting is not slow, and a check whether they are enough would wait for the GPU.
    """
    size = probs_RV.size(1)
    count = count if probs_RV.device.type == "cpu" else size
    enough_R1 = top_p * probs_RV.sum(dim=1, keepdim=True)
    falling_RK = probs_RV.topk(min(count, size), dim=1).values
    cumulative_RK = falling_RK.cumsum(dim=1)
    inside_RK = cumulative_RK - falling_RK < enough_R1
    least_R1 = falling_RK.where(inside_RK, 1).amin(dim=1, keepdim=True)
    short_R = cumulative_RK[:, -1] < enough_R1[:, 0]
    if count < size and short_R.any():
        least_R1[short_R] = _least_of_nucleus(probs_RV[short_R], top_p, 16 * count)
    return least_R1


def draw_tokens(probs_RV: Tensor, uniforms_R2: Tensor) -> Tensor:
    """Choose a token of each row by two numbers from [0, 1): one for a block of ids, one inside it.

    With a single sum over all tokens, the rounding of likely tokens, which differs between batches,
    would often decide between the unlikely tokens after them.
    """
    size = probs_RV.size(1)
    blocks_RGK = pad(probs_RV, (0, -size % BLOCK)).reshape(len(probs_RV), -1, BLOCK)
    block_R = _passed(blocks_RGK.sum(dim=2), uniforms_R2[:, 0])
    rows_R = torch.arange(len(probs_RV), device=probs_RV.device)
    place_R = _passed(blocks_RGK[rows_R, block_R], uniforms_R2[:, 1])
    return (BLOCK * block_R + place_R).clamp(max=size - 1)  # for rows without any possible token


def _passed(weights_RN: Tensor, uniform_R: Tensor) -> Tensor:
    """Return the index where the cumulative weight of each row passes a share of its total."""
    cumulative_RN = weights_RN.cumsum(dim=1)
    total_R1 = cumulative_RN[:, -1:]
    below_R1 = torch.nextafter(total_R1, torch.zeros_like(total_R1))  # a rounded share may reach it
    share_R1 = (uniform_R[:, None].to(total_R1) * total_R1).minimum(below_R1)
    found_R = torch.searchsorted(cumulative_RN, share_R1, right=True)[:, 0]
    return found_R.clamp(max=weights_RN.size(1) - 1)
