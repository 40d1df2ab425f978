"""An update is that of the mean loss per real target token, however its pairs are batched."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from tiny import random_ids
from tiny_training import Recorder, TinyData, tiny_fit, tiny_task

from seq2seq.config import OptimConfig
from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import PAD


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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_those_of_the_mean_loss_of_a_real_target_token(smoothing):
    """By torch's own cross-entropy, without padding and over both batches of the update."""
    task, recorder = tiny_task(OptimConfig(label_smoothing=smoothing)), Recorder()
    model, losses, tokens = copy.deepcopy(task.model).train(), [], 0
    for number in range(2):
        batch = collate(*ids(number))
        hidden = model(batch.source, batch.source != PAD, batch.target_in)
        scores, labels = model.project(hidden).flatten(0, 1), batch.labels.flatten()
        tokens += int((labels != PAD).sum())
        losses.append(F.cross_entropy(scores, labels, ignore_index=PAD, reduction="sum",
                                      label_smoothing=smoothing))  # fmt: skip
    (sum(losses) / tokens).backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    tiny_fit(task, [recorder], 1, accumulate=2, data=Small())
    assert recorder.norm[0] == pytest.approx(norm.item(), rel=1e-4)
