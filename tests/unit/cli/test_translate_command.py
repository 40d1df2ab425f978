"""`translate` from its arguments to its exit code, on a translator that only writes in capitals."""

from __future__ import annotations

import gzip
import inspect
import io
import json
import os
import sys
import threading
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tiny_bundle import tiny_bundle

from seq2seq.bundle import find as shipped
from seq2seq.cli import translate, translate_options
from seq2seq.inference import attention_figure
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator

INPUT = "one\n\n  two \u2028 \x00 three\x0b\x85\r\nfour"
OUTPUT = "ONE\n\n  TWO \u2028 \x00 THREE\x0b\x85\nFOUR\n"


@dataclass
class Capitals:
    """Stands for a translator, and keeps what it was asked."""

    loaded: list[Any] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    stop: dict[str, BaseException] = field(default_factory=dict)

    def load(self, *arguments: Any, **keywords: Any) -> Capitals:
        self.loaded = [*arguments, keywords]
        return self

    def translate(self, texts, **settings) -> list[Translation]:
        for text in texts:
            if text in self.stop:
                raise self.stop[text]
        self.texts.append(list(texts))
        self.settings = settings
        n_best = settings.get("n_best", 1)
        return [
            Translation(
                text.upper(),
                -1.0,
                alternatives=[Translation(f"{text}?", -2.0)] * (n_best > 1),
                parts=[(text, text.upper())],
            )
            for text in texts
        ]


@pytest.fixture
def capitals(monkeypatch) -> Capitals:
    made = Capitals()
    monkeypatch.setattr(Translator, "load", made.load)
    return made


class Terminal(io.StringIO):
    """A text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def command(capitals, monkeypatch, tmp_path, capsys):
    """Runs `translate` in a folder with a model: exit code, standard output, standard error."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQ2SEQ_MODEL", str(model))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path.parent / f"{tmp_path.name}-settings"))

    def run(*arguments: object, stdin: str | bytes | io.StringIO | None = b""):
        if isinstance(stdin, str | bytes):
            data = stdin.encode() if isinstance(stdin, str) else stdin
            Path("stdin").write_bytes(data)
            stdin = open("stdin", encoding="utf-8")  # noqa: SIM115
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "argv", ["translate", *map(str, arguments)])
        try:
            translate.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def assert_refused(result, code: int, *parts: str) -> None:
    assert (result[0], result[1]) == (code, "")
    assert result[2].count("error: ") == 1
    for part in parts:
        assert part in result[2]


# Lines


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_as_many_lines_out_as_in_whatever_they_hold(command, mark):
    assert command("--quiet", stdin=mark + INPUT) == (0, OUTPUT, "")
    assert command("--quiet", stdin="") == (0, "", "")
    assert command("--quiet", stdin="\n\n") == (0, "\n\n", "")


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_files_are_as_pipes(command, ending):
    Path("a.txt").write_text(INPUT, newline="")
    assert command("--file", "a.txt", "--output", f"b.txt{ending}", "--quiet")[::2] == (0, "")
    assert command("--file", f"b.txt{ending}")[1] == OUTPUT
    assert not list(Path().glob("b.txt*.partial*"))


@pytest.fixture
def large(monkeypatch):
    """The first block is as large as any."""
    monkeypatch.setattr(translate, "FIRST", translate.LETTERS)


def test_many_lines_come_in_order_and_in_blocks(command, capitals, large):
    lines = [f"line {number}" for number in range(translate.BLOCK + 176)]
    code, out, _ = command(stdin="\n".join([*lines, ""]))
    assert (code, out.splitlines()) == (0, [line.upper() for line in lines])
    assert [len(block) for block in capitals.texts] == [translate.BLOCK, 176]


def test_a_block_of_long_lines_has_fewer(command, capitals, large):
    long = "x" * 400_000
    assert command("--json", stdin=f"{long}\n" * 4)[0] == 0
    assert sum(map(len, capitals.texts)) == 4
    assert max(map(len, capitals.texts)) <= 3


def test_a_block_takes_some_seconds_whatever_the_speed(command, capitals, monkeypatch):
    """A clock that only translations move: a tenth of a second for each line."""
    now = [0.0]
    answer = capitals.translate

    def slowly(texts, **settings):
        now[0] += 0.1 * len(texts)
        return answer(texts, **settings)

    monkeypatch.setattr(capitals, "translate", slowly)
    monkeypatch.setattr(translate.time, "perf_counter", lambda: now[0])
    lines = [f"line {number} is as long as the others" for number in range(1000, 2000)]
    assert command(stdin="\n".join(lines))[1].splitlines() == [line.upper() for line in lines]
    first, *blocks, _ = [len(block) for block in capitals.texts]
    assert first < 200
    assert blocks
    assert all(0.8 < 0.1 * lines / translate.SECONDS < 1.2 for lines in blocks)


LONG_LINE = " ".join(f"Sentence number {number} ends here.  " for number in range(9000))


def test_a_line_of_megabytes_is_answered_in_parts(command, capitals):
    """As one line, each part as soon as it is there, none above the limit, all cut at sentences."""
    code, out, _ = command("--quiet", stdin=f"one\n{LONG_LINE}\ntwo\n")
    assert (code, out) == (0, f"ONE\n{LONG_LINE.upper()}\nTWO\n")
    texts = [text for block in capitals.texts for text in block]
    assert max(map(len, texts)) <= translate.LONG_LINE_CHARACTERS
    assert all(text.rstrip().endswith(".") for text in texts[1:-1])
    assert len(texts) < 3 * len(LONG_LINE) / translate.LONG_LINE_CHARACTERS
    assert len(capitals.texts) >= 3


@pytest.mark.parametrize("text", ["x" * 90_000, "y " * 45_000, " " * 90_000])
def test_a_long_line_without_sentences_loses_nothing(command, text):
    assert command("--quiet", stdin=f"{text}\n")[:2] == (0, f"{text.upper()}\n")


def test_a_long_text_of_many_lines_stays_one_line(command):
    text = "One line ends here.\n" * 2000
    assert command("--quiet", text)[1].count("\n") == 1


def test_a_long_line_with_more_than_a_text_stays_whole(command, capitals):
    assert json.loads(command("--json", stdin=LONG_LINE)[1])["translation"] == LONG_LINE.upper()
    assert capitals.texts == [[LONG_LINE]]


def test_texts_are_answered_by_a_line_each(command):
    code, out, err = command("one\ntwo", "", "three")
    assert (code, out) == (0, "ONE TWO\n\nTHREE\n")
    assert "using the model" in err


def test_who_waits_for_an_answer_gets_it(command, capitals, monkeypatch):
    asking, questions = os.pipe()
    answers, answering = os.pipe()
    with (
        open(asking, encoding="utf-8") as stdin, open(answering, "w", encoding="utf-8") as stdout,
        open(questions, "wb", buffering=0) as ask, open(answers, encoding="utf-8") as listen,
    ):  # fmt: skip
        monkeypatch.setattr(sys, "stdout", stdout)
        worker = threading.Thread(target=command, args=["--quiet"], kwargs={"stdin": stdin})
        worker.start()
        for question in ("one", "two\nthree", "four"):
            ask.write(f"{question}\n".encode())
            for line in question.split("\n"):  # waits for ever if answers are held back
                assert listen.readline() == f"{line.upper()}\n"
        ask.close()
        worker.join()


def test_memory_does_not_grow_with_the_lines(capitals, monkeypatch):
    """A pipe of 30,000 lines of 200 characters, 6 MB, takes less than a block times 20."""
    read, write = os.pipe()

    def feed() -> None:
        with open(write, "wb") as pipe:
            for _ in range(30_000):
                pipe.write(b"x" * 199 + b"\n")

    class Forgetful(Capitals):
        def translate(self, texts, **keywords):
            return [Translation(text, 0.0) for text in texts]

    monkeypatch.setattr(Translator, "load", Forgetful().load)
    monkeypatch.setattr(sys, "argv", ["translate", "--quiet", "--model", "."])
    writer = threading.Thread(target=feed)
    with open(read, encoding="utf-8") as stdin, open(os.devnull, "w", encoding="utf-8") as nowhere:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", nowhere)
        tracemalloc.start()
        writer.start()
        translate.main()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        writer.join()
    assert peak < translate.BLOCK * 200 * 20


def test_faults_of_the_input_name_the_line(command):
    assert_refused(command(stdin=b"one\ntwo \xff\n"), 1, "standard input, line 2: not UTF-8")
    Path("a.txt").write_bytes("one\n".encode("utf-16"))
    assert_refused(command("--file", "a.txt"), 1, "a.txt, line 1: this looks like UTF-16")


# Tables and objects


def test_a_column_of_a_table_is_translated(command):
    Path("a.tsv").write_text("id\ten\n1\tone\n")
    command("--file", "a.tsv", "--column", "en", "--into", "fr", "--output", "b.tsv", "--scores")
    assert Path("b.tsv").read_text() == "id\ten\tfr\tscore\n1\tone\tONE\t-1.0000\n"


def test_a_text_of_objects_is_translated(command):
    Path("a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1, "en": "one"}\n'))
    out = command("--file", "a.jsonl.gz", "--column", "en", "--n-best", 2)[1]
    assert json.loads(out) == {
        "id": 1, "en": "one", "translation": "ONE", "alternatives": [{"translation": "one?"}],
    }  # fmt: skip


def test_n_best_json_and_scores(command):
    assert command("--n-best", 3, "--scores", "one")[1] == "-1.0000\tONE\n-2.0000\tone?\n\n"
    row = json.loads(command("--n-best", 3, "--json", "one")[1])
    assert (row["source"], row["translation"], row["score"]) == ("one", "ONE", -1.0)
    assert row["alternatives"] == [{"translation": "one?", "score": -2.0}]


# Output files


def test_an_output_that_exists_is_replaced_only_by_force(command):
    Path("b.txt").write_text("old")
    Path("a.txt").write_text("one")
    refused = command("--file", "a.txt", "--output", "b.txt")
    assert_refused(refused, 1, "b.txt exists already: name another --output, or add --force")
    assert Path("b.txt").read_text() == "old"
    assert command("--file", "a.txt", "--output", "b.txt", "--force")[0] == 0
    assert Path("b.txt").read_text() == "ONE\n"


def test_an_interrupted_file_is_gone_on_with(command, capitals, large):
    lines = [f"line {number}" for number in range(1200)]
    Path("a.txt").write_text("\n".join(lines))
    task = ["--file", "a.txt", "--output", "b.txt", "--quiet"]
    capitals.stop = {"line 1100": KeyboardInterrupt()}
    stopped = command(*task)
    assert_refused(stopped, 130, "b.txt.partial holds the translation of 1,024 lines", "--resume")
    assert Path("b.txt.partial").read_text().splitlines() == [s.upper() for s in lines[:1024]]
    assert_refused(command(*task), 1, "Continue it with --resume, or start again with --force")
    beam = command(*task, "--resume", "--beam", 4)
    assert_refused(beam, 1, "started with other settings (beam was None and is 4)")
    Path("model/config.json").write_text("{ }")
    assert_refused(command(*task, "--resume"), 1, "started with other settings (model was ")
    Path("model/config.json").write_text("{}")
    Path("a.txt").write_text("\n".join(["x", *lines[1:]]))
    assert_refused(command(*task, "--resume"), 1, "this input begins with other lines")
    Path("a.txt").write_text("\n".join(lines))
    capitals.stop, capitals.texts = {}, []
    assert command(*task, "--resume", "--batch-tokens", 99) == (0, "", "")
    assert capitals.texts == [lines[1024:]]
    assert Path("b.txt").read_text().splitlines() == [line.upper() for line in lines]
    assert not list(Path().glob("b.txt.*"))


def test_another_precision_is_another_output(command, capitals, monkeypatch):
    from seq2seq.inference.engines import torch as engine

    Path("a.txt").write_text("one\n" * translate.BLOCK + "two\n")
    task = ["--file", "a.txt", "--output", "b.txt", "--quiet"]
    capitals.stop = {"two": KeyboardInterrupt()}
    assert command(*task)[0] == 130
    capitals.stop = {}
    with monkeypatch.context() as on_a_gpu:
        on_a_gpu.setattr(engine.torch.cuda, "is_available", lambda: True)
        on_a_gpu.setattr(engine.torch.cuda, "device_count", lambda: 1)
        on_a_gpu.setattr(engine.torch.cuda, "is_bf16_supported", lambda **_: True)
        refused = command(*task, "--resume")
    assert_refused(refused, 1, "other settings (precision was float32 and is bfloat16)")
    assert command(*task, "--resume", "--precision", "float32")[0] == 0  # what auto was


def test_a_line_that_cannot_be_read_can_be_mended_and_gone_on_from(command, capitals, large):
    lines = [b"line"] * (translate.BLOCK + 88)
    Path("a.txt").write_bytes(b"\n".join([*lines, b"\xff"]))
    task = ["--file", "a.txt", "--output", "b.txt"]
    assert_refused(command(*task), 1, f"a.txt, line {translate.BLOCK + 89}: not UTF-8")
    Path("a.txt").write_bytes(b"\n".join([*lines, b"mended"]))
    capitals.texts = []
    assert command(*task, "--resume")[0] == 0
    assert capitals.texts == [["line"] * 88 + ["mended"]]


def test_an_output_that_replaces_a_file_can_be_gone_on_with_too(command, capitals):
    Path("b.txt").write_text("old")
    capitals.stop = {"two": KeyboardInterrupt()}
    Path("a.txt").write_text("one\n" * translate.BLOCK + "two\n")
    task = ["--file", "a.txt", "--output", "b.txt"]
    assert command(*task, "--force")[0] == 130
    assert Path("b.txt").read_text() == "old"
    capitals.stop = {}
    assert command(*task, "--resume")[0] == 0
    assert Path("b.txt").read_text() == "ONE\n" * translate.BLOCK + "TWO\n"


def test_an_interrupt_of_a_pipe_is_told(command, capitals):
    capitals.stop = {"two": KeyboardInterrupt()}
    assert_refused(command("two"), 130, "interrupted")


# The terminal


def test_progress_is_shown_at_a_terminal_only(command, monkeypatch, capitals):
    Path("a.txt").write_text("one\ntwo\n")
    assert "lines" not in command("--file", "a.txt", "--output", "b.txt")[2]
    for quiet in (True, False):
        monkeypatch.setattr(sys, "stderr", stderr := Terminal())
        command("--file", "a.txt", "--output", f"{quiet}.txt", *["--quiet"] * quiet)
        assert ("2/2" in stderr.getvalue()) is not quiet
        assert ("lines/s" in stderr.getvalue()) is not quiet


def test_a_named_pipe_is_not_read_to_count_its_lines(command, monkeypatch):
    os.mkfifo("pipe")
    feeder = threading.Thread(target=lambda: Path("pipe").write_text("one\ntwo\n"))
    feeder.start()
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert command("--file", "pipe", "--output", "b.txt")[0] == 0
    feeder.join()
    assert Path("b.txt").read_text() == "ONE\nTWO\n"


def test_lines_of_a_damaged_file_are_not_counted(command, monkeypatch):
    Path("a.gz").write_bytes(gzip.compress(b"one\n" * 9)[:-9])
    monkeypatch.setattr(sys, "stderr", stderr := Terminal())
    assert command("--file", "a.gz", "--output", "b.txt")[0] == 1
    assert "error: cannot read a.gz after line" in stderr.getvalue()


def test_who_types_is_answered_line_by_line(command, capitals):
    from seq2seq.errors import UserError

    capitals.stop = {"bad": UserError("this one cannot be done")}
    typed = Terminal("one\nbad\n\ntwo\n")
    code, out, err = command(stdin=typed)
    assert (code, out) == (0, "ONE\n\nTWO\n")
    assert "one sentence per line" in err
    assert "error: this one cannot be done" in err


# Options


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ("", {}),
        ("--beam 4 --n-best 2 --batch-tokens 99", {"beam": 4, "n_best": 2, "batch_tokens": 99}),
        ("--length-norm gnmt --length-penalty 0.6", {"length_norm": "gnmt", "length_penalty": 0.6}),
        ("--max-length 7", {"max_ratio": 0.0, "max_extra": 8}),
        ("--no-repeat-ngram 3", {"no_repeat_ngram": 3}),
        ("--repetition-penalty 1.2", {"repetition_penalty": 1.2}),
        ("--sample --temperature 0.5 --top-k 9 --top-p 0.9 --min-p 0.1 --seed 3 --n-best 9",
         {"strategy": "sample", "temperature": 0.5, "top_k": 9, "top_p": 0.9, "min_p": 0.1,
          "seed": 3, "n_best": 9}),
        ("--no-split --no-protect --no-rescue",
         {"split": False, "protect": False, "rescue": False}),
        ("--french-typography --prefix Le", {"typography": True, "prefix": "Le"}),
        ("--ban le --ban la", {"banned": ["le", "la"]}),
        ("--without casing --without markup --source-language leave",
         {"without": ["casing", "markup"], "source_language": "leave"}),
        ("--terms terms.tsv --alignments", {"terms": {"house": "demeure"}, "align": True}),
    ],
)  # fmt: skip
def test_options_become_keywords_of_the_translator(command, capitals, arguments, settings):
    Path("terms.tsv").write_text("house\tdemeure\n")
    assert command(*arguments.split(), "one")[0] == 0
    defaults = inspect.signature(Translator.translate).parameters
    given = {
        name: value
        for name, value in capitals.settings.items()
        if name not in defaults or value != defaults[name].default
    }
    assert given == settings


def test_the_attention_of_a_translation_is_drawn(command, capitals, monkeypatch):
    drawn = []
    monkeypatch.setattr("seq2seq.inference.attention_figure.draw_attention",
                        lambda *arguments: drawn.append(arguments))  # fmt: skip
    assert command("--attention", "a.png", "one")[:2] == (0, "ONE\n")
    assert drawn == [(capitals, [("one", "ONE")], Path("a.png"))]


def test_a_figure_that_exists_is_replaced_only_by_force(command, monkeypatch):
    drawn = []
    monkeypatch.setattr("seq2seq.inference.attention_figure.draw_attention",
                        lambda *arguments: drawn.append(arguments))  # fmt: skip
    Path("a.png").write_text("old")
    assert_refused(command("--attention", "a.png", "x"), 1, "a.png exists already", "--force")
    assert command("--attention", "a.png", "--force", "x")[0] == 0
    assert len(drawn) == 1


def test_kinds_of_figures_are_those_that_can_be_drawn():
    assert attention_figure.ENDINGS == translate_options.FIGURES


def test_options_of_the_model(command, capitals, tmp_path):
    Path("other").mkdir()
    assert command("--model", "model", "--model", "other", "--device", "cpu", "one")[0] == 0
    folders = [Path("model"), Path("other")]
    usual = {"engine": "torch", "precision": "auto", "cuda_graphs": False}
    assert capitals.loaded == [folders, "cpu", usual]
    command("--engine", "ctranslate2", "--precision", "int8", "one")
    ours = {"engine": "ctranslate2", "precision": "int8", "cuda_graphs": False}
    assert capitals.loaded == [[tmp_path / "model"], "auto", ours]
    command("--cuda-graphs", "one")
    assert capitals.loaded[2] == usual | {"cuda_graphs": True}


def test_a_document_is_translated_as_a_whole_and_nothing_is_overwritten(command, capitals):
    Path("a.md").write_bytes(b"# big house\r\n\r\n```\r\ncode\r\n```\r\n")
    made = "# BIG HOUSE\r\n\r\n```\r\ncode\r\n```\r\n"
    assert command("--file", "a.md", "--quiet")[:2] == (0, made)
    assert command("--file", "a.md", "--output", "b.md")[0] == 0
    assert Path("b.md").read_bytes() == made.encode()
    assert_refused(command("--file", "a.md", "--output", "b.md"), 1, "b.md exists already")
    assert command("--file", "a.md", "--output", "b.md", "--force", "--terms", "terms.tsv")[0] == 1
    Path("a.po").write_text('msgid "one"\nmsgstr "un"\n')
    assert command("--file", "a.po", "--output", "b.po")[0] == 0
    assert Path("b.po").read_text() == Path("a.po").read_text()
    assert command("--file", "a.po", "--output", "b.po", "--force", "--retranslate")[0] == 0
    assert 'msgstr "ONE"' in Path("b.po").read_text()
    assert not list(Path().glob("*.partial"))
    capitals.loaded = []
    Path("a.docx").write_bytes(b"no document")
    refused = command("--file", "a.docx", "--output", "b.docx")
    assert_refused(refused, 1, "a.docx: the document is damaged")
    assert not Path("b.docx").exists()
    assert not capitals.loaded


MISTAKES = [
    ("--attention no/a.png x", 1, "the folder of --attention no/a.png does not exist: make it"),
    ("--attention model.png x", 1, "--attention model.png is a folder: name a file in it"),
    (f"--file {'x' * 300}", 1, "File name too long (xxx"),
    (f"--output {'x' * 240} x", 1, "File name too long"),
    ("--terms nowhere.tsv x", 1, "cannot read the terms nowhere.tsv"),
    ("--model /nowhere x", 1, "no model folder /nowhere: give the folder of a run"),
    ("--file nowhere.txt", 1, "--file nowhere.txt is not a file: correct its name"),
    ("--file model", 1, "--file model is not a file: correct its name"),
    ("--output no/b.txt x", 1, "the folder of --output no/b.txt does not exist"),
    ("--output model x", 1, "--output model is a folder: name a file in it"),
    ("--output /dev/null x", 1, "--output /dev/null is not a regular file"),
    ("--file a.txt --output a.txt", 1, "--output a.txt is the input too"),
    ("--file a.txt --output model/../a.txt", 1, "is the input too"),
    ("--output stdin", 1, "--output stdin is the input too"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_mistakes_are_told_before_the_model_is_loaded(
    command, capitals, arguments, code, message
):
    Path("a.txt").write_text("one\n")
    Path("model.png").mkdir()
    assert_refused(command(*arguments.split()), code, message)
    assert capitals.loaded == []
    names = sorted(path.name for path in Path().iterdir())
    assert names == ["a.txt", "model", "model.png", "stdin"]


def test_ctranslate2_takes_what_changes_nothing(command):
    neutral = ["--repetition-penalty", "1", "--engine", "ctranslate2", "--precision", "int16"]
    assert command(*neutral, "one")[0] == 0


def test_streams_that_are_closed(command, monkeypatch):
    assert_refused(command(stdin=None), 1, "standard input is closed: give texts, --file FILE")
    monkeypatch.setattr(sys, "stderr", None)
    assert command("one") == (0, "ONE\n", "")  # messages do not turn up among translations


def test_output_at_a_terminal_without_input_is_refused(command):
    assert_refused(command("--output", "b.txt", stdin=Terminal()), 1, "nothing to translate for")


@pytest.fixture
def pretrained(tmp_path, monkeypatch) -> Path:
    """Where shipped models stand; no model is named by the environment."""
    monkeypatch.setattr(shipped, "PRETRAINED", tmp_path / "pretrained")
    return tmp_path / "pretrained"


def test_without_any_model_it_says_how_to_get_one(command, pretrained, monkeypatch):
    monkeypatch.delenv("SEQ2SEQ_MODEL")
    code, out, err = command("hello world")
    assert (code, out) == (1, "")
    assert "make demo" in err
    assert "SEQ2SEQ_MODEL" in err
    assert "Traceback" not in err


def test_the_shipped_model_is_taken_where_there_are_no_runs(
    command, capitals, pretrained, monkeypatch
):
    monkeypatch.delenv("SEQ2SEQ_MODEL")
    (pretrained / "general").mkdir(parents=True)
    (pretrained / "general" / "config.json").write_text("{}")
    code, out, err = command("hello world")
    said = f"translate: using the model {pretrained / 'general'} (general, shipped with seq2seq)\n"
    assert (code, out, err) == (0, "HELLO WORLD\n", said)
    assert capitals.loaded[0] == [pretrained / "general"]
    assert "the one chosen by --use, else general" in command("--help")[1]
    assert command("--quiet", "hello world") == (0, "HELLO WORLD\n", "")
    assert command("--model", "general", "hello world")[2].endswith("general (named)\n")
    assert capitals.loaded[0] == [pretrained / "general"]


def test_a_chosen_model_answers_from_then_on(command, capitals, tmp_path, monkeypatch):
    monkeypatch.delenv("SEQ2SEQ_MODEL")
    tiny_bundle().save(tmp_path / "mine" / "bundle")
    code, out, err = command("--use", "mine", stdin=None)
    assert (code, out) == (0, "")
    assert "mine answers from now on" in err
    assert "to undo that: translate --use general" in err
    assert command("x")[2].endswith(f"using the model {tmp_path / 'mine'} (chosen with --use)\n")
    assert command("--use", "general", "x")[1] == "X\n"
    assert capitals.loaded[0][0].name == "general"
    assert_refused(command("--use", "nowhere", "x"), 1, "no model folder nowhere")
    assert_refused(command("--use", "mine", "--model", "mine", "x"), 2, "do not go together")


def test_what_runs_the_model_is_told_if_asked(command, capitals, tmp_path, monkeypatch):
    tiny_bundle().save(tmp_path / "mine")
    monkeypatch.setenv("SEQ2SEQ_MODEL", "mine")
    said = command("--verbose", "--json", "x")[2]
    assert said.endswith(" on torch (ctranslate2 has no --json)\n")
    assert capitals.loaded[2]["engine"] == "torch"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command("--verbose", "x")[2].endswith(" on torch (ctranslate2 is not installed)\n")
    assert " on " not in command("x")[2]
