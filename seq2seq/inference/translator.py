"""The translator: text in, text out, on any trained bundle."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, islice
from pathlib import Path
from typing import Any

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import UserError, nearest
from seq2seq.inference.alignment import Links, align_words, bare_words
from seq2seq.inference.capitals import in_capitals_of, in_small_letters
from seq2seq.inference.engine import Engine, Progress
from seq2seq.inference.given import readable, readable_list, readable_pairs, refuse_single_text
from seq2seq.inference.items import Item, find_items
from seq2seq.inference.joining import join_pieces
from seq2seq.inference.keeping import keep_items
from seq2seq.inference.layout import Layout, lay_out
from seq2seq.inference.loading import load_parts
from seq2seq.inference.rescue import rescue_degenerate
from seq2seq.inference.scoring import PairScore, score_pairs
from seq2seq.inference.shipped import GENERAL, shipped_model
from seq2seq.inference.source import Candidates, Source
from seq2seq.inference.tagging import restore_tags
from seq2seq.inference.tags import take_tags
from seq2seq.inference.terms import Terms
from seq2seq.inference.text_search import TextSearch
from seq2seq.inference.translation import Translation
from seq2seq.inference.typography import printed
from seq2seq.text import normaliser

log = logging.getLogger(__name__)

BLOCK = 1024  # texts of a stream that are searched together; at its end cores wait for each other
REPORTED = 5  # texts of a translator whose notes are logged


class Translator:
    """Translates texts; `Translator.load(path)` makes one. Threads may share it.

    Args:
        engine: searches on token ids.
        vocabularies: of its source and its target.
        decode: search settings.
        normalise: what was done to the sources it was trained on (`seq2seq/text.py`).
        normalise_target: what was done to the targets; None = the same.
    """

    def __init__(
        self,
        engine: Engine,
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        normalise: Sequence[str] = (),
        normalise_target: Sequence[str] | None = None,
    ):
        self.engine, self.vocabularies, self.decode = engine, vocabularies, decode
        self._normalise = normaliser(normalise)
        self._normalise_target = normaliser(
            normalise if normalise_target is None else normalise_target
        )
        self._search = TextSearch(engine, vocabularies)
        self._noted = count(1)  # texts with notes; threads may count with it at the same time

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
            engine: torch or ctranslate2, which is faster and knows fewer settings.
            precision: of the arithmetic, see `precision.prepared`; for the engine ctranslate2 by
                the names of `CTranslate2Engine`.
            cuda_graphs: steps of the search are replayed as CUDA graphs (`cuda_graph.py`): on a
                GPU, faster for small batches once the first of each size has been recorded.

        Raises:
            BundleError: nothing usable is there, or the vocabularies of several differ.
            UserError: the device, the engine or the precision is not there, or has no CUDA graphs.
        """
        if path is None:
            path = shipped_model() or GENERAL  # whose absence is told as that of any model
        paths = [path] if isinstance(path, str | Path) else list(path)
        return cls(*load_parts(paths, device, engine, precision, cuda_graphs))

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
        progress: Progress = None,
        **settings: Any,
    ) -> list[Translation]:
        """The best translation of each text, in order.

        Empty texts come back empty. What had to be done beside a plain search stands in
        `Translation.notes`; of the translator's first few texts it is also logged. Where a
        sentence has no room for its terms and the prefix, it is translated without the terms, or
        without both, and that is noted.

        Args:
            texts: English, of any length. A sentence that is longer than the model's limit is cut
                at punctuation or spaces.
            split: lines and sentences are translated one by one, and joined as they were; else
                each text at once, as the lines of a corpus.
            protect: tags, list markers and outer space come back in their places; numbers, links
                and placeholders as they were (`items.py`), unless a term replaces them; and what
                is all in capitals in capitals (`capitals.py`).
            rescue: what is degenerate is translated again in other ways (`rescue.py`).
            typography: apostrophes, quotation marks and spaces as French is printed.
            terms: target phrases for source phrases, such as `{"house": "demeure"}`.
            banned: target phrases that no translation should contain, such as `["maison"]`, nor
                words that begin with one. The search never writes a phrase, as it is given or with
                a first capital, in the subwords that the vocabulary cuts it into. It may in
                others, or in other capitals: such translations come last, and note what they hold.
            prefix: the translation of each text begins so.
            align: also find which words translate each other (`Translation.alignment`).
            progress: called with the number of pieces of text that were just translated.
            settings: of `DecodeConfig` by name, such as `beam=5, n_best=3`; the others are as the
                model was validated. With `max_ratio=0` the translation of a sentence has at most
                `max_extra` tokens, the end mark among them, whatever is done to it.

        Raises:
            UserError: a setting is not known, or does not go with another; something is no list
                of texts; a term is empty.
            RequestError: what is banned is also required, or stands in the prefix.
        """
        decode = self._settings(settings)
        phrases = Terms(
            {readable(source): readable(target) for source, target in (terms or {}).items()},
            readable_list("banned", banned),
        )
        texts = readable_list("texts", texts)
        layouts = [self._layout(text, split, protect) for text in texts]
        given = [piece for layout in layouts for piece in layout.pieces]
        pieces = [in_small_letters(piece) if protect else piece for piece in given]
        taken = [take_tags(p, self.as_read) if protect else (self.as_read(p), []) for p in pieces]
        starts = {0, *accumulate(len(layout.pieces) for layout in layouts)}
        begun = readable(prefix)
        most = decode.max_extra if decode.max_ratio == 0 else None
        sources = [
            Source(text, begun if i in starts else "", most) for i, (text, _) in enumerate(taken)
        ]

        def again(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
            other = dataclasses.replace(decode, **changes)
            shown = progress and (lambda _: progress(0))
            return self._search(sources, other, phrases, shown)

        def rescued(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
            found = again(sources, **changes)
            return rescue_degenerate(sources, found, again) if rescue else found

        def kept(text: str) -> list[Item]:
            return phrases.untouched(text, find_items(text))

        found = self._search(sources, decode, phrases, progress)
        if rescue:
            found = rescue_degenerate(sources, found, again)
        if protect:
            found = keep_items(sources, found, rescued, kept)
            found = restore_tags(self.engine, self.vocabularies, taken, found)
        if align:
            found = self._aligned(pieces, found)
        if protect:
            found = [in_capitals_of(*each) for each in zip(given, found, strict=True)]
        if typography:
            found = [[printed(one) for one in own] for own in found]
        each = iter(found)
        best = [
            join_pieces(layout, [next(each) for _ in layout.pieces], decode.n_best)
            if layout.pieces
            else self._untouched(text, layout)
            for text, layout in zip(texts, layouts, strict=True)
        ]
        self._report(texts, best)
        return best

    def translate_corpus(
        self, lines: Sequence[str], *, progress: Progress = None, **settings: Any
    ) -> list[Translation]:
        """The translations that validation and evaluation score: what the search finds, as it is.

        Lines are neither split nor protected, and nothing is rescued, which would make weak models
        look better than they are and their validations take three times as long.
        """
        return self.translate(
            lines, split=False, protect=False, rescue=False, progress=progress, **settings
        )

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        """The translations of any number of texts, about a thousand of which are in memory."""
        refuse_single_text("texts", texts)
        rest = iter(texts)
        while block := list(islice(rest, BLOCK)):
            yield from self.translate(block, **settings)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """How likely the model finds given translations (source, target).

        Raises:
            UserError: a side is longer than the model's limit.
        """
        pairs = readable_pairs(pairs)
        read = [(self.as_read(source), self.as_written(target)) for source, target in pairs]
        words = [len(target.split()) for _, target in pairs]
        return score_pairs(self.engine, self.vocabularies, read, words)

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Which words of given translations (source, target) translate each other.

        Words are what `str.split` finds, read without inline tags. A pair that is longer than the
        model's limit has no links.
        """
        source, target = self.vocabularies.source, self.vocabularies.target
        words = [
            (
                source.encode(map(self.as_read, bare_words(one))),
                target.encode(map(self.as_written, bare_words(other))),
            )
            for one, other in readable_pairs(pairs)
        ]
        return align_words(self.engine, words)

    def as_read(self, text: str) -> str:
        """A source as the model reads it: without outer space, and normalised as in training."""
        return self._normalise(readable(text)).strip()

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

    def _layout(self, text: str, split: bool, protect: bool) -> Layout:
        limit, encode = self.engine.max_length, self.vocabularies.source.encode

        def length(piece: str) -> int:
            read = self.as_read(in_small_letters(piece) if protect else piece)
            # A token has a byte at least. Most texts are short enough in any case: cutting them
            # into tokens, which the search does again, takes much longer than counting bytes.
            most = len(read.encode()) + 1 if read else 0
            return most if most < limit else len(encode([read])[0])

        return lay_out(text, length, limit, split=split, protect=protect)

    def _aligned(self, pieces: Sequence[str], found: Sequence[Candidates]) -> list[Candidates]:
        """Translations of pieces with the links of their words."""
        each = zip(pieces, found, strict=True)
        links = iter(self.align([(piece, one.text) for piece, own in each for one in own]))
        return [[dataclasses.replace(one, alignment=next(links)) for one in own] for own in found]

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
