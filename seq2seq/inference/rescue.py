"""Degenerate translations get a second chance: other hypotheses, other rules, smaller pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from seq2seq.inference.degeneration import faults
from seq2seq.inference.source import Candidates, Search, Source
from seq2seq.inference.splitting import split_text
from seq2seq.inference.translation import Translation, joined

# What repeats itself is stopped by a rule; what is too long to be followed is taken in parts.
NO_REPETITION = {"no_repeat_ngram": 3}
SHORT = ("empty", "too short")  # are no faults of what was asked to be short


def rescue_degenerate(
    sources: Sequence[Source], found: Sequence[Candidates], search: Search
) -> list[Candidates]:
    """Replace degenerate translations by better ones, where there are any.

    In this order, and only as far as needed: another hypothesis of the same search, a search in
    which nothing is repeated, the same for each half of the source. Without success the least
    faulty one stays. What was done is noted. Nothing becomes longer than `Source.most`.

    Args:
        sources: as they were searched for.
        found: for each its translations, best first.
        search: finds others.
    """
    results = [_in_order(one, each) for one, each in zip(sources, found, strict=True)]
    bad = {}  # sources, by number, whose best translation has these faults
    for i, source in enumerate(sources):
        if wrong := _faults(source, results[i][0]):
            bad[i] = wrong
    for remedy, attempt in (("without repetition", _restrained), ("in two parts", _halved)):
        others = attempt([sources[i] for i in bad], search)
        for (i, wrong), candidates in zip(list(bad.items()), others, strict=True):
            candidates = [one for one in candidates if sources[i].has_room_for(one)]
            left = _faults(sources[i], candidates[0]) if candidates else wrong
            if len(left) < len(wrong):
                note = f"{' and '.join(wrong)}: translated again {remedy}"
                results[i] = [one.noted(note) for one in candidates]
                bad[i] = left
        bad = {i: wrong for i, wrong in bad.items() if wrong}
    for i, wrong in bad.items():
        note = f"degenerate ({', '.join(wrong)}): nothing better was found"
        results[i] = [one.noted(note) for one in results[i]]
    return results


def _faults(source: Source, one: Translation) -> list[str]:
    found = faults(source.text, one.text)
    return [fault for fault in found if fault not in SHORT] if source.cut(one) else found


def _in_order(source: Source, candidates: Candidates) -> Candidates:
    """Those with fewer faults first."""
    if len(candidates) == 1:
        return candidates
    ordered = sorted(candidates, key=lambda one: len(_faults(source, one)))
    if ordered[0] is not candidates[0]:
        wrong = " and ".join(_faults(source, candidates[0]))
        ordered[0] = ordered[0].noted(f"{wrong}: the next hypothesis was taken")
    return ordered


def _restrained(sources: Sequence[Source], search: Search) -> list[Candidates]:
    found = search(sources, **NO_REPETITION)
    return [_in_order(one, each) for one, each in zip(sources, found, strict=True)]


def _halved(sources: Sequence[Source], search: Search) -> list[Candidates]:
    """Translations of halves, joined; none where there is nothing to cut at."""
    halves = [_halves(source) for source in sources]
    found = iter(search([half for parts in halves for half in parts], **NO_REPETITION))
    results = []
    for parts in halves:
        best = [next(found)[0] for _ in parts]
        results.append([joined(best, " ".join(map(str, best)))] if best else [])
    return results


def _halves(source: Source) -> list[Source]:
    if " " not in source.text:
        return []
    first, second = split_text(source.text, lambda part: part != source.text)
    return [replace(source, text=first), Source(second, most=source.most)]
