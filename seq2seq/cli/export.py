"""Write a model for other programs: `scripts/export.py ctranslate2 FOLDER`."""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq.cli.report import run_command

# Those of CTranslate2 that pay: int16 is as large as float16, and for Intel's MKL only.
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float16")

EXAMPLES = """examples:
  python scripts/export.py ctranslate2 runs/demo
  python scripts/export.py ctranslate2 runs/demo --quantization int8 --output models/en-fr-int8
  translate --engine ctranslate2 --model models/en-fr-int8 "hello world"

Exit codes: 0 done, 1 something given cannot be used, 2 wrong option."""


def main() -> None:
    """The `export` script."""
    run_command(lambda: _run(_parser().parse_args()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="export.py",
        description="Write a model for CTranslate2, an engine that is fast on CPUs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("format", choices=("ctranslate2",), help="for which program")
    parser.add_argument("model", type=Path, metavar="FOLDER", help="a run or a bundle; or general")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="new folder (default: beside the bundle; of "
        "general, the current folder)"
    )  # fmt: skip
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="float32",
        metavar="TYPE",
        help=f"how weights are stored: {', '.join(QUANTIZATIONS)} (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace an exported model")
    return parser


def _run(options: argparse.Namespace) -> None:
    from seq2seq.inference.ctranslate2_export import export

    folder = export(options.model, options.output, options.quantization, options.force)
    size = (folder / "model.bin").stat().st_size / 1e6
    print(f"exported    {folder} ({size:.1f} MB)")
    print(f'translate   translate --engine ctranslate2 --model {folder} "hello world"')
