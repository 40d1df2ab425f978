"""What a dry run counts and measures."""

from __future__ import annotations

import pytest
from tiny import tiny_recurrent, tiny_transformer
from tiny_training import tiny_batch, tiny_task, tiny_trainer

from seq2seq.config import OptimConfig, TrainerConfig
from seq2seq.training import dry_run
from seq2seq.training.dry_run import measure
from seq2seq.training.optim import hidden_matrices


def test_short_batches_are_timed_more_often(monkeypatch):
    trainer, batch = tiny_trainer(tiny_task(), 9), tiny_batch(0)
    monkeypatch.setattr(dry_run, "MAX_STEPS", 5)
    assert len(measure(trainer, batch, batch)) == 1 + 5
    monkeypatch.setattr(dry_run, "ENOUGH_SECONDS", 0.0)
    assert len(measure(trainer, batch, batch)) == 1 + dry_run.MIN_STEPS


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_memory_is_what_training_keeps(monkeypatch, name):
    task = tiny_task(OptimConfig(optimizer=name, lr=0.01, warmup_steps=1))
    trainer = tiny_trainer(task, 9, ema=0.9)
    trainer.train_step(iter([tiny_batch(0)]))
    monkeypatch.setattr(dry_run, "MIB", 1)
    lines = (line.split()[:2] for line in dry_run._memory(trainer, tiny_batch(0)))
    sizes = {part: int(size.replace(",", "")) for part, size in lines}
    weights = sum(4 * p.numel() for p in task.model.parameters())
    assert sizes["weights"] == sizes["gradients"] == sizes["EMA"] == weights
    matrices = sum(4 * p.numel() for p in hidden_matrices(task.model)) if name == "muon" else 0
    assert sizes["optimiser"] == pytest.approx(2 * weights - matrices, rel=0.01)
    assert sizes["together"] == 3 * weights + sizes["optimiser"] < sizes["measured"]


@pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
def test_every_parameter_belongs_to_a_part(make):
    model = make(tie_embeddings="none")
    text = [line.split() for line in dry_run._sizes(model)]
    counts = {name: int(count.replace(",", "")) for name, count, *_ in text}
    assert counts.pop("together") == sum(counts.values())
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    assert counts["output"] == 13 * model.config.d_model


@pytest.mark.parametrize(("settings", "scored"), [
    ({"max_steps": 3}, 50), ({"max_steps": 20}, 200), ({"max_steps": 50}, 500),
    ({"max_steps": 51}, 1000), ({"max_steps": 3, "val_pairs": 1000}, 1000),
])  # fmt: skip
def test_a_short_run_translates_few_sentences_unless_told_otherwise(settings, scored):
    assert dry_run.scored_pairs(TrainerConfig(**settings), 1000) == scored
    assert dry_run.scored_pairs(TrainerConfig(**settings), 7) == 7
