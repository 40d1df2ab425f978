"""Checkpoints on the disk: whole or not there, verified, and refused when they do not belong."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
import torch

from seq2seq import __version__, files
from seq2seq.errors import RunError
from seq2seq.training.checkpointing import (
    FORMAT,
    check_settings,
    checkpoint_path,
    find_checkpoint,
    newest_checkpoint,
    read_checkpoint,
    remove_others,
    shard_sum,
    write_checkpoint,
)


def save(run_dir: Path, step: int, **entry) -> Path:
    path = checkpoint_path(run_dir, step)
    path.parent.mkdir(exist_ok=True)
    content = {"model": {"w": torch.full((1000,), float(step))}, "shards": None}
    write_checkpoint(path, content | entry)
    return path


def test_one_flipped_bit_of_a_tensor_is_noticed(tmp_path, caplog):
    before, newest = save(tmp_path, 8), save(tmp_path, 16)
    assert newest_checkpoint(tmp_path) == newest
    content = bytearray(newest.read_bytes())
    where = content.index(torch.full((1000,), 16.0).numpy().tobytes()) + 2000
    content[where] ^= 1
    newest.write_bytes(content)
    assert torch.load(newest)["model"]["w"].ne(16).sum() == 1  # torch does not notice
    assert newest_checkpoint(tmp_path) == before
    assert f"{newest} is damaged (the check sum of" in caplog.text


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_a_cut_file_is_passed_over(tmp_path, left):
    before, newest = save(tmp_path, 8), save(tmp_path, 16)
    newest.write_bytes(newest.read_bytes()[:left])
    assert newest_checkpoint(tmp_path) == before


def test_where_all_are_damaged_it_is_said(tmp_path):
    save(tmp_path, 8).write_bytes(b"")
    with pytest.raises(RunError, match=r"every checkpoint of .* is damaged \(step-00000008.ckpt\)"):
        newest_checkpoint(tmp_path)


def test_a_full_disk_leaves_what_was_there(tmp_path):
    path = save(tmp_path, 8)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))  # bytes of any file
    try:
        with pytest.raises(OSError, match="File too large"):
            write_checkpoint(path, {"model": {"w": torch.zeros(1000)}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_has_its_name_only_once_it_is_on_the_disk(tmp_path, monkeypatch):
    """Else a power cut could leave the name with half of the content."""
    calls, replace = [], os.replace
    monkeypatch.setattr(files, "sync", lambda path: calls.append(f"sync {path.suffix or path}"))

    def move(old, new):
        calls.append("move")
        replace(old, new)

    monkeypatch.setattr(os, "replace", move)
    save(tmp_path, 8)
    assert calls == ["sync .partial", "move", f"sync {tmp_path / 'checkpoints'}"]


def test_another_format_is_refused_by_number_and_version(tmp_path):
    path = save(tmp_path, 8, format=FORMAT + 1, version="9.9")
    with pytest.raises(RunError) as error:
        read_checkpoint(path)
    text = str(error.value)
    assert f"has format {FORMAT + 1}, this version of seq2seq ({__version__}) continues" in text
    assert f"from format {FORMAT}: install the last version that continues from it (9.9)" in text
    assert f"init_from={tmp_path}" in text
    torch.save({"state_dict": {}}, path)
    with pytest.raises(RunError, match=r"has format 0, .* \(of before 0.1.0\)"):
        read_checkpoint(path)


def test_a_damaged_or_missing_file_of_shards_makes_its_checkpoint_damaged(tmp_path):
    before, path = save(tmp_path, 8), checkpoint_path(tmp_path, 16)
    folder = path.with_suffix(".shards")
    folder.mkdir()
    shard = folder / "__0_0.distcp"
    shard.write_bytes(bytes(range(256)) * 100)
    save(tmp_path, 16, shards={shard.name: shard_sum(shard)})
    assert newest_checkpoint(tmp_path) == path
    content = bytearray(shard.read_bytes())
    content[5000] ^= 1
    shard.write_bytes(content)
    assert newest_checkpoint(tmp_path) == before
    shard.unlink()
    assert newest_checkpoint(tmp_path) == before


def test_shards_go_with_their_checkpoint(tmp_path):
    for step in (8, 16, 24):
        save(tmp_path, step)
        checkpoint_path(tmp_path, step).with_suffix(".shards").mkdir()
    checkpoint_path(tmp_path, 32).with_suffix(".shards").mkdir()  # killed before its checkpoint
    remove_others(tmp_path, keep=[16, 24])
    left = sorted(path.stem for path in (tmp_path / "checkpoints").glob("*.shards"))
    assert left == ["step-00000016", "step-00000024"]


def test_changed_settings_are_named_then_and_now():
    path = Path("runs/x/checkpoints/step-00000008.ckpt")
    then = {"model": {"dropout": 0.1, "d_ff": 8}, "trainer": {"max_steps": 8},
            "data": {"weights": {}, "members": {"a": {"path": "x", "train": "t"}}}, "old": 1}
    now = {"model": {"dropout": 0.3, "d_ff": 8, "new": 1}, "trainer": {"max_steps": 16},
           "data": {"weights": {}, "members": {"a": {"path": "y", "train": "u"}}}}
    with pytest.raises(RunError) as error:
        check_settings(path, then, now)
    lines = str(error.value).splitlines()
    assert lines[1:4] == [
        "  - model.dropout was 0.1, and is 0.3 now",
        "  - data.members.a.train was t, and is u now",
        "  - old was 1, and is gone now",
    ]
    assert "init_from=runs/x" in lines[-1]
    check_settings(path, then, then | {"trainer": {"max_steps": 99}})
    check_settings(path, then | {"trainer": {"max_steps": 8, "split": 4}}, then)


def test_a_run_whose_settings_were_edited_since_does_not_go_on(tmp_path):
    assert find_checkpoint(tmp_path, {}) is None
    path = save(tmp_path, 8, settings={"model": {"d_ff": 8}})
    assert find_checkpoint(tmp_path, {"model": {"d_ff": 8}}).path == path
    with pytest.raises(RunError, match=r"model\.d_ff was 8, and is 9 now"):
        find_checkpoint(tmp_path, {"model": {"d_ff": 9}})
