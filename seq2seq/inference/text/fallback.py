"""Fallback: what lost something or cannot be right is translated again, in other ways.

This is the one place that asks for another search. `ladder` goes from what costs nothing to what
costs most, and each rung is for what is still wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq2seq.data.annotations import PLACEHOLDERS
from seq2seq.inference.text.segmentation import Layout, split_text
from seq2seq.inference.text.step import Fault, Step
from seq2seq.inference.translation import Translation, joined

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

# Words that models copy, for those that have learnt no placeholders.
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

    def faults(self, result: Translation, state: str) -> list[Fault]:
        return [Fault(wrong) for wrong in degenerate(state, result.text)]


@dataclass(frozen=True)
class Source:
    """What is translated at once.

    Attributes:
        text: as the model reads it.
        plain: the same without inline terms.
        prefix: its translation begins so.
        most: tokens of its translation, end mark included, if that was asked for; parts of it that
            are translated one by one have no more together.
        checks: steps that find faults, with their states.
    """

    text: str
    plain: str
    prefix: str = ""
    most: int | None = None
    checks: Sequence[tuple[Step, Any]] = ()

    def cut(self, found: Translation) -> bool:
        """Whether it is what was asked for that ended a translation."""
        return self.most is not None and not found.finished

    def has_room_for(self, found: Translation) -> bool:
        """Whether a translation keeps to what was asked for."""
        return self.most is None or len(found.tokens) + found.finished <= self.most

    def faults(self, found: Translation) -> list[Fault]:
        """What is wrong with a translation, what is degenerate first."""
        every = [fault for step, state in self.checks for fault in step.faults(found, state)]
        if self.cut(found):
            every = [fault for fault in every if fault.text not in SHORT]
        return sorted(every, key=lambda fault: bool(fault.kind))

    def rank(self, found: Translation) -> tuple[int, int]:
        """How many faults of each kind; less is better. What is lost, nobody can guess."""
        every = self.faults(found)
        lost = sum(bool(fault.kind) for fault in every)
        return lost, len(every) - lost


Candidates = list[Translation]  # of one source, best first
Prepare = Callable[[str, str, int | None], Source]  # of a part: its text, prefix and room


# Finds translations of sources, with changes to the settings of the search.
Search = Callable[..., list[Candidates]]
# Gives translations with missing terms in their places; none where there is no place.
WriteTerms = Callable[[Sequence[Source], Sequence[Translation], Search], list[Candidates]]


class Fallback:
    """Translates again what has faults: the ladder.

    1. The next hypothesis of the same search that has fewer faults.
    2. What got lost is replaced in the source by a placeholder that the model has learnt, or by a
       name or number that any model copies: the sentence stays whole.
    3. Missing terms are written where attention tells, and the sentence goes on from there.
    4. A search in which nothing is repeated.
    5. In parts: around what got lost, or in two halves.

    Each is for what is still wrong, and counts if it leaves fewer faults. Nothing becomes longer
    than `Source.most`. What was done is noted.

    Args:
        search: finds translations.
        prepare: makes a source of a part.
        write_terms: of step 3.
        placeholders: whether the model has learnt them.
        alternatives: whether more than the best translation is wanted.
    """

    def __init__(
        self,
        search: Search,
        prepare: Prepare,
        write_terms: WriteTerms | None = None,
        placeholders: bool = False,
        alternatives: bool = True,
    ):
        self.search, self.prepare, self.write_terms = search, prepare, write_terms
        self.placeholders, self.alternatives = placeholders, alternatives

    def __call__(self, sources: Sequence[Source], found: Sequence[Candidates]) -> list[Candidates]:
        """The translations of each source with fewest faults that were found, best first."""
        results = [self._in_order(*each) for each in zip(sources, found, strict=True)]
        bad = {i: source.faults(results[i][0]) for i, source in enumerate(sources)}
        bad = {i: wrong for i, wrong in bad.items() if wrong}
        ladder = (
            ("with placeholders", {"thing", "number"}, self._with_placeholders),
            ("with its terms", {"term"}, self._with_terms),
            ("without repetition", {""}, lambda some, _: self.search(some, **NO_REPETITION)),
            ("in parts", {"thing", "number", ""}, lambda some, _: self._in_parts(some)),
        )
        for how, kinds, rung in ladder:
            rows = {
                i: wrong
                for i, wrong in bad.items()
                # What was asked to be cut is mended only where it is degenerate.
                if not (sources[i].cut(results[i][0]) and all(fault.kind for fault in wrong))
                and any(fault.kind in kinds for fault in wrong)
            }
            others = rung([sources[i] for i in rows], [results[i][0] for i in rows]) if rows else []
            for (i, wrong), candidates in zip(rows.items(), others, strict=True):
                fitting = [one for one in candidates if sources[i].has_room_for(one)]
                best = min(fitting, key=sources[i].rank, default=results[i][0])
                if sources[i].rank(best) < sources[i].rank(results[i][0]):
                    bad[i] = sources[i].faults(best)
                    best = best.noted(f"{_described(wrong)}: translated again {how}")
                    results[i] = [best, *(one for one in results[i] if one.text != best.text)]
        for i, wrong in bad.items():
            results[i][0] = results[i][0].noted(*_left(wrong))
        return results

    def _in_order(self, source: Source, candidates: Candidates) -> Candidates:
        """Those with fewer faults first; if one is wanted, the others of a good one stay."""
        if not self.alternatives and not source.faults(candidates[0]):
            return list(candidates)
        ordered = sorted(candidates, key=source.rank)
        wrong = [fault for fault in source.faults(candidates[0]) if not fault.kind]
        if wrong and ordered[0] is not candidates[0]:
            ordered[0] = ordered[0].noted(f"{_described(wrong)}: the next hypothesis was taken")
        return ordered

    def _with_placeholders(
        self, sources: Sequence[Source], found: Sequence[Translation]
    ) -> list[Candidates]:
        marked = [self._marked(one, best) for one, best in zip(sources, found, strict=True)]
        results = self.search([source for source, _ in marked])
        return [
            [one.with_text(_put_back(one.text, back)) for one in own if _holds(one.text, back)]
            for own, (_, back) in zip(results, marked, strict=True)
        ]

    def _marked(self, source: Source, best: Translation) -> tuple[Source, dict[str, str]]:
        """A source with something else for what got lost, and what each of it stands for."""
        wrong = [fault for fault in source.faults(best) if fault.kind in {"thing", "number"}]
        text, edits = source.plain, []
        free = {
            kind: iter([word for word in words if word not in text])
            for kind, words in (("thing", NAMES), ("number", NUMBERS))
        }
        if self.placeholders:
            shared = iter(PLACEHOLDERS)
            free = {"thing": shared, "number": shared}
        for fault in wrong:
            if word := next(free[fault.kind], ""):
                edits.append((fault.span, word, fault.wanted))
        for (start, end), word, _ in sorted(edits, reverse=True):
            text = text[:start] + word + text[end:]
        marked = self.prepare(text, source.prefix, source.most)
        return marked, {word: wanted for _, word, wanted in edits}

    def _with_terms(
        self, sources: Sequence[Source], found: Sequence[Translation]
    ) -> list[Candidates]:
        if self.write_terms is None:
            return [[] for _ in sources]
        return self.write_terms(sources, found, self.search)

    def _in_parts(self, sources: Sequence[Source]) -> list[Candidates]:
        layouts = [_around(source) or _halves(source.plain) for source in sources]
        parts = [
            self.prepare(piece, source.prefix if i == 0 else "", source.most)
            for source, layout in zip(sources, layouts, strict=True)
            for i, piece in enumerate(layout.pieces)
        ]
        each = iter(self.search(parts, **NO_REPETITION) if parts else [])
        results: list[Candidates] = []
        for layout in layouts:
            best = [next(each)[0] for _ in layout.pieces]
            both = zip(layout.pieces, best, strict=True)
            text = layout.fill([_as_part(piece, one.text) for piece, one in both])
            results.append([joined(best, text) if best else Translation(text, None)])
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
    kept = [fault for step, state in source.checks for fault in step.kept(state)]
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
