"""Who asks twice is not kept waiting: a second Ctrl-C ends a run at once, in few words."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from conftest import toy_settings

from seq2seq.cli.exits import run_command
from seq2seq.training import stopping
from seq2seq.training.checkpointing import newest_checkpoint, step_of
from seq2seq.training.loss import TranslationTask
from seq2seq.training.train import train


@pytest.fixture(autouse=True)
def _as_it_was():
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    handlers = {number: signal.getsignal(number) for number in stopping.SIGNALS}
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_second_ctrl_c_ends_a_run_with_130_and_without_saving(
    toy_corpus, tmp_path, monkeypatch, capfd
):
    step, made = TranslationTask.forward, []

    def slow(task, batch):
        """The step after the third takes so long that a person loses patience."""
        if len(made) == 3:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
        made.append(batch)
        return step(task, batch)

    monkeypatch.setattr(TranslationTask, "forward", slow)
    # Whatever the clock says, it is a second one.
    monkeypatch.setattr(stopping, "SECOND_CTRL_C_AFTER", -1)
    config = toy_settings(
        f"data.path={toy_corpus}", f"run_dir={tmp_path / 'run'}", "trainer=cpu", "logger=none",
        "trainer.max_steps=10", "checkpoint.every_n_steps=2",
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        run_command(lambda: train(config))
    assert ended.value.code == 130
    printed = capfd.readouterr().err
    assert "stopping: the state is saved first\n" in printed
    assert "error: interrupted\n" in printed
    assert "Traceback" not in printed
    assert step_of(newest_checkpoint(tmp_path / "run")) == 2
