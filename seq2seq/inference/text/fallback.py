"""Fallback: sentences whose translations have faults are translated again, in other ways.

Only this file asks for another search. `retry_faulty` tries the ways from the cheapest to the most
expensive, each only for sentences whose translations still have faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.data.annotations import PLACEHOLDERS
from seq2seq.inference.text.agreement import endings
from seq2seq.inference.text.language import foreign, probably
from seq2seq.inference.text.segmentation import Layout, split_text
from seq2seq.inference.text.step import Fault, Step
from seq2seq.inference.translation import Translation, joined

if TYPE_CHECKING:  # `pipeline` imports this file
    from seq2seq.inference.pipeline import Pipeline

# Human translations break these limits in 2 of 38,000 sentences (Multi30k, news, wiki, subtitles
# and web text); most stay far away from them.
WORDS = 8  # words of the longest phrase whose repetition is looked for
REPEATS = 3  # a phrase so many times in a row is a fault, unless the source repeats as often
CHARACTERS = 6  # characters of the longest part of a word whose repetition is looked for
LETTERS = 6  # such a part so many times in a row is a fault
STUTTER = re.compile(rf"(.{{1,{CHARACTERS}}}?)\1{{{LETTERS - 1}}}")
COPIED = 4  # words, numbers aside, that come back unchanged and are a fault; fewer may be a name
LONGER, SHORTER = 2.5, 0.4  # limits of a translation's characters per source character ...
ROOM = 20  # ... with a margin of so many characters, since short texts vary
NO_REPETITION = {"no_repeat_ngram": 3}  # tokens
SHORT = ("empty", "too short")  # no faults if the limit of length cut the output off

# Characters between a part and what got lost stay as they are: a space, a bracket, a comma.
_JOINTS = re.compile(r"(?s)(?P<before>[\W_]*)(?P<core>.*?)(?P<after>[\s(\[{\"'«:=-]*)")


def degenerate(source: str, target: str) -> list[str]:
    """List signs that a translation is degenerate: repetition, copy, empty, too long, too short."""
    source, target = " ".join(source.split()), " ".join(target.split())
    if not target:
        return ["empty"] if source else []
    found = []
    words, source_words = (re.findall(r"\w+", text.lower()) for text in (target, source))
    in_a_row = repeats(words, WORDS)
    stutters = STUTTER.search(target.lower()) is not None
    if (in_a_row >= REPEATS and in_a_row > repeats(source_words, WORDS)) or (
        stutters and repeats(target.lower(), CHARACTERS) > repeats(source.lower(), CHARACTERS)
    ):
        found.append("repetition")
    if words == source_words and sum(not word.isdigit() for word in words) >= COPIED:
        found.append("copy")
    if len(target) > LONGER * len(source) + ROOM:
        found.append("too long")
    if len(target) < SHORTER * (len(source) - ROOM):
        found.append("too short")
    return found


def repeats(sequence: Sequence[str], longest: int) -> int:
    """Return the most times in a row that any part of at most `longest` elements occurs."""
    most = 1
    for period in range(1, longest + 1):
        run = 0  # elements that equal the one a period before
        for previous, element in zip(sequence, sequence[period:], strict=False):
            run = run + 1 if element == previous else 0
            most = max(most, run // period + 1)
    return most


class Degeneration(Step):
    """The step that finds translations that cannot be right, whatever the source says."""

    name = "degeneration"
    checks = True

    def __init__(self, languages: tuple[str, str] = ("en", "fr")):
        self.languages = languages

    def faults(self, result: Translation, state: str) -> list[Fault]:
        found = degenerate(state, result.text)
        if not result.finished:
            found = [wrong for wrong in found if wrong not in SHORT]
        source, target = self.languages
        if "copy" in found and (foreign(state, source) or probably(state, target)):
            found.remove("copy")  # which is right, as for "C'est la vie"
        return [Fault(wrong) for wrong in found]


@dataclass(frozen=True)
class Source:
    """A text that is translated at once.

    Attributes:
        text: as the model reads it, but without the annotations of terms.
        prefix: the beginning of its translation.
        checks: the steps that find faults, with their states of this text.
    """

    text: str
    prefix: str = ""
    checks: Sequence[tuple[Step, Any]] = ()

    def faults(self, found: Translation) -> list[Fault]:
        return [fault for step, state in self.checks for fault in step.faults(found, state)]

    def rank(self, found: Translation) -> tuple[int, int]:
        """Count losses, then other faults; fewer are better. No reader can guess what was lost."""
        every = self.faults(found)
        lost = len(_lost(every))
        return lost, len(every) - lost


Candidates = list[Translation]  # of one source, best first


class Attempt(NamedTuple):
    """Another way to translate a source.

    Attributes:
        pieces: what to translate, each with the prefix of its translation.
        finish: makes translations of the source from those of the pieces.
    """

    pieces: list[tuple[str, str]]
    finish: Callable[[list[Candidates]], Candidates]


def retry_faulty(
    pipeline: Pipeline, sources: Sequence[Source], found: Sequence[Candidates]
) -> list[Candidates]:
    """Return translations of each source with the fewest faults that three ways find, best first.

    1. Take the next hypothesis of the same search that has fewer faults.
    2. Replace what got lost in the source: by a placeholder that the model has learnt; for a model
       that has learnt none, by the term itself. The sentence stays whole.
    3. Translate in parts, without repetition: the parts around what must be kept, or two halves.
       Such a search of a whole sentence is worse (44.1 chrF on 30 lines of real text, two halves
       45.9).

    Each way is tried for translations that still have faults, and its result is used if it has
    fewer faults. A note says what was done.
    """
    several = pipeline.decode.n_best > 1
    results = [_in_order(*each, several) for each in zip(sources, found, strict=True)]
    stand_in = "with placeholders" if pipeline.placeholders else "with its terms"
    for how, rung, settings in ((stand_in, _replaced, {}), ("in parts", _in_parts, NO_REPETITION)):
        faults = [source.faults(own[0]) for source, own in zip(sources, results, strict=True)]
        rungs = {i: rung(pipeline, sources[i], wrong) for i, wrong in enumerate(faults) if wrong}
        attempts = {i: attempt for i, attempt in rungs.items() if attempt is not None}
        pieces = [piece for attempt in attempts.values() for piece in attempt.pieces]
        translated = iter(pipeline.again(pieces, **settings))
        for i, attempt in attempts.items():
            parts = [next(translated) for _ in attempt.pieces]
            if not all(parts):  # a piece is longer than the model reads
                continue
            best = min([results[i][0], *attempt.finish(parts)], key=sources[i].rank)
            if best is not results[i][0]:
                noted = best.with_notes(f"{_described(faults[i])}: translated again {how}")
                results[i] = [noted, *(one for one in results[i] if one.text != best.text)]
    for source, own in zip(sources, results, strict=True):
        signs, lost = _signs_and_losses(source.faults(own[0]))
        if signs:
            said = ", ".join(signs)
            own[0] = own[0].with_notes(f"degenerate ({said}): nothing better was found")
        if lost:
            own[0] = own[0].with_notes(f"lost: {lost}")
    return results


def _lost(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults that have a place in the source, from left to right."""
    return sorted((fault for fault in faults if fault.kind), key=lambda fault: fault.span)


def _in_order(source: Source, candidates: Candidates, several: bool) -> Candidates:
    """Sort candidates by faults; if one is wanted and the best has no fault, keep their order."""
    wrong = source.faults(candidates[0])
    if not several and not wrong:
        return list(candidates)
    ordered = sorted(candidates, key=source.rank)
    degenerate = [fault for fault in wrong if not fault.kind]
    if degenerate and ordered[0] is not candidates[0]:
        note = f"{_described(degenerate)}: the next hypothesis was taken"
        ordered[0] = ordered[0].with_notes(note)
    return ordered


def _replaced(pipeline: Pipeline, source: Source, faults: Sequence[Fault]) -> Attempt | None:
    """Translate a source with replacements for what got lost, if there is anything to replace."""
    free = iter(PLACEHOLDERS if pipeline.placeholders else ())
    text, at, originals = "", 0, dict[str, Fault]()
    for fault in _lost(faults):
        mark = next(free, "")
        if mark:
            originals[mark] = fault
        if word := mark or fault.wanted * (fault.kind == "term"):
            text += source.text[at : fault.span[0]] + word
            at = fault.span[1]

    def finish(parts: list[Candidates]) -> Candidates:
        whole = [one for one in parts[0] if all(one.text.count(mark) == 1 for mark in originals)]
        if not whole:
            return []
        best = min(whole, key=lambda one: source.rank(one.with_text(_filled(one.text, originals))))
        return [best.with_text(_put_back(pipeline, source, best.text, originals))]

    return Attempt([(text + source.text[at:], source.prefix)], finish) if at else None


def _in_parts(pipeline: Pipeline, source: Source, _: Sequence[Fault]) -> Attempt | None:
    """Translate a source in parts, unless it has a prefix or one limit for all parts."""
    if source.prefix or pipeline.decode.max_ratio == 0:
        return None
    layout = _around(source) or _halves(source.text)

    def finish(parts: list[Candidates]) -> Candidates:
        best = [own[0] for own in parts]
        both = zip(layout.pieces, best, strict=True)
        return [joined(best, layout.fill([_as_part(piece, one.text) for piece, one in both]))]

    return Attempt([(piece, "") for piece in layout.pieces], finish)


def _described(faults: Sequence[Fault]) -> str:
    """Describe faults in words, such as "repetition and too long and lost 3.5"."""
    signs, lost = _signs_and_losses(faults)
    return " and ".join([*signs, f"lost {lost}"] if lost else signs)


def _signs_and_losses(faults: Sequence[Fault]) -> tuple[list[str], str]:
    """Return the signs of degeneration, and what got lost, each once."""
    lost = dict.fromkeys(fault.text for fault in faults if fault.kind)
    return [fault.text for fault in faults if not fault.kind], ", ".join(lost)


def _put_back(pipeline: Pipeline, source: Source, text: str, originals: Mapping[str, Fault]) -> str:
    """Replace placeholders by what they stand for, and let the word before it agree with it."""
    for mark in sorted(originals, key=text.index):
        before, _, after = text.partition(mark)
        phrase = originals[mark].wanted
        if originals[mark].kind == "term" and not re.search(r"\w", before):
            phrase = phrase[0].upper() + phrase[1:]
        ways = [end + phrase + after for end in endings(before, phrase, pipeline.language)]
        right = [way for way in ways if way.startswith(source.prefix)
                 and not pipeline.terms.forbidden(way)]  # fmt: skip
        right = right or [before + phrase + after]
        text = right[pipeline.likeliest(source.text, [_filled(way, originals) for way in right])]
    return text


def _filled(text: str, originals: Mapping[str, Fault]) -> str:
    for mark, original in originals.items():
        text = text.replace(mark, original.wanted)
    return text


def _around(source: Source) -> Layout | None:
    """Return the parts of a sentence between what must be kept, which stands in the gaps."""
    kept = _lost(source.faults(Translation("", None)))
    if not kept:
        return None
    text, at, pieces, gaps = source.text, 0, list[str](), [""]
    for fault in [*kept, Fault("", span=(len(text), len(text)))]:  # the last one is the end
        joints = _JOINTS.fullmatch(text, at, fault.span[0])
        assert joints is not None  # the pattern takes anything
        if any(map(str.isalpha, joints["core"])):
            pieces.append(joints["core"])
            gaps[-1] += joints["before"]
            gaps.append(joints["after"])
        else:
            gaps[-1] += joints[0]
        gaps[-1] += fault.wanted
        at = fault.span[1]
    return Layout(pieces, gaps)


def _halves(text: str) -> Layout:
    """Cut a sentence into two parts; without a space, return it as one."""
    if " " not in text:
        return Layout([text], ["", ""])
    first, second = split_text(text, lambda part: part != text)
    return Layout([first, second], ["", " ", ""])


def _as_part(source: str, target: str) -> str:
    """Drop the full stop that models add to the translation of a part that has none."""
    ends = source.rstrip().endswith((".", "…"))
    return target if ends else target.rstrip().removesuffix(".").rstrip()
