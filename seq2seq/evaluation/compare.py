"""`seq2seq compare`: which of several evaluations of one test set is better, and is it chance?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seq2seq.errors import RunError, command_line
from seq2seq.evaluation.metrics import chrf_scores, statistics
from seq2seq.evaluation.record import NAME, Evaluation, records_of
from seq2seq.evaluation.significance import bootstrap, bootstrap_p, randomisation_p
from seq2seq.evaluation.texts import Texts, stored_texts
from seq2seq.text import markdown_table

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class System:
    """One of the compared evaluations."""

    name: str
    path: Path
    record: Evaluation
    texts: Texts


@dataclass(frozen=True)
class SystemScore:
    """A score of a system, compared with the score of the first system.

    Attributes:
        difference: the value less that of the first system; None for the first system itself.
        p_bootstrap, p_randomisation: p-values of the difference, that is, the probability of one
            as large if the systems are equally good: by paired bootstrap (Koehn 2004) and by
            approximate randomisation (Riezler and Maxwell 2005); None for the first system.
    """

    system: str
    score: str
    value: float
    difference: float | None = None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None

    @property
    def significant(self) -> bool:
        """Whether both p-values are below SIGNIFICANT."""
        both = (self.p_bootstrap, self.p_randomisation)
        return all(p is not None and p < SIGNIFICANT for p in both)


@dataclass(frozen=True)
class Sentence:
    """A sentence whose translations by the systems differ in chrF2; lines count from 1."""

    line: int
    source: str | None
    reference: str
    translations: list[str]
    chrf: list[float]


@dataclass(frozen=True)
class Comparison:
    """The comparison of several systems on a test set; all others are tested against the first."""

    label: str
    sentences: int  # of the test set
    systems: list[str]
    folders: list[str]  # the folder of each system's record
    tests: list[SystemScore]  # all systems for the first score, then all for the next
    differences: list[Sentence]  # whose translations differ most in chrF2


def compare(
    places: Sequence[str], scores: Sequence[str] = ("BLEU", "chrF2", "TER"), shown: int = 10
) -> Comparison:
    """Compare evaluations.

    Args:
        places: runs, folders of evaluations, or records; the others are tested against the first.
        scores: names in `metrics.METRICS`.
        shown: at most so many sentences are listed in `differences`.

    Raises:
        UserError: there is nothing to compare, or the evaluations are not comparable.
    """
    systems = _choose(places)
    _require_comparable(systems, scores)
    texts = [system.texts for system in systems]
    chrf_SN = np.array([chrf_scores(own.hypotheses, own.references)[1] for own in texts])
    sources = next((own.sources for own in texts if own.sources is not None), None)
    spread_N = chrf_SN.max(axis=0) - chrf_SN.min(axis=0)
    rows = [int(row) for row in np.argsort(-spread_N, kind="stable")[:shown] if spread_N[row] > 0]
    return Comparison(
        label=systems[0].record.label,
        sentences=len(texts[0].references),
        systems=[system.name for system in systems],
        folders=[str(system.path.parent) for system in systems],
        tests=[test for name in scores for test in _tests(systems, name)],
        differences=[
            Sentence(
                row + 1,
                sources[row] if sources is not None else None,
                texts[0].references[row],
                [own.hypotheses[row] for own in texts],
                [round(float(value), 2) for value in chrf_SN[:, row]],
            )
            for row in rows
        ],
    )


def _records(place: Path) -> dict[Path, Evaluation]:
    """Read the record at `place`; if `place` is a run or its bundle, all evaluations of the run."""
    for path in (place, place / NAME):
        if path.is_file():
            return {path: Evaluation.read(path)}
    run = place if (place / "evaluation").is_dir() else place.parent  # `place` may be a bundle
    found = records_of(run) if place.is_dir() else {}
    if not found:
        raise RunError(
            f"{place} holds no evaluation: make one, "
            f"{command_line('evaluate', f'bundle={place}', 'data=NAME')}, "
            "or name the folder of a run or of an evaluation"
        )
    return found


def _choose(places: Sequence[str]) -> list[System]:
    """Choose from each place the evaluation of the test set that all share; give it a name."""
    if len(places) < 2:
        raise RunError("one evaluation has nothing to be compared with: name two runs, or more")
    found = [_records(Path(place)) for place in places]
    common = set.intersection(*({_test_set(record) for record in own.values()} for own in found))
    if not common:
        lines = "".join(
            f"\n  {place}: {', '.join(dict.fromkeys(record.label for record in own.values()))}"
            for place, own in zip(places, found, strict=True)
        )
        raise RunError(
            f"these are not comparable, since no test set (the same references) is common to all "
            f"of them:{lines}\nEvaluate them on one: "
            f"{command_line('evaluate', 'bundle=RUN', 'data=NAME')}"
        )
    short = [Path(place).resolve().name.removesuffix(".json") for place in places]
    names = short if len(set(short)) == len(short) else places
    systems = []
    for name, place, own in zip(names, places, found, strict=True):
        fitting = [path for path, record in own.items() if _test_set(record) in common]
        if len(fitting) > 1:
            folders = ", ".join(str(path.parent) for path in fitting)
            raise RunError(f"{place} has several evaluations that fit: name one of {folders}")
        [path] = fitting
        systems.append(System(name, path, own[path], stored_texts(own[path], path.parent)))
    if len({system.path.resolve() for system in systems}) < len(systems):
        raise RunError(f"{' '.join(places)} names one of them twice: leave it out")
    return systems


def _test_set(record: Evaluation) -> str:
    return record.files["references"].fingerprint


def _require_comparable(systems: Sequence[System], scores: Sequence[str]) -> None:
    """Raise RunError if sources differ, or a score was computed in different ways."""
    known = [system for system in systems if system.texts.sources is not None]
    for other in known[1:]:
        if other.texts.sources != known[0].texts.sources:
            raise RunError(
                f"{known[0].name} and {other.name} cannot be compared: their references are "
                "equal, but their sources differ. Evaluate both on the same text"
            )
    for name in scores:
        signatures: dict[str, str] = {}  # with the name of the first system that has each
        for system in systems:
            score = system.record.score(name)
            if score is None:
                raise RunError(f"{system.path} has no {name}: evaluate again")
            signatures.setdefault(score.signature, system.name)
        if len(signatures) > 1:
            raise RunError(
                f"{' and '.join(signatures.values())} cannot be compared: their {name} was "
                f"computed in different ways, {' and '.join(signatures)}. Evaluate all with one "
                "version"
            )


def _tests(systems: Sequence[System], name: str) -> Iterator[SystemScore]:
    """Yield one score of each system; test all but the first system against the first."""
    language = systems[0].record.data["language"]
    texts = [system.texts for system in systems]
    each = [statistics(name, own.hypotheses, own.references, language) for own in texts]
    score, stats_SNK = each[0].score, np.stack([own.stats_NK for own in each])
    first, *others = bootstrap(score, stats_SNK)
    base, *values = (float(score(sums_K)) for sums_K in stats_SNK.sum(axis=1))
    yield SystemScore(systems[0].name, name, base)
    for number, (value, resampled) in enumerate(zip(values, others, strict=True), 1):
        difference, p_values = value - base, (1.0, 1.0)  # p = 1 if the difference is 0
        if difference:
            p_values = (
                bootstrap_p((first, resampled), difference),
                randomisation_p(score, stats_SNK[[0, number]]),
            )
        yield SystemScore(systems[number].name, name, value, difference, *p_values)


def in_words(found: Comparison) -> str:
    """Format a comparison as Markdown that also reads well on a terminal."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    first = found.systems[0]
    yield f"# {', '.join(found.systems)} on {found.label}, {found.sentences:,} sentences"
    yield ""
    yield f"Each against {first}: the difference, and how likely one as large is by chance, by"
    yield f"paired bootstrap and by approximate randomisation; * = below {SIGNIFICANT} by both."
    yield ""
    yield from markdown_table(score_rows(found))
    if found.differences:
        yield ""
        yield "## Sentences that differ most"
    width = max(map(len, [*found.systems, "reference"]))
    for sentence in found.differences:
        yield ""
        yield f"line {sentence.line}"
        yield ""
        if sentence.source is not None:
            yield f"    {'source':{width}}         {sentence.source}"
        yield f"    {'reference':{width}}         {sentence.reference}"
        each = zip(found.systems, sentence.chrf, sentence.translations, strict=True)
        yield from (f"    {name:{width}}  {chrf:5.1f}  {text}" for name, chrf, text in each)


def score_rows(found: Comparison) -> list[list[str]]:
    """Return the table of the tests; the first row is its head."""
    head = ["score", "system", "value", "difference", "p bootstrap", "p randomisation", ""]
    return [head, *map(_row, found.tests)]


def _row(test: SystemScore) -> list[str]:
    value = f"{test.value:.2f}"
    if test.difference is None:
        return [test.score, test.system, value, "", "", "", ""]
    values = [value, f"{test.difference:+.2f}", f"{test.p_bootstrap:.4f}",
              f"{test.p_randomisation:.4f}"]  # fmt: skip
    return [test.score, test.system, *values, "*" if test.significant else ""]
