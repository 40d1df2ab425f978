"""`translate "hello world"`: English in, French out, line by line, or a document."""

from __future__ import annotations

import io
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.bundle.find import GENERAL, choose_model, find_model
from seq2seq.cli.exits import prepare_streams, progress_bar
from seq2seq.cli.output_file import Output, PartialFile, check_output, made_with
from seq2seq.cli.records import Form, JsonLines, Lines, Objects, Record, Rows
from seq2seq.cli.translate_options import (
    COMMAND,
    AnswerOptions,
    TranslateOptions,
    keywords,
    only_torch,
)
from seq2seq.cores import keep_freed_memory
from seq2seq.documents import KINDS, LARGEST, read
from seq2seq.errors import DataError, RunError, UserError
from seq2seq.files import atomic_write
from seq2seq.inference.engines import choose_engine
from seq2seq.lines import ArrivingLines, decoded, lines_of

if TYPE_CHECKING:  # slow to load: --help and error messages should not wait for it
    from seq2seq.inference.translation import Translation
    from seq2seq.inference.translator import Translator

BLOCK = 1024  # most lines of a block, which are translated together ...
LETTERS = 1 << 20  # ... and most characters of it
FIRST = 8000  # characters of the first block
LINE = 20  # characters that each line counts beside its own
SECONDS = 5.0  # that a block may take: the wait for its answers, and the work that a kill loses
LONG_LINE_CHARACTERS = 10_000  # a line with more characters is answered in parts
STDIN = "standard input"
_ENDS = re.compile(r"(?:(?<=[.!?…])|(?<=[,;:])|)\s+")


@COMMAND.main
def main(options: TranslateOptions) -> None:
    prepare_streams()
    if options.model.use:
        folder = choose_model(options.model.use)
        print(f"translate: {folder} answers from now on where no model is named; "
              f"to undo that: translate --use {GENERAL}", file=sys.stderr)  # fmt: skip
        if not options.texts and not options.files.file:
            return
    _check_input(options)
    check_output(options)
    asked = keywords(options)
    level = logging.ERROR if options.quiet else logging.WARNING
    logging.basicConfig(level=level, format="translate: %(message)s", stream=sys.stderr)
    folders = _models(options)
    if _is_prompt(options):
        _prompt(_load(folders, options), options, asked)
    elif options.files.form in KINDS:
        _document(folders, options, asked)
    else:
        _translate_lines(folders, options, asked)


def _check_input(options: TranslateOptions) -> None:
    for number, text in enumerate(options.texts, 1):
        if text != text.encode("utf-8", "ignore").decode("utf-8"):
            raise DataError(f"text {number} on the command line is not UTF-8: {text!r}")
    file = options.files.file
    if file and (file.is_dir() or not file.exists()):
        raise DataError(f"--file {file} is not a file: correct its name")
    if not options.texts and not file and sys.stdin is None:
        raise DataError(f"{STDIN} is closed: give texts, --file FILE or a pipe")
    if _is_prompt(options) and (output := options.files.output):
        raise RunError(f"nothing to translate for --output {output}: add --file or texts")


def _is_prompt(options: TranslateOptions) -> bool:
    return not options.texts and not options.files.file and sys.stdin.isatty()


def _models(options: TranslateOptions) -> list[Path]:
    """Return the folders of the models; print which, and choose the engine of `options`."""
    chosen = options.model
    models = [find_model(name) for name in chosen.model] or [find_model(None)]
    folders = [folder for folder, _ in models]
    engine, why = chosen.engine, "asked for"
    if engine == "auto":
        engine, why = choose_engine(folders, chosen.device, chosen.precision, only_torch(options))
        if engine == "torch":
            chosen.engine = engine
    if not options.quiet:
        names, reason = " and ".join(map(str, folders)), models[0].why
        ran = f" on {engine} ({why})" if options.verbose else ""
        print(f"translate: using the model {names} ({reason}){ran}", file=sys.stderr, flush=True)
    return folders


def _load(folders: Sequence[Path], options: TranslateOptions) -> Translator:
    from seq2seq.inference.translator import Translator

    keep_freed_memory()
    chosen = options.model
    return Translator.load(
        folders, chosen.device,
        engine=chosen.engine, precision=chosen.precision, cuda_graphs=chosen.cuda_graphs,
    )  # fmt: skip


# Lines


def _translate_lines(
    folders: Sequence[Path], options: TranslateOptions, asked: Mapping[str, Any]
) -> None:
    form, output = _form(options), Output()
    lines, pauses = _lines(options)
    if options.files.output is not None:
        described = made_with(options, asked["terms"], folders)
        output = PartialFile(options.files.output, described, options.files.resume)
    with output:
        rest = output.skip_translated(in_parts(form.read(lines), form))
        translator = _load(folders, options)
        shown = _shows_bar(options)
        with progress_bar(shown, _count(options) if shown else None, output.records) as bar:
            for block in blocks(rest, pauses):
                found, answers = _translate(translator, form, block, asked)
                output.write(block, answers)
                bar.update(len(block))
    if figure := options.answers.attention:  # then there is one text
        from seq2seq.inference.attention_figure import draw_attention

        draw_attention(translator, found[0].parts, figure)


def _form(options: TranslateOptions) -> Form:
    """Return the form of input and output."""
    files, wanted = options.files, options.answers
    name, column = str(files.file), files.column or ""  # the rules require one for tables
    if files.form == "tsv":
        into = files.into or (None if column.isdecimal() else "translation")
        return Rows(name, column, into, wanted)
    if files.form == "jsonl":
        return Objects(name, column, files.into or "translation", wanted)
    return JsonLines(wanted) if wanted.json else Lines(wanted)


def _lines(options: TranslateOptions) -> tuple[Iterable[str], Callable[[], bool]]:
    """Return the lines of the input, and a function: is the next line still to come?"""
    if options.texts:
        return options.texts, lambda: False
    if options.files.file:
        return lines_of(options.files.file), lambda: False
    arriving = ArrivingLines(sys.stdin.fileno(), STDIN)
    return decoded(arriving, STDIN), arriving.pauses


def in_parts(records: Iterable[Record], form: Form) -> Iterator[Record]:
    """Cut each long line, which may have megabytes, into records, between sentences if possible.

    So each part is answered as soon as it is translated. A line stays whole if its answer has more
    than a text.
    """
    whole = type(form) is not Lines or form.wanted != AnswerOptions()
    for record in records:
        text, at = record.text or "", 0
        while not whole and len(text) - at > LONG_LINE_CHARACTERS:
            # Cut at the last of the best places, but not in the first half: parts would shrink.
            half, limit = at + LONG_LINE_CHARACTERS // 2, at + LONG_LINE_CHARACTERS
            spaces = list(_ENDS.finditer(text, half, limit))
            best = max(spaces, key=lambda one: (text[one.start() - 1] in ".!?…", one.start()),
                       default=None)  # fmt: skip
            start, end = best.span() if best else (limit, limit)
            gap = re.sub(r"[\r\n]+", " ", text[start:end])  # in a text on the command line
            yield Record(text[at:start], text[at:start], end=gap)
            at = end
        yield record if not at else Record(text[at:], text[at:])


def blocks(records: Iterable[Record], pauses: Callable[[], bool]) -> Iterator[list[Record]]:
    """Group records into blocks of a few seconds of work, which are translated together.

    A block ends early if no further input waits. The time that the caller spends on one block
    decides the size of the next.
    """
    block: list[Record] = []
    work, room = 0, FIRST
    for record in records:
        block.append(record)
        work += len(record.line) + LINE
        if work >= room or len(block) == BLOCK or pauses():
            started = time.perf_counter()
            yield block
            share = SECONDS / max(time.perf_counter() - started, 1e-3)
            room = max(1, min(LETTERS, int(work * min(share, 4))))  # one block says little
            block, work = [], 0
    if block:
        yield block


def _translate(
    translator: Translator, form: Form, records: Sequence[Record], asked: Mapping[str, Any]
) -> tuple[list[Translation], list[str]]:
    """Translate the records that have a text; return the translations and all answers."""
    texts = [record.text for record in records if record.text is not None]
    found = translator.translate(texts, **asked)
    rest = iter(found)
    return found, [
        str(record.row) if record.text is None else form.answer(record, next(rest))
        for record in records
    ]


def _shows_bar(options: TranslateOptions) -> bool:
    """Tell whether to show a bar: the job is long, and nothing else goes to the terminal."""
    return (
        not options.quiet
        and not options.texts
        and sys.stderr.isatty()
        and (options.files.output is not None or not sys.stdout.isatty())
    )


def _count(options: TranslateOptions) -> int | None:
    """Count the lines of the input, for the time left; None if they cannot be counted."""
    path = options.files.file or Path("/dev/stdin")
    if not path.is_file():  # a pipe can be read only once
        return None
    try:
        return sum(1 for _ in lines_of(path))
    except DataError:  # reported when the place is reached
        return None


# Documents


def _document(folders: Sequence[Path], options: TranslateOptions, asked: Mapping[str, Any]) -> None:
    """Translate a document as a whole."""
    file, output = options.files.file, options.files.output
    assert file is not None
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        document = read(data, options.files.form, again=options.files.retranslate)
    except (OSError, DataError) as error:
        raise DataError(f"{file}: {error}") from error
    found: list[str] = []
    if document.texts:
        translator = _load(folders, options)
        records = (Record(text, text) for text in document.texts)
        with progress_bar(_shows_bar(options), len(document.texts)) as bar:
            for block in blocks(records, lambda: False):
                texts = [record.line for record in block]
                found += [one.text for one in translator.translate(texts, **asked)]
                bar.update(len(block))
    if output is None:
        sys.stdout.buffer.write(document.write(found))
        return
    with atomic_write(output) as written:
        written.write(document.write(found))


# The prompt


def _prompt(translator: Translator, options: TranslateOptions, asked: Mapping[str, Any]) -> None:
    print("English, one sentence per line; Ctrl-D ends.", file=sys.stderr)
    form, output = _form(options), Output()
    for record in form.read(_typed()):
        try:
            _, answers = _translate(translator, form, [record], asked)
        except UserError as error:  # only in this text
            print(f"error: {error}", file=sys.stderr)
        else:
            output.write([record], answers)


def _typed() -> Iterator[str]:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    while True:
        try:
            # If answers go to a file, prompts must not go there, too.
            yield input("> " if sys.stdout.isatty() else "")
        except EOFError:
            return


if __name__ == "__main__":
    main()
