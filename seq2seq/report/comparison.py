"""Comparison of several runs: the settings that differ, and quality against training time."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from seq2seq.config import flat
from seq2seq.report.curves import hours, tokens
from seq2seq.report.facts import best_of_validation, main_score
from seq2seq.report.run import Run
from seq2seq.text import markdown_table

Rows = list[list[str]]
LACKING = "–"
PLACES = ("run_dir", "resume", "dry_run", "logger.project")  # left out: of no effect


def trade_off(runs: Sequence[Run]) -> Rows:
    """Make a table of quality and effort. A star marks a run that no other run beats in both.

    Quality is test BLEU if all runs were scored on the same test set, else the best validation
    BLEU.
    """
    scores = [main_score(run) for run in runs]
    of_test = all(scores) and len({found[0].data["fingerprint"] for found in scores if found}) == 1
    quality = [
        found[1].value if of_test and found else best_of_validation(run)
        for run, found in zip(runs, scores, strict=True)
    ]
    time = [spent[-1][1] if (spent := hours(run)) else None for run in runs]
    known = [(b, t) for b, t in zip(quality, time, strict=True) if b is not None and t is not None]
    rows = [["", "test BLEU" if of_test else "validation BLEU", "hours of updates",
             "million target tokens", "parameters", "best trade-off"]]  # fmt: skip
    for run, bleu, taken in zip(runs, quality, time, strict=True):
        beaten = bleu is None or taken is None or any(
            b >= bleu and t <= taken and (b, t) != (bleu, taken) for b, t in known
        )  # fmt: skip
        read = tokens(run)
        rows.append([
            run.name,
            LACKING if bleu is None else f"{bleu:.2f}",
            LACKING if taken is None else f"{taken:.3g}",
            f"{read[-1][1]:.3g}" if read else LACKING,
            f"{run.origin.parameters:,}" if run.origin else LACKING,
            "" if beaten else "*",
        ])  # fmt: skip
    return rows


def settings_table(runs: Sequence[Run]) -> Rows:
    """Make a table of the settings that differ between runs, with the value in each run.

    Settings that some runs lack, being of another kind or version, come last.
    """
    each = [{n: _short(value) for n, value in flat(run.settings).items()} for run in runs]
    names = [n for n in dict.fromkeys(n for one in each for n in one) if n not in PLACES]
    rows = [[name, *(one.get(name, LACKING) for one in each)] for name in names]
    differing = sorted((row for row in rows if len(set(row[1:])) > 1), key=lambda r: LACKING in r)
    return [["", *(run.name for run in runs)], *differing]


def _short(value: object) -> str:
    """Format the value of a setting as a user would type it."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()


def in_words(runs: Sequence[Run]) -> str:
    """Format both tables as Markdown that also reads well on a terminal.

    Settings that some runs lack are only counted: these runs are of another kind.
    """
    settings = settings_table(runs)
    kept = [row for row in settings if LACKING not in row]
    if others := len(settings) - len(kept):
        kept.append([f"and {others} that some lack", *[""] * len(runs)])
    lines = ["", "## Quality and time", "", *markdown_table(trade_off(runs)),
             "", "\\* = no other run is both better and faster", "", "## Settings that differ", "",
             *markdown_table(kept)]  # fmt: skip
    return "\n".join(lines) + "\n"
