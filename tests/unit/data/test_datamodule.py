"""The datamodule: from small files to batches, with what was left out counted."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
import torch

from seq2seq.config import DataConfig, TokenizerConfig
from seq2seq.data.corpus import load_pairs
from seq2seq.data.datamodule import TranslationData
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
TRAIN = [
    (f"I see {n} {'big ' * i}houses", f"je vois {n} {'grandes ' * i}maisons")
    for i in range(4)
    for n in NUMBERS
]
VAL = [("I see houses", "je vois maisons"), ("three big houses", "trois grandes maisons")]

datasets.disable_progress_bars()


def make(folder: Path, train=TRAIN, val=VAL, *, workers=0, max_length=80, **tokenizer):
    for split, pairs in (("train", train), ("val", val)):
        lines = "".join(f"{en}\t{fr}\n" for en, fr in [("en", "fr"), *pairs])
        (folder / f"{split}.tsv").write_text(lines, encoding="utf-8")
    data = DataConfig(name="mine", path=str(folder), max_tokens=64, num_workers=workers)
    return TranslationData(data, TokenizerConfig(**{"vocab_size": 300, **tokenizer}), max_length, 1)


def prepared(folder: Path, *args, **settings) -> TranslationData:
    data = make(folder, *args, **settings)
    data.prepare()
    return data


def rows(batch) -> list[list[list[int]]]:
    return [tensor.tolist() for tensor in (batch.source, batch.target_in, batch.labels)]


def test_batches_hold_the_sentences_of_the_files(tmp_path):
    data = prepared(tmp_path)
    texts: list[tuple[str, str]] = []
    for batch in islice(data.train_dataloader(), 200):
        assert batch.source.numel() <= 64
        assert batch.labels.numel() <= 64
        decode = data.tokenizer.decode
        texts += zip(decode(batch.source.tolist()), decode(batch.labels.tolist()), strict=True)
        if len(texts) >= len(TRAIN):
            break
    assert sorted(texts) == sorted(TRAIN)


def test_empty_and_long_pairs_are_left_out_and_counted(tmp_path, caplog):
    odd = [
        ("", "vide"),
        ("empty", ""),
        ("", ""),
        ("long " * 100, "x"),
        ("x", "long " * 100),
        ("", "l " * 100),
    ]
    with caplog.at_level(logging.WARNING):
        data = prepared(tmp_path, TRAIN + odd)
    assert len(data.train_ids) == len(TRAIN)
    total = len(TRAIN) + len(odd)
    assert f"train: left out 4 empty pairs and 2 longer than 80 tokens, of {total}" in caplog.text


def test_nothing_is_logged_when_nothing_is_left_out(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        prepared(tmp_path)
    assert "left out" not in caplog.text


def test_a_pair_of_exactly_the_longest_length_stays(tmp_path):
    ids = prepared(tmp_path).train_ids
    longest = max(len(tokens) for side in ("source", "target") for tokens in ids[side])
    assert len(prepared(tmp_path, max_length=longest + 1).train_ids) == len(TRAIN)
    assert len(prepared(tmp_path, max_length=longest).train_ids) < len(TRAIN)


def test_bleu_sees_every_validation_pair_and_the_loss_those_that_fit(tmp_path, caplog):
    odd = [("house " * 100, "maison " * 100), ("", "rien")]
    data = prepared(tmp_path, val=[*VAL, *odd])
    assert data.val_pairs == [*VAL, *((en.strip(), fr.strip()) for en, fr in odd)]
    assert sum(len(batch.source) for batch in data.val_dataloader()) == len(VAL)
    assert "val: left out 1 empty pairs and 1 longer than 80 tokens, of 4" in caplog.text


@pytest.mark.parametrize("pairs", [{"train": []}, {"train": [("", "vide")]}, {"val": []}])
def test_no_usable_pair_is_an_error(pairs, tmp_path):
    [split] = pairs
    with pytest.raises(DataError, match=rf"data=mine has no usable {split} pair among \d"):
        prepared(tmp_path, **pairs)


def test_all_pairs_too_long_names_the_limit(tmp_path):
    with pytest.raises(DataError, match=r"no usable train pair among 32.*model\.max_length=3"):
        prepared(tmp_path, max_length=3)


def test_a_split_without_files_is_an_error():
    config = DataConfig(name="mine", test=None)
    with pytest.raises(DataError, match=r"data=mine names no test files: give data\.test=FILE"):
        load_pairs(config, "test")


def test_a_given_tokenizer_is_used(tmp_path):
    ready = Tokenizer.train(["quite other words"] * 9, 270)
    ready.save(tmp_path / "tokenizer.json")
    data = prepared(tmp_path, path=str(tmp_path / "tokenizer.json"))
    assert data.tokenizer.backend.get_vocab() == ready.backend.get_vocab()
    assert list(data.train_ids["source"]) == ready.encode([en for en, _ in TRAIN])


def test_the_tokenizer_of_a_resumed_run_wins(tmp_path):
    ready = Tokenizer.train(["quite other words"] * 9, 270)
    ready.save(tmp_path / "run.json")
    data = make(tmp_path, path="/nonexistent/tokenizer.json")
    data.prepare(tmp_path / "run.json")
    assert data.tokenizer.backend.get_vocab() == ready.backend.get_vocab()


def test_the_vocabulary_is_learned_from_training_text_alone(tmp_path):
    first = prepared(tmp_path).tokenizer.backend.get_vocab()
    second = prepared(tmp_path, val=[("wholly different", "tout autre")] * 50)
    assert second.tokenizer.backend.get_vocab() == first
    assert second.tokenizer.vocab_size <= 300


def test_worker_processes_change_nothing(tmp_path):
    found = []
    for workers in (0, 2):
        data = prepared(tmp_path, workers=workers)
        loader = iter(data.train_dataloader())
        found.append([rows(batch) for batch in islice(loader, 12)])
        del loader
    assert found[0] == found[1]


@pytest.mark.parametrize("world", [1, 2])
def test_a_resumed_loader_goes_on_after_the_steps_that_were_made(world, tmp_path):
    data = prepared(tmp_path)
    whole = [rows(batch) for batch in islice(data.train_dataloader(), 9 * world)]
    for rank in range(world):
        data.trainer = SimpleNamespace(
            global_rank=rank, world_size=world, global_step=2, accumulate_grad_batches=2
        )
        resumed = [rows(batch) for batch in islice(data.train_dataloader(), 5)]
        assert resumed == whole[4 * world + rank :: world]


def test_opening_a_loader_leaves_the_random_state_alone(tmp_path):
    data = prepared(tmp_path)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    next(iter(data.train_dataloader()))
    assert torch.equal(torch.get_rng_state(), before)
