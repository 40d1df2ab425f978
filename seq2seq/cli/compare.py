"""`scripts/compare.py`: the options, and where the answer goes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from seq2seq.cli.report import prepare_streams, run_command
from seq2seq.disk import replace_text
from seq2seq.errors import RunError

EXAMPLES = """examples:
  python scripts/compare.py runs/a runs/b
  python scripts/compare.py runs/a/evaluation/multi30k-test theirs.json --output compared.md

A run is compared by the evaluation of the test set that all have. Translations of other systems
become an evaluation by python scripts/evaluate.py hypothesis=FILE reference=FILE output=FILE.json.
The first one is what the others are tested against."""
SCORES = ("BLEU", "chrF2", "chrF2++", "TER", "BLEU-tok", "BLEU-punct", "COMET")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    run_command(lambda: _run(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="compare.py",
        description="Which of several evaluations of one test set is better, and by chance?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("places", nargs="+", metavar="RUN", help="folder of a run or of an evaluation, or its "
        "evaluation.json")  # fmt: skip
    add("--scores", nargs="+", choices=SCORES, default=["BLEU", "chrF2", "TER"], metavar="SCORE",
        help=f"which of {', '.join(SCORES)} (default: BLEU chrF2 TER)")  # fmt: skip
    add("--sentences", type=int, default=10, metavar="N", help="how many of those that differ "
        "most are shown (default: 10)")  # fmt: skip
    add("--output", type=Path, metavar="FILE", help="also write it there: .md, or .json")
    return made


def _run(options: argparse.Namespace) -> None:
    prepare_streams()
    output: Path | None = options.output
    if output is not None and output.suffix not in (".md", ".json"):
        raise RunError(f"--output {output}: name a file that ends in .md or .json")
    if output is not None and output.exists():
        raise RunError(f"--output {output} exists already: name another file, or delete it")
    if output is not None and not output.parent.is_dir():
        raise RunError(
            f"the folder of --output {output} does not exist: make it (mkdir -p {output.parent}) "
            "or name another"
        )
    from seq2seq.evaluation.compare import compare, in_words

    found = compare(options.places, options.scores, max(0, options.sentences))
    text = in_words(found)
    print(text, end="", flush=True)  # before the file, which may fail
    if output is not None:
        as_json = json.dumps(found.as_json(), indent=2, ensure_ascii=False) + "\n"
        try:
            replace_text(output, as_json if output.suffix == ".json" else text)
        except OSError as error:
            raise RunError(f"cannot write --output {output} ({error}): name another") from error
