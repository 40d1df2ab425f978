"""The moving average of weights, against a plain loop over the weights of real training."""

from __future__ import annotations

from typing import Any

import lightning as L
import pytest
import torch
from tiny_training import tiny_fit, tiny_task, weights

from seq2seq.callbacks.ema import EMA


class Watch(L.Callback):
    """Keeps the weights after each update and in each validation; saves when Checkpoints would.

    Stands behind EMA, as the callbacks do that save and validate.
    """

    def __init__(self, folder):
        self.folder = folder
        self.after_updates: list[dict[str, torch.Tensor]] = []
        self.validated: list[dict[str, torch.Tensor]] = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step > len(self.after_updates):
            self.after_updates.append(weights(pl_module))
            trainer.save_checkpoint(self.folder / f"step-{trainer.global_step}.ckpt")

    def on_validation_epoch_end(self, trainer, pl_module):
        self.validated.append(weights(pl_module))

    def on_validation_end(self, trainer, pl_module):
        trainer.save_checkpoint(self.folder / f"after-{trainer.global_step}.ckpt")


def naive_average(start, after_updates, decay: float) -> list[dict[str, torch.Tensor]]:
    """The average after each update, one number at a time."""
    average = {name: value.double() for name, value in start.items()}
    found = []
    for t, now in enumerate(after_updates):
        d = min(decay, (1 + t) / (10 + t))
        average = {name: d * average[name] + (1 - d) * now[name].double() for name in average}
        found.append({name: value.float() for name, value in average.items()})
    return found


def trained(folder, steps: int = 7, decay: float = 0.3, **options: Any):
    model = options.pop("model", {})
    task, watch, ema = tiny_task(**model), Watch(folder), EMA(decay)
    start = weights(task)
    tiny_fit(task, [ema, watch], steps, **options)
    return task, watch, ema, start


@pytest.mark.parametrize("tied", ["none", "all"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_is_validated_is_the_average_of_a_loop(tmp_path, tied, accumulate):
    model = {"tie_embeddings": tied}
    _, watch, ema, start = trained(
        tmp_path, model=model, accumulate_grad_batches=accumulate
    )
    expected = naive_average(start, watch.after_updates, 0.3)
    assert ema.updates == 7
    assert len(watch.validated) == 3  # after 2, 4 and 6 updates
    for found, average in zip(watch.validated, expected[1::2], strict=False):
        assert found.keys() == average.keys()
        torch.testing.assert_close(found, average, rtol=1e-5, atol=1e-6)
    assert not torch.equal(watch.validated[0]["output.weight"],
                           watch.after_updates[1]["output.weight"])


def test_training_itself_does_not_notice_the_average(tmp_path):
    task, *_ = trained(tmp_path)
    plain = tiny_task()
    tiny_fit(plain, [], 7)
    assert all(weights(task)[name].equal(value) for name, value in weights(plain).items())


def test_checkpoints_before_and_after_a_validation_hold_raw_weights_and_shadow(tmp_path):
    _, watch, *_ = trained(tmp_path, steps=4, model={"tie_embeddings": "all"})
    files = [torch.load(tmp_path / f"{when}-4.ckpt", weights_only=True)
             for when in ("step", "after")]
    for file in files:
        raw = {f"model.{name}": value for name, value in watch.after_updates[3].items()}
        assert file["state_dict"].keys() == raw.keys()
        assert all(file["state_dict"][name].equal(value) for name, value in raw.items())
        shadow = file["callbacks"]["EMA"]["shadow"]
        assert all(value.equal(watch.validated[1][name]) for name, value in shadow.items())
        assert all(value.dtype == torch.float32 for value in shadow.values())


@pytest.mark.parametrize("when", ["step", "after"])
def test_a_resumed_run_ends_with_the_same_average_to_the_bit(tmp_path, when):
    whole = trained(tmp_path)[2]
    task, again = tiny_task(), EMA(0.3)
    checkpoint = tmp_path / f"{when}-4.ckpt"
    tiny_fit(task, [again], 7, first_batch=4, checkpoint=checkpoint)
    assert again.updates == whole.updates == 7
    assert again.shadow.keys() == whole.shadow.keys()
    assert all(again.shadow[name].equal(value) for name, value in whole.shadow.items())


def test_a_full_average_forgets_its_start_and_a_step_without_change_changes_nothing():
    task, ema = tiny_task(), EMA(0.999)
    trainer = type("Trainer", (), {"global_step": 0})()
    ema.on_train_start(trainer, task)
    for parameter in task.model.parameters():
        parameter.data += 1.0
    for _ in range(200):  # as if all these steps had been skipped
        trainer.global_step += 1
        ema.on_train_batch_end(trainer, task, None, None, 0)
    for name, parameter in task.model.named_parameters():
        torch.testing.assert_close(ema.shadow[name], parameter.detach(), rtol=0, atol=1e-4)
