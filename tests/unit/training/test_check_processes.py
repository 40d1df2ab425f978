"""What the processes of a run cannot do together is refused before anything is read."""

from __future__ import annotations

import pytest
from conftest import toy_settings

from seq2seq.config import TrainerConfig
from seq2seq.errors import ConfigError, RunError
from seq2seq.training.distributed import check_processes
from seq2seq.training.run_folder import run_folder


def test_torchrun_must_start_as_many_as_the_settings_say_and_in_a_way_that_restarts(monkeypatch):
    with pytest.raises(ConfigError, match="nothing says which machine this is: start the run on"):
        check_processes(TrainerConfig(devices=4, num_nodes=2), "32-true")
    variables = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4",
                 "RANK": "0"}  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check_processes(TrainerConfig(devices=4, num_nodes=2), "32-true")
    with pytest.raises(ConfigError, match=r"set trainer\.devices=4 trainer\.num_nodes=2"):
        check_processes(TrainerConfig(devices=4), "32-true")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(ConfigError, match="put TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before"):
        check_processes(TrainerConfig(devices=4, num_nodes=2), "32-true")


def test_shards_need_several_processes_and_no_loss_scale():
    with pytest.raises(ConfigError, match="shares the weights among processes, and this is one"):
        check_processes(TrainerConfig(strategy="fsdp"), "32-true")
    with pytest.raises(ConfigError, match=r"does not go with trainer\.precision=16-mixed"):
        check_processes(TrainerConfig(strategy="fsdp", devices=2), "16-mixed")


def test_several_processes_need_a_folder_that_they_agree_on():
    with pytest.raises(RunError, match="several processes must agree on one folder"):
        run_folder(toy_settings("trainer.devices=2"))
