"""MLflow: the server that `MLFLOW_TRACKING_URI` names, or a database in `<run>/mlflow`.

To look at the latter: `mlflow ui --backend-store-uri sqlite:///RUN/mlflow/mlflow.db`.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from seq2seq.config import LoggerConfig, flat
from seq2seq.trackers import Artifact, Histogram, Media, Picture, Table, Tracker, own_id

LONGEST = 6000  # characters of a tag
NAME = "seq2seq.run"  # the tag by which a run that goes on is found


class MlflowTracker(Tracker):
    """Curves as metrics, settings as tags, everything else as files beside the run.

    Args:
        client: of MLflow.
        run_id: of an open run there.
    """

    name = "mlflow"

    def __init__(self, client: Any, run_id: str):
        self.client, self.run_id = client, run_id
        uri = str(client.tracking_uri)
        self.where = uri if uri.startswith(("http:", "https:", "databricks")) else None

    def log(self, row: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        found = [Metric(name, value, now, step) for name, value in row.items()]
        self.attempt("curves", lambda: self.client.log_batch(self.run_id, metrics=found))

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        def work() -> None:
            for name, media in make().items():
                for file, value in _files(f"{name}/{step:08}", media):
                    if isinstance(value, str):
                        self.client.log_text(self.run_id, value, file)
                    else:
                        self.client.log_image(self.run_id, value, file)

        self.attempt(what, work)

    def log_artifact(self, kind: str, make: Callable[[], Artifact], used: bool = False) -> None:
        def work() -> None:
            _, facts, folder = make()
            self.client.log_dict(self.run_id, dict(facts), f"{kind}.json")
            if folder is not None:
                self.client.log_artifacts(self.run_id, str(folder), folder.name)

        self.attempt(f"files of the {kind}", work)

    def finish(self, summary: Mapping[str, Any]) -> None:
        def work() -> None:
            self.client.log_dict(self.run_id, dict(summary), "summary.json")
            self.client.set_terminated(self.run_id)

        self.attempt("results", work)


def _files(name: str, media: Media) -> Iterator[tuple[str, Any]]:
    """The files that hold something, as text or as pixels; a table leaves pictures out."""
    if isinstance(media, Table):
        rows = [[None if isinstance(cell, Picture) else cell for cell in r] for r in media.rows]
        table = {"columns": media.columns, "data": rows}
        yield f"{name}.json", json.dumps(table, ensure_ascii=False)
    elif isinstance(media, Histogram):
        yield f"{name}.json", json.dumps(media.values)
    elif isinstance(media, str):
        yield f"{name}.html", media
    else:
        for number, picture in enumerate(media):
            yield f"{name}/{number}.png", picture.pixels


def open_tracker(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int
) -> Tracker:
    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of each table it makes
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow.entities import RunTag
    from mlflow.tracking import MlflowClient

    folder = (run_dir / "mlflow").absolute()
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri is None:
        folder.mkdir(exist_ok=True)
        uri = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    known = client.get_experiment_by_name(config.project)
    place = None if "MLFLOW_TRACKING_URI" in os.environ else (folder / "files").as_uri()
    experiment = (
        known.experiment_id if known else client.create_experiment(config.project, place)
    )
    own = own_id(run_dir, "mlflow")
    runs = client.search_runs([experiment], f"tags.`{NAME}` = '{own}'")
    run_id = (
        runs[0].info.run_id
        if runs
        else client.create_run(experiment, run_name=run_dir.name, tags={NAME: own}).info.run_id
    )
    client.update_run(run_id, "RUNNING")
    tags = [RunTag(name, str(value)[:LONGEST]) for name, value in flat(settings).items()]
    client.log_batch(run_id, tags=tags)
    return MlflowTracker(client, run_id)
