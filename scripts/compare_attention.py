"""Compare attention variants: python scripts/compare_attention.py [model=base].

Prints one JSON line for each variant; what is being measured goes to the error output.
"""

import logging
import sys

from benchmarks.settings import CompareConfig

from seq2seq.cli.settings import hydra_command


def main(config: CompareConfig) -> None:
    from benchmarks.attention import compare_attention  # torch loads here

    compare_attention(config)


if __name__ == "__main__":
    # Before `hydra_command` would send it to stdout.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    hydra_command("compare_attention", CompareConfig, main)
