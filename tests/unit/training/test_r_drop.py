"""R-Drop (Liang et al. 2021): two passes under two draws of dropout shall agree."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tiny import tiny_transformer
from tiny_training import Recorder, tiny_batch, tiny_fit, tiny_task

from seq2seq.config import OptimConfig
from seq2seq.data.tokenizer import PAD
from seq2seq.training.task import TranslationTask

SMOOTHING = 0.1


def task_of(model, r_drop: float) -> TranslationTask:
    return TranslationTask(model, OptimConfig(r_drop=r_drop, label_smoothing=SMOOTHING))


def step(model, r_drop: float) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(5)
    loss, _ = task_of(model, r_drop)(tiny_batch(0))
    return loss.detach(), torch.autograd.grad(loss, list(model.parameters()))


def test_without_dropout_both_passes_agree_and_it_is_the_plain_loss():
    model = tiny_transformer(dropout=0).train()
    torch.testing.assert_close(step(model, 5.0), step(model, 0.0))


def test_it_is_the_formula_of_the_paper_written_out():
    model = tiny_transformer(dropout=0.3).train()
    batch, weight = tiny_batch(0), 3.0
    torch.manual_seed(5)
    loss, _ = task_of(model, weight)(batch)
    torch.manual_seed(5)
    twice = [torch.cat([side, side]) for side in (batch.source, batch.target_in)]
    logits = model.project(model(twice[0], twice[0] != PAD, twice[1]))
    real = batch.labels != PAD
    first, second = (logits[rows][real] for rows in (slice(3), slice(3, None)))
    labels = batch.labels[real]
    losses = [
        F.cross_entropy(half, labels, reduction="sum", label_smoothing=SMOOTHING)
        for half in (first, second)
    ]
    p, q = first.softmax(-1), second.softmax(-1)
    apart = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    # Equation 4, L1 + L2 + alpha / 2 * (KL + KL), is of two passes; a loss counts one.
    torch.testing.assert_close(loss, (sum(losses) + weight / 2 * apart) / 2)
    assert apart > 0.01


def test_passes_come_closer_to_each_other_than_without_it():
    def apart(r_drop: float) -> float:
        optim = OptimConfig(lr=0.01, warmup_steps=2, r_drop=r_drop)
        task = tiny_task(optim, dropout=0.3)
        task.model.train()
        tiny_fit(task, [Recorder()], 15)
        torch.manual_seed(0)
        batch = tiny_batch(1)
        model = task.model.train()
        with torch.no_grad():
            logs = [
                model.project(model(batch.source, batch.source_real, batch.target_in))
                .log_softmax(-1)[batch.labels != PAD]
                for _ in range(20)
            ]
        pairs = zip(logs[::2], logs[1::2], strict=True)
        return sum(F.kl_div(a, b, reduction="sum", log_target=True).item() for a, b in pairs)

    assert apart(5.0) < 0.7 * apart(0.0)
