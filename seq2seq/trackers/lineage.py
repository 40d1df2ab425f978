"""The artifacts of a run: data, bundle, and evaluations of the bundle. W&B draws their graph."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from seq2seq.bundle.config import WEIGHTS, read_config
from seq2seq.config import LoggerConfig, migrated
from seq2seq.data.report import Report
from seq2seq.evaluation.record import Evaluation, records_of
from seq2seq.trackers import Artifact, open_chosen


def dataset(report: Report) -> Artifact:
    """Make the artifact of the prepared data: facts only, without its text."""
    names = ("name", "fingerprint", "read", "kept", "dropped", "words", "tokens")
    return Artifact(f"data-{report.fingerprint}", {n: getattr(report, n) for n in names})


def bundle(run: Path) -> Artifact:
    """Make the artifact of a run's bundle, named by the id by which W&B knows the run."""
    made, known = read_config(run / "bundle/config.json"), run / "wandb_id"
    facts = {"step": made.training["step"], "scores": made.training["scores"],
             "sha256": made.checksums.get(WEIGHTS)}  # fmt: skip
    name = known.read_text() if known.exists() else run.name
    return Artifact(f"bundle-{name}", facts, run / "bundle")


def evaluation(record: Evaluation, folder: Path) -> Artifact:
    """Make the artifact of an evaluation: its scores, and the folder of the scored texts."""
    facts = {
        "scores": {score.name: score.value for score in record.scores},
        "data": {key: record.data[key] for key in ("name", "split", "fingerprint")},
        "model": (record.model or {}).get("sha256"),
        "decode": record.decode,
    }
    return Artifact(f"evaluation-{record.identity}", facts, folder)


def log_evaluation(run: Path, record: Evaluation) -> None:
    """If W&B knows a run, log an evaluation of its bundle there, as a run that used the bundle."""
    if not (run / "wandb_id").exists():
        return
    settings = migrated(yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8")))
    if settings["logger"]["kind"] != "wandb":
        return
    for path, one in records_of(run).items():
        if one.identity != record.identity:
            continue
        folder = path.parent
        place = run / "wandb" / folder.name
        place.mkdir(parents=True, exist_ok=True)
        about = evaluation(record, folder).facts
        tracker = open_chosen(LoggerConfig(**settings["logger"]), place, about)
        if tracker is not None:
            tracker.log_artifact("model", lambda: bundle(run), used=True)
            tracker.log_artifact("evaluation", partial(evaluation, record, folder))
            tracker.finish({score.name: score.value for score in record.scores})
