"""What a dry run counts and measures."""

from __future__ import annotations

import pytest
from tiny import tiny_recurrent, tiny_transformer
from tiny_training import tiny_batch, tiny_task, tiny_trainer

from seq2seq.config import OptimConfig, TrainConfig
from seq2seq.data.collate import collate
from seq2seq.training import dry_run
from seq2seq.training.dry_run import Measured, measure, shapes


def measured(task, batch) -> Measured:
    return measure(tiny_trainer(task, 9), batch, tiny_batch(0))


def equal_pairs(count: int):
    return collate([[5, 6, 7, 8]] * count, [[5, 6, 7]] * count)


def test_what_is_kept_for_the_backward_pass_grows_with_the_batch_and_leaves_weights_out():
    one, two = (measured(tiny_task(), equal_pairs(n)).kept for n in (100, 200))
    assert two == pytest.approx(2 * one, rel=0.05)
    wide = tiny_task(d_ff=2**16)
    weights = sum(4 * p.numel() for p in wide.parameters())
    assert measured(wide, equal_pairs(1)).kept < weights / 2


def test_activations_are_at_least_what_the_layers_must_keep():
    """Inputs of the feed-forward matrices alone: width and d_ff numbers for each position."""
    task = tiny_task()
    config, batch = task.model.config, equal_pairs(100)
    positions = {"encoder": batch.source.numel(), "decoder": batch.labels.numel()}
    least = sum(
        4 * count * getattr(config, f"{side}_layers") * (config.d_model + config.d_ff)
        for side, count in positions.items()
    )
    assert least < measured(task, batch).kept < 50 * least


def test_short_batches_are_timed_more_often(monkeypatch):
    monkeypatch.setattr(dry_run, "MAX_STEPS", 5)
    assert len(measured(tiny_task(), tiny_batch(0)).others) == 5
    monkeypatch.setattr(dry_run, "ENOUGH_SECONDS", 0.0)
    assert len(measured(tiny_task(), tiny_batch(0)).others) == dry_run.MIN_STEPS


@pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
def test_shapes_end_in_scores_of_real_target_tokens(make):
    model, batch = make(), tiny_batch(0)
    lines = list(shapes(model, batch))
    assert f"{batch.target_tokens} real target tokens" in lines[0]
    assert lines[-1].split(maxsplit=1) == ["output", f"({batch.target_tokens}, 13)"]
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_optimiser_takes_what_it_keeps(monkeypatch, name):
    config = TrainConfig(optim=OptimConfig(optimizer=name, lr=0.01, warmup_steps=1))
    task = tiny_task(config.optim)
    trainer = tiny_trainer(task, 9)
    found = measure(trainer, tiny_batch(0), tiny_batch(0))
    state = [value for one in trainer.optimizer.state.values() for value in one.values()]
    kept = sum(4 * value.numel() for value in state if value.dim())  # without numbers of steps
    monkeypatch.setattr(dry_run, "MIB", 1)
    sizes = dict(line.split()[:2] for line in dry_run._memory(config, task, found))
    assert sizes["optimiser"] == f"{kept:,}"


@pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
def test_every_parameter_belongs_to_a_part(make):
    model = make(tie_embeddings="none")
    text = [line.split() for line in dry_run._sizes(model)]
    counts = {name: int(count.replace(",", "")) for name, count, *_ in text}
    assert counts.pop("together") == sum(p.numel() for p in model.parameters())
    assert counts["output"] == 13 * model.config.d_model
    assert all(counts.values())
