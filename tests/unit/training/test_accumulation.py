"""One batch of 2N pairs, and two of N that are accumulated, are the same update."""

from __future__ import annotations

import pytest
import torch
from tiny import random_ids
from tiny_training import Recorder, TinyData, tiny_fit, tiny_task

from seq2seq.config import OptimConfig
from seq2seq.data.collate import collate


def ids(number: int) -> tuple[list[list[int]], list[list[int]]]:
    """Source and target of a batch; of very different lengths from one to the next."""
    words = 2 + 5 * (number % 2)
    source, target = (
        [random_ids(7 * number + side, words + i).tolist() for i in range(3)] for side in (0, 1)
    )
    return source, target


class Small(TinyData):
    def batches(self):
        yield from (collate(*ids(number)) for number in range(100))


class Large(TinyData):
    """Two batches of the small ones as one, padded to the longer of them."""

    def batches(self):
        for number in range(0, 100, 2):
            first, second = ids(number), ids(number + 1)
            yield collate(first[0] + second[0], first[1] + second[1])


def test_a_batch_of_2n_is_two_of_n():
    recorders = []
    for data, accumulate in ((Large(), 1), (Small(), 2)):
        optim = OptimConfig(lr=0.01, warmup_steps=2)
        recorders.append(Recorder())
        tiny_fit(tiny_task(optim), [recorders[-1]], 6, accumulate=accumulate, data=data)
    whole, halves = recorders
    assert halves.nll == pytest.approx(whole.nll, rel=1e-5)
    assert halves.norm == pytest.approx(whole.norm, rel=1e-4)
    for name, weight in whole.weights[-1].items():
        if not name.endswith("k_proj.bias"):  # softmax does not see it: its gradient is rounding
            torch.testing.assert_close(halves.weights[-1][name], weight, rtol=1e-3, atol=1e-4)
