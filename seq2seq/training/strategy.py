"""How the processes of a run share the work: each with the whole model (DDP), or a shard (FSDP)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, Strategy
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map_only

from seq2seq.config import TrainerConfig
from seq2seq.errors import ConfigError
from seq2seq.model.build import build_model
from seq2seq.model.layers import DecoderLayer, EncoderLayer
from seq2seq.model.translation_model import TranslationModel


def choose_strategy(config: TrainerConfig) -> str | Strategy:
    """What Lightning's trainer takes."""
    if config.strategy == "fsdp":
        return ShardedStrategy()
    if config.strategy == "ddp" or config.devices * config.num_nodes > 1:
        return DDPStrategy(broadcast_buffers=False)  # ours are tables, equal everywhere
    return config.strategy


def check_processes(config: TrainerConfig, precision: str) -> None:
    """Refuse what the processes of a run cannot do together.

    Raises:
        ConfigError: torchrun has started another number of them than the settings say, or could
            not start them again; or shards do not go with one process or the precision.
    """
    problems = []
    wanted, started = config.devices * config.num_nodes, int(os.environ.get("WORLD_SIZE", 0))
    if "TORCHELASTIC_RUN_ID" in os.environ and started != wanted:
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        problems.append(
            f"torchrun has started {started} processes, {here} of them on this machine, but "
            f"trainer.devices={config.devices} x trainer.num_nodes={config.num_nodes} makes "
            f"{wanted}: set trainer.devices={here} trainer.num_nodes={started // here}"
        )
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if restarts != "0" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        problems.append(
            f"torchrun --max-restarts={restarts} can hang after a restart, when processes find the "
            "addresses of those before in its store (pytorch issue 135712): put "
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before the command, and give it --standalone, or "
            "--rdzv-backend=c10d for several machines"
        )
    if config.strategy == "fsdp" and wanted == 1:
        problems.append(
            "trainer.strategy=fsdp shares the weights among processes, and this is one: start "
            "several with torchrun --nproc-per-node=N, or use trainer=auto"
        )
    if config.strategy == "fsdp" and precision == "16-mixed":
        problems.append(
            "trainer.strategy=fsdp does not go with trainer.precision=16-mixed, whose loss scale "
            "each shard would set for itself: use bf16-mixed or 32-true, or trainer=ddp"
        )
    if problems:
        raise ConfigError(problems)


class ShardedStrategy(DDPStrategy):
    """Each of n processes keeps 1/n of weights, gradients and optimiser state (FSDP2).

    The weights of a layer are gathered when it runs, forwards and backwards, and its gradients
    are averaged into their shards. Checkpoints hold whole tensors, in the form of any other
    strategy, so a run can go on with another number of processes or without shards.
    """

    def configure_ddp(self) -> None:
        """Instead of wrapping the model, replace its parameters by their shards."""
        assert self.model is not None
        model = self.model.model
        assert isinstance(model, TranslationModel)
        shard(model, self.root_device.type)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        return self._for_the_writer(super().lightning_module_state_dict())

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        return self._for_the_writer(super().optimizer_state(optimizer))

    def _for_the_writer(self, state: dict[str, Any]) -> dict[str, Any]:
        state = whole(state, "cpu")  # all take part
        return state if self.is_global_zero else {}

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Whole tensors -> shards. (The weights were loaded before they were shared out.)"""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            numbers = [number for group in state["param_groups"] for number in group["params"]]
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            moments = {
                number: {key: shard_like(v, parameter) for key, v in state["state"][number].items()}
                for number, parameter in zip(numbers, parameters, strict=True)
                if number in state["state"]  # not if no step was good before the checkpoint
            }
            optimizer.load_state_dict({**state, "state": moments})


def shard(model: TranslationModel, device: str) -> None:
    """Share out the parameters of a model among all processes, in place.

    The units are the layers, and all that is left: embeddings, last norms and output, tied or
    not. That last unit stays gathered from the forward to the backward pass, as the loss needs
    the output between them.
    """
    mesh = init_device_mesh(device, (torch.distributed.get_world_size(),))
    for module in model.modules():
        if isinstance(module, DecoderLayer):
            # Of its own, as the keys and values of the source are made before the layer runs.
            fully_shard(module.cross_attention, mesh=mesh)
            register_fsdp_forward_method(module.cross_attention, "keys_values")
        if isinstance(module, EncoderLayer | DecoderLayer):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)


def whole(tree: Any, device: str | None = None) -> Any:
    """A tree with its sharded tensors gathered; every process must call it.

    Args:
        tree: tensors in dicts and lists. Those that are not sharded stay as they are.
        device: where the gathered ones go, one by one; None = they stay.
    """
    return tree_map_only(DTensor, lambda shards: shards.full_tensor().to(device), tree)


def shard_like(value: Any, parameter: Tensor) -> Any:
    """This process's part of a whole tensor, if the parameter of its shape is sharded."""
    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    value, placements = value.to(parameter.device), parameter.placements
    # None: each process has the whole, so nothing need be sent.
    return distribute_tensor(value, parameter.device_mesh, placements, src_data_rank=None)


def whole_model(model: TranslationModel) -> TranslationModel:
    """The model, or a plain copy of one that is sharded; every process must call it.

    Search needs it: processes decode different sentences in different numbers of steps, so they
    cannot gather weights together.
    """
    if not isinstance(model, FSDPModule):
        return model
    # The initial weights are thrown away. Sharded tensors know no inference mode.
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.no_grad():
        copy = build_model(model.config, *model.vocab_sizes)
        copy.load_state_dict(whole(model.state_dict(), "cpu"))
    return copy.to(next(model.parameters()).device).train(model.training)
