"""Fallback: what lost something or cannot be right is translated again, in other ways.

This is the one place that asks for another search. The ladder of `mended` goes from what costs
nothing to what costs most, and each rung is for what is still wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
SHORT = ("empty", "too short")  # are no faults of what a limit cut off

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


def _repeats_more(target: Sequence[str], source: Sequence[str], longest: int, allowed: int) -> bool:
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
        if not result.finished:
            found = [wrong for wrong in found if wrong not in SHORT]
        if "copy" in found and foreign(state, self.languages[0]):  # rightly copied
            found.remove("copy")
        return [Fault(wrong) for wrong in found]


@dataclass(frozen=True)
class Source:
    """What is translated at once.

    Attributes:
        text: as the model reads it, but for marks of terms.
        prefix: its translation begins so.
        checks: steps that find faults, with their states.
    """

    text: str
    prefix: str = ""
    checks: Sequence[tuple[Step, Any]] = ()

    def faults(self, found: Translation) -> list[Fault]:
        """What is wrong with a translation."""
        return [fault for step, state in self.checks for fault in step.faults(found, state)]

    def kept(self) -> list[Fault]:
        """All that a translation could lose, from left to right."""
        return _lost(self.faults(Translation("", None)))

    def rank(self, found: Translation) -> tuple[int, int]:
        """How many faults of each kind; less is better. What is lost, nobody can guess."""
        every = self.faults(found)
        lost = len(_lost(every))
        return lost, len(every) - lost


Candidates = list[Translation]  # of one source, best first


def mended(
    pipeline: Pipeline, sources: Sequence[Source], found: Sequence[Candidates]
) -> list[Candidates]:
    """The translations of each source with fewest faults that the ladder finds, best first.

    1. The next hypothesis of the same search that has fewer faults.
    2. Something else stands in the source for what got lost: a placeholder that the model has
       learnt; for a model that has learnt none, the term itself. The sentence stays whole.
    3. In parts, in which nothing is repeated: around what is to be kept, or two halves. Of a whole
       sentence such a search makes less (44.1 chrF on 30 lines of real text, two halves 45.9).

    A rung is for what is still wrong, and counts if it leaves fewer faults. What was done is noted.
    """
    several = pipeline.decode.n_best > 1
    results = [_in_order(*each, several) for each in zip(sources, found, strict=True)]
    stand_in = "with placeholders" if pipeline.placeholders else "with its terms"
    for how, rung in ((stand_in, _replaced), ("in parts", _in_parts)):
        faults = [source.faults(own[0]) for source, own in zip(sources, results, strict=True)]
        rows = [i for i, wrong in enumerate(faults) if wrong]
        others = rung(pipeline, [sources[i] for i in rows], [faults[i] for i in rows])
        for i, candidates in zip(rows, others, strict=True):
            best = min([results[i][0], *candidates], key=sources[i].rank)
            if best is not results[i][0]:
                noted = best.noted(f"{_described(faults[i])}: translated again {how}")
                results[i] = [noted, *(one for one in results[i] if one.text != best.text)]
    for source, own in zip(sources, results, strict=True):
        own[0] = own[0].noted(*_left(source.faults(own[0])))
    return results


def _lost(faults: Iterable[Fault]) -> list[Fault]:
    """The faults that have a place in the source, from left to right."""
    return sorted((fault for fault in faults if fault.kind), key=lambda fault: fault.span)


def _in_order(source: Source, candidates: Candidates, several: bool) -> Candidates:
    """Those with fewer faults first; if one is wanted, the others of a good one stay."""
    wrong = source.faults(candidates[0])
    if not several and not wrong:
        return list(candidates)
    ordered = sorted(candidates, key=source.rank)
    degenerate = [fault for fault in wrong if not fault.kind]
    if degenerate and ordered[0] is not candidates[0]:
        ordered[0] = ordered[0].noted(f"{_described(degenerate)}: the next hypothesis was taken")
    return ordered


def _replaced(
    pipeline: Pipeline, sources: Sequence[Source], wrong: Sequence[Sequence[Fault]]
) -> list[Candidates]:
    """The translations of sources in which something else stands for what got lost."""
    texts, originals = [], []
    for source, faults in zip(sources, wrong, strict=True):
        free = iter(PLACEHOLDERS if pipeline.placeholders else ())
        text, at, back = "", 0, dict[str, str]()
        for fault in _lost(faults):
            mark = next(free, "")
            if mark:
                back[mark] = fault.wanted
            if word := mark or fault.wanted * (fault.kind == "term"):
                text += source.text[at : fault.span[0]] + word
                at = fault.span[1]
        texts.append((text + source.text[at:], source.prefix) if at else None)
        originals.append(back)
    found = iter(pipeline.again([one for one in texts if one]))
    return [
        [one.with_text(_put_back(one.text, back)) for one in next(found) if _holds(one.text, back)]
        if text
        else []
        for text, back in zip(texts, originals, strict=True)
    ]


def _in_parts(
    pipeline: Pipeline, sources: Sequence[Source], _: Sequence[Sequence[Fault]]
) -> list[Candidates]:
    """Not where a prefix comes first, or a limit holds for all parts together."""
    layouts = [
        None if one.prefix or pipeline.decode.max_ratio == 0 else _around(one) or _halves(one.text)
        for one in sources
    ]
    parts = [(piece, "") for layout in layouts if layout for piece in layout.pieces]
    each = iter(pipeline.again(parts, **NO_REPETITION))
    results: list[Candidates] = []
    for layout in layouts:
        found = [next(each) for _ in layout.pieces] if layout else []
        if layout is None or not all(found):  # a piece is longer than the model reads
            results.append([])
            continue
        best = [own[0] for own in found]
        both = zip(layout.pieces, best, strict=True)
        text = layout.fill([_as_part(piece, one.text) for piece, one in both])
        results.append([joined(best, text)])
    return results


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


def _holds(text: str, words: Iterable[str]) -> bool:
    """Whether each word stands once in a text."""
    return all(text.count(word) == 1 for word in words)


def _put_back(text: str, originals: Mapping[str, str]) -> str:
    for word, original in originals.items():
        text = text.replace(word, original)
    return text


def _around(source: Source) -> Layout | None:
    """The parts of a sentence between what it has to keep, which stands in the gaps."""
    kept = source.kept()
    if not kept:
        return None
    pieces: list[str] = []
    gaps = [""]
    text = source.text
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
