"""Compare attention variants: python scripts/compare_attention.py [model=base] [runs=[A,B]]."""

from benchmarks.settings import CompareConfig

from seq2seq.cli.settings import hydra_command


def main(config: CompareConfig) -> None:
    from benchmarks.attention import compare_attention  # torch loads here

    compare_attention(config)


if __name__ == "__main__":
    hydra_command("compare_attention", CompareConfig, main)
