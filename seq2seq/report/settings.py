"""Settings of runs: what differs between them, and all of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import yaml

from seq2seq.html_page import plain_table, visible
from seq2seq.report.run import Run

LACKING = "–"
BYTES = 150_000  # of whole settings on a page
PLACES = ("run_dir", "resume", "dry_run", "logger.project")  # which make no difference


def settings_section(runs: Sequence[Run]) -> str:
    """A table of differences, if there are several runs, and the whole settings, folded."""
    parts = [_table(runs, differences([run.settings for run in runs]))] if len(runs) > 1 else []
    room, lacking = BYTES, []
    for run in runs:
        text = yaml.safe_dump(run.settings, sort_keys=False, allow_unicode=True)
        lines = "\n".join(map(visible, text.splitlines()))
        of = f" of {escape(visible(run.name))}" if len(runs) > 1 else ""
        part = f"<details><summary>All settings{of}</summary><pre>{escape(lines)}</pre></details>"
        if (size := len(part.encode())) > room:
            lacking.append(run.name)
            continue
        room -= size
        parts.append(part)
    if lacking:
        names = escape(visible(", ".join(lacking)))
        parts.append(
            f'<p class="missing">There is no room for all settings of {names}: they stand in '
            "<code>RUN/config.yaml</code>.</p>"
        )
    return "".join(parts)


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Settings that are not the same in all runs, by name, with the value in each.

    Those that a run of another kind or version lacks stand last.
    """
    flat = [dict(_flat(one)) for one in settings]
    names = [n for n in dict.fromkeys(n for one in flat for n in one) if n not in PLACES]
    values = {name: [one.get(name, LACKING) for one in flat] for name in names}
    found = {name: each for name, each in values.items() if len(set(each)) > 1}
    return dict(sorted(found.items(), key=lambda item: LACKING in item[1]))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
            yield f"{prefix}{name}", text.removesuffix("...\n").strip()


def _table(runs: Sequence[Run], found: Mapping[str, Sequence[str]]) -> str:
    if not found:
        return "<p>All settings of these runs are the same.</p>"
    rows = [["", *(run.name for run in runs)], *([name, *each] for name, each in found.items())]
    return (
        '<p>Settings that differ; all others are the same.</p><div class="wide">'
        f"{plain_table(rows, 'words')}</div>"
    )
