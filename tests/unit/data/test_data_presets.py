"""Each preset of configs/data makes valid settings, whichever way its text is had."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from seq2seq.cli.settings import build, register
from seq2seq.config import CorpusConfig, DataConfig, TrainConfig
from seq2seq.data.corpus import find_files

ROOT = Path(__file__).resolve().parents[3]
PRESETS = sorted(path.stem for path in (ROOT / "configs/data").glob("*.yaml"))


@functools.cache
def data(*overrides: str) -> DataConfig:
    register("train", TrainConfig)
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        values = OmegaConf.to_container(compose("train", list(overrides)), resolve=True)
    assert isinstance(values, dict)
    return build(TrainConfig, {str(key): value for key, value in values.items()}).data


def corpora(config: DataConfig) -> list[CorpusConfig]:
    return list(config.members.values()) or [config]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_named_after_its_file_and_says_what_it_is(name):
    assert data(f"data={name}").name == name
    first = (ROOT / "configs/data" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_text_to_train_and_to_validate_on(name):
    config = data(f"data={name}")
    only = {"starter_phrases": ("train",), "short_texts": ("train",), "templates": ("train",),
            "sacrebleu": ("test",)}
    for split in only.get(name, ("train", "val")):
        assert any(getattr(corpus, split) for corpus in corpora(config))


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ("starter", "mixture")])
def test_a_folder_of_ones_own_wins_over_hub_and_addresses(name, tmp_path):
    config = data(f"data={name}", f"data.path={tmp_path}")
    assert config.path == str(tmp_path)


@pytest.mark.parametrize("name", PRESETS)
def test_the_files_at_the_addresses_are_those_of_the_splits(name, tmp_path):
    for corpus in corpora(data(f"data={name}")):
        for url in corpus.urls:
            assert urlsplit(url).scheme == "https"
            (tmp_path / urlsplit(url).path.rpartition("/")[2]).touch()
        if corpus.urls:
            columns = (corpus.source_column, corpus.target_column)
            for split in (corpus.train, corpus.val, corpus.test):
                assert len(find_files(split, str(tmp_path), columns)) == 2
            assert len(list(tmp_path.iterdir())) == len(corpus.urls) == 6


@pytest.mark.parametrize("name", ["opus100", "tatoeba", "wmt14"])
def test_sets_of_the_hub_are_of_one_commit(name):
    assert re.fullmatch("[0-9a-f]{40}", data(f"data={name}").hub_revision)


def test_members_of_a_mixture_are_other_presets():
    config = data("data=mixture", "data.members.own.path=here")
    assert list(config.members) == ["captions", "own"]
    assert config.members["captions"].urls == data("data=multi30k").urls
    assert config.members["own"].path == "here"


def test_a_mixture_takes_another_member_and_its_weight():
    config = data("data=mixture", "+data@data.members.talk=tatoeba", "+data.weights.talk=2")
    assert config.members["talk"].hub == data("data=tatoeba").hub
    assert config.weights == {"talk": 2.0}


def test_a_member_of_a_mixture_can_be_another_preset():
    assert data("data=mixture", "data@data.members.own=opus100").members["own"].name == "opus100"


def test_a_part_of_a_split_can_be_given():
    assert data("data=opus100", 'data.train="train[:10%]"').train == "train[:10%]"
