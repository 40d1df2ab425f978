"""What is asked of a search: a source, what its translation must hold, how long it may be.

Other engines are asked, too, and start without torch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD
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
    prefix = tuple(request.prefix)
    required, banned = ([*map(tuple, given)] for given in (request.required, request.banned))
    for name, sequences in (
        ("its prefix", [prefix]),
        ("a required term", required),
        ("a banned sequence", banned),
    ):
        for tokens in sequences:
            if not {PAD, BOS, EOS}.isdisjoint(tokens):  # no constraint can put one into an output
                raise ValueError(
                    f"{name} holds a mark (padding, start or end): {list(tokens)}. Give tokens of "
                    "text alone"
                )
    if () in required:
        raise ValueError("a required term is empty: leave it out")
    if () in banned:
        raise ValueError("a banned sequence is empty, and so every output would hold it")
    forced = [("its prefix", prefix), *(("the required term", term) for term in required)]
    for out in banned:
        for name, tokens in forced:
            if any(tokens[i : i + len(out)] == out for i in range(len(tokens))):
                raise ValueError(
                    f"the banned tokens {list(out)} stand in {name} {list(tokens)}: leave one "
                    "of them out"
                )
    return len(prefix) + missing_tokens(required, prefix) + 1


def missing_tokens(required: Sequence[Sequence[int]], output: Sequence[int]) -> int:
    """Fewest tokens that are sure to complete an output: those of all terms that it lacks.

    Less those of the term that it ends in the middle of. `RequiredTerms` counts the same for all
    hypotheses of a batch.
    """
    output = tuple(output)
    left = Counter(tuple(term) for term in required)
    for term in left:
        places = (output[i : i + len(term)] for i in range(len(output)))
        left[term] -= min(left[term], sum(place == term for place in places))
    begun = (
        size
        for term, count in left.items()
        for size in range(1, len(term))
        if count and output[-size:] == term[:size]
    )
    return sum(count * len(term) for term, count in left.items()) - max(begun, default=0)
