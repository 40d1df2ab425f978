"""Average weights: python scripts/average_checkpoints.py run=FOLDER average=5 output=FOLDER."""

from seq2seq.cli.settings import hydra_command
from seq2seq.config import AverageConfig


def main(config: AverageConfig) -> None:
    from seq2seq.inference.averaging import average  # torch loads after the settings are checked

    average(config)


if __name__ == "__main__":
    hydra_command("average_checkpoints", AverageConfig, main)
