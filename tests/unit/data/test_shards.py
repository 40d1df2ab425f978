"""Tables on disk: what was written comes back, and halves are no tables."""

from __future__ import annotations

import itertools
import os
import pickle
import resource

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.shards import (
    LONGEST,
    Shards,
    ids_table,
    read_facts,
    read_table,
    whole_facts,
    write_lengths,
    write_table,
)

IDS = st.lists(st.integers(0, 2**16 - 1), max_size=5)
FILES = st.lists(st.lists(st.tuples(IDS, IDS), max_size=6), max_size=4)


def write(folder, files, vocab_size=2**16):
    paths = []
    for number, pairs in enumerate(files):
        table = ids_table([list(s) for s, _ in pairs], [list(t) for _, t in pairs], vocab_size)
        paths.append(folder / f"{number}.arrow")
        write_table(paths[-1], table, {"pairs": len(pairs)})
    write_lengths(folder / "lengths.npy", paths)
    return paths, folder / "lengths.npy"


@settings(max_examples=60, deadline=None, database=None)
@given(files=FILES, data=st.data())
def test_pairs_come_back_from_any_number_of_files(files, data, tmp_path_factory):
    everything = [pair for pairs in files for pair in pairs]
    shards = Shards(*write(tmp_path_factory.mktemp("shards"), files))
    assert len(shards) == len(everything)
    assert shards.lengths.tolist() == [[len(s) + 1, len(t) + 1] for s, t in everything]
    if everything:
        rows = data.draw(st.lists(st.integers(0, len(everything) - 1), min_size=1))
        sources, targets = shards.ids(np.array(rows))
        assert [ids.tolist() for ids in sources] == [everything[row][0] for row in rows]
        assert [ids.tolist() for ids in targets] == [everything[row][1] for row in rows]
    for side in (0, 1):
        flat = [token for pair in everything for token in pair[side]]
        assert [int(i) for part in shards.tokens(side) for i in part] == flat


@pytest.mark.parametrize(("vocab_size", "width"), [(2**16, 2), (2**16 + 1, 4)])
def test_ids_take_as_few_bytes_as_the_vocabulary_allows(vocab_size, width, tmp_path):
    written = write(tmp_path, [[([vocab_size - 1], [0])]], vocab_size)
    sources, _ = Shards(*written).ids(np.array([0]))
    assert sources[0].tolist() == [vocab_size - 1]
    assert sources[0].itemsize == width


def test_lengths_beyond_two_bytes_are_kept_as_the_longest(tmp_path):
    shards = Shards(*write(tmp_path, [[([1] * (LONGEST + 5), [1] * (LONGEST - 1))]]))
    assert shards.lengths.tolist() == [[LONGEST, LONGEST]]


def test_another_process_gets_paths_and_no_copies(tmp_path):
    shards = Shards(*write(tmp_path, [[([1] * 1000, [2] * 1000)] * 50]))
    packed = pickle.dumps(shards)
    assert len(packed) < 2000
    copy = pickle.loads(packed)
    assert copy.ids(np.array([7]))[1][0].tolist() == [2] * 1000


def test_more_shards_can_be_open_than_the_limit_of_files(tmp_path):
    paths, lengths = write(tmp_path, [[([1], [2])]] * 100)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 20, limits[1]))
    try:
        assert len(Shards(paths, lengths)) == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_facts_are_in_the_table_and_columns_can_be_read_alone(tmp_path):
    table = pa.table({"a": ["x", "y"], "key": pa.array([3, 2**64 - 1], pa.uint64())})
    facts = {"dropped": {"empty": 2}, "examples": ["caf\udc80"]}
    write_table(tmp_path / "t.arrow", table, facts, compression="zstd")
    assert read_facts(tmp_path / "t.arrow")["dropped"] == {"empty": 2}
    assert read_table(tmp_path / "t.arrow").equals(table)
    only = read_table(tmp_path / "t.arrow", fields=[1])
    assert only.column_names == ["key"]
    assert only["key"].to_pylist() == [3, 2**64 - 1]


def test_a_table_is_there_only_when_it_is_whole(tmp_path, monkeypatch):
    """As after `kill -9` while it is written, also when an older table stood there."""
    [path], _ = write(tmp_path, [[([1], [1])]])
    before = path.read_bytes()
    monkeypatch.setattr("seq2seq.data.shards.file_entry", lambda *_: 1 / 0)
    for place in (path, tmp_path / "new.arrow"):
        with pytest.raises(ZeroDivisionError):
            write_table(place, ids_table([[2]], [[2]], 9), {})
    assert path.read_bytes() == before
    assert not (tmp_path / "new.arrow").exists()


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_no_damaged_byte_goes_unnoticed(tmp_path, compression):
    """Where nothing depends on a byte, the table is as it was written."""
    table, path = ids_table([[1, 2], [], [3]], [[4], [5, 6], []], 300), tmp_path / "t.arrow"
    write_table(path, table, {"rows": [0, 3]}, compression)
    content, noticed = path.read_bytes(), 0
    assert whole_facts(path) == {"rows": [0, 3]}
    for place, flipped in itertools.product(range(len(content)), (1, 64)):
        path.unlink()  # a table that is mapped into memory is never written over
        path.write_bytes(content[:place] + bytes([content[place] ^ flipped]) + content[place + 1 :])
        if found := whole_facts(path):
            assert (found, read_table(path).equals(table)) == ({"rows": [0, 3]}, True)
        noticed += not found
    assert noticed > len(content)
