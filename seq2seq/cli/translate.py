"""`translate "hello world"`: English in, French out, line by line."""

from __future__ import annotations

import argparse
import io
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from seq2seq import __version__
from seq2seq.cli.report import run_command
from seq2seq.errors import DataError, UserError

if TYPE_CHECKING:  # torch takes seconds to load: --help and mistakes shall not wait for it
    from seq2seq.inference.translator import Translation, Translator

BLOCK = 512  # lines of a pipe that are translated together

EXAMPLES = """examples:
  translate "hello world"
  translate "How are you?" "See you tomorrow."
  translate < english.txt > french.txt      as many lines out as in
  translate --n-best 3 --scores "the old house"
  translate --model runs/my-run --json "Good evening."

The model is --model, else $SEQ2SEQ_MODEL, else the newest finished run below runs/.
Exit codes: 0 done, 1 something cannot be used, 2 wrong option, 130 interrupted."""


def main() -> None:
    """The `translate` command."""
    run_command(lambda: _run(_parser().parse_args()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="translate",
        description="Translate English to French.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts; none = standard input")
    parser.add_argument("--model", metavar="DIR", help="folder of a run or a bundle")
    parser.add_argument("--beam", type=int, metavar="N", help="hypotheses kept; 1 = greedy")
    parser.add_argument("--n-best", type=int, default=1, metavar="N", help="translations per text")
    parser.add_argument("--scores", action="store_true", help="put the score and a tab in front")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--quiet", action="store_true", help="nothing but translations and errors")
    parser.add_argument("--version", action="version", version=f"seq2seq {__version__}")
    return parser


def _run(options: argparse.Namespace) -> None:
    for name, value in (("--beam", options.beam), ("--n-best", options.n_best)):
        if value is not None and value < 1:
            raise UserError(f"{name} {value} asks for nothing: give 1 or more")
    if options.beam is not None and options.n_best > options.beam:
        raise UserError(
            f"--n-best {options.n_best} needs a beam as large, but --beam is {options.beam}"
        )
    for number, text in enumerate(options.texts, 1):
        if text != text.encode("utf-8", "ignore").decode("utf-8"):
            raise DataError(f"text {number} on the command line is not UTF-8: {text!r}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # French needs it, whatever the locale says
    level = logging.ERROR if options.quiet else logging.WARNING
    logging.basicConfig(level=level, format="translate: %(message)s", stream=sys.stderr)
    from seq2seq.inference.find_model import find_model

    folder, why = find_model(options.model)
    from seq2seq.inference.translator import Translator

    translator = Translator.load(folder, options.device)
    if not options.quiet:
        print(f"translate: using the model {folder} ({why})", file=sys.stderr, flush=True)
    if options.texts:
        _translate(translator, options.texts, options)
    elif sys.stdin.isatty():
        _prompt(translator, options)
    else:
        lines = _read_lines(sys.stdin.buffer)
        while block := list(islice(lines, BLOCK)):
            _translate(translator, block, options)


def _prompt(translator: Translator, options: argparse.Namespace) -> None:
    print("English, one sentence per line; Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            line = input("> ")
        except EOFError:
            return
        _translate(translator, [line], options)


def _read_lines(stream: BinaryIO) -> Iterator[str]:
    for number, raw in enumerate(stream, 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"standard input, line {number}: not UTF-8 text ({error.reason} at byte "
                f"{error.start} of the line). Convert it, for example: iconv -f latin1 -t utf-8"
            ) from error


def _translate(
    translator: Translator, texts: Iterable[str], options: argparse.Namespace
) -> None:
    texts = list(texts)
    found = translator.translate(texts, beam=options.beam, n_best=options.n_best)
    results = [[best, *best.alternatives] for best in found]
    for text, translations in zip(texts, results, strict=True):
        for translation in translations:
            print(_format(text, translation, options))
    sys.stdout.flush()


def _format(source: str, translation: Translation, options: argparse.Namespace) -> str:
    # A line break inside a text would break "as many lines out as in".
    text = " ".join(translation.text.split("\n"))
    if options.json:
        fields = {"source": source, "translation": translation.text, "score": translation.score}
        return json.dumps(fields, ensure_ascii=False)
    return f"{translation.score:.4f}\t{text}" if options.scores else text


if __name__ == "__main__":
    main()
