"""Measure a part of the project: python scripts/benchmark.py PART [name=value ...].

Prints one JSON line for each measurement; what else there is to say goes to the error output.
"""

import logging
import sys

from seq2seq.benchmarks.settings import (
    DataBenchmarkConfig,
    DecodeBenchmarkConfig,
    TrainBenchmarkConfig,
)
from seq2seq.cli.report import fail
from seq2seq.cli.settings import hydra_command
from seq2seq.errors import ConfigError, nearest


def data(config: DataBenchmarkConfig) -> None:
    from seq2seq.benchmarks.data import benchmark_data

    benchmark_data(config)


def train(config: TrainBenchmarkConfig) -> None:
    from seq2seq.benchmarks.train import benchmark_train

    benchmark_train(config)


def decode(config: DecodeBenchmarkConfig) -> None:
    from seq2seq.benchmarks.decode import benchmark_decode

    benchmark_decode(config)


BENCHMARKS = {
    "data": (DataBenchmarkConfig, data),
    "train": (TrainBenchmarkConfig, train),
    "decode": (DecodeBenchmarkConfig, decode),
}

if __name__ == "__main__":
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name in ("", "-h", "--help"):
        print(f"{__doc__}\nParts: {', '.join(BENCHMARKS)}. Settings: benchmark.py PART --cfg job")
        sys.exit(0 if name else ConfigError.exit_code)
    if name not in BENCHMARKS:
        fail(f"benchmark {name!r} is not known: {nearest(name, BENCHMARKS)}", ConfigError.exit_code)
    # Before `hydra_command` would send it to stdout.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    hydra_command(f"benchmark_{name}", *BENCHMARKS[name])
