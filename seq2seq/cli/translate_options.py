"""Options of `translate`, the rules between them, and the settings that they become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from seq2seq.cli.model_options import ModelOptions
from seq2seq.cli.options import Command, flat, given, option, option_of
from seq2seq.config import DecodeConfig, unchecked
from seq2seq.config.checked import Checked, group
from seq2seq.documents import KINDS
from seq2seq.inference.engines import PRECISIONS
from seq2seq.inference.text import NAMES, SOURCE_LANGUAGE
from seq2seq.inference.text.terminology import load_terms
from seq2seq.lines import PACKED

DECODE = {one.name for one in fields(DecodeConfig)}
# Options that are keywords of `Translator.translate`.
TEXT = ("split", "protect", "rescue", "prefix", "source_language")
FIGURES = (".pdf", ".png", ".svg")  # as `attention_figure` says, which imports torch

# Options that do nothing alone, and the options of which each needs at least one.
NEEDS = {
    "--resume": ("--output",),
    "--force": ("--output", "--attention"),
    **dict.fromkeys(("--temperature", "--top-k", "--top-p", "--min-p", "--seed"), ("--sample",)),
}
# Documents that would be read as lines of text.
UNREAD = (".doc", ".epub", ".odt", ".pdf", ".pptx", ".rtf", ".xlsx")
# Options whose answers a document has no place for, or that turn off what it needs.
NOT_OF_DOCUMENTS = ("--scores", "--alignments", "--n-best", "--resume", "--prefix", "--no-split",
                    "--no-protect")  # fmt: skip
# Options that do not go together.
CLASHES = [("TEXT", "--file"), ("--resume", "--attention"), ("--resume", "--force"),
           ("--beam", "--sample"), ("--verbose", "--quiet"), ("--use", "--model")]  # fmt: skip
# Options that CTranslate2 lacks, or whose results it does not repeat ...
ONLY_TORCH = ("--min-p", "--repetition-penalty", "--seed", "--attention", "--cuda-graphs")
# ... or that it treats differently, so that --engine auto chooses torch for them.
OTHERWISE = ("--sample", "--json", "--scores", "--prefix", "--ban", "--no-repeat-ngram")


class FileOptions(Checked, section="option"):
    """text, .tsv or .jsonl, compressed (.gz, .zst) or not; documents: .docx, .html, .md, .po,
    .srt, .vtt, .xliff"""

    file: Path | None = option(None, "file to translate, instead of standard input", "FILE")
    output: Path | None = option(None, "output file; it appears only when it is complete", "FILE")
    column: str | None = option(
        None, "column to translate of a .tsv or .jsonl: name or number", "NAME"
    )
    into: str | None = option(None, "column for the translations (default: translation)", "NAME")
    resume: bool = option(False, "continue an interrupted output")
    force: bool = option(False, "replace an existing or unfinished output")
    retranslate: bool = option(
        False, "also translate messages of a .po or .xliff that have translations"
    )

    @property
    def form(self) -> str:
        """The form of the input: `tsv`, `jsonl`, `text`, or the suffix of a document."""
        return form_of(self.file)

    def rules(self) -> Iterator[str]:
        if self.form not in ("tsv", "jsonl"):
            if self.column or self.into:
                yield "--column and --into name columns, which --file X.tsv and X.jsonl have"
        elif not self.column:
            yield f"--file {self.file} has columns: say which one to translate, --column NAME"
        numbers = {name.isdecimal() for name in (self.column, self.into) if name}
        if self.form == "tsv" and len(numbers) == 2:
            yield "--column and --into are both names, or both numbers of a table without names"


class TranslateModelOptions(ModelOptions):
    """The model is --model, else $SEQ2SEQ_MODEL, else the one chosen by --use, else general."""

    use: str | None = option(None, "use this model from now on; general undoes the choice", "DIR")
    engine: str = option(
        "auto", "auto: ctranslate2 if it can do what you ask for", choices=tuple(PRECISIONS)
    )
    batch_tokens: int | None = option_of(DecodeConfig, "batch_tokens", "N")
    cuda_graphs: bool = option(
        False, "replay the decoder as CUDA graphs; faster for small batches on a GPU"
    )


class SearchOptions(Checked, section="option"):
    """Options that are not given have the values of the model's validation."""

    beam: int | None = option_of(DecodeConfig, "beam", "N")
    length_norm: str | None = option_of(DecodeConfig, "length_norm")
    length_penalty: float | None = option_of(
        DecodeConfig, "length_penalty", "X", ": above 0 favours longer output"
    )
    max_length: int | None = option(None, "most subwords of a translated sentence", "N", at_least=1)
    no_repeat_ngram: int | None = option_of(DecodeConfig, "no_repeat_ngram", "N")
    repetition_penalty: float | None = option_of(DecodeConfig, "repetition_penalty", "X", off=1)

    def rules(self) -> Iterator[str]:
        if self.length_norm == "none" and self.length_penalty is not None:
            yield "--length-penalty does nothing with --length-norm none: leave one of them out"


class SamplingOptions(Checked, section="option"):
    """With --sample, tokens are drawn at random."""

    sample: bool = option(False, "draw samples instead of searching")
    temperature: float | None = option_of(DecodeConfig, "temperature", "X")
    top_k: int | None = option_of(DecodeConfig, "top_k", "N")
    top_p: float | None = option_of(DecodeConfig, "top_p", "X")
    min_p: float | None = option_of(DecodeConfig, "min_p", "X", off=0)
    seed: int | None = option_of(DecodeConfig, "seed", "N")


class TextOptions(Checked, section="option"):
    """Evaluation translates a corpus with --no-split --no-protect --no-rescue."""

    prefix: str = option("", "text with which each translation begins", "TEXT")
    terms: Path | None = option(
        None, "file of terms; each line is a phrase, a tab and its translation", "FILE"
    )
    ban: list[str] = option([], "phrase that no translation may contain; can be repeated", "TEXT")
    french_typography: bool = option(False, "write French typography: guillemets and narrow spaces")
    split: bool = option(True, "translate each text whole, not sentence by sentence")
    protect: bool = option(True, "do not protect tags, numbers, links, placeholders and markers")
    rescue: bool = option(True, "keep degenerate translations")
    source_language: str = option(
        "check", "for text that is not English: note it, return it unchanged, or do not check",
        choices=SOURCE_LANGUAGE,
    )  # fmt: skip
    without: list[str] = option(
        [], f"leave out a step; can be repeated: {', '.join(NAMES)}", "STEP", choices=NAMES
    )


class AnswerOptions(Checked, section="option"):
    """What the output shows of each text."""

    n_best: int | None = option_of(
        DecodeConfig, "n_best", "N",
        ": N lines for each text, best first; empty lines if there are fewer", off=1,
    )  # fmt: skip
    scores: bool = option(
        False, "write the score and a tab before each translation; with --json, also the scores of "
        "tokens",
    )  # fmt: skip
    alignments: bool = option(
        False, "write a tab and the alignment after each translation: source-target word numbers, "
        "from 0",
    )  # fmt: skip
    attention: Path | None = option(
        None, f"draw the attention of one text's first sentence ({', '.join(FIGURES)})", "FILE"
    )
    json: bool = option(False, "write one JSON object for each text")

    def rules(self) -> Iterator[str]:
        if self.attention and self.attention.suffix.lower() not in FIGURES:
            yield f"--attention {self.attention} does not end in {', '.join(FIGURES)}: rename it"


class TranslateOptions(Checked, section="option"):
    """Translate English to French: texts, lines of a pipe or a file, or what you type."""

    texts: list[str] = option(
        [], "texts to translate; none = standard input", "TEXT", positional=True
    )
    quiet: bool = option(False, "print only translations and errors")
    verbose: bool = option(False, "also print which engine runs the model, and why")
    files: FileOptions = group(FileOptions)
    model: TranslateModelOptions = group(TranslateModelOptions)
    search: SearchOptions = group(SearchOptions)
    sampling: SamplingOptions = group(SamplingOptions)
    text: TextOptions = group(TextOptions)
    answers: AnswerOptions = group(AnswerOptions)

    def rules(self) -> Iterator[str]:
        problems = [*self._needs_and_clashes(), *self._rules_of_forms()]
        yield from problems
        if not problems:  # else it would repeat them in other words
            asked = decode_settings(self)
            asked.setdefault("beam", max(DecodeConfig.beam, asked.get("n_best", 1)))
            # The bounds of single settings are checked already.
            yield from unchecked(DecodeConfig, vars(DecodeConfig()) | asked).rules()

    def _needs_and_clashes(self) -> Iterator[str]:
        asked = given(self)
        for name, needed in NEEDS.items():
            if name in asked and not asked.intersection(needed):
                yield f"{name} does nothing without {' or '.join(needed)}: add it"
        for name, other in CLASHES:
            if {name, other} <= asked:
                yield f"{name} and {other} do not go together: leave one of them out"
        for name in ONLY_TORCH:
            if name in asked and self.model.engine == "ctranslate2":
                yield f"--engine ctranslate2 has no {name}: leave it out, or use torch"
        if self.answers.attention and len(self.texts) != 1:
            yield "--attention draws one translation: give one text"

    def _rules_of_forms(self) -> Iterator[str]:
        """Yield problems with the forms of input and output, which the names of files tell."""
        file, form, output = self.files.file, self.files.form, self.files.output
        if form in KINDS:
            for name in NOT_OF_DOCUMENTS:
                if name in given(self):
                    yield f"{name} does not go with {file}, which becomes a document: leave it out"
        if file and file.suffix.lower() in UNREAD:
            yield f"{file} is no text, and no document that is read: save it as {', '.join(KINDS)}"
        if self.files.retranslate and form not in (".po", ".xliff", ".xlf"):
            yield "--retranslate is for .po and .xliff, which hold translations: leave it out"
        if form == ".docx" and not output:
            yield f"{file} becomes a document, which no terminal can show: add --output FILE.docx"
        if output and form != form_of(output) and (form != "text" or form_of(output) in KINDS):
            yield f"--output {output} keeps the form of --file {file}: give both the same ending"
        if form == "tsv" and (self.answers.n_best or 1) > 1:
            yield "--n-best gives several translations, and a row of a .tsv has place for one"
        if form != "text" and self.answers.json:
            yield f"--json is for lines of text; {file} keeps its form: leave --json out"


COMMAND = Command(
    "translate",
    TranslateOptions,
    examples="""\
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
  translate --use runs/a                             from now on""",
    notes="Standard error names the model that was used.",
    docs="docs/how-to/translate.md",
)


def decode_settings(options: TranslateOptions) -> dict[str, Any]:
    """Return the options of the search as settings of `DecodeConfig`."""
    given = {name: value for name, value in flat(options).items() if name in DECODE}
    if options.sampling.sample:
        given["strategy"] = "sample"
    if options.search.max_length is not None:  # whatever the source's length; the end mark is extra
        given |= {"max_ratio": 0.0, "max_extra": options.search.max_length + 1}
    return {name: value for name, value in given.items() if value is not None}


def only_torch(options: TranslateOptions) -> list[str]:
    """Return the given options that CTranslate2 lacks, or treats differently from torch."""
    asked = given(options)
    return [name for name in (*ONLY_TORCH, *OTHERWISE) if name in asked]


def keywords(options: TranslateOptions) -> dict[str, Any]:
    """Return the options as keywords of `Translator.translate`.

    Raises:
        DataError: the file of terms cannot be used.
    """
    return {
        **{name: getattr(options.text, name) for name in TEXT},
        "terms": load_terms(options.text.terms) if options.text.terms else None,
        "typography": options.text.french_typography,
        "banned": options.text.ban or (),
        "without": options.text.without or (),
        "align": options.answers.alignments,
        **decode_settings(options),
    }


def form_of(path: Path | None) -> str:
    """Return `tsv`, `jsonl`, `text`, or the suffix of a document, by the name of a file."""
    if path is None:
        return "text"
    if (suffix := path.suffix.lower()) in KINDS and suffix != ".txt":
        return suffix
    name = path.with_suffix("") if path.suffix in PACKED else path
    return {".tsv": "tsv", ".jsonl": "jsonl"}.get(name.suffix, "text")
