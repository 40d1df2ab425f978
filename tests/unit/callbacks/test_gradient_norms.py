"""Norms of the gradients of blocks: those before clipping, whatever is clipped."""

from __future__ import annotations

import lightning as L
import pytest
import torch
from tiny_training import tiny_fit, tiny_task

from seq2seq.callbacks import gradient_norms
from seq2seq.callbacks.gradient_norms import GradientNorms, block


class Unclipped(L.Callback):
    """Norms of gradients by the first two parts of parameter names, as loops add them up."""

    def __init__(self):
        self.squares = {}

    def on_train_batch_end(self, trainer, pl_module, *_):
        self.squares = {}
        for name, parameter in pl_module.model.named_parameters():
            parts = name.split(".")
            top = ".".join(parts[:2]) if parts[1].isdigit() else parts[0]
            total = sum(float(x) ** 2 for x in parameter.grad.flatten())
            self.squares[top] = self.squares.get(top, 0.0) + total


def fit(clip: float, steps: int, *others: L.Callback, **options):
    task, norms = tiny_task(), GradientNorms()
    task.gradient_clip = clip
    trainer = tiny_fit(task, [norms, *others], steps, log_every_n_steps=1, **options)
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    return norms, logged, trainer


def test_they_are_what_loops_find_when_nothing_is_clipped():
    naive = Unclipped()
    _, logged, _ = fit(0.0, 1, naive)
    blocks = {k.removeprefix("optim/grad_norm/"): v for k, v in logged.items()
              if k.startswith("optim/grad_norm/")}
    assert blocks == {name: pytest.approx(total**0.5, rel=1e-4)
                      for name, total in naive.squares.items()}
    assert {"encoder.0", "encoder.1", "decoder.0", "decoder.1"} < blocks.keys()


def test_clipping_changes_none_of_them():
    _, free, _ = fit(0.0, 1)
    _, clipped, _ = fit(0.01, 1)
    names = [name for name in free if name.startswith("optim/grad_norm")]
    assert free["optim/grad_norm"] > 0.1
    for name in names:
        assert clipped[name] == pytest.approx(free[name], rel=1e-4)


def test_they_are_gathered_from_one_validation_to_the_next(tmp_path):
    class Look(L.Callback):
        seen: list[int] = []  # noqa: RUF012

        def on_validation_epoch_end(self, trainer, pl_module):
            self.seen.append(len(norms.since_validation["encoder.0"]))

    look = Look()
    task, norms = tiny_task(), GradientNorms()
    tiny_fit(task, [norms, look], 7, val_every=3, log_every_n_steps=1)
    assert look.seen == [3, 3]
    assert len(norms.since_validation["encoder.0"]) == 1
    state = norms.state_dict()
    again = GradientNorms()
    again.load_state_dict(state)
    assert again.since_validation == norms.since_validation


def test_none_are_computed_where_nothing_is_logged(monkeypatch):
    monkeypatch.setattr(gradient_norms, "block_norms", None)  # a call would fail
    trainer = tiny_fit(tiny_task(), [GradientNorms(wanted=False)], 1, log_every_n_steps=1)
    assert trainer.global_step == 1


def test_a_step_that_was_left_out_is_not_among_them(monkeypatch):
    task, norms = tiny_task(), GradientNorms()
    monkeypatch.setattr(task.guard, "fault", lambda nll, norm: "bad")
    tiny_fit(task, [norms], 2, val_every=9, log_every_n_steps=1)
    assert norms.since_validation == {}


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("encoder.3.self_attention.q_proj.weight", "encoder.3"),
        ("decoder.11.norm.bias", "decoder.11"),
        ("source_embedding.tokens.weight", "source_embedding"),
        ("encoder.weight_ih_l0", "encoder"),
        ("output.weight", "output"),
    ],
)
def test_a_block_is_a_layer_or_what_stands_beside_them(parameter, expected):
    assert block(parameter) == expected


def test_all_zero_gradients_are_zero_and_no_error():
    norms = GradientNorms()
    task = tiny_task()

    class Zero(L.Callback):
        def on_after_backward(self, trainer, pl_module):
            for parameter in pl_module.parameters():
                parameter.grad = torch.zeros_like(parameter)

    tiny_fit(task, [norms, Zero()], 1, val_every=9, log_every_n_steps=1)
    assert set(norms.since_validation["encoder.0"]) == {0.0}
