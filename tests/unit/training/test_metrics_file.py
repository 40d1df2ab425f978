"""metrics.csv of a run that goes on: rows up to its step stay, later ones are made again."""

from __future__ import annotations

import csv
from pathlib import Path

from seq2seq.config import LoggerConfig
from seq2seq.training.loggers import make_loggers


def write(run_dir: Path, rows: list[tuple[int, dict]], **resumed) -> None:
    (logger,) = make_loggers(LoggerConfig(kind="csv"), run_dir, {}, **resumed)
    for step, metrics in rows:
        logger.log_metrics(metrics, step)
    # Nothing else is called: a killed run does not say goodbye.


def read(run_dir: Path) -> list[dict[str, str]]:
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]


LOSSES = [(step, {"train/loss": 9.0 - step}) for step in range(6)]  # step counts from 0


def test_rows_of_steps_that_are_made_again_are_not_there_twice(tmp_path):
    write(tmp_path, LOSSES)
    write(tmp_path, LOSSES[4:], step=4)
    assert [int(row["step"]) for row in read(tmp_path)] == [0, 1, 2, 3, 4, 5]
    assert [float(row["train/loss"]) for row in read(tmp_path)] == [9, 8, 7, 6, 5, 4]
    write(tmp_path, [], step=6)
    assert len(read(tmp_path)) == 6


def test_the_row_of_a_validation_goes_only_where_it_is_made_again(tmp_path):
    validation = (3, {"val/bleu": 1.0})
    write(tmp_path, [*LOSSES[:4], validation])
    write(tmp_path, [*LOSSES[4:]], step=4)
    assert len(read(tmp_path)) == 7
    write(tmp_path, [validation], step=4, validated=False)
    assert read(tmp_path)[-2:] == [
        {"step": "3", "train/loss": "6.0"}, {"step": "3", "val/bleu": "1.0"},
    ]  # fmt: skip


def test_killed_while_it_read_them_again_none_is_lost(tmp_path):
    write(tmp_path, LOSSES)
    file = tmp_path / "metrics" / "version_0" / "metrics.csv"
    file.rename(file.with_suffix(".old"))
    file.write_text("step,train/lo")
    write(tmp_path, [], step=6)
    assert len(read(tmp_path)) == 6
