"""FSDP2: each of n processes keeps 1/n of weights, gradients and optimiser state.

The weights of a layer are gathered when the layer runs, forwards and backwards, in bf16 if the run
computes in bf16; with accumulated batches, they stay gathered until the last batch of an update.
Gradients are averaged into their shards in 32 bits, once per update. The first process builds the
model with weights, on the CPU; the others build it without memory (on the meta device). The first
process sends the weights to the shards one by one, so no GPU ever holds all of them in 32 bits.

Checkpoints are sharded, too: each process writes its part of weights and moments with
torch.distributed.checkpoint, which can read them into any other number of shards, or into one.
"""

from __future__ import annotations

import errno
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as load_sharded
from torch.distributed.checkpoint.state_dict_saver import save as save_sharded
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from seq2seq.model.build import build_model
from seq2seq.model.layers import DecoderLayer, EncoderLayer
from seq2seq.model.translation_model import TranslationModel


def sharded_strategy(processes: int, bf16: bool) -> ModelParallelStrategy:
    """Make the strategy that shards the model of a task across all processes.

    Args:
        bf16: gather weights in bf16; gradients are added up in 32 bits in any case.
    """
    return ModelParallelStrategy(
        partial(_share_out, bf16=bf16), data_parallel_size=processes, tensor_parallel_size=1
    )


def _share_out(task: nn.Module, mesh: DeviceMesh, bf16: bool) -> nn.Module:
    """Replace `task.model`, whose weights only the first process has, by its shards; collective.

    Each layer is an FSDP unit. One more unit holds the rest: embeddings, last norms and output,
    tied or not. It stays gathered between the forward and the backward pass, since the loss needs
    the output layer there.
    """
    whole, first = task.model, dist.get_rank() == 0
    assert isinstance(whole, TranslationModel)
    with torch.device("meta"):
        model = build_model(whole.config, *whole.vocab_sizes)
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if bf16 else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,  # between layers, autocast chooses the dtype
    )
    mesh = mesh["data_parallel"]
    for module in model.modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            fully_shard(module, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device=mesh.device_type)
    load_weights(model, whole.state_dict() if first else {})
    for table, known in zip(model.buffers(), whole.buffers(), strict=True):  # such as positions
        if first:
            table.copy_(known)
        dist.broadcast(table, src=0)
    task.model = model
    return task


@torch.no_grad()
def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load whole weights into a model, sharded or not; collective.

    Args:
        model: if it is sharded, the first process sends the shards, one weight at a time.
        weights: by name; if the model is sharded, they may be empty in all but the first process.

    Raises:
        RuntimeError, KeyError: the weights belong to another model.
    """
    if not isinstance(model, FSDPModule):
        model.load_state_dict(weights)
        return
    # torch's `set_model_state_dict` does not support modules with two names.
    for name, own in model.named_parameters():
        own.copy_(_shards_of(weights[name] if weights else torch.empty(own.shape), own))


def _shards_of(whole: Tensor, like: Tensor) -> Tensor:
    """Shard a tensor of the first process like the weight `like`, if that is sharded."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, gathered if it is sharded; collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gathered_model(
    model: TranslationModel, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> TranslationModel:
    """Return the model itself or, if it is sharded, an unsharded copy; collective.

    Validation needs the copy: processes have different numbers of batches and of decoding steps,
    so they cannot gather weights together. Tensors are gathered and converted one by one.

    Args:
        model: sharded or not.
        device, dtype: of the copy; None = those of the shards.
    """
    if not isinstance(model, FSDPModule):
        return model
    model.reshard()  # after a forward pass alone, the last unit is still gathered
    one = next(model.parameters())
    device, dtype = device or one.device, dtype or one.dtype
    with torch.inference_mode(False), torch.no_grad():  # sharded tensors do not support it
        whole = {  # tied weights stay tied
            own: nn.Parameter(full_tensor(own.detach()).to(device, dtype), requires_grad=False)
            for own in model.parameters()
        }
        with torch.device("meta"):
            copy = build_model(model.config, *model.vocab_sizes)
        names = model.named_parameters(remove_duplicate=False)
        copy.load_state_dict({name: whole[own] for name, own in names}, assign=True)
        for name, table in model.named_buffers():  # such as positions: in no state dict, in fp32
            place, _, attribute = name.rpartition(".")
            setattr(copy.get_submodule(place), attribute, table.to(device))
    return copy.train(model.training)


# Checkpoints


def save_shards(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Write weights and moments; each process writes its part; collective.

    Raises:
        OSError: a part could not be written.
    """
    assert isinstance(model, FSDPModule)
    if dist.get_rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
    dist.barrier()
    model.reshard()  # else weights that a forward pass alone left gathered would lack moments
    try:
        save_sharded(_sharded_state(model, optimizer), checkpoint_id=folder)
    except CheckpointException as error:
        raise OSError(errno.EIO, str(error), str(folder)) from error


def load_shards(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Read weights and moments into a model and an optimiser, sharded in any way or not at all.

    `optimizer` must have its small state already (see `small_state`).
    """
    for parameter, state in optimizer.state.items():
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.zeros_like(parameter)
    alone = not isinstance(model, FSDPModule)
    with torch.no_grad():
        load_sharded(_sharded_state(model, optimizer), checkpoint_id=folder, no_dist=alone)


def _sharded_state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    moments = {
        name: {key: value for key, value in optimizer.state[parameter].items() if value.dim()}
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }
    return {"model": dict(model.named_parameters()), "moments": moments}


def small_state(optimizer: Optimizer) -> dict[str, Any]:
    """Return the state of an optimiser without the sharded tensors."""
    state = optimizer.state_dict()
    small = {
        number: {key: value.cpu() for key, value in values.items() if not value.dim()}
        for number, values in state["state"].items()
    }
    return {**state, "state": small}


def load_whole_state(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load the whole tensors of a checkpoint into an optimiser, sharded or not; collective."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = {
        number: {
            key: _shards_of(value, parameters[number]) if value.dim() else value
            for key, value in values.items()
        }
        for number, values in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": moments})
