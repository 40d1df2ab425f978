"""Translate a split of a corpus with a trained model and score it."""

from __future__ import annotations

import itertools
import json
import logging
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq import __version__
from seq2seq.config import EvaluateConfig
from seq2seq.data.sources import load_pairs
from seq2seq.errors import RunError
from seq2seq.evaluation.metrics import Score, corpus_scores
from seq2seq.inference.bundle import bundle_folder, load_bundle
from seq2seq.inference.engine import TorchEngine
from seq2seq.inference.translator import Translator, choose_device

log = logging.getLogger(__name__)


def evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Run `scripts/evaluate.py`: translate, score, write, return what was written.

    Writes `evaluation.json`, `hypotheses.txt` and `references.txt` to
    `<model>/evaluation/<data>-<split>`, or to `config.output`.

    Raises:
        UserError: the model or the data cannot be used, or nothing can be written.
    """
    bundle = load_bundle(Path(str(config.model)), choose_device(config.device))
    changes = {name: value for name, value in asdict(config.decode).items() if value is not None}
    decode = replace(bundle.decode, **changes)
    pairs = load_pairs(config.data, config.split)
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    engine = TorchEngine([bundle.model], bundle.length_ratio)
    translator = Translator(engine, bundle.vocabularies, decode, bundle.normalise)
    started = time.perf_counter()
    with tqdm(total=len(pairs), desc="translating", unit="sentence", disable=None) as bar:
        hypotheses = [str(t) for t in translator.translate_corpus(sources, progress=bar.update)]
    seconds = time.perf_counter() - started
    scores = corpus_scores(hypotheses, references)
    record = {
        "scores": {score.name: round(score.value, 4) for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "data": asdict(config.data),
        "split": config.split,
        "sentences": len(pairs),
        "seconds": round(seconds, 2),
        "model": str(config.model),
        "step": bundle.training.get("step"),
        "decode": asdict(decode),
        "seq2seq": __version__,
    }
    folder = _output_folder(config, record)
    _write(folder, record, hypotheses, references)
    print(_table(scores, len(pairs), seconds, folder))
    return record


def _output_folder(config: EvaluateConfig, record: dict[str, Any]) -> Path:
    """The folder asked for, or one of the run that holds no results of anything else."""
    if config.output is not None:
        return Path(config.output)
    bundle = bundle_folder(Path(str(config.model)))
    run = bundle.parent if bundle.name == "bundle" else bundle
    name = f"{config.data.name}-{config.split}"
    for number in itertools.count(1):
        folder = run / "evaluation" / (name if number == 1 else f"{name}-{number}")
        if _same_evaluation(folder / "evaluation.json", record):
            return folder
    raise AssertionError("unreachable")


def _same_evaluation(file: Path, record: dict[str, Any]) -> bool:
    """Whether a results file may be written: it is not there, or holds this very evaluation."""
    try:
        old = json.loads(file.read_text(encoding="utf-8"))
        return all(old[key] == record[key] for key in ("data", "split", "decode", "step"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(
    folder: Path, record: dict[str, Any], hypotheses: list[str], references: list[str]
) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in (("hypotheses", hypotheses), ("references", references)):
            # A line break inside a text would shift all lines after it.
            text = "".join(" ".join(line.splitlines()) + "\n" for line in lines)
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (folder / "evaluation.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(
            f"cannot write the results to {folder}: {error}. Give another folder: output=FOLDER"
        ) from error


def _table(scores: list[Score], sentences: int, seconds: float, folder: Path) -> str:
    lines = [f"{score.name:>6}  {score.value:6.2f}  {score.signature}" for score in scores]
    rate = sentences / max(seconds, 1e-9)
    lines.append(f"{sentences} sentences in {seconds:.1f} s ({rate:.1f} per second) -> {folder}")
    return "\n".join(lines)
