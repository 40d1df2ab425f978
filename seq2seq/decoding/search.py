"""Translate any number of token lists: batches by length, results in the order of the input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import collate_source
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.lengths import output_limit
from seq2seq.decoding.step import State, StepModel


@torch.inference_mode()
def search(
    model: StepModel[State],
    sources: list[list[int]],
    config: DecodeConfig,
    *,
    max_length: int,
    device: torch.device | str = "cpu",
    progress: Callable[[int], object] | None = None,
) -> list[list[Hypothesis]]:
    """Search for the translations of sources given as token ids without marks.

    Args:
        model: what is searched.
        sources: at most `max_length - 1` ids each.
        config: beam, length penalty and limits.
        max_length: the model's limit in tokens.
        device: where the model is.
        progress: called with the number of sentences that each batch finished.

    Returns:
        For each source its hypotheses, best first; one, or `config.n_best`.
    """
    strategy = greedy_search if config.beam == 1 else beam_search
    lengths = np.array([[len(source) + 1] * 2 for source in sources]).reshape(-1, 2)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    # Longest first: what would not fit into memory fails at once, and progress only gets faster.
    budget = Budget(2 * max(1, config.batch_tokens // config.beam))  # of two equal sides
    for rows in reversed(token_batches(lengths, budget)):
        source_BS = collate_source([sources[row] for row in rows]).to(device)
        limits = [output_limit(int(lengths[row, 0]), config, max_length) for row in rows]
        batch = strategy(model, source_BS, limits, config)
        for row, hypotheses in zip(rows, batch, strict=True):
            results[row] = hypotheses
        if progress is not None:
            progress(len(rows))
    return results
