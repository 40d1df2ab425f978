"""Streamed batches: each pair once per epoch, the same for any ranks, exact when resumed."""

from __future__ import annotations

from itertools import islice

import pytest

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig, TokenizerConfig
from seq2seq.data.streaming import OPEN, StreamedBatches
from seq2seq.errors import ConfigError, DataError

PAIRS = [(f"I see house {n} {'again ' * (n % 7)}".strip(), f"je vois {n}") for n in range(300)]


@pytest.fixture
def data(tmp_path) -> DataConfig:
    for number in range(OPEN + 4):
        lines = "".join(f"{s}\t{t}\n" for s, t in PAIRS[number :: OPEN + 4])
        (tmp_path / f"train-{number:02d}.tsv").write_text("en\tfr\n" + lines, encoding="utf-8")
    return DataConfig(path=str(tmp_path), val=None, test=None, streaming=True, max_tokens=200)


def open_stream(data, *, seed=1, pool=64, cleaning=None, **tokenizer) -> StreamedBatches:
    settings = TokenizerConfig(**{"vocab_size": 300, **tokenizer})
    cleaning = cleaning or CleaningConfig(filters=["empty"])
    stream = StreamedBatches.open(data, cleaning, settings, None, 60, seed)
    stream.pool = pool
    return stream


def pairs_of(stream, batch) -> list[tuple[str, str]]:
    decode = stream.vocabularies.source.decode
    return list(zip(decode(batch.source.tolist()), decode(batch.labels.tolist()), strict=True))


def take(stream, count) -> list[list[list[int]]]:
    return [batch.source.tolist() for batch in islice(stream, count)]


def batches_of_an_epoch(stream) -> int:
    seen = 0
    for number, batch in enumerate(stream, 1):
        seen += len(batch.source)
        if seen == len(PAIRS):
            return number
    raise AssertionError


@pytest.mark.parametrize("pool", [64, 1000])
def test_each_pair_once_per_epoch_within_the_budget(data, pool):
    stream = open_stream(data, pool=pool)
    size = batches_of_an_epoch(stream)
    batches = list(islice(stream, 2 * size))
    assert all(b.source.numel() + b.labels.numel() <= data.max_tokens for b in batches)
    for epoch in (batches[:size], batches[size:]):
        found = [pair for batch in epoch for pair in pairs_of(stream, batch)]
        assert sorted(found) == sorted(PAIRS)
    assert [pairs_of(stream, b) for b in batches[:size]] != [
        pairs_of(stream, b) for b in batches[size:]
    ]


def test_the_order_is_not_that_of_the_files(data):
    stream = open_stream(data)
    found = [pair for batch in islice(stream, 5) for pair in pairs_of(stream, batch)]
    assert found != PAIRS[: len(found)]
    assert take(open_stream(data), 20) == take(open_stream(data), 20)
    assert take(open_stream(data), 20) != take(open_stream(data, seed=2), 20)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_out_the_stream(data, world):
    stream = open_stream(data)
    ranks = [take(stream.at(None, rank, world), 30) for rank in range(world)]
    merged = [batch for step in zip(*ranks, strict=True) for batch in step]
    assert merged == take(stream, 30 * world)


@pytest.mark.parametrize("used", [0, 1, 13, 14, 40, 90])
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (1, 2)])
def test_a_resumed_stream_goes_on_exactly(data, used, before, after):
    whole = take(open_stream(data), 200)
    stopped = open_stream(data).at(None, 0, before)
    iterator = iter(stopped)
    for _ in range(used):
        next(iterator)
    place = stopped.place(used * before)
    resumed = [take(open_stream(data).at(place, rank, after), 20) for rank in range(after)]
    merged = [batch for step in zip(*resumed, strict=True) for batch in step]
    assert merged == whole[used * before :][: 20 * after]


def test_dropped_merges_are_the_same_after_resuming(data):
    stream = open_stream(data, dropout=0.5)
    whole = take(stream, 40)
    assert whole != take(open_stream(data), 40)
    stopped = open_stream(data, dropout=0.5)
    take(stopped, 17)
    place = stopped.place(17)
    assert take(open_stream(data, dropout=0.5).at(place, 0, 1), 20) == whole[17:37]


def test_weights_repeat_members(data):
    member = {"path": data.path, "train": "train-00.tsv", "val": None, "test": None}
    members = {"a": CorpusConfig(**member), "b": CorpusConfig(**member)}
    members["b"].train = "train-01.tsv"
    mixed = DataConfig(
        train=None, val=None, test=None, streaming=True, max_tokens=200,
        members=members, weights={"a": 3},
    )  # fmt: skip
    stream = open_stream(mixed)
    seen: list[tuple[str, str]] = []
    for batch in stream:
        seen += pairs_of(stream, batch)
        if len(seen) >= 60:
            break
    assert sorted(seen) == sorted([*PAIRS[0::20] * 3, *PAIRS[1::20]])
    mixed.weights["a"] = 1.5
    with pytest.raises(ConfigError, match=r"streaming=true does not know how large the members"):
        open_stream(mixed)


def test_files_of_another_size_are_other_data(data, tmp_path):
    known = open_stream(data).fingerprint
    assert open_stream(data).fingerprint == known
    with (tmp_path / "train-03.tsv").open("a") as file:
        file.write("one more\tun de plus\n")
    assert open_stream(data).fingerprint != known


def test_a_stream_without_usable_pairs_says_so(data):
    with pytest.raises(DataError, match="no usable train pair"):
        open_stream(data, cleaning=CleaningConfig(filters=["too_long"], max_words=1))
    stream = open_stream(data)
    stream.max_length = 2
    with pytest.raises(DataError, match=r"no usable pair.*model\.max_length"):
        next(iter(stream))
