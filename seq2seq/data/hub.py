"""Data sets of the Hugging Face hub, and local folders laid out like one.

`open_split` opens a split, downloading it once; `read_hub` reads the pairs of one that is open.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.compute as pc
from datasets.packaged_modules.cache.cache import Cache
from huggingface_hub.utils.tqdm import disable_progress_bars

from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError, nearest

log = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds that the hub has to connect, and as many to answer
BATCH = 1000  # rows in memory at once
Opened: TypeAlias = datasets.Dataset | datasets.IterableDataset


def open_split(corpus: CorpusConfig, split: object, streaming: bool = False) -> Opened:
    """Open a split of `corpus.hub`.

    Args:
        corpus: names the data set.
        split: a split, or an expression of splits that `datasets` knows, such as `train[:1%]`.
        streaming: read while iterating instead of downloading first.

    Raises:
        DataError: the data set, its configuration or the split does not exist, may not be read,
            or cannot be had because the hub is out of reach and no copy was downloaded before.
    """
    _hush()
    folder = Path(str(corpus.hub)).expanduser()
    if folder.is_dir():
        with _in_words(corpus):
            # Of files that have changed, `datasets` would still give its old copy; the state of
            # the files makes it another configuration, which must not be named by None.
            config = datasets.load_dataset_builder(str(folder), corpus.hub_config).config
            builder = datasets.load_dataset_builder(
                str(folder), config.name, description=_state(folder)
            )
    elif folder.is_absolute() or str(corpus.hub).startswith(".") or len(folder.parts) > 2:
        raise DataError(
            f"data.hub={corpus.hub} is not a folder (looked at {folder.absolute()}), and sets of "
            "the hub are called OWNER/NAME: correct data.hub"
        )
    else:
        builder = _find(corpus)
    _check_split(corpus, str(split), builder.info.splits)
    with _in_words(corpus):
        try:
            if streaming:
                opened: Opened = builder.as_streaming_dataset(split=str(split))
            else:
                builder.download_and_prepare()
                opened = builder.as_dataset(split=str(split))
            return opened
        except ValueError as error:  # wrong splits of sets that do not describe themselves
            if "split" not in str(error) or isinstance(error, UnicodeError):
                raise
            _check_split(corpus, str(split), _listed(str(error)))
            slices = "; slices cannot be streamed" if streaming and "[" in str(split) else ""
            raise DataError(f"data.hub={corpus.hub}, split {split}: {error}{slices}") from error


def read_hub(dataset: Opened, columns: tuple[str, str], name: str) -> Iterator[Pair]:
    """Yield (source, target), spaces at the ends removed, nothing left out.

    Args:
        dataset: what `open_split` gave.
        columns: names of the two columns; inside a struct `translation.en`, or just `en`.
        name: what errors call the data set.

    Raises:
        DataError: a column is missing or holds no text, or the hub fails while streaming.
    """
    for table in _tables(dataset, name):
        sides = [_texts(table, column, name) for column in columns]
        yield from zip(*sides, strict=True)


def fingerprint(dataset: datasets.Dataset) -> str:
    """A short text that differs when the rows do: it names the set's commit, its configuration
    and the split (of a local folder: its files and their times of change)."""
    return f"{dataset._fingerprint}-{len(dataset)}"


def _state(folder: Path) -> str:
    """A short text that differs when a file of the folder does."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            state = path.stat()
            digest.update(
                f"{path.relative_to(folder)}:{state.st_size}:{state.st_mtime_ns}\n".encode()
            )
    return digest.hexdigest()


def _find(corpus: CorpusConfig) -> Any:
    """The builder of a data set of the hub; if the hub is out of reach, of the copy at hand."""
    away = _unreachable()
    if away:
        builder = _copy(corpus, away)
    else:
        with _in_words(corpus):
            builder = datasets.load_dataset_builder(
                str(corpus.hub), corpus.hub_config, revision=corpus.hub_revision
            )
    if isinstance(builder, Cache):  # datasets falls back on it too when the hub fails later
        away = away or f"it does not give {corpus.hub} just now"
        if corpus.hub_revision and builder.hash != _commit(corpus):
            raise _out_of_reach(corpus, away, f"not of data.hub_revision={corpus.hub_revision}")
        _warn_once(
            f"The hub cannot be used ({away}): reading the copy of {corpus.hub} downloaded before, "
            f"{builder.cache_dir}"
        )
    return builder


@functools.cache
def _warn_once(text: str) -> None:
    log.warning(text)


def _copy(corpus: CorpusConfig, away: str) -> Any:
    name = str(corpus.hub)
    try:
        return Cache(
            repo_id=name,
            dataset_name=name.rpartition("/")[2],
            config_name=corpus.hub_config,
            version="auto",  # the latest
            hash="auto",
        )
    except ValueError as error:
        if "There are multiple" in str(error):
            raise DataError(
                f"data.hub={name} needs data.hub_config, since copies of several were downloaded: "
                f"{str(error).partition(chr(10))[0].rpartition(': ')[2]}"
            ) from error
        found = ", ".join(_listed(str(error)))
        raise _out_of_reach(corpus, away, f"only of {found}" if found else "") from error


@functools.cache
def _unreachable() -> str | None:
    """Why the hub cannot be used; None = it answers.

    Asked once, since `datasets` would try six times for each file before it looks at its copy.
    """
    if datasets.config.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    session = huggingface_hub.get_session()  # knows the user's proxies and certificates
    try:
        session.head(datasets.config.HF_ENDPOINT, timeout=PATIENCE)
    except Exception as error:  # the library below has changed its name, and may again
        return f"{type(error).__name__}: {error}"
    return None


def _commit(corpus: CorpusConfig) -> str | None:
    """The commit that `hub_revision` named when it was last asked for."""
    card = huggingface_hub.try_to_load_from_cache(
        str(corpus.hub), "README.md", repo_type="dataset", revision=corpus.hub_revision
    )
    return Path(card).parent.name if isinstance(card, str) else corpus.hub_revision


def _out_of_reach(corpus: CorpusConfig, reason: str, copies: str = "") -> DataError:
    wanted = f"{corpus.hub}, {corpus.hub_config}" if corpus.hub_config else corpus.hub
    return DataError(
        f"the hub cannot be reached ({reason}), and there is no copy of {wanted} downloaded "
        f"before, which would be used{copies and f' ({copies})'}. Connect this machine, or "
        "download the files by hand and name their folder: data.path=FOLDER"
    )


def _check_split(corpus: CorpusConfig, split: str, known: Any) -> None:
    """Refuse an unknown split before anything is downloaded, where the set lists its splits."""
    for part in split.split("+"):
        name = part.partition("[")[0].strip()
        if known and name not in (*known, "all"):
            raise DataError(
                f"data.hub={corpus.hub} has no split {name!r}; it has: "
                f"{', '.join(map(repr, known))}. Set data.train, data.val and data.test"
            )


@contextmanager
def _in_words(corpus: CorpusConfig) -> Iterator[None]:
    """Turn what `datasets` raises into errors that say what to do."""
    hub = f"data.hub={corpus.hub}"
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # its own kinds, and those of many libraries below it
        text = str(error)
        reason = str(error.__cause__ or error).partition("\n")[0]
        if "gated dataset" in text:
            said = (
                f"{hub} is gated: accept its terms at https://huggingface.co/datasets/{corpus.hub}"
                " and log in (hf auth login, or the variable HF_TOKEN)"
            )
        elif text.startswith("Revision "):
            said = f"{hub} has no data.hub_revision={corpus.hub_revision}: correct it, or null"
        elif isinstance(error, datasets.exceptions.DatasetNotFoundError):
            said = (
                f"{hub} is no data set of the hub, or a private one, and no folder here: correct "
                "it (OWNER/NAME), or log in (hf auth login, or the variable HF_TOKEN)"
            )
        elif "scripts are no longer supported" in text:
            said = (
                f"{hub} is made by a script, which datasets no longer runs: choose a copy in "
                "parquet (often data.hub_revision=refs/convert/parquet), or download its files "
                "and name their folder, data.path=FOLDER"
            )
        elif text.startswith(("BuilderConfig ", "Config name is missing")):
            names = _listed(text)
            wrong = corpus.hub_config or ""
            said = f"{hub} has no data.hub_config={corpus.hub_config}: {nearest(wrong, names)}"
        elif _of_the_network(error):
            raise _out_of_reach(corpus, reason) from error
        else:
            said = f"{hub} cannot be read: {type(error).__name__}: {reason}"
        raise DataError(said) from error


def _listed(text: str) -> list[str]:
    """The names in the list that ends a message of `datasets`."""
    lists = re.findall(r"\[([^\[\]]*)\]", text)
    return re.findall(r"'([^']*)'", lists[-1]) if lists else []


def _of_the_network(error: BaseException | None) -> bool:
    while error is not None:
        library = type(error).__module__.partition(".")[0]
        if isinstance(error, (ConnectionError, TimeoutError)) or library in ("httpx", "httpx2"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _hush() -> None:
    """Keep requests and retries out of the log, and bars out of what is no terminal."""
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for library in (datasets, huggingface_hub):
        logging.getLogger(library.__name__).setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
        disable_progress_bars()


def _tables(dataset: Opened, name: str) -> Iterator[pa.Table]:
    """The rows as Arrow tables; those of a `Dataset` are mapped from its files, not read."""
    rows = dataset.with_format("arrow")
    if isinstance(dataset, datasets.Dataset):
        for begin in range(0, len(dataset), BATCH):
            yield rows[begin : min(begin + BATCH, len(dataset))]
        return
    with _in_words(CorpusConfig(hub=name)):
        yield from rows.iter(batch_size=BATCH)


def _texts(table: pa.Table, column: str, name: str) -> Iterator[str]:
    paths = {".".join(path): path for path in _leaves(table.schema)}
    path = paths.get(column) or paths.get(f"translation.{column}")
    if path is None:
        raise DataError(
            f"{name} has no column {column!r}; it has: {', '.join(map(repr, paths))}. Set "
            "data.source_column and data.target_column"
        )
    texts = table[path[0]]
    if len(path) > 1:
        texts = pc.struct_field(texts, list(path[1:]))
    kind = texts.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise DataError(
            f"{name}: column {column!r} holds no text, but for example {texts[0].as_py()!r}"
        )
    return ((text or "").strip() for text in texts.to_pylist())


def _leaves(fields: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in fields:
        here = (*above, field.name)
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, here)
        else:
            yield here
