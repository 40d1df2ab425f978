"""Duplicates: every repetition and nothing else, and the first of each pair stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data import dedup
from seq2seq.data.dedup import repeated_rows
from seq2seq.data.engines import LocalEngine
from seq2seq.data.shards import read_keys, write_table
from seq2seq.errors import DataError

KEYS = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=12), max_size=5)


def naive(parts):
    seen, found = set(), []
    for keys in parts:
        found.append([row for row, key in enumerate(keys) if key in seen or seen.add(key)])
    return found


@settings(max_examples=30, deadline=None, database=None)
@given(parts=KEYS, machines=st.integers(1, 3))
def test_rows_that_stood_before(parts, machines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    paths = []
    for number, keys in enumerate(parts):
        paths.append(folder / f"{number}.arrow")
        texts = pa.array([""] * len(keys), pa.string())
        keys = pa.array(np.array(keys, np.uint64))
        table = pa.table({"source": texts, "target": texts, "key": keys})
        write_table(paths[-1], table, {}, compression="zstd")
    engine = LocalEngine(1)
    engine.machines = machines
    sizes = [*map(len, parts)]
    given = {"fetch": lambda: None, "spill": folder, "threads": None}
    found = repeated_rows(engine, paths, sizes, read_keys, **given)
    assert [rows.tolist() for rows in found] == naive(parts)


def test_a_full_disk_is_told_with_its_folder(tmp_path, monkeypatch):
    """A file stands for the disk: no folder for what does not fit into memory can be made."""
    monkeypatch.setattr(dedup, "MEMORY", "24MiB")
    spill = tmp_path / "full"
    spill.touch()

    def keys(path):
        return np.arange(10**6, dtype=np.uint64)

    given = {"fetch": lambda: None, "spill": spill, "threads": 1}
    with pytest.raises(DataError, match=f"search for duplicates failed .* room in {spill}: make"):
        repeated_rows(LocalEngine(1), [tmp_path], [10**6], keys, **given)
