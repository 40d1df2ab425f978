"""The moving average of weights, against a plain loop over the weights of real training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_training import tiny_fit, tiny_task, weights

from seq2seq.training.callbacks import Callback


class Watch(Callback):
    """Keeps the weights after each update and in each validation."""

    def __init__(self):
        self.after_updates: list[dict[str, torch.Tensor]] = []
        self.validated: list[dict[str, torch.Tensor]] = []

    def on_step_end(self, trainer, batches):
        self.after_updates.append(weights(trainer.task))

    def on_validation_end(self, trainer):
        self.validated.append(weights(trainer.task))


def naive_average(start, after_updates, decay: float) -> list[dict[str, torch.Tensor]]:
    """The average after each update, one number at a time."""
    average = {name: value.double() for name, value in start.items()}
    found = []
    for t, now in enumerate(after_updates):
        d = min(decay, (1 + t) / (10 + t))
        average = {name: d * average[name] + (1 - d) * now[name].double() for name in average}
        found.append({name: value.float() for name, value in average.items()})
    return found


def trained(steps: int = 7, decay: float = 0.3, model=(), **options: Any):
    task, watch = tiny_task(**dict(model)), Watch()
    start = weights(task)
    trainer = tiny_fit(task, [watch], steps, ema=decay, **options)
    return task, watch, trainer.ema, start


@pytest.mark.parametrize("tied", ["none", "all"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_is_validated_is_the_average_of_a_loop(tied, accumulate):
    _, watch, ema, start = trained(model={"tie_embeddings": tied}, accumulate=accumulate)
    expected = naive_average(start, watch.after_updates, 0.3)
    assert ema.updates == 7
    assert len(watch.validated) == 4  # after 2, 4, 6 and 7 updates
    for found, average in zip(watch.validated, [*expected[1::2], expected[6]], strict=True):
        assert found.keys() == average.keys()
        torch.testing.assert_close(found, average, rtol=1e-5, atol=1e-6)
    assert not torch.equal(watch.validated[0]["output.weight"],
                           watch.after_updates[1]["output.weight"])


def test_training_itself_does_not_notice_the_average():
    task, *_ = trained()
    plain = tiny_task()
    tiny_fit(plain, [], 7)
    assert all(weights(task)[name].equal(value) for name, value in weights(plain).items())


def test_a_checkpoint_holds_raw_weights_and_shadow(tmp_path):
    _, watch, *_ = trained(4, model={"tie_embeddings": "all"}, run_dir=tmp_path, save_every=3)
    for step, average in ((3, None), (4, watch.validated[1])):
        file = torch.load(tmp_path / f"checkpoints/step-{step:08d}.ckpt", weights_only=True)
        raw = watch.after_updates[step - 1]
        assert file["model"].keys() == raw.keys()
        assert all(file["model"][name].equal(value) for name, value in raw.items())
        shadow = file["ema"]["shadow"]
        assert all(value.dtype == torch.float32 for value in shadow.values())
        assert average is None or all(shadow[name].equal(average[name]) for name in shadow)


@pytest.mark.parametrize("step", [3, 4])
def test_a_resumed_run_ends_with_the_same_average_to_the_bit(tmp_path, step):
    whole = trained()[2]
    trained(4, run_dir=tmp_path, save_every=3)
    checkpoint = tmp_path / f"checkpoints/step-{step:08d}.ckpt"
    again = trained(checkpoint=checkpoint)[2]
    assert again.updates == whole.updates == 7
    assert again.shadow.keys() == whole.shadow.keys()
    assert all(again.shadow[name].equal(value) for name, value in whole.shadow.items())
