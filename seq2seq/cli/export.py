"""`seq2seq export`: write a model for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seq2seq.cli.exits import run_command
from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked

# Those of CTranslate2 that pay: int16 is as large as float16, and for Intel's MKL only.
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float16")


class ExportOptions(Checked, section="option"):
    """Write a model for CTranslate2, an engine that is fast on CPUs."""

    format: str | None = option(
        None, "for which program: ctranslate2", "FORMAT", positional=True, choices=("ctranslate2",)
    )
    model: Path | None = option(None, "a run or a bundle; or general", "FOLDER", positional=True)
    output: Path | None = option(
        None, "new folder; beside the bundle if not given (of general, in the current folder)",
        "DIR",
    )  # fmt: skip
    quantization: str = option(
        "float32", f"how weights are stored: {', '.join(QUANTIZATIONS)}", "TYPE",
        choices=QUANTIZATIONS,
    )  # fmt: skip
    force: bool = option(False, "replace an exported model")

    def rules(self) -> Iterator[str]:
        if self.model is None:
            yield (
                "what shall be exported? Name the format and the folder of a run or a bundle: "
                "seq2seq export ctranslate2 runs/demo"
            )


COMMAND = Command(
    "seq2seq export",
    ExportOptions,
    examples="""\
  seq2seq export ctranslate2 runs/demo
  seq2seq export ctranslate2 runs/demo --quantization int8 --output models/en-fr-int8
  translate --engine ctranslate2 --model models/en-fr-int8 "hello world\"""",
    docs="docs/decoding.md",
)


def main() -> None:
    run_command(lambda: _run(COMMAND.read()))


def _run(options: ExportOptions) -> None:
    from seq2seq.bundle.ctranslate2_export import export

    assert options.model is not None
    folder = export(options.model, options.output, options.quantization, options.force)
    size = (folder / "model.bin").stat().st_size / 1e6
    print(f"exported    {folder} ({size:.1f} MB)")
    print(f'translate   translate --engine ctranslate2 --model {folder} "hello world"')


if __name__ == "__main__":
    main()
