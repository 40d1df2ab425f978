"""Required terms: outputs contain given sequences, each as often as it is asked for.

A term may overlap with another, or stand inside it. A rule for every strategy keeps an output
from ending before all terms are there, and leaves room for them; beam search also finds the place
where the model likes them best, by dynamic beam allocation (Post & Vilar 2018): the beams are
shared between hypotheses that have met more and fewer tokens of terms.

Shapes: B sentences, M beams, R hypotheses, C candidates to extend them; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.processors import Past, keep_only
from seq2seq.decoding.terms import Progress, Terms, Tokens


class RequiredTerms:
    """No output ends before its terms are there, and none leaves them too little room.

    Args:
        terms: those of each source of the batch.
        limits: most tokens of each output, end mark included.
        insist: from where the model would end an output, write out what is missing. Greedy search
            and sampling need it: they know no other hypotheses, and would go on to the limit.

    Attributes:
        writing: outputs (with their sentence) that are being completed so.
    """

    soft = False

    def __init__(
        self,
        terms: Sequence[Iterable[Sequence[int]]],
        limits: Sequence[int],
        insist: bool = False,
    ):
        self.terms = [Terms(sequences) for sequences in terms]
        self.limits, self.insist = limits, insist
        self.writing: set[tuple[int, Tokens]] = set()

    def __call__(self, log_probs_RV: Tensor, past: Past) -> None:
        lacking = list(self._lacking(past))
        if not lacking:
            return
        rows_R = torch.tensor([r for r, _, _, _ in lacking])
        ending = (log_probs_RV[rows_R].argmax(dim=1) == EOS).tolist() if self.insist else []
        log_probs_RV[rows_R, EOS] = -torch.inf
        kept: list[tuple[int, int]] = []
        for i, (row, sentence, output, progress) in enumerate(lacking):
            most = self.limits[sentence] - len(output) - 2  # beside the next token and the end mark
            if self.insist and (ending[i] or (sentence, output[:-1]) in self.writing):
                self.writing.add((sentence, output))
                most = min(most, progress.now - 1)
            if progress.other > most:
                kept += [(row, token) for token, left in progress.after.items() if left <= most]
        if kept:
            rows, tokens = np.array(kept).T
            keep_only(log_probs_RV, rows, tokens)

    def wanted(self, past: Past) -> list[tuple[int, int]]:
        """Tokens (row, token) that bring a hypothesis nearer to its terms."""
        return [
            (row, token)
            for row, _, _, progress in self._lacking(past)
            for token, left in progress.after.items()
            if left < progress.now
        ]

    def banks(self, past: Past, tokens_RK: np.ndarray) -> np.ndarray:
        """What each hypothesis would lack after each of its tokens (R, K), negative."""
        banks_RK = np.zeros(tokens_RK.shape, dtype=np.int64)
        for row, _, _, progress in self._lacking(past):
            left = [progress.after.get(token, progress.other) for token in tokens_RK[row].tolist()]
            banks_RK[row] = np.negative(left)
        return banks_RK

    def _lacking(self, past: Past) -> Iterator[tuple[int, int, Tokens, Progress]]:
        """Row, sentence and output of what lacks something, and how much."""
        for row, sentence in enumerate(past.sentence_R.tolist()):
            if self.terms[sentence].counts:
                output = tuple(past.tokens_RL[row].tolist())
                progress = self.terms[sentence].progress(output)
                if progress.now:
                    yield row, sentence, output, progress


def by_turns(order_BC: np.ndarray, banks_BC: np.ndarray, possible_BC: np.ndarray) -> np.ndarray:
    """Order candidates so that each bank has its turn: all first ones, all second ones, ...

    Whatever number is then taken from the front, banks share it equally, the fullest having the
    rest, and what one cannot fill goes to the others.

    Args:
        order_BC: candidates, best first.
        banks_BC: of each candidate; the larger, the more of its terms it has.
        possible_BC: those that are not come last.
    """
    banks, possible = (np.take_along_axis(a, order_BC, axis=1) for a in (banks_BC, possible_BC))
    turn_BC = _turns(banks)
    return np.take_along_axis(order_BC, np.lexsort((-banks, turn_BC, ~possible)), axis=1)


def _turns(banks_BC: np.ndarray) -> np.ndarray:
    """For each candidate how many of the same bank stand before it."""
    by_bank_BC = np.argsort(banks_BC, axis=1, kind="stable")
    sorted_BC = np.take_along_axis(banks_BC, by_bank_BC, axis=1)
    place_BC = np.broadcast_to(np.arange(banks_BC.shape[1]), banks_BC.shape)
    first_BC = sorted_BC != np.roll(sorted_BC, 1, axis=1)
    first_BC[:, 0] = True
    start_BC = np.maximum.accumulate(np.where(first_BC, place_BC, 0), axis=1)
    turn_BC = np.empty_like(by_bank_BC)
    np.put_along_axis(turn_BC, by_bank_BC, place_BC - start_BC, axis=1)
    return turn_BC
