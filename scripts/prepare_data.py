"""Prepare a corpus for training: python scripts/prepare_data.py data=multi30k [name=value ...]."""

from seq2seq.cli.settings import hydra_command
from seq2seq.config import PrepareConfig


def main(config: PrepareConfig) -> None:
    from seq2seq.data.prepare import prepare
    from seq2seq.data.report import report_text

    prepared = prepare(
        config.data, config.cleaning, config.tokenizer, task=config.task, tasks=config.tasks
    )
    if prepared is not None:
        print(report_text(prepared.report))
        print(f"the same with plots: {prepared.folder / 'report.html'}")


if __name__ == "__main__":
    hydra_command("prepare_data", PrepareConfig, main)
