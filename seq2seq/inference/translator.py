"""The translator: text in, text out, on any trained bundle."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import Request, RoomError
from seq2seq.errors import UserError, nearest
from seq2seq.inference.alignment import Links, align_words, bare_words
from seq2seq.inference.bundle import load_bundle, read_config, require_same_language
from seq2seq.inference.engine import Engine, Progress, TorchEngine
from seq2seq.inference.keeping import keep_items
from seq2seq.inference.layout import Layout, lay_out
from seq2seq.inference.mbr import by_consensus
from seq2seq.inference.precision import prepared
from seq2seq.inference.rescue import rescue_degenerate
from seq2seq.inference.source import Candidates, Source
from seq2seq.inference.tags import Tag, put_tags, take_tags, unit_weights
from seq2seq.inference.terms import Terms
from seq2seq.inference.translation import Translation, joined
from seq2seq.inference.typography import french_typography
from seq2seq.text import normaliser

log = logging.getLogger(__name__)

BLOCK = 512  # texts of a stream that are translated together
REPORTED = 5  # texts of a translator whose notes are logged


@dataclass(frozen=True)
class PairScore:
    """How likely the model finds a given translation.

    Attributes:
        log_prob: natural log of its probability, end mark included.
        tokens: its subwords, without marks.
        token_scores: log probability of each, then of the end mark.
        words: of the target, cut at spaces.
    """

    log_prob: float
    tokens: list[str]
    token_scores: list[float]
    words: int

    @property
    def per_token(self) -> float:
        """Mean log probability of a token, end mark included."""
        return self.log_prob / len(self.token_scores)

    @property
    def per_word(self) -> float:
        """The same for each word of the target, which compares between vocabularies."""
        return self.log_prob / max(1, self.words)


class Translator:
    """Translates texts; `Translator.load(path)` makes one. Threads may share it.

    Args:
        engine: searches on token ids.
        vocabularies: of its source and its target.
        decode: search settings.
        normalise: what was done to the sources it was trained on (`seq2seq/text.py`).
    """

    def __init__(
        self,
        engine: Engine,
        vocabularies: Vocabularies,
        decode: DecodeConfig,
        normalise: Sequence[str] = (),
    ):
        self.engine, self.vocabularies, self.decode = engine, vocabularies, decode
        self._normalise = normaliser(normalise)
        self._noted = count(1)  # texts with notes; threads may count with it at the same time

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        device: str = "auto",
        *,
        engine: str = "torch",
        precision: str = "auto",
    ) -> Translator:
        """Read the bundle in `path`, or of the run `path`; several are searched as an ensemble.

        The first of several gives the search settings.

        Args:
            path: for the engine ctranslate2 also what `scripts/export.py` wrote.
            device: auto, cpu or cuda.
            engine: torch or ctranslate2, which is faster and knows fewer settings.
            precision: of the arithmetic, see `precision.prepared`; for the engine ctranslate2 by
                the names of `CTranslate2Engine`.

        Raises:
            BundleError: nothing usable is there, or the vocabularies of several differ.
            UserError: the device, the engine or the precision is not there.
        """
        paths = [path] if isinstance(path, str | Path) else list(path)
        if engine == "ctranslate2":
            return cls._of_ctranslate2(paths, device, precision)
        if engine != "torch":
            raise UserError(f"engine {engine} is not known: choose torch or ctranslate2")
        bundles = [load_bundle(Path(one), choose_device(device)) for one in paths]
        require_same_language(list(zip(map(str, paths), bundles, strict=True)))
        first = bundles[0]
        models = [prepared(one.model, precision) for one in bundles]
        return cls(
            TorchEngine(models, first.length_ratio, [one.alignment for one in bundles]),
            first.vocabularies,
            first.decode,
            first.normalise,
        )

    @classmethod
    def _of_ctranslate2(
        cls, paths: Sequence[str | Path], device: str, precision: str
    ) -> Translator:
        from seq2seq.inference import ctranslate2_engine, ctranslate2_export  # an optional package

        if len(paths) > 1:
            raise UserError(
                f"the engine ctranslate2 runs one model, and {len(paths)} were given: use the "
                "engine torch for their ensemble, or average them"
            )
        folder = ctranslate2_export.exported(Path(paths[0]))
        made = ctranslate2_engine.CTranslate2Engine(folder, device, precision)
        config = read_config(folder / "config.json")
        return cls(made, Vocabularies.load(folder), config.decode, config.normalise)

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
                and placeholders as they were (`items.py`).
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
                model was validated.

        Raises:
            UserError: a setting is not known, or does not go with another; something is no list
                of texts; a term is empty.
            RequestError: what is banned is also required, or stands in the prefix.
        """
        decode, prefix = self._settings(settings), readable(prefix)
        phrases = Terms(
            {readable(source): readable(target) for source, target in (terms or {}).items()},
            _listed("banned", banned),
        )
        texts = _listed("texts", texts)
        layouts = [self._layout(text, split, protect) for text in texts]
        take = take_tags if protect else _no_tags
        taken = [take(piece, self.as_read) for layout in layouts for piece in layout.pieces]
        first = {0, *accumulate(len(layout.pieces) for layout in layouts)}
        sources = [
            Source(text, prefix=prefix if i in first else "") for i, (text, _) in enumerate(taken)
        ]

        def again(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
            other = dataclasses.replace(decode, **changes)
            shown = progress and (lambda _: progress(0))
            return self._fitting(sources, other, phrases, shown)

        def rescued(sources: Sequence[Source], **changes: Any) -> list[Candidates]:
            found = again(sources, **changes)
            return rescue_degenerate(sources, found, again) if rescue else found

        found = self._fitting(sources, decode, phrases, progress)
        if rescue:
            found = rescue_degenerate(sources, found, again)
        if protect:
            found = keep_items(sources, found, rescued)
            found = self._tagged(taken, found)
        if typography:
            found = [[one.with_text(french_typography(one.text)) for one in c] for c in found]
        if align:
            found = self._aligned([p for layout in layouts for p in layout.pieces], found)
        each = iter(found)
        best = [
            self._join(text, layout, [next(each) for _ in layout.pieces], decode.n_best)
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
        """The translations of any number of texts, some hundreds of which are in memory."""
        _refuse_text("texts", texts)
        rest = iter(texts)
        while block := list(islice(rest, BLOCK)):
            yield from self.translate(block, **settings)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """How likely the model finds given translations (source, target).

        Raises:
            UserError: a side is longer than the model's limit.
        """
        sources = self.vocabularies.source.encode([self.as_read(source) for source, _ in pairs])
        targets = self.vocabularies.target.encode([readable(target).strip() for _, target in pairs])
        for number, sides in enumerate(zip(sources, targets, strict=True), 1):
            if (longest := max(map(len, sides))) >= self.engine.max_length:
                raise UserError(
                    f"pair {number} has a side of {longest + 1} tokens, and the model's limit is "
                    f"{self.engine.max_length}: score its sentences one by one"
                )
        scores = self.engine.score(list(zip(sources, targets, strict=True)))
        return [
            PairScore(sum(each), self.vocabularies.target.tokens(ids), each, len(target.split()))
            for each, ids, (_, target) in zip(scores, targets, pairs, strict=True)
        ]

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Which words of given translations (source, target) translate each other.

        Words are what `str.split` finds, read without inline tags. A pair that is longer than the
        model's limit has no links.
        """
        source, target = self.vocabularies.source, self.vocabularies.target
        words = [
            (source.encode(map(self.as_read, bare_words(one))), target.encode(bare_words(other)))
            for one, other in ((one, readable(other)) for one, other in pairs)
        ]
        return align_words(self.engine, words)

    def _aligned(self, pieces: Sequence[str], found: Sequence[Candidates]) -> list[Candidates]:
        """Translations of pieces with the links of their words."""
        each = zip(pieces, found, strict=True)
        links = iter(self.align([(piece, one.text) for piece, own in each for one in own]))
        return [[dataclasses.replace(one, alignment=next(links)) for one in own] for own in found]

    def _search(
        self, requests: Sequence[Request], decode: DecodeConfig, progress: Progress
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each request, best first; some may be the same text."""
        if decode.strategy == "beam" and decode.n_best > 1:
            decode = dataclasses.replace(decode, n_best=decode.beam)
        found = self.engine.search(requests, decode, progress)
        if decode.strategy == "mbr":
            decoded = self.vocabularies.target.decode
            found = [by_consensus(own, decoded([one.tokens for one in own])) for own in found]
        return found

    def _settings(self, changes: dict[str, Any]) -> DecodeConfig:
        known = [setting.name for setting in dataclasses.fields(DecodeConfig)]
        for name in changes:
            if name not in known:
                raise UserError(f"decode setting {name} is not known: {nearest(name, known)}")
        given = {name: value for name, value in changes.items() if value is not None}
        if "beam" not in given:  # as many hypotheses as are asked for
            given["beam"] = max(self.decode.beam, given.get("n_best", 1))
        return dataclasses.replace(self.decode, **given)

    def as_read(self, text: str) -> str:
        """A text as the model reads it: without outer space, and normalised as in training."""
        return self._normalise(readable(text)).strip()

    def _layout(self, text: str, split: bool, protect: bool) -> Layout:
        def length(piece: str) -> int:
            return len(self.vocabularies.source.encode([self.as_read(piece)])[0])

        return lay_out(text, length, self.engine.max_length, split=split, protect=protect)

    def _fitting(
        self,
        sources: Sequence[Source],
        decode: DecodeConfig,
        terms: Terms,
        progress: Progress,
    ) -> list[Candidates]:
        """As `_candidates`; a source without room for what is asked of it is asked for less."""
        try:
            return self._candidates(sources, decode, terms, progress)
        except RoomError:
            if len(sources) > 1:  # in halves: most of them are still searched together
                middle = len(sources) // 2
                halves = sources[:middle], sources[middle:]
                return [c for half in halves for c in self._fitting(half, decode, terms, progress)]
            [source] = sources
            if terms.required(source.text):
                note, terms = "no room for the terms", terms.without_phrases()
            elif source.prefix:
                note, source = "no room for the prefix", dataclasses.replace(source, prefix="")
            else:
                raise
        [found] = self._fitting([source], decode, terms, progress)
        return [[dataclasses.replace(one, notes=[note, *one.notes]) for one in found]]

    def _candidates(
        self,
        sources: Sequence[Source],
        decode: DecodeConfig,
        terms: Terms,
        progress: Progress,
    ) -> list[Candidates]:
        """Translations of each source, best first, those with banned phrases last; no text twice.

        Raises:
            RequestError: what is asked of one contradicts itself.
            RoomError: it does not fit.
        """
        source, target = self.vocabularies.source, self.vocabularies.target
        requests = [
            Request(
                ids,
                prefix=target.encode([one.prefix])[0],
                required=target.encode(terms.required(one.text)),
                banned=target.encode(terms.banned),
            )
            for one, ids in zip(sources, source.encode([one.text for one in sources]), strict=True)
        ]
        results = []
        for hypotheses in self._search(requests, decode, progress):
            unique: dict[str, Translation] = {}
            for one in map(self._translation, hypotheses):
                wrong = [f"holds the banned {p!r}" for p in terms.forbidden(one.text)]
                unique.setdefault(one.text, one.noted(*wrong))
            results.append(sorted(unique.values(), key=lambda one: bool(one.notes)))
        return results

    def _translation(self, found: Hypothesis) -> Translation:
        target = self.vocabularies.target
        return Translation(
            text=target.decode([found.tokens])[0].strip(),
            score=found.score,
            finished=found.finished,
            tokens=target.tokens(found.tokens),
            token_scores=list(found.token_log_probs),
        )

    def _tagged(
        self, taken: Sequence[tuple[str, list[Tag]]], found: Sequence[Candidates]
    ) -> list[Candidates]:
        """Translations with the tags of their sources, in the places that attention tells."""
        pairs = [
            (text, one.text)
            for (text, tags), candidates in zip(taken, found, strict=True)
            for one in candidates
            if tags
        ]
        weights = iter(self._unit_weights(pairs))
        return [
            [one.with_text(put_tags(tags, text, one.text, next(weights))) for one in candidates]
            if tags
            else list(candidates)
            for (text, tags), candidates in zip(taken, found, strict=True)
        ]

    def _unit_weights(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray | None]:
        """For each pair how much its words belong together; None if it is too long to be read."""
        sides = self.vocabularies.source, self.vocabularies.target
        ids = [tuple(v.encode([t])[0] for v, t in zip(sides, pair, strict=True)) for pair in pairs]
        limit = self.engine.max_length
        rows = [i for i, both in enumerate(ids) if all(both) and max(map(len, both)) < limit]
        results: list[np.ndarray | None] = [None] * len(pairs)
        attention = self.engine.attention([(ids[i][0], ids[i][1]) for i in rows]) if rows else []
        for i, weights_TS in zip(rows, attention, strict=True):
            ends = sides[0].ends(ids[i][0]), sides[1].ends(ids[i][1])
            results[i] = unit_weights(*pairs[i], ends, weights_TS[:-1, :-1])  # no end marks
        return results

    def _join(
        self, text: str, layout: Layout, parts: Sequence[Candidates], n_best: int
    ) -> Translation:
        """Translations of a text from those of its pieces, the i-th best with the i-th best."""
        if not parts:
            same = layout.fill([]) if self.as_read(text) else ""
            return Translation(same, 0.0).noted(*layout.notes)
        found: dict[str, Translation] = {}  # two token sequences may be the same text
        for rank in range(max(map(len, parts))):
            chosen = [candidates[min(rank, len(candidates) - 1)] for candidates in parts]
            one = joined(chosen, layout.fill([one.text for one in chosen])).noted(*layout.notes)
            found.setdefault(one.text, dataclasses.replace(one, alignment=_links(layout, chosen)))
        best, *others = list(found.values())[:n_best]
        return dataclasses.replace(best, alternatives=others)

    def _report(self, texts: Sequence[str], found: Sequence[Translation]) -> None:
        """Warn of what was noted, of the first few texts of all calls."""
        for text, one in zip(texts, found, strict=True):
            if one.notes:
                number = next(self._noted)
                if number <= REPORTED:
                    log.warning("%s (%s...)", "; ".join(one.notes), " ".join(text[:40].split()))
                elif number == REPORTED + 1:
                    log.warning("further notes stand in Translation.notes, and in --json")


def _links(layout: Layout, parts: Sequence[Translation]) -> Links:
    """The links of a text from those of its pieces."""
    if not any(part.alignment for part in parts):
        return []
    firsts = layout.first_words(layout.pieces), layout.first_words([part.text for part in parts])
    each = zip(parts, *firsts, strict=True)
    return [(s + i, t + j) for part, i, j in each for s, t in part.alignment]


def readable(text: str) -> str:
    """A text that can be written as UTF-8: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _listed(name: str, texts: Iterable[str]) -> list[str]:
    """Texts as they can be written.

    Raises:
        UserError: they are a single text, or hold what is none.
    """
    _refuse_text(name, texts)
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(
                f"{name} has a {type(text).__name__} in place {number}, where a text must be: give "
                "a list of str"
            )
    return [readable(text) for text in texts]


def _refuse_text(name: str, texts: Iterable[str]) -> None:
    if isinstance(texts, str):
        raise UserError(
            f"{name} is a single text, whose characters would be taken one by one: give a list, "
            f"such as [{texts[:40]!r}]"
        )


def _no_tags(text: str, normalise: Callable[[str], str]) -> tuple[str, list[Tag]]:
    return normalise(text), []


def choose_device(name: str = "auto") -> torch.device:
    """The device called `name`; auto is the GPU if there is one.

    Raises:
        UserError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name != "cpu":
        if not (match := re.fullmatch("cuda(?::([0-9]{1,4}))?", name)):
            raise UserError(f"device {name!r} is not known: use auto, cpu or cuda")
        if not torch.cuda.is_available():
            raise UserError(f"device {name} was asked for, but torch sees no GPU here: use cpu")
        if int(match[1] or 0) >= (gpus := torch.cuda.device_count()):
            raise UserError(
                f"device {name} was asked for, but torch sees {gpus} here: use a number from 0 to "
                f"{gpus - 1}, as in cuda:0"
            )
    return torch.device(name)
