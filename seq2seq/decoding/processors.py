"""Rules about which token may come next: small objects that every strategy applies alike.

Shapes: R hypotheses being extended, L tokens that each has so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.marks import check_tokens


@dataclass
class Past:
    """What the hypotheses have so far; on the CPU, whatever the device of the scores.

    Attributes:
        tokens_RL: their tokens, without the start mark.
        sentence_R: which source of the batch each extends.
    """

    tokens_RL: np.ndarray
    sentence_R: np.ndarray


class Processor(Protocol):
    """Changes the log probabilities of the next token, in place.

    Attributes:
        soft: whether it changes those of tokens that stay possible. What is found is then ranked
            by the changed ones; the scores of results are always the model's own.
    """

    soft: bool

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None: ...


def ranks(log_probs_RV: Tensor, processors: Sequence[Processor], past: Past) -> Tensor:
    """By what the next tokens are to be chosen (R, V).

    Args:
        log_probs_RV: of the model; tokens that must not be get minus infinity.
        processors: applied one after another.
        past: what the hypotheses have so far.
    """
    if any(processor.soft for processor in processors):
        log_probs_RV = log_probs_RV.clone()
    for processor in processors:
        processor(log_probs_RV, past)
    return log_probs_RV


class InputMarks:
    """Padding and start mark are inputs of a model, never outputs."""

    soft = False

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        log_probs_RV[:, PAD] = -torch.inf
        log_probs_RV[:, BOS] = -torch.inf


class MinLength:
    """No end mark before an output has so many tokens.

    Args:
        least: for each source of the batch.
    """

    soft = False

    def __init__(self, least: Sequence[int]):
        self.least = np.asarray(least)

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        short_R = self.least[past.sentence_R] > past.tokens_RL.shape[1]
        if short_R.all():
            log_probs_RV[:, EOS] = -torch.inf
        elif short_R.any():
            rows = torch.from_numpy(np.flatnonzero(short_R)).to(log_probs_RV.device)
            log_probs_RV[rows, EOS] = -torch.inf


class ForcedPrefix:
    """Outputs begin with given tokens.

    Args:
        prefixes: for each source of the batch; an empty one asks for nothing.
    """

    soft = False

    def __init__(self, prefixes: Sequence[Sequence[int]]):
        check_tokens("a prefix", prefixes)
        self.lengths = np.array([len(prefix) for prefix in prefixes], dtype=np.int64)
        self.tokens_BL = np.full((len(prefixes), self.lengths.max(initial=0)), PAD)
        for b, prefix in enumerate(prefixes):
            self.tokens_BL[b, : len(prefix)] = prefix

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        place = past.tokens_RL.shape[1]
        rows = np.flatnonzero(self.lengths[past.sentence_R] > place)
        if len(rows):
            keep_only(log_probs_RV, rows, self.tokens_BL[past.sentence_R[rows], place])


class BannedSequences:
    """Given sequences of tokens never occur.

    Args:
        banned: the sequences of each source of the batch.
    """

    soft = False

    def __init__(self, banned: Sequence[Sequence[Sequence[int]]]):
        for sequences in banned:
            check_tokens("a banned sequence", sequences)
            if not all(sequences):
                raise ValueError("a banned sequence is empty, and so every output would hold it")
        different = {tuple(sequence) for sequences in banned for sequence in sequences}
        # For each sequence whether it is banned from a source: sources often ban the same ones.
        self.applies = {
            sequence: np.array([sequence in set(map(tuple, own)) for own in banned])
            for sequence in sorted(different)
        }

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        length = past.tokens_RL.shape[1]
        for (*begin, last), applies_B in self.applies.items():
            if len(begin) > length:
                continue
            begun_R = (past.tokens_RL[:, length - len(begin) :] == begin).all(axis=1)
            rows = np.flatnonzero(begun_R & applies_B[past.sentence_R])
            log_probs_RV[torch.from_numpy(rows), last] = -torch.inf


class NoRepeatNgram:
    """No n-gram occurs twice, unless nothing else can follow, as within a forced prefix.

    Args:
        size: its number of tokens, n (Paulus et al. 2018 take 3).
    """

    soft = False

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"n-grams of {size} tokens cannot repeat: give 1 or more")
        self.size = size

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        length = past.tokens_RL.shape[1]
        if length < self.size:
            return
        grams_RGN = sliding_window_view(past.tokens_RL, self.size, axis=1)
        begun_RN = past.tokens_RL[:, length - self.size + 1 :]  # the first n - 1 of a next n-gram
        begun_RG = (grams_RGN[..., :-1] == begun_RN[:, None]).all(axis=2)
        rows, places = np.nonzero(begun_RG)
        if len(rows):
            rule_out(log_probs_RV, rows, grams_RGN[rows, places, -1])


class RepetitionPenalty:
    """Tokens that an output has already are less likely (Keskar et al. 2019, on log scale).

    Args:
        factor: what their log probabilities are multiplied by.
    """

    soft = True

    def __init__(self, factor: float):
        if not 1 <= factor < float("inf"):
            raise ValueError(f"a factor of {factor} would favour repetition: give 1 or more")
        self.factor = factor

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        used_RL = torch.from_numpy(past.tokens_RL).to(log_probs_RV.device)
        log_probs_RV.scatter_(1, used_RL, self.factor * log_probs_RV.gather(1, used_RL))


def rule_out(log_probs_RV: Tensor, rows: np.ndarray, tokens: np.ndarray) -> None:
    """Make tokens impossible in rows (pairs), except in a row where that would leave none."""
    touched, places = np.unique(rows, return_inverse=True)
    new = log_probs_RV[torch.from_numpy(touched)]
    new[torch.from_numpy(places), torch.from_numpy(tokens)] = -torch.inf
    _replace(log_probs_RV, touched, new)


def keep_only(log_probs_RV: Tensor, rows: np.ndarray, tokens: np.ndarray) -> None:
    """Rows keep tokens (pairs) and lose all others, except where that would leave none."""
    touched, places = (torch.from_numpy(i) for i in np.unique(rows, return_inverse=True))
    kept = (places, torch.from_numpy(tokens))
    new = torch.full_like(log_probs_RV[touched], -torch.inf)
    new[kept] = log_probs_RV[touched][kept]
    _replace(log_probs_RV, touched.numpy(), new)


def _replace(log_probs_RV: Tensor, rows: np.ndarray, new: Tensor) -> None:
    """Give rows new values, unless these are all impossible."""
    index = torch.from_numpy(rows)
    dead_R1 = new.amax(dim=1, keepdim=True) == -torch.inf
    log_probs_RV[index] = torch.where(dead_R1, log_probs_RV[index], new)
