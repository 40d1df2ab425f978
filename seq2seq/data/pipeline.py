"""From a corpus to token ids on disk: sources -> clean -> duplicates -> vocabulary -> ids.

    <cache>/corpora/<name>-<fingerprint>/
      text/           cleaned pairs in parts, and which of them are duplicates
      vocabulary-*/   tokenizer.json
      ids-*/          token ids in shards, their lengths; report.json, and its page .html

The fingerprint covers the content of every input and every setting that decides the text. The names
of the vocabulary and ids folders cover the settings that decide these. A complete folder of text or
ids has a manifest. An interrupted preparation resumes after the files that it wrote.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from seq2seq.config import CleaningConfig, DataConfig, TokenizerConfig
from seq2seq.data.cleaning import Cleaner
from seq2seq.data.dedup import KEYS, mark_duplicates
from seq2seq.data.engines import Engine, LocalEngine
from seq2seq.data.fingerprint import cache_folder, fingerprint, text_fingerprint
from seq2seq.data.manifest import NAME as MANIFEST
from seq2seq.data.manifest import File, parse_manifest, read_manifest, write_manifest
from seq2seq.data.mixture import mixture_figures
from seq2seq.data.prepared import VOCABULARY, Prepared
from seq2seq.data.report import NAME as REPORT
from seq2seq.data.report import Report, read_report, write_report
from seq2seq.data.shards import Shards, file_entry, read_facts, read_texts, write_lengths
from seq2seq.data.sources import (
    FileSource,
    Source,
    check_chosen,
    evaluation_pairs,
    find_sources,
    settings_of_corpus,
    without_variants,
)
from seq2seq.data.stats import (
    JOINED,
    Losses,
    add_up,
    overlap,
    token_figures,
    vocabulary_figures,
)
from seq2seq.data.steps import Part, clean_block, cut_source, sample_pairs, tokenise_part
from seq2seq.data.store import Store
from seq2seq.data.vocabularies import FILES, Vocabularies, given_vocabularies
from seq2seq.errors import DataError, UserError, command_line
from seq2seq.files import lock, remove_leftovers

log = logging.getLogger(__name__)

ALGORITHM = 1  # version of the code that decides the ids; part of the fingerprint
DUPLICATES = "duplicates.arrow"
SAMPLES = 10  # about so many pairs in the report


def prepare(
    data: DataConfig,
    cleaning: CleaningConfig,
    tokenizer: TokenizerConfig,
    vocabularies: Vocabularies | None = None,
    engine: Engine | None = None,
) -> Prepared:
    """Prepare the training text of a corpus, or find it prepared.

    Args:
        data, cleaning, tokenizer: the settings.
        vocabularies: those of a resumed run, instead of learning them.
        engine: runs the steps; None = processes of this machine. With an engine, data found
            prepared are also copied to a store that lacks them.

    Raises:
        DataError: the text cannot be read, cleaning drops nearly all of it, or the disk is full.
    """
    waiting = "waiting     another process prepares the same data (%s)"
    try:
        work = Preparation(data, cleaning, tokenizer, vocabularies)
        found = work.find()  # all processes of a run look at the same time
        if found is None:
            work.folder.mkdir(parents=True, exist_ok=True)
            with lock(work.folder / "lock", lambda: log.info(waiting, work.folder)) as alone:
                for folder in [*work.folder.glob("**/")] if alone else ():
                    remove_leftovers(folder)
                found = work.find() or work.fetch()
                found = found or work.run(engine or LocalEngine(data.processes))
        if engine is not None:  # training needs no store
            work.share(found)
        return found
    except OSError as error:
        raise DataError(
            f"the corpus cannot be prepared: {error}. What is done stays; make room or correct "
            "the folder's permissions, and start again; or choose another folder: data.cache=FOLDER"
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
        self.store = Store(cache, data.store)
        self.sources = find_sources(data, "train")
        compared = "leakage" in cleaning.filters or cleaning.leakage_ngram
        self.evaluation = evaluation_pairs(data) if compared else {}
        self.identities = [self._identity(source) for source in self.sources]
        text = {
            "format": ALGORITHM,
            "sources": self.identities,
            "evaluation": [
                text_fingerprint(chain.from_iterable(pairs)) for pairs in self.evaluation.values()
            ],
            "cleaning": cleaning.deciding(),
        }
        self.text_fingerprint = fingerprint(text)
        self.folder = cache / "corpora" / f"{data.name}-{self.text_fingerprint}"
        self.text = self.folder / "text"
        self.repeated = self.text / DUPLICATES
        self.compared = [name for name in cleaning.filters if name in KEYS]
        self.given = vocabularies or given_vocabularies(tokenizer)
        self.cleaner = Cleaner(cleaning, chain.from_iterable(self.evaluation.values()))
        self.losses = [Losses(source.name) for source in self.sources]
        self.seconds: dict[str, float] = {}
        self.settings = {
            "data": asdict(data), "cleaning": asdict(cleaning), "tokenizer": asdict(tokenizer)
        }  # fmt: skip

    def _identity(self, source: Source) -> list[Any]:
        known = self.store.cache / "known-files"
        return [source.member, source.identity(known, self.data.verify)]

    def find(self) -> Prepared | None:
        """Return an earlier preparation, if it is complete."""
        vocabularies = self._vocabularies()
        if vocabularies is None:
            return None
        folder = self._ids_folder(vocabularies)
        said = read_manifest(folder, self.data.verify)
        if said is None:
            return None
        try:
            report = read_report(folder)
        except (OSError, ValueError, TypeError):
            return None
        mixture = mixture_figures(self.data, said["members"])
        if report.mixture != mixture:  # other weights than last time
            report.mixture, report.settings = mixture, self.settings
            with suppress(OSError):  # the folder may belong to another user
                write_report(report, folder)
        return Prepared(folder, said, vocabularies, report)

    def fetch(self) -> Prepared | None:
        """Fetch the prepared data from the store; None if it lacks them."""
        self.store.get(*(self._vocabulary_folder() / name for name in FILES))
        vocabularies = self._vocabularies()
        if vocabularies is None:
            return None
        folder = self._ids_folder(vocabularies)
        self.store.get(folder / MANIFEST)
        if (said := parse_manifest(folder)) is None:
            return None
        (folder / MANIFEST).unlink()  # it is fetched again last, after the files that it lists
        self.store.get_written(folder, said["files"])
        self.store.get(folder / REPORT, folder / MANIFEST)
        return self.find()

    def share(self, found: Prepared) -> None:
        """Copy prepared data to the store if it lacks them: an earlier copy may have failed."""
        if not self.store.has(found.folder / MANIFEST):
            self._put(found.folder, found.manifest["files"])

    def _put(self, folder: Path, files: Sequence[File]) -> None:
        self.store.put(*(folder / file["file"] for file in files), missing=True)
        self.store.put(*(self._vocabulary_folder() / name for name in FILES), missing=True)
        self.store.put(folder / REPORT, folder / MANIFEST)  # last: then the store has all

    def run(self, engine: Engine) -> Prepared:
        """Run the steps that are left to do, and return the prepared data."""
        log.info("preparing   %s in %s", self.data.name, self.folder)
        self.text.mkdir(exist_ok=True)
        with self._timed("clean"):
            files = self._clean(engine)
        with self._timed("duplicates"):
            parts = self._mark_duplicates(engine, files)
        kept = self._check_members(parts)
        with self._timed("tokenizer"):
            vocabularies = self._vocabularies() or self._learn(parts)
        with self._timed("tokenise"):
            shards = self._tokenise(engine, parts, vocabularies)
        return self._finish(parts, vocabularies, shards, kept)

    def _clean(self, engine: Engine) -> list[File]:
        """Clean the text, count the losses, and return the parts' entries in corpus order."""
        if said := read_manifest(self.text, self.data.verify):
            found = [file for file in said["files"] if file["file"] != DUPLICATES]
            for file in found:
                self.losses[file["source"]].add(read_facts(self.text / file["file"]))
            return found
        try:
            return self._clean_blocks(engine)
        finally:
            self._refuse_changes()

    def _clean_blocks(self, engine: Engine) -> list[File]:
        found: list[File] = []
        step = functools.partial(clean_block, self.cleaner, self.store, self.text)
        blocks = ((block,) for i, own in enumerate(self.sources) for block in cut_source(own, i))
        with tqdm(desc="cleaning", unit=" pairs", unit_scale=True, disable=None) as bar:
            for source, parts in groupby(engine.each(step, blocks), itemgetter("source")):
                losses = self.losses[source]
                for file in parts:
                    self.store.get_written(self.text, [file])
                    losses.add(facts := read_facts(self.text / file["file"]))
                    losses.check_language(self.cleaning)
                    found.append(file)
                    bar.update(facts["read"])
                losses.check(self.cleaning)
        return found

    def _refuse_changes(self) -> None:
        """Refuse files that are not what they were; another change often breaks a line, too."""
        for source, before in zip(self.sources, self.identities, strict=True):
            [plain] = without_variants([source])
            with suppress(OSError):  # the file may be gone
                if not isinstance(plain, FileSource) or self._identity(source) == before:
                    continue
            self.store.remove(*self.text.glob("*.arrow"))
            raise DataError(
                f"{source.name} changed while it was prepared, so what was made of it is "
                "removed: start again when nothing writes to it"
            )

    def _mark_duplicates(self, engine: Engine, files: Sequence[File]) -> list[Part]:
        """Find the pairs that repeat earlier ones; then the cleaned text is complete."""
        paths = [self.text / file["file"] for file in files]
        repeated = [np.zeros(0, np.int64)] * len(files)
        if self.compared:
            fetch = functools.partial(self.store.get_written, self.text, files)
            repeated = mark_duplicates(
                engine, paths, fetch=fetch, file=self.repeated, reasons=self.compared,
                threads=self.data.processes,
            )  # fmt: skip
        written = [*files, *([file_entry(self.repeated)] if self.compared else [])]
        if (parse_manifest(self.text) or {}).get("files") != written:
            write_manifest(self.text, written, {"settings": self.settings})
        return [Part(*one) for one in zip(paths, files, repeated, strict=True)]

    def _check_members(self, parts: Sequence[Part]) -> dict[str, int]:
        """Check the losses of each member as a whole; return how many pairs of each are kept."""
        kept = {}
        for member in dict.fromkeys(source.member for source in self.sources):
            own = [i for i, source in enumerate(self.sources) if source.member == member]
            mine = [part for part in parts if part.entry["source"] in own]
            repeating = [part for part in mine if len(part.left_out)]
            more = f" and {len(own) - 1} more" if len(own) > 1 else ""
            losses = add_up([self.losses[i] for i in own], self.sources[own[0]].name + more)
            twice = sum(len(part.left_out) for part in repeating)
            kept[member] = losses.read - losses.dropped.total() - twice
            losses.check_language(self.cleaning, sample_pairs(mine, JOINED))
            if kept[member] and twice:
                pairs = read_texts(repeating[0].path, repeating[0].left_out[:2])
                reason = " or ".join(self.compared)
                losses.dropped[reason] = twice
                losses.examples[reason] = [*map(list, zip(*pairs, strict=True))]
            losses.check(self.cleaning)
        if not all(kept.values()):
            self._refuse_empty(kept)
        return kept

    def _refuse_empty(self, kept: Mapping[str, int]) -> None:
        """Say why a corpus, or a member, has no pair of its own."""
        check_chosen(self.sources, self.data)
        if any(kept.values()):
            empty = next(member for member, pairs in kept.items() if pairs == 0)
            raise DataError(
                f"data.members.{empty} is empty: it has no text, or all pairs that cleaning= "
                "keeps of it are in members before it. Look at its files, or leave it out"
            )
        total = add_up(self.losses)
        files = ", ".join(source.name for source in self.sources[:3])
        why = f"there is no text in {files}. Look at them, or name others (data.path, data.train)"
        if total.read:
            command = command_line("prepare", *settings_of_corpus(self.data), "cleaning=none")
            reasons = ", ".join(f"{name} {count:,}" for name, count in total.dropped.most_common())
            why = f"filters of cleaning= left nothing of {files} ({reasons}). {command} shows it"
        raise DataError(f"data={self.data.name} has no usable train pair: {why}")

    def _vocabularies(self) -> Vocabularies | None:
        with suppress(UserError):
            return self.given or Vocabularies.load(self._vocabulary_folder())
        return None

    def _learn(self, parts: Sequence[Part]) -> Vocabularies:
        sample = functools.partial(sample_pairs, parts, self.tokenizer.sample)
        vocabularies = Vocabularies.train(sample, self.tokenizer)
        vocabularies.save(self._vocabulary_folder())
        return vocabularies

    def _vocabulary_folder(self) -> Path:
        names = ("kind", "vocab_size", "joint", "symbols", "sample")
        key = fingerprint([getattr(self.tokenizer, name) for name in names])
        return self.folder / f"vocabulary-{key}"

    def _ids_folder(self, vocabularies: Vocabularies) -> Path:
        t = self.tokenizer
        variants = [t.dropout, t.dropout_variants] if t.dropout else []
        return self.folder / f"ids-{fingerprint([vocabularies.content_hash(), *variants])}"

    def _tokenise(
        self, engine: Engine, parts: Sequence[Part], vocabularies: Vocabularies
    ) -> list[list[File]]:
        """Tokenise the parts, and return the entries of the shards of each segmentation."""
        t, folder = self.tokenizer, self._ids_folder(vocabularies)
        vocabularies.save(folder / VOCABULARY)
        self.store.put(*(folder / VOCABULARY / name for name in FILES))
        names = [f"{v:03d}-" for v in range(t.dropout_variants)] if t.dropout else [""]
        jobs = [
            (part, folder / f"{name}{part.path.name}", variant)
            for variant, name in enumerate(names)
            for part in parts
        ]
        step = functools.partial(
            tokenise_part, store=self.store, vocabulary=folder / VOCABULARY,
            content_hash=vocabularies.content_hash(), dropout=t.dropout,
        )  # fmt: skip
        files = engine.each(step, jobs)
        found = list(tqdm(files, "tokenising", total=len(jobs), unit="part", disable=None))
        self.store.get_written(folder, found)
        return [found[first : first + len(parts)] for first in range(0, len(jobs), len(parts))]

    def _finish(
        self,
        parts: Sequence[Part],
        vocabularies: Vocabularies,
        shards: Sequence[Sequence[File]],
        kept: Mapping[str, int],
    ) -> Prepared:
        """Write the lengths, the report and, last, the manifest."""
        folder = self._ids_folder(vocabularies)
        lengths = [
            write_lengths(folder / f"{i:03d}-lengths.npy", [folder / one["file"] for one in files])
            for i, files in enumerate(shards)
        ]
        ends = np.cumsum([0, *kept.values()]).tolist()
        said = {
            "fingerprint": f"{self.text_fingerprint}-{folder.name[4:]}",
            "vocabulary": vocabularies.content_hash(),
            "pairs": ends[-1],
            "members": list(zip(kept, ends[:-1], ends[1:], strict=True)),
            "settings": self.settings,
            "variants": [[file["file"] for file in files] for files in shards],
            "lengths": [file["file"] for file in lengths],
        }
        report = self._report(parts, vocabularies, said)
        write_report(report, folder)
        for name, dropped in report.dropped.items():
            if dropped > report.read / 2:
                log.warning(
                    "the filter %s dropped %d of %d pairs: look at its examples in %s",
                    *(name, dropped, report.read, folder / "report.html"),
                )
        names = [f"{VOCABULARY}/{name}" for name in FILES if (folder / VOCABULARY / name).exists()]
        texts = [file_entry(folder / name, name) for name in names]
        files = [*chain.from_iterable(shards), *lengths, *texts]
        write_manifest(folder, files, said)
        self._put(folder, files)
        return Prepared(folder, said, vocabularies, report)

    def _report(
        self, parts: Sequence[Part], vocabularies: Vocabularies, said: dict[str, Any]
    ) -> Report:
        folder, filters = self._ids_folder(vocabularies), self.cleaning.filters
        first = [folder / name for name in said["variants"][0]]
        shards = Shards(first, folder / said["lengths"][0])
        total = add_up(self.losses)
        if self.compared:
            total.add({"read": 0, "leaked": (), **read_facts(self.repeated)})
        return Report(
            name=self.data.name,
            fingerprint=said["fingerprint"],
            settings=self.settings,
            files=[
                {"member": source.member, "file": source.name, "pairs": own.read,
                 "dropped": dict(own.dropped.most_common())}
                for source, own in zip(self.sources, self.losses, strict=True)
            ],
            read=total.read,
            kept=total.read - total.dropped.total(),
            dropped={name: total.dropped[name] for name in filters},
            examples={name: total.examples.get(name, []) for name in filters},
            **token_figures(shards),
            vocabulary=vocabulary_figures(shards, vocabularies),
            overlap=overlap(total.leaked, self.evaluation, self.cleaner),
            samples=[list(pair) for pair in sample_pairs(parts, SAMPLES)],
            mixture=mixture_figures(self.data, said["members"]),
            seconds=self.seconds,
        )

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - started, 3)
