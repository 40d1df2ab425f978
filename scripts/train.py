"""Train a model: python scripts/train.py [model=base] [data=starter] [name=value ...]."""

from seq2seq.cli.settings import hydra_command
from seq2seq.config import TrainConfig


def main(config: TrainConfig) -> float:
    from seq2seq.training.train import train  # torch loads only after the settings are checked

    return train(config)


if __name__ == "__main__":
    hydra_command("train", TrainConfig, main)
