"""The sources that a corpus's settings name: files, splits of the hub, members of a mixture.

`find_sources` lists the sources of a split; `load_pairs` reads a small split whole.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair, Where, are_numbers, find_files, kind_of, read_pairs
from seq2seq.data.fingerprint import cache_folder, file_fingerprint
from seq2seq.data.ranges import Range, cut_parquet, cut_text
from seq2seq.data.variants import varied
from seq2seq.data.word_links import WordLinks
from seq2seq.errors import DataError
from seq2seq.lines import PACKED

log = logging.getLogger(__name__)

NAMING = (  # settings that say which text a corpus is, beside its folder
    *("hub", "hub_config", "hub_revision", "train", "val", "test"),
    *("source_column", "target_column"),
)


@dataclass(frozen=True)
class FileSource:
    """A file of pairs, or two files of plain text."""

    member: str  # of the mixture
    files: tuple[Path, ...]
    columns: tuple[str, str]
    where: Where = field(default_factory=dict)  # values of the rows to read
    rows: Range | None = None  # read only rows in this range

    @property
    def name(self) -> str:
        return " + ".join(str(path) for path in self.files)

    def pairs(self) -> Iterator[Pair]:
        return read_pairs(self.files, self.columns, self.where, self.rows)

    def cut(self, rows: int, size: int) -> list[FileSource]:
        """Cut it into ranges of at most `rows` rows and about `size` bytes.

        Compressed and unreadable files give no ranges; reading an unreadable file from its
        beginning raises an error that says why.
        """
        kind = kind_of(self.files[0])
        try:
            if kind == "parquet":
                found = cut_parquet(self.files[0], rows, size)
            elif any(path.suffix in PACKED for path in self.files):
                return []
            else:
                header = kind == "tsv" and not are_numbers(self.columns)
                found = cut_text(self.files, int(header), rows, size)
            return [replace(self, rows=own) for own in found]
        except (pyarrow.ArrowException, OSError):
            return []

    def identity(self, memory: Path, verify: bool = False) -> list[Any]:
        """Return all that decides the pairs, as a JSON value; see `file_fingerprint`."""
        files = (file_fingerprint(path, memory, verify) for path in self.files)
        chosen = [dict(self.where)] if self.where else []
        return [list(self.columns), *chosen, *files]


@dataclass(frozen=True)
class HubSource:
    """A split of a data set of the Hugging Face hub."""

    member: str
    corpus: CorpusConfig
    split: str

    @property
    def name(self) -> str:
        known = " ".join(filter(None, (self.corpus.hub, self.corpus.hub_config)))
        return f"{known} ({self.split})"

    @property
    def columns(self) -> tuple[str, str]:
        return self.corpus.source_column, self.corpus.target_column

    def pairs(self) -> Iterator[Pair]:
        from seq2seq.data import hub  # slow to import, and few corpora need it

        return hub.read_hub(hub.open_split(self.corpus, self.split), self.columns, self.name)

    def identity(self, memory: Path, verify: bool = False) -> list[Any]:
        from seq2seq.data import hub

        return [list(self.columns), hub.fingerprint(hub.open_split(self.corpus, self.split))]


@dataclass(frozen=True)
class VariedSource:
    """A source of training text that gives some pairs a second time, see `varied`."""

    source: FileSource | HubSource
    shares: Mapping[str, float]
    links: Callable[[], WordLinks]

    @property
    def member(self) -> str:
        return self.source.member

    @property
    def name(self) -> str:
        return self.source.name

    def pairs(self) -> Iterator[Pair]:
        return varied(self.source.pairs(), self.shares, self.links)

    def identity(self, memory: Path, verify: bool = False) -> list[Any]:
        return [*self.source.identity(memory, verify), dict(self.shares)]


Source = FileSource | HubSource | VariedSource


def find_sources(config: DataConfig, split: str) -> list[Source]:
    """Return the sources of a split (`train`, `val` or `test`), in the order of the settings.

    Raises:
        DataError: the settings name no source, or a source that does not exist.
    """
    sources = [
        source
        for name, corpus in _corpora(config, split).items()
        for source in _sources_of(corpus, name, split, config)
    ]
    if not sources:
        raise DataError(
            f"data={config.name} names no {split} text: give data.{split}=FILE (parquet, TSV, JSON "
            f"lines, or [source.txt,target.txt]), or for a mixture data.members.NAME.{split}"
        )
    return sources


def settings_of_corpus(data: DataConfig) -> list[str]:
    """Return the settings that name this corpus on a command line."""
    own = data.path is not None and not (data.members or data.urls or data.hub or data.sacrebleu)
    found = [f"data={'files' if own else data.name}"]
    if data.path is not None:
        found.append(f"data.path={data.path}")
    if own and data.name != "files":
        found.append(f"data.name={data.name}")
    if own or data.name in ("files", "hub"):  # these presets know no corpus by themselves
        for name in NAMING:
            if (value := getattr(data, name)) != getattr(CorpusConfig, name):
                found.append(f"data.{name}={typed(value)}")
    return found


def typed(value: Any) -> str:
    """Write a value of a setting as on a command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(typed, value))}]"
    text = "null" if value is None else str(value)
    return text if re.fullmatch(r"[\w./*@-]+", text) else f'"{text}"'


def names_split(config: DataConfig, split: str) -> bool:
    """Tell whether a corpus names text of a split, and whether it is there."""
    try:
        return bool(find_sources(config, split))
    except DataError:
        return False


def _corpora(config: DataConfig, split: str) -> dict[str, CorpusConfig]:
    """Return the corpora that make up a split: the settings' own, or else members, by name."""
    if getattr(config, split) is not None:
        return {config.name: config}
    return {
        name: member
        for name, member in config.members.items()
        if getattr(member, split) is not None
    }


def without_variants(sources: Sequence[Source]) -> list[FileSource | HubSource]:
    """Return the sources without variants, whose pairs are as they were written, each once."""
    return [one.source if isinstance(one, VariedSource) else one for one in sources]


def load_pairs(config: DataConfig, split: str) -> list[Pair]:
    """Read all pairs of a split, as they are in the files.

    Raises:
        DataError: files are missing or unreadable.
    """
    sources = find_sources(config, split)
    pairs = [pair for source in sources for pair in source.pairs()]
    if not pairs:
        check_chosen(sources, config)
    return pairs


def check_chosen(sources: Sequence[Source], config: DataConfig) -> None:
    """Refuse a member whose `where` chooses no row.

    Raises:
        DataError: no source of a member has a chosen row.
    """
    for member, own in groupby(without_variants(sources), attrgetter("member")):
        files = [source for source in own if isinstance(source, FileSource) and source.where]
        if files and not any(True for source in files for _ in source.pairs()):
            setting = f"data.members.{member}" if member in config.members else "data"
            raise DataError(
                f"{setting}.where={dict(files[0].where)} chooses no row of {files[0].name}: give "
                "values that its columns have"
            )


def evaluation_pairs(config: DataConfig) -> dict[str, list[Pair]]:
    """Read the pairs of the splits that training text is compared with.

    If a corpus names text that does not exist, it is skipped with a warning, since it may be meant
    for training alone. Text that exists must be readable.
    """
    found: dict[str, list[Pair]] = {}
    for split in ("val", "test"):
        for name, corpus in _corpora(config, split).items():
            try:
                sources = _sources_of(corpus, name, split, config)
            except DataError as error:
                log.warning("training text is not compared with %s text of %s: %s",
                            split, name, error)
                continue
            pairs = found.setdefault(split, [])
            pairs.extend(pair for source in sources for pair in source.pairs())
    return found


def _sources_of(
    corpus: CorpusConfig, name: str, split: str, config: DataConfig
) -> list[Source]:
    """Return the sources of `config` itself or of a member; errors name the member's settings."""
    try:
        plain = _plain_sources(corpus, name, split, config.cache)
    except DataError as error:
        if corpus is config:
            raise
        raise DataError(
            f"member {name} (its own settings are data.members.{name}.*): {error}"
        ) from error
    if split != "train" or not corpus.variants:
        return [*plain]
    links = cache(lambda: WordLinks(plain[0].pairs()))  # learned only if a variant needs them
    return [VariedSource(source, corpus.variants, links) for source in plain]


def _plain_sources(
    corpus: CorpusConfig, member: str, split: str, cache: str | None
) -> list[FileSource | HubSource]:
    spec = getattr(corpus, split)
    if corpus.path is None and corpus.hub is not None:
        if corpus.hub == "OWNER/NAME":  # as in configs/data/hub.yaml
            raise DataError("data=hub does not know which: name a data set, data.hub=OWNER/NAME")
        return [HubSource(member, corpus, str(spec))]
    columns = (corpus.source_column, corpus.target_column)
    if corpus.path is None and corpus.sacrebleu:
        from seq2seq.data.download import sacrebleu_files

        return [FileSource(member, sacrebleu_files(spec, columns), columns)]
    folder = corpus.path
    if folder is None and corpus.urls:
        from seq2seq.data.download import fetch

        folder = str(fetch(corpus.urls, cache_folder(cache) / "downloads" / corpus.name))
    elif folder and corpus.origin and not Path(folder).expanduser().is_dir():
        raise DataError(
            f"data={corpus.name} is not in {folder}: get it ({corpus.origin}) and name its "
            "folder, data.path=FOLDER"
        )
    try:
        files = find_files(spec, folder, columns)
    except DataError as error:
        if folder is not None or spec != getattr(CorpusConfig, split):
            raise
        raise DataError(
            f"data={corpus.name} does not say where its {split} text is: name the folder of the "
            f"corpus, data.path=FOLDER, or the file, data.{split}=FILE"
        ) from error
    size = 2 if kind_of(files[0]) == "text" else 1
    if corpus.where and size == 2:
        raise DataError(
            f"{files[0]} is plain text, which has no column {next(iter(corpus.where))!r} to choose "
            "lines by: leave data.where out, or give a table (parquet, TSV, JSON lines)"
        )
    groups = [tuple(files[first : first + size]) for first in range(0, len(files), size)]
    return [FileSource(member, group, columns, corpus.where) for group in groups]
