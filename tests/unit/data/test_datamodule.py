"""The datamodule: from small files to batches, with what was left out counted."""

from __future__ import annotations

import logging
import signal
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig, TokenizerConfig
from seq2seq.data import batching
from seq2seq.data.batching import Budget
from seq2seq.data.datamodule import Consumer, TranslationData
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import DataError, RunError

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
TRAIN = [
    (f"I see {n} {'big ' * i}houses", f"je vois {n} {'grandes ' * i}maisons")
    for i in range(4)
    for n in NUMBERS
]
VAL = [("I see houses", "je vois maisons"), ("three big houses", "trois grandes maisons")]

def make(folder: Path, train=TRAIN, val=VAL, *, max_length=80, cleaning=None, **settings):
    for split, pairs in (("train", train), ("val", val)):
        lines = "".join(f"{en}\t{fr}\n" for en, fr in [("en", "fr"), *pairs])
        (folder / f"{split}.tsv").write_text(lines, encoding="utf-8")
    tokenizer = {"vocab_size": 300, **settings.pop("tokenizer", {})}
    options = {"name": "mine", "path": str(folder), "test": None, "max_tokens": 128, **settings}
    return TranslationData(
        DataConfig(**options),
        cleaning or CleaningConfig(filters=["duplicate"]),
        TokenizerConfig(**tokenizer),
        max_length,
        1,
    )


def prepared(folder: Path, *args, **settings) -> TranslationData:
    data = make(folder, *args, **settings)
    data.prepare()
    return data


def mixed(folder: Path, weights: dict[str, float], **settings) -> TranslationData:
    """Two members, a and b, in folders of their own."""
    for name, pairs in (("a", TRAIN[:12]), ("b", TRAIN[12:])):
        (folder / name).mkdir(exist_ok=True)
        make(folder / name, pairs)
    data = make(folder)
    members = {name: CorpusConfig(path=str(folder / name)) for name in "ab"}
    data.data = DataConfig(
        train=None, val=None, test=None, members=members, weights=weights, **settings
    )
    return data


def rows(batch) -> list[list[list[int]]]:
    return [tensor.tolist() for tensor in (batch.source, batch.target_in, batch.labels)]


def take(data, count, **consumer) -> list[list[list[list[int]]]]:
    """Batches of one consumer."""
    loader = data.train_dataloader(Consumer(**consumer))
    return [rows(batch) for batch in islice(loader, count)]


def pairs_of(data, batch) -> list[tuple[str, str]]:
    sides = (data.vocabularies.source, batch.source), (data.vocabularies.target, batch.labels)
    return list(zip(*(side.decode(ids.tolist()) for side, ids in sides), strict=True))


def test_batches_hold_the_sentences_of_the_files(tmp_path):
    data = prepared(tmp_path)
    texts: list[tuple[str, str]] = []
    for batch in data.train_dataloader():
        assert batch.source.numel() + batch.labels.numel() <= 128
        texts += pairs_of(data, batch)
        if len(texts) >= len(TRAIN):
            break
    assert sorted(texts) == sorted(TRAIN)


def test_each_vocabulary_encodes_its_own_side(tmp_path):
    data = prepared(tmp_path, tokenizer={"joint": False})
    assert data.vocabularies.source is not data.vocabularies.target
    found = {pair for batch in islice(data.train_dataloader(), 9) for pair in pairs_of(data, batch)}
    assert found
    assert found <= set(TRAIN)
    assert {pair for batch in data.val_dataloader() for pair in pairs_of(data, batch)} == set(VAL)


@pytest.mark.parametrize("chunk", [5, 2**22])
def test_empty_and_long_pairs_are_left_out_and_counted(chunk, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(batching, "CHUNK", chunk)
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
    assert len(data.usable) == len(TRAIN)
    total = len(TRAIN) + len(odd)
    assert f"train: left out 6 of {total} pairs, which are empty or longer than 80" in caplog.text


def test_nothing_is_logged_when_nothing_is_left_out(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        prepared(tmp_path)
    assert "left out" not in caplog.text


def test_a_pair_of_exactly_the_longest_length_stays(tmp_path):
    longest = int(prepared(tmp_path).shards[0].lengths.max())
    assert len(prepared(tmp_path, max_length=longest).usable) == len(TRAIN)
    assert len(prepared(tmp_path, max_length=longest - 1).usable) < len(TRAIN)


def test_bleu_sees_every_validation_pair_and_the_loss_those_that_fit(tmp_path, caplog):
    odd = [("house " * 100, "maison " * 100), ("", "rien")]
    data = prepared(tmp_path, val=[*VAL, *odd])
    assert data.val_pairs == [*VAL, *((en.strip(), fr.strip()) for en, fr in odd)]
    assert sum(len(batch.source) for batch in data.val_dataloader()) == len(VAL)
    assert "val: left out 2 of 4 pairs, which are empty or longer than 80 tokens" in caplog.text


def test_validation_text_is_normalised_for_the_loss_and_not_for_bleu(tmp_path):
    cleaning = CleaningConfig(normalise=["quotes", "french_spacing"], filters=[])
    odd = ("it\u2019s big?", "c\u2019est grand?")
    data = prepared(tmp_path, val=[odd], cleaning=cleaning)
    assert data.val_pairs == [odd]
    [batch] = data.val_dataloader()
    assert pairs_of(data, batch) == [("it's big?", "c'est grand ?")]


@pytest.mark.parametrize("pairs", [{"train": []}, {"train": [("", "vide")]}, {"val": []}])
def test_no_usable_pair_is_an_error(pairs, tmp_path):
    [split] = pairs
    with pytest.raises(DataError, match=rf"data=mine has no usable {split} pair"):
        prepared(tmp_path, **pairs)


def test_all_pairs_too_long_names_the_limit(tmp_path):
    with pytest.raises(DataError, match=r"no usable train pair among 32.*model\.max_length=3"):
        prepared(tmp_path, max_length=3)


def test_the_vocabularies_of_a_resumed_run_win(tmp_path):
    ready = Tokenizer.train(["quite other words"] * 9, 270)
    data = make(tmp_path, tokenizer={"path": "/nonexistent/tokenizer.json"})
    data.prepare(Vocabularies(ready, ready))
    assert data.vocabularies.source is ready


def test_the_vocabulary_is_learned_from_training_text_alone(tmp_path):
    first = prepared(tmp_path).vocabularies.source.backend.get_vocab()
    second = prepared(tmp_path, val=[("wholly different", "tout autre")] * 50)
    assert second.vocabularies.source.backend.get_vocab() == first
    assert second.vocabularies.source.vocab_size <= 300


@pytest.mark.parametrize("options", [{}, {"tokenizer": {"dropout": 0.2, "dropout_variants": 2}}])
def test_worker_processes_change_nothing(tmp_path, options):
    found = []
    for workers in (0, 2):
        data = prepared(tmp_path, num_workers=workers, **options)
        found.append(take(data, 25))
    assert found[0] == found[1]


OPTIONS = [{}, {"num_workers": 2, "tokenizer": {"dropout": 0.2, "dropout_variants": 3}}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (3, 2)])
def test_a_resumed_loader_gives_the_very_next_batch(before, after, options, tmp_path):
    """Stopped within an epoch or after several, and gone on with by as many ranks or others."""
    for steps in (1, 4, 11):
        data = prepared(tmp_path, **options)
        whole = take(data, 80, world_size=1)
        take(data, steps, world_size=before, accumulate=2)
        state = data.state_dict(steps)
        resumed = []
        for rank in range(after):
            fresh = prepared(tmp_path, **options)
            fresh.load_state_dict(state)
            resumed.append(take(fresh, 6, first_step=steps, rank=rank, world_size=after))
        merged = [batch for step in zip(*resumed, strict=True) for batch in step]
        used = steps * 2 * before
        assert merged == whole[used : used + 6 * after]


def test_stopping_twice_is_like_never_stopping(tmp_path):
    whole = take(prepared(tmp_path), 30, world_size=1)
    state, steps = None, 0
    for more in (5, 6):
        data = prepared(tmp_path)
        if state is not None:
            data.load_state_dict(state)
        assert take(data, more, first_step=steps) == whole[steps : steps + more]
        steps += more
        state = data.state_dict(steps)
    data = prepared(tmp_path)
    data.load_state_dict(state)
    assert take(data, 9, first_step=steps) == whole[11:20]


def test_other_data_than_those_of_the_run_are_refused(tmp_path):
    data = prepared(tmp_path)
    take(data, 1, world_size=1)
    state = data.state_dict(1)
    other = prepared(tmp_path, [*TRAIN, ("one more", "un de plus")])
    with pytest.raises(RunError, match="the data have changed since the run was started"):
        other.load_state_dict(state)


def test_the_budget_holds_for_rounded_lengths_and_few_sentences(tmp_path):
    data = prepared(tmp_path, length_multiple=8, max_sentences=3)
    for batch in islice(data.train_dataloader(), 30):
        assert batch.source.shape[1] % 8 == batch.labels.shape[1] % 8 == 0
        assert batch.source.numel() + batch.labels.numel() <= 128 or len(batch.source) == 1
        assert len(batch.source) <= 3


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_the_validation_pairs(tmp_path, world):
    data = prepared(tmp_path, val=VAL * 4)
    found = []
    for rank in range(world):
        data.consumer = Consumer(rank=rank, world_size=world)
        batches = list(data.val_dataloader())
        assert batches
        found += [pair for batch in batches for pair in pairs_of(data, batch)]
    assert sorted(found) == sorted(VAL * 4)


def test_opening_a_loader_leaves_the_random_state_alone(tmp_path):
    data = prepared(tmp_path)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    next(iter(data.train_dataloader()))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("weights", [{}, {"a": 2.5, "b": 0.5}])
def test_the_size_of_an_epoch_is_that_of_the_batches_that_are_made(tmp_path, weights):
    data = mixed(tmp_path, weights) if weights else make(tmp_path)
    data.prepare()
    batches, tokens = data.epoch()
    epochs = [epoch for epoch, _ in islice(data.train_dataloader().sampler, batches + 1)]
    assert epochs == [0] * batches + [1]
    made = islice(data.train_dataloader(), batches)
    assert sum(int((batch.labels != 0).sum()) for batch in made) == tokens


def finishing(folder: Path, **settings) -> TranslationData:
    """A mixture in small batches, whose last 4 steps are mostly of its first member."""
    settings = settings or {"final_weights": {"a": 9}, "final_steps": 4}
    data = mixed(folder, {}, **settings)
    data.budget = Budget(64)
    data.prepare()
    return data


def test_the_last_steps_are_of_the_final_weights(tmp_path):
    """Those before them are as ever."""
    data = finishing(tmp_path)
    size = sum(len(pool) for pool in data._training_batches(final=True).epoch(1))
    data.data.final_steps = size
    found = take(data, 5 + size, world_size=1, max_steps=5 + size)
    assert found[:5] == take(finishing(tmp_path, final_steps=0), 5, world_size=1)
    source, first = data.vocabularies.source, {text for text, _ in TRAIN[:12]}
    last = Counter(text for batch, _, _ in found[5:] for text in source.decode(batch))
    assert last == {text: 9 if text in first else 1 for text, _ in TRAIN}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (2, 1), (1, 2)])
@pytest.mark.parametrize("steps", [1, 5, 6, 8])
def test_a_run_that_ends_on_other_weights_goes_on_exactly(before, after, steps, tmp_path):
    """Stopped before the last 4 of 10 steps, where they begin, or within them.

    By another number of ranks with as many batches to a step.
    """
    whole = take(finishing(tmp_path), 50, world_size=1, max_steps=6 * 2 * before + 4)
    data = finishing(tmp_path)
    take(data, 2 * steps, world_size=before, accumulate=2, max_steps=10)
    state, resumed = data.state_dict(steps), []
    for rank in range(after):
        fresh = finishing(tmp_path)
        fresh.load_state_dict(state)
        ranks = {"world_size": after, "accumulate": 2 * before // after}
        resumed.append(take(fresh, 6, first_step=steps, rank=rank, max_steps=10, **ranks))
    merged = [batch for step in zip(*resumed, strict=True) for batch in step]
    used = steps * 2 * before
    assert merged == whole[used : used + 6 * after]


def test_a_run_that_is_lengthened_returns_to_its_weights(tmp_path):
    """To where it had left them; the final part then goes on, too."""
    data = finishing(tmp_path)
    first = take(data, 10, world_size=1, max_steps=10)
    longer = finishing(tmp_path)
    longer.load_state_dict(data.state_dict(10))
    again = take(longer, 12, first_step=10, max_steps=20)
    plain = take(finishing(tmp_path, final_steps=0), 12, world_size=1)
    assert first[:6] + again[:6] == plain
    both = take(finishing(tmp_path), 16, world_size=1, max_steps=10)
    assert first[6:] + again[6:] == both[6:]


def test_the_last_steps_read_on_where_a_weight_is_less_than_one(tmp_path):
    data = mixed(tmp_path, {"b": 0.5}, final_weights={"a": 9}, final_steps=4)
    data.prepare()
    seen = []
    for batches in (data._training_batches(), data._training_batches(final=True)):
        used = np.concatenate(next(batches.epoch(batches.start["epoch"])))
        seen.append(set(used[used >= 12].tolist()))
    assert not seen[0] & seen[1]
    assert seen[0] | seen[1] == set(range(12, len(TRAIN)))


def test_the_first_pairs_alone_have_no_other_end(tmp_path):
    few = [finishing(tmp_path), finishing(tmp_path, final_steps=0)]
    for data in few:
        data.most_train = 8
        data.prepare()
    assert take(few[0], 20, world_size=1, max_steps=10) == take(few[1], 20, world_size=1)


class Deaf(torch.utils.data.Dataset):
    """Signals that a process of a loader ignores."""

    def __getitem__(self, _):
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        return [n.name for n in numbers if signal.getsignal(n) is signal.SIG_IGN]


def test_workers_outlive_the_signals_that_a_terminal_and_a_scheduler_send_to_all(tmp_path):
    begin = prepared(tmp_path).train_dataloader().worker_init_fn
    loader = torch.utils.data.DataLoader(
        Deaf(), sampler=[0], batch_size=None, num_workers=1, worker_init_fn=begin
    )
    [ignored] = loader
    assert ignored == ["SIGINT", "SIGTERM", "SIGHUP"]
