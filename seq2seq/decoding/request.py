"""What is asked of a search: a source, and what its translation must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.decoding.marks import check_tokens
from seq2seq.decoding.terms import Terms
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
    check_tokens("its prefix", [request.prefix])
    check_tokens("a banned sequence", request.banned)
    terms, prefix = Terms(request.required), tuple(request.prefix)
    for banned in map(tuple, request.banned):
        if not banned:
            raise ValueError("a banned sequence is empty, and so every output would hold it")
        forced = [("its prefix", prefix), *(("the required term", term) for term in terms.counts)]
        for name, tokens in forced:
            if any(tokens[i : i + len(banned)] == banned for i in range(len(tokens))):
                raise ValueError(
                    f"the banned tokens {list(banned)} stand in {name} {list(tokens)}: leave one "
                    "of them out"
                )
    return len(prefix) + terms.missing(prefix) + 1
