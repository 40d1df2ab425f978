"""Norms of the gradients of blocks: those before clipping, whatever is clipped."""

from __future__ import annotations

import math

import pytest
from tiny_training import tiny_fit, tiny_task

from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.gradient_norms import GradientNorms, block


class Unclipped(Callback):
    """Norms of gradients by the first two parts of parameter names, as loops add them up."""

    def __init__(self):
        self.squares = {}

    def on_step_end(self, trainer, batches):
        self.squares = {}
        for name, parameter in trainer.model.named_parameters():
            parts = name.split(".")
            top = ".".join(parts[:2]) if parts[1].isdigit() else parts[0]
            total = sum(float(x) ** 2 for x in parameter.grad.flatten())
            self.squares[top] = self.squares.get(top, 0.0) + total


def fit(clip: float, steps: int, *others: Callback):
    norms = GradientNorms()
    trainer = tiny_fit(tiny_task(), [norms, *others], steps, gradient_clip=clip)
    return norms, trainer.metrics


def test_they_are_what_loops_find_when_nothing_is_clipped():
    naive = Unclipped()
    _, logged = fit(0.0, 1, naive)
    blocks = {k.removeprefix("optim/grad_norm/"): v for k, v in logged.items()
              if k.startswith("optim/grad_norm/")}
    assert blocks == {name: pytest.approx(total**0.5, rel=1e-4)
                      for name, total in naive.squares.items()}
    assert {"encoder.0", "encoder.1", "decoder.0", "decoder.1"} < blocks.keys()


def test_clipping_changes_none_of_them():
    _, free = fit(0.0, 1)
    _, clipped = fit(0.01, 1)
    names = [name for name in free if name.startswith("optim/grad_norm")]
    assert free["optim/grad_norm"] > 0.1
    for name in names:
        assert clipped[name] == pytest.approx(free[name], rel=1e-4)


def test_they_are_gathered_from_one_validation_to_the_next():
    seen: list[int] = []

    class Look(Callback):
        def on_validation_end(self, trainer):
            seen.append(len(norms.since_validation["encoder.0"]))

    norms = GradientNorms()
    tiny_fit(tiny_task(), [Look(), norms], 7, val_every_n_steps=3)
    assert seen == [3, 3, 1]
    norms.since_validation = {"encoder.0": [1.0]}
    again = GradientNorms()
    again.load_state_dict(norms.state_dict())
    assert again.since_validation == norms.since_validation


def test_a_step_that_was_left_out_is_not_among_them():
    task, norms = tiny_task(), GradientNorms()
    task.model.output.weight.register_hook(lambda gradient: gradient + math.inf)
    logged = tiny_fit(task, [norms], 2).metrics
    assert not [name for name in logged if name.startswith("optim/grad_norm/")]


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


def test_a_block_that_is_frozen_has_a_norm_of_zero():
    norms, task = GradientNorms(), tiny_task()
    for parameter in task.model.encoder[1].parameters():
        parameter.requires_grad_(False)
    logged = tiny_fit(task, [norms], 1).metrics
    assert logged["optim/grad_norm/encoder.1"] == 0
    assert logged["optim/grad_norm/encoder.0"] > 0


def test_all_zero_gradients_are_zero_and_no_error():
    norms, task = GradientNorms(), tiny_task()
    for parameter in task.model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0)
    logged = tiny_fit(task, [norms], 1).metrics
    assert logged["optim/grad_norm/encoder.0"] == 0
