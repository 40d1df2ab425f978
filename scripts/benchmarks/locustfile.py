"""Load on a server, by Locust (pip install locust), best on other cores than the server:

    seq2seq serve > log
    TEXTS=english.txt locust -f scripts/benchmarks/locustfile.py --headless --only-summary \
        --host http://127.0.0.1:5000 -u 64 -r 64 -t 60s

Each of the 64 users sends a random line of TEXTS, and the next when it has the answer; with
RATE=0.2, it sends so many requests a second at most. A line `server: ...` has the
server's processor time and memory.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import requests
from locust import HttpUser, constant_throughput, events, task

LINES = [line for line in Path(os.environ["TEXTS"]).read_text("utf-8").splitlines() if line.strip()]
FIGURE = re.compile(r"^process_(cpu_seconds_total|resident_memory_bytes) (\S+)$", re.MULTILINE)
seen = {"tokens": 0.0, "seconds": 0.0}  # in all answers; of the processor, before the load


class Reader(HttpUser):
    if "RATE" in os.environ:
        wait_time = constant_throughput(float(os.environ["RATE"]))

    @task
    def translate(self) -> None:
        body = {"text": random.choice(LINES), "source": "en"}
        answer = self.client.post("/v1/translate", json=body)
        if answer.ok:
            seen["tokens"] += len(answer.json()["translations"][0]["tokens"])


def figures(host: str) -> dict[str, float]:
    """Read the server's processor time (seconds) and memory (bytes)."""
    text = requests.get(f"{host}/metrics", timeout=60).text
    return {name: float(value) for name, value in FIGURE.findall(text)}


@events.test_start.add_listener
def begin(environment: Any, **_: Any) -> None:
    seen["seconds"] = figures(environment.host)["cpu_seconds_total"]


@events.test_stop.add_listener
def end(environment: Any, **_: Any) -> None:
    after = figures(environment.host)
    milliseconds = 1000 * (after["cpu_seconds_total"] - seen["seconds"]) / max(1, seen["tokens"])
    print(
        f"server: {milliseconds:.2f} ms of processor time per token, "
        f"{after['resident_memory_bytes'] / 2**20:,.0f} MiB"
    )
