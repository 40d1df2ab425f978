"""Hub data sets: those of the presets in small, a hub of our own, and no hub at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from seq2seq.config import CorpusConfig
from seq2seq.data import hub
from seq2seq.data.hub import fingerprint, open_split, read_hub
from seq2seq.errors import DataError

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "data"
SIZES = {"train": 25, "validation": 4, "test": 3, "dev": 4}
TEXT = pa.string()
NESTED = pa.schema({"translation": pa.struct({"en": TEXT, "fr": TEXT})})
TURNED = pa.schema({"translation": pa.struct({"fr": TEXT, "en": TEXT})})
FLAT = pa.schema({"english": TEXT, "non_english": TEXT})

# Configurations, schema and splits of the sets of the presets, as their pages show them.
PRESETS = {
    "opus100": (["af-en", "en-fr"], NESTED, ["test", "train", "validation"]),
    "wmt14": (["de-en", "fr-en"], TURNED, ["train", "validation", "test"]),
    "tatoeba": (["en-de", "en-fr"], FLAT, ["train", "dev"]),
}


def pairs(config: str, split: str) -> list[tuple[str, str]]:
    return [(f"{config} {split} {n}", f"« {n} » été") for n in range(SIZES[split])]


def row(schema: pa.Schema, en: str | None, fr: str | None) -> dict[str, Any]:
    if "translation" in schema.names:
        return {"translation": {"en": en, "fr": fr}}
    return {"english": en, "non_english": fr}


def write_set(folder: Path, configs: list[str], schema: pa.Schema, splits: list[str]) -> Path:
    """A folder like a data set of the hub: a card that says where the parquet files are."""
    card = []
    for config in configs:
        (folder / config).mkdir(parents=True)
        files = [{"split": split, "path": f"{config}/{split}-*"} for split in splits]
        card.append({"config_name": config, "data_files": files})
        for split in splits:
            rows = [row(schema, f" {en}", f"{fr}\n") for en, fr in pairs(config, split)]
            table = pa.Table.from_pylist(rows, schema)
            pq.write_table(table, folder / config / f"{split}-00000-of-00001.parquet")
    text = yaml.safe_dump({"license": "unknown", "configs": card})
    (folder / "README.md").write_text(f"---\n{text}---\n# A set\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")


@pytest.fixture
def small(tmp_path) -> CorpusConfig:
    folder = write_set(tmp_path / "set", *PRESETS["opus100"])
    return CorpusConfig(hub=str(folder), hub_config="en-fr")


def preset(name: str, folder: Path) -> CorpusConfig:
    """The real preset, with a folder instead of the hub."""
    values = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    return CorpusConfig(**{**values, "hub": str(folder)})


def columns(corpus: CorpusConfig) -> tuple[str, str]:
    return corpus.source_column, corpus.target_column


def opened(table: dict[str, Any]) -> datasets.Dataset:
    return datasets.Dataset(pa.table(table))


# The presets


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_reads_every_split_of_its_set(name, tmp_path):
    corpus = preset(name, write_set(tmp_path / "set", *PRESETS[name]))
    splits = [split for split in (corpus.train, corpus.val, corpus.test) if split]
    assert set(splits) == set(PRESETS[name][2])
    for split in splits:
        dataset = open_split(corpus, split)
        assert list(read_hub(dataset, columns(corpus), name)) == pairs(corpus.hub_config, split)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_reads_the_files_of_its_set_too(name, tmp_path):
    from seq2seq.data.corpus import find_files, read_pairs

    corpus = preset(name, write_set(tmp_path / "set", *PRESETS[name]))
    files = find_files(corpus.val, f"{corpus.hub}/{corpus.hub_config}", columns(corpus))
    expected = pairs(corpus.hub_config, corpus.val)
    assert list(read_pairs(files, columns(corpus))) == expected


# Splits


def test_parts_and_sums_of_splits_can_be_read(small):
    train, test = pairs("en-fr", "train"), pairs("en-fr", "test")
    for split, expected in {
        "train[:20%]": train[:5],
        "train[3:]": train[3:],
        "test+train[:2]": test + train[:2],
        "all": test + train + pairs("en-fr", "validation"),
    }.items():
        assert list(read_hub(open_split(small, split), ("en", "fr"), "x")) == expected


@pytest.mark.parametrize("split", ["dev", "train+dev", "dev[:2]"])
def test_an_unknown_split_names_those_there_are(split, small):
    with pytest.raises(DataError, match=r"no split 'dev'; it has: .*'train'.*Set data\.train"):
        open_split(small, split)


@pytest.mark.parametrize("config", ["en-de", "fr", None, ""])
def test_an_unknown_configuration_names_those_there_are(config, small):
    small.hub_config = config
    with pytest.raises(DataError, match=r"cannot be read: .*en-fr.*Look at .*data\.hub_config"):
        open_split(small, "train")


def test_a_folder_needs_no_card_and_no_configurations(tmp_path):
    for split in ("train", "test"):
        table = pa.table({"en": [split], "fr": ["x"]})
        pq.write_table(table, tmp_path / f"{split}.parquet")
    dataset = open_split(CorpusConfig(hub=str(tmp_path)), "test")
    assert list(read_hub(dataset, ("en", "fr"), "x")) == [("test", "x")]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"data\.hub=\S*/nowhere is not a folder.*OWNER/NAME"):
        open_split(CorpusConfig(hub=str(tmp_path / "nowhere")), "train")


def test_a_folder_without_data_is_named(tmp_path):
    with pytest.raises(DataError, match=r"data\.hub=\S* cannot be read: .*doesn't contain any"):
        open_split(CorpusConfig(hub=str(tmp_path)), "train")


def test_damaged_data_are_named(small):
    file = Path(small.hub) / "en-fr" / "train-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"data\.hub=\S*set cannot be read"):
        open_split(small, "train")


# Columns


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (("en", "fr"), {"en": ["a "], "fr": [" b"]}),
        (("en", "fr"), {"translation": [{"fr": "b", "en": "a"}]}),
        (("translation.en", "translation.fr"), {"translation": [{"fr": "b", "en": "a"}]}),
        (("x.y.z", "x.w"), {"x": [{"y": {"z": "a"}, "w": "b"}], "en": ["c"]}),
        (("en", "translation"), {"en": ["a"], "translation": ["b"]}),
        (("en", "fr"), {"en": ["a"], "fr": ["b"], "translation": [{"fr": "c", "en": "d"}]}),
        (("a.b", "c"), {"a.b": ["a"], "c": pa.array(["b"], pa.large_string())}),
    ],
)
def test_columns_are_found_plain_or_nested(names, table):
    assert list(read_hub(opened(table), names, "x")) == [("a", "b")]


def test_missing_texts_are_empty():
    nested = pa.array([{"en": "a", "fr": None}, None], NESTED.field(0).type)
    assert list(read_hub(opened({"translation": nested}), ("en", "fr"), "x")) == [
        ("a", ""),
        ("", ""),
    ]
    nothing = {"en": ["a"], "fr": pa.nulls(1)}
    assert list(read_hub(opened(nothing), ("en", "fr"), "x")) == [("a", "")]


def test_a_missing_column_names_those_there_are():
    dataset = opened({"id": [1], "translation": [{"en": "a", "fr": "b"}]})
    with pytest.raises(
        DataError,
        match=r"^set has no column 'de'; it has: 'id', 'translation\.en', 'translation\.fr', "
        r"'en', 'fr'\. Set data\.source_column and data\.target_column",
    ):
        list(read_hub(dataset, ("en", "de"), "set"))


@pytest.mark.parametrize("column", [[3, 4], [["a"], ["b"]]])
def test_a_column_of_something_else_is_refused(column):
    with pytest.raises(DataError, match=r"set: column 'fr' holds no text, but "):
        list(read_hub(opened({"en": ["a", "b"], "fr": column}), ("en", "fr"), "set"))


# Batches


@pytest.mark.parametrize("batch", [1, 7, 25, 100])
def test_all_rows_are_read_in_batches_of_any_size(batch, small, monkeypatch):
    monkeypatch.setattr(hub, "BATCH", batch)
    dataset = open_split(small, "train")
    assert list(read_hub(dataset, ("en", "fr"), "x")) == pairs("en-fr", "train")



# Fingerprints


def test_fingerprints_tell_rows_apart_and_nothing_else(small, tmp_path, monkeypatch):
    first = fingerprint(open_split(small, "train"))
    others = [fingerprint(open_split(small, split)) for split in ("test", "train[:5]", "train[5:]")]
    assert len({first, *others}) == 4
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "elsewhere")
    assert fingerprint(open_split(small, "train")) == first
    code = (
        "import sys; from seq2seq.config import CorpusConfig; from seq2seq.data.hub import *\n"
        "print(fingerprint(open_split(CorpusConfig(hub=sys.argv[1], hub_config='en-fr'), 'train')))"
    )
    assert run(code, small.hub, HF_HOME=str(tmp_path / "other")).stdout.strip() == first


def test_changed_data_are_read_anew_and_have_another_fingerprint(small):
    before = fingerprint(open_split(small, "test"))
    file = Path(small.hub) / "en-fr" / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist([row(NESTED, "a", "b")] * SIZES["test"], NESTED), file)
    after = open_split(small, "test")
    assert fingerprint(after) != before
    assert set(read_hub(after, ("en", "fr"), "x")) == {("a", "b")}


# A hub of our own, and none


class Hub(BaseHTTPRequestHandler):
    """Answers as much of the hub's interface as `datasets` asks for, from a folder of sets."""

    root: Path
    commit = "c0ffee" + "0" * 34

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        if parts == [""]:
            self.answer(200)
            return
        parts = parts[1:] if parts[0] == "api" else parts
        if parts[0] != "datasets":
            self.answer(404)
            return
        if len(parts) == 3:
            parts += ["revision", "main"]
        _, owner, name, what, revision, *rest = parts
        folder = self.root / owner / name
        if name == "gated":
            self.answer(403, x_error_code="GatedRepo")
        elif not folder.is_dir():
            self.answer(404, x_error_code="RepoNotFound")
        elif revision not in ("main", self.commit):
            self.answer(404, x_error_code="RevisionNotFound")
        elif what == "resolve":
            self.file(folder.joinpath(*rest))
        else:
            entries = [
                {
                    "type": "directory" if path.is_dir() else "file",
                    "path": str(path.relative_to(folder)),
                    "size": path.stat().st_size,
                    "oid": "0" * 40,
                }
                for path in sorted(folder.rglob("*"))
            ]
            tree = [entry for entry in entries if str(entry["path"]).startswith("/".join(rest))]
            about = {"id": f"{owner}/{name}", "sha": self.commit, "siblings": []}
            self.answer(200, json.dumps(tree if what == "tree" else about).encode())

    do_HEAD = do_GET

    def file(self, path: Path) -> None:
        if not path.is_file():
            self.answer(404, x_error_code="EntryNotFound", x_repo_commit=self.commit)
            return
        etag = f'"{hashlib.sha1(path.read_bytes()).hexdigest()}"'
        self.answer(200, path.read_bytes(), x_repo_commit=self.commit, etag=etag)

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


TRY = """
import logging, sys, time
from seq2seq.config import CorpusConfig
from seq2seq.data.hub import *
from seq2seq.errors import DataError

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="LOG %(message)s")
before = time.monotonic()
for given in sys.argv[1:]:
    hub, config, revision, split = given.split(",")
    corpus = CorpusConfig(hub=hub, hub_config=config or None, hub_revision=revision or None)
    try:
        dataset = open_split(corpus, split)
        print("READ", list(read_hub(dataset, ("en", "fr"), hub))[:2], fingerprint(dataset))
    except DataError as error:
        print("ERROR", error)
print(round(time.monotonic() - before, 1))
"""


def run(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, since the hub's libraries read their variables once."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert not result.stderr
    return result


def tried(*given: str, **variables: str) -> list[str]:
    """What each `hub,config,revision,split` gave, and the seconds that all took."""
    return run(TRY, *given, **variables).stdout.splitlines()


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    write_set(root / "Own" / "Set-1", *PRESETS["opus100"])
    write_set(root / "Own" / "script", *PRESETS["opus100"])
    (root / "Own" / "script" / "script.py").touch()
    return root


@pytest.fixture(scope="module")
def said(sets, tmp_path_factory) -> dict[str, list[str]]:
    """What sets gave in three processes, one after another, with one cache."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Sets", (Hub,), {"root": sets}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    variables = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path_factory.mktemp("hf"))}
    found = {}
    found["online"] = tried(
        "Own/Set-1,en-fr,,test", "Own/nothing,,,train", "Own/Set-1,en-rf,,train",
        "Own/Set-1,en-fr,,dev", "Own/Set-1,en-fr,v2,train", "Own/script,en-fr,,train",
        "Own/gated,,,train", **variables,
    )  # fmt: skip
    server.shutdown()
    server.server_close()
    found["gone"] = tried(
        "Own/Set-1,en-fr,,test", "Own/Set-1,,main,test", "Own/Set-1,en-fr,v2,test",
        "Own/Set-1,af-en,,test", "Own/Set-1,en-fr,,dev", **variables,
    )  # fmt: skip
    found["offline"] = tried(
        "Own/Set-1,en-fr,,test", "Own/other,en-fr,,train", **variables, HF_HUB_OFFLINE="1"
    )
    return found


def test_a_set_of_the_hub_is_read_and_found_again_without_it(said):
    read = said["online"][0]
    assert read.startswith(f"READ {pairs('en-fr', 'test')[:2]} ")
    warning, again, other, *_ = said["gone"]
    assert warning.startswith("LOG The hub cannot be used (ConnectError")
    assert "reading the copy of Own/Set-1 downloaded before" in warning
    assert again == other == read
    warning, again, *_ = said["offline"]
    assert warning.startswith("LOG The hub cannot be used (HF_HUB_OFFLINE is set)")
    assert again == read


def test_only_the_copy_that_was_asked_for_is_used_without_the_hub(said):
    revision, config, split = (line for line in said["gone"] if line.startswith("ERROR"))
    assert "the copy is not of data.hub_revision=v2" in revision
    assert "find cache for Own/Set-1 for config 'af-en'" in config
    assert "'en-fr'" in config
    assert "has no split 'dev'; it has: " in split


def test_what_the_hub_refuses_is_explained(said):
    unknown, config, split, revision, script, gated = (
        line for line in said["online"] if line.startswith("ERROR")
    )
    assert "data.hub=Own/nothing cannot be read: DatasetNotFoundError: " in unknown
    assert "log in if it is not public" in unknown
    assert "BuilderConfig 'en-rf' not found. Available: ['af-en', 'en-fr']" in config
    assert "no split 'dev'; it has: 'test', 'train', 'validation'" in split
    assert "Revision 'v2' doesn't exist" in revision
    assert "scripts are no longer supported" in script
    assert "data.path=FOLDER" in script
    assert "https://huggingface.co/datasets/Own/gated to ask for access" in gated
    assert "ask on its page for access, log in" in gated


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [MemoryError("no memory"), FULL])
@pytest.mark.parametrize("wrapped", [False, True])
def test_errors_of_memory_and_disk_say_nothing_about_the_set(error, wrapped, small, monkeypatch):
    def fail(*_: object) -> None:
        if wrapped:
            raise datasets.exceptions.DatasetGenerationError("An error occurred") from error
        raise error

    monkeypatch.setattr(datasets.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(DataError, match=r"Make room in .*, HF_HOME=FOLDER") as caught:
        open_split(small, "train")
    assert "hub_revision" not in str(caught.value)


def test_offline_without_a_copy_the_way_out_is_named(said):
    *_, error, seconds = said["offline"]
    assert "Own/other (the hub cannot be used: HF_HUB_OFFLINE is set) cannot be read" in error
    assert "data.path=FOLDER" in error
    assert float(seconds) < 2


def test_a_hub_that_never_answers_is_given_up_soon_and_once(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        *errors, seconds = tried(
            *["Own/Set-1,en-fr,,train"] * 3, HF_ENDPOINT=endpoint, HF_HOME=str(tmp_path)
        )
    assert all("(the hub cannot be used: ReadTimeout" in error for error in errors)
    assert len(errors) == 3
    assert float(seconds) < 1.5 * hub.TIMEOUT_SECONDS
