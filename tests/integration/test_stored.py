"""What was made with revision 8b3eb09 goes on working: bundles, runs, settings, names.

`tests/stored/README.md` says what is there. Tests go through what users have: commands, files and
`Translator`; what needs the inside of the library stands at the top of `tests/reference/stored.py`.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import stored
import torch
import yaml
from stored import ROOT, STORED

from seq2seq import Translator

# What has gone on purpose since: the part of the inventory and the name, and what took its place.
# A setting of a run goes into `seq2seq/config/renames.py` instead, where stored runs find it.
GONE: dict[tuple[str, str], str] = {
    ("yaml of evaluate", "check"): "hypothesis=FILE reference=FILE source=FILE",
    ("yaml of evaluate", "model"): "bundle=, since model= is an architecture",
    **{("options of evaluate.py --check", name): "evaluate hypothesis=FILE reference=FILE"
       for name in ("--check", "-h", "--help")},
    **{("yaml of prepare_data", name): "prepare.engine=ray" for name in ("task", "tasks")},
    ("options of export.py", "{ctranslate2}"): "FORMAT, with the same choice",
    **{(part, "compare_attention"): "benchmark.py train and decode, of model=base_gqa and others"
       for part in ("yaml", "presets of .")},
    ("options of make_dashboard.py", "--report"): "seq2seq report writes a page to be given on",
    ("scripts", "attention_figures.py"): "the course in docs/attention; translate --attention FILE",
    **{
        ("yaml of benchmark_data", name): "the corpus is prepared once, whole, as it is in training"
        for name in ("pairs", "max_length", "repeats", "seed")
    },
    **{("yaml of benchmark_train", name): f"a call for each, with {now}"
       for name, now in {"precisions": "trainer.precision=", "kernels": "model.kernel=",
                         "compile": "trainer.compile=", "threads": "OMP_NUM_THREADS",
                         "repeats": "scripts/benchmarks/compare.py"}.items()},
    **{("yaml of benchmark_decode", name): f"a call for each, with {now}"
       for name, now in {"precisions": "precision=", "beams": "beam=", "batches": "batch=",
                         "repeats": "scripts/benchmarks/compare.py"}.items()},
    ("json of compare.py --output X.json", "wins"): "differences, the sentences themselves",
    ("files of an evaluation", "groups.tsv"): "the breakdowns of evaluation.json",
    **{("json of evaluation.json", f"files.groups{field}"): "the breakdowns"
       for field in ("", ".fingerprint", ".path")},
    ("json of origin.json", "starts[].versions.lightning"): "starts[].versions.lightning-fabric",
    ("files of a run", "profile/operators.txt"): "profile/trace.json, at https://ui.perfetto.dev",
    ("json of benchmark.py data", "[].by"): "docs/how-to/prepare.md has those of usual tools",
    **{
        ("json of benchmark.py train", f"[].{name}"): why
        for why, names in {
            "compare.py says the interval": ("target_tokens_per_second_p25",
                                             "target_tokens_per_second_p75"),
            "target_tokens_per_second": ("source_tokens_per_second",),
            "docs/explanation/speed.md: 2048 on a CPU, 8192 on a GPU": ("matmul",),
            "matmul_tflops": ("data_sheet_tflops", "data_sheet_utilisation"),
        }.items()
        for name in names
    },
    **{
        ("json of benchmark.py decode", f"[].{name}"): "compare.py says the interval"
        for name in ("sentences_per_second_p25", "sentences_per_second_p75",
                     "call_seconds_p50", "call_seconds_p95")
    },
    **{
        ("json of benchmark.py decode", f"[].{name}_share"): "a profiler, such as py-spy"
        for name in ("decoder", "encode", "projection", "reorder", "search")
    },
    **{("presets of decode", name): "docs/explanation/results.md: a plain beam is better"
       for name in ("diverse", "mbr")},
    **{("options of translate", name): "--beam, --sample; docs/explanation/results.md says why"
       for name in ("--coverage", "--diverse", "--diversity", "--mbr", "--samples")},
    # Checks of runs, which no measurement on planted faults defended.
    ("findings", "slows_down"): "the curve perf/step_seconds",
    ("findings", "length_off"): "the curve val/length_ratio",
    ("findings", "batch_small"): "docs/explanation/training.md: trainer.accumulate",
    ("findings", "full_precision"): "the line `device` of the log; trainer.precision=auto",
    # A dry run says what it measured, and the line `model` how many parameters there are.
    **{
        ("dry run", name): "`memory` for what is kept, `batch` and `training` for time"
        for name in (
            *("EMA", "activations", "decoder", "decoder.*", "decoder_norm", "embeddings"),
            *("encoder", "encoder.*", "encoder_norm", "first", "gradients", "labels", "length"),
            *("measured", "optimiser", "output", "parameters", "source", "source_embedding"),
            *("step", "time", "source_embedding.positions", "source_embedding.tokens"),
            "target_embedding",
            *("target_embedding.positions", "target_in", "together", "weights"),
        )
    },
}

# Settings of a stored run that are gone: a run that used them does not go on.
IN_USE = {"streaming: true": "streaming: false", "longest_first: true": "longest_first: false",
          "r_drop: 1.0": "r_drop: 0.0", "coverage: 0.2": "coverage: 0.0",
          "word_dropout: 0.1": "word_dropout: 0.0"}  # fmt: skip

# Settings of presets that name a revision and checksums now.
PINNED = ("data.urls", "data.hub_revision")

# What stands before the name of a setting in a field of a stored file.
PREFIX = re.compile(r"^training\.config\.|^settings\.|(?<=^data\.)settings\.")

# Answers that are others on purpose.
CHANGED = {
    "joiner": "zero-width joiners stay where they make one emoji of several",
    "text": "tags, numbers, marks and what is degenerate: steps around the search were made anew",
}

INVENTORY: dict[str, Any] = json.loads((STORED / "inventory.json").read_text(encoding="utf-8"))
EXPECTED: dict[str, Any] = json.loads((STORED / "interrupted_runs" / "expected.json").read_text())
OUTPUTS = [
    line for line in stored.read_lines(STORED / "outputs.jsonl")
    if not line["keywords"].keys() & {"coverage", "groups"}
    and line["keywords"].get("strategy") != "mbr"
    and "required" not in line["source"]  # of searches that forced terms; attention places them
]
CONFIGS = sorted(path.parent.name for path in (STORED / "configs").glob("*/config.yaml"))
QUICK = {"everything", "experiment_general", "model_base_gqa", "model_rnn_attention", "older",
         "precision_bf16-mixed", "streaming", "trainer_fsdp"}  # fmt: skip
SCORES = 1e-4  # nats that a score may differ by: other processors round otherwise
HERE = stored.same_machine(EXPECTED["interrupted"]["machine"])  # on the processor of the stored
# Difference of weights after some dozens of steps on another processor.
ROUNDING = 2e-3


def missing(part: str, before: Any, now: Any) -> list[str]:
    """Names that were there and are not, but for those that went on purpose."""
    return sorted(name for name in {*before} - {*now} if (part, name) not in GONE)


def changed(line: dict[str, Any]) -> str | None:
    """Why an answer is another one now, by its key in `CHANGED`."""
    if isinstance(line["source"], str) and "\u200d" in line["source"]:
        return "joiner"
    if line["call"] == "translate" and (
        line["answer"].get("notes") or not re.fullmatch(r"[A-Za-zÀ-ÿ ,.!?'’-]*", line["source"])
        or re.search(r"\d|[A-Z]{2}", line["source"]) or line["keywords"].get("terms")
    ):  # fmt: skip
        return "text"
    return None


def some(names: Iterable[str], slow: Container[str]) -> list[Any]:
    """Parameters of a test, some of which are slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


# Bundles and their outputs


@pytest.mark.parametrize("bundle", dict.fromkeys(line["bundle"] for line in OUTPUTS))
def test_bundles_translate_as_they_did(bundle: str) -> None:
    lines = [line for line in OUTPUTS if line["bundle"] == bundle]
    engine = lines[0]["engine"]
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    folder = STORED / ("ctranslate2" if engine == "ctranslate2" else f"bundles/{bundle}")
    translator = Translator.load(folder, "cpu", engine=engine, precision="float32")
    wrong, drawn, meant, remade = [], [], [], []
    for line, now in zip(lines, stored.replay(translator, lines), strict=True):
        if found := list(stored.differences(line["answer"], now["answer"], SCORES)):
            # On another processor a sample may fall on the other side of a limit.
            chance = "strategy" in line["keywords"] and not HERE
            kinds = {"text": remade, "joiner": meant, None: drawn if chance else wrong}
            kinds[changed(line)].append(f"{line['keywords']} {line['source']!r}: {found}")
    assert not wrong, f"{len(wrong)} of {len(lines)} differ:\n" + "\n".join(wrong[:5])
    assert len(drawn) <= 5, "\n".join(drawn)
    assert len(meant) <= 3, "\n".join(meant)
    assert len(remade) <= 6, "\n".join(remade)  # of the 10 to 24 lines that steps of text touch


def test_the_stored_outputs_are_worth_comparing() -> None:
    texts = [
        line["answer"]["text"] for line in OUTPUTS if line["call"].startswith("translate")
    ]
    assert len(OUTPUTS) >= 475
    assert len(set(texts)) > 0.9 * len(texts)


@pytest.mark.slow
def test_a_stored_bundle_is_written_again_as_it_is(tmp_path: Path) -> None:
    bundles = [STORED / "bundles" / "rotary_grouped"] * 2
    result = stored.run(
        "scripts/average_checkpoints.py", f"inputs=[{bundles[0]},{bundles[1]}]",
        f"output={tmp_path / 'same'}",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    now, before = (
        safetensors.torch.load_file(folder / "model.safetensors")
        for folder in (tmp_path / "same", bundles[0])
    )
    assert stored.digest(now) == stored.digest(before)


# Interrupted runs


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name == "interrupted"))
            for name in EXPECTED],
)  # fmt: skip
def resumed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("stored") / request.param
    shutil.copytree(STORED / "interrupted_runs" / request.param, run_dir)
    result = stored.run("scripts/train.py", f"resume={run_dir}")
    assert result.returncode == 0, result.stdout + result.stderr
    step = EXPECTED[request.param]["goes_on_after_step"]
    assert f"resuming    after step {step}" in result.stdout
    return run_dir


def test_a_checkpoint_of_format_1_is_refused_and_its_weights_can_be_taken(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(STORED / "interrupted_runs" / "format_1", run_dir)
    result = stored.run("scripts/train.py", f"resume={run_dir}")
    assert result.returncode == 1
    assert "has format 1, this version of seq2seq" in result.stderr
    assert "continues from it (revision a4b07cc, seq2seq 0.1.0)" in result.stderr
    assert f"start a new run from its weights: init_from={run_dir}" in result.stderr
    result = stored.run(
        "scripts/train.py", f"init_from={run_dir}", "data=files", "dry_run=true",
        f"data.path={STORED / 'corpus'}", "trainer=cpu", "trainer.val_pairs=8",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def resumed_end(run_dir: Path) -> Path:
    """The weights that an interrupted run reaches if it is never stopped."""
    return STORED / "interrupted_runs" / f"{run_dir.name}.safetensors"


def test_an_interrupted_run_ends_as_one_that_was_never_stopped(resumed: Path) -> None:
    """To the bit on the processor that it was begun on, and closely on others."""
    expected = EXPECTED[resumed.name]
    before = safetensors.torch.load_file(resumed_end(resumed))
    bundle = safetensors.torch.load_file(resumed / "bundle" / "model.safetensors")
    last = stored.last_weights(resumed)
    assert bundle.keys() == before.keys()
    if stored.same_machine(expected["machine"]):
        assert stored.digest(bundle) == expected["bundle_sha256"]
        assert stored.digest(last) == expected["weights_sha256"]
    for name, value in before.items():
        torch.testing.assert_close(bundle[name], value, rtol=ROUNDING, atol=ROUNDING, msg=name)
    now = stored.sums(last)
    assert now.keys() == expected["weights"].keys()
    for name, (_, squares) in expected["weights"].items():
        # Adam moves the biases of keys, whose gradient is 0, by what was rounded.
        assert now[name][1] == pytest.approx(squares, rel=ROUNDING, abs=ROUNDING), name
    summary = json.loads((resumed / "summary.json").read_text())
    assert {**summary, "seconds": 0}.keys() == expected["summary"].keys()
    for key in ("steps", "stopped_early", "best_step"):
        assert summary[key] == expected["summary"][key]


def test_a_resumed_run_has_the_fields_and_files_of_before(resumed: Path) -> None:
    before, averages = INVENTORY["written"], (resumed / "snapshots").is_dir()

    def there(part: str, names: Iterable[str], now: Iterable[str], rare: str) -> None:
        """All names but those that only some runs have are there."""
        gone = [name for name in missing(part, names, now) if not re.match(rare, name)]
        renamed = {f"{place}{old}" for old in stored.renamed()
                   for place in ("training.config.", "settings.", "")}  # fmt: skip
        assert [name for name in gone if name not in renamed] == [], part

    rare = "profile/" if averages else "profile/|snapshots/"
    there("files of a run", before["files of a run"], stored.files_of(resumed), rare)
    for name in ("summary.json", "origin.json", "data_report.json", "bundle/config.json"):
        now = stored.json_fields(json.loads((resumed / name).read_text(encoding="utf-8")))
        there(f"json of {name}", before["json"][name], now, "^$" if averages else "average")
    samples = stored.json_fields(stored.read_lines(resumed / "samples.jsonl"))
    there("json of samples.jsonl", before["json"]["samples.jsonl"], samples, "^$")
    header = (resumed / "metrics/version_0/metrics.csv").read_text().partition("\n")[0]
    metrics = before["metrics (of a run with all of them)"]
    there("metrics", metrics, header.split(","), "^$" if averages else ".*_of_average")


@pytest.mark.slow
def test_200_steps_of_tiny_are_the_same_to_the_bit(tmp_path: Path) -> None:
    expected = json.loads((STORED / "weights_200_steps.json").read_text())
    arguments = expected["command"].split()[2:-1]
    result = stored.run(*arguments, f"run_dir={tmp_path / 'run'}")
    assert result.returncode == 0, result.stdout + result.stderr
    weights, losses = stored.last_weights(tmp_path / "run"), stored.losses(tmp_path / "run")
    if stored.same_machine(expected["machine"]):
        assert losses == expected["losses"]
        assert stored.digest(weights) == expected["sha256"]
    assert len(losses) == len(expected["losses"]) == 200
    for now, before in zip(losses, expected["losses"], strict=True):
        assert float(now[1]) == pytest.approx(float(before[1]), rel=ROUNDING), before[0]


# Settings


@pytest.mark.parametrize("name", some(CONFIGS, slow={*CONFIGS} - QUICK))
def test_stored_settings_are_read(name: str, tmp_path: Path) -> None:
    """By resume=; each setting keeps its value, or has a new name, whose value may differ."""
    text, renamed = (STORED / "configs" / name / "config.yaml").read_text("utf-8"), stored.renamed()
    for used, off in IN_USE.items():
        text = text.replace(f" {used}\n", f" {off}\n")
    (tmp_path / "config.yaml").write_text(text)
    before = stored.flat(yaml.safe_load(text))
    now, wrong = stored.flat(stored.train_settings(f"resume={tmp_path}")), []
    for key, value in before.items():
        new = renamed.get(key, key)
        got = now.get(new, "nothing") if new is not None else value
        if got == "nothing" or (new == key != "resume" and got != value):
            wrong.append(f"{key} was {value}, and {new} is {got}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_presets_are_composed_to_the_same_settings() -> None:
    before = yaml.safe_load((STORED / "composed.yaml").read_text(encoding="utf-8"))
    default, renamed, wrong = stored.flat(before["default"]), stored.renamed(), []
    for preset, changes in before["changes"].items():
        group, _, name = preset.partition("=")
        if (f"presets of {group}", name) in GONE or name in ("demo", "general"):  # new recipes
            continue
        now = stored.flat(stored.train_settings(preset))
        gone = changes.pop("without", [])
        expected = {key: value for key, value in (default | changes).items() if key not in gone}
        for key, value in expected.items():
            new = renamed.get(key, key)
            got = now.get(new, "nothing") if new is not None else value
            if isinstance(got, str):
                got = got.replace(f"{ROOT}/", "")
            pinned = key in PINNED or key.endswith(".urls")  # by commit and checksum
            if (key, value, got) == ("data.length_multiple", 1, None):
                continue  # null is 1, too, but for bf16 on a CPU
            if new == key and got != value and not pinned:
                wrong.append(f"{preset}: {key} was {value}, and is {got}")
    assert not wrong, "\n".join(wrong)


def test_every_yaml_key_is_there_or_has_a_new_name() -> None:
    renamed, schemas, gone = stored.renamed(), stored.schemas(), []
    for command in missing("yaml", INVENTORY["yaml_keys"], schemas):
        gone.append(command)
    for command in INVENTORY["yaml_keys"].keys() & schemas.keys():
        keys, now = INVENTORY["yaml_keys"][command], stored.yaml_keys(schemas[command])
        for key in missing(f"yaml of {command}", keys, now):
            new = renamed.get(key, "nothing")
            if new is not None and new not in now:
                gone.append(f"{command}: {key}")
    assert gone == []


def test_every_preset_is_there() -> None:
    for group, names in INVENTORY["presets"].items():
        now = [file.stem for file in (ROOT / "configs" / group).glob("*.yaml")]
        assert missing(f"presets of {group}", names, now) == []


# Commands


@pytest.mark.parametrize("command", [
    command for command in INVENTORY["options"] if ("scripts", command) not in GONE
])
def test_every_option_is_there(command: str) -> None:
    now = stored.options_of(command)
    assert missing(f"options of {command}", INVENTORY["options"][command], now) == []


@pytest.mark.parametrize("what", INVENTORY["exits"])
def test_exit_codes_are_what_they_were(what: str) -> None:
    before = INVENTORY["exits"][what]
    result = stored.run(*before["command"])
    assert result.returncode == before["code"], result.stderr
    assert "Traceback" not in result.stderr


def test_json_of_translate_has_its_fields() -> None:
    result = stored.run(
        "-m", "seq2seq.cli.translate", "--model", STORED / "bundles" / "post_norm", "--json",
        "--n-best", "2", "--alignments", "--scores", "It is {x} 3.",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    now = stored.json_fields([json.loads(line) for line in result.stdout.splitlines()])
    before = INVENTORY["written"]["json"]["translate --json"]
    gone = missing("translate --json", before, now)
    assert [field for field in gone if not field.endswith(".notes")] == []  # where there are any


@pytest.mark.slow
def test_json_of_other_commands_has_its_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the way in which the inventory was made."""
    monkeypatch.syspath_prepend(STORED)
    from inventory import written

    before, now = INVENTORY["written"], written(tmp_path)
    renamed = stored.renamed()
    for name, fields in before["json"].items():
        kept = [
            field for field in missing(f"json of {name}", fields, now["json"][name])
            if PREFIX.sub("", field) not in renamed and not field.endswith(".notes")
        ]  # fmt: skip
        assert kept == [], name
    for part in ("files of a run", "files of an evaluation", "files of a bundle",
                 "metrics (of a run with all of them)", "scores of an evaluation",
                 "dry run"):  # fmt: skip
        assert missing(part, before[part], now[part]) == []


# Names for programs


def test_the_door_to_the_golden_vectors_keeps_its_functions() -> None:
    tree = ast.parse((ROOT / "tests" / "reference" / "golden.py").read_text(encoding="utf-8"))
    now = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    before = {signature.partition("(")[0] for signature in INVENTORY["golden"]}
    assert missing("golden", before, now) == []


def test_errors_keep_their_exit_codes() -> None:
    import seq2seq
    import seq2seq.errors

    for name in ("UserError", "ConfigError", "DataError", "BundleError", "RequestError",
                 "RunError"):  # fmt: skip
        assert getattr(seq2seq.errors, name).exit_code == INVENTORY["errors"][name]
    assert missing("public names", INVENTORY["public_names"], seq2seq.__all__) == []
