"""Every run ends with a report; scripts/report.py compares runs."""

from __future__ import annotations

import json
import logging
import re

from html_elements import Page

from seq2seq.report import page
from seq2seq.report.run import read_run


def test_a_finished_run_has_its_report(toy_run):
    text = (toy_run / "report.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    found = Page(text)
    summary = json.loads((toy_run / "summary.json").read_text())
    assert f"{summary['best_val_bleu']:.1f}" in found.text
    assert "After step" in found.text
    assert not re.search("No (curves|samples|attention)|is known of the data", found.text)
    assert re.search(f"seq2seq train .*run_dir={toy_run}", found.text)
    assert not found.values("src")
    assert "look        " in toy_run.with_suffix(".log").read_text(encoding="utf-8")


def test_the_origin_is_that_of_the_run(toy_run):
    origin = read_run(toy_run, "toy").origin
    log = toy_run.with_suffix(".log").read_text(encoding="utf-8")
    assert origin is not None
    assert f"{origin.parameters:,} parameters" in log
    [start] = origin.starts
    assert f"run_dir={toy_run}" in start.command
    assert f"device      {start.device}" in log


def test_a_report_that_fails_does_not_fail_the_run(toy_run, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(page, "read_runs", fail)
    before = (toy_run / "report.html").read_bytes()
    with caplog.at_level(logging.WARNING):
        page.try_report(toy_run)
    assert (toy_run / "report.html").read_bytes() == before
    assert "was not written: a bug. To try again: seq2seq report" in caplog.text
