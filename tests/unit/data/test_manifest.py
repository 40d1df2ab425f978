"""A damaged manifest counts as none, so that the data are prepared again."""

import pytest

from seq2seq.data.manifest import FORMAT, NAME, parse_manifest, read_manifest, write_manifest
from seq2seq.data.shards import file_entry


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 1}', f'{{"format": {FORMAT}}}',
     f'{{"format": {FORMAT}, "files": 3}}', f'{{"format": {FORMAT}, "files": [{{}}]}}'],
)  # fmt: skip
def test_a_damaged_manifest_is_none(text, tmp_path):
    (tmp_path / NAME).write_text(text)
    assert parse_manifest(tmp_path) is None
    assert read_manifest(tmp_path) is None


def test_a_folder_is_whole_while_its_files_are(tmp_path):
    (tmp_path / "a").write_bytes(b"12")
    write_manifest(tmp_path, [file_entry(tmp_path / "a")], {"pairs": 1})
    assert read_manifest(tmp_path, verify=True)["pairs"] == 1
    (tmp_path / "a").write_bytes(b"13")
    assert read_manifest(tmp_path) is not None  # of the same size
    assert read_manifest(tmp_path, verify=True) is None
