"""A shipped model, here a stand-in, is named where any model is; nothing is written beside it."""

from __future__ import annotations

import os
import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import run_command
from hydra import compose, initialize_config_dir
from tiny_bundle import TEXTS, tiny_bundle, translator_of
from tiny_evaluation import write_lines

from seq2seq.bundle import find as shipped
from seq2seq.bundle.bundle import load_bundle
from seq2seq.bundle.ctranslate2_export import export
from seq2seq.cli import settings
from seq2seq.cli.average import average
from seq2seq.config import AverageConfig, DataConfig, EvaluateConfig, TrainConfig
from seq2seq.errors import BundleError
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.inference.translator import Translator
from seq2seq.training.fine_tuning import initial_bundle

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def general(tmp_path, monkeypatch) -> Path:
    """The folder of the shipped model; the current one is another, and empty."""
    monkeypatch.setattr(shipped, "PRETRAINED", tmp_path / "package")
    tiny_bundle().save(tmp_path / "package" / "general")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "package" / "general"


def test_a_program_gets_it_by_name_or_without_whatever_lies_near(general):
    expected = [one.text for one in translator_of(tiny_bundle()).translate(TEXTS)]
    other = tiny_bundle(seed=1)
    other.save(Path("runs/other/bundle"))
    Path("runs/other/summary.json").write_text("{}")
    assert [one.text for one in translator_of(other).translate(TEXTS)] != expected
    for arguments in ((), ("general",), (["general"],)):
        made = Translator.load(*arguments, device="cpu")
        assert [one.text for one in made.translate(TEXTS)] == expected
    other.save(Path("general"))  # a folder of this name is what a name means, and no name is none
    assert [one.text for one in Translator.load(device="cpu").translate(TEXTS)] == expected
    found = Translator.load("general", "cpu").translate(TEXTS)
    assert [one.text for one in found] != expected


def test_without_it_a_program_is_told_so(general):
    shutil.rmtree(general)
    with pytest.raises(BundleError, match=rf"a shipped model \(in {general.parent}: none\)$"):
        Translator.load()


def test_it_is_evaluated_and_its_scores_go_among_the_runs(general, tmp_path):
    before = sorted(general.iterdir())
    write_lines(tmp_path / "corpus" / "test.tsv", ["en\tfr", "a man reads\tun homme lit"])
    data = DataConfig(path=str(tmp_path / "corpus"), cache=str(tmp_path / "cache"))
    record = evaluate(EvaluateConfig(bundle="general", data=data, device="cpu"))
    assert record.model["folder"] == "general"
    assert len([*Path("runs/pretrained/general/evaluation").glob("files-test-*/*.json")]) == 1
    assert sorted(general.iterdir()) == before


def test_it_is_exported_into_the_current_folder(general):
    assert export("general") == Path.cwd() / "general-ctranslate2-float32"
    assert os.listdir(general.parent) == ["general"]
    assert export(general, quantization="int8") == Path.cwd() / "general-ctranslate2-int8"


def test_it_is_averaged_with_others(general):
    average(AverageConfig(inputs=["general", str(general)], output="same"))
    for name, value in load_bundle(Path("same")).model.state_dict().items():
        assert value.equal(load_bundle(general).model.state_dict()[name])


def test_training_starts_from_it(general):
    settings.register("train", TrainConfig)
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "configs")):
        given = ["init_from=general"]
        config = settings._to_settings(compose("train", given), given, TrainConfig)
    assert config.model == tiny_bundle().model.config
    weights = initial_bundle(config).model.state_dict()
    assert all(weights[n].equal(v) for n, v in tiny_bundle().model.state_dict().items())


BUILD = "from hatchling.build import build_wheel; print(build_wheel('wheels'))"


def test_a_wheel_holds_it(general, tmp_path):
    """By the settings of this project, of a tree that has little but it."""
    pytest.importorskip("hatchling")
    tree = tmp_path / "tree"
    shutil.copytree(general, tree / "seq2seq" / "pretrained" / "general")
    for name in ("pyproject.toml", "README.md", "LICENSE", "seq2seq/__init__.py"):
        shutil.copy(ROOT / name, tree / name)
    built = run_command(sys.executable, "-c", BUILD, cwd=tree)
    assert built.returncode == 0, built.stderr
    [wheel] = (tree / "wheels").iterdir()
    held = {name for name in ZipFile(wheel).namelist() if "/pretrained/" in name}
    files = ("config.json", "model.safetensors", "tokenizer.json", "README.md")
    assert held == {f"seq2seq/pretrained/general/{name}" for name in files}
    shutil.rmtree(tree / "seq2seq" / "pretrained")  # a clone without it can be installed as well
    assert run_command(sys.executable, "-c", BUILD, cwd=tree).returncode == 0


def test_an_image_of_docker_holds_it():
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "!seq2seq" in kept
    later = kept[kept.index("!seq2seq") :]
    assert not [line for line in later if fnmatch("seq2seq/pretrained/general/config.json", line)]
    assert "COPY seq2seq seq2seq" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
