"""Shared by all tests: the real scripts as subprocesses, and a toy corpus that is soon learnt."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import forked
import hypothesis
import pytest
from filelock import FileLock

# The same examples each time, so that what passed before a change passes after it; `make test-all`
# draws others.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch loads: workers share the cores already
ROOT = Path(__file__).resolve().parents[1]
WORDS = dict(
    zip(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
        ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"],
        strict=True,
    )
)
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",  # one order of additions: runs are equal to the bit
    "WANDB_MODE": "offline",
    "HF_HUB_OFFLINE": "1",
}
ENVIRONMENT.pop("SEQ2SEQ_MODEL", None)

# A model and a schedule that learn the toy corpus in seconds on one core, to the last word on any
# processor: with so many subwords a word is one token.
TOY = (
    "experiment=demo",
    "model=tiny",
    "optim=adamw",
    "optim.lr=3e-3",
    "data=files",
    "cleaning=none",  # its sentences repeat, and stand in all splits
    "data.max_tokens=1024",
    "model.d_model=64",
    "model.d_ff=128",
    "model.encoder_layers=2",
    "model.decoder_layers=2",
    "model.dropout=0",
    "model.max_length=40",
    "tokenizer.vocab_size=400",
    "optim.warmup_steps=100",
    "trainer.log_every_n_steps=5",
)


def run_command(*command: object, cwd: Path = ROOT, stdin: str | bytes = b"", **variables: str):
    """Run a command to its end; stdout and stderr come back as text."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=data,
        capture_output=True,
        env={**ENVIRONMENT, **variables},
        timeout=600,
        check=False,
    )
    result.stdout, result.stderr = result.stdout.decode(), result.stderr.decode()
    return result


def toy_settings(*overrides: str):
    """The settings that `scripts/train.py` has with these and those of the toy corpus."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from seq2seq.cli.settings import build, register
    from seq2seq.config import TrainConfig

    register("train", TrainConfig)
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "configs")):
        values = OmegaConf.to_container(compose("train", [*TOY, *overrides]), resolve=True)
    return build(TrainConfig, values)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One worker more than cores: tests wait for other processes, for pages and for clocks."""
    return (yield) + 1


def pytest_collection_finish():
    """Let collections of garbage pass over what is imported, which is large: they are faster."""
    gc.freeze()


@pytest.fixture(scope="session")
def between_workers(tmp_path_factory) -> Path:
    """A folder for what all processes of pytest share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def cache(between_workers, tmp_path_factory) -> Path:
    """Prepared corpora of all tests go here, and never to the user's cache."""
    folder = between_workers / "cache"
    os.environ["SEQ2SEQ_CACHE"] = ENVIRONMENT["SEQ2SEQ_CACHE"] = str(folder)
    ENVIRONMENT["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))  # no model was chosen
    return folder


def run_program(
    program: Path, *arguments: object, cwd: Path = ROOT, stdin: str | bytes = b"", **variables: str
):
    """The same for a Python program; it is forked, which is faster, if Python itself need not read
    the variables."""
    if any(name.startswith("PYTHON") for name in variables):
        return run_command(sys.executable, program, *arguments, cwd=cwd, stdin=stdin, **variables)
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return forked.run(program, *arguments, cwd=cwd, env={**ENVIRONMENT, **variables}, stdin=data)


@pytest.fixture(scope="session")
def script():
    """Runs `scripts/NAME.py` with settings; `script("train", "model=tiny")`."""
    return lambda name, *rest, **options: run_program(
        ROOT / "scripts" / f"{name}.py", *rest, **options
    )


@pytest.fixture(scope="session")
def translate():
    """Runs the installed `translate` command."""
    return partial(run_program, Path(sys.executable).with_name("translate"))


@pytest.fixture(scope="session")
def toy_corpus(between_workers) -> Path:
    """A folder of train.tsv, val.tsv and test.tsv: number words, each translated by one word."""
    with FileLock(between_workers / "corpus.lock"):
        if not (folder := between_workers / "corpus").exists():
            write_toy_corpus(folder)
    return folder


def write_toy_corpus(folder: Path) -> None:
    folder.mkdir()
    rng = random.Random(0)
    for split, size in (("train", 1500), ("val", 40), ("test", 40)):
        lines = ["en\tfr"]
        for _ in range(size):
            words = rng.choices(list(WORDS), k=rng.randint(1, 8))
            lines.append(" ".join(words) + "\t" + " ".join(WORDS[word] for word in words))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def toy_run(script, toy_corpus, between_workers) -> Path:
    """A finished run on the toy corpus, made by the real command."""
    run_dir = between_workers / "runs" / "toy"
    log = run_dir.with_suffix(".log")
    with FileLock(between_workers / "toy.lock"):
        if not log.exists():
            result = script(
                "train", *TOY, f"data.path={toy_corpus}", f"run_dir={run_dir}", "logger=wandb",
                "logger.share=all",
                "trainer.max_steps=600", "trainer.val_every_n_steps=300",
            )
            assert result.returncode == 0, result.stdout + result.stderr
            log.write_text(result.stdout + result.stderr, encoding="utf-8")
    return run_dir


# Of tests/gpu


@pytest.fixture(scope="session")
def device() -> str:
    """`cpu`, or `cuda` by SEQ2SEQ_TEST_DEVICE=cuda (`make test-gpu`)."""
    import torch

    wanted = os.environ.get("SEQ2SEQ_TEST_DEVICE", "cpu")
    if wanted == "cuda" and not torch.cuda.is_available():
        pytest.fail("SEQ2SEQ_TEST_DEVICE=cuda, but torch sees no GPU here")
    return wanted


@pytest.fixture(scope="session")
def accelerator(device: str) -> str:
    """The same, as the trainer calls it."""
    return "gpu" if device == "cuda" else "cpu"


@pytest.fixture(scope="session")
def two_devices(device: str) -> str:
    """The device of tests of two processes; skips where there is one GPU."""
    import torch

    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    return device


# Of the server


@pytest.fixture(scope="session")
def served():
    """The shipped model as servers have it, on torch alone."""
    from seq2seq.serving.models import load

    [found] = load(["general"], "cpu", "torch", "auto")
    return found


@pytest.fixture(scope="session")
def server(served):
    """The address of a server of it and of an untrained model, `tiny`."""
    from served import model_of, serving
    from tiny_translator import tiny_translator

    with serving(served, model_of(tiny_translator())) as address:
        yield address


# Of tests/browser


@pytest.fixture(scope="module")
def browser():
    """A chromium that is there; without one, tests of pages are skipped."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs a chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
