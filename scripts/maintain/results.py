"""The results that this project shows: small files of its runs, and the table made from them.

python scripts/maintain/results.py                          # of results/*, into the page PAGE
python scripts/maintain/results.py runs/new --keep new      # first keep runs/new as results/new
python scripts/maintain/results.py runs/a runs/b            # of these; nothing is written

`results/<name>` holds what is left of a run without its weights: a run as `read_run` reads it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import yaml

from seq2seq.cli.exits import run_command
from seq2seq.errors import RunError
from seq2seq.evaluation.record import Evaluation, Score
from seq2seq.files import replace_text
from seq2seq.report.facts import facts
from seq2seq.report.run import Run, read_run, read_runs

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs/explanation/results.md")
BEGIN, END = "<!-- results: written by scripts/maintain/results.py -->", "<!-- end of results -->"
# Sources and references are not kept here: they are part of the test sets.
KEPT = (
    "config.yaml",
    "origin.json",
    "summary.json",
    "metrics/version_0/metrics.csv",
    "evaluation/*/evaluation.json",
    "evaluation/*/hypotheses.txt",
)
METRICS = ("BLEU", "chrF2", "BLEU-tok")


class Published(NamedTuple):
    """A published score of another system: an entry of `published.yaml`."""

    fingerprint: str  # of the test set, as in `evaluation.json`
    metric: str
    value: float
    system: str


def read_published(results: Path) -> list[Published]:
    text = (results / "published.yaml").read_text(encoding="utf-8")
    return [Published(**line) for line in yaml.safe_load(text)]


def keep(run: Path, folder: Path) -> None:
    """Copy the small files of a run to a folder, replacing those of an earlier run.

    The copies do not reveal the folders of this machine: absolute paths are cut to their last part,
    as in `PATH/corpus`.

    Args:
        run: folder of the run.
        folder: for the copies; files written by hand there stay.

    Raises:
        RunError: the folder is no run, or the run was not evaluated.
    """
    found = read_run(run, run.name)
    if not found.evaluations:
        raise RunError(
            f"{run} was not evaluated: python scripts/evaluate.py bundle={run} first, as a result "
            "is a score"
        )
    texts = {}
    for file in chain.from_iterable(map(run.glob, KEPT)):
        text = file.read_text(encoding="utf-8")
        hides = file.suffix in (".json", ".yaml")
        texts[file.relative_to(run)] = without_places(text, run, folder.name) if hides else text
    for file in chain.from_iterable(map(folder.glob, KEPT)):  # the copies of an earlier run
        file.unlink()
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        replace_text(folder / name, text)


def without_places(text: str, run: Path, name: str) -> str:
    """Replace the run's folder in a text by `runs/NAME`, and other absolute paths by `PATH/LAST`.

    Web addresses, tags such as `</b>`, and paths of one part such as `/dev` stay.
    """
    text = re.sub(rf"{re.escape(str(run.resolve()))}(?![\w.-])", f"runs/{name}", text)
    return re.sub(r"(?<![\w./:<])/(?:[\w.@+-]+/)+([\w.@+-]+)", r"PATH/\1", text)


def kept_runs(results: Path) -> list[Run]:
    """Read the runs that have results in this folder, sorted by name."""
    return read_runs(sorted(file.parent for file in results.glob("*/config.yaml")))


def results_table(runs: Sequence[Run], published: Sequence[Published]) -> str:
    """Make a Markdown table: for each test set the evaluations, then the published scores."""
    found = [(run, one) for run in runs for one in run.evaluations.values()]
    found.sort(key=lambda pair: pair[1].label)
    rows: list[Sequence[str]] = [("test set", "system", "hardware", "training", *METRICS)]
    sets = dict.fromkeys((one.label, one.data["fingerprint"]) for _, one in found)
    for label, fingerprint in sets:
        own = [pair for pair in found if pair[1].data["fingerprint"] == fingerprint]
        rows += [_row(*pair) for pair in own if pair[1].label == label]
        theirs = (line for line in published if line.fingerprint == fingerprint)
        rows += [_published_row(line, label) for line in theirs]
    return markdown(rows, numbers=len(METRICS))


def markdown(rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Format a Markdown table; the first row is its head, the last columns may be `numbers`."""
    line = ["---"] * (len(rows[0]) - numbers) + ["---:"] * numbers
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], line, *rows[1:]))


def _row(run: Run, one: Evaluation) -> tuple[str, ...]:
    known = facts(run)
    value = {name: fact[0] for name, fact in known.items()}
    parameters = int(value.get("parameters", "").replace(",", "") or 0)
    system = (run.name, parameters and f"{parameters / 1e6:.1f} M parameters", one.search)
    updates = value.get("updates") and f"{value['updates']} updates"
    earlier = run.settings.get("init_from") and "after earlier stages"
    training = (updates, value.get("time of updates"), earlier)
    columns = (system, known.get("hardware", ()), training)
    texts = (", ".join(str(part) for part in parts if part) for parts in columns)
    return (one.label, *texts, *(cell(one.score(name)) for name in METRICS))


def cell(score: Score | None, to: str = "–") -> str:
    """Format a score and its interval; no score gives an empty text."""
    if score is None:
        return ""
    ends = "" if score.low is None else f" ({score.low:.1f}{to}{score.high:.1f})"
    return f"{score.value:.1f}{ends}"


def _published_row(line: Published, label: str) -> tuple[str, ...]:
    cells = (f"{line.value:.1f}" if name == line.metric else "" for name in METRICS)
    return (label, f"*{line.system}*", "", "", *cells)


def write_table(root: Path) -> str:
    """Write the table of the runs under `results/` into `PAGE`, and return it."""
    results, page = root / "results", root / PAGE
    table = results_table(kept_runs(results), read_published(results))
    replace_text(page, with_table(page.read_text(encoding="utf-8"), table))
    return table


def with_table(page: str, table: str) -> str:
    """Return the page with this table between the marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="evaluated run")
    parser.add_argument("--keep", metavar="NAME", help="first keep the RUN as results/NAME")
    options = parser.parse_args()
    if options.keep and (len(options.runs) != 1 or Path(options.keep).name != options.keep):
        parser.error("--keep takes a name without slashes and exactly one RUN")
    if options.runs and not options.keep:
        print(results_table(read_runs(options.runs), read_published(ROOT / "results")))
        return
    if options.keep:
        keep(options.runs[0], ROOT / "results" / options.keep)
    print(f"{PAGE}:\n{write_table(ROOT)}")


if __name__ == "__main__":
    run_command(main)
