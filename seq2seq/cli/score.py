"""`seq2seq score`: how likely a model finds given translations, for filtering and ranking."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.cli.exits import prepare_streams, progress_bar
from seq2seq.cli.model_options import ModelOptions
from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked, group
from seq2seq.errors import ConfigError, DataError
from seq2seq.lines import bounded, decoded

if TYPE_CHECKING:  # slow to load: --help and error messages should not wait for it
    from seq2seq.data.corpus import Pair
    from seq2seq.inference.translation import PairScore


BLOCK = 512  # pairs that are scored together
REPORTED = 10  # pairs without a score that are named; further ones are only counted
FIELDS = ("log_prob", "per_token", "per_word")


class ScoreOptions(Checked, section="option"):
    """Compute how likely a model finds given translations, to filter or rank them."""

    files: list[Path] = option(
        [], "two text files, or one table (.tsv, .jsonl, .parquet); none = standard input with "
        "SOURCE tab TARGET", "FILE", positional=True,
    )  # fmt: skip
    columns: list[str] = option(
        ["en", "fr"], "columns of a table; numbers from 0 if a .tsv has no header", "SOURCE TARGET"
    )
    json: bool = option(False, "write one JSON object for each pair, with the scores of tokens")
    quiet: bool = option(False, "print only scores and errors")
    model: ModelOptions = group(ModelOptions)


COMMAND = Command(
    "seq2seq score",
    ScoreOptions,
    examples="""\
  seq2seq score english.txt french.txt > scores.tsv
  seq2seq score pairs.tsv --columns en fr
  seq2seq score --model runs/a --model runs/b pairs.jsonl --json
  paste english.txt french.txt | seq2seq score | paste - english.txt french.txt | sort -g""",
    notes="""\
Each line has the natural log probability of a translation, its mean per token (the end mark is
one), and its mean per word. A pair that is empty or too long gets empty scores, and standard error
names it.""",
    docs="docs/how-to/translate.md",
)


@COMMAND.main
def main(options: ScoreOptions) -> None:
    prepare_streams()
    source, target = options.columns
    pairs = read(options.files, (source, target))
    from seq2seq.bundle.find import find_model

    models = [find_model(name) for name in options.model.model] or [find_model(None)]
    if not options.model.model and not options.quiet:
        print("score: using the model {} ({})".format(*models[0]), file=sys.stderr, flush=True)
    from seq2seq.inference.translator import Translator

    translator = Translator.load(
        [folder for folder, _ in models], options.model.device,
        engine=options.model.engine, precision=options.model.precision,
    )  # fmt: skip
    done, skipped = 0, 0
    shown = not options.quiet and sys.stderr.isatty() and not sys.stdout.isatty()
    with progress_bar(shown) as bar:
        while block := list(islice(pairs, BLOCK)):
            ids = translator.encode(block)
            reasons = [unscorable(sides, translator.engine.max_length) for sides in ids]
            for number, reason in enumerate(reasons, done + 1):
                skipped += bool(reason)
                if reason and skipped <= REPORTED and not options.quiet:
                    print(f"score: pair {number} has no score: {reason}", file=sys.stderr)
            kept = [number for number, reason in enumerate(reasons) if not reason]
            scored = iter(translator.score([block[n] for n in kept], [ids[n] for n in kept]))
            for reason in reasons:
                print(line_of(None if reason else next(scored), options.json))
            sys.stdout.flush()
            done += len(block)
            bar.update(len(block))
    if skipped and not options.quiet:
        print(f"score: {skipped:,} of {done:,} pairs have no score", file=sys.stderr)


def read(files: Sequence[Path], columns: tuple[str, str]) -> Iterator[Pair]:
    """Return all pairs of source and target, in order; files are read when a pair is needed.

    Raises:
        ConfigError: the files do not go together.
        DataError: a file is missing (raised at once), or cannot be read (raised when it is read;
            names the line).
    """
    if not files:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigError("nothing to score: give files, or a pipe of SOURCE tab TARGET")
        return _of_stdin()
    from seq2seq.data.corpus import kind_of

    kinds = [kind_of(file) for file in files]
    if len(files) > 2 or (len(files) == 2) != (kinds[0] == "text") or len(set(kinds)) > 1:
        raise ConfigError(
            f"score cannot read {' and '.join(map(str, files))}. Give two text files, or one table "
            "(.tsv, .jsonl, .parquet) with a source and a target column"
        )
    for file in files:  # they are read much later, when the model is loaded
        if file.is_dir() or not file.exists():
            raise DataError(f"cannot read {file}: there is no such file. Correct the name")
    return _of_files(list(files), columns)


def _of_files(files: list[Path], columns: tuple[str, str]) -> Iterator[Pair]:
    from seq2seq.data.corpus import read_pairs

    settings = "data.source_column and data.target_column"  # their names in training
    try:
        yield from read_pairs(files, columns)
    except DataError as error:
        raise DataError(str(error).replace(settings, "--columns SOURCE TARGET")) from error


def _of_stdin() -> Iterator[Pair]:
    lines = bounded(sys.stdin.buffer, "standard input")
    for number, line in enumerate(decoded(lines, "standard input"), 1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            raise DataError(
                f"standard input, line {number} needs one tab, between source and target. Give "
                "files, or select two columns, for example: cut -f 1,2"
            )
        yield source, target


def unscorable(sides: Sequence[Sequence[int]], limit: int) -> str:
    """Explain why a pair, given as token ids, cannot be scored; empty if it can."""
    for name, ids in zip(("source", "target"), sides, strict=True):
        if not ids:
            return f"its {name} is empty"
        if len(ids) >= limit:
            return f"its {name} has {len(ids) + 1} tokens, and the model reads {limit}"
    return ""


def line_of(score: PairScore | None, as_json: bool) -> str:
    """Return the line for a pair: an object, or the `FIELDS`; without a score, values are empty."""
    found: dict[str, Any] = {name: getattr(score, name, None) for name in FIELDS}
    if not as_json:
        return "\t".join("" if value is None else f"{value:.4f}" for value in found.values())
    for name in ("tokens", "token_scores"):
        found[name] = getattr(score, name, [])
    return json.dumps(found, ensure_ascii=False)
