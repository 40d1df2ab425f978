"""Several runs beside each other: which settings differ, and what quality took how long."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from seq2seq.config import flat
from seq2seq.report.curves import hours, tokens
from seq2seq.report.facts import facts, main_score
from seq2seq.report.run import Run
from seq2seq.text import markdown_table

Rows = list[list[str]]
LACKING = "–"
PLACES = ("run_dir", "resume", "dry_run", "logger.project")  # which make no difference


def trade_off(runs: Sequence[Run]) -> Rows:
    """A table of quality and effort; a star marks a run that no other one beats in both.

    Quality is BLEU of the test set that all runs were scored on, else the best of validation.
    """
    scores = [main_score(run) for run in runs]
    sets = {found[0].data["fingerprint"] for found in scores if found}
    of_test = all(scores) and len(sets) == 1
    quality = [
        found[1].value if of_test and found
        else max((bleu for _, bleu in run.curves.get("val/bleu", ())), default=None)
        for run, found in zip(runs, scores, strict=True)
    ]  # fmt: skip
    time = [spent[-1][1] if (spent := hours(run)) else None for run in runs]
    rows = [["", "test BLEU" if of_test else "validation BLEU", "hours of updates",
             "million target tokens", "parameters", "best trade-off"]]  # fmt: skip
    for run, bleu, taken in zip(runs, quality, time, strict=True):
        beaten = bleu is None or taken is None or any(
            other is not None and its is not None
            and other >= bleu and its <= taken and (other, its) != (bleu, taken)
            for other, its in zip(quality, time, strict=True)
        )  # fmt: skip
        read = tokens(run)
        rows.append([
            run.name,
            "–" if bleu is None else f"{bleu:.2f}",
            "–" if taken is None else f"{taken:.3g}",
            f"{read[-1][1]:.3g}" if read else "–",
            facts(run).get("parameters", ("–", ""))[0],
            "" if beaten else "*",
        ])  # fmt: skip
    return rows


def settings_table(runs: Sequence[Run]) -> Rows:
    """The settings that differ between runs, with the value in each.

    Those that a run of another kind or version lacks stand last.
    """
    each = [{n: _short(value) for n, value in flat(run.settings).items()} for run in runs]
    names = [n for n in dict.fromkeys(n for one in each for n in one) if n not in PLACES]
    rows = [[name, *(one.get(name, LACKING) for one in each)] for name in names]
    differing = sorted((row for row in rows if len(set(row[1:])) > 1), key=lambda r: LACKING in r)
    return [["", *(run.name for run in runs)], *differing]


def _short(value: object) -> str:
    """A value of a setting, as it would be typed."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()


def _of_all(runs: Sequence[Run]) -> Rows:
    """Settings that differ, without those that some runs lack: these are of other kinds."""
    head, *rows = settings_table(runs)
    kept = [row for row in rows if LACKING not in row]
    others = len(rows) - len(kept)
    return [head, *kept, *([[f"and {others} that some lack", *[""] * len(runs)]] if others else [])]


def in_words(runs: Sequence[Run]) -> str:
    """Both tables as Markdown that also reads well on a terminal."""
    lines = ["", "## Quality and time", "", *markdown_table(trade_off(runs)),
             "", "\\* = no other run is both better and faster", "", "## Settings that differ", "",
             *markdown_table(_of_all(runs))]  # fmt: skip
    return "\n".join(lines) + "\n"
