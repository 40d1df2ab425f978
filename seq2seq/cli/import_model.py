"""`seq2seq import`: take a model of Hugging Face's Transformers library, such as OPUS-MT."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from pathlib import Path

from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked
from seq2seq.errors import BundleError, RunError, command_line


class ImportOptions(Checked, section="option"):
    """Take a Marian (OPUS-MT) or Pegasus model of Hugging Face's Transformers library."""

    model: str | None = option(
        None, "OWNER/NAME or OWNER/NAME@REVISION of the hub, or a folder", "MODEL", positional=True
    )
    output: Path | None = option(None, "new folder; by default, hub models go to the cache", "DIR")

    def rules(self) -> Iterator[str]:
        if self.model is None:
            yield "name a model of the hub or a folder: seq2seq import Helsinki-NLP/opus-mt-en-fr"
        elif self.output is None and Path(self.model).is_dir():
            yield "--output is missing: name the new folder of the bundle, --output models/mine"


COMMAND = Command(
    "seq2seq import",
    ImportOptions,
    examples="""\
  seq2seq import Helsinki-NLP/opus-mt-en-fr
  seq2seq import Helsinki-NLP/opus-mt-fr-en --output models/fr-en
  seq2seq import downloads/opus-mt-en-fr --output models/opus""",
    docs="docs/how-to/fine-tune.md",
)


@COMMAND.main
def main(options: ImportOptions) -> None:
    from seq2seq.bundle.find import hub_name
    from seq2seq.bundle.hub import import_folder, import_from_hub

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    output, given = options.output, str(options.model)
    if output is not None and output.exists():
        raise RunError(f"{output} exists already: choose another folder with --output")
    if (named := hub_name(given)) is not None:
        folder = import_from_hub(*named, output)
    elif output is not None and Path(given).is_dir():
        import_folder(Path(given), output)
        folder = output
    else:
        raise BundleError(
            f"{given} is neither a folder nor a name of the hub: give OWNER/NAME, such as "
            "Helsinki-NLP/opus-mt-en-fr"
        )
    name = given if output is None else str(output)
    print(f"imported    {folder}")
    print(f"translate   {shlex.join(['translate', '--model', name, 'hello world'])}")
    print(f"fine-tune   {command_line('train', f'init_from={name}', 'data.path=FOLDER')}")
