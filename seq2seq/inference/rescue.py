"""Degenerate translations get a second chance: other hypotheses, other rules, smaller pieces."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq.inference.degeneration import faults
from seq2seq.inference.source import Candidates, Search, Source
from seq2seq.inference.splitting import split_text
from seq2seq.inference.translation import joined

# What repeats itself is stopped by a rule; what is too long to be followed is taken in parts.
NO_REPETITION = {"no_repeat_ngram": 3}


def rescue_degenerate(
    sources: Sequence[Source], found: Sequence[Candidates], search: Search
) -> list[Candidates]:
    """Replace degenerate translations by better ones, where there are any.

    In this order, and only as far as needed: another hypothesis of the same search, a search in
    which nothing is repeated, the same for each half of the source. Without success the least
    faulty one stays. What was done is noted.

    Args:
        sources: as they were searched for.
        found: for each its translations, best first.
        search: finds others.
    """
    results = [_in_order(one, each) for one, each in zip(sources, found, strict=True)]
    for remedy, attempt in (("without repetition", _restrained), ("in two parts", _halved)):
        bad = [i for i, source in enumerate(sources) if _faults(source, results[i])]
        others = attempt([sources[i] for i in bad], search)
        for i, candidates in zip(bad, others, strict=True):
            wrong = _faults(sources[i], results[i])
            if candidates and len(_faults(sources[i], candidates)) < len(wrong):
                note = f"{' and '.join(wrong)}: translated again {remedy}"
                results[i] = [one.noted(note) for one in candidates]
    for i, source in enumerate(sources):
        if wrong := _faults(source, results[i]):
            note = f"degenerate ({', '.join(wrong)}): nothing better was found"
            results[i] = [one.noted(note) for one in results[i]]
    return results


def _faults(source: Source, candidates: Candidates) -> list[str]:
    return faults(source.text, candidates[0].text)


def _in_order(source: Source, candidates: Candidates) -> Candidates:
    """Those with fewer faults first."""
    ordered = sorted(candidates, key=lambda one: len(faults(source.text, one.text)))
    if ordered[0] is not candidates[0]:
        wrong = " and ".join(_faults(source, candidates))
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
    return [Source(first, prefix=source.prefix), Source(second)]
