"""What commands answer to wrong command lines: all that is wrong, and what to give instead."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from importlib import import_module

import pytest

from seq2seq.cli.completion import SETTINGS, completion
from seq2seq.cli.main import COMMANDS, module_of

# Command lines after $, each with its answer, which ends in code 2; long answers go on below.
ANSWERS = """
$ seq2seq trian
    trian is not a command of seq2seq: did you mean 'train'?
$ seq2seq --verison
    --verison is not a command of seq2seq: did you mean '--version'?
$ seq2seq --print-completion fish
    --print-completion fish: name a shell, bash or zsh
$ translate --beem 2 x
    the option --beem is not known: did you mean '--beam' or '--seed' or '--terms'?
$ translate --devise cpu x
    the option --devise is not known: did you mean '--device' or '--resume' or '--engine'?
$ translate --beam x
    --beam: invalid int value: 'x'
$ translate --beam=
    --beam: invalid int value: ''
$ translate --quiet=yes x
    --quiet: ignored explicit argument 'yes'
$ translate --beam
    --beam: expected one argument
$ translate --beam 0 x
    --beam 0 is too small: it must be at least 1
$ translate --beam 2.5 x
    --beam: invalid int value: '2.5'
$ translate --n-best 5 --beam 2 x
    --n-best 5 needs as many hypotheses (--beam 2)
$ translate --top-p 2 --sample x
    --top-p 2.0 is too large: it must be at most 1
$ translate --temperature 0 --sample x
    --temperature 0.0 is too small: it must be above 0; for 0 use --beam 1
$ translate --length-penalty nan x
    --length-penalty nan is too small: it must be at least 0
$ translate --length-penalty inf x
    --length-penalty inf sets no limit: give a finite number
$ translate --length-norm mean x
    --length-norm mean is not known: choose one of: average, gnmt, none
$ translate --length-norm none --length-penalty 1 x
    --length-penalty does nothing with --length-norm none: leave one of them out
$ translate --max-length 0 x
    --max-length 0 is too small: it must be at least 1
$ translate --sample --beam 4 x
    --beam and --sample do not go together: leave one of them out
$ translate --seed 3 x
    --seed does nothing without --sample: add it
$ translate --resume x
    --resume does nothing without --output: add it
$ translate --force x
    --force does nothing without --output or --attention: add it
$ translate --resume --force --output b x
    --resume and --force do not go together: leave one of them out
$ translate --resume --attention a.png --output b x
    --resume and --attention do not go together: leave one of them out
$ translate --file a.txt x
    TEXT and --file do not go together: leave one of them out
$ translate --column en x
    --column and --into name columns, which --file X.tsv and X.jsonl have
$ translate --file a.txt --into fr
    --column and --into name columns, which --file X.tsv and X.jsonl have
$ translate --file a.tsv.gz
    --file a.tsv.gz has columns: say which one to translate, --column NAME
$ translate --file a.tsv --column en --output b.txt
    --output b.txt keeps the form of --file a.tsv: give both the same ending
$ translate --file a.tsv --column 1 --into fr
    --column and --into are both names, or both numbers of a table without names
$ translate --file a.tsv --column en --n-best 2
    --n-best gives several translations, and a row of a .tsv has place for one
$ translate --file a.jsonl --column en --json
    --json is for lines of text; a.jsonl keeps its form: leave --json out
$ translate --file a.docx
    a.docx becomes a document, which no terminal can show: add --output FILE.docx
$ translate --file a.md --output b.html
    --output b.html keeps the form of --file a.md: give both the same ending
$ translate --file a.txt --output b.docx
    --output b.docx keeps the form of --file a.txt: give both the same ending
$ translate --file a.srt --resume --output b.srt
    --resume does not go with a.srt, which becomes a document: leave it out
$ translate --file a.srt --no-protect
    --no-protect does not go with a.srt, which becomes a document: leave it out
$ translate --file a.html --json
    --json is for lines of text; a.html keeps its form: leave --json out
$ translate --file a.pdf
    a.pdf is no text, and no document that is read: save it as .txt, .html, .htm, .md, .srt, .vtt,
    .docx, .po, .xliff, .xlf
$ translate --file a.html --retranslate
    --retranslate is for .po and .xliff, which hold translations: leave it out
$ translate --attention a.png
    --attention draws one translation: give one text
$ translate --attention a.png x y
    --attention draws one translation: give one text
$ translate --attention a.jpg x
    --attention a.jpg does not end in .pdf, .png, .svg: rename it
$ translate --attention a.png --engine ctranslate2 x
    --engine ctranslate2 has no --attention: leave it out, or use torch
$ translate --engine marian x
    --engine marian is not known: choose one of: auto, ctranslate2, torch
$ translate --engine ctranslate2 --cuda-graphs x
    --engine ctranslate2 has no --cuda-graphs: leave it out, or use torch
$ translate --sample --min-p 0.1 --engine ctranslate2 x
    --engine ctranslate2 has no --min-p: leave it out, or use torch
$ translate --repetition-penalty 2 --engine ctranslate2 x
    --engine ctranslate2 has no --repetition-penalty: leave it out, or use torch
$ translate --sample --seed 3 --engine ctranslate2 x
    --engine ctranslate2 has no --seed: leave it out, or use torch
$ translate --precision float23 x
    --precision float23 is not known: did you mean 'float32' or 'float16' or 'bfloat16'?
$ translate --precision int16 x
    --precision int16 is not known: add --engine ctranslate2, which has it
$ translate --resume --seed 1 x
    2 settings cannot work:
      - --resume does nothing without --output: add it
      - --seed does nothing without --sample: add it
$ score a.csv
    score cannot read a.csv. Give two text files, or one table (.tsv, .jsonl, .parquet) with
    a source and a target column
$ score --columns en
    --columns: expected 2 arguments
$ score --column en fr
    the option --column is not known: did you mean '--columns'?
$ score a.txt b.txt c.txt
    score cannot read a.txt and b.txt and c.txt. Give two text files, or one table (.tsv,
    .jsonl, .parquet) with a source and a target column
$ score --precision float23
    --precision float23 is not known: did you mean 'float32' or 'float16' or 'bfloat16'?
$ compare
    nothing to compare: name runs or evaluations, seq2seq compare runs/a runs/b
$ compare runs/a --sentences -1
    --sentences -1 is too small: it must be at least 0
$ compare runs/a --scores bleu
    --scores bleu is not known: choose one of: BLEU, BLEU-punct, BLEU-tok, TER, chrF2,
    chrF2++
$ export
    name the format and a run or bundle: seq2seq export ctranslate2 runs/demo
$ export onnx runs/a
    FORMAT onnx is not known: choose one of: ctranslate2, huggingface
$ export ctranslate2
    name the format and a run or bundle: seq2seq export ctranslate2 runs/demo
$ export ctranslate2 runs/a --quantization int4
    --quantization int4 is not known: did you mean 'int8'?
$ export ctranslate2 runs/a runs/b
    runs/b is one argument too many: leave it out, or quote a text with spaces
$ report
    nothing to report on: name the folder of a run, seq2seq report runs/demo
$ report runs/a runs/b
    report shows one run. To compare several: seq2seq compare runs/a runs/b --output
    both.html
$ report runs/a --output
    --output: expected one argument
$ export runs/demo
    2 settings cannot work:
      - FORMAT runs/demo is not known: choose one of: ctranslate2, huggingface
      - name the format and a run or bundle: seq2seq export ctranslate2 runs/demo
$ compare a b --score BLEU
    2 settings cannot work:
      - the option --score is not known: did you mean '--scores'?
      - BLEU is one argument too many: leave it out, or quote a text with spaces
$ compare a b --scores
    --scores: expected at least one argument
$ dashboard --dry-run=yes
    --dry-run: ignored explicit argument 'yes'
$ seq2seq help
    help is not a command of seq2seq: did you mean '--help'?
$ seq2seq --print-completion
    --print-completion : name a shell, bash or zsh
$ report --ouput a.html runs/a
    the option --ouput is not known: did you mean '--output'?
$ dashboard --project= --dry-run
    --project is empty: give the name of a W&B project, as in logger.project
$ dashboard --dryrun
    the option --dryrun is not known: did you mean '--dry-run'?
$ dashboard seq2seq
    seq2seq is one argument too many: leave it out, or quote a text with spaces
"""


def table() -> list[tuple[str, str]]:
    """Command lines and answers, whose lines are joined."""
    cases = [case.partition("\n") for case in ANSWERS.split("\n$ ")[1:]]
    return [(line, " ".join(answer.split())) for line, _, answer in cases]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """A command in an empty folder with an empty pipe: exit code, standard output and error."""

    def command(line: str) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        name, *arguments = line.split()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        module = import_module("seq2seq.cli." + ("main" if name == "seq2seq" else name))
        with pytest.raises(SystemExit) as stopped:
            module.main()
        return (int(stopped.value.code or 0), *capsys.readouterr())

    return command


@pytest.mark.parametrize(("line", "answer"), table(), ids=[line for line, _ in table()])
def test_a_wrong_command_line_is_answered(run, line, answer):
    code, out, err = run(line)
    assert (code, out, " ".join(err.split())) == (2, "", f"error: {answer}")


def test_neither_help_nor_a_wrong_command_line_waits_for_torch(tmp_path):
    wrong = [line for line, _ in table()]
    lines = [line.split() for line in ("translate --help", "translate --model /nowhere x", *wrong)]
    code = (
        "import sys; from importlib import import_module\n"
        f"for name, *arguments in {lines!r}:\n"
        "    sys.argv = [name, *arguments]\n"
        "    try: import_module('seq2seq.cli.' + name.replace('seq2seq', 'main')).main()\n"
        "    except SystemExit: pass\n"
        "    slow = {'torch', 'lightning_fabric', 'hydra', 'datasets', 'tqdm', 'shtab', 'wandb'}\n"
        "    if name == 'translate': slow.add('pyarrow')\n"
        "    assert not slow & set(sys.modules), (name, slow & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, cwd=tmp_path, check=False)  # fmt: skip
    assert found.returncode == 0, found.stderr[-500:]
    assert not any(tmp_path.iterdir())


# The command of commands


def test_each_command_is_a_module_that_runs_alone(monkeypatch, capsys):
    from seq2seq.cli import main

    for name in main.COMMANDS.keys() - SETTINGS:
        monkeypatch.setattr(sys, "argv", ["seq2seq", name, "--help"])
        with pytest.raises(SystemExit) as stopped:
            main.main()
        assert not stopped.value.code
        file = main.module_of(name).rpartition(".")[2]
        assert sys.argv[0].endswith(f"cli/{file}.py")  # what Lightning starts again
        said = capsys.readouterr().out
        for part in ("usage: ", "examples:\n", "exit codes: 0 done", "read on: docs/"):
            assert part in said
        assert said.partition("examples:")[2].partition("\n\n")[0].count("\n") >= 3


def test_without_a_command_there_is_help(run, monkeypatch, capsys):
    from seq2seq.cli import main

    code, out, err = run("seq2seq")
    assert (code, out) == (2, "")
    monkeypatch.setattr(sys, "argv", ["seq2seq", "--help"])
    main.main()
    said = capsys.readouterr().out
    assert said in err
    assert all(f"\n  {name} " in said for name in main.COMMANDS)


def test_a_text_may_begin_like_an_option_and_options_come_anywhere(monkeypatch):
    from seq2seq.cli.translate_options import COMMAND

    line = "translate one --beam 2 two -- --three --beam"
    monkeypatch.setattr(sys, "argv", line.split())
    read = COMMAND.read()
    assert (read.texts, read.search.beam) == (["one", "two", "--three", "--beam"], 2)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["seq2seq", "e"], "evaluate export"),
        (["seq2seq", "score", "--engine", ""], "auto torch ctranslate2"),
        (["translate", "--le"], "--length-norm --length-penalty"),
        (["seq2seq", "train", "model=big"], "model=big model=big_enfr"),
        (["seq2seq", "train", "model=tiny", "optim.l"], "optim.lr= optim.label_smoothing="),
        (["seq2seq", "train", "-m", "trainer.compile="], "trainer.compile=true "
         "trainer.compile=false"),
        (["seq2seq", "evaluate", "split="], "split=train split=val split=test"),
    ],
)  # fmt: skip
def test_bash_completes_commands_options_presets_and_settings(words, offered):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    call = f"""
COMP_WORDS=({" ".join(word or "''" for word in words)}); COMP_CWORD={len(words) - 1}
$(complete -p {words[0]} | sed 's/.* -F //') "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
echo "${{COMPREPLY[*]}}"
"""
    found = subprocess.run(["bash"], input=completion("bash", COMMANDS, module_of) + call,
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout == f"{offered}\n"


def test_zsh_is_offered_the_same_words():
    script = completion("zsh", COMMANDS, module_of)
    for word in ("export", "--length-norm", "model=big_enfr", "optim.lr=", "split=test"):
        assert word in script
