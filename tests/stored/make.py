"""How everything in this folder was made, by the code of revision 8b3eb09. It runs only there.

The folder is a net: what users had made with that revision must go on working. So its contents are
never made anew by later code, and this file is kept to be read, not to be run:

    git worktree add ../old 8b3eb09 && cp -r tests/stored ../old/tests
    cp tests/reference/stored.py ../old/tests/reference && cd ../old
    PYTHONPATH=.:tests/reference OMP_NUM_THREADS=1 python tests/stored/make.py [PART ...]
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import yaml
from hydra.core.global_hydra import GlobalHydra
from odd_strings import odd_strings
from stored import ROOT, digest, encode, flat, last_weights, losses, machine, replay, sums
from stored import STORED as HERE

from seq2seq import Translator

CORPUS = HERE / "corpus"
TRAIN_PAIRS = 4000

# Settings of every model here. The corpus is named by a path from the root of the clone.
COMMON = (
    "data=files", "data.path=tests/stored/corpus", "model.max_length=64", "model.d_model=32",
    "model.dropout=0", "tokenizer.vocab_size=400", "data.max_tokens=2048", "decode=beam",
    "trainer=cpu", "trainer.precision=32-true", "logger=csv", "logger.samples=3",
    "trainer.max_steps=2400", "trainer.val_every_n_steps=1200", "trainer.val_pairs=40",
)  # fmt: skip
SMALL = ("model.n_heads=4", "model.d_ff=64", "model.encoder_layers=2", "model.decoder_layers=1")
MUON = ("optim=muon", "optim.lr=0.01")
ADAMW = ("optim=cosine", "optim.lr=0.005", "optim.warmup_steps=100")
BUNDLES = {
    "post_norm": (
        "model=tiny", *SMALL, *ADAMW, "model.norm=post", "model.positions=sinusoidal",
        "model.activation=relu",
    ),
    "rotary_grouped": (
        "model=tiny", *SMALL, *MUON, "model.norm=pre", "model.positions=rotary",
        "model.n_kv_heads=2", "model.activation=swiglu", "model.qk_norm=true",
    ),
    "recurrent": ("model=rnn_attention", *ADAMW, "model.d_attention=32"),
    "separate": (
        "model=tiny", *SMALL, *MUON, "tokenizer.joint=false", "tokenizer.vocab_size=320",
        "model.positions=learned", "model.activation=gelu", "model.tie_embeddings=none",
    ),
}  # fmt: skip


def command(*arguments: object, **variables: str) -> str:
    """Run a command to its end in the root of the clone; what it printed."""
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT, env={**ENVIRONMENT, **variables}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    if result.returncode:
        raise SystemExit(f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def make_corpus() -> None:
    """4,000 pairs of the starter corpus to learn from, and its first 60 of validation and test."""
    starter = ROOT / "data" / "starter"
    CORPUS.mkdir(exist_ok=True)
    with gzip.open(starter / "train.tsv.gz", "rt", encoding="utf-8") as file:
        head, *rows = file.read().splitlines()
    rows = rows[:: len(rows) // TRAIN_PAIRS][:TRAIN_PAIRS]
    text = "".join(f"{row}\n" for row in [head, *rows]).encode()
    (CORPUS / "train.tsv.gz").write_bytes(gzip.compress(text, 9, mtime=0))
    for split in ("val", "test"):
        lines = (starter / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[:61]
        (CORPUS / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_bundles() -> None:
    for name, settings in BUNDLES.items():
        target = HERE / "bundles" / name
        shutil.rmtree(target, ignore_errors=True)
        run = WORK / name
        command("scripts/train.py", *COMMON, *settings, f"run_dir={run}")
        shutil.copytree(run / "bundle", target)
        print(name, (run / "summary.json").read_text(), flush=True)


def make_older() -> None:
    """`post_norm` as older versions wrote it, in 16 bits: what was added since is not in it."""
    from seq2seq.bundle.bundle import load_bundle

    target = HERE / "bundles" / "older"
    bundle = load_bundle(HERE / "bundles" / "post_norm")
    bundle.training = {"step": bundle.training["step"], "length_ratio": 1.25}
    bundle.save(target, dtype=torch.bfloat16, card="A model of an older version.\n")
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    del config["normalise"], config["alignment"], config["model"]["architecture"]
    del config["model"]["head_dim"], config["model"]["qk_norm"], config["model"]["word_dropout"]
    config["decode"] = {"beam": 4, "length_penalty": 0.6, "length_norm": "gnmt", "max_ratio": 1.5}
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (target / "config.json").write_text(text, encoding="utf-8")


def make_ctranslate2() -> None:
    folder = HERE / "ctranslate2"
    shutil.rmtree(folder, ignore_errors=True)
    bundle = HERE / "bundles" / "post_norm"
    command("scripts/export.py", "ctranslate2", bundle, "--output", folder,
            "--quantization", "float16")  # fmt: skip


# What each bundle is asked, five sources each: a method of `Translator` or `search`, and keywords.
TERMS = {"book": "livre", "house": "demeure", "water": "eau", "red": "rouge", "Monday": "lundi"}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("translate", {"beam": 1}),
    ("translate", {"beam": 5}),
    ("translate", {"beam": 4, "length_norm": "gnmt", "length_penalty": 0.6}),
    ("translate", {"beam": 4, "length_norm": "none"}),
    ("translate", {"beam": 6, "groups": 3, "diversity": 0.8, "n_best": 3}),
    ("translate", {"beam": 5, "n_best": 3}),
    ("translate", {"strategy": "sample", "seed": 7, "temperature": 0.8, "top_k": 20}),
    ("translate", {"strategy": "sample", "seed": 3, "top_p": 0.9, "n_best": 2}),
    ("translate", {"strategy": "sample", "seed": 5, "min_p": 0.05, "temperature": 1.3}),
    ("translate", {"strategy": "mbr", "samples": 8, "seed": 2}),
    ("translate", {"beam": 3, "prefix": "Elle a"}),
    ("translate", {"beam": 4, "terms": TERMS}),
    ("translate", {"beam": 1, "terms": TERMS, "prefix": "Le "}),
    ("translate", {"beam": 4, "banned": ["la", "un", "le"], "n_best": 2}),
    ("translate", {"beam": 4, "no_repeat_ngram": 2}),
    ("translate", {"beam": 4, "repetition_penalty": 1.4}),
    ("translate", {"beam": 4, "coverage": 0.3, "n_best": 2}),
    ("translate", {"beam": 4, "min_length": 16}),
    ("translate", {"beam": 2, "max_ratio": 0.0, "max_extra": 6}),
    ("translate", {"beam": 3, "align": True, "typography": True}),
    ("translate", {"beam": 3, "split": False, "protect": False, "rescue": False}),
    ("translate_corpus", {"beam": 5}),
    ("score", {}),
    ("align", {}),
    ("search", {"beam": 5, "n_best": 5, "batch_tokens": 64}),
]
OF_CTRANSLATE2 = ("prefix", "banned", "coverage", "min_length", "no_repeat_ngram", "max_ratio")


def pairs(seed: int) -> Iterable[tuple[str, str]]:
    """Sources with a translation each: four sentences of the corpus, then something odd."""
    rows = [
        line.split("\t")
        for split in ("val", "test")
        for line in (CORPUS / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    # Through JSON, since halves of surrogate pairs that stand together are one character there.
    texts = (json.loads(json.dumps(text[:120])) for _, text in odd_strings(2000, seed))
    odd = (text for text in texts if text.strip())
    shift = 7 * seed  # other sentences for the same case
    for i in itertools.count(shift):
        for number in range(4):
            source, target = rows[(4 * i + number) % len(rows)]
            yield source, target
        yield next(odd), rows[i % len(rows)][1]


def make_outputs() -> None:
    lines = []
    for seed, name in enumerate([*BUNDLES, "older"]):
        translator = Translator.load(HERE / "bundles" / name, "cpu", precision="float32")
        cases = CASES if name in BUNDLES else CASES[:12:3]
        lines += asked(translator, name, "torch", cases, pairs(seed))
    translator = Translator.load(HERE / "ctranslate2", "cpu", engine="ctranslate2",
                                 precision="float32")  # fmt: skip
    cases = [
        case for case in CASES
        if case[0] in ("translate_corpus", "score") or {*case[1]} & {*OF_CTRANSLATE2, "n_best"}
        if not {*case[1]} & {"terms", "groups", "strategy"} and case[0] != "search"
    ]  # fmt: skip
    lines += asked(translator, "ctranslate2", "ctranslate2", cases, pairs(9))
    write_lines(HERE / "outputs.jsonl", lines)
    texts = [line["answer"]["text"] for line in lines if line["call"].startswith("translate")]
    print(f"{len(lines)} outputs, {len(set(texts))} texts of {len(texts)} differ")


def asked(
    translator: Translator, name: str, engine: str, cases: list[Any], given: Iterable[Any]
) -> list[dict[str, Any]]:
    each, lines = iter(given), []
    for call, keywords in cases:
        for number in range(5):
            source, target = next(each)
            what: Any = source
            if call in ("score", "align"):
                # The model's limit holds for pairs, which nothing cuts.
                what = [source if number < 4 else source[:12], target]
            elif call == "search":
                ids, written = encode(translator, source), encode(translator, target, "target")
                what = {"source": ids[:40], "prefix": written[:1], "banned": [written[5:6]]}
                if what["banned"][0][0] in what["prefix"]:
                    what["banned"] = []
            lines.append({"bundle": name, "engine": engine, "call": call, "keywords": keywords,
                          "source": what})  # fmt: skip
    return list(replay(translator, lines))


# Tiny: a checkpoint holds the weights three times, the EMA run's four times.
RUN = (
    "data=files", "data.path=tests/stored/corpus", "model=tiny", "model.d_model=16",
    "model.n_heads=2", "model.d_ff=32", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.max_length=64", "model.dropout=0.2", "model.attention_dropout=0.1",
    "tokenizer.vocab_size=300", "data.max_tokens=512", "trainer=cpu", "trainer.precision=32-true",
    "trainer.train_pairs=400", "trainer.val_pairs=8", "trainer.log_every_n_steps=5", "logger=csv",
    "logger.samples=2", "decode=greedy", "checkpoint.every_n_steps=8", "optim.lr=0.003",
    "optim.warmup_steps=20",
)  # fmt: skip
RUNS = {
    "interrupted": (
        *RUN, "trainer.max_steps=70", "trainer.val_every_n_steps=70", "data.num_workers=1",
    ),
    "interrupted_ema": (
        *RUN, "model.positions=rotary", "optim=wsd", "optim.ema=0.9", "optim.lr=0.003",
        "optim.warmup_steps=20", "checkpoint.average=3", "trainer.max_steps=90",
        "trainer.val_every_n_steps=15", "trainer.accumulate=2", "tokenizer.dropout=0.1",
        "tokenizer.dropout_variants=2",
    ),
}  # fmt: skip
STOPS = {"interrupted": (56, signal.SIGKILL), "interrupted_ema": (72, signal.SIGTERM)}


def make_runs() -> None:
    """Two runs that were stopped in the middle of their second epoch or later, and their ends."""
    expected = {}
    for name, settings in RUNS.items():
        whole = WORK / f"{name}_whole"
        command("scripts/train.py", *settings, f"run_dir={whole}")
        target = HERE / "interrupted_runs" / name
        step = stopped(target, settings, *STOPS[name])
        min((target / "checkpoints").glob("*.ckpt")).unlink()  # two are kept, one is enough
        for file in target.rglob("*"):
            if file.suffix in (".json", ".log", ".yaml"):
                text = file.read_text(encoding="utf-8").replace(f"{ROOT}/", "")
                text = re.sub(rf"{ROOT}|{sys.executable}", ".", text).replace(f"{WORK}/", "cache/")
                file.write_text(text, encoding="utf-8")
        end = HERE / "interrupted_runs" / f"{name}.safetensors"
        shutil.copy(whole / "bundle" / "model.safetensors", end)
        last = last_weights(whole)
        bundle = safetensors.torch.load_file(whole / "bundle" / "model.safetensors")
        expected[name] = {
            "command": " ".join(("scripts/train.py", *settings)),
            "stopped_by": STOPS[name][1].name,
            "goes_on_after_step": step,
            "machine": machine(),
            "bundle_sha256": digest(bundle),
            "weights_sha256": digest(last),
            "weights": sums(last),
            "summary": json.loads((whole / "summary.json").read_text()) | {"seconds": 0},
        }
    write_json(HERE / "interrupted_runs" / "expected.json", expected)


def stopped(run_dir: Path, settings: tuple[str, ...], step: int, number: signal.Signals) -> int:
    """Train, and stop when this checkpoint is there; the step that was saved last."""
    shutil.rmtree(run_dir, ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, "scripts/train.py", *settings, f"run_dir={run_dir.relative_to(ROOT)}"],
        cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    checkpoint = run_dir / "checkpoints" / f"step-{step:08d}.ckpt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(number)
    code = process.wait()
    assert code in (-number, 128 + number), code
    assert not (run_dir / "summary.json").exists()
    return int(max((run_dir / "checkpoints").glob("*.ckpt")).stem.removeprefix("step-"))


# Runs whose `config.yaml` is stored, by name.
CONFIGS: dict[str, tuple[str, ...]] = {
    **{f"model_{name}": (f"model={name}",) for name in (
        "tiny", "small", "base", "base_gqa", "base_mqa", "big", "big_enfr", "general",
        "rnn_attention")},
    **{f"precision_{name}": (f"trainer.precision={name}", "trainer=cpu") for name in (
        "auto", "32-true", "bf16-mixed", "16-mixed")},
    **{f"trainer_{name}": (f"trainer={name}",) for name in ("gpu", "ddp", "fsdp")},
    **{f"experiment_{name}": (f"experiment={name}",) for name in ("demo", "general", "multi30k")},
    **{f"optim_{name}": (f"optim={name}",) for name in ("cosine", "wsd", "muon")},
    "debug_overfit": ("debug=overfit", "model=tiny"),
    "streaming": ("model=tiny", "data=opus100", "data.streaming=true", "tokenizer=unigram"),
    "everything": (  # all that a preset leaves alone
        "model=tiny", "model.norm=pre", "model.positions=rotary", "model.activation=swiglu",
        "model.n_kv_heads=2", "model.head_dim=16", "model.qk_norm=true", "model.kernel=reference",
        "model.word_dropout=0.1", "model.attention_dropout=0.1", "model.tie_embeddings=decoder",
        "tokenizer.joint=false", "tokenizer.dropout=0.1", 'tokenizer.symbols=["<name>"]',
        "data.longest_first=true", "data.num_workers=2", "data.length_multiple=8",
        "+data.variants.plain=0.1", "optim.r_drop=1", "optim.ema=0.99", "optim.weight_decay=0.01",
        "trainer.max_steps=20epochs", "trainer.val_every_n_steps=1epochs", "trainer.accumulate=2",
        "trainer.split=2", "trainer.halve_on_oom=true", "trainer.compile=true",
        "trainer.on_bad_step=stop", "trainer.spike=3", "trainer.patience=4",
        "trainer.profile=true", "checkpoint.every_minutes=5", "checkpoint.average=3",
        "checkpoint.average_by=best", "decode.coverage=0.2", "decode.length_norm=gnmt",
        "logger.samples=4", "cleaning.languages=[fr,en]", "data=files", "data.path=corpus",
    ),
}  # fmt: skip


def make_configs() -> None:
    """`config.yaml` of runs, and what each preset of `train.py` is composed to."""
    from seq2seq.cli.settings import hydra_command
    from seq2seq.config import TrainConfig
    from seq2seq.training.run_folder import write_settings

    for name, overrides in CONFIGS.items():
        folder = HERE / "configs" / name
        folder.mkdir(parents=True, exist_ok=True)
        sys.argv = ["train.py", *overrides, f"run_dir=runs/{name}"]
        GlobalHydra.instance().clear()
        hydra_command("train", TrainConfig, lambda config, at=folder: write_settings(config, at))
        file = folder / "config.yaml"
        file.write_text(file.read_text(encoding="utf-8").replace(f"{ROOT}/", ""), encoding="utf-8")
    # As before there was a choice of architecture, alignment and last steps.
    base = yaml.safe_load((HERE / "configs" / "model_base" / "config.yaml").read_text())
    for section, names in {
        "model": ("architecture", "head_dim", "qk_norm", "word_dropout"),
        "data": ("final_steps", "final_weights", "variants", "where"),
        "trainer": ("split", "halve_on_oom", "profile"),
        "logger": ("samples",),
    }.items():
        for name in names:
            del base[section][name]
    (HERE / "configs" / "older").mkdir(exist_ok=True)
    text = yaml.safe_dump(base, sort_keys=False, allow_unicode=True)
    (HERE / "configs" / "older" / "config.yaml").write_text(text, encoding="utf-8")
    make_composed()


def make_composed() -> None:
    presets = [
        f"{file.parent.name}={file.stem}"
        for file in sorted((ROOT / "configs").glob("*/*.yaml"))
        if file.parent.name != "hydra"
    ]
    default = composed()
    whole = flat(default)
    changes = {}
    for preset in presets:
        own = flat(composed(preset))
        changes[preset] = {key: value for key, value in own.items() if whole.get(key, "") != value}
        if gone := sorted(whole.keys() - own.keys()):
            changes[preset] |= {"without": gone}
    text = yaml.safe_dump({"default": default, "changes": changes}, sort_keys=False,
                          allow_unicode=True)  # fmt: skip
    (HERE / "composed.yaml").write_text(
        "# `train.py --cfg job --resolve`, and by what each preset differs from it.\n"
        + text,
        encoding="utf-8",
    )


def composed(*overrides: str) -> dict[str, Any]:
    text = command("scripts/train.py", *overrides, "--cfg", "job", "--resolve")
    found: dict[str, Any] = yaml.safe_load(text.replace(f"{ROOT}/", ""))
    return found


WEIGHTS = (
    "scripts/train.py", "model=tiny", "data=files", "data.path=tests/stored/corpus",
    "tokenizer.vocab_size=300", "seed=1", "trainer=cpu", "trainer.precision=32-true",
    "trainer.max_steps=200", "data.max_tokens=1024", "model.max_length=128", "decode=greedy",
    "trainer.val_every_n_steps=200", "trainer.val_pairs=8", "checkpoint.every_n_steps=200",
    "trainer.log_every_n_steps=1", "logger=csv",
)  # fmt: skip


def make_weights() -> None:
    """200 steps of `tiny` on the stored corpus: weights and losses, to the last bit."""
    run_dir = WORK / "tiny"
    command(*WEIGHTS, f"run_dir={run_dir}")
    weights = last_weights(run_dir)
    write_json(
        HERE / "weights_200_steps.json",
        {
            "command": "OMP_NUM_THREADS=1 python " + " ".join(WEIGHTS) + " run_dir=FOLDER",
            "machine": machine(),
            "sha256": digest(weights),
            "losses": losses(run_dir),
            "weights": sums(weights),
        },
    )


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    text = "".join(json.dumps(rounded(line), sort_keys=True) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def rounded(value: Any) -> Any:
    """A JSON value whose numbers have six decimals."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


def make_inventory() -> None:
    from inventory import inventory, write

    write(HERE / "inventory.json", inventory(WORK / "inventory"))


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


PARTS: dict[str, Callable[[], None]] = {
    "corpus": make_corpus,
    "bundles": make_bundles,
    "older": make_older,
    "ctranslate2": make_ctranslate2,
    "outputs": make_outputs,
    "runs": make_runs,
    "configs": make_configs,
    "weights": make_weights,
    "inventory": make_inventory,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        WORK = Path(folder)
        given = {"PYTHONPATH": str(ROOT), "SEQ2SEQ_CACHE": f"{folder}/cache", "HF_HUB_OFFLINE": "1"}
        ENVIRONMENT = {**os.environ, **given}
        for part in sys.argv[1:] or PARTS:
            PARTS[part]()
