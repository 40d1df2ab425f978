"""Run by torchrun in two processes for test_training.py: prints one JSON line for each.

    torchrun --nproc-per-node=2 two_processes.py ddp|fsdp|compile cpu|cuda
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

import torch
import torch.distributed as dist
from tiny import tiny_transformer
from tiny_training import TinyData, TinyValidation, tiny_batch, without_saving
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile

from seq2seq.config import CheckpointConfig, OptimConfig, TrainerConfig
from seq2seq.training.distributed import make_fabric
from seq2seq.training.hardware import claim_device
from seq2seq.training.run_folder import Run
from seq2seq.training.trainer import Trainer

way, device = sys.argv[1:]
accelerator = "gpu" if device == "cuda" else "cpu"
claim_device(accelerator)
torch.manual_seed(0)
fabric = make_fabric(accelerator, "bf16-mixed", 2, 1, "fsdp" if way == "fsdp" else "ddp")
fabric.launch()
sizes = {"d_model": 256, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 6}
with torch.device("meta" if way == "fsdp" and dist.get_rank() else "cpu"):
    model = tiny_transformer(**sizes)
run = Run(Path(os.devnull), {}, "bf16-mixed")
optim = OptimConfig(lr=0.001, warmup_steps=2)
config = TrainerConfig(
    max_steps=4, accumulate=2, compile=way == "compile", gradient_clip=0.0, val_every_n_steps=9
)
trainer = without_saving(Trainer(fabric, model, run, config, optim=optim, max_tokens=64))
with profile(activities=[ProfilerActivity.CPU]) as trace:
    trainer.fit(TinyData(), TinyValidation(), CheckpointConfig())
tensors = [value for state in trainer.optimizer.state.values() for value in state.values()]
tensors += trainer.model.parameters()
mine = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
found = {
    "nll": float(trainer.metrics["train/nll"]),
    "gathered": sum(one.count for one in trace.key_averages() if "allgather_base" in one.key),
    "state": sum(tensor.numel() * tensor.element_size() for tensor in mine),
    "peak": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
    "batch": tiny_batch(0).target_tokens,
}
os.write(1, (json.dumps(found) + "\n").encode())  # one piece
dist.destroy_process_group()
