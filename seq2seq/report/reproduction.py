"""What it takes to make a run again."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from seq2seq.html_page import visible
from seq2seq.report.run import Run
from seq2seq.training.provenance import Provenance


def reproduction_section(runs: Sequence[Run]) -> str:
    """A part for each run."""
    return "".join(_of_run(run, len(runs) > 1) for run in runs)


def _of_run(run: Run, named: bool) -> str:
    name = f"<h3>{escape(visible(run.name))}</h3>" if named else ""
    if run.origin is None or not run.origin.starts:
        return (
            f'{name}<p class="missing">Command, code and machine are not known: the run was made '
            "by an older version. Its settings stand above.</p>"
        )
    return name + _origin(run.origin)


def _origin(origin: Provenance) -> str:
    first, last = origin.starts[0], origin.starts[-1]
    commit = (first.revision or "").removesuffix("+")
    checkout = [f"git checkout {commit}"] if commit else []
    lines = [*checkout, *(one.command for one in origin.starts)]
    notes = [
        f"started {first.time} on {first.device}",
        *([f"{first.processes} processes (torchrun)"] if first.processes > 1 else []),
        *(["files of the code differed from this commit"] if "+" in (first.revision or "") else []),
        *(["the code was not under git"] if not first.revision else []),
        *([f"went on {len(origin.starts) - 1} times, last {last.time}"]
          if len(origin.starts) > 1 else []),
        *(["the code changed before it went on"] if last.revision != first.revision else []),
        f"fingerprint of the data: {origin.data or 'none, it was streamed'}",
        "versions: " + ", ".join(f"{name} {number}" for name, number in last.versions.items()),
    ]  # fmt: skip
    items = "".join(f"<li>{escape(visible(note))}</li>" for note in notes)
    code = "\n".join(escape(visible(line)) for line in lines)
    return f'<pre class="command">{code}</pre><ul>{items}</ul>'
