"""The translator: it translates texts with any trained bundle."""

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

REPORTED = 5  # a translator logs the notes of so many texts
# The steps that each keyword of `translate` turns off.
OFF = {"protect": {"casing", "typography", "markup", "quotation", "placeholders"},
       "rescue": {"degeneration"}, "align": {"alignment"}, "split": {"segmentation"}}  # fmt: skip


class Translator:
    """Translates texts; `Translator.load(path)` makes one. Threads may share it.

    Args:
        engine: runs the model, on token ids.
        vocabularies: of source and target.
        decode: search settings.
        normalise: the normalisation of the training sources (`seq2seq/text.py`).
        normalise_target: the normalisation of the training targets; None = the same.
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
        self._noted = count(1)  # texts with notes; threads may count with it at the same time

    def steps(
        self, terms: Terminology, without: Iterable[str] = (), *, typography: bool = False
    ) -> list[Step]:
        """Return the steps of a sentence in their order before the search; after it, they run in
        reverse.

        Before these steps, `Segmentation` cuts a text into sentences. After the search,
        `fallback.py` searches again for sentences in which these steps find faults.
        """
        own, out = self.languages, set(without)
        learnt = self._knows_placeholders  # such a model is taken to have learnt symbols, too
        every = [
            Casing(own),
            PlainMarks(),
            Alignment(self.vocabularies, self.as_read, lambda word: self.as_written(plain(word))),
            *[FrenchPrint()] * (typography and own[1] == "fr"),
            Markup(
                self.vocabularies,
                self.as_read,
                quotations="quotation" not in out,
                symbols=not learnt,
            ),
            Normalisation(self.as_read),
            Placeholders(own, terms.spans, symbols=learnt),
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
        """Make a translator from a bundle or a run; several models form an ensemble.

        The first model of an ensemble gives the search settings.

        Args:
            path: folder of a bundle or a run, or the name of a shipped model; for the engine
                ctranslate2 also a model that `scripts/export.py` wrote. None = the shipped model
                `general`: unlike the command `translate`, a program always gets the same model.
            device: auto, cpu or cuda.
            engine: torch; ctranslate2, which is faster and knows fewer settings; or auto, which is
                ctranslate2 if that is installed and can run the model on this device.
            precision: of the arithmetic, see `engines/torch.py`; for the engine ctranslate2, see
                `CTranslate2Engine`.
            cuda_graphs: replay the decoder's layers as CUDA graphs (`cuda_graph.py`). On a GPU,
                small batches are faster once the first batch of each size has been recorded.

        Raises:
            BundleError: there is no usable bundle, or the vocabularies of several differ.
            UserError: the device, engine or precision is not available, or has no CUDA graphs.
        """
        if path is None:
            path = shipped_model() or GENERAL  # if missing, an error says so
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
        """Return the best translation of each text, in order.

        An empty text gets an empty translation. `Translation.notes` tells what was done beyond a
        plain search; the notes of the translator's first few texts are also logged. A sentence that
        leaves no room for the prefix is translated without it, and a note says so.

        Args:
            texts: English, of any length. A sentence that is longer than the model's limit is cut
                at punctuation or spaces.
            split: translate lines and sentences one by one, and join them as they were; else
                translate each text at once, like a line of a corpus.
            protect: put markup back in its places (`markup.py`); keep list markers and outer
                space; keep numbers, links, symbols and placeholders (`placeholders.py`) unless a
                term replaces them; translate a sentence in capitals into capitals.
            rescue: if a translation is degenerate, translate again in other ways (`fallback.py`).
            typography: write apostrophes, quotation marks and spaces as French prints them, also
                without `protect`.
            terms: target phrases for source phrases, such as `{"house": "demeure"}`.
            banned: target phrases such as `["maison"]`. No translation should contain one, or a
                word that begins with one. The search never writes a phrase, as given or with a
                first capital, in the subwords into which the vocabulary cuts it. It may write the
                phrase in other subwords or other capitals: such translations come last, and a note
                quotes the phrase.
            prefix: the beginning of each text's translation.
            align: also find which words translate each other (`Translation.alignment`).
            progress: called with the number of pieces of text that were just translated.
            source_language: check: note a text that is surely in another language; leave: do not
                translate such a text, either; trust: do not look.
            without: names of steps to leave out (`NAMES`).
            settings: of `DecodeConfig` by name, such as `beam=5, n_best=3`; the others are those
                of the model's validation. With `max_ratio=0` the translation of a sentence always
                has at most `max_extra` tokens, end mark included.

        Raises:
            UserError: a setting or a step is unknown, or conflicts with another; `texts` or
                `banned` is no list of texts; a term is empty, or contains a banned phrase.
            RequestError: the prefix contains a banned phrase.
        """
        off = {"protect": protect, "rescue": rescue, "align": align, "split": split}
        out = set(without)
        _refuse_unknown("step", out, NAMES)
        out.update(*(OFF[name] for name, on in off.items() if not on))
        if source_language not in SOURCE_LANGUAGE:
            known = ", ".join(SOURCE_LANGUAGE)
            raise UserError(f"source_language={source_language}: choose {known}")
        texts = readable_list("texts", texts)
        given = {} if "terminology" in out else terms or {}
        phrases = {readable(source): readable(target) for source, target in given.items()}
        asked = Terminology(phrases, readable_list("banned", banned), inline=self._knows_terms)
        pipeline = Pipeline(
            self.engine, self.vocabularies, self.steps(asked, out, typography=typography),
            self._settings(settings), asked, fallback="fallback" not in out,
            placeholders=self._knows_placeholders, language=self.languages[1], progress=progress,
        )  # fmt: skip
        segmentation = Segmentation(
            lambda piece: self._length(piece, "casing" not in out), self.engine.max_length,
            split="segmentation" not in out, protect=protect, languages=self.languages,
            symbols=not self._knows_placeholders,
            source_language="trust" if "language" in out else source_language,
        )  # fmt: skip
        layouts = [segmentation.before(text) for text in texts]
        pieces = [
            (piece, "" if number else readable(prefix))  # only a text's first piece has a prefix
            for layout in layouts
            for number, piece in enumerate(layout.pieces)
        ]
        found = iter(pipeline(pieces))
        best = [
            segmentation.after([next(found) for _ in layout.pieces], layout, pipeline.decode.n_best)
            if layout.pieces
            else self._untouched(text, layout)
            for text, layout in zip(texts, layouts, strict=True)
        ]
        self._report(texts, best)
        return best

    def translate_corpus(
        self, lines: Sequence[str], *, progress: Progress = None, **settings: Any
    ) -> list[Translation]:
        """Translate for validation and evaluation: return what the search finds, unchanged.

        Lines are neither split nor protected. Nothing is rescued: that would make weak models look
        better than they are, and their validations take three times as long.
        """
        return self.translate(
            lines, split=False, protect=False, rescue=False, source_language="trust",
            progress=progress, **settings,
        )  # fmt: skip

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        """Translate any number of texts, with about a thousand in memory at a time."""
        refuse_single_text("texts", texts)
        rest = iter(texts)
        while block := list(islice(rest, BLOCK)):
            yield from self.translate(block, **settings)

    def score(
        self, pairs: Sequence[tuple[str, str]], ids: Sequence[IdPair] | None = None
    ) -> list[PairScore]:
        """Return how likely the model finds given translations (source, target).

        Args:
            pairs: of texts.
            ids: token ids of the pairs as `encode` returns them, if known.

        Raises:
            UserError: a side is longer than the model's limit.
        """
        words = [len(target.split()) for _, target in readable_pairs(pairs)]
        ids = self.encode(pairs) if ids is None else ids
        for number, sides in enumerate(ids, 1):
            if (longest := max(map(len, sides))) >= self.engine.max_length:
                raise UserError(
                    f"pair {number} has a side of {longest + 1} tokens, and the model's limit is "
                    f"{self.engine.max_length}: score its sentences one by one"
                )
        each = zip(ids, self.engine.score(ids), words, strict=True)
        return [
            PairScore(sum(own), self.vocabularies.target.tokens(target), own, number)
            for (_, target), own, number in each
        ]

    def encode(self, pairs: Sequence[tuple[str, str]]) -> Sequence[IdPair]:
        """Return the token ids of given translations, as the model reads and writes them."""
        return self.vocabularies.encode_pairs(readable_pairs(pairs), self.as_read, self.as_written)

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Return the links between words of given translations (source, target).

        Words are what `str.split` finds, without inline tags. A pair that is longer than the
        model's limit gets no links.
        """
        pairs = readable_pairs(pairs)
        step = Alignment(self.vocabularies, self.as_read, self.as_written)
        found = [[Translation(target, None)] for _, target in pairs]
        sources = [source for source, _ in pairs]
        return [one.alignment for [one] in backwards(self.engine, step, sources, found)]

    def as_read(self, text: str) -> str:
        """Return a source as the model reads it: without outer space, normalised as in training."""
        read = self._normalise(readable(text)).strip()
        return escaped(read) if self._knows_placeholders or self._knows_terms else read

    def as_written(self, text: str) -> str:
        """Return a target as the model writes it: no outer space, normalised as in training."""
        return self._normalise_target(readable(text)).strip()

    def _settings(self, changes: dict[str, Any]) -> DecodeConfig:
        known = [setting.name for setting in dataclasses.fields(DecodeConfig)]
        _refuse_unknown("decode setting", changes, known)
        given = {name: value for name, value in changes.items() if value is not None}
        if "beam" not in given:  # the beam must hold `n_best` hypotheses
            given["beam"] = max(self.decode.beam, given.get("n_best", 1))
        return dataclasses.replace(self.decode, **given)

    def _length(self, piece: str, small: bool) -> int:
        """Bound the tokens of a piece without markup from above; 0 if there is nothing to read."""
        read = self.as_read(piece)
        if small:
            read, _ = Casing(self.languages).before(read)
        # A token has at least one byte. So the number of bytes shows that most texts are short
        # enough, and counting bytes is much faster than tokenizing, which the search repeats.
        most, limit = len(read.encode()) + 1 if read else 0, self.engine.max_length
        return most if most < limit else len(self.vocabularies.source.encode([read])[0])

    def _untouched(self, text: str, layout: Layout) -> Translation:
        """Return a text without pieces unchanged, or empty if the model would read nothing."""
        same = layout.fill([]) if self.as_read(text) else ""
        return Translation(same, None).with_notes(*layout.notes)

    def _report(self, texts: Sequence[str], found: Sequence[Translation]) -> None:
        """Log the notes of the first few texts of all calls as warnings."""
        for text, one in zip(texts, found, strict=True):
            if one.notes:
                number = next(self._noted)
                if number <= REPORTED:
                    log.warning("%s (%s...)", "; ".join(one.notes), " ".join(text[:40].split()))
                elif number == REPORTED + 1:
                    log.warning("further notes are in Translation.notes, and in --json")


def _refuse_unknown(kind: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{kind} {name} is not known: {nearest(name, known)}")
