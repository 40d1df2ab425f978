"""The README's results are those of the runs that are kept."""

import json
import re
from pathlib import Path

import pytest

from seq2seq.errors import RunError
from seq2seq.report.results import (
    BEGIN,
    END,
    METRICS,
    Published,
    keep,
    kept_runs,
    results_table,
    with_table,
)
from seq2seq.report.run import read_run

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = [Published("toy", "test", "BLEU-tok", 61.25, "Theirs (2020)")]


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
        "degenerate": {}, "breakdowns": [], "overlap": {}, "notes": [],
        "data": {"name": "toy", "split": "test", "fingerprint": "f"},
        "model": None, "decode": {"strategy": "beam", "beam": 4}, "seconds": 1.0,
        "versions": {}, "files": {},
    }  # fmt: skip
    (place / "evaluation.json").write_text(json.dumps(record))
    (place / "hypotheses.txt").write_text("un\ndeux\ntrois\n")
    (place / "references.txt").write_text("un\ndeux\ntrois\n")
    return folder


def test_the_table_of_the_readme_is_that_of_the_runs_under_results():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    published = Published.read(ROOT / "results" / "published.yaml")
    runs = kept_runs(ROOT / "results")
    assert runs
    assert with_table(page, results_table(runs, published)) == page


def test_every_score_of_the_readme_outside_of_the_table_stands_in_a_record():
    """Numbers that are called BLEU in running text, such as 'test BLEU 56.5'."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    text = page[: page.index(BEGIN)] + page[page.index(END) :]
    known = {
        f"{score.value:.1f}"
        for run in kept_runs(ROOT / "results")
        for one in run.evaluations.values()
        for score in one.scores
        if score.name in METRICS
    }
    assert set(re.findall(r"BLEU(?:-tok)?\W{1,3}(\d+\.\d+)", text)) <= known


def test_a_row_for_each_evaluation_and_each_line_published_on_its_test_set(tmp_path):
    runs = [read_run(evaluated(tmp_path / "mine"), "mine")]
    other = Published("elsewhere", "test", "BLEU", 1.0, "Not shown")
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
    }  # fmt: skip
    (run / "origin.json").write_text(json.dumps({"parameters": 1, "data": None, "starts": [start]}))
    keep(run, tmp_path / "kept")
    [again] = kept_runs(tmp_path)[:1]
    assert again.origin.starts[0].command == "train.py data.path=CORPUS/en run_dir=runs/kept"
    assert not [f for f in (tmp_path / "kept").rglob("*.*") if str(tmp_path) in f.read_text()]


def test_another_run_is_not_overwritten(tmp_path):
    keep(evaluated(tmp_path / "one"), tmp_path / "kept")
    with pytest.raises(RunError, match="holds another run: give another name"):
        keep(evaluated(tmp_path / "two"), tmp_path / "kept")


def test_a_run_without_evaluation_is_no_result(tmp_path):
    run = evaluated(tmp_path / "run")
    (run / "evaluation/toy-test/evaluation.json").unlink()
    with pytest.raises(RunError, match=r"was not evaluated: python scripts/evaluate\.py model="):
        keep(run, tmp_path / "kept")


def test_a_page_without_marks_is_refused():
    with pytest.raises(RunError, match="has no place for results"):
        with_table("# A page", "| a |")
