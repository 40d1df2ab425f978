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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain, groupby
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
from seq2seq.data.stats import JOINED, Losses, overlap, token_figures, vocabulary_figures
from seq2seq.data.steps import clean_block, cut_source, sample_pairs, tokenise_part
from seq2seq.data.store import Store
from seq2seq.data.vocabularies import FILES, Vocabularies, given_vocabularies
from seq2seq.errors import DataError, UserError, command_line
from seq2seq.files import lock, remove_leftovers

log = logging.getLogger(__name__)

ALGORITHM = 1  # version of the code that decides the ids; part of the fingerprint
TEXT, DUPLICATES = "text", "duplicates.arrow"
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
                found = work.find(discard=True) or work.fetch()
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
            "sources": [
                [source.member, own]
                for source, own in zip(self.sources, self.identities, strict=True)
            ],
            "evaluation": [
                text_fingerprint(chain.from_iterable(pairs)) for pairs in self.evaluation.values()
            ],
            "cleaning": cleaning.deciding(),
        }
        self.text_fingerprint = fingerprint(text)
        name = f"{data.name}-{self.text_fingerprint}"
        self.folder = cache / "corpora" / name
        self.text = self.folder / TEXT
        self.repeated = self.text / DUPLICATES
        self.compared = [name for name in cleaning.filters if name in KEYS]
        self.given = vocabularies or given_vocabularies(tokenizer)
        self.cleaner = Cleaner(cleaning, chain.from_iterable(self.evaluation.values()))
        self.losses = [Losses() for _ in self.sources]
        self.seconds: dict[str, float] = {}

    def find(self, discard: bool = False) -> Prepared | None:
        """Return an earlier preparation, if it is complete; `discard` removes damaged files."""
        vocabularies = self._vocabularies()
        if vocabularies is None:
            return None
        folder = self._ids_folder(vocabularies)
        said = read_manifest(folder, self.data.verify, discard)
        if said is None:
            return None
        try:
            report = read_report(folder)
        except (OSError, ValueError, TypeError):
            return None
        mixture = mixture_figures(self.data, said["members"])
        if report.mixture != mixture:  # other weights than last time
            report.mixture, report.settings = mixture, self._settings()
            with suppress(OSError):  # the folder may belong to another user
                write_report(report, folder)
        return Prepared(folder, said, vocabularies, report)

    def fetch(self) -> Prepared | None:
        """Fetch the prepared data from the store; None if it lacks them."""
        if self.store.url is None:
            return None
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

    def _save(self, vocabularies: Vocabularies, folder: Path) -> None:
        vocabularies.save(folder)
        self.store.put(*(folder / name for name in FILES))

    def run(self, engine: Engine) -> Prepared:
        """Run the steps that are left to do, and return the prepared data."""
        log.info("preparing   %s in %s", self.data.name, self.folder)
        self.text.mkdir(exist_ok=True)
        with self._timed("clean"):
            files = self._clean(engine)
        parts = [self.text / file["file"] for file in files]
        with self._timed("duplicates"):
            repeated = [np.zeros(0, np.int64)] * len(parts)
            if self.compared:
                fetch = functools.partial(self.store.get_written, self.text, files)
                repeated = mark_duplicates(
                    engine, parts, fetch=fetch, file=self.repeated, reasons=self.compared,
                    threads=self.data.processes,
                )  # fmt: skip
        if read_manifest(self.text) is None:
            found = [file_entry(self.repeated)] if self.compared else []
            write_manifest(self.text, [*files, *found], {"settings": self._settings()})
        members = dict.fromkeys(source.member for source in self.sources)
        kept = {member: self._check_losses(member, files, repeated) for member in members}
        self._check_kept(kept)
        with self._timed("tokenizer"):
            vocabularies = self._vocabularies()
            if vocabularies is None:
                sample = functools.partial(sample_pairs, parts, repeated, self.tokenizer.sample)
                vocabularies = Vocabularies.train(sample, self.tokenizer)
                self._save(vocabularies, self._vocabulary_folder())
        self._save(vocabularies, self._ids_folder(vocabularies) / VOCABULARY)
        with self._timed("tokenise"):
            shards = self._tokenise(engine, files, repeated, vocabularies)
        return self._finish(files, repeated, vocabularies, shards, kept)

    def _clean(self, engine: Engine) -> list[File]:
        """Clean the text, count the losses, and return the parts' entries in corpus order."""
        if said := read_manifest(self.text, self.data.verify, discard=True):
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
        blocks = (block for i, own in enumerate(self.sources) for block in cut_source(own, i))
        with tqdm(desc="cleaning", unit=" pairs", unit_scale=True, disable=None) as bar:
            parts = engine.each(step, ((block,) for block in blocks))
            for source, own in groupby(parts, lambda part: part[0]["source"]):
                losses, checked = self.losses[source], (self.sources[source].name, self.cleaning)
                for file, facts in own:
                    losses.add(facts)
                    losses.check_language(*checked)
                    found.append(file)
                    self.store.get_written(self.text, [file])
                    bar.update(facts["read"])
                losses.check(*checked)
        return found

    def _identity(self, source: Source) -> list[Any]:
        return source.identity(self.store.cache / "known-files", self.data.verify)

    def _refuse_changes(self) -> None:
        """Refuse files that are not what they were; another change often breaks a line, too."""
        for source, before in zip(self.sources, self.identities, strict=True):
            [plain], same = without_variants([source]), False
            with suppress(OSError):  # the file is gone
                same = not isinstance(plain, FileSource) or self._identity(source) == before
            if not same:
                self.store.remove(*self.text.glob("*.arrow"))
                raise DataError(
                    f"{source.name} changed while it was prepared, so what was made of it is "
                    "removed: start again when nothing writes to it"
                )

    def _check_losses(
        self, member: str, files: Sequence[File], repeated: Sequence[np.ndarray]
    ) -> int:
        """Check the losses of a member as a whole, and return how many pairs of it are kept."""
        own = [i for i, source in enumerate(self.sources) if source.member == member]
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        name, losses = self.sources[own[0]].name + more, Losses()
        for i in own:
            losses.add(vars(self.losses[i]))
        mine = [(self.text / file["file"], rows) for file, rows in zip(files, repeated, strict=True)
                if self.sources[file["source"]].member == member]  # fmt: skip
        parts, doubled = [path for path, _ in mine], [rows for _, rows in mine]
        twice = sum(map(len, doubled))
        kept = losses.read - losses.dropped.total() - twice
        judged = kept and "wrong_language" in self.cleaning.filters
        sample = sample_pairs(parts, doubled, JOINED) if judged else ()
        losses.check_language(name, self.cleaning, sample)
        if kept and twice:
            i = next(i for i, rows in enumerate(doubled) if len(rows))
            pairs = zip(*read_texts(parts[i], doubled[i][:2]), strict=True)
            reason = " or ".join(self.compared)
            losses.dropped[reason], losses.examples[reason] = twice, [*map(list, pairs)]
        losses.check(name, self.cleaning)
        return kept

    def _check_kept(self, kept: Mapping[str, int]) -> None:
        """Refuse a corpus without a pair after cleaning, or a member without a pair of its own."""
        data = self.data
        if not all(kept.values()):
            check_chosen(self.sources, data)
        files = ", ".join(source.name for source in self.sources[:3])
        if not any(own.read for own in self.losses):
            raise DataError(
                f"data={data.name} has no usable train pair: there is no text in {files}. Look at "
                "the files, or name others (data.path, data.train)"
            )
        if not any(kept.values()):
            command = command_line("prepare", *settings_of_corpus(data), "cleaning=none")
            dropped = sum((own.dropped for own in self.losses), Counter[str]())
            reasons = ", ".join(f"{name} {count:,}" for name, count in dropped.most_common())
            raise DataError(
                f"data={data.name} has no usable train pair: the filters of cleaning= left nothing "
                f"of {files} ({reasons}). {command} shows what is there"
            )
        for member, pairs in kept.items():
            if pairs == 0:
                raise DataError(
                    f"data.members.{member} is empty: it has no text, or all pairs that cleaning= "
                    "keeps of it are in members before it. Look at its files, or leave it out"
                )

    def _vocabularies(self) -> Vocabularies | None:
        if self.given is not None:
            return self.given
        try:
            return Vocabularies.load(self._vocabulary_folder())
        except UserError:
            return None

    def _vocabulary_folder(self) -> Path:
        names = ("kind", "vocab_size", "joint", "symbols", "sample")
        key = fingerprint([getattr(self.tokenizer, name) for name in names])
        return self.folder / f"vocabulary-{key}"

    def _ids_folder(self, vocabularies: Vocabularies) -> Path:
        t = self.tokenizer
        variants = [t.dropout, t.dropout_variants] if t.dropout else []
        return self.folder / f"ids-{fingerprint([vocabularies.content_hash(), *variants])}"

    def _tokenise(
        self,
        engine: Engine,
        parts: Sequence[File],
        repeated: Sequence[np.ndarray],
        vocabularies: Vocabularies,
    ) -> list[File]:
        """Tokenise the parts, and return the shards' entries, the first segmentation first."""
        t, folder = self.tokenizer, self._ids_folder(vocabularies)
        names = [f"{v:03d}-" for v in range(t.dropout_variants)] if t.dropout else [""]
        jobs = [
            (part, left_out, folder / f"{name}{part['file']}", variant)
            for variant, name in enumerate(names)
            for part, left_out in zip(parts, repeated, strict=True)
        ]
        step = functools.partial(
            tokenise_part, store=self.store, text=self.text, vocabulary=folder / VOCABULARY,
            content_hash=vocabularies.content_hash(), dropout=t.dropout,
        )  # fmt: skip
        files = engine.each(step, jobs)
        found = list(tqdm(files, "tokenising", total=len(jobs), unit="part", disable=None))
        self.store.get_written(folder, found)
        return found

    def _finish(
        self,
        parts: Sequence[File],
        repeated: Sequence[np.ndarray],
        vocabularies: Vocabularies,
        shards: Sequence[File],
        kept: Mapping[str, int],
    ) -> Prepared:
        """Write the lengths, the report and, last, the manifest."""
        folder = self._ids_folder(vocabularies)
        variants = [
            [file["file"] for file in shards[first : first + len(parts)]]
            for first in range(0, len(shards), len(parts))
        ]
        lengths = [
            write_lengths(folder / f"{number:03d}-lengths.npy", [folder / name for name in names])
            for number, names in enumerate(variants)
        ]
        ends = np.cumsum([0, *kept.values()]).tolist()
        for file in lengths:
            held = len(np.load(folder / file["file"], mmap_mode="r"))
            if held != ends[-1]:
                raise DataError(
                    f"{folder} has {held} pairs where the cleaned text has {ends[-1]}: remove the "
                    "folder, here and in data.store, and start again"
                )
        members = list(zip(kept, ends[:-1], ends[1:], strict=True))
        said = {
            "fingerprint": f"{self.text_fingerprint}-{folder.name[4:]}",
            "vocabulary": vocabularies.content_hash(),
            "pairs": ends[-1],
            "members": members,
            "settings": self._settings(),
            "variants": variants,
            "lengths": [file["file"] for file in lengths],
        }
        report = self._report(parts, repeated, vocabularies, said)
        write_report(report, folder)
        for name, dropped in report.dropped.items():
            if dropped > report.read / 2:
                log.warning(
                    "the filter %s dropped %d of %d pairs: look at its examples in %s",
                    *(name, dropped, report.read, folder / "report.html"),
                )
        names = [f"{VOCABULARY}/{name}" for name in FILES if (folder / VOCABULARY / name).exists()]
        files = [*shards, *lengths, *(file_entry(folder / name, name) for name in names)]
        write_manifest(folder, files, said)
        self._put(folder, files)
        return Prepared(folder, said, vocabularies, report)

    def _report(
        self,
        parts: Sequence[File],
        repeated: Sequence[np.ndarray],
        vocabularies: Vocabularies,
        said: dict[str, Any],
    ) -> Report:
        folder, paths = self._ids_folder(vocabularies), [self.text / file["file"] for file in parts]
        first = [folder / name for name in said["variants"][0]]
        shards = Shards(first, folder / said["lengths"][0])
        total, filters = Losses(), self.cleaning.filters
        for own in self.losses:
            total.add(vars(own))
        if self.compared:
            total.add({"read": 0, "leaked": (), **read_facts(self.repeated)})
        return Report(
            name=self.data.name,
            fingerprint=said["fingerprint"],
            settings=said["settings"],
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
            samples=[list(pair) for pair in sample_pairs(paths, repeated, SAMPLES)],
            mixture=mixture_figures(self.data, said["members"]),
            seconds=self.seconds,
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "data": asdict(self.data),
            "cleaning": asdict(self.cleaning),
            "tokenizer": asdict(self.tokenizer),
        }

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - started, 3)
