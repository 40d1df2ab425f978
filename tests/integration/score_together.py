"""Run by test_processes.py, alone or by torchrun: scores the bundle of a run, and prints JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from seq2seq.bundle.bundle import load_bundle
from seq2seq.training.run_folder import Run
from seq2seq.training.validation import Validation

run_dir, file = map(Path, sys.argv[1:])
pairs = [tuple(line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
bundle = load_bundle(run_dir)
world = int(os.environ.get("WORLD_SIZE", 1))
if world > 1:
    torch.distributed.init_process_group("gloo")
run = Run(run_dir, {}, "32-true")
scorer = Validation(run, pairs, bundle.vocabularies, bundle.decode)
bleu, found = scorer.score(bundle.model, step=1)
line = json.dumps({"bleu": bleu, "translations": [str(translation) for translation in found]})
os.write(1, (line + "\n").encode())  # one piece
if world > 1:
    torch.distributed.destroy_process_group()
