"""Fallback: what lost something or cannot be right is translated again, in other ways.

This is the one place that asks for another search. The ladder of `mended` goes from what costs
nothing to what costs most, and each rung is for what is still wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from seq2seq.data.annotations import PLACEHOLDERS
from seq2seq.inference.text.language import foreign
from seq2seq.inference.text.segmentation import Layout, split_text
from seq2seq.inference.text.step import Fault, Step
from seq2seq.inference.translation import Translation, joined

if TYPE_CHECKING:  # which imports this file
    from seq2seq.inference.pipeline import Pipeline

# Human translations pass these limits in 2 of 38,000 sentences (Multi30k, news, wiki, subtitles and
# web text); most of them do not come near.
WORDS = 8  # longest phrase whose repetition is looked for
REPEATS = 3  # times that a phrase may not stand in a row, unless the source does the like
CHARACTERS = 6  # longest part of a word whose repetition is looked for
LETTERS = 6  # times that it may not
STUTTER = re.compile(rf"(.{{1,{CHARACTERS}}}?)\1{{{LETTERS - 1}}}")  # soon tells whether it does
COPIED = 4  # words of a source that may not come back as they were; fewer are often a name
LONGER, SHORTER = 2.5, 0.4  # characters of a translation for each of its source ...
ROOM = 20  # ... beside so many, since short texts vary
NO_REPETITION = {"no_repeat_ngram": 3}  # tokens
SHORT = ("empty", "too short")  # are no faults of what was asked to be short

# Words that models copy, for those that have learnt no placeholders; a term takes a name, too.
NAMES = ("Martin", "Simon", "Robert", "Daniel", "Oscar", "Victor", "Hugo", "Arthur")
NUMBERS = ("47", "58", "63", "72", "84", "96", "39", "26")
# What joins a part of a sentence to what it lost stays there: a space, a bracket, a comma.
_JOINTS = re.compile(r"(?s)(?P<before>[\W_]*)(?P<core>.*?)(?P<after>[\s(\[{\"'«:=-]*)")


def degenerate(source: str, target: str) -> list[str]:
    """What is wrong with a translation by its looks: repetition, copy, empty, too long, short."""
    source, target = " ".join(source.split()), " ".join(target.split())
    if not target:
        return ["empty"] if source else []
    found = []
    words, source_words = (re.findall(r"\w+", text.lower()) for text in (target, source))
    if _repeats_more(words, source_words, WORDS, REPEATS) or (
        STUTTER.search(target.lower())
        and _repeats_more(target.lower(), source.lower(), CHARACTERS, LETTERS)
    ):
        found.append("repetition")
    if len(source_words) >= COPIED and words == source_words:
        found.append("copy")
    if len(target) > LONGER * len(source) + ROOM:
        found.append("too long")
    if len(target) < SHORTER * (len(source) - ROOM):
        found.append("too short")
    return found


def _repeats_more(
    target: Sequence[str], source: Sequence[str], longest: int, allowed: int
) -> bool:
    """Whether a part stands in a row too often, and more often than any of the source."""
    if max(Counter(target).values(), default=0) < allowed:
        return False  # nothing is there often enough: the usual case, and soon seen
    return repeats(target, longest) >= max(allowed, repeats(source, longest) + 1)


def repeats(sequence: Sequence[str], longest: int) -> int:
    """The most times that any part of at most `longest` elements stands in a row."""
    most = 1
    for period in range(1, longest + 1):
        run = 0  # elements that equal the one a period before
        for previous, element in zip(sequence, sequence[period:], strict=False):
            run = run + 1 if element == previous else 0
            most = max(most, run // period + 1)
    return most


class Degeneration(Step):
    """Finds translations that cannot be right, whatever the source says."""

    name = "degeneration"
    checks = True

    def __init__(self, languages: tuple[str, str] = ("en", "fr")):
        self.languages = languages

    def faults(self, result: Translation, state: str) -> list[Fault]:
        found = degenerate(state, result.text)
        if "copy" in found and foreign(state, self.languages[0]):  # rightly copied
            found.remove("copy")
        return [Fault(wrong) for wrong in found]


@dataclass(frozen=True)
class Source:
    """What is translated at once.

    Attributes:
        text: as the model reads it.
        plain: the same without inline terms.
        prefix: its translation begins so.
        limited: whether its translation was asked to be short, whatever it says.
        checks: steps that find faults, with their states.
    """

    text: str
    plain: str
    prefix: str = ""
    limited: bool = False
    checks: Sequence[tuple[Step, Any]] = ()

    def faults(self, found: Translation) -> list[Fault]:
        """What is wrong with a translation, what is degenerate first."""
        every = [fault for step, state in self.checks for fault in step.faults(found, state)]
        if self.limited and not found.finished:
            every = [fault for fault in every if fault.text not in SHORT]
        return sorted(every, key=lambda fault: bool(fault.kind))

    def kept(self) -> list[Fault]:
        """All that a translation could lose, from left to right."""
        every = [fault for fault in self.faults(Translation("", None)) if fault.kind]
        return sorted(every, key=lambda fault: fault.span)

    def rank(self, found: Translation) -> tuple[int, int]:
        """How many faults of each kind; less is better. What is lost, nobody can guess."""
        every = self.faults(found)
        lost = sum(bool(fault.kind) for fault in every)
        return lost, len(every) - lost


Candidates = list[Translation]  # of one source, best first
# From sources, and what is wrong with the translations of a plain search, to other translations.
Rung = Callable[["Pipeline", Sequence[Source], Sequence[Sequence[Fault]]], list[Candidates]]


def mended(
    pipeline: Pipeline, sources: Sequence[Source], found: Sequence[Candidates]
) -> list[Candidates]:
    """The translations of each source with fewest faults that the ladder finds, best first.

    1. The next hypothesis of the same search that has fewer faults.
    2. Missing terms stand in the source, as they are to stand in its translation.
    3. What got lost is replaced in the source by a placeholder that the model has learnt, or by a
       name or number that any model copies: the sentence stays whole.
    4. In parts, in which nothing is repeated: around what is to be kept, or two halves. Of a whole
       sentence such a search makes less (44.1 chrF on 30 lines of real text, two halves 45.9).

    Each is for what is still wrong, and counts if it leaves fewer faults. What was done is noted.
    """
    several = pipeline.decode.n_best > 1
    results = [_in_order(*each, several) for each in zip(sources, found, strict=True)]
    first = [source.faults(own[0]) for source, own in zip(sources, results, strict=True)]
    bad = {i: wrong for i, wrong in enumerate(first) if wrong}
    for how, kinds, rung in LADDER:
        rows = [i for i, wrong in bad.items() if any(fault.kind in kinds for fault in wrong)]
        others = rung(pipeline, [sources[i] for i in rows], [first[i] for i in rows])
        for i, candidates in zip(rows, others, strict=True):
            best = min([results[i][0], *candidates], key=sources[i].rank)
            if best is not results[i][0]:
                noted = best.noted(f"{_described(bad[i])}: translated again {how}")
                bad[i] = sources[i].faults(best)
                results[i] = [noted, *(one for one in results[i] if one.text != best.text)]
    for i, wrong in bad.items():
        results[i][0] = results[i][0].noted(*_left(wrong))
    return results


def _in_order(source: Source, candidates: Candidates, several: bool) -> Candidates:
    """Those with fewer faults first; if one is wanted, the others of a good one stay."""
    if not several and not source.faults(candidates[0]):
        return list(candidates)
    ordered = sorted(candidates, key=source.rank)
    wrong = [fault for fault in source.faults(candidates[0]) if not fault.kind]
    if wrong and ordered[0] is not candidates[0]:
        ordered[0] = ordered[0].noted(f"{_described(wrong)}: the next hypothesis was taken")
    return ordered


def _replaced(
    pipeline: Pipeline,
    sources: Sequence[Source],
    wrong: Sequence[Sequence[Fault]],
    terms_stand: bool = False,
) -> list[Candidates]:
    """With something else in the source for what got lost; terms may stand for themselves."""
    texts, originals = [], []
    for source, faults in zip(sources, wrong, strict=True):
        free = _free_words(source.plain, pipeline.placeholders)
        text, shift, back = source.plain, 0, dict[str, str]()
        for fault in sorted((f for f in faults if f.kind), key=lambda fault: fault.span):
            stands = terms_stand and fault.kind == "term"
            if word := fault.wanted if stands else next(free[fault.kind], ""):
                start, end = (place + shift for place in fault.span)
                text = text[:start] + word + text[end:]
                shift += len(word) - (end - start)
                back |= {} if stands else {word: fault.wanted}
        texts.append((text, source.prefix))
        originals.append(back)
    return [
        [one.with_text(_put_back(one.text, back)) for one in own if _holds(one.text, back)]
        for own, back in zip(pipeline.again(texts), originals, strict=True)
    ]


def _free_words(text: str, placeholders: bool) -> dict[str, Iterator[str]]:
    """What may stand for something of each kind: no word of the text itself."""
    if placeholders:
        names = numbers = iter(PLACEHOLDERS)
    else:
        names = iter([word for word in NAMES if word not in text])
        numbers = iter([word for word in NUMBERS if word not in text])
    return {"thing": names, "term": names, "number": numbers}


def _in_parts(
    pipeline: Pipeline, sources: Sequence[Source], wrong: Sequence[Sequence[Fault]]
) -> list[Candidates]:
    """Not where a prefix comes first or a limit holds for all parts together."""
    whole = Layout([], [""])
    layouts = [
        whole if one.prefix or one.limited else _around(one) or _halves(one.plain)
        for one in sources
    ]
    parts = [(piece, "") for layout in layouts for piece in layout.pieces]
    each = iter(pipeline.again(parts, **NO_REPETITION))
    results: list[Candidates] = []
    for layout in layouts:
        found = [next(each) for _ in layout.pieces]
        best = [own[0] for own in found if own]
        if len(best) < len(found):  # a piece is longer than the model reads
            results.append([])
            continue
        both = zip(layout.pieces, best, strict=True)
        text = layout.fill([_as_part(piece, one.text) for piece, one in both])
        results.append([joined(best, text)] if layout is not whole else [])
    return results


# How what is still wrong is translated again, for which kinds of faults.
LADDER: tuple[tuple[str, set[str], Rung], ...] = (
    ("with its terms", {"term"}, partial(_replaced, terms_stand=True)),
    ("with placeholders", {"thing", "number", "term"}, _replaced),
    ("in parts", {"thing", "number", "term", ""}, _in_parts),
)


def _described(faults: Sequence[Fault]) -> str:
    """Faults in words: repetition and too long, lost 3.5."""
    said, lost = _words(faults)
    return " and ".join([*said, *[f"lost {', '.join(lost)}"] * bool(lost)])


def _left(faults: Sequence[Fault]) -> list[str]:
    """Notes of what could not be mended."""
    said, lost = _words(faults)
    notes = [f"degenerate ({', '.join(said)}): nothing better was found"] * bool(said)
    return [*notes, *[f"lost: {', '.join(lost)}"] * bool(lost)]


def _words(faults: Sequence[Fault]) -> tuple[list[str], list[str]]:
    """What is degenerate, and what got lost, each once."""
    lost = dict.fromkeys(fault.text for fault in faults if fault.kind)
    return [fault.text for fault in faults if not fault.kind], list(lost)


def _pattern(word: str) -> re.Pattern[str]:
    edges = (r"(?<!\w)", r"(?!\w)(?![.,]\d)") if word.isalnum() else ("", "")
    return re.compile(edges[0] + re.escape(word) + edges[1])


def _holds(text: str, words: Iterable[str]) -> bool:
    """Whether each word stands once in a text."""
    return all(len(_pattern(word).findall(text)) == 1 for word in words)


def _put_back(text: str, originals: Mapping[str, str]) -> str:
    for word, original in originals.items():
        text = original.join(_pattern(word).split(text))
    return text


def _around(source: Source) -> Layout | None:
    """The parts of a sentence between what it has to keep, which stands in the gaps."""
    kept = source.kept()
    if not kept:
        return None
    pieces: list[str] = []
    gaps = [""]
    text = source.plain
    starts = [0, *(fault.span[1] for fault in kept)]
    ends = [*(fault.span[0] for fault in kept), len(text)]
    for start, end, fault in zip(starts, ends, [*kept, None], strict=True):
        joints = _JOINTS.fullmatch(text, start, end)
        assert joints is not None  # the pattern takes anything
        if any(map(str.isalpha, joints["core"])):
            pieces.append(joints["core"])
            gaps[-1] += joints["before"]
            gaps.append(joints["after"])
        else:
            gaps[-1] += text[start:end]
        if fault is not None:
            gaps[-1] += fault.wanted
    return Layout(pieces, gaps)


def _halves(text: str) -> Layout:
    """Two parts of a sentence, or one if there is nothing to cut at."""
    if " " not in text:
        return Layout([text], ["", ""])
    first, second = split_text(text, lambda part: part != text)
    return Layout([first, second], ["", " ", ""])


def _as_part(source: str, target: str) -> str:
    """The translation of a part, without the full stop that models put at the end."""
    ends = source.rstrip().endswith((".", "…"))
    return target if ends else target.rstrip().removesuffix(".").rstrip()
