"""A request to a search: a source, what its translation must contain, how long it may be.

This file does not import torch, because engines without torch take requests, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seq2seq.config import DecodeConfig
from seq2seq.errors import RequestError

IdPair = tuple[Sequence[int], Sequence[int]]  # source and target ids without special tokens


def fits(pair: IdPair, max_length: int) -> bool:
    """Tell whether both sides have tokens, and fit with end marks into a model of this limit."""
    return 0 < min(map(len, pair)) <= max(map(len, pair)) < max_length


@dataclass(frozen=True)
class Request:
    """One source as token ids, without special tokens.

    Attributes:
        source: ids to translate.
        prefix: ids that the output begins with.
        banned: sequences of ids that the output must not contain.
    """

    source: Sequence[int]
    prefix: Sequence[int] = ()
    banned: Sequence[Sequence[int]] = ()


class OutputLimits(NamedTuple):
    """Fewest tokens of an output without its end mark, and most tokens with the end mark."""

    fewest: int
    most: int


def output_limits(
    source_length: int, config: DecodeConfig, model_limit: int, ratio: float = 1.0
) -> OutputLimits:
    """Return the limits of the output for a source.

    Args:
        source_length: tokens of the source, end mark included.
        config: sets the limits relative to the expected length.
        model_limit: most tokens that the model can handle.
        ratio: target tokens per source token, as in the training corpus.
    """
    expected = ratio * source_length
    most = min(math.ceil(config.max_ratio * expected) + config.max_extra, model_limit)
    least = max(config.min_length, math.floor(config.min_ratio * expected))
    return OutputLimits(min(least, most - 1), most)


def check_requests(requests: Sequence[Request], limits: Sequence[int]) -> None:
    """Raise RequestError if a request contradicts itself or its output limit; name the request."""
    for number, (request, limit) in enumerate(zip(requests, limits, strict=True), 1):
        prefix, banned = list(request.prefix), [*map(list, request.banned)]
        inside = [
            out for out in banned for i in range(len(prefix)) if prefix[i : i + len(out)] == out
        ]
        if [] in banned:
            problem = "a banned sequence is empty, and so every output would contain it"
        elif inside:
            problem = (
                f"the banned tokens {inside[0]} are in its prefix {prefix}: leave one of them out"
            )
        elif prefix and len(prefix) >= limit:  # the end mark needs a place, too
            problem = (
                f"its prefix has {len(prefix)} tokens, and its output may have {limit - 1}: give a "
                "shorter prefix, or raise decode.max_ratio or decode.max_extra as far as the "
                "model's own limit allows"
            )
        else:
            continue
        raise RequestError(f"sentence {number} cannot be translated so: {problem}")
