"""The folder of a run of a tiny model, with figures that are known and texts that are nasty."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from tiny_bundle import tiny_bundle

from seq2seq.data.report import Report
from seq2seq.evaluation.record import Breakdown, Evaluation, Group, Score, TextFile
from seq2seq.provenance import LaunchRecord, Provenance

NASTY = "<script>alert('x')</script> & \"quotes\" </script> \u202e é"
STEPS = (10, 20, 30, 40)


def write_run(folder: Path, **settings: Any) -> Path:
    """A finished run of 40 updates with everything that a run can have."""
    folder.mkdir(parents=True)
    groups = {"model": {"name": "tiny", "d_model": 16}, "data": {"name": "starter"},
              "optim": {"lr": 0.1}, "trainer": {"max_steps": 40}, "seed": 1}  # fmt: skip
    text = yaml.safe_dump({**groups, **settings})
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    write(folder / "summary.json", {"steps": 40, "best_step": 40, "stopped_early": False})
    write(folder / "origin.json", asdict(origin()))
    write(folder / "data_report.json", asdict(data_report()))
    samples = "".join(json.dumps(validation(step)) + "\n" for step in STEPS[1::2])
    (folder / "samples.jsonl").write_text(samples, encoding="utf-8")
    write_curves(folder / "metrics/version_0/metrics.csv")
    (folder / "evaluation/starter-test").mkdir(parents=True)
    evaluation().write(folder / "evaluation/starter-test/evaluation.json")
    tiny_bundle().save(folder / "bundle")
    return folder


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def write_curves(path: Path) -> None:
    """As Lightning does, which numbers updates from 0."""
    path.parent.mkdir(parents=True)
    names = ["epoch", "step", "train/nll", "val/nll", "val/bleu", "optim/lr", "decode/new",
             "perf/target_tokens_per_second", "perf/step_seconds", "optim/grad_norm"]  # fmt: skip
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        for step in STEPS:
            table.writerow({"epoch": 0, "step": step - 1, "train/nll": 8 - step / 10,
                            "optim/lr": step / 1000, "perf/step_seconds": 0.5,
                            "perf/target_tokens_per_second": 1000 + step,
                            "optim/grad_norm": "nan" if step == 20 else 1.5})  # fmt: skip
        for step in STEPS[1::2]:
            table.writerow({"epoch": 0, "step": step - 1, "val/nll": 7 - step / 10,
                            "val/bleu": step / 2, "decode/new": 3.25})  # fmt: skip


def sentence(step: int, **changes: Any) -> dict[str, Any]:
    found = {"index": 0, "source": "a man reads", "reference": NASTY,
             "hypothesis": "un homme lit", "score": -0.5, "chrf": float(step),
             "tokens": ["▁un", "▁hom", "me", "▁lit"],
             "token_log_probs": [0.0, math.log(0.25), -0.01, math.log(0.5), 0.0]}  # fmt: skip
    return found | changes


def validation(step: int) -> dict[str, Any]:
    """A line of samples.jsonl."""
    fixed = [sentence(step), sentence(step, source=NASTY, hypothesis=NASTY, tokens=[])]
    return {"step": step, "bleu": step / 2, "sentences": fixed,
            "worst": [sentence(step, source=f"worst of {step}")]}  # fmt: skip


def evaluation(bleu: float = 56.4, fingerprint: str = "0123456789abcdef") -> Evaluation:
    return Evaluation(
        scores=[Score("BLEU", bleu, "signature of BLEU", bleu - 1.5, bleu + 1.7),
                Score("chrF2", 72.8, "signature of chrF2")],
        intervals=None,
        sentences=1000,
        length_ratio=0.9671,
        exact_matches=184,
        degenerate={"any": 4, "repetition": 4},
        breakdowns=[Breakdown("source words", [Group("0-5", 600, {"BLEU": 61.25}),
                                               Group("6+", 400, {"BLEU": 38.5})])],
        overlap={"sources": 0, "pairs": 0},
        notes=[f"a note {NASTY}"],
        data={"name": "starter", "split": "test", "language": "fr", "fingerprint": fingerprint},
        model={"step": 40, "sha256": "0", "precision": "float32"},
        decode={"strategy": "beam", "beam": 5},
        seconds=8.0,
        versions={},
        files={role: TextFile(f"{role}.txt", "0") for role in ("hypotheses", "references")},
    )  # fmt: skip


def data_report() -> Report:
    return Report(
        name="starter", fingerprint="data-fingerprint", settings={}, files=[], read=100, kept=90,
        dropped={"empty": 10, "symbols": 0}, examples={}, words=[500, 600],
        characters=[2500, 3000], tokens=[600, 700], lengths=[[0, 50, 30, 10], [0, 20, 40, 30]],
        ratios=[0] * 20 + [90] + [0] * 20, vocabulary=[], overlap=[], samples=[], mixture=[],
        seconds={"clean": 1.0},
    )  # fmt: skip


def origin() -> Provenance:
    device = "CPU (2 threads), 32-true (chosen, as ...); attention: flash kernel"
    start = LaunchRecord("2026-01-02 03:04:05", "python scripts/train.py model=tiny", "abc123+",
                  {"python": "3.11", "torch": "2.13"}, device, 1)  # fmt: skip
    return Provenance(1234567, "data-fingerprint", [start])
