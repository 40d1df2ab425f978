"""The results on the page are those of the runs that are kept."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from results import (
    METRICS,
    PAGE,
    Published,
    keep,
    kept_runs,
    read_published,
    results_table,
    with_table,
    without_places,
)
from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.errors import RunError
from seq2seq.report.run import read_run

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = [Published("f", "BLEU-tok", 61.25, "Theirs (2020)")]


def evaluated(folder: Path, bleu: float = 41.26) -> Path:
    """A run with one evaluation, as far as the table looks at it."""
    place = folder / "evaluation" / "toy-test"
    place.mkdir(parents=True)
    settings = f"model: {{name: {folder.name}}}\ndata: {{}}\ntrainer: {{}}"
    (folder / "config.yaml").write_text(settings)
    record = {
        "format": 1,
        "scores": [{"name": "BLEU", "value": bleu, "signature": "s", "low": 40.0, "high": 42.52}],
        "intervals": None, "sentences": 3, "length_ratio": 1.0, "exact_matches": 0,
        "degenerate": {}, "breakdowns": [], "overlap": {"unknown": "-"}, "notes": [],
        "data": {"name": "toy", "split": "test", "language": "fr", "fingerprint": "f"},
        "model": None, "decode": {"strategy": "beam", "beam": 4}, "seconds": 1.0,
        "versions": {},
        "files": {
            role: {"path": f"{role}.txt", "fingerprint": text_fingerprint(["un", "deux", "trois"])}
            for role in ("hypotheses", "references")
        },
    }  # fmt: skip
    (place / "evaluation.json").write_text(json.dumps(record))
    (place / "hypotheses.txt").write_text("un\ndeux\ntrois\n")
    (place / "references.txt").write_text("un\ndeux\ntrois\n")
    return folder


def test_the_table_of_the_page_is_that_of_the_runs_under_results():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    published = read_published(ROOT / "results")
    runs = kept_runs(ROOT / "results")
    assert runs
    assert {line.metric for line in published} <= set(METRICS)
    assert with_table(page, results_table(runs, published)) == page


def test_a_run_that_began_with_the_weights_of_another_says_so(tmp_path):
    first, second = evaluated(tmp_path / "first"), evaluated(tmp_path / "second")
    with (second / "config.yaml").open("a") as settings:
        settings.write("\ninit_from: PATH/first\n")
    rows = results_table([read_run(folder, folder.name) for folder in (first, second)], [])
    assert [line.split(" | ")[3] for line in rows.splitlines()[2:]] == ["", "after earlier stages"]


def test_every_figure_in_the_results_of_the_readme_stands_on_the_pages_of_results():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [results] = re.findall(r"^## Results\n\n(.*?)^## ", readme, re.M | re.S)
    figures = set(re.findall(r"\d[\d.,–]*\d", re.sub(r"\(.*?\)", "", results)))
    pages = "".join((ROOT / "docs/explanation" / name).read_text(encoding="utf-8")
                    for name in ("results.md", "speed.md"))  # fmt: skip
    assert len(figures) >= 8
    assert {figure for figure in figures if figure not in pages} == set()


def test_kept_translations_are_those_that_were_scored():
    for run in kept_runs(ROOT / "results"):
        for folder, one in run.evaluations.items():
            assert one.lines("hypotheses", folder)  # which compares the fingerprint
            [bleu] = [score for score in one.scores if score.name == "BLEU"]
            assert bleu.low < bleu.value < bleu.high


def test_a_row_for_each_evaluation_and_each_line_published_on_its_test_set(tmp_path):
    runs = [read_run(evaluated(tmp_path / "mine"), "mine")]
    other = Published("of another test set", "BLEU", 1.0, "Not shown")
    head, _, own, theirs = results_table(runs, [*PUBLISHED, other]).splitlines()
    assert own == "| toy test | mine, beam 4 |  |  | 41.3 (40.0–42.5) |  |  |"
    assert theirs == "| toy test | *Theirs (2020)* |  |  |  |  | 61.2 |"
    assert head.count("|") == own.count("|") == theirs.count("|")


def test_small_files_are_kept_and_no_text_of_the_test_set(tmp_path):
    run = evaluated(tmp_path / "run")
    (run / "checkpoints").mkdir()
    keep(run, tmp_path / "kept")
    kept = {str(f.relative_to(tmp_path / "kept")) for f in (tmp_path / "kept").rglob("*.*")}
    assert kept == {
        "config.yaml", "evaluation/toy-test/evaluation.json", "evaluation/toy-test/hypotheses.txt"
    }  # fmt: skip
    keep(run, tmp_path / "kept")  # once more is no harm
    [again] = kept_runs(tmp_path)[:1]
    assert again.evaluations


def test_where_things_lay_is_not_kept(tmp_path):
    run = evaluated(tmp_path / "run")
    corpus = str(tmp_path / "corpus")
    (run / "config.yaml").write_text(
        f"model: {{}}\ndata: {{path: {corpus}}}\ntrainer: {{}}\nrun_dir: {run}\n"
    )
    start = {
        "time": "now", "command": f"train.py data.path={corpus}/en run_dir={run}",
        "revision": None, "versions": {}, "device": "CPU", "processes": 1,
        "folder": str(tmp_path),
    }  # fmt: skip
    (run / "origin.json").write_text(json.dumps({"parameters": 1, "data": None, "starts": [start]}))
    keep(run, tmp_path / "kept")
    [again] = kept_runs(tmp_path)[:1]
    assert again.origin.starts[0].command == "train.py data.path=PATH/en run_dir=runs/kept"
    assert not [f for f in (tmp_path / "kept").rglob("*.*") if str(tmp_path) in f.read_text()]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("data.path=/home/me/corpus/en", "data.path=PATH/en"),
        ("see /runs/mine, /runs/mine/log.txt", "see runs/new, runs/new/log.txt"),
        ("/runs/mine-2", "PATH/mine-2"),
        *((same, same) for same in ("https://host/a/b", "1/2/3", "a/b/c", "<b>x</b>", "/dev", ".")),
    ],
)
def test_of_absolute_paths_the_end_is_kept(text, kept):
    assert without_places(text, Path("/runs/mine"), "new") == kept


def test_translations_are_kept_as_they_are(tmp_path):
    run = evaluated(tmp_path / "run")
    keep(run, tmp_path / "kept")
    [(folder, one)] = kept_runs(tmp_path)[0].evaluations.items()
    assert one.score("BLEU").value == 41.26
    assert (folder / "hypotheses.txt").read_text() == "un\ndeux\ntrois\n"


def test_evaluations_that_a_run_no_longer_has_are_not_kept(tmp_path):
    run = evaluated(tmp_path / "run")
    keep(run, tmp_path / "kept")
    (run / "evaluation" / "toy-test").rename(run / "evaluation" / "toy-val")
    keep(run, tmp_path / "kept")
    [again] = kept_runs(tmp_path)[:1]
    assert [folder.name for folder in again.evaluations] == ["toy-val"]


def test_a_run_without_evaluation_is_no_result(tmp_path):
    run = evaluated(tmp_path / "run")
    (run / "evaluation/toy-test/evaluation.json").unlink()
    with pytest.raises(RunError, match=r"was not evaluated: python scripts/evaluate\.py bundle="):
        keep(run, tmp_path / "kept")


REPRODUCE = ROOT / "scripts" / "reproduce_multi30k.sh"


@pytest.mark.parametrize("state", ["new", "stopped", "finished"])
def test_reproducing_goes_on_where_it_was_stopped(state, tmp_path):
    """With a `python` that only says what it was asked for."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    run = tmp_path / "run"
    if state != "new":
        run.mkdir()
    if state == "finished":
        (run / "summary.json").touch()
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "RUN": str(run), "DATA": "a, b"}
    done = subprocess.run(
        ["bash", REPRODUCE], env=environment, capture_output=True, text=True, check=True
    )
    *first, evaluate, table = done.stdout.splitlines()
    assert first == {
        "new": [f"scripts/train.py experiment=multi30k run_dir={run} data.path=a, b"],
        "stopped": [f"scripts/train.py resume={run}"],
        "finished": [],
    }[state]
    expected = f"scripts/evaluate.py bundle={run} data=multi30k split=test data.path=a, b"
    assert (evaluate, table) == (expected, f"scripts/maintain/results.py {run}")
