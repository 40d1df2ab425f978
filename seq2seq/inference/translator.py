"""The translator: text in, text out, on any trained bundle."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

from seq2seq.bundle.find import GENERAL, shipped_model
from seq2seq.config import DecodeConfig
from seq2seq.data.annotations import PLACEHOLDERS, TERM, escaped
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.request import IdPair
from seq2seq.errors import UserError, nearest
from seq2seq.inference.alignment import Alignment, Links
from seq2seq.inference.engines import Engine, Progress, load_engine
from seq2seq.inference.pipeline import BLOCK, Pipeline, backwards
from seq2seq.inference.text import NAMES, SOURCE_LANGUAGE
from seq2seq.inference.text.casing import Casing
from seq2seq.inference.text.fallback import Degeneration
from seq2seq.inference.text.markup import Markup
from seq2seq.inference.text.placeholders import Placeholders
from seq2seq.inference.text.segmentation import Layout, Segmentation
from seq2seq.inference.text.step import Normalisation, Step
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.text.typography import FrenchPrint, PlainMarks, plain
from seq2seq.inference.text_search import TextSearch
from seq2seq.inference.translation import (
    PairScore,
    Translation,
    readable,
    readable_list,
    readable_pairs,
    refuse_single_text,
)
from seq2seq.text import normaliser

log = logging.getLogger(__name__)

REPORTED = 5  # texts of a translator whose notes are logged
# Names of steps that a keyword of `translate` turns off.
OFF = {"protect": {"casing", "typography", "markup", "quotation", "placeholders"},
       "rescue": {"degeneration"}, "align": {"alignment"}, "split": {"segmentation"}}  # fmt: skip


class Translator:
    """Translates texts; `Translator.load(path)` makes one. Threads may share it.

    Args:
        engine: searches on token ids.
        vocabularies: of its source and its target.
        decode: search settings.
        normalise: what was done to the sources it was trained on (`seq2seq/text.py`).
        normalise_target: what was done to the targets; None = the same.
        languages: codes of source and target.
    """

    def __init__(
        self,
        engine: Engine,
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        normalise: Sequence[str] = (),
        normalise_target: Sequence[str] | None = None,
        languages: tuple[str, str] = ("en", "fr"),
    ):
        self.engine, self.vocabularies, self.decode = engine, vocabularies, decode
        self.languages = languages
        self._normalise = normaliser(normalise)
        self._normalise_target = normaliser(
            normalise if normalise_target is None else normalise_target
        )
        tokens = set(vocabularies.source.names())
        self._knows_placeholders = tokens.issuperset(PLACEHOLDERS)
        self._knows_terms = TERM in tokens
        self._search = TextSearch(engine, vocabularies)
        self._noted = count(1)  # texts with notes; threads may count with it at the same time

    def steps(
        self, terms: Terminology, without: Iterable[str] = (), *, typography: bool = False
    ) -> list[Step]:
        """What is done to a sentence, in the order of the way to the search; back, the last first.

        Before them `Segmentation` cuts a text into sentences. After the search `Fallback` asks
        again for what these steps find at fault.
        """
        own, out = self.languages, set(without)
        every = [
            Casing(own),
            PlainMarks(),
            Alignment(self.vocabularies, self.as_read, lambda word: self.as_written(plain(word))),
            *[FrenchPrint()] * (typography and own[1] == "fr"),
            Markup(self.vocabularies, self.as_read, "quotation" not in out),
            Normalisation(self.as_read),
            Placeholders(own, terms.spans),
            Degeneration(own),
            terms,
        ]
        return [step for step in every if step.name not in out]

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path] | None = None,
        device: str = "auto",
        *,
        engine: str = "torch",
        precision: str = "auto",
        cuda_graphs: bool = False,
    ) -> Translator:
        """Read the bundle in `path`, or of the run `path`; several are searched as an ensemble.

        The first of several gives the search settings.

        Args:
            path: or the name of a shipped model; for the engine ctranslate2 also what
                `scripts/export.py` wrote. None = the shipped model, `general`: unlike the command
                `translate`, a program gets the same one whatever runs are near.
            device: auto, cpu or cuda.
            engine: torch; ctranslate2, which is faster and knows fewer settings; or auto, which is
                ctranslate2 where that is installed and can run the model on this device.
            precision: of the arithmetic, see `engines/torch.py`; for the engine ctranslate2 by the
                names of `CTranslate2Engine`.
            cuda_graphs: steps of the search are replayed as CUDA graphs (`cuda_graph.py`): on a
                GPU, faster for small batches once the first of each size has been recorded.

        Raises:
            BundleError: nothing usable is there, or the vocabularies of several differ.
            UserError: the device, the engine or the precision is not there, or has no CUDA graphs.
        """
        if path is None:
            path = shipped_model() or GENERAL  # whose absence is told as that of any model
        paths = [path] if isinstance(path, str | Path) else list(path)
        runs, vocabularies, made = load_engine(paths, device, engine, precision, cuda_graphs)
        return cls(
            runs, vocabularies, made.decode, made.normalise, made.normalise_target, made.languages
        )

    def translate(
        self,
        texts: Sequence[str],
        *,
        split: bool = True,
        protect: bool = True,
        rescue: bool = True,
        typography: bool = False,
        terms: Mapping[str, str] | None = None,
        banned: Sequence[str] = (),
        prefix: str = "",
        align: bool = False,
        source_language: str = "check",
        without: Iterable[str] = (),
        progress: Progress = None,
        **settings: Any,
    ) -> list[Translation]:
        """The best translation of each text, in order.

        Empty texts come back empty. What had to be done beside a plain search stands in
        `Translation.notes`; of the translator's first few texts it is also logged. A sentence that
        has no room for the prefix is translated without it, and that is noted.

        Args:
            texts: English, of any length. A sentence that is longer than the model's limit is cut
                at punctuation or spaces.
            split: lines and sentences are translated one by one, and joined as they were; else
                each text at once, as the lines of a corpus.
            protect: markup and symbols come back in their places (`markup.py`), list markers and
                outer space, too; numbers, links and placeholders as they were (`placeholders.py`),
                unless a term replaces them; what is all in capitals comes back in capitals.
            rescue: what is degenerate is translated again in other ways (`fallback.py`).
            typography: apostrophes, quotation marks and spaces as French is printed, also without
                `protect`.
            terms: target phrases for source phrases, such as `{"house": "demeure"}`.
            banned: target phrases that no translation should contain, such as `["maison"]`, nor
                words that begin with one. The search never writes a phrase, as it is given or with
                a first capital, in the subwords that the vocabulary cuts it into. It may in
                others, or in other capitals: such translations come last, and note what they hold.
            prefix: the translation of each text begins so.
            align: also find which words translate each other (`Translation.alignment`).
            progress: called with the number of pieces of text that were just translated.
            source_language: check notes a text that is surely in another language, leave does not
                translate it either, trust does not look.
            without: names of steps that are left out (`NAMES`).
            settings: of `DecodeConfig` by name, such as `beam=5, n_best=3`; the others are as the
                model was validated. With `max_ratio=0` the translation of a sentence has at most
                `max_extra` tokens, the end mark among them, whatever is done to it.

        Raises:
            UserError: a setting or a step is not known, or does not go with another; something is
                no list of texts; a term is empty, or holds what is banned.
            RequestError: what is banned stands in the prefix.
        """
        off = {"protect": protect, "rescue": rescue, "align": align, "split": split}
        out = _known(without).union(*(OFF[name] for name, on in off.items() if not on))
        if source_language not in SOURCE_LANGUAGE:
            known = ", ".join(SOURCE_LANGUAGE)
            raise UserError(f"source_language={source_language}: choose {known}")
        texts = readable_list("texts", texts)
        asked = self._terms({} if "terminology" in out else terms or {}, banned)
        pipeline = Pipeline(
            self.steps(asked, out, typography=typography), self._search, self._settings(settings),
            asked, "fallback" not in out, self._knows_placeholders, progress,
        )  # fmt: skip
        segmentation = Segmentation(
            lambda piece: self._length(piece, "casing" not in out), self.engine.max_length,
            split="segmentation" not in out, protect=protect, languages=self.languages,
            source_language="trust" if "language" in out else source_language,
        )  # fmt: skip
        layouts = [segmentation.before(text) for text in texts]
        found = iter(pipeline(_with_prefix(layouts, readable(prefix))))
        best = [
            segmentation.after([next(found) for _ in layout.pieces], layout, pipeline.decode.n_best)
            if layout.pieces
            else self._untouched(text, layout)
            for text, layout in zip(texts, layouts, strict=True)
        ]
        self._report(texts, best)
        return best

    def _terms(self, terms: Mapping[str, str], banned: Sequence[str]) -> Terminology:
        phrases = {readable(source): readable(target) for source, target in terms.items()}
        return Terminology(phrases, readable_list("banned", banned), inline=self._knows_terms)

    def translate_corpus(
        self, lines: Sequence[str], *, progress: Progress = None, **settings: Any
    ) -> list[Translation]:
        """The translations that validation and evaluation score: what the search finds, as it is.

        Lines are neither split nor protected, and nothing is rescued, which would make weak models
        look better than they are and their validations take three times as long.
        """
        return self.translate(
            lines, split=False, protect=False, rescue=False, source_language="trust",
            progress=progress, **settings,
        )  # fmt: skip

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        """The translations of any number of texts, about a thousand of which are in memory."""
        refuse_single_text("texts", texts)
        rest = iter(texts)
        while block := list(islice(rest, BLOCK)):
            yield from self.translate(block, **settings)

    def score(
        self, pairs: Sequence[tuple[str, str]], ids: Sequence[IdPair] | None = None
    ) -> list[PairScore]:
        """How likely the model finds given translations (source, target).

        Args:
            pairs: of texts.
            ids: of their subwords, if they are known, as `encode` gives them.

        Raises:
            UserError: a side is longer than the model's limit.
        """
        words = [len(target.split()) for _, target in readable_pairs(pairs)]
        return self._search.score(self.encode(pairs) if ids is None else ids, words)

    def encode(self, pairs: Sequence[tuple[str, str]]) -> Sequence[IdPair]:
        """The subwords of given translations, as the model reads and writes them."""
        return self.vocabularies.encode_pairs(readable_pairs(pairs), self.as_read, self.as_written)

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Which words of given translations (source, target) translate each other.

        Words are what `str.split` finds, read without inline tags. A pair that is longer than the
        model's limit has no links.
        """
        pairs = readable_pairs(pairs)
        step = Alignment(self.vocabularies, self.as_read, self.as_written)
        found = [[Translation(target, None)] for _, target in pairs]
        sources = [source for source, _ in pairs]
        return [one.alignment for [one] in backwards(self.engine, step, sources, found)]

    def as_read(self, text: str) -> str:
        """A source as the model reads it: without outer space, and normalised as in training."""
        read = self._normalise(readable(text)).strip()
        return escaped(read) if self._knows_placeholders or self._knows_terms else read

    def as_written(self, text: str) -> str:
        """A target as the model learnt to write it, likewise."""
        return self._normalise_target(readable(text)).strip()

    def _settings(self, changes: dict[str, Any]) -> DecodeConfig:
        known = [setting.name for setting in dataclasses.fields(DecodeConfig)]
        for name in changes:
            if name not in known:
                raise UserError(f"decode setting {name} is not known: {nearest(name, known)}")
        given = {name: value for name, value in changes.items() if value is not None}
        if "beam" not in given:  # as many hypotheses as are asked for
            given["beam"] = max(self.decode.beam, given.get("n_best", 1))
        return dataclasses.replace(self.decode, **given)

    def _length(self, piece: str, small: bool) -> int:
        """A bound on the tokens of a piece without markup, 0 if there is nothing to read."""
        read = self.as_read(piece)
        if small:
            read, _ = Casing(self.languages).before(read)
        # A token has a byte at least. Most texts are short enough in any case: cutting them
        # into tokens, which the search does again, takes much longer than counting bytes.
        most, limit = len(read.encode()) + 1 if read else 0, self.engine.max_length
        return most if most < limit else len(self.vocabularies.source.encode([read])[0])

    def _untouched(self, text: str, layout: Layout) -> Translation:
        """What has nothing to translate: as it is, or nothing if the model would read nothing."""
        same = layout.fill([]) if self.as_read(text) else ""
        return Translation(same, None).noted(*layout.notes)

    def _report(self, texts: Sequence[str], found: Sequence[Translation]) -> None:
        """Warn of what was noted, of the first few texts of all calls."""
        for text, one in zip(texts, found, strict=True):
            if one.notes:
                number = next(self._noted)
                if number <= REPORTED:
                    log.warning("%s (%s...)", "; ".join(one.notes), " ".join(text[:40].split()))
                elif number == REPORTED + 1:
                    log.warning("further notes stand in Translation.notes, and in --json")


def _with_prefix(layouts: Sequence[Layout], prefix: str) -> list[tuple[str, str]]:
    """The pieces of all texts; the translation of the first of each begins with the prefix."""
    return [
        (piece, "" if number else prefix)
        for layout in layouts
        for number, piece in enumerate(layout.pieces)
    ]


def _known(names: Iterable[str]) -> frozenset[str]:
    """Names of steps, which are told from mistakes."""
    for name in (found := frozenset(names)):
        if name not in NAMES:
            raise UserError(f"step {name} is not known: {nearest(name, NAMES)}")
    return found
