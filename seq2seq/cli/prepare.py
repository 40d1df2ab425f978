"""Prepare a corpus for training, and report what was done. Training prepares its corpus by itself
if necessary.

  seq2seq prepare data=multi30k
  seq2seq prepare data=files data.path=FOLDER tokenizer.vocab_size=16000
  seq2seq prepare data=wmt14 prepare.engine=ray prepare.address=auto    on a cluster of Ray

Read on in docs/how-to/prepare.md.
"""

from __future__ import annotations

from seq2seq.cli.settings import hydra_command
from seq2seq.config import PrepareConfig


def main() -> None:
    hydra_command("prepare_data", PrepareConfig, run, __doc__)


def run(config: PrepareConfig) -> None:
    from seq2seq.data.engines import engine_of
    from seq2seq.data.pipeline import prepare
    from seq2seq.report.data import in_words, write_page

    engine = engine_of(config.prepare, config.data.processes)
    prepared = prepare(config.data, config.cleaning, config.tokenizer, engine=engine)
    print(in_words(prepared.report), flush=True)
    print(f"the same with plots: {write_page(prepared.folder)}")
