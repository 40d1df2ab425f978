"""From a corpus to token ids on disk: cleaned, without duplicates, tokenised, reported on.

    <cache>/prepared/<name>-<fingerprint>/
      text/           cleaned pairs in parts (parts.py), and which of them are duplicates
      vocabulary-*/   tokenizer.json
      ids-*/          token ids in shards (shards.py); report.txt, .json and .html

The fingerprint covers the content of every input and every setting that decides the text; the
names of the other folders those that decide the vocabulary and the ids. What is there and whole is
not made again: an interrupted preparation continues, and a damaged file is replaced.
"""

from __future__ import annotations

import functools
import json
import logging
import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from seq2seq.config import CleaningConfig, DataConfig, TokenizerConfig
from seq2seq.data.cleaning import Cleaner
from seq2seq.data.corpus import Pair
from seq2seq.data.duplicates import repeated_rows
from seq2seq.data.fingerprint import cache_folder, fingerprint, text_fingerprint
from seq2seq.data.mixture import weigh_members
from seq2seq.data.parts import EXAMPLES, all_parts, clean_sources, read_keys, read_texts
from seq2seq.data.report import Report, read_report, write_report
from seq2seq.data.shards import (
    Shards,
    facts_file,
    ids_table,
    is_whole,
    read_facts,
    read_table,
    write_json,
    write_table,
)
from seq2seq.data.sources import check_chosen, evaluation_pairs, find_sources, text_bytes
from seq2seq.data.summary import (
    cleaning_figures,
    overlap,
    random_pairs,
    token_figures,
    vocabulary_figures,
)
from seq2seq.data.vocabularies import Vocabularies, given_vocabularies
from seq2seq.data.workers import in_parallel
from seq2seq.errors import DataError, UserError, command_line
from seq2seq.files import alone

log = logging.getLogger(__name__)

FORMAT = 1  # of the prepared files; part of the fingerprint
CLEANED = 0.6  # bytes on disk for each byte of text, compressed
IDS = {"bpe": 0.7, "unigram": 0.7, "byte": 2.2}  # bytes of token ids for each byte of text
VOCABULARY = "vocabulary"  # folder beside the ids
CONTENT = "content.json"  # in folders of vocabularies: the hash of what they should be


@dataclass
class Prepared:
    """What training reads.

    Attributes:
        folder: of the ids and the report.
        fingerprint: of everything that decides them.
        vocabularies: of both languages.
        variants: shards of each segmentation; one, unless BPE-dropout makes more.
        members: name, first row, last row of each corpus of a mixture.
        report: what was kept, dropped and found.
    """

    folder: Path
    fingerprint: str
    vocabularies: Vocabularies
    variants: list[list[Path]]
    members: list[tuple[str, int, int]]
    report: Report


def prepare(
    data: DataConfig,
    cleaning: CleaningConfig,
    tokenizer: TokenizerConfig,
    vocabularies: Vocabularies | None = None,
    task: int = 0,
    tasks: int = 1,
) -> Prepared | None:
    """Prepare the training text of a corpus, or find it prepared.

    Args:
        data, cleaning, tokenizer: the settings.
        vocabularies: those of a run that goes on, instead of learning them.
        task, tasks: this is one of several programs that share the work.

    Returns:
        None if other tasks have work left to do.

    Raises:
        DataError: the text cannot be read, nothing of it is left, or the disk is too small.
    """
    try:
        work = Preparation(data, cleaning, tokenizer, vocabularies)
        if found := work.find():  # all processes of a run look at the same time
            return found
        work.folder.mkdir(parents=True, exist_ok=True)
        with _alone(work.folder, task, tasks):
            return work.find() or work.run(task, tasks)
    except BrokenProcessPool as error:
        raise DataError(
            "a process that prepared the corpus was killed, most likely for want of memory: start "
            f"again with fewer, such as data.processes=1 ({error})"
        ) from error
    except OSError as error:
        raise DataError(
            f"the corpus cannot be prepared: {error}. What is done stays; make room or mend the "
            "folder and start again, or choose another one: data.cache=FOLDER"
        ) from error


class Preparation:
    """The steps from the sources of a corpus to shards of token ids."""

    def __init__(
        self,
        data: DataConfig,
        cleaning: CleaningConfig,
        tokenizer: TokenizerConfig,
        vocabularies: Vocabularies | None,
    ):
        self.data, self.cleaning, self.tokenizer = data, cleaning, tokenizer
        cache = cache_folder(data.cache)
        self.sources = find_sources(data, "train")
        self.evaluation = evaluation_pairs(data) if "leakage" in cleaning.filters else {}
        self.settings = {
            "data": asdict(data),
            "cleaning": asdict(cleaning),
            "tokenizer": asdict(tokenizer),
        }
        text = {
            "format": FORMAT,
            "sources": [[s.member, s.identity(cache / "known-files")] for s in self.sources],
            "evaluation": [text_fingerprint(chain.from_iterable(pairs))
                           for pairs in self.evaluation.values()],
            "cleaning": self.settings["cleaning"],
        }
        self.text_fingerprint = fingerprint(text)
        self.folder = cache / "prepared" / f"{data.name}-{self.text_fingerprint}"
        self.text = self.folder / "text"
        self.repeated_file = self.text / "duplicates.arrow"
        self.given = vocabularies or given_vocabularies(tokenizer)
        self.seconds: dict[str, float] = {}

    def find(self) -> Prepared | None:
        """What an earlier preparation left, if it is whole."""
        vocabularies = self._vocabularies()
        if vocabularies is None:
            return None
        folder = self._ids_folder(vocabularies)
        try:
            shards = json.loads((folder / "shards.json").read_text(encoding="utf-8"))
            variants = [[folder / name for name in names] for names in shards["variants"]]
            members = [(str(name), first, last) for name, first, last in shards["members"]]
            report = read_report(folder)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        for path in chain.from_iterable(variants):
            if not is_whole(path):
                log.info("%s is damaged or missing", path)
                return None
        if report.mixture != (mixture := self._mixture(members)):  # other weights than last time
            report.mixture, report.settings = mixture, self.settings
            with suppress(OSError):  # the folder may be someone else's
                write_report(report, folder)
        return Prepared(folder, report.fingerprint, vocabularies, variants, members, report)

    def run(self, task: int, tasks: int) -> Prepared | None:
        """Do what is left to do, or this task's part of it."""
        log.info("preparing   %s in %s", self.data.name, self.folder)
        with self._timed("clean"):
            parts = self._clean(task, tasks)
        if parts is None:
            log.info("task %d of %d has cleaned its part; others have not", task, tasks)
            return None
        flat = list(chain.from_iterable(parts))
        self._check_members(parts)
        with _alone(self.folder, 0, 1, name="vocabulary"):
            with self._timed("duplicates"):
                self._mark_duplicates(flat)
            with self._timed("tokenizer"):
                vocabularies = self._vocabularies() or self._learn(flat)
            self._store(vocabularies, self._ids_folder(vocabularies) / VOCABULARY)
        with self._timed("tokenise"):
            variants = self._tokenise(flat, vocabularies, task, tasks)
        if not all(facts_file(path).exists() for path in chain.from_iterable(variants)):
            log.info("task %d of %d has tokenised its part; others have not", task, tasks)
            return None
        with _alone(self.folder, 0, 1, name="report"):
            return self._finish(parts, vocabularies, variants)

    def _clean(self, task: int, tasks: int) -> list[list[Path]] | None:
        self._check_disk()
        self.text.mkdir(exist_ok=True)
        pairs = chain.from_iterable(self.evaluation.values())
        processes = self.data.processes
        cleaner = Cleaner(self.cleaning, pairs)
        clean_sources(self.sources, cleaner, self.text, processes, task, tasks)
        return all_parts(self.text, len(self.sources))

    def _check_disk(self) -> None:
        """Refuse to start what cannot end for want of room."""
        text = text_bytes(self.sources)
        variants = self.tokenizer.dropout_variants if self.tokenizer.dropout else 1
        there = sum(file.stat().st_size for file in self.text.glob("*"))
        if (vocabularies := self._vocabularies()) is not None:
            there += sum(file.stat().st_size for file in self._ids_folder(vocabularies).glob("*"))
        needed = text * (CLEANED + IDS[self.tokenizer.kind] * variants) - there
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise DataError(
                f"preparing data={self.data.name} takes about {needed / 2**30:.1f} GiB in "
                f"{self.folder}, where {free / 2**30:.1f} GiB are free: make room, choose another "
                "folder (data.cache=FOLDER), or do without (data.streaming=true)"
            )

    def _mark_duplicates(self, parts: list[Path]) -> None:
        if "duplicate" not in self.cleaning.filters or is_whole(self.repeated_file):
            return
        repeated = repeated_rows(parts)
        examples: list[Pair] = []
        for path, rows in zip(parts, repeated, strict=True):
            if len(rows) and len(examples) < EXAMPLES:
                examples += zip(*read_texts(path, rows[:EXAMPLES]), strict=True)
        columns = {"row": pa.array(list(repeated), pa.list_(pa.int64()))}
        facts = {"pairs": sum(map(len, repeated)), "examples": examples[:EXAMPLES]}
        write_table(self.repeated_file, pa.table(columns), facts)

    def _repeated(self, parts: list[Path]) -> list[np.ndarray]:
        """Rows of each part that are left out."""
        if "duplicate" not in self.cleaning.filters:
            return [np.zeros(0, np.int64)] * len(parts)
        rows = read_table(self.repeated_file)["row"]
        return [row.values.to_numpy() for row in rows]

    def _vocabularies(self) -> Vocabularies | None:
        if self.given is not None:
            return self.given
        return _stored(self._vocabulary_folder())

    def _vocabulary_folder(self) -> Path:
        names = ("kind", "vocab_size", "joint", "symbols", "sample")
        key = fingerprint([self.settings["tokenizer"][name] for name in names])
        return self.folder / f"vocabulary-{key}"

    def _learn(self, parts: list[Path]) -> Vocabularies:
        """Learn the vocabulary from pairs whose keys are below a bound: a random sample."""
        repeated = self._repeated(parts)
        kept = sum(map(_kept, parts)) - sum(map(len, repeated))
        bound = (2**64 - 1) * min(self.tokenizer.sample, kept) // kept

        def sample() -> Iterator[Pair]:
            for path, left_out in zip(parts, repeated, strict=True):
                rows = np.flatnonzero(read_keys(path) <= np.uint64(bound))
                rows = np.setdiff1d(rows, left_out, assume_unique=True)
                yield from zip(*read_texts(path, rows), strict=True)

        learned = Vocabularies.train(sample, self.tokenizer)
        self._store(learned, self._vocabulary_folder())
        return learned

    def _store(self, vocabularies: Vocabularies, folder: Path) -> None:
        """Write vocabularies unless they are there; the note of what they are comes last."""
        if _stored(folder) is None:
            folder.mkdir(parents=True, exist_ok=True)
            vocabularies.save(folder)
            write_json(folder / CONTENT, vocabularies.content_hash())

    def _check_members(self, parts: list[list[Path]]) -> None:
        """Find a member of a mixture without text before more work is done."""
        kept: dict[str, int] = {}
        for source, paths in zip(self.sources, parts, strict=True):
            kept[source.member] = kept.get(source.member, 0) + sum(map(_kept, paths))
        if not all(kept.values()):
            check_chosen(self.sources, self.data)
        self._check_kept(sum(kept.values()))
        for member, pairs in kept.items():
            if pairs == 0:
                raise DataError(
                    f"data.members.{member} is empty: its files hold no pair that cleaning= keeps. "
                    "Leave it out, or look at its files"
                )

    def _check_kept(self, kept: int) -> None:
        if kept == 0:
            raise DataError(
                f"data={self.data.name} has no usable train pair: the filters of cleaning= left "
                f"nothing of {', '.join(source.name for source in self.sources[:3])}. "
                f"{command_line('prepare', f'data={self.data.name}', 'cleaning=none')} shows what "
                "is there"
            )

    def _ids_folder(self, vocabularies: Vocabularies) -> Path:
        t = self.tokenizer
        variants = [t.dropout, t.dropout_variants] if t.dropout else []
        return self.folder / f"ids-{fingerprint([vocabularies.content_hash(), *variants])}"

    def _tokenise(
        self, parts: list[Path], vocabularies: Vocabularies, task: int, tasks: int
    ) -> list[list[Path]]:
        """The shards of each variant, made where they are missing or damaged."""
        folder = self._ids_folder(vocabularies)
        t = self.tokenizer
        names = [f"{v:03d}-" for v in range(t.dropout_variants)] if t.dropout else [""]
        variants = [[folder / f"{name}{path.name}" for path in parts] for name in names]
        jobs = [
            (path, rows, shard, folder / VOCABULARY, t.dropout, number)
            for number, shards in enumerate(variants)
            for part, (path, rows, shard) in enumerate(
                zip(parts, self._repeated(parts), shards, strict=True)
            )
            if part % tasks == task and not is_whole(shard)
        ]
        with tqdm(total=len(jobs), desc="tokenising", unit="part", disable=None) as bar:
            for _ in in_parallel(tokenise_part, jobs, self.data.processes):
                bar.update()
        return variants

    def _finish(
        self, parts: list[list[Path]], vocabularies: Vocabularies, variants: list[list[Path]]
    ) -> Prepared:
        folder = self._ids_folder(vocabularies)
        shards = iter(variants[0])
        sizes: dict[str, int] = {}
        for source, paths in zip(self.sources, parts, strict=True):
            pairs = sum(read_facts(shard)["pairs"] for shard in islice(shards, len(paths)))
            sizes[source.member] = sizes.get(source.member, 0) + pairs
        self._check_kept(sum(sizes.values()))
        for member, size in sizes.items():
            if size == 0:
                raise DataError(
                    f"data.members.{member} is empty: all of its pairs stand in a member before it "
                    "too. Leave it out"
                )
        ends = np.cumsum([0, *sizes.values()]).tolist()
        members = list(zip(sizes, ends[:-1], ends[1:], strict=True))
        report = self._report(parts, vocabularies, Shards(variants[0]), members)
        write_report(report, folder)
        for name, dropped in report.dropped.items():
            if dropped > report.read / 2:
                hint = "are the two sides swapped? " if name == "wrong_language" else ""
                log.warning(
                    "the filter %s dropped %d of %d pairs: %slook at its examples in %s",
                    *(name, dropped, report.read, hint, folder / "report.html"),
                )
        names = [[path.name for path in paths] for paths in variants]
        write_json(folder / "shards.json", {"variants": names, "members": members})
        return Prepared(folder, report.fingerprint, vocabularies, variants, members, report)

    def _report(
        self,
        parts: list[list[Path]],
        vocabularies: Vocabularies,
        shards: Shards,
        members: list[tuple[str, int, int]],
    ) -> Report:
        flat = list(chain.from_iterable(parts))
        repeated = self.repeated_file if "duplicate" in self.cleaning.filters else None
        return Report(
            name=self.data.name,
            fingerprint=self.fingerprint(vocabularies),
            settings=self.settings,
            files=[
                {
                    "member": source.member,
                    "file": source.name,
                    "pairs": sum(read_facts(path)["read"] for path in paths),
                }
                for source, paths in zip(self.sources, parts, strict=True)
            ],
            **cleaning_figures(flat, repeated, self.cleaning),
            **token_figures(shards),
            vocabulary=vocabulary_figures(shards, vocabularies),
            overlap=overlap(flat, self.evaluation, Cleaner(self.cleaning)),
            samples=[list(pair) for pair in random_pairs(flat, self._repeated(flat))],
            mixture=self._mixture(members),
            seconds=self.seconds,
        )

    def _mixture(self, members: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
        weighed = weigh_members(self.data, members)
        total = sum(member.size for member in weighed)
        return [
            {
                "member": member.name,
                "pairs": member.last - member.first,
                "weight": round(member.weight, 4),
                "share": round(member.size / total, 4),
            }
            for member in weighed
        ]

    def fingerprint(self, vocabularies: Vocabularies) -> str:
        """Of everything that decides the ids."""
        return f"{self.text_fingerprint}-{self._ids_folder(vocabularies).name[4:]}"

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - started, 3)


def _kept(part: Path) -> int:
    facts = read_facts(part)
    return int(facts["read"] - sum(facts["dropped"].values()))


def tokenise_part(
    part: Path, left_out: np.ndarray, shard: Path, vocabulary: Path, dropout: float, variant: int
) -> None:
    """Write the ids of a part's pairs, all but the duplicates."""
    sources, targets = read_texts(part)
    kept = np.ones(len(sources), bool)
    kept[left_out] = False
    texts = [[text for text, keep in zip(side, kept, strict=True) if keep]
             for side in (sources, targets)]
    vocabularies = _load(vocabulary)
    rng = random.Random(f"{part.name} {variant}")
    ids = [
        tokenizer.encode(side, dropout, rng)
        for side, tokenizer in zip(texts, (vocabularies.source, vocabularies.target), strict=True)
    ]
    size = max(vocabularies.source.vocab_size, vocabularies.target.vocab_size)
    facts = {
        "pairs": len(texts[0]),
        "words": [sum(len(text.split()) for text in side) for side in texts],
        "characters": [sum(map(len, side)) for side in texts],
    }
    write_table(shard, ids_table(ids[0], ids[1], size), facts)


def _stored(folder: Path) -> Vocabularies | None:
    """The vocabularies of a folder, if they are there and whole."""
    try:
        content = json.loads((folder / CONTENT).read_text(encoding="utf-8"))
        vocabularies = Vocabularies.load(folder)
    except (OSError, ValueError, UserError):
        return None
    return vocabularies if vocabularies.content_hash() == content else None


@functools.cache
def _load(folder: Path) -> Vocabularies:
    return Vocabularies.load(folder)


@contextmanager
def _alone(folder: Path, task: int, tasks: int, name: str = "task") -> Iterator[None]:
    """Keep other processes from doing the same at the same time; they wait."""
    path = folder / (f"lock-{name}-{task}-of-{tasks}" if tasks > 1 else f"lock-{name}")
    why = "another process prepares the same data"
    with alone(path, lambda: log.info("waiting     %s (%s)", why, path)):
        yield
