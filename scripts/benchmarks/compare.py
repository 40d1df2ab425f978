"""Is one checkout faster than another? A benchmark of both, in alternating pairs of processes.

python scripts/benchmarks/compare.py ../before . --pairs 10 -- train model=tiny

Arguments after `--` go to `scripts/benchmark.py` of both checkouts. For each speed that it prints:
the medians of both sides, the ratio after / before (the geometric mean over the pairs) and its 95 %
interval by Student's t on the logarithms, as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

METRICS = ("target_tokens_per_second", "tokens_per_second", "pairs_per_second")  # the first found
# Half the width of a 95 % interval, in standard errors, for 1, 2, ... degrees of freedom.
STUDENT_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
    *(2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056),
    *(2.052, 2.048, 2.045, 2.042),
)
Line = dict[str, Any]


def run(checkout: Path, arguments: Sequence[str]) -> list[Line]:
    """Run the benchmark of a checkout in a new process, and return the lines that it prints."""
    command = [sys.executable, "scripts/benchmark.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
    result = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        sys.exit(f"error: {checkout}: {' '.join(command[1:])} failed: {result.stderr[-2000:]}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def compared(before: Sequence[Line], after: Sequence[Line]) -> Line:
    """Compare one line of the benchmark over all pairs of processes."""
    metric = next(name for name in METRICS if name in after[0])
    ratios = [math.log(b[metric] / a[metric]) for a, b in zip(before, after, strict=True)]
    mean = statistics.mean(ratios)
    t = STUDENT_T[min(len(ratios) - 1, len(STUDENT_T)) - 1]
    error = t * statistics.stdev(ratios) / math.sqrt(len(ratios))
    same = {
        name: value
        for name, value in after[0].items()
        if not name.endswith(("_second", "_seconds"))
        and all(line.get(name) == value for line in (*before, *after))
    }
    return {
        **same,
        "metric": metric,
        "pairs": len(ratios),
        "before": statistics.median(line[metric] for line in before),
        "after": statistics.median(line[metric] for line in after),
        "ratio": round(math.exp(mean), 4),
        "interval": [round(math.exp(mean - error), 4), round(math.exp(mean + error), 4)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="folder of a checkout")
    parser.add_argument("after", type=Path, help="folder of the other")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument("arguments", nargs="+", help="of scripts/benchmark.py")
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error(f"--pairs {options.pairs} gives no interval: give 2 or more")
    sides: dict[str, list[list[Line]]] = {"before": [], "after": []}
    for number in range(options.pairs):
        # Each side runs first in every other pair, so that a machine that slows down affects both.
        for side in sorted(sides, reverse=number % 2 == 0):
            print(f"pair {number + 1} of {options.pairs}: {side}", file=sys.stderr)
            sides[side].append(run(getattr(options, side), options.arguments))
    for before, after in zip(*(zip(*sides[side], strict=True) for side in sides), strict=True):
        if not {*METRICS} & after[0].keys():
            print(f"left out, as it tells no speed: {after[0]}", file=sys.stderr)
            continue
        print(json.dumps(compared(before, after)), flush=True)


if __name__ == "__main__":
    main()
