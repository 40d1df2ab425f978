"""Run by test_processes.py, alone or by torchrun with FSDP: trains, stops, goes on; prints JSON.

    python validate_together.py RUN_DIR
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

import torch
from tiny import tiny_transformer
from tiny_training import TinyData, tiny_batch

from seq2seq.config import CheckpointConfig, DecodeConfig, OptimConfig, TrainerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.training import checkpointing
from seq2seq.training.checkpointing import Checkpoint, newest_checkpoint, read_checkpoint
from seq2seq.training.distributed import make_fabric
from seq2seq.training.run_folder import Run
from seq2seq.training.stopping import Interrupted
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validation

run_dir, world = Path(sys.argv[1]), int(os.environ.get("WORLD_SIZE", 1))
fabric = make_fabric("cpu", "32-true", world, 1, "fsdp" if world > 1 else "auto")
fabric.launch()
rank = fabric.global_rank
written: list[Path] = []
write_shards = checkpointing.save_shards


def noted(model, optimizer, folder):
    write_shards(model, optimizer, folder)
    written.append(folder)


checkpointing.save_shards = noted


class Unequal(TinyData):
    """Four batches to validate on: three for the first of two processes, one for the second."""

    def val_dataloader(self):
        mine = range(4) if world == 1 else range(3) if rank == 0 else range(3, 4)
        return [tiny_batch(-1 - number) for number in mine]


class Scored(Validation):
    """A search that a signal breaks off when it comes for the first time."""

    def score(self, model, step):
        if not (run_dir / "stopped").exists():
            fabric.barrier()
            (run_dir / "stopped").touch()
            raise Interrupted(15, step, run_dir)
        return 1.0, []


def make_trainer() -> Trainer:
    with torch.device("meta" if rank else "cpu"):
        model = tiny_transformer()
    run, optim = Run(run_dir, {}, "32-true"), OptimConfig(lr=0.01, warmup_steps=2)
    config = TrainerConfig(max_steps=3, accumulate=2 // world, val_every_n_steps=9)
    return Trainer(fabric, model, run, config, optim=optim, max_tokens=64)


def fit(trainer: Trainer, checkpoint: Checkpoint | None = None) -> None:
    shared = Tokenizer.train(["a b"], 260)
    validation = Scored(trainer.run, [], Vocabularies(shared, shared), DecodeConfig())
    saving = CheckpointConfig(every_n_steps=100)
    trainer.fit(Unequal(), validation, saving, checkpoint)


try:
    fit(make_trainer())
except Interrupted:
    trainer = make_trainer()
    fit(trainer, read_checkpoint(newest_checkpoint(run_dir)))
line = json.dumps({"nll": trainer.metrics["val/nll"], "shards": len(written)})
if rank == 0:
    os.write(1, (line + "\n").encode())
if world > 1:
    torch.distributed.destroy_process_group()
