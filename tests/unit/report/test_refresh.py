"""What an evaluation adds stands in the report at once."""

from __future__ import annotations

from example_run import write_run
from html_elements import Page

from seq2seq.report.page import refresh_report, run_of, write_report


def test_a_report_after_evaluate_shows_the_scores_and_the_sentences(script, tmp_path):
    run = write_run(tmp_path / "run")
    for file in sorted((run / "evaluation/starter-test").iterdir()):
        file.unlink()
    (run / "evaluation/starter-test").rmdir()
    write_report([run], run / "report.html")
    assert "No test set has been scored yet" in (run / "report.html").read_text(encoding="utf-8")
    (tmp_path / "test.en").write_text("a man\nthe house\n")
    (tmp_path / "test.fr").write_text("un homme\nla maison\n")
    done = script(
        "evaluate", f"bundle={run}", "data=files",
        f"data.test=[{tmp_path}/test.en,{tmp_path}/test.fr]", "split=test", "device=cpu",
        "training_text=none", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = Page((run / "report.html").read_text(encoding="utf-8"))
    assert "No test set has been scored yet" not in page.text
    assert "files test" in page.text
    assert "la maison" in " ".join(page.text.split())


def test_a_run_without_a_report_gets_none(tmp_path):
    run = write_run(tmp_path / "run")
    refresh_report(run_of(run / "bundle"))
    assert not (run / "report.html").exists()


def test_a_report_that_cannot_be_written_costs_no_score(tmp_path, caplog):
    run = write_run(tmp_path / "run")
    write_report([run], run / "report.html")
    (run / "summary.json").write_text("{")
    before = (run / "report.html").read_bytes()
    refresh_report(run)
    assert f"{run / 'report.html'} was not written: " in caplog.text
    assert (run / "report.html").read_bytes() == before
