"""What shards save, in one process: several are in `tests/integration/test_processes.py`."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from seq2seq.training.sharding import save_shards


@pytest.fixture
def mesh():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_moments_are_saved_after_a_forward_pass_alone(mesh, tmp_path):
    """As in validation, which leaves the weights of the last unit whole."""
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), torch.ones(1, 4)
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters())
    model(x).sum().backward()
    optimizer.step()
    with torch.no_grad():
        model(x)
    save_shards(model, optimizer, tmp_path / "step.shards")
    dcp_to_torch_save(tmp_path / "step.shards", tmp_path / "whole.pt")
    saved = torch.load(tmp_path / "whole.pt", weights_only=True)
    assert saved["moments"].keys() == saved["model"].keys()
    assert len(saved["model"]) == 4
