"""Commands that are given name=value: wrong command lines and what each is answered; help."""

from __future__ import annotations

import importlib
import os
import re
import sys
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT
from hydra.core.global_hydra import GlobalHydra

from seq2seq.cli.arguments import as_hydra_reads, read_arguments
from seq2seq.cli.names import WORDS, presets_of, resources, settings_of, unknown
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


def several(argument: str) -> str:
    """What Hydra says itself."""
    return (
        f"Ambiguous value for argument {argument!r} 1. To use it as a list, use key=[value1,"
        "value2] 2. To use it as string, quote the value: key='value1,value2' 3. To sweep over it, "
        "add --multirun to your command line"
    )


def not_of_type(key: str, value: str, kind: str) -> str:
    return f"{key}={value}: give {kind}"


WRONG = {  # command line: what it is answered, with exit code 2
    # Presets
    "train model=bsae": "model=bsae is not known: did you mean 'base'?",
    "train model=null": f"model=null is not known: choose one of: {SIZES}",
    "train model=[tiny,small]": f"model=[tiny,small] is not known: choose one of: {SIZES}",
    "train model=tiny model=small": "model=tiny and model=small: give one of them",
    "train model=tiny,small": several("model=tiny,small"),
    "train modle=tiny": no_setting("modle", "model"),
    "train experimen=demo": no_setting("experimen", "experiment"),
    "train hydra/launcher=nope": "hydra/launcher=nope is not known: choose one of: basic, "
    "submitit_local, submitit_slurm",
    "train data=./mine": "data=./mine is not a preset: for your own text, data=files "
    "data.path=./mine",
    "train model=tiny/": "model=tiny/ is not known: did you mean 'tiny'?",
    "train model=../model/tiny": f"model=../model/tiny is not known: choose one of: {SIZES}",
    "train model=_transformer": f"model=_transformer is not known: choose one of: {SIZES}",
    "train experiment=null debug=null seed=x": not_of_type("seed", "x", "a whole number"),
    "train ~model": "~model: a setting cannot be taken away, only given another value",
    "train debug=true": "debug=true is not known: choose one of: fast, overfit, profile",
    "prepare data=multi3k": "data=multi3k is not known: did you mean 'multi30k'?",
    "prepare model=tiny": no_setting("model"),
    "evaluate optim=adamw bundle=a": no_setting("optim"),
    # Names
    "train model.d_modle=3": no_setting("model.d_modle", "model.d_model"),
    "train lr=3": no_setting("lr", "optim.lr"),
    "train optim.learning_rate=3e-4": no_setting("optim.learning_rate", "optim.lr"),
    "train model.width=256": no_setting("model.width", "model.d_model"),
    "train bs=32": no_setting("bs", "data.max_tokens"),
    "train epochs=3": no_setting("epochs", "trainer.max_steps=20epochs"),
    "train label_smoothing=0.1": no_setting("label_smoothing", "optim.label_smoothing"),
    "train gpus=2 foo=1": "2 settings cannot work:\n  - "
    + no_setting("gpus", "trainer.devices")
    + "\n  - "
    + no_setting("foo"),
    "train foo=1": no_setting("foo"),
    "train +foo=1": no_setting("foo"),
    "train model=rnn_attention model.n_heads=2": "model.n_heads is not a setting of this kind of "
    "model: leave it out, choose another model=, or begin the preset with the lines 'defaults:' "
    "and '  - base'",
    "evaluate beam=4 bundle=a": no_setting("beam", "decode.beam"),
    "average run=a output=b averge=3": no_setting("averge", "average"),
    # Values
    "train trainer.max_steps=abc": "trainer.max_steps=abc is not a length: give a number of steps, "
    "such as 4000, or 2epochs, or 50Mtokens",
    "train model.d_model=x": not_of_type("model.d_model", "x", "a whole number"),
    "train model.d_model=null": "model.d_model: give a value, since null is none",
    "train optim.lr=x": not_of_type("optim.lr", "x", "a number"),
    "train model=rnn_attention trainer.compile=true": "trainer.compile=true compiles the layers of "
    "a transformer, and model=rnn_attention runs token by token: set trainer.compile=false",
    "train trainer.compile=maybe": not_of_type("trainer.compile", "maybe", "true or false"),
    "train tokenizer.symbols=a": "tokenizer.symbols: give a list, such as [one,two]",
    "train data.weights=3": "data.weights: give names and values, such as {one: 1, two: 2}",
    "train data.weights.a=x": not_of_type("data.weights.a", "x", "a number"),
    "train trainer.max_steps=10k": "trainer.max_steps=10k is not a length: give a number of steps, "
    "such as 4000, or 2epochs, or 50Mtokens",
    "evaluate -m bundle=general,run": "-m trains several runs: give this command once for each",
    "evaluate split=test,val": several("split=test,val"),
    "train seed=1,2": several("seed=1,2"),
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
    "train --cfg": "-c/--cfg: expected one argument",
    "train --config-dir nowhere": "--config-dir nowhere: no such folder; name one of presets",
    "train --config-name mine": f"--config-name: {DASHES}{no_setting('config_name')}",
    "train model=tiny -x": f"-x: {DASHES}{no_setting('x')}",
    "train --package x": f"--package: {DASHES}{no_setting('package')}",
    "train --lr 3": f"--lr: {DASHES}{no_setting('lr', 'optim.lr')}",
    "train --seed=3": "--seed=3: settings are given as name=value, without dashes; seed=VALUE",
    "train --help optm": "--help optm is not a group: did you mean 'optim'?",
    # Files
    "train --config-dir mine experiment=text": "experiment/text.yaml: "
    + not_of_type("model.d_model", "x", "a whole number"),
    "train --config-dir mine experiment=float": "experiment/float.yaml: "
    + not_of_type("model.d_model", "32.0", "a whole number"),
    "train --config-dir mine experiment=name": "experiment/name.yaml: "
    + no_setting("optim.learning_rate", "optim.lr"),
    "train --config-dir mine experiment=top": "experiment/top.yaml: "
    + no_setting("epochs", "trainer.max_steps=20epochs"),
    # What does nothing for given translations, be it as by default
    **{
        f"evaluate hypothesis=h reference=r {idle}": f"{idle} does nothing without bundle=FOLDER: "
        "leave it out"
        for idle in ("data=starter", "split=test", "decode.beam=5", "training_text=all")
    },
    "evaluate hypothesis=h reference=r device=cpu training_text=t": "3 settings cannot work:\n"
    "  - training_text=t is not known: give auto, all or none; seq2seq prepare compares a test "
    "set with other text (docs/how-to/evaluate.md)\n"
    "  - device=cpu does nothing without bundle=FOLDER: leave it out\n"
    "  - training_text=t does nothing without bundle=FOLDER: leave it out",
    "evaluate model=runs/x": no_setting("model", "bundle"),
}


def fixed(key: str) -> str:
    return (
        f"resume=run continues that run as it was, so {key}= cannot be given (only trainer.*, "
        "checkpoint.*, logger.*, data.path, data.members.*.path, data.cache, data.processes, "
        "data.num_workers, data.store, data.verify, cleaning.max_dropped, decode.batch_tokens, "
        "optim.decay_steps, "
        "data.final_steps can, each as NAME=VALUE, and of these not trainer.train_pairs, "
        "trainer.val_pairs, trainer.val_on_train). Leave it out, or start a new run without "
        "resume="
    )


WRONG_HERE = {  # where the files are: with exit code 1
    "prepare data=files": "data=files does not say where its train text is: name the folder of "
    "the corpus, data.path=FOLDER, or the file, data.train=FILE",
    "train dry_run=true run_dir=/dev/null/x": "cannot write to the run's folder /dev/null/x: "
    "Not a directory. Choose another: run_dir=FOLDER",
    "train resume=nowhere": "resume=nowhere: no run is there (nowhere/config.yaml is missing). "
    "Give the folder of a run, such as runs/starter-base-20260101-120000",
    "train resume=run data.train=x": fixed("data.train"),
    "train resume=run dry_run=true": fixed("dry_run"),
    "train resume=run debug=overfit": fixed("debug"),
    "train resume=run trainer=cpu": fixed("trainer"),
    "train resume=odd": "resume=odd: odd/config.yaml cannot be read: "
    "model.architecture=rnn_atention is not known: did you mean 'rnn_attention'?",
    "train resume=float": "resume=float: float/config.yaml cannot be read: "
    + not_of_type("model.d_model", "32.0", "a whole number"),
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
    assert text.count(f"  seq2seq {command} ") == 3  # examples
    own = [key for key in settings_of(schema) if "." not in key and key not in groups_of(schema)]
    groups = presets_of(name)
    for part in [*(f"  {key}=" for key in own), *(f"{group}=" for group in groups),
                 "exit codes: 0 ", "docs/"]:  # fmt: skip
        assert part in text
    assert not re.search(r"[Hh]ydra|_transformer|_rnn", text)
    assert max(map(len, text.splitlines())) <= 100


def test_help_of_a_group_has_its_presets_and_settings(run):
    _, text, _ = run("train --help model model=tiny")
    for part in ("  base_gqa  ", "  model.d_model=128  ", "width of embeddings"):
        assert part in text
    assert run("train -m --help model model=tiny") == (0, text, "")
    _, text, _ = run("average --help")
    assert re.search(r"  average=5 +number of the run's snapshots to average\n", text)


# Names


def test_synonyms_mean_settings():
    keys = {*settings_of(TrainConfig), *settings_of(EvaluateConfig)}
    for ours, words in WORDS.items():
        assert ours.partition("=")[0] in keys
        assert words == words.lower().replace("_", "")
    assert unknown("optim.Learning-Rate", TrainConfig).endswith("did you mean 'optim.lr'?")


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
        ("+data.where={a:[b]}", "++data.where={a:[b]}"),
        ("data.members.x.weights.a=1", "++data.members.x.weights.a=1"),
        ("seed=1,2", "seed=1,2"),
    ],
)
def test_arguments_are_brought_into_the_grammar_of_hydra(given, read):
    schema = EvaluateConfig if given.startswith(("bundle", "check")) else TrainConfig
    assert as_hydra_reads(given, schema, presets_of("train")) == read


def test_flags_may_stand_anywhere():
    given = ["model=tiny", "--cfg", "job", "optim.lr=1", "--resolve"]
    flags, arguments = read_arguments(given, TrainConfig, "train")
    assert (flags.cfg, flags.resolve, arguments) == ("job", True, [given[0], given[3]])


def test_cfg_prints_the_settings(run):
    code, text, err = run("train --cfg job model=tiny seed=7")
    assert (code, err) == (0, "")
    assert yaml.safe_load(text)["seed"] == 7


def test_a_path_with_odd_characters_is_read_as_it_is(run):
    _, _, err = run("train resume=nö,(1)={x}")
    assert err.startswith("error: resume=nö,(1)={x}: no run is there")


def test_a_command_can_be_pasted():
    assert command_line("train", "resume=a b") == "seq2seq train 'resume=a b'"


def test_resources_are_those_of_the_clone():
    assert resources() == ROOT
