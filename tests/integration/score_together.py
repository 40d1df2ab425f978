"""Run by test_processes.py, alone or by torchrun: scores the bundle of a run, and prints JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from seq2seq.callbacks.validation_bleu import ValidationBleu

from seq2seq.inference.bundle import load_bundle

run_dir, file = map(Path, sys.argv[1:])
pairs = [tuple(line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
bundle = load_bundle(run_dir)
rank, world = (int(os.environ.get(name, only)) for name, only in (("RANK", 0), ("WORLD_SIZE", 1)))
if world > 1:
    torch.distributed.init_process_group("gloo")
scorer = ValidationBleu(pairs, bundle.vocabularies, bundle.decode, run_dir / "bundle", {})
scorer.stop.processes.connect()
trainer = SimpleNamespace(global_rank=rank, world_size=world)
bleu, found = scorer.score(trainer, bundle.model)
line = json.dumps({"bleu": bleu, "translations": [str(translation) for translation in found]})
os.write(1, (line + "\n").encode())  # one piece
if world > 1:
    torch.distributed.destroy_process_group()
