"""The results that this project shows: small files of its runs, and the table made from them.

python scripts/maintain/results.py                          # of results/*, into README.md
python scripts/maintain/results.py runs/new --keep new      # first keep runs/new as results/new
python scripts/maintain/results.py runs/a runs/b            # of these; nothing is written

`results/<name>` holds what is left of a run without its weights: a run as `read_run` reads it.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from seq2seq.cli.exits import run_command
from seq2seq.errors import RunError
from seq2seq.evaluation.record import Evaluation, Score
from seq2seq.files import replace_text
from seq2seq.report.facts import facts
from seq2seq.report.run import Run, read_run, read_runs

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- results: written by scripts/maintain/results.py -->", "<!-- end of results -->"
# References and sources belong to the test sets, and stay with them.
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
    """A line of `published.yaml`: a score of somebody's system, and who says so."""

    fingerprint: str  # of the test set, as in `evaluation.json`
    metric: str
    value: float
    system: str


def read_published(results: Path) -> list[Published]:
    text = (results / "published.yaml").read_text(encoding="utf-8")
    return [Published(**line) for line in yaml.safe_load(text)]


def keep(run: Path, folder: Path, *, replace: bool = False) -> None:
    """Copy the small files of a run to a folder that is new, or of this very run.

    Where the run, its corpus and the like lie on this machine is nobody's business: of absolute
    paths in its settings only the last part is kept, as in `PATH/corpus`.

    Args:
        run: its folder.
        folder: for what is kept.
        replace: another run that is kept there makes room; what is written by hand stays.

    Raises:
        RunError: it is no run, or was not evaluated; the folder holds another run.
    """
    found = read_run(run, run.name)
    if not found.evaluations:
        raise RunError(
            f"{run} was not evaluated: python scripts/evaluate.py model={run} first, as a result "
            "is a score"
        )
    places = places_of(found, folder.name)
    texts = {
        file.relative_to(run): _kept_text(file, places)
        for pattern in KEPT
        for file in sorted(run.glob(pattern))
    }
    for own_file in map(Path, ("config.yaml", "origin.json")):
        if folder.exists() and not (replace or _holds(folder / own_file, texts.get(own_file))):
            raise RunError(f"{folder} holds another run: give another name, or remove it")
    for file in chain.from_iterable(map(folder.glob, KEPT)):  # those of an earlier keeping
        file.unlink()
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        replace_text(folder / name, text)


def places_of(run: Run, name: str, *more: Any) -> dict[str, str]:
    """What absolute paths of a run are called where it is shown under a name.

    Those of its settings, of its commands, of its test sets, and of `more` values of its files.
    """
    starts = run.origin.starts if run.origin else []
    words = [word.partition("=")[2] or word for s in starts for word in shlex.split(s.command)]
    tested = [(one.data, one.model) for one in run.evaluations.values()]
    own = _absolute((str(run.folder.resolve()), run.settings.get("run_dir")))
    known = own | _absolute((run.settings, [start.folder for start in starts], tested, more))
    elsewhere = {w for w in _absolute(words) if not known.intersection(map(str, Path(w).parents))}
    places = {path: f"PATH/{Path(path).name}" for path in known | elsewhere}
    return places | dict.fromkeys(own, f"runs/{name}")


def _absolute(value: Any) -> set[str]:
    """All absolute paths among some settings."""
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return {path for part in parts for path in _absolute(part)}
    return {value} if isinstance(value, str) and Path(value).is_absolute() else set()


def _kept_text(file: Path, places: Mapping[str, str]) -> str:
    """A file, in whose fields these places are called otherwise."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return json.dumps(renamed(json.loads(text), places), indent=1, ensure_ascii=False) + "\n"
    if file.suffix == ".yaml":
        settings = renamed(yaml.safe_load(text), places)
        return str(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    return text


def renamed(value: Any, places: Mapping[str, str]) -> Any:
    """A value of JSON in whose texts these places are called otherwise."""
    if isinstance(value, dict):
        return {key: renamed(part, places) for key, part in value.items()}
    if isinstance(value, list):
        return [renamed(part, places) for part in value]
    if isinstance(value, str):
        for place in sorted(places, key=len, reverse=True):  # whole paths, or the folders in them
            whole = rf"(?<![\w./-]){re.escape(place)}(?![\w.-])"
            value = re.sub(whole, places[place].replace("\\", r"\\"), value)
    return value


def _holds(file: Path, text: str | None) -> bool:
    """Whether a file has this text, or both are missing."""
    return (file.read_text(encoding="utf-8") if file.is_file() else None) == text


def kept_runs(results: Path) -> list[Run]:
    """The runs of which results are kept, by name."""
    return read_runs(sorted(file.parent for file in results.glob("*/config.yaml")))


def results_table(runs: Sequence[Run], published: Sequence[Published]) -> str:
    """Markdown: a row for each evaluation, then for each line published on the same test sets."""
    found = [(run, one) for run in runs for one in run.evaluations.values()]
    found.sort(key=lambda pair: pair[1].label)
    head = ("test set", "system", "hardware", "training", *METRICS)
    rows = [head, ("---",) * 4 + ("---:",) * len(METRICS)]
    sets = dict.fromkeys((one.label, one.data["fingerprint"]) for _, one in found)
    for label, fingerprint in sets:
        own = [pair for pair in found if pair[1].data["fingerprint"] == fingerprint]
        rows += [_row(*pair) for pair in own if pair[1].label == label]
        theirs = (line for line in published if line.fingerprint == fingerprint)
        rows += [_published_row(line, label) for line in theirs]
    return markdown(rows)


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A table; the second row is the line below its head."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(run: Run, one: Evaluation) -> tuple[str, ...]:
    known = facts(run)

    def fact(name: str) -> str:
        return known[name][0] if name in known else ""

    parameters = fact("parameters")
    size = int(parameters.replace(",", "") or 0)
    system = run.name + (f", {size / 1e6:.1f} M parameters" if size else "")
    updates = fact("updates") and f"{fact('updates')} updates"
    earlier = "after earlier stages" if run.settings.get("init_from") else ""
    training = ", ".join(filter(None, (updates, fact("time of updates"), earlier)))
    scores = (one.score(name) for name in METRICS)
    return (
        one.label,
        f"{system}{_search(one.decode)}",
        ", ".join(filter(None, known.get("hardware", ()))),
        training,
        *map(cell, scores),
    )


def _search(decode: dict[str, Any] | None) -> str:
    return f", beam {decode['beam']}" if decode and decode.get("strategy") == "beam" else ""


def cell(score: Score | None, to: str = "–") -> str:
    """A score with its interval, as far as they are there."""
    if score is None:
        return ""
    ends = "" if score.low is None else f" ({score.low:.1f}{to}{score.high:.1f})"
    return f"{score.value:.1f}{ends}"


def _published_row(line: Published, label: str) -> tuple[str, ...]:
    cells = (f"{line.value:.1f}" if name == line.metric else "" for name in METRICS)
    return (label, f"*{line.system}*", "", "", *cells)


def write_table(root: Path) -> str:
    """Write the table of the runs under `results/` into `README.md`; returns it."""
    results, readme = root / "results", root / "README.md"
    table = results_table(kept_runs(results), read_published(results))
    replace_text(readme, with_table(readme.read_text(encoding="utf-8"), table))
    return table


def with_table(page: str, table: str) -> str:
    """A page whose part between the marks is this table.

    Raises:
        RunError: it has no marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RunError(f"the page has no place for results: write {BEGIN} and {END} into it")
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
    print(f"README.md:\n{write_table(ROOT)}")


if __name__ == "__main__":
    run_command(main)
