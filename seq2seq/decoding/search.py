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
from seq2seq.decoding.step import Searchable

COUNTED_LENGTH = 8  # a shorter source counts as this long, to limit the rows of a batch

Found = list[list[Hypothesis]]


def search(
    model: Searchable,
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
        max_length: limit of the model in tokens.
        length_ratio: target tokens per source token, as in the training corpus.
        device: of the model.
        progress: called with the number of sentences that each batch finished.
        workers: batches that a CPU searches at the same time, with one thread each. This is faster
            than as many threads on one batch, which wait for each other at each operation.

    Returns:
        The hypotheses of each source, best first. A beam search returns all that have ended; only
        the first `config.n_best` are sure to be its best.

    Raises:
        RequestError: no output can satisfy a request.
    """
    strategy = sample_search
    if config.strategy == "beam":
        strategy = greedy_search if config.beam == 1 else beam_search
    results: Found = [[] for _ in requests]
    lengths = [len(request.source) + 1 for request in requests]
    all_limits = [output_limits(length, config, max_length, length_ratio) for length in lengths]
    check_requests(requests, [limits.most for limits in all_limits])
    # Longest first: a batch too large for the memory fails at once, and progress only gets faster.
    # A step computes a score of each vocabulary token for each hypothesis, however short.
    counted = np.maximum(lengths, COUNTED_LENGTH)
    budget = Budget(2 * max(1, config.batch_tokens // config.width))  # counts two equal sides
    batches = token_batches(np.stack([counted, counted], axis=1), budget)[::-1]

    @torch.inference_mode()  # acts on this thread only
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
    """Make the constraints for a batch of requests, whose outputs have these limits.

    The order of constraints settles conflicts: requirements come before the rules against
    repetition, which give way.
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


def _in_threads(
    work: Callable[[np.ndarray], Found], batches: Sequence[np.ndarray], workers: int
) -> Iterator[tuple[np.ndarray, Found]]:
    """Yield each batch and the result of `work`, in the order of completion."""
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
            pool.shutdown(cancel_futures=True)  # after an error or interrupt, start no more
            torch.set_num_threads(threads)  # the workers' setting would hold for later threads
