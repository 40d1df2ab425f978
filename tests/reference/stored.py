"""The door to what is stored in `tests/stored`: asks today's code what revision 8b3eb09 was asked.

Whatever has to touch the inside of the library stands in the first part, so that a rewrite has one
place to mend.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import forked
import torch

from seq2seq import Translator

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "stored"
Fields = dict[str, Any]

# The inside of the library


def search(translator: Translator, request: Fields, config: Fields) -> list[Fields]:
    """Hypotheses for one source of token ids, with what its output has to hold as token ids."""
    from seq2seq.decoding.request import Request

    settings = dataclasses.replace(translator.decode, **config)
    hypotheses = translator.engine.search([Request(**request)], settings)[0]
    names = ("tokens", "log_prob", "score", "finished", "token_log_probs")
    return [{name: getattr(one, name) for name in names} for one in hypotheses[: settings.n_best]]


def encode(translator: Translator, text: str, side: str = "source") -> list[int]:
    """Token ids of a text."""
    ids: list[int] = getattr(translator.vocabularies, side).encode([text])[0]
    return ids


def train_settings(*overrides: str) -> Fields:
    """What `scripts/train.py` makes of a command line, `resume=RUN` included, as plain values."""
    from hydra.core.global_hydra import GlobalHydra

    from seq2seq.cli.settings import hydra_command
    from seq2seq.config import TrainConfig

    found: list[Fields] = []
    before, sys.argv = sys.argv, ["train.py", *overrides]
    # Hydra makes all loggers anew, and the environment is told how to report errors.
    environment = dict(os.environ)
    try:
        GlobalHydra.instance().clear()
        hydra_command("train", TrainConfig, lambda config: found.append(dataclasses.asdict(config)))
    finally:
        sys.argv = before
        os.environ.clear()
        os.environ.update(environment)
    return found[0]


def schemas() -> dict[str, type[Any]]:
    """The settings of each command that is given name=value, by the name of its YAML file."""
    from benchmarks import settings

    from seq2seq import config

    return {
        "average_checkpoints": config.AverageConfig,
        "benchmark_data": settings.DataBenchmarkConfig,
        "benchmark_decode": settings.DecodeBenchmarkConfig,
        "benchmark_train": settings.TrainBenchmarkConfig,
        "evaluate": config.EvaluateConfig,
        "prepare_data": config.PrepareConfig,
        "train": config.TrainConfig,
    }


def architectures() -> Mapping[str, type[Any]]:
    from seq2seq.config import ARCHITECTURES

    return ARCHITECTURES


def renamed() -> dict[str, str | None]:
    """Settings that have another name now, by their old one; None where a setting has gone."""
    from seq2seq.config.renames import REMOVED, RENAMED

    return {**RENAMED, **dict.fromkeys(REMOVED)}


def last_weights(run_dir: Path) -> dict[str, torch.Tensor]:
    """The weights after the last step of a run, which are not those of its bundle if EMA is on."""
    newest = max((run_dir / "checkpoints").glob("step-*.ckpt"))
    content = torch.load(newest, map_location="cpu", weights_only=True)
    return dict(content["model"])


# What was asked of the bundles


def replay(translator: Translator, lines: Sequence[Fields]) -> Iterator[Fields]:
    """Lines of `outputs.jsonl` of one translator, with today's answers in place of the stored."""
    kind = itertools.groupby(lines, key=lambda line: (line["call"], line["keywords"]))
    for (call, keywords), group in kind:
        asked = list(group)
        given = [line["source"] for line in asked]
        answers = _answers(translator, call, given, keywords)
        for line, answer in zip(asked, answers, strict=True):
            yield line | {"answer": answer}


def _answers(translator: Translator, call: str, given: list[Any], keywords: Fields) -> list[Any]:
    if call in ("translate", "translate_corpus"):
        return [described(one) for one in getattr(translator, call)(given, **keywords)]
    if call == "score":
        scores = translator.score([(source, target) for source, target in given])
        names = ("log_prob", "per_token", "per_word", "tokens", "token_scores", "words")
        return [{name: getattr(one, name) for name in names} for one in scores]
    if call == "align":
        links = translator.align([(source, target) for source, target in given])
        return [[list(link) for link in own] for own in links]
    assert call == "search", call
    return [search(translator, request, keywords) for request in given]


def described(found: Any) -> Fields:
    """A translation as plain values."""
    names = ("text", "score", "finished", "tokens", "token_scores", "notes")
    fields = {name: getattr(found, name) for name in names}
    fields["alignment"] = [list(link) for link in found.alignment]
    fields["alternatives"] = [{"text": one.text, "score": one.score} for one in found.alternatives]
    return {name: value for name, value in fields.items() if value != []}


def read_lines(path: Path) -> list[Fields]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def differences(stored: Any, now: Any, tolerance: float, where: str = "") -> Iterator[str]:
    """Where two values differ: numbers by more than the tolerance, anything else at all."""
    if isinstance(stored, dict) and isinstance(now, dict) and stored.keys() == now.keys():
        for key in stored:
            yield from differences(stored[key], now[key], tolerance, f"{where}.{key}")
    elif isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        for index, (one, other) in enumerate(zip(stored, now, strict=True)):
            yield from differences(one, other, tolerance, f"{where}[{index}]")
    elif isinstance(stored, float) and isinstance(now, int | float):
        if not abs(stored - now) <= tolerance:
            yield f"{where} was {stored}, and is {now}"
    elif stored != now:
        yield f"{where} was {stored!r}, and is {now!r}"


# Weights


def digest(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of names and bytes, in the order of the names."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(name.encode() + value.contiguous().numpy().tobytes())
    return found.hexdigest()


def sums(weights: Mapping[str, torch.Tensor]) -> dict[str, list[float]]:
    """The sum of each tensor's numbers, and of their squares, in double precision."""
    each = ((name, value.double()) for name, value in sorted(weights.items()))
    return {name: [float(value.sum()), float(value.square().sum())] for name, value in each}


def losses(run_dir: Path) -> list[list[str]]:
    """Step, loss and norm of the gradient of each step that was logged, as text: all digits."""
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ("step", "train/nll", "optim/grad_norm")
    return [[row[name] for name in names] for row in rows if row["train/nll"]]


def machine() -> dict[str, str]:
    """What decides the last bits of a float32 run on one thread of a CPU."""
    models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": models[0] if models else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "lightning": version("lightning-fabric"),
        "python": platform.python_version(),
    }


def same_machine(other: Mapping[str, str]) -> bool:
    """Whether float32 runs can be expected to be equal to the bit."""
    ours = machine()
    return all(ours[name] == other[name] for name in ("processor", "instructions", "torch"))


# What users can name


def flat(values: Mapping[str, Any], prefix: str = "") -> Fields:
    """Nested settings by dotted names; an empty group is a value."""
    found: Fields = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def yaml_keys(schema: type[Any], prefix: str = "") -> dict[str, list[Any]]:
    """Type and default of each setting of a schema, by its dotted name."""
    types, found = get_type_hints(schema), {}
    for field in dataclasses.fields(schema):
        name, kind = f"{prefix}{field.name}", types[field.name]
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.name == "model" and dataclasses.is_dataclass(kind):
            for one in architectures().values():
                found |= yaml_keys(one, f"{name}.") | found
        elif dataclasses.is_dataclass(kind) and not isinstance(kind, UnionType):
            assert isinstance(kind, type)
            found |= yaml_keys(kind, f"{name}.")
        else:
            changes = dataclasses.is_dataclass(default)
            found[name] = [_type_name(kind), None if changes else default]
            if changes:  # of which some are given
                found |= yaml_keys(type(default), f"{name}.")
    return found


def _type_name(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " | ".join(_type_name(one) for one in get_args(kind))
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script or a command of the project from the root of the clone, on one thread."""
    given = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **given, **variables}
    environment.pop("SEQ2SEQ_MODEL", None)
    program, *rest = arguments
    if program == "-m":
        module, *rest = rest
        program = Path(str(module).replace(".", "/") + ".py")
    return forked.run(ROOT / str(program), *rest, cwd=ROOT, env=environment)


COMMANDS = {  # with options; the others are given name=value
    "translate": ("-m", "seq2seq.cli.translate"),
    **{
        f"{name}.py": (f"scripts/{name}.py",)
        for name in (
            "compare", "export", "make_dashboard", "report", "score",
        )
    },
    **{f"{name}.py": (f"scripts/maintain/{name}.py",) for name in ("results", "ship")},
    "evaluate.py --check": ("scripts/evaluate.py",),
}  # fmt: skip


def options_of(command: str) -> dict[str, str]:
    """What a command takes, by its own help: each option, and what is said to follow it."""
    result = run(*COMMANDS[command], "--help")
    assert result.returncode == 0, result.stderr
    found, positional = {}, False
    for line in result.stdout.splitlines():
        if line and not line.startswith(" "):
            positional = line.startswith("positional arguments")
            continue
        words = re.match(r"  (\S.*?)(?:  .*)?$", line)
        if words and (positional or words[1].startswith("-")):
            for name in words[1].split(", "):
                option, _, rest = name.partition(" ")
                found[option] = rest
    return found


def json_fields(value: Any, where: str = "") -> set[str]:
    """Dotted names of all fields of a JSON value; [] stands for each item of a list."""
    if isinstance(value, dict):
        own = {f"{where}.{key}".lstrip(".") for key in value}
        return own.union(*(json_fields(each, f"{where}.{key}") for key, each in value.items()))
    if isinstance(value, list):
        return set().union(*(json_fields(each, f"{where}[]") for each in value))
    return set()


def files_of(folder: Path) -> list[str]:
    """Names of the files of a run or a bundle, with N for their numbers."""
    paths: Iterable[Path] = (path for path in folder.rglob("*") if path.is_file())
    return sorted({re.sub(r"\d+", "N", path.relative_to(folder).as_posix()) for path in paths})
