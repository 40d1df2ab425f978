"""Two checkouts are compared in alternating pairs of processes."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.compare import compared

ROOT = Path(__file__).resolve().parents[3]
BENCHMARK = """
import json, pathlib, sys
log = pathlib.Path("../order.txt")
mine = pathlib.Path.cwd().name
with log.open("a") as file:
    file.write(mine + " ")
if "fail" in sys.argv:
    sys.exit("this one is broken")
speed = {"before": 100.0, "after": 90.0}[mine] * (1 + log.read_text().count(mine) % 2)
for beam in (1, 5):
    print(json.dumps({"model": sys.argv[1], "beam": beam, "tokens_per_second": speed / beam,
                      "call_seconds_p50": beam / speed}))
print(json.dumps({"what": "start", "seconds_to_open": 2.0}))
"""


def lines(*speeds):
    return [{"model": "tiny", "tokens_per_second": speed, "steps": 3} for speed in speeds]


def test_the_interval_is_that_of_students_t_on_the_logarithms():
    before, after = lines(100, 200, 400), lines(110, 242, 532.4)  # 1.1 ** 1, 2, 3 times as fast
    found = compared(before, after)
    assert (found["before"], found["after"], found["pairs"]) == (200, 242, 3)
    assert found["ratio"] == pytest.approx(1.1**2, abs=1e-4)
    half = 4.303 * math.log(1.1) / math.sqrt(3)  # t of 2 degrees of freedom
    expected = [1.21 * math.exp(-half), 1.21 * math.exp(half)]
    assert found["interval"] == pytest.approx(expected, abs=1e-4)
    assert (found["model"], found["steps"], found["metric"]) == ("tiny", 3, "tokens_per_second")


@pytest.fixture
def checkouts(tmp_path):
    for name in ("before", "after"):
        (tmp_path / name / "scripts").mkdir(parents=True)
        (tmp_path / name / "scripts" / "benchmark.py").write_text(BENCHMARK)
    return tmp_path


def compare(folder, *arguments):
    command = [sys.executable, str(ROOT / "scripts" / "benchmarks" / "compare.py")]
    sides = [str(folder / "before"), str(folder / "after")]
    return subprocess.run([*command, *sides, *arguments], capture_output=True, text=True)


def test_both_take_turns_and_each_line_gets_its_ratio(checkouts):
    result = compare(checkouts, "--pairs", "3", "--", "decode")
    assert result.returncode == 0, result.stderr
    order = (checkouts / "order.txt").read_text()
    assert order == "before after after before before after "
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert (first["model"], first["beam"], second["beam"]) == ("decode", 1, 5)
    for found in (first, second):
        assert found["ratio"] == 0.9
        assert found["interval"] == [0.9, 0.9]
    assert (second["before"], second["after"], second["metric"]) == (40, 36, "tokens_per_second")
    assert "left out, as it tells no speed: {'what': 'start'" in result.stderr


def test_a_benchmark_that_fails_is_one_message(checkouts):
    result = compare(checkouts, "--", "fail")
    assert result.returncode == 1
    said = f"error: {checkouts / 'before'}: scripts/benchmark.py fail failed: this one is broken"
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert compare(checkouts, "--pairs", "1", "train").returncode == 2
