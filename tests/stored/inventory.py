"""Writes `inventory.json`: what users can name in revision 8b3eb09. It ran only there (`make.py`).

The same of today's code, to look at the difference:

    PYTHONPATH=.:tests/reference python tests/stored/inventory.py FILE
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stored import (
    COMMANDS,
    ROOT,
    STORED,
    files_of,
    json_fields,
    options_of,
    run,
    schemas,
    yaml_keys,
)

import seq2seq
from seq2seq.errors import UserError

TINY = (
    "data=files", "data.path=tests/stored/corpus", "model.d_model=16", "model.max_length=64",
    "tokenizer.vocab_size=300",
)  # fmt: skip
SIZES = ("model.n_heads=2", "model.d_ff=32", "model.encoder_layers=1", "model.decoder_layers=1")

DRY = r"^ {0,2}(\w[\w.*]*(?: \w+)?)(?:  |$)"  # first words of a line

# Commands of a user's mistakes, and what they end with.
EXITS: dict[str, list[str]] = {
    "no mistake": ["-m", "seq2seq.cli.translate", "--version"],
    "unknown option": ["-m", "seq2seq.cli.translate", "--beem", "2", "hello"],
    "options that contradict": ["-m", "seq2seq.cli.translate", "--sample", "--mbr", "hello"],
    "no such model": ["-m", "seq2seq.cli.translate", "--model", "nowhere", "hello"],
    "unknown setting": ["scripts/train.py", "model.d_modl=32"],
    "impossible setting": ["scripts/train.py", "model.d_model=7", "run_dir=nowhere/run"],
    "unknown preset": ["scripts/train.py", "model=tinny"],
    "no run to go on with": ["scripts/train.py", "resume=nowhere"],
    "unknown benchmark": ["scripts/benchmark.py", "everything"],
    "nothing to export": ["scripts/export.py", "ctranslate2", "nowhere"],
    "nothing to score": ["scripts/score.py", "nowhere.en", "nowhere.fr"],
    "nothing to compare": ["scripts/compare.py", "nowhere", "nowhere2"],
}


def functions() -> dict[str, dict[str, str]]:
    """Public functions, classes and their public methods of each module, with signatures."""
    return {
        path.relative_to(ROOT).as_posix(): dict(_public(ast.parse(path.read_text()).body))
        for folder in ("seq2seq", "scripts")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def _public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith("_"):
            continue
        if isinstance(node, ast.FunctionDef):
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            yield f"{prefix}{node.name}", f"({ast.unparse(node.args)}){result}"
        elif isinstance(node, ast.ClassDef):
            init = next((n for n in node.body if getattr(n, "name", "") == "__init__"), None)
            arguments = ast.unparse(init.args) if isinstance(init, ast.FunctionDef) else ""
            bases = ", ".join(map(ast.unparse, node.bases))
            yield f"{prefix}{node.name}", f"class({bases}) {arguments}".strip()
            yield from _public(node.body, f"{prefix}{node.name}.")


def errors() -> dict[str, int]:
    """The exit code of each error that users can cause."""
    for module in pkgutil.walk_packages(seq2seq.__path__, "seq2seq."):
        importlib.import_module(module.name)
    kinds, found = [UserError], {}
    while kinds:
        kind = kinds.pop()
        found[kind.__name__] = kind.exit_code
        kinds += kind.__subclasses__()
    return dict(sorted(found.items()))


def exits() -> dict[str, dict[str, Any]]:
    """What commands end with. A traceback would be 1, too, so the error output is looked at."""
    found = {}
    for what, arguments in EXITS.items():
        result = run(*arguments)
        assert "Traceback" not in result.stderr, result.stderr
        found[what] = {"command": arguments, "code": result.returncode}
    return found


def signals() -> dict[str, int]:
    return {
        "SIGINT (Ctrl-C)": 130, "SIGTERM": 143, "SIGHUP": 129,
        "SIGPIPE, of whoever reads the output": 141,
    }  # fmt: skip


def variables() -> list[str]:
    """Environment variables that are read."""
    names: set[str] = set()
    for folder, kind in (("seq2seq", "*.py"), ("configs", "*.yaml"), ("scripts", "*.sh")):
        for path in (ROOT / folder).rglob(kind):
            text = path.read_text(encoding="utf-8")
            names |= set(re.findall(r'environ(?:\.get|\.pop)?[\[(]\s*"([A-Za-z_0-9]+)"', text))
            names |= set(re.findall(r"oc\.env:([A-Z_0-9]+)", text))
            names |= set(re.findall(r"\$\{?([A-Z][A-Z_0-9]{3,})", text))
            if "environ" in text:
                names |= set(re.findall(r'"([A-Z]+(?:_[A-Z0-9]+)+)"', text))
    return sorted(names)


def presets() -> dict[str, list[str]]:
    """Names that command lines choose among, by group."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "configs").rglob("*.yaml")):
        group = file.relative_to(ROOT / "configs").parent.as_posix()
        found.setdefault(group, []).append(file.stem)
    return found


def golden() -> list[str]:
    """Functions of the door to the golden vectors, with signatures."""
    tree = ast.parse((ROOT / "tests" / "reference" / "golden.py").read_text())
    return [f"{name}{signature}" for name, signature in _public(tree.body)]


def written(work: Path) -> dict[str, Any]:
    """Fields and files that commands write, found by running them."""
    run_dir, tests = work / "run", STORED / "corpus"
    settings = (*TINY, *SIZES, f"run_dir={run_dir}", "trainer=cpu", "logger=csv")
    _must(run(
        "scripts/train.py", "model=tiny", *settings, "trainer.max_steps=12", "optim.ema=0.9",
        "trainer.val_every_n_steps=4", "checkpoint.average=2", "trainer.log_every_n_steps=1",
        "trainer.val_pairs=8", "data.max_tokens=512", "trainer.profile=true",
    ))  # fmt: skip
    names = files_of(run_dir)
    header = (run_dir / "metrics/version_0/metrics.csv").read_text().partition("\n")[0]
    _must(run("scripts/evaluate.py", f"bundle={run_dir}", "data=files", f"data.path={tests}",
              "decode=greedy"))  # fmt: skip
    [record] = run_dir.glob("evaluation/*/evaluation.json")
    bundle = run_dir / "bundle"
    compared = work / "compared.json"
    other = shutil.copytree(record.parent, work / "other")
    _must(run("scripts/compare.py", record, other, "--output", compared))
    samples = (run_dir / "samples.jsonl").read_text().splitlines()
    fields = {
        "bundle/config.json": json.loads((bundle / "config.json").read_text()),
        **{n: json.loads((run_dir / n).read_text()) for n in
           ("summary.json", "origin.json", "data_report.json")},
        "samples.jsonl": [json.loads(line) for line in samples],
        "evaluation.json": json.loads(record.read_text()),
        "compare.py --output X.json": json.loads(compared.read_text()),
        "translate --json": _json("-m", "seq2seq.cli.translate", "--model", bundle, "--json",
                                  "--n-best", "2", "--alignments", "--scores", "hello {x} 3"),
        "score.py --json": _json("scripts/score.py", "--model", bundle, "--json",
                                 tests / "test.tsv")[:2],
        "benchmark.py data": _json("scripts/benchmark.py", "data", *TINY[:2],
                                   "tokenizer.vocab_size=300"),
        "benchmark.py train": _json(
            "scripts/benchmark.py", "train", "model=tiny", *TINY, *SIZES, "steps=1",
            "warmup_steps=1", "data.max_tokens=512", "trainer=cpu"),
        "benchmark.py decode": _json(
            "scripts/benchmark.py", "decode", "model=tiny", *TINY[2:4], *SIZES, "calls=1",
            "warmup_calls=0", "batch=1", "beam=2", "vocab_size=100"),
    }  # fmt: skip
    dry = run("scripts/train.py", "model=tiny", *TINY, *SIZES, "dry_run=true", "trainer=cpu")
    _must(dry)
    return {
        "files of a run": names,
        "files of an evaluation": files_of(record.parent),
        "files of a bundle": files_of(bundle),
        "files of a bundle with two vocabularies": files_of(STORED / "bundles" / "separate"),
        "files of a CTranslate2 folder": files_of(STORED / "ctranslate2"),
        "metrics (of a run with all of them)": header.split(","),
        "scores of an evaluation": [one["name"] for one in fields["evaluation.json"]["scores"]],
        "json": {name: sorted(json_fields(value)) for name, value in fields.items()},
        "dry run": sorted(set(re.findall(DRY, dry.stdout, re.MULTILINE))),
    }


def _must(result: Any) -> None:
    if result.returncode:
        raise SystemExit(result.stdout + result.stderr)


def _json(*arguments: object) -> list[Any]:
    result = run(*arguments)
    _must(result)
    return [json.loads(line) for line in result.stdout.splitlines()]


def inventory(work: Path) -> dict[str, Any]:
    parts: dict[str, Callable[[], Any]] = {
        "options": lambda: {name: options_of(name) for name in COMMANDS},
        "yaml_keys": lambda: {name: yaml_keys(schema) for name, schema in schemas().items()},
        "presets": presets,
        "written": lambda: written(work),
        "errors": errors,
        "exits": exits,
        "signals": signals,
        "environment": variables,
        "golden": golden,
        "public_names": lambda: list(seq2seq.__all__),
        "functions": functions,
    }
    return {name: part() for name, part in parts.items()}


def write(path: Path, found: dict[str, Any]) -> None:
    """One line for each leaf group, so that a difference can be read."""
    text = json.dumps(found, indent=1, ensure_ascii=False, default=_plain)
    text = re.sub(r"\[\s+([^\[\]{}]{1,120}?)\s+\]", _in_one_line, text)
    path.write_text(text + "\n", encoding="utf-8")


def _in_one_line(found: re.Match[str]) -> str:
    return "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]"


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else vars(value)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write(Path(sys.argv[1]), inventory(Path(folder)))
