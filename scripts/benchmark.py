"""Measure a part of the project: python scripts/benchmark.py data [name=value ...].

Prints one JSON line for each measurement.
"""

import sys

from seq2seq.cli.report import fail
from seq2seq.cli.settings import hydra_command
from seq2seq.config import DataBenchmarkConfig
from seq2seq.errors import ConfigError, nearest


def data(config: DataBenchmarkConfig) -> None:
    from seq2seq.benchmarks.data import benchmark_data

    benchmark_data(config)


BENCHMARKS = {"data": (DataBenchmarkConfig, data)}

if __name__ == "__main__":
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name in ("", "-h", "--help"):
        print(f"{__doc__}\nParts: {', '.join(BENCHMARKS)}. Settings: benchmark.py PART --cfg job")
        sys.exit(0 if name else ConfigError.exit_code)
    if name not in BENCHMARKS:
        fail(f"benchmark {name!r} is not known: {nearest(name, BENCHMARKS)}", ConfigError.exit_code)
    hydra_command(f"benchmark_{name}", *BENCHMARKS[name])
