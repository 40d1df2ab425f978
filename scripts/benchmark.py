"""Measure a part of the project: python scripts/benchmark.py PART [name=value ...].

Prints one JSON line for each measurement; what else there is to say goes to the error output.
"""

import logging
import sys
from importlib import import_module

from benchmarks.settings import DataBenchmarkConfig, DecodeBenchmarkConfig, TrainBenchmarkConfig

from seq2seq.cli.exits import fail
from seq2seq.cli.settings import hydra_command
from seq2seq.errors import ConfigError, nearest

BENCHMARKS = {
    "data": DataBenchmarkConfig,
    "train": TrainBenchmarkConfig,
    "decode": DecodeBenchmarkConfig,
}

if __name__ == "__main__":
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name in ("", "-h", "--help"):
        print(f"{__doc__}\nParts: {', '.join(BENCHMARKS)}. Settings: benchmark.py PART --cfg job")
        sys.exit(0 if name else ConfigError.exit_code)
    if name not in BENCHMARKS:
        fail(f"benchmark {name!r} is not known: {nearest(name, BENCHMARKS)}", ConfigError.exit_code)
    # Only the first call of `basicConfig` counts; that of `hydra_command` would log to stdout.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    def run(config: object) -> None:
        getattr(import_module(f"benchmarks.{name}"), f"benchmark_{name}")(config)  # loads torch

    hydra_command(f"benchmark_{name}", BENCHMARKS[name], run)
