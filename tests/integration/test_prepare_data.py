"""The real command that prepares a corpus, and trainings that find it prepared."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, ROOT, TOY
from forked import Command

SMALL = ("tokenizer.vocab_size=300", "data.processes=1")


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A folder with something for several filters to drop."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    good = [f"the house number {n} is very big\tla maison numéro {n} est très grande" for n in
            range(200)]
    bad = ["\tvide", "<b>bold</b>\t<b>gras</b>", good[3], "The cat sleeps!\tUn chat dort",
           "broken caf\ufffd\tcafé cassé"]
    (folder / "train.tsv").write_text("\n".join(["en\tfr", *good, *bad]), encoding="utf-8")
    (folder / "val.tsv").write_text("en\tfr\nthe cat sleeps\tun chat dort\n", encoding="utf-8")
    return folder


def settings(corpus: Path, cache: Path) -> list[str]:
    return ["data=files", f"data.path={corpus}", "data.test=null", f"data.cache={cache}", *SMALL]


def test_it_says_what_it_kept_and_dropped_and_where_the_page_is(script, corpus, tmp_path):
    result = script("prepare_data", *settings(corpus, tmp_path / "cache"))
    assert result.returncode == 0, result.stderr
    assert "files: 205 pairs read, 200 kept" in result.stdout
    for reason in ("empty", "damaged", "markup", "leakage", "duplicate"):
        [line] = [row for row in result.stdout.splitlines() if row.split()[:2] == ["|", reason]]
        assert line.split()[3] == "1"
    page = Path(result.stdout.strip().splitlines()[-1].partition(": ")[2])
    assert "<html" in page.read_text(encoding="utf-8")
    report = json.loads(page.with_name("report.json").read_text(encoding="utf-8"))
    assert report["examples"]["leakage"] == [["The cat sleeps!", "Un chat dort"]]


def test_the_second_time_it_finds_what_it_made(script, corpus, tmp_path):
    first, second = (
        script("prepare_data", *settings(corpus, tmp_path / "cache")) for _ in range(2)
    )
    assert first.stdout.startswith("preparing")
    assert second.stdout in first.stdout
    assert "preparing" not in second.stdout


def test_training_prepares_by_itself_and_finds_what_was_prepared(script, toy_corpus, tmp_path):
    cache, runs = tmp_path / "cache", tmp_path / "runs"
    common = [*TOY, f"data.path={toy_corpus}", f"data.cache={cache}"]
    quick = ("trainer.max_steps=1", "decode=greedy", "logger=none")
    first = script("train", *common, *quick, f"run_dir={runs / 'first'}")
    assert first.returncode == 0, first.stderr
    assert "preparing   files in" in first.stdout
    second = script("train", *common, *quick, f"run_dir={runs / 'second'}")
    assert "preparing" not in second.stdout
    prepared = script("prepare_data", "data=files", "cleaning=none", "tokenizer.vocab_size=400",
                      f"data.path={toy_corpus}", f"data.cache={cache}")
    assert prepared.returncode == 0, prepared.stderr
    assert "preparing" not in prepared.stdout


def test_a_killed_preparation_goes_on(script, tmp_path):
    folder, cache = tmp_path / "corpus", tmp_path / "cache"
    folder.mkdir()  # of two blocks, which are prepared one after the other
    lines = "".join(f"sentence {n} of many\tphrase {n} parmi tant\n" for n in range(101_000))
    (folder / "train.tsv").write_text("en\tfr\n" + lines, encoding="utf-8")
    (folder / "val.tsv").write_text("en\tfr\na\tb\n", encoding="utf-8")
    command = ["data=files", f"data.path={folder}", "data.test=null", f"data.cache={cache}",
               "tokenizer=byte", "cleaning.filters=[duplicate]", "data.processes=1"]
    process = Command(ROOT / "scripts" / "prepare_data.py", *command, cwd=ROOT, env=ENVIRONMENT)
    for _ in range(600):
        made = [path.name for path in cache.rglob("*.arrow")]
        if made:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    times = {path: path.stat().st_mtime_ns for path in cache.rglob("*.arrow")}
    assert 0 < len(times) < 5
    result = script("prepare_data", *command)
    assert result.returncode == 0, result.stderr
    assert "101,000 pairs read, 101,000 kept" in result.stdout
    assert all(path.stat().st_mtime_ns == before for path, before in times.items())


def test_ctrl_c_ends_all_processes_with_one_line(tmp_path, corpus):
    many = corpus / "train.tsv"
    line = "the house number {n} is very big\tla maison numéro {n} est très grande\n"
    many.write_text("en\tfr\n" + "".join(line.format(n=n) for n in range(250_000)))
    command = [*settings(corpus, tmp_path / "cache"), "data.processes=2",
               "cleaning.filters=[duplicate]"]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "prepare_data.py", *command],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Shells start what runs in the background with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    for _ in range(600):
        if list(tmp_path.rglob("*.arrow")):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("overrides", "code", "useful"),
    [
        (["data.path=/nonexistent"], 1, "data.path=/nonexistent is not a folder"),
        (["data=starter"], 2, "does nothing, since the members of data=starter say where"),
        (["data=hub", "data.path=null"], 1, "name a data set, data.hub=OWNER/NAME"),
        (["tokenizer=bep"], 2, "tokenizer=bep is not known: did you mean 'bpe'"),
        (["cleaning.filters=[emty]"], 2, "filters=emty is not known: did you mean 'empty'"),
        (["cleaning.filter=[empty]"], 2, "did you mean 'cleaning.filters'"),
        (["tokenizer.path=/nonexistent.json"], 1, "cannot read the tokenizer /nonexistent.json"),
        (["data.processes=0"], 2, "data.processes=0 is too small"),
        (["prepare.address=auto"], 2, "does nothing without prepare.engine=ray"),
        (["cleaning.languages=[en]"], 2, "must be two codes of languages"),
        (["+data@data.members.a=files"], 2, "data.train=train and data.members both name"),
        (["+data.members.a.train=x"], 2, "begins with a preset: +data@data.members.NAME=files"),
        (["data.members={a: {name: x}}"], 2, "begins with a preset: +data@data.members.NAME=files"),
        (["+data@data.members.a=files", "data.members.a.pth=x"], 2, "mean 'data.members.a.path'"),
        (["+data.weights.a=x"], 2, "data.weights.a"),
        (["data.source_column=de"], 1, "has no column 'de'; it has: 'en', 'fr'"),
        (["data.cache=/proc/nowhere"], 1, "cannot be prepared"),
        (["cleaning.max_words=1"], 1, "cleaning drops 205 of 205 pairs"),
    ],
)
def test_a_mistake_is_one_plain_message(script, corpus, tmp_path, overrides, code, useful):
    base = [s for s in settings(corpus, tmp_path / "cache")
            if s.split("=")[0] not in {o.split("=")[0] for o in overrides}]
    result = script("prepare_data", *base, *overrides)
    assert result.returncode == code
    assert result.stderr.startswith("error: ")
    assert useful in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "useful"),
    [
        ("train.tsv", b"en\tfr\none\tun\ntwo\xff\tdeux\n", "train.tsv, line 3: not UTF-8"),
        ("train.tsv", b"", "train.tsv is empty"),
        ("train.tsv", b"en\tfr\none\n", "train.tsv, line 2: 1 column(s) where at least 2"),
        ("train.tsv", "en\tfr\none\tun\n".encode("utf-16"), "iconv"),
        ("train.tsv.gz", b"\x1f\x8b\x08\x00broken", "train.tsv.gz"),
        ("train.tsv.zst", b"(\xb5/\xfdbroken", "train.tsv.zst"),
        ("train.jsonl", b'{"en": "one", "fr": "un"}\n{"en": 1}\n', "train.jsonl, line 2"),
        ("train.parquet", b"PAR1 broken PAR1", "train.parquet is not a readable parquet file"),
    ],
)
def test_a_broken_file_is_named_with_its_line(script, corpus, tmp_path, name, content, useful):
    (corpus / "train.tsv").unlink()
    (corpus / name).write_bytes(content)
    result = script("prepare_data", *settings(corpus, tmp_path / "cache"))
    assert result.returncode == 1
    assert useful in result.stderr
    assert "Traceback" not in result.stderr


def test_odd_bytes_in_a_file_are_data_and_not_errors(script, corpus, tmp_path):
    """A byte order mark, Windows line ends, NUL, a megabyte in a line, other scripts."""
    long = "long " * 200_000
    lines = ["en\tfr", "one two\tun deux", "nul \0 here\tnul \0 ici", f"{long}\t{long}",
             "Москва is big\tMoscou est grande", "東京\t東京", "a\u2028b\tc\x0cd"]
    (corpus / "train.tsv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    result = script("prepare_data", *settings(corpus, tmp_path / "cache"))
    assert result.returncode == 0, result.stderr
    assert "6 pairs read" in result.stdout
    report = json.loads(next(tmp_path.rglob("report.json")).read_text(encoding="utf-8"))
    assert report["dropped"]["damaged"] == 1
    assert report["dropped"]["too_long"] == 1


def test_the_benchmark_measures_each_stage(script, corpus):
    result = script("benchmark", "data", "data=files", f"data.path={corpus}", *SMALL)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[-1]["what"] == "load an epoch"
    assert all(line[key] > 0 for line in lines for key in line if key.endswith("second"))
    result = script("benchmark", "dta")
    assert result.returncode == 2
    assert "benchmark 'dta' is not known: did you mean 'data'" in result.stderr
