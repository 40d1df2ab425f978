"""Commands that are given name=value: wrong command lines and what each is answered; help."""

from __future__ import annotations

import importlib
import os
import re
import sys
from types import SimpleNamespace

import pytest
from conftest import ROOT
from hydra.core.global_hydra import GlobalHydra

from seq2seq.cli.explain import take_flags
from seq2seq.cli.names import WORDS, presets_of, resources, settings_of, synonyms, unknown
from seq2seq.cli.settings import as_hydra_reads
from seq2seq.config import EvaluateConfig, TrainConfig
from seq2seq.config.checked import groups_of
from seq2seq.errors import command_line

SIZES = ", ".join(presets_of("train")["model"])
WORK = {  # modules that do what a command is for; they load torch
    "train": "seq2seq.training.train",
    "evaluate": "seq2seq.evaluation.evaluate",
    "average": "seq2seq.bundle.averaging",
}
FILES = {
    "run/config.yaml": "seed: 3\n",
    "odd/config.yaml": "model:\n  architecture: rnn_atention\n",
    "float/config.yaml": "model:\n  d_model: 32.0\n",
    "mine/experiment/text.yaml": '# @package _global_\nmodel:\n  d_model: "x"\n',
    "mine/experiment/float.yaml": "# @package _global_\nmodel:\n  d_model: 32.0\n",
    "mine/experiment/name.yaml": "# @package _global_\noptim:\n  learning_rate: 1\n",
    "mine/experiment/top.yaml": "# @package _global_\nepochs: 3\n",
}


def no_setting(name: str, *meant: str) -> str:
    hint = f"did you mean {' or '.join(map(repr, meant))}?" if meant else "--help lists them"
    return f"there is no setting {name!r}: {hint}"


HOW = (
    "settings are given as name=value, without spaces, for example model=base; put quotes around "
    "a value with special characters: 'name=\"value\"'"
)
DASHES = "settings are given as name=value, without dashes; "
WRONG = {  # command line: what it is answered, with exit code 2
    # Presets
    "train model=bsae": "model=bsae is not known: did you mean 'base'?",
    "train model=null": f"model=null is not known: choose one of: {SIZES}",
    "train model=[tiny,small]": f"model=[tiny,small] is not known: choose one of: {SIZES}",
    "train model=tiny model=small": "model=tiny and model=small: give one of them",
    "train model=tiny,small": "model=tiny,small gives several values: choose one, or train with "
    "each, -m",
    "train modle=tiny": no_setting("modle", "model"),
    "train experimen=demo": no_setting("experimen", "experiment"),
    "train hydra/launcher=nope": "hydra/launcher=nope is not known: choose one of: basic, "
    "submitit_local, submitit_slurm",
    "train data=./mine": "data=./mine is a path, not a preset: for text of yours, data=files "
    "data.path=./mine",
    "train model=tiny/": "model=tiny/ is not known: did you mean 'tiny'?",
    "train model=../model/tiny": f"model=../model/tiny is not known: choose one of: {SIZES}",
    "train model=_transformer": f"model=_transformer is not known: choose one of: {SIZES}",
    "train experiment=null debug=null seed=x": "seed=x: give a whole number",
    "train ~model": "~model: there is always one model; choose another",
    "train debug=true": "debug=true is not known: choose one of: fast, overfit, profile",
    "prepare data=multi3k": "data=multi3k is not known: did you mean 'multi30k'?",
    "prepare model=tiny": no_setting("model"),
    "evaluate optim=adamw bundle=a": no_setting("optim"),
    # Names
    "train model.d_modle=3": no_setting("model.d_modle", "model.d_model"),
    "train lr=3": no_setting("lr", "optim.lr"),
    "train optim.learning_rate=3e-4": no_setting("optim.learning_rate", "optim.lr"),
    "train model.width=256": no_setting("model.width", "model.d_model"),
    "train bs=32": no_setting("bs", "data.max_tokens", "data.max_sentences"),
    "train epochs=3": no_setting("epochs", "trainer.max_steps=20epochs"),
    "train label_smoothing=0.1": no_setting("label_smoothing", "optim.label_smoothing"),
    "train model.width=3 gpus=2": "2 settings cannot work:\n  - "
    + no_setting("model.width", "model.d_model")
    + "\n  - "
    + no_setting("gpus", "trainer.devices"),
    "train foo=1": no_setting("foo"),
    "train +foo=1": no_setting("foo"),
    "train optim.final_lr=0.1": "optim.final_lr is now optim.final_lr_ratio",
    "train model=rnn_attention model.n_heads=2": "model.n_heads is no setting of this kind of "
    "model: leave it out, or choose another model=",
    "train data.weights.a=2": "data.weights takes names of your choice; add one with a plus: "
    "+data.weights.NAME=NUMBER",
    "evaluate beam=4 bundle=a": no_setting("beam", "decode.beam"),
    "average run=a output=b averge=3": no_setting("averge", "average"),
    # Values
    "train trainer.max_steps=abc": "trainer.max_steps=abc is no length: give a number of steps, "
    "such as 4000, or 2epochs, or 50Mtokens",
    "train model.d_model=x": "model.d_model=x: give a whole number",
    "train model.d_model=null": "model.d_model=null: give a whole number",
    "train optim.lr=x": "optim.lr=x: give a number, or null",
    "train trainer.compile=maybe": "trainer.compile=maybe: give true or false",
    "train tokenizer.symbols=a": "tokenizer.symbols=a: give a list, such as [a,b]",
    "train +data.weights.a=x": "data.weights.a=x: give a number",
    "train trainer.max_steps=10k": "trainer.max_steps=10k is no length: give a number of steps, "
    "such as 4000, or 2epochs, or 50Mtokens",
    "evaluate -m bundle=general,run": "-m trains several runs: give this command once for each",
    "evaluate split=test,val": "split=test,val gives several values: choose one; a list stands in "
    "brackets, split=[A,B]",
    "train seed=1,2": "seed=1,2 gives several values: choose one, or train with each, -m; a list "
    "stands in brackets, seed=[A,B]",
    "train trainer.devices=${nowhere}": "trainer.devices: Interpolation key 'nowhere' not found",
    "train model.architecture=rnn_attention": "model.architecture=rnn_attention belongs to the "
    "preset (transformer here): choose another one with model=NAME, such as model=base or "
    "model=rnn_attention",
    # How settings are written
    "train ~seed": "~seed: a setting cannot be taken away, only given another value",
    "train foo": f"cannot read 'foo': {HOW}",
    "train model tiny": f"2 settings cannot work:\n  - cannot read 'model': {HOW}\n  - cannot read "
    f"'tiny': {HOW}",
    "train =tiny": f"cannot read '=tiny': {HOW}",
    "train .=3": f"cannot read '.=3': {HOW}",
    "train model:tiny": f"cannot read 'model:tiny': {HOW}",
    "train --cfg": "--cfg : give job or hydra or all",
    "train --cfg jobs": "--cfg jobs: give job or hydra or all",
    "train --config-dir nowhere": "--config-dir nowhere: no such folder; name one of presets, as "
    "configs/ is",
    "train --config-name mine": f"--config-name: {DASHES}{no_setting('config_name')}",
    "train model=tiny -x": f"-x: {DASHES}{no_setting('x')}",
    "train --package x": f"--package: {DASHES}{no_setting('package')}",
    "train --lr 3": f"--lr: {DASHES}{no_setting('lr', 'optim.lr')}",
    "train --seed=3": "--seed is given without dashes: seed=3",
    "train --help optm": "--help optm: there is no such group: did you mean 'optim'?",
    # Files
    "train --config-dir mine experiment=text": "experiment/text.yaml: model.d_model=x: give a "
    "whole number",
    "train --config-dir mine experiment=float": "experiment/float.yaml: model.d_model=32.0: give "
    "a whole number",
    "train --config-dir mine experiment=name": "experiment/name.yaml: "
    + no_setting("optim.learning_rate", "optim.lr"),
    "train --config-dir mine experiment=top": "experiment/top.yaml: "
    + no_setting("epochs", "trainer.max_steps=20epochs"),
    # What does nothing for translations that are there, be it as by default
    **{
        f"evaluate hypothesis=h reference=r {idle}": f"{idle} does nothing without bundle=FOLDER: "
        "leave it out"
        for idle in ("data=starter", "split=test", "decode.beam=5", "training_text=all")
    },
    "evaluate hypothesis=h reference=r device=cpu training_text=t": "2 settings cannot work:\n"
    "  - device=cpu does nothing without bundle=FOLDER: leave it out\n"
    "  - training_text=t does nothing without source=FILE: leave it out",
    # What evaluate was once given
    "evaluate model=runs/x": "model=runs/x: model= is an architecture; a trained model is "
    "bundle=runs/x",
}
RESUMED = "resume=run continues that run as it was, "
WRONG_HERE = {  # where the files are: with exit code 1
    "prepare data=files": "data=files does not say where its train text is: name the folder of "
    "the corpus, data.path=FOLDER, or the file, data.train=FILE",
    "train dry_run=true run_dir=/dev/null/x": "cannot write to the run's folder /dev/null/x: "
    "Not a directory. Choose another: run_dir=FOLDER",
    "train resume=nowhere": "resume=nowhere: no run is there (nowhere/config.yaml is missing). "
    "Give the folder of a run, such as runs/starter-base-20260101-120000",
    "train resume=run data.train=x": f"{RESUMED}so data.train cannot change (only trainer.*, "
    "checkpoint.*, logger.*, data.path, data.members.*.path, data.cache, data.processes, "
    "data.num_workers, data.store, data.verify, decode.batch_tokens, optim.decay_steps, "
    "data.final_steps can, and of these not trainer.train_pairs, trainer.val_pairs, "
    "trainer.val_on_train). Leave it out, or start a new run without resume=",
    "train resume=run dry_run=true": "resume=run goes on with a run, and dry_run= says what a new "
    "one would take: give one of them",
    "train resume=run debug=overfit": "resume=run goes on with a run, and debug= chooses a short "
    "run of its own (trainer.profile=true profiles any): give one of them",
    "train resume=run trainer=cpu": f"{RESUMED}and trainer= chooses many settings at once: give "
    "only those that shall change, each as trainer.NAME=VALUE",
    "train resume=odd": "resume=odd: odd/config.yaml cannot be read: "
    "model.architecture=rnn_atention is not known: did you mean 'rnn_attention'?",
    "train resume=float": "resume=float: float/config.yaml cannot be read: model.d_model=32.0: "
    "give a whole number",
}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command line in this process; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def answer(line: str) -> tuple[int, str, str]:
        command, *arguments = line.split()
        if command in WORK:

            def unexpected(_: object) -> None:
                pytest.fail(f"{line} was not refused")

            stand_in = SimpleNamespace(**{command: unexpected})
            monkeypatch.setitem(sys.modules, WORK[command], stand_in)
        monkeypatch.setattr(sys, "argv", [f"{ROOT}/scripts/{command}.py", *arguments])
        GlobalHydra.instance().clear()
        code = 0
        try:
            importlib.import_module(f"seq2seq.cli.{command}").main()
        except SystemExit as stopped:
            code = int(str(stopped.code))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return answer


@pytest.mark.parametrize("line", [*WRONG, *WRONG_HERE])
def test_a_wrong_command_line_is_answered(line, run, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(line)
    assert err == f"error: {WRONG.get(line) or WRONG_HERE[line]}\n"
    assert (code, out) == (2 if line in WRONG else 1, "")
    assert sorted(tmp_path.rglob("*")) == before


def test_the_real_script_ends_with_one_plain_message(script, tmp_path):
    result = script("train", "model=bsae", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: model=bsae is not known: did you mean 'base'?\n"
    assert not any(tmp_path.iterdir())


# Help


@pytest.mark.parametrize(
    ("command", "name", "schema"),
    [("train", "train", TrainConfig), ("evaluate", "evaluate", EvaluateConfig)],
)
def test_help_says_what_a_newcomer_needs(command, name, schema, run):
    code, text, err = run(f"{command} --help")
    assert (code, err) == (0, "")
    assert text.count(f"  python {ROOT}/scripts/{command}.py ") == 3  # examples
    own = [key for key in settings_of(schema) if "." not in key and key not in groups_of(schema)]
    groups = presets_of(name)
    for part in [*(f"  {key}=" for key in own), *(f"{group}=" for group in groups),
                 "exit codes: 0 ", "docs/"]:  # fmt: skip
        assert part in text
    assert not re.search(r"[Hh]ydra|_transformer|_rnn", text.replace(str(ROOT), ""))
    assert max(map(len, text.splitlines())) < 140  # the examples name the script


def test_help_of_a_group_has_its_presets_and_settings(run):
    _, text, _ = run("train --help model model=tiny")
    for part in ("  base_gqa  ", "  model.d_model=128  ", "width of embeddings"):
        assert part in text
    assert run("train -m --help model model=tiny") == (0, text, "")
    _, text, _ = run("average --help")
    assert re.search(r"  average=5 +so many of its snapshots\n", text)


# Names


def test_synonyms_mean_settings():
    keys = {*settings_of(TrainConfig), *settings_of(EvaluateConfig)}
    for ours, words in WORDS.items():
        assert ours.partition("=")[0] in keys
        assert words == words.lower().replace("_", "")
    assert synonyms("optim.Learning-Rate") == ("optim.lr",)
    assert synonyms("trainer.nothing") == ()


@pytest.mark.parametrize(
    "key",
    ["learning_rate", "width", "bs", "batch_size", "epochs", "layers", "heads", "hidden", "gpus",
     "fp16", "wd", "warmup", "label_smoothing", "beam_size", "grad_accum", "output_dir"],
)  # fmt: skip
def test_words_of_the_field_are_understood(key):
    assert "did you mean" in unknown(key, TrainConfig)


# Paths and commands


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("run_dir=runs/a b", "run_dir=runs/a b"),
        ("run_dir=runs/été (1)", "run_dir='runs/été (1)'"),
        ("data.path=it's=1,2", "data.path='it\\'s=1,2'"),
        ("bundle='a,b'", "bundle='a,b'"),
        ("data.path=${oc.env:HOME}/x", "data.path=${oc.env:HOME}/x"),
        ("data.train=[a,b]", "data.train=[a,b]"),
        ("+seed=3", "seed=3"),
        ("+model=tiny", "model=tiny"),
        ("+data.where={a:[b]}", "+data.where={a:[b]}"),
        ("seed=1,2", "seed=1,2"),
    ],
)
def test_arguments_are_brought_into_the_grammar_of_hydra(given, read):
    schema = EvaluateConfig if given.startswith(("bundle", "check")) else TrainConfig
    assert as_hydra_reads(given, schema, presets_of("train")) == read


def test_flags_may_stand_anywhere():
    given = ["model=tiny", "--cfg", "job", "optim.lr=1", "--resolve"]
    assert take_flags(given, TrainConfig) == (given[1:3] + given[4:], [given[0], given[3]])


def test_a_path_with_odd_characters_is_read_as_it_is(run):
    _, _, err = run("train resume=nö,(1)={x}")
    assert err.startswith("error: resume=nö,(1)={x}: no run is there")


def test_a_command_can_be_pasted(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", [f"{ROOT}/scripts/train.py"])
    assert command_line("train", "resume=a b") == "python scripts/train.py 'resume=a b'"
    assert command_line("average") == "python scripts/average_checkpoints.py"
    for program in ("bin/seq2seq", f"{ROOT}/seq2seq/cli/train.py"):
        monkeypatch.setattr(sys, "argv", [program])
        assert command_line("train") == "seq2seq train"
    monkeypatch.setattr("seq2seq.errors.SCRIPTS", tmp_path)  # of an installed copy
    monkeypatch.setattr(sys, "argv", ["bin/translate"])
    assert command_line("train", "resume=x") == "seq2seq train resume=x"


def test_resources_are_those_of_the_clone():
    assert resources() == ROOT
