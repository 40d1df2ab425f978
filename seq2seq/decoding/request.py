"""What is asked of a search: a source, what its translation must hold, how long it may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from seq2seq.config import DecodeConfig
from seq2seq.decoding.constraints import check_no_marks
from seq2seq.decoding.hypothesis import History
from seq2seq.decoding.lexical_constraints import RequiredTerms
from seq2seq.errors import RequestError

IdPair = tuple[Sequence[int], Sequence[int]]  # source and target ids without marks


@dataclass(frozen=True)
class Request:
    """One source as token ids, without marks.

    Attributes:
        source: to be translated.
        prefix: the output begins so.
        required: sequences that the output contains, each as often as it stands here; they may
            overlap.
        banned: sequences that it does not contain.
    """

    source: Sequence[int]
    prefix: Sequence[int] = ()
    required: Sequence[Sequence[int]] = ()
    banned: Sequence[Sequence[int]] = ()


class RoomError(RequestError):
    """What is asked of a translation does not fit into its limit; less of it may."""


def output_limits(
    source_length: int, config: DecodeConfig, model_limit: int, ratio: float = 1.0
) -> tuple[int, int]:
    """Fewest output tokens before the end mark, and most with it, for a source.

    Args:
        source_length: its tokens, end mark included.
        config: factors of the length that is to be expected.
        model_limit: most tokens of the model.
        ratio: target tokens per source token, as in the training corpus.
    """
    expected = ratio * source_length
    most = min(math.ceil(config.max_ratio * expected) + config.max_extra, model_limit)
    least = max(config.min_length, math.floor(config.min_ratio * expected))
    return min(least, most - 1), most


def check_requests(requests: Sequence[Request], limits: Sequence[int]) -> None:
    """Refuse what cannot be.

    Args:
        requests: any number.
        limits: most tokens of each output, end mark included.

    Raises:
        RequestError: a request contradicts itself; names it.
        RoomError: none does, but one does not fit into its limit; names it.
    """
    crowded = ""
    for number, (request, limit) in enumerate(zip(requests, limits, strict=True), 1):
        if request.prefix or request.required or request.banned:
            wrong = f"sentence {number} cannot be translated so"
            try:
                needed = _needed(request)
            except ValueError as error:
                raise RequestError(f"{wrong}: {error}") from error
            if needed > limit:
                crowded = crowded or (
                    f"{wrong}: its prefix and required terms have {needed - 1} tokens, and its "
                    f"output may have {limit - 1}: ask for less, or raise decode.max_ratio or "
                    "decode.max_extra as far as the model's own limit allows"
                )
    if crowded:
        raise RoomError(crowded)


def _needed(request: Request) -> int:
    """Fewest tokens of an output that is as it is asked for, end mark included.

    Raises:
        ValueError: there is no such output.
    """
    prefix, required = tuple(request.prefix), [tuple(term) for term in request.required]
    check_no_marks("its prefix", [prefix])
    check_no_marks("a banned sequence", request.banned)
    missing = 0
    if required:
        tokens_RL = torch.tensor([prefix], dtype=torch.long)
        history = History(tokens_RL, tokens_RL.double(), torch.tensor([0]))
        missing = int(RequiredTerms([required], [0]).missing(history).now_R)
    for banned in map(tuple, request.banned):
        if not banned:
            raise ValueError("a banned sequence is empty, and so every output would hold it")
        forced = [("its prefix", prefix), *(("the required term", term) for term in required)]
        for name, tokens in forced:
            if any(tokens[i : i + len(banned)] == banned for i in range(len(tokens))):
                raise ValueError(
                    f"the banned tokens {list(banned)} stand in {name} {list(tokens)}: leave one "
                    "of them out"
                )
    return len(prefix) + missing + 1
