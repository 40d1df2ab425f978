"""Data sets of the Hugging Face hub, and local folders laid out like one.

`open_split` opens a split, downloading it once; `read_hub` reads the pairs of an open split.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import logging
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
from datasets.exceptions import DatasetGenerationError
from datasets.packaged_modules.cache.cache import Cache
from huggingface_hub.utils.tqdm import disable_progress_bars

from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair, arrow_rows, find_columns
from seq2seq.errors import DataError

log = logging.getLogger(__name__)
_warn_once = functools.cache(log.warning)

TIMEOUT_SECONDS = 5.0  # for the hub's answer
WORDS = 500  # characters of a library's message that an error quotes
BATCH = 1000  # rows in memory at once
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
ADVICE = (
    "Look at data.hub (OWNER/NAME), data.hub_config and data.hub_revision (a set that is made by a "
    "script often has its files at data.hub_revision=refs/convert/parquet), name splits that it "
    "has (data.train, data.val, data.test), ask on its page for access, log in if it is not public "
    "(hf auth login, or the variable HF_TOKEN), or download its files and name their folder: "
    "data.path=FOLDER"
)


def open_split(corpus: CorpusConfig, split: object) -> datasets.Dataset:
    """Open a split of `corpus.hub`.

    Args:
        corpus: names the data set.
        split: a split, or an expression that `datasets` understands, such as `train[:1%]`.

    Raises:
        DataError: the data set, its configuration or the split does not exist or may not be read;
            or the hub is out of reach and no copy was downloaded before.
    """
    _hush()
    builder = _local(corpus) or _of_hub(corpus)
    known = builder.info.splits or getattr(builder.config, "data_files", None) or ()
    for part in str(split).split("+"):
        name = part.partition("[")[0].strip()
        if known and name not in (*known, "all"):
            raise DataError(
                f"data.hub={corpus.hub} has no split {name!r}; it has: "
                f"{', '.join(map(repr, known))}. Set data.train, data.val and data.test"
            )
    with _explained(str(corpus.hub)):
        builder.download_and_prepare()
        return builder.as_dataset(split=str(split))


def read_hub(dataset: datasets.Dataset, columns: tuple[str, str], name: str) -> Iterator[Pair]:
    """Yield (source, target) of every row, spaces at the ends removed.

    Args:
        dataset: as `open_split` returned it; its rows are mapped from files, not read at once.
        columns: names of the two columns; inside a struct `translation.en`, or just `en`.
        name: name of the data set in errors.

    Raises:
        DataError: a column is missing or holds no text.
    """
    for table in dataset.with_format("arrow").iter(BATCH):
        places = find_columns(table.schema, columns, name)
        for source, target in arrow_rows(table, places, columns, name):
            yield source.strip(), target.strip()


def fingerprint(dataset: datasets.Dataset) -> str:
    """Return a short text that differs if the rows do.

    It depends on the data set's commit, configuration and split (for a local folder: on its files
    and their times of change).
    """
    return f"{dataset._fingerprint}-{len(dataset)}"


def _local(corpus: CorpusConfig) -> Any:
    """Return the builder of a local folder; None for a data set of the hub."""
    folder = Path(str(corpus.hub)).expanduser()
    if folder.is_dir():
        with _explained(str(corpus.hub)):
            # After files change, `datasets` would still return its old copy. The state of the
            # files, as a description, makes another configuration, whose name must not be None.
            config = datasets.load_dataset_builder(str(folder), corpus.hub_config).config
            return datasets.load_dataset_builder(
                str(folder), config.name, description=_state(folder)
            )
    if folder.is_absolute() or str(corpus.hub).startswith(".") or len(folder.parts) > 2:
        raise DataError(
            f"data.hub={corpus.hub} is not a folder (looked at {folder.absolute()}), and sets of "
            "the hub are called OWNER/NAME: correct data.hub"
        )
    return None


def _state(folder: Path) -> str:
    """Return a short text that differs if a file of the folder does."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            state = path.stat()
            digest.update(
                f"{path.relative_to(folder)}:{state.st_size}:{state.st_mtime_ns}\n".encode()
            )
    return digest.hexdigest()


def _of_hub(corpus: CorpusConfig) -> Any:
    """Return a hub data set's builder; if the hub is out of reach, that of a downloaded copy."""
    name, why = str(corpus.hub), _unreachable()
    with _explained(f"{name} (the hub cannot be used: {why})" if why else name):
        builder = datasets.load_dataset_builder(
            name, corpus.hub_config, revision=corpus.hub_revision
        )
        if isinstance(builder, Cache):
            # `datasets` takes the latest copy, whatever its revision.
            if corpus.hub_revision and builder.hash != _commit(corpus):
                raise ValueError(f"the copy is not of data.hub_revision={corpus.hub_revision}")
            _warn_once(
                f"The hub cannot be used ({why}): reading the copy of {name} downloaded before, "
                f"{builder.cache_dir}"
            )
    return builder


@functools.cache
def _unreachable() -> str | None:
    """Explain why the hub cannot be used; None = it answers.

    The hub is asked once, since `datasets` would try six times for each file before it looks at
    its copy.
    """
    if datasets.config.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        huggingface_hub.get_session().head(datasets.config.HF_ENDPOINT, timeout=TIMEOUT_SECONDS)
    except Exception as error:  # from any library below
        datasets.config.HF_HUB_OFFLINE = True
        return f"{type(error).__name__}: {error}"
    return None


def _commit(corpus: CorpusConfig) -> str | None:
    """Return the commit that `hub_revision` named when the hub was last asked for it."""
    card = huggingface_hub.try_to_load_from_cache(
        str(corpus.hub), "README.md", repo_type="dataset", revision=corpus.hub_revision
    )
    return Path(card).parent.name if isinstance(card, str) else corpus.hub_revision


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn a library's error into a `DataError` that quotes it and says what to look at.

    Errors of the memory and the disk say nothing about the set, so they get other advice.
    """
    try:
        yield
    except Exception as error:  # from many libraries below `datasets`
        cause = error.__cause__ or error
        if isinstance(cause, MemoryError) or getattr(cause, "errno", None) in DISK:
            raise DataError(
                f"data.hub={name}: {cause or 'memory ran out'}. Make room in "
                f"{datasets.config.HF_DATASETS_CACHE}, or choose another folder, HF_HOME=FOLDER"
            ) from error
        made = isinstance(error, DatasetGenerationError)  # this kind does not say what failed
        said = textwrap.shorten(str(cause if made else error), WORDS)
        raise DataError(
            f"data.hub={name} cannot be read: {type(error).__name__}: {said}. {ADVICE}"
        ) from error


def _hush() -> None:
    """Keep requests and retries out of the log; show progress bars on a terminal only."""
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for library in (datasets, huggingface_hub):
        logging.getLogger(library.__name__).setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
        disable_progress_bars()
