"""The `translate` command, as people and pipes use it."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, WORDS, run_program
from forked import Command

TRANSLATE = Path(sys.executable).with_name("translate")


def test_texts_on_the_command_line(toy_run, translate):
    result = translate("--model", toy_run, "one two", "three")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["un deux", "trois"]
    assert f"using the model {toy_run} (named)" in result.stderr


def test_a_pipe_gives_as_many_lines_as_it_got_in_order(toy_run, translate):
    lines = ["one", "", "two three", "   ", "four"]
    result = translate("--model", toy_run, "--quiet", stdin="\n".join(lines) + "\n")
    assert result.stdout.split("\n") == ["un", "", "deux trois", "", "quatre", ""]
    assert result.stderr == ""


def test_the_model_comes_from_the_environment_then_from_what_was_chosen(
    toy_run, translate, tmp_path
):
    result = translate("one", SEQ2SEQ_MODEL=str(toy_run))
    assert (result.stdout, result.returncode) == ("un\n", 0)
    assert "from SEQ2SEQ_MODEL" in result.stderr
    settings = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert translate("--use", toy_run, **settings).returncode == 0
    result = translate("one", **settings)
    assert result.stdout == "un\n"
    assert "chosen with --use" in result.stderr


def test_json_scores_and_n_best(toy_run, translate):
    result = translate("--model", toy_run, "--json", "--n-best", "3", "--alignments", "five six")
    row = json.loads(result.stdout)
    found = [row, *row["alternatives"]]
    assert (row["source"], row["translation"], len(found)) == ("five six", "cinq six", 3)
    assert row["alignment"] == [[0, 0], [1, 1]]
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)
    result = translate("--model", toy_run, "--scores", "five six")
    score, text = result.stdout.rstrip("\n").split("\t")
    assert text == "cinq six"
    assert float(score) == pytest.approx(row["score"], abs=1e-3)


def test_a_killed_translation_of_a_file_is_gone_on_with(toy_run, tmp_path):
    numbers, lines = list(WORDS), 6000
    source = "".join(f"{numbers[i % 10]} {numbers[i // 10 % 10]}\n" for i in range(lines))
    (tmp_path / "a.txt").write_text(source)
    task = [TRANSLATE, "--model", toy_run, "--beam", "1",
            "--file", "a.txt", "--output", "b.txt.gz", "--quiet"]  # fmt: skip
    process = Command(*task, cwd=tmp_path, env=ENVIRONMENT)
    description = tmp_path / "b.txt.gz.partial.json"
    while not description.exists() or json.loads(description.read_text())["records"] == 0:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert json.loads(description.read_text())["records"] < lines
    result = run_program(*task, "--resume", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    found = gzip.decompress((tmp_path / "b.txt.gz").read_bytes()).decode()
    expected = [" ".join(WORDS[word] for word in line.split()) for line in source.splitlines()]
    assert found.splitlines() == expected


def test_a_reader_that_goes_away_ends_it_quietly(toy_run):
    process = subprocess.Popen(
        ["bash", "-c", f"yes one | {TRANSLATE} --quiet --model {toy_run} | head -1; echo "
         "${PIPESTATUS[1]}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.communicate(timeout=120) == ("un\n141\n", "")


def test_a_long_text_is_split_with_a_warning(toy_run, translate):
    result = translate("--model", toy_run, " ".join(["one two three,"] * 40))
    assert result.returncode == 0
    assert "longer than the model's 40 tokens" in result.stderr
    assert "translated in" in result.stderr
    assert len(result.stdout.split()) > 60  # one part alone has at most 39 tokens


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "text"),
    [
        (["--model", "/nowhere", "x"], b"", 1, "no model folder /nowhere"),
        (["--n-best", "5", "--beam", "2", "x"], b"", 2, "needs as many hypotheses (--beam 2)"),
    ],
)
def test_mistakes_get_a_sentence(arguments, stdin, code, text, translate, tmp_path):
    result = translate(*arguments, stdin=stdin, cwd=tmp_path)
    assert result.returncode == code
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wrong_environment_variable_is_named(translate, tmp_path):
    result = translate("hello", cwd=tmp_path, SEQ2SEQ_MODEL="/nowhere")
    assert result.returncode == 1
    assert "the model /nowhere, from SEQ2SEQ_MODEL: no model folder /nowhere: give" in result.stderr


def test_french_is_printed_whatever_the_locale(toy_run, translate):
    result = translate("--model", toy_run, "zero", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stdout) == (0, "zéro\n")


def test_arguments_that_are_not_utf8_are_refused(toy_run, translate):
    result = translate("--model", toy_run, "caf\udce9")
    assert result.returncode == 1
    assert "text 1 on the command line is not UTF-8" in result.stderr
