"""The `translate` command, as people and pipes use it."""

from __future__ import annotations

import json

import pytest


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


def test_the_model_comes_from_the_environment_then_from_the_newest_run(toy_run, translate):
    result = translate("one", SEQ2SEQ_MODEL=str(toy_run))
    assert (result.stdout, result.returncode) == ("un\n", 0)
    assert "from SEQ2SEQ_MODEL" in result.stderr
    (toy_run.parent / "runs").symlink_to(toy_run.parent, target_is_directory=True)
    result = translate("one", cwd=toy_run.parent)
    assert result.stdout == "un\n"
    assert "the newest finished run" in result.stderr


def test_json_scores_and_n_best(toy_run, translate):
    result = translate("--model", toy_run, "--json", "--n-best", "3", "five six")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["source"] for row in rows] == ["five six"] * 3
    assert rows[0]["translation"] == "cinq six"
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    result = translate("--model", toy_run, "--scores", "five six")
    score, text = result.stdout.rstrip("\n").split("\t")
    assert text == "cinq six"
    assert float(score) == pytest.approx(rows[0]["score"], abs=1e-3)


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
        (["--n-best", "5", "--beam", "2", "x"], b"", 1, "needs a beam as large"),
        (["--beam", "0", "x"], b"", 1, "--beam 0 asks for nothing"),
        (["--devise", "cpu", "x"], b"", 2, "unrecognized arguments: --devise"),
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
    assert "SEQ2SEQ_MODEL=/nowhere is no folder" in result.stderr


def test_french_is_printed_whatever_the_locale(toy_run, translate):
    result = translate("--model", toy_run, "zero", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stdout) == (0, "zéro\n")


def test_arguments_that_are_not_utf8_are_refused(toy_run, translate):
    result = translate("--model", toy_run, "caf\udce9")
    assert result.returncode == 1
    assert "text 1 on the command line is not UTF-8" in result.stderr


def test_without_any_model_it_says_how_to_get_one(translate, tmp_path):
    result = translate("hello world", cwd=tmp_path)
    assert result.returncode == 1
    assert "make demo" in result.stderr
    assert "SEQ2SEQ_MODEL" in result.stderr


def test_invalid_utf8_names_the_line(toy_run, translate):
    result = translate("--model", toy_run, stdin=b"one\ntwo \xff\n")
    assert result.returncode == 1
    assert "standard input, line 2: not UTF-8" in result.stderr
