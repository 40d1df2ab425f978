"""`seq2seq compare`: several runs or evaluations beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from seq2seq.cli.exits import prepare_streams
from seq2seq.cli.options import Command, option
from seq2seq.cli.output_file import require_place
from seq2seq.config.checked import Checked
from seq2seq.errors import RunError, UserError
from seq2seq.files import replace_text

SCORES = ("BLEU", "chrF2", "chrF2++", "TER", "BLEU-tok", "BLEU-punct")


class CompareOptions(Checked, section="option"):
    """Compare runs (scores and their significance, time, settings that differ), or evaluations of
    one test set."""

    places: list[str] = option(
        [], "folder of a run or of an evaluation, or its evaluation.json", "RUN", positional=True
    )
    scores: list[str] = option(
        ["BLEU", "chrF2", "TER"], f"scores to compare, of {', '.join(SCORES)}", "SCORE...",
        choices=SCORES,
    )  # fmt: skip
    sentences: int = option(10, "number of the most different sentences to show", "N", at_least=0)
    output: Path | None = option(None, "also write a file: .md or .json; .html for runs", "FILE")

    def rules(self) -> Iterator[str]:
        if not self.places:
            yield "nothing to compare: name runs or evaluations, seq2seq compare runs/a runs/b"


COMMAND = Command(
    "seq2seq compare",
    CompareOptions,
    examples="""\
  seq2seq compare runs/a runs/b
  seq2seq compare runs/a runs/b --scores BLEU chrF2 --sentences 3
  seq2seq compare runs/* --output compared.html
  seq2seq compare runs/a/evaluation/multi30k-test theirs.json --output compared.md""",
    notes="""\
A run is compared by its evaluation of the test set that all have. Score translations of other
systems first: seq2seq evaluate hypothesis=FILE reference=FILE output=FILE.json.
All others are tested against the first one.""",
    docs="docs/how-to/evaluate.md",
)


@COMMAND.main
def main(options: CompareOptions) -> None:
    prepare_streams()
    folders = [Path(place) for place in options.places]
    are_runs = all((folder / "config.yaml").is_file() for folder in folders)
    output = options.output
    if output is not None:
        _require_output(output, are_runs)
    from seq2seq.evaluation.compare import compare, in_words, score_rows
    from seq2seq.report import comparison
    from seq2seq.report.page import write_report
    from seq2seq.report.run import damage_named, read_runs

    found, text = None, ""
    try:
        found = compare(options.places, options.scores, options.sentences)
        text = in_words(found)
    except UserError as error:
        if not are_runs or len(folders) < 2 or (output and output.suffix == ".json"):
            raise
        text = f"No scores: {error}\n"
    if are_runs:
        with damage_named(folders):
            text += comparison.in_words(read_runs(folders))
    print(text, end="", flush=True)  # before the file, which may fail
    if output is None:
        return
    if output.suffix == ".html":
        write_report(folders, output, score_rows(found) if found else None)
        return
    if output.suffix == ".json" and found is not None:
        text = json.dumps(asdict(found), indent=2, ensure_ascii=False) + "\n"
    replace_text(output, text)


def _require_output(output: Path, are_runs: bool) -> None:
    """Raise RunError unless the file can be made and is new."""
    if output.suffix not in (".md", ".json", ".html"):
        raise RunError(f"--output {output}: name a file that ends in .md, .json or .html")
    if output.suffix == ".html" and not are_runs:
        raise RunError(f"--output {output}: a page is made of runs, and not of evaluations alone")
    if output.exists():
        raise RunError(f"--output {output} exists already: name another file, or delete it")
    require_place("--output", output)
