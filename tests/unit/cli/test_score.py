"""`scripts/score.py` in this process, on a tiny model: a line for each pair, whatever it holds."""

from __future__ import annotations

import gzip
import io
import json
import math
import shutil
import sys
from types import SimpleNamespace

import pytest
from naive_search import forced_log_prob
from tiny_bundle import tiny_bundle

from seq2seq.bundle import find as shipped
from seq2seq.cli import score
from seq2seq.data.tokenizer import EOS
from seq2seq.inference.translator import Translator

PAIRS = [("the house", "la maison"), ("a man reads", "un homme lit"), ("big", "la maison est ici")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "b"
    tiny_bundle().save(folder)
    return folder


@pytest.fixture
def run(bundle, capsys, monkeypatch):
    """The command: its exit code, its lines and what it says beside them."""

    def command(*arguments: object, stdin: str = ""):
        pipe = SimpleNamespace(buffer=io.BytesIO(stdin.encode()), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", pipe)
        code = 0
        try:
            argv = ["score", *map(str, arguments), "--model", str(bundle)]
            monkeypatch.setattr(sys, "argv", argv)
            score.main()
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return command


def tsv(pairs) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def test_scores_are_those_of_the_model_token_by_token(run, bundle):
    code, lines, err = run("--json", stdin=tsv(PAIRS))
    assert (code, err) == (0, "")
    translator = Translator.load(bundle, "cpu")
    encode = translator.vocabularies.source.encode
    for (source, target), line in zip(PAIRS, lines, strict=True):
        found = json.loads(line)
        expected = forced_log_prob(
            translator.engine.models[0], encode([source])[0], [*encode([target])[0], EOS]
        )
        assert found["log_prob"] == pytest.approx(expected, abs=1e-4)
        assert found["log_prob"] == pytest.approx(sum(found["token_scores"]))
        assert "".join(found["tokens"]) == "▁" + target.replace(" ", "▁")
        assert len(found["token_scores"]) == len(found["tokens"]) + 1  # and the end mark
        assert found["per_token"] == pytest.approx(expected / len(found["token_scores"]), abs=1e-5)
        assert found["per_word"] == pytest.approx(expected / len(target.split()), abs=1e-4)


def test_rows_hold_the_same_numbers(run):
    _, objects, _ = run("--json", stdin=tsv(PAIRS))
    _, rows, _ = run(stdin=tsv(PAIRS))
    for row, line in zip(rows, objects, strict=True):
        found = json.loads(line)
        assert row.split("\t") == [f"{found[name]:.4f}" for name in score.FIELDS]


@pytest.mark.parametrize("form", ["lines", "tsv", "numbered", "jsonl", "packed"])
def test_all_forms_of_input_give_the_same(run, tmp_path, form):
    english, french = (tmp_path / "a.en", tmp_path / "a.fr")
    english.write_text("".join(source + "\n" for source, _ in PAIRS))
    french.write_text("".join(target + "\n" for _, target in PAIRS))
    (tmp_path / "a.tsv").write_text("en\tfr\n" + tsv(PAIRS))
    (tmp_path / "n.tsv").write_text(tsv((target, source) for source, target in PAIRS))
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"s": source, "t": target}) + "\n" for source, target in PAIRS)
    )
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress((tmp_path / "a.tsv").read_bytes()))
    arguments = {
        "lines": (english, french),
        "tsv": (tmp_path / "a.tsv",),
        "numbered": (tmp_path / "n.tsv", "--columns", "1", "0"),
        "jsonl": (tmp_path / "a.jsonl", "--columns", "s", "t"),
        "packed": (tmp_path / "a.tsv.gz",),
    }[form]
    code, lines, err = run(*arguments)
    assert (code, err) == (0, "")
    assert lines == run(stdin=tsv(PAIRS))[1]


def test_a_column_that_is_not_there_is_told_in_options_of_this_command(run, tmp_path):
    (tmp_path / "a.tsv").write_text("en\tfr\n" + tsv(PAIRS))
    code, _, err = run(tmp_path / "a.tsv", "--columns", "en", "de")
    assert code == 1
    assert "has no column 'de'; it has: 'en', 'fr'. Set --columns SOURCE TARGET" in err


def test_pairs_without_a_score_keep_their_lines_and_are_named(run):
    odd = [("", "x"), ("x", "  "), ("man " * 40, "x"), ("x", "homme " * 40)]
    mixed = [PAIRS[0], *odd, PAIRS[1]]
    code, lines, err = run(stdin=tsv(mixed))
    assert code == 0
    alone = run(stdin=tsv(PAIRS))[1]
    assert lines == [alone[0], *["\t\t"] * 4, alone[1]]
    said = err.splitlines()
    assert said[0] == "score: pair 2 has no score: its source is empty"
    assert said[1] == "score: pair 3 has no score: its target is empty"
    assert said[2].startswith("score: pair 4 has no score: its source has ")
    assert said[2].endswith(" tokens, and the model reads 24")
    assert said[4] == "score: 4 of 6 pairs have no score"
    assert run("--quiet", stdin=tsv(mixed))[2] == ""
    found = json.loads(run("--json", stdin=tsv(mixed))[1][1])
    assert found == dict.fromkeys(score.FIELDS) | {"tokens": [], "token_scores": []}


def test_pairs_stream_in_blocks_and_blocks_do_not_show(run, monkeypatch):
    many = [PAIRS[n % 3] for n in range(20)]
    lines = run(stdin=tsv(many))[1]
    read, largest = [], []
    of_stdin, encode = score._of_stdin, Translator.encode

    def counted():
        for pair in of_stdin():
            read.append(pair)
            yield pair

    def watched(translator, block):
        largest.append(len(read))
        return encode(translator, block)

    monkeypatch.setattr(score, "BLOCK", 6)
    monkeypatch.setattr(score, "_of_stdin", counted)
    monkeypatch.setattr(Translator, "encode", watched)
    again = run(stdin=tsv(many))[1]
    for ours, theirs in zip(again, lines, strict=True):
        for a, b in zip(ours.split("\t"), theirs.split("\t"), strict=True):
            assert math.isclose(float(a), float(b), abs_tol=2e-4)
    assert largest == [6, 12, 18, 20]  # no pair is read before its block


def test_nothing_in_nothing_out(run):
    assert run(stdin="") == (0, [], "")


def test_files_of_unequal_length_are_refused_with_both_counts(run, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("un\n")
    code, _, err = run(tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert f"{tmp_path / 'a'} has 2 lines but {tmp_path / 'b'} has 1: line n of one" in err


@pytest.mark.parametrize("line", ["one", "a\tb\tc"])
def test_a_line_of_a_pipe_that_is_no_pair_is_named(run, line):
    code, _, err = run(stdin=f"a\tb\n{line}\n")
    assert code == 1
    assert "error: standard input, line 2 needs one tab, between source and target" in err


def test_a_missing_file_is_one_message_before_the_model_is_loaded(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Translator, "load", lambda *_, **__: pytest.fail("it was loaded"))
    code, _, err = run(tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert err == f"error: cannot read {tmp_path / 'a'}: there is no such file. Correct the name\n"
    code, _, err = run(tmp_path.with_suffix(".tsv"))
    assert (code, err.count("there is no such file")) == (1, 1)
    code, _, err = run(tmp_path, tmp_path)
    assert (code, err.count("there is no such file")) == (1, 1)


def test_engine_and_precision_are_those_of_translate(run, monkeypatch):
    given = []
    load = Translator.load

    def noted(*arguments, **keywords):
        given.append(keywords)
        return load(*arguments)

    monkeypatch.setattr(Translator, "load", noted)
    assert run("--engine", "ctranslate2", "--precision", "int8", stdin=tsv(PAIRS))[0] == 0
    assert run(stdin=tsv(PAIRS))[0] == 0
    assert given == [{"engine": "ctranslate2", "precision": "int8"},
                     {"engine": "torch", "precision": "auto"}]  # fmt: skip
    code, _, err = run("--precision", "float23", stdin=tsv(PAIRS))
    assert code == 2
    assert err.startswith("error: --precision float23 is not known: did you mean 'float32'")


def test_targets_are_read_as_those_of_training_were(capsys, monkeypatch, tmp_path):
    bundle = tiny_bundle()
    cleaning = {"languages": ["en", "fr"], "normalise": ["spaces", "quotes"]}
    bundle.training["config"] = {"cleaning": cleaning}
    bundle.save(tmp_path / "b")
    (tmp_path / "a.tsv").write_text("en\tfr\nbig\tl’homme  lit\nbig\tl'homme lit\nbig\t\xa0\n")
    monkeypatch.setattr(
        sys, "argv", ["score", str(tmp_path / "a.tsv"), "--model", str(tmp_path / "b")]
    )
    score.main()
    out, err = capsys.readouterr()
    typed, learnt, nothing = out.splitlines()
    assert typed == learnt
    assert (nothing, err.splitlines()[0]) == (
        "\t\t", "score: pair 3 has no score: its target is empty"
    )  # fmt: skip


def test_half_a_surrogate_pair_is_refused_by_line(run, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"en": "big", "fr": "la"}\n{"en": "big", "fr": "la \\ud800"}\n')
    code, _, err = run(path)
    assert code == 1
    assert "a.jsonl, line 2: 'fr' is not a text" in err


def test_a_closed_standard_input_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "argv", ["score"])
    with pytest.raises(SystemExit):
        score.main()
    assert "nothing to score: give files" in capsys.readouterr().err


def test_scores_are_utf_8_whatever_the_locale_says(run, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert run("--json", stdin=tsv(PAIRS))[0] == 0
    assert "▁" in stdout.buffer.getvalue().decode()


def test_a_model_that_is_not_named_is_told(bundle, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("SEQ2SEQ_MODEL", raising=False)
    monkeypatch.setattr(shipped, "PRETRAINED", tmp_path)
    shutil.copytree(bundle, tmp_path / "general")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    lines = set()
    for arguments in ([], ["--quiet"], ["--model", "general"]):
        pipe = SimpleNamespace(buffer=io.BytesIO(tsv(PAIRS).encode()), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", pipe)
        monkeypatch.setattr(sys, "argv", ["score", *arguments])
        score.main()
        out, err = capsys.readouterr()
        lines.add(out)
        said = f"score: using the model {tmp_path / 'general'} (general, shipped with seq2seq)\n"
        assert err == ("" if arguments else said)
    assert len(lines) == 1
