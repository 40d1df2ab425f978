"""Load on a server: python -m benchmarks.serve http://127.0.0.1:5000 --texts english.txt

Start the server on other cores than this: taskset -c 0,1 seq2seq serve > log. Needs httpx. Prints
one JSON line for each measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx


class Load:
    """Sends requests to one server, each with one text."""

    def __init__(self, address: str, connections: int):
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._client = httpx.AsyncClient(base_url=address, timeout=300, limits=limits)

    async def ask(self, text: str) -> tuple[int, float, Any]:
        """Send a text; return status, seconds and answer."""
        started = time.perf_counter()
        body = {"text": text, "source": "en"}
        answer = await self._client.post("/v1/translate", json=body)
        return answer.status_code, time.perf_counter() - started, answer.json()

    async def figures(self) -> dict[str, float]:
        """Read the processor time (seconds) and memory (bytes) of the server."""
        text = (await self._client.get("/metrics")).text
        return {name: float(value) for name, value in re.findall(
            r"^process_(cpu_seconds_total|resident_memory_bytes) (\S+)$", text, re.MULTILINE)}

    async def clients(self, count: int, texts: Sequence[str], seconds: float) -> dict[str, Any]:
        """Measure `count` clients, each of which sends its next request when it has its answer."""
        before, started = await self.figures(), time.perf_counter()
        found: list[tuple[int, float, Any]] = []

        async def one(number: int) -> None:
            draw = random.Random(number)
            while time.perf_counter() < started + seconds:
                found.append(await self.ask(draw.choice(texts)))

        await asyncio.gather(*map(one, range(count)))
        took = time.perf_counter() - started
        return self._told(found, before, await self.figures(), took) | {"clients": count}

    async def arrivals(self, rate: float, texts: Sequence[str], seconds: float) -> dict[str, Any]:
        """Measure requests at random times, `rate` per second, which do not wait for answers."""
        draw, before, tasks = random.Random(1), await self.figures(), []
        started = time.perf_counter()
        while time.perf_counter() < started + seconds:
            tasks.append(asyncio.create_task(self.ask(draw.choice(texts))))
            await asyncio.sleep(draw.expovariate(rate))
        found = await asyncio.gather(*tasks)
        took = time.perf_counter() - started
        return self._told(found, before, await self.figures(), took) | {"rate": round(rate, 2)}

    @staticmethod
    def _told(found: Sequence[tuple[int, float, Any]], before: dict[str, float],
              after: dict[str, float], seconds: float) -> dict[str, Any]:  # fmt: skip
        good = [(took, answer) for status, took, answer in found if status == 200]
        times = sorted(took for took, _ in good)
        tokens = sum(len(a["translations"][0]["tokens"]) for _, a in good)
        cpu = after["cpu_seconds_total"] - before["cpu_seconds_total"]
        cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
        return {
            "requests": len(found), "answered": len(good), "per_second": len(good) / seconds,
            "p50": cuts[49], "p95": cuts[94], "p99": cuts[98],
            "cpu_ms_per_token": 1000 * cpu / max(1, tokens),
            "memory_mib": after["resident_memory_bytes"] / 2**20,
        }  # fmt: skip


def batched(texts: Sequence[str], engine: str) -> dict[str, Any]:
    """Measure processor time per token without a server: one call with all texts."""
    from seq2seq.inference.translator import Translator

    translator = Translator.load(engine=engine)
    translator.translate(texts[:64])
    started = time.process_time()
    found = translator.translate(texts)
    tokens = sum(len(one.tokens) for one in found)
    return {"batched_cpu_ms_per_token": 1000 * (time.process_time() - started) / tokens}


async def measure(options: argparse.Namespace) -> None:
    texts = [t for t in Path(options.texts).read_text("utf-8").splitlines() if t.strip()][:5000]
    load = Load(options.address, options.clients * 10)
    alone = await load.clients(1, texts, options.seconds)
    print(json.dumps(alone), flush=True)
    many = await load.clients(options.clients, texts, options.seconds)
    print(json.dumps(many | {"times_alone": many["per_second"] / alone["per_second"]}), flush=True)
    print(json.dumps(await load.arrivals(many["per_second"] / 2, texts, options.seconds)))
    print(json.dumps(await load.clients(options.clients * 10, texts, options.seconds)), flush=True)
    print(json.dumps(batched(texts[:1000], options.engine)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--texts", required=True, help="a sentence in each line")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--engine", default="auto", help="of the server")
    asyncio.run(measure(parser.parse_args()))
