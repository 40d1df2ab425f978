"""Translate any number of token lists: batches by length, results in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import collate_source
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.lengths import output_limits
from seq2seq.decoding.processors import InputMarks, MinLength, Processor
from seq2seq.decoding.request import Request
from seq2seq.decoding.step import State, StepModel


@torch.inference_mode()
def search(
    model: StepModel[State],
    requests: Sequence[Request],
    config: DecodeConfig,
    *,
    max_length: int,
    length_ratio: float = 1.0,
    device: torch.device | str = "cpu",
    progress: Callable[[int], object] | None = None,
) -> list[list[Hypothesis]]:
    """Search for the translations of sources.

    Args:
        model: what is searched.
        requests: sources of at most `max_length - 1` ids each.
        config: strategy, beam, length penalty and limits.
        max_length: the model's limit in tokens.
        length_ratio: target tokens per source token, as in the training corpus.
        device: where the model is.
        progress: called with the number of sentences that each batch finished.

    Returns:
        For each source its hypotheses, best first; one, or `config.n_best`.
    """
    strategy = greedy_search if config.beam == 1 else beam_search
    lengths = np.array([[len(request.source) + 1] * 2 for request in requests]).reshape(-1, 2)
    results: list[list[Hypothesis]] = [[] for _ in requests]
    # Longest first: what would not fit into memory fails at once, and progress only gets faster.
    budget = Budget(2 * max(1, config.batch_tokens // config.beam))  # of two equal sides
    for rows in reversed(token_batches(lengths, budget)):
        batch = [requests[row] for row in rows]
        source_BS = collate_source([list(request.source) for request in batch]).to(device)
        limits = [
            output_limits(int(lengths[row, 0]), config, max_length, length_ratio) for row in rows
        ]
        processors = make_processors(batch, limits, config)
        found = strategy(model, source_BS, [most for _, most in limits], config, processors)
        for row, hypotheses in zip(rows, found, strict=True):
            results[row] = hypotheses
        if progress is not None:
            progress(len(rows))
    return results


def make_processors(
    requests: Sequence[Request], limits: Sequence[tuple[int, int]], config: DecodeConfig
) -> list[Processor]:
    """The rules for a batch of requests, whose outputs have these limits."""
    return [InputMarks(), MinLength([least for least, _ in limits])]
