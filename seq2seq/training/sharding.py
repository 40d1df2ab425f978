"""FSDP2: each of n processes keeps 1/n of weights, gradients and optimiser state.

The weights of a layer are gathered when it runs, forwards and backwards, in bf16 if the run
computes in it; gradients are averaged into their shards in 32 bits, once for each update. A model
is built without memory (on the meta device) in all processes but the first, whose weights, on the
CPU, are sent to the shards one by one: no GPU ever holds the whole in 32 bits.

Checkpoints are sharded, too: each process writes its part of weights and moments by
torch.distributed.checkpoint, which can read them into any other number of shards, or into one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.strategies.ddp import DDPStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load as load_sharded
from torch.distributed.checkpoint.state_dict_saver import save as save_sharded
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from seq2seq.config import ModelConfig
from seq2seq.model.build import build_model
from seq2seq.model.layers import DecoderLayer, EncoderLayer
from seq2seq.model.translation_model import TranslationModel


class ShardedStrategy(DDPStrategy):
    """Starts processes as DDP does, but shares a model out among them instead of copying it.

    Args:
        bf16: gather weights in bf16.
    """

    def __init__(self, bf16: bool):
        super().__init__()
        self.bf16 = bf16

    def module_to_device(self, module: nn.Module) -> None:
        """The shards alone are moved, by `setup_module`."""

    def setup_module(self, module: nn.Module) -> nn.Module:  # type: ignore[override]
        """Replace `module.model`, whole in the first process, by its shards."""
        whole = module.model
        assert isinstance(whole, TranslationModel)
        with torch.device("meta"):
            model = build_model(whole.config, *whole.vocab_sizes)
        shard(model, self.root_device, whole if self.is_global_zero else None, bf16=self.bf16)
        module.model = model
        return module


def build_for_shards(whole: bool, config: ModelConfig, *sizes: int) -> TranslationModel:
    """An untrained model; where it is not to be whole, on the meta device, without memory."""
    with nullcontext() if whole else torch.device("meta"):
        return build_model(config, *sizes)


def shard(
    model: TranslationModel,
    device: torch.device,
    whole: TranslationModel | None,
    bf16: bool = False,
) -> None:
    """Share out the parameters of a model among all processes, in place; collective.

    The units are the layers, and all that is left: embeddings, last norms and output, tied or
    not. That last unit stays gathered from the forward to the backward pass, as the loss needs
    the output between them.

    Args:
        model: on the meta device.
        device: of this process's shards.
        whole: the first process's copy with the weights, on the CPU.
        bf16: gather weights in bf16; gradients are added up in 32 bits.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if bf16 else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,  # what runs between layers stays as autocast has it
    )
    for module in model.modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            fully_shard(module, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device=device)
    _send_weights(whole, model)


@torch.no_grad()
def _send_weights(whole: TranslationModel | None, model: TranslationModel) -> None:
    """From the first process's model to the shards of all, one tensor at a time."""
    weights = dict(whole.named_parameters()) if whole else {}
    for name, own in model.named_parameters():
        assert isinstance(own, DTensor)
        full = torch.empty(own.shape, device=own.device)
        if weights:
            full.copy_(weights[name])
        own.copy_(distribute_tensor(full, own.device_mesh, own.placements))
    tables = dict(whole.named_buffers()) if whole else {}  # such as positions
    for name, table in model.named_buffers():
        if tables:
            table.copy_(tables[name])
        dist.broadcast(table, src=0)


@contextmanager
def without_gradient_sync(model: FSDPModule) -> Iterator[None]:
    """Inside, gradients add up in each process; they are exchanged with those of the last batch."""
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)


def full_tensors(tree: Any, device: str | None = None) -> Any:
    """A tree with its sharded tensors gathered; collective.

    Args:
        tree: tensors in dicts and lists. Those that are not sharded stay as they are.
        device: where the gathered ones go, one by one; None = they stay.
    """
    return tree_map_only(DTensor, lambda shards: shards.full_tensor().to(device), tree)


def gathered_model(
    model: TranslationModel, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> TranslationModel:
    """The model, or a plain copy of one that is sharded; collective.

    Search needs it: processes decode different sentences in different numbers of steps, so they
    cannot gather weights together. The copy is made tensor by tensor, in the precision it has.

    Args:
        model: sharded or not.
        device, dtype: of the copy; None = those of the shards.
    """
    if not isinstance(model, FSDPModule):
        return model
    one = next(model.parameters())
    device, dtype = device or one.device, dtype or one.dtype
    made: dict[int, nn.Parameter] = {}  # tied weights are one
    with torch.inference_mode(False), torch.no_grad():  # which sharded tensors do not know
        weights = {}
        for name, own in model.state_dict(keep_vars=True).items():
            if id(own) not in made:
                full = full_tensors(own.detach()).to(device, dtype)
                made[id(own)] = nn.Parameter(full, requires_grad=False)
            weights[name] = made[id(own)]
        with torch.device("meta"):
            copy = build_model(model.config, *model.vocab_sizes)
        copy.load_state_dict(weights, assign=True)
        for name, table in model.named_buffers():  # such as positions: in no state dict
            place, _, attribute = name.rpartition(".")
            setattr(copy.get_submodule(place), attribute, table.to(device, dtype))
    return copy.train(model.training)


# Checkpoints


def save_shards(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Write weights and moments, each process its part; collective.

    Raises:
        CheckpointException: a part could not be written.
    """
    if dist.get_rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
    dist.barrier()
    save_sharded(_sharded_state(model, optimizer), checkpoint_id=folder)


def load_shards(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Read weights and moments into a model and an optimiser, sharded in any way or not at all.

    `optimizer` must have its small state already (see `small_state`).
    """
    for parameter, state in optimizer.state.items():
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.zeros_like(parameter)
    together = isinstance(next(model.parameters()), DTensor)
    with torch.no_grad():
        load_sharded(_sharded_state(model, optimizer), checkpoint_id=folder, no_dist=not together)


def _sharded_state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    moments = {
        name: {key: value for key, value in optimizer.state[parameter].items() if value.dim()}
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }
    return {"model": dict(model.named_parameters()), "moments": moments}


def small_state(optimizer: Optimizer) -> dict[str, Any]:
    """The state of an optimiser without the tensors that are sharded."""
    state = optimizer.state_dict()
    small = {
        number: {key: value.cpu() for key, value in values.items() if not value.dim()}
        for number, values in state["state"].items()
    }
    return {**state, "state": small}


def load_whole_state(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Give an optimiser the state of a checkpoint: whole tensors, of which shards are taken."""
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = {
        number: {
            key: _shard_like(value, parameter) for key, value in state["state"][number].items()
        }
        for number, parameter in zip(numbers, parameters, strict=True)
        if number in state["state"]  # not if no step was good before the checkpoint
    }
    optimizer.load_state_dict({**state, "state": moments})


@torch.no_grad()
def load_whole_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a model, sharded or not, the weights of a checkpoint, one by one."""
    for name, own in model.state_dict().items():
        own.copy_(_shard_like(weights[name], own))


def _shard_like(value: Any, own: Tensor) -> Any:
    """This process's part of a whole tensor, if the tensor of its shape is sharded."""
    if not isinstance(own, DTensor) or value.shape != own.shape:
        return value
    value, placements = value.to(own.device), own.placements
    # None: each process has the whole, so nothing need be sent.
    return distribute_tensor(value, own.device_mesh, placements, src_data_rank=None)
