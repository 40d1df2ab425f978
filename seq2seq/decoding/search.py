"""Translate any number of token lists: batches by length, results in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

import numpy as np
import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.collate import collate_source
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.constraints import (
    BannedSequences,
    Constraint,
    Device,
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
)
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import OutputLimits, Request, check_requests, output_limits
from seq2seq.decoding.sampling import sample_search
from seq2seq.decoding.step import Searchable, State

COUNTED_LENGTH = 8  # tokens that a source counts as, lest a batch of short ones has too many rows

Found = list[list[Hypothesis]]


def search(
    model: Searchable[State],
    requests: Sequence[Request],
    config: DecodeConfig,
    *,
    max_length: int,
    length_ratio: float = 1.0,
    device: Device = "cpu",
    progress: Callable[[int], object] | None = None,
    workers: int = 1,
) -> Found:
    """Search for the translations of sources.

    Args:
        requests: sources of at most `max_length - 1` ids each.
        max_length: the model's limit in tokens.
        length_ratio: target tokens per source token, as in the training corpus.
        progress: called with the number of sentences that each batch finished.
        workers: batches that are searched at the same time on a CPU, by one thread each. They beat
            as many threads on one batch, which wait for each other at each operation.

    Returns:
        For each source its hypotheses, best first. A beam search returns all that have ended; the
        first `config.n_best` are sure to be its best, and the others came for free.

    Raises:
        RequestError: what is asked of a translation cannot be.
    """
    lengths = np.array([[len(request.source) + 1] * 2 for request in requests]).reshape(-1, 2)
    # A step makes a number for each token of the vocabulary and each hypothesis, however short.
    counted = np.maximum(lengths, COUNTED_LENGTH)
    strategy = _strategy(config)
    results: Found = [[] for _ in requests]
    all_limits = [
        output_limits(length, config, max_length, length_ratio) for length in lengths[:, 0].tolist()
    ]
    check_requests(requests, [limits.most for limits in all_limits])
    # Longest first: what would not fit into memory fails at once, and progress only gets faster.
    budget = Budget(2 * max(1, config.batch_tokens // config.width))  # of two equal sides
    batches = token_batches(counted, budget)[::-1]

    @torch.inference_mode()  # of this thread only
    def search_batch(rows: np.ndarray) -> Found:
        batch = [requests[row] for row in rows]
        source_BS = collate_source([list(request.source) for request in batch]).to(device)
        limits = [all_limits[row] for row in rows]
        constraints = make_constraints(batch, limits, config, device)
        return strategy(model, source_BS, [of.most for of in limits], config, constraints)

    for rows, found in _in_threads(search_batch, batches, workers):
        for row, hypotheses in zip(rows, found, strict=True):
            results[row] = hypotheses
        if progress is not None:
            progress(len(rows))
    return results


def make_constraints(
    requests: Sequence[Request],
    limits: Sequence[OutputLimits],
    config: DecodeConfig,
    device: Device = "cpu",
) -> list[Constraint]:
    """The constraints that a batch of requests needs, whose outputs have these limits.

    Their order decides where they meet: what is forced comes before what merely should not be,
    which gives way.
    """
    made: list[Constraint] = [MinLength([of.fewest for of in limits], device)]
    if any(request.prefix for request in requests):
        made.append(ForcedPrefix([request.prefix for request in requests], device))
    if any(request.banned for request in requests):
        made.append(BannedSequences([request.banned for request in requests], device))
    if config.no_repeat_ngram:
        made.append(NoRepeatNgram(config.no_repeat_ngram))
    if config.repetition_penalty > 1:
        made.append(RepetitionPenalty(config.repetition_penalty))
    return made


def _strategy(config: DecodeConfig) -> Callable[..., Found]:
    if config.strategy == "beam":
        return greedy_search if config.beam == 1 else beam_search
    return sample_search


def _in_threads(
    work: Callable[[np.ndarray], Found], batches: Sequence[np.ndarray], workers: int
) -> Iterator[tuple[np.ndarray, Found]]:
    """Each batch and what `work` makes of it, in the order in which they are done."""
    workers = min(workers, len(batches))
    if workers <= 1:
        yield from ((batch, work(batch)) for batch in batches)
        return
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(workers, initializer=partial(torch.set_num_threads, 1)) as pool:
        started = {pool.submit(work, batch): batch for batch in batches}
        try:
            for done in as_completed(started):
                yield started[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)  # what failed, or was interrupted, ends soon
            torch.set_num_threads(threads)  # what the others set holds for threads to come
