"""MLflow: the server that `MLFLOW_TRACKING_URI` names, or a database in `<run>/mlflow`.

To look at such a database: `mlflow ui --backend-store-uri sqlite:///RUN/mlflow/mlflow.db`.
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
NAME = "seq2seq.run"  # the tag by which a resumed run is found


class MlflowTracker(Tracker):
    """A tracker that logs curves as metrics, settings as tags, and all else as files of the run."""

    name = "mlflow"

    def __init__(self, client: Any, run_id: str):
        self.client, self.run_id = client, run_id
        uri = str(client.tracking_uri)
        self.where = uri if uri.startswith(("http:", "https:", "databricks")) else None

    def log(self, row: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        found = [Metric(name, value, now, step) for name, value in row.items()]
        self.client.log_batch(self.run_id, metrics=found)

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        for name, media in make().items():
            for file, value in _files(f"{name}/{step:08}", media):
                if isinstance(value, str):
                    self.client.log_text(self.run_id, value, file)
                else:
                    self.client.log_image(self.run_id, value, file)

    def log_artifact(self, kind: str, make: Callable[[], Artifact], used: bool = False) -> None:
        _, facts, folder = make()
        self.client.log_dict(self.run_id, dict(facts), f"{kind}.json")
        if folder is not None:
            self.client.log_artifacts(self.run_id, str(folder), folder.name)

    def finish(self, summary: Mapping[str, Any]) -> None:
        self.client.log_dict(self.run_id, dict(summary), "summary.json")
        self.client.set_terminated(self.run_id)


def _files(name: str, media: Media) -> Iterator[tuple[str, Any]]:
    """Yield the files for some media, as text or as pixels; tables are written without pictures."""
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
    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it logs each table it makes
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow.entities import RunTag
    from mlflow.tracking import MlflowClient

    uri, files = os.environ.get("MLFLOW_TRACKING_URI"), None
    if uri is None:
        folder = (run_dir / "mlflow").absolute()
        folder.mkdir(exist_ok=True)
        uri, files = f"sqlite:///{folder}/mlflow.db", (folder / "files").as_uri()
    client = MlflowClient(tracking_uri=uri)
    known = client.get_experiment_by_name(config.project)
    experiment = known.experiment_id if known else client.create_experiment(config.project, files)
    own = own_id(run_dir, "mlflow")
    runs = client.search_runs([experiment], f"tags.`{NAME}` = '{own}'")
    run = runs[0] if runs else client.create_run(
        experiment, run_name=run_dir.name, tags={NAME: own}
    )  # fmt: skip
    client.update_run(run.info.run_id, "RUNNING")
    tags = [RunTag(name, str(value)[:LONGEST]) for name, value in flat(settings).items()]
    client.log_batch(run.info.run_id, tags=tags)
    return MlflowTracker(client, run.info.run_id)
