"""metrics.csv of a run that goes on: rows up to its step stay, later ones are made again."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from seq2seq.config import LoggerConfig
from seq2seq.trackers import make_trackers


def write(run_dir: Path, rows: list[tuple[int, dict]], **resumed) -> None:
    (tracker,) = make_trackers(LoggerConfig(kind="csv"), run_dir, {}, **resumed)
    for step, metrics in rows:
        tracker.log(metrics, step)
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


@pytest.mark.parametrize(
    "torn", [b"0,4,", b"4", b"\0" * 4096, b"\0\0\r\n", b"\xff\xfe,\xff", b"x,y\r\n", b"1\r\n"]
)
def test_rows_that_a_power_cut_damaged_are_left_out(tmp_path, torn):
    write(tmp_path, LOSSES)
    file = tmp_path / "metrics" / "version_0" / "metrics.csv"
    file.write_bytes(file.read_bytes() + torn)
    write(tmp_path, [], step=99)
    assert [int(row["step"]) for row in read(tmp_path)] == [0, 1, 2, 3, 4, 5]
    file.write_bytes(torn)  # not even a header
    write(tmp_path, LOSSES[:1], step=99)
    assert len(read(tmp_path)) == 1


def test_good_rows_behind_a_damaged_one_stay(tmp_path):
    write(tmp_path, LOSSES)
    file = tmp_path / "metrics" / "version_0" / "metrics.csv"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], lines[3][:1] + b"\xff\n", *lines[4:]]))
    write(tmp_path, [], step=6)
    assert [int(row["step"]) for row in read(tmp_path)] == [0, 1, 3, 4, 5]


def test_the_average_of_the_end_goes_where_the_end_is_made_again(tmp_path):
    write(tmp_path, [*LOSSES, (5, {"val/bleu_of_average": 3.0})])
    write(tmp_path, [], step=6)
    assert not any("val/bleu_of_average" in row for row in read(tmp_path))
    assert len(read(tmp_path)) == 6


def test_tensorboard_has_these_curves_and_no_others_once(tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    for rows, step in ((LOSSES, 0), (LOSSES[4:], 4)):
        _, board = make_trackers(LoggerConfig(kind="tensorboard"), tmp_path, {"seed": 1}, step)
        for at, metrics in rows:
            board.log(metrics, at)
    [folder] = (tmp_path / "tensorboard").iterdir()
    board = event_accumulator.EventAccumulator(str(folder))
    board.Reload()
    assert board.Tags()["scalars"] == ["train/loss"]
    found = [(event.step, event.value) for event in board.Scalars("train/loss")]
    assert found == [(at, metrics["train/loss"]) for at, metrics in LOSSES]


def test_a_new_column_has_the_table_written_anew_whole_or_not_at_all(tmp_path, monkeypatch):
    write(tmp_path, LOSSES)
    before = read(tmp_path)

    def killed(*_):
        raise SystemExit

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(SystemExit):
        write(tmp_path, [], step=3)
    assert read(tmp_path) == before
    monkeypatch.undo()
    write(tmp_path, [(6, {"val/bleu": 2.0})], step=6)
    assert read(tmp_path) == [*before, {"step": "6", "val/bleu": "2.0"}]
