"""Score a model: python scripts/evaluate.py model=FOLDER [data=multi30k] [split=test]."""

from seq2seq.cli.settings import hydra_command
from seq2seq.config import EvaluateConfig


def main(config: EvaluateConfig) -> None:
    from seq2seq.evaluation.evaluate import evaluate  # torch loads after the settings are checked

    evaluate(config)


if __name__ == "__main__":
    hydra_command("evaluate", EvaluateConfig, main, folders=("model",))
