"""`seq2seq export`: write a model for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.bundle.find import HUB_NAME
from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

# The useful ones of CTranslate2: int16 is as large as float16, and only for Intel's MKL.
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float16")


class ExportOptions(Checked, section="option"):
    """Write a model for CTranslate2, an engine that is fast on CPUs, or for Hugging Face's
    Transformers library."""

    format: str | None = option(
        None, "target program: ctranslate2 or huggingface", "FORMAT",
        positional=True, choices=("ctranslate2", "huggingface"),
    )  # fmt: skip
    model: str | None = option(None, "a run, a bundle, or general", "FOLDER", positional=True)
    output: Path | None = option(None, "new folder; by default beside the bundle", "DIR")
    quantization: str = option(
        "float32", "ctranslate2: type of the stored weights", choices=QUANTIZATIONS
    )
    force: bool = option(False, "replace an exported model")
    license: str | None = option(
        None, "huggingface: license of the weights, for the model card", "NAME"
    )
    push: str | None = option(
        None, "huggingface: hub model to upload to; only lists what would be sent, unless --send "
        "is given", "OWNER/NAME",
    )  # fmt: skip
    send: bool = option(False, "send the model; a new hub model is private")

    def rules(self) -> Iterator[str]:
        if self.model is None:
            yield "name the format and a run or bundle: seq2seq export ctranslate2 runs/demo"
        if self.format == "ctranslate2":
            for name in ("license", "push"):
                if getattr(self, name) is not None:
                    yield f"--{name} is for the format huggingface: leave it out"
        elif self.quantization != "float32":
            yield "--quantization is for the format ctranslate2: leave it out"
        if self.push is not None and not HUB_NAME.fullmatch(self.push):
            yield f"--push {self.push} is not a name of the hub: give OWNER/NAME, such as me/en-fr"
        if self.send and self.push is None:
            yield "--send sends a model to the hub: add its name, --push OWNER/NAME"


COMMAND = Command(
    "seq2seq export",
    ExportOptions,
    examples="""\
  seq2seq export ctranslate2 runs/demo
  seq2seq export ctranslate2 runs/demo --quantization int8 --output models/en-fr-int8
  seq2seq export huggingface runs/demo --output models/en-fr-hf
  translate --engine ctranslate2 --model models/en-fr-int8 "hello world\"""",
    docs="docs/how-to/translate.md",
)


@COMMAND.main
def main(options: ExportOptions) -> None:
    model = Path(str(options.model))
    if options.format == "huggingface":
        _export_huggingface(options, model)
        return
    from seq2seq.bundle.ctranslate2_export import export

    folder = export(model, options.output, options.quantization, options.force)
    size = (folder / "model.bin").stat().st_size / 1e6
    print(f"exported    {folder} ({size:.1f} MB)")
    print(f'translate   translate --engine ctranslate2 --model {folder} "hello world"')


def _export_huggingface(options: ExportOptions, model: Path) -> None:
    from seq2seq.bundle.hub import export_huggingface, push

    folder = export_huggingface(
        model, options.output, options.license, _results(model), options.force
    )
    print(f"exported    {folder}")
    if options.push is None:
        print(f"load        AutoModelForSeq2SeqLM.from_pretrained({str(folder)!r})")
    elif options.send:
        print(f"sent        {push(folder, options.push)}")
    else:
        for path in sorted(folder.iterdir()):
            print(f"would send  {path.name} ({path.stat().st_size:,} bytes)")
        print(f"to          https://huggingface.co/{options.push}; to send it: --send --force")


def _results(model: Path) -> list[EvalResult]:
    """Return the scores of evaluations in the run of these weights, with their search settings."""
    from seq2seq.bundle.config import WEIGHTS
    from seq2seq.bundle.find import bundle_folder
    from seq2seq.bundle.hub import eval_results
    from seq2seq.config import DecodeConfig
    from seq2seq.evaluation.record import records_of
    from seq2seq.files import checksum

    weights = checksum(bundle_folder(model) / WEIGHTS)
    defaults = asdict(DecodeConfig())
    found = []
    for one in records_of(model).values():
        if one.model and one.decode and one.model["sha256"] == weights:
            scores = {score.name: score.value for score in one.scores}
            settings = {
                name: value
                for name, value in one.decode.items()
                if name in ("strategy", "beam") or value != defaults.get(name)
            } | {"precision": one.model["precision"]}
            name, split, texts = (one.data[key] for key in ("name", "split", "fingerprint"))
            found += eval_results(name, split, scores, texts, settings)
    return found
