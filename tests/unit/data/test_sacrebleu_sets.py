"""Test sets by their names in sacrebleu, from its folder or from the network."""

from __future__ import annotations

import io
import socket
import tarfile
import urllib.error
import urllib.request

import pytest
import sacrebleu

from seq2seq.config import DataConfig
from seq2seq.data.sources import load_pairs
from seq2seq.errors import ConfigError, DataError

NAME = "multi30k/2016"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where sacrebleu keeps this set."""
    dataset = sacrebleu.DATASETS[NAME]
    monkeypatch.setattr(dataset, "_outdir", str(tmp_path))
    monkeypatch.setattr(dataset, "_rawdir", str(tmp_path / "raw"))
    return tmp_path


def settings(**changes) -> DataConfig:
    return DataConfig(**{"sacrebleu": True, "train": None, "val": None, "test": NAME} | changes)


def unreachable(*_, **__):
    raise urllib.error.URLError("no route to host")


def test_a_set_that_was_fetched_before_needs_no_network(folder, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    (folder / "multi30k_2016.en-fr.src").write_text("A man.\nTwo dogs.\n")
    (folder / "multi30k_2016.en-fr.ref").write_text("Un homme.\nDeux chiens.\n")
    assert load_pairs(settings(), "test") == [
        ("A man.", "Un homme."), ("Two dogs.", "Deux chiens."),
    ]  # fmt: skip


def test_a_set_that_cannot_be_fetched_is_one_message(folder, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(DataError, match=r"cannot be fetched .*no route(.|\n)*-l en-fr --echo"):
        load_pairs(settings(), "test")


def test_a_silent_network_is_not_waited_for(folder, monkeypatch):
    waited = []

    def patient(*_, **__):
        waited.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", patient)
    with pytest.raises(DataError, match=r"cannot be fetched .*timed out"):
        load_pairs(settings(), "test")
    assert 0 < waited[0] < 60
    assert socket.getdefaulttimeout() is None


@pytest.mark.parametrize("content", [b"no archive", None])
def test_a_damaged_download_is_one_message(content, folder, monkeypatch):
    if content is None:  # an archive, but of something else
        made = io.BytesIO()
        tarfile.open(fileobj=made, mode="w:gz").close()
        content = made.getvalue()
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_: io.BytesIO(content))
    with pytest.raises(DataError, match="cannot be fetched"):
        load_pairs(settings(), "test")


def test_unknown_sets_and_languages_are_refused_with_near_ones():
    with pytest.raises(DataError, match=r"no test set wmt14/ful of en-fr, .*'wmt14/full'"):
        load_pairs(settings(test="wmt14/ful"), "test")
    with pytest.raises(DataError, match=r"2016 of en-zz, the languages of data\.source_column"):
        load_pairs(settings(target_column="zz"), "test")
    with pytest.raises(DataError, match=r"no test set \['wmt13', 'wmt15'\] of en-fr"):
        load_pairs(settings(test=["wmt13", "wmt15"]), "test")
    with pytest.raises(DataError, match="names no train text"):
        load_pairs(settings(), "train")
    with pytest.raises(ConfigError, match=r"data\.hub and data\.sacrebleu all say where"):
        settings(hub="a/b")
