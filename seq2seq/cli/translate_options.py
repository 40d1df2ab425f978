"""Options of `translate`: what there is, what goes together, and which setting each becomes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seq2seq import __version__
from seq2seq.cli.model_options import add_model_options, model_problems
from seq2seq.config import DecodeConfig, unchecked
from seq2seq.errors import ConfigError
from seq2seq.inference.text.terminology import load_terms
from seq2seq.lines import PACKED

EXAMPLES = """examples:
  translate "hello world"
  translate "How are you?" "See you tomorrow."
  translate < english.txt > french.txt               as many lines out as in
  translate --file english.txt.gz --output french.txt.gz
  translate --file english.txt.gz --output french.txt.gz --resume      after an interruption
  translate --file pairs.tsv --column en --output with_french.tsv
  translate --n-best 3 --scores "the old house"
  translate --sample --temperature 0.8 --n-best 5 "the old house"
  translate --terms terms.tsv --french-typography "He said: the house is old!"
  translate --alignments --attention heads.png "the old house"
  translate --model runs/a --model runs/b --json "Good evening."

The model is --model, else $SEQ2SEQ_MODEL, else the newest finished run below runs/, else general,
which is shipped with this program. Which one it was is said on standard error.
Exit codes: 0 done, 1 something given cannot be used, 2 wrong option, 130 interrupted by Ctrl-C,
141 whoever read the output has gone."""

# Options that are settings of `DecodeConfig` of the same name; None = as the model was validated.
SEARCH = ("beam", "n_best", "length_penalty", "length_norm", "coverage", "diversity")
CHANCE = ("temperature", "top_k", "top_p", "min_p", "seed")
RULES = ("no_repeat_ngram", "repetition_penalty")
DIRECT = (*SEARCH, *CHANCE, "samples", *RULES, "batch_tokens")
TEXT = ("split", "protect", "rescue", "typography", "terms", "prefix")  # of `translate`
FIGURES = (".pdf", ".png", ".svg")  # as `attention_figure` says, which imports torch
# Settings whose option has another name, for messages.
CALLED = {"groups": "diverse", "max_extra": "max-length", "strategy": "sample"}


def parser() -> argparse.ArgumentParser:
    """The options of `translate`, in groups."""
    made = argparse.ArgumentParser(
        prog="translate",
        usage="translate [options] [TEXT ...]",
        description="Translate English to French: texts, lines of a pipe or a file, or what you "
        "type.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("texts", nargs="*", metavar="TEXT", help="texts; none = standard input")
    made.add_argument("--quiet", action="store_true", help="nothing but translations and errors")
    made.add_argument("--version", action="version", version=f"seq2seq {__version__}")
    _add_files(made)
    _add_model(made)
    _add_search(made)
    _add_chance(made)
    _add_text(made)
    _add_answers(made)
    return made


def _add_files(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group(
        "files", "lines of text, .tsv or .jsonl, packed (.gz, .zst) or not"
    ).add_argument
    add("--file", type=Path, metavar="FILE", help="what to translate, instead of standard input")
    add("--output", type=Path, metavar="FILE", help="written whole or not at all")
    add("--column", metavar="NAME", help="of .tsv or .jsonl: what to translate; a number from 0 on "
        "for .tsv without names")  # fmt: skip
    add("--into", metavar="NAME", help="column for translations (default: translation)")
    add("--resume", action="store_true", help="go on with an output that was interrupted")
    add("--force", action="store_true", help="replace an output that exists, or was begun")


def _add_model(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("model").add_argument
    add_model_options(add)
    add("--batch-tokens", type=int, metavar="N", help="source tokens x beam at once: memory")
    add("--cuda-graphs", action="store_true", help="on a GPU: faster for small batches")


def _add_search(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("search", "by default as the model was validated").add_argument
    add("--beam", type=int, metavar="N", help="hypotheses kept; 1 = greedy")
    add("--length-penalty", type=float, metavar="X", help="above 0 favours longer output")
    add("--length-norm", choices=("none", "average", "gnmt"), help="how length enters a score")
    add("--coverage", type=float, metavar="X", help="cost of source words left out")
    add("--diverse", type=int, metavar="N", dest="groups", help="groups of hypotheses that differ")
    add("--diversity", type=float, metavar="X", help="how much they differ")
    add("--max-length", type=int, metavar="N", help="most subwords of a sentence's translation")
    add("--no-repeat-ngram", type=int, metavar="N", help="N subwords in a row occur once")
    add("--repetition-penalty", type=float, metavar="X", help="above 1: against used subwords")


def _add_chance(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("sampling").add_argument
    add("--sample", action="store_true", help="draw words by chance")
    add("--mbr", action="store_true", help="of samples, the one that is most like the others")
    add("--samples", type=int, metavar="N", help="that --mbr chooses from")
    add("--temperature", type=float, metavar="X", help="below 1 sharper, above 1 flatter")
    add("--top-k", type=int, metavar="N", help="only the likeliest so many")
    add("--top-p", type=float, metavar="X", help="only the likeliest with this probability")
    add("--min-p", type=float, metavar="X", help="only those at least so likely, relative to the "
        "likeliest")  # fmt: skip
    add("--seed", type=int, metavar="N", help="another one, other samples")


def _add_text(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group(
        "text", "--no-split --no-protect --no-rescue is how evaluation translates a corpus"
    ).add_argument
    add("--prefix", default="", metavar="TEXT", help="each translation begins so")
    add("--terms", type=load_terms, metavar="FILE", help="lines of source phrase, tab, the phrase "
        "that is to stand for it")  # fmt: skip
    add("--ban", dest="banned", action="append", metavar="TEXT", help="not in any "
        "translation; several times for several")  # fmt: skip
    add("--french-typography", dest="typography", action="store_true", help="apostrophes, "
        "quotation marks and spaces as French is printed")  # fmt: skip
    add("--no-split", dest="split", action="store_false", help="translate each text at once, and "
        "not sentence by sentence")  # fmt: skip
    add("--no-protect", dest="protect", action="store_false", help="do not look after tags, "
        "numbers, links, placeholders, list markers and outer space")  # fmt: skip
    add("--no-rescue", dest="rescue", action="store_false", help="leave degenerate translations "
        "as they are")  # fmt: skip


def _add_answers(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("answers").add_argument
    add("--n-best", type=int, metavar="N", help="N lines for each text, the best first; empty "
        "where there are fewer that differ")  # fmt: skip
    add("--scores", action="store_true", help="score and a tab in front; with --json those of "
        "tokens too")  # fmt: skip
    add("--alignments", action="store_true", help="a tab and which words translate each other, "
        "source-target from 0 on")  # fmt: skip
    add("--attention", type=Path, metavar="FILE", help="also draw what the model looked at (.png, "
        ".pdf, .svg)")  # fmt: skip
    add("--json", action="store_true", help="one object for each text")


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work together, before anything is read.

    Raises:
        ConfigError: all of it in one message.
    """
    problems = [*_files_problems(options), *_chance_problems(options), *_answer_problems(options)]
    problems += _engine_problems(options)
    if options.max_length is not None and options.max_length < 1:
        problems.append(f"--max-length {options.max_length} leaves no room: give 1 or more")
    settings = decode_settings(options)
    settings.setdefault("beam", max(DecodeConfig.beam, settings.get("n_best", 1)))
    if not problems:  # else it would say the same in other words
        whole = unchecked(DecodeConfig, vars(DecodeConfig()) | settings)
        problems = [_as_options(problem) for problem in whole.problems()]
    if problems:
        raise ConfigError(problems)


def decode_settings(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked of the search, as settings of `DecodeConfig`."""
    given: dict[str, Any] = {name: getattr(options, name) for name in (*DIRECT, "groups")}
    if options.sample or options.mbr:
        given["strategy"] = "sample" if options.sample else "mbr"
    if options.max_length is not None:  # whatever the length of the source; the end mark is extra
        given |= {"max_ratio": 0.0, "max_extra": options.max_length + 1}
    return {name: value for name, value in given.items() if value is not None}


def keywords(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked of a translation, as `Translator.translate` calls it."""
    return {
        **{name: getattr(options, name) for name in TEXT},
        "banned": options.banned or (),
        "align": options.alignments,
        **decode_settings(options),
    }


def kind_of(path: Path | None) -> str:
    """`tsv`, `jsonl` or `text`, by the name of a file."""
    if path is None:
        return "text"
    name = path.with_suffix("") if path.suffix in PACKED else path
    return {".tsv": "tsv", ".jsonl": "jsonl"}.get(name.suffix, "text")


def _files_problems(options: argparse.Namespace) -> Iterator[str]:
    if options.texts and options.file:
        yield f"a text and --file {options.file} were given: give one of them"
    for name in ("resume", "force"):
        about = options.output or (name == "force" and options.attention)
        if getattr(options, name) and not about:
            yield f"--{name} is about an output file: add --output FILE"
    if options.resume and options.force:
        yield "--resume goes on with what is there and --force begins anew: choose one"
    kind, made = kind_of(options.file), kind_of(options.output)
    if kind == "text" and (options.column or options.into):
        name = "--column" if options.column else "--into"
        yield f"{name} names a column, and lines of text have none: give --file X.tsv or X.jsonl"
    if kind != "text" and not options.column:
        yield f"--file {options.file} has columns: say which one to translate, --column NAME"
    if kind != "text" and options.output and made != kind:
        yield (
            f"--file {options.file} is {kind} and --output {options.output} is not, but all its "
            f"columns are kept: give an output that ends in .{kind}"
        )
    if kind == "tsv" and options.into and options.into.isdecimal() != options.column.isdecimal():
        yield "--column and --into are both names or both numbers: a table has names or it has not"
    if kind == "text" and made == "jsonl" and not options.json:
        yield f"--output {options.output} is for objects: add --json, or give it another name"


def _chance_problems(options: argparse.Namespace) -> Iterator[str]:
    chosen = [f"--{name}" for name in ("sample", "mbr") if getattr(options, name)]
    if len(chosen) == 2:
        yield "--sample returns samples and --mbr the most typical of them: choose one"
    for name in ("beam", "groups", "diversity", "coverage"):
        if chosen and getattr(options, name) is not None:
            yield (
                f"{chosen[0]} draws words by chance and {_option(name)} is for a search of the "
                "likeliest: choose one"
            )
    for name in CHANCE:
        if not chosen and getattr(options, name) is not None:
            yield f"{_option(name)} changes nothing without chance: add --sample or --mbr"
    if options.samples is not None and not options.mbr:
        yield "--samples is how many --mbr chooses from: add --mbr (for --sample it is --n-best)"


def _answer_problems(options: argparse.Namespace) -> Iterator[str]:
    kind = kind_of(options.file)
    if options.attention and len(options.texts) != 1:
        yield (
            f"--attention draws one translation, and {len(options.texts) or 'no'} texts were given "
            'after the options: give one, translate --attention FILE.png "hello world"'
        )
    if options.attention and options.engine == "ctranslate2":
        yield "--attention draws all heads, which --engine ctranslate2 does not tell: use torch"
    if options.attention and not options.attention.parent.is_dir():
        yield f"the folder of --attention {options.attention} does not exist: make it"
    if options.attention and options.attention.suffix.lower() not in FIGURES:
        yield f"--attention {options.attention} does not end in {', '.join(FIGURES)}: rename it"
    if options.attention and options.attention.is_dir():
        yield f"--attention {options.attention} is a folder: name a file in it"
    elif options.attention and options.attention.exists() and not options.force:
        yield f"--attention {options.attention} exists already: name another, or add --force"
    if (options.groups or 1) > 1 and (options.n_best or 1) < 2:
        yield f"--diverse {options.groups} shows only among several translations: add --n-best N"
    if options.diversity is not None and (options.groups or 1) < 2:
        yield "--diversity changes nothing without groups: add --diverse N"
    if kind == "tsv" and (options.n_best or 1) > 1:
        yield (
            f"--n-best {options.n_best} gives several translations, and a row of a .tsv file has "
            "place for one: use .jsonl or lines of text"
        )
    if kind != "text" and options.json:
        yield f"--json is for lines of text; {options.file} keeps its form: leave --json out"
    if options.length_norm == "none" and options.length_penalty is not None:
        yield "--length-penalty changes nothing with --length-norm none: leave one of them out"


def _engine_problems(options: argparse.Namespace) -> Iterator[str]:
    """What no engine has, or CTranslate2 lacks; values that change nothing may be given."""
    yield from model_problems(options)
    if options.engine != "ctranslate2":
        return
    lacking = {
        "groups": (options.groups or 1) > 1,
        "min_p": (options.min_p or 0) > 0,
        "repetition_penalty": options.repetition_penalty not in (None, 1),
        "terms": bool(options.terms),
    }
    for name, asked in lacking.items():
        if asked:
            yield f"--engine ctranslate2 has no {_option(name)}: leave it out, or use torch"
    if options.seed is not None:
        yield "--engine ctranslate2 cannot repeat its samples: leave --seed out, or use torch"
    if options.cuda_graphs:
        yield "--cuda-graphs are for --engine torch: leave them out"


def _option(setting: str) -> str:
    return "--" + CALLED.get(setting, setting).replace("_", "-")


def _as_options(problem: str) -> str:
    """A problem of `DecodeConfig` in the words of the command line."""
    return re.sub(
        r"decode\.(\w+)(=?)", lambda found: _option(found[1]) + " " * bool(found[2]), problem
    )
