"""Do findings name planted faults, and stay silent on healthy runs?

    python scripts/benchmarks/findings.py --output FOLDER [--seeds 3] [--healthy 10]
    python scripts/benchmarks/findings.py --output FOLDER --cases "frozen layer" --seeds 1
    python scripts/benchmarks/findings.py --output FOLDER --corpus FOLDER --set model.d_model=96

Each run is a small model that trains for some ten seconds on one core (twenty for a healthy run,
and two where settings or data alone show the fault), on the shortest pairs of the starter corpus or
on those of `--corpus` (`train.en`, `train.fr`, and val and test alike). Runs that are there are not
made again. The table says of each fault how many runs named it, and what else they found; of
healthy runs, every finding is a false one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2seq.cli.exits import run_command
from seq2seq.data.corpus import read_pairs
from seq2seq.report.run import read_run

ROOT = Path(__file__).resolve().parents[2]
STARTER = ROOT / "data" / "starter"
WORDS = 7  # most words of a source
BASE = (
    "model=tiny", "model.d_model=64", "model.d_ff=128", "model.encoder_layers=2",
    "model.decoder_layers=2", "model.dropout=0.1", "model.max_length=64", "data=files",
    "tokenizer.vocab_size=800", "data.max_tokens=600", "optim.warmup_steps=100",
    "trainer.max_steps=300", "trainer.val_every_n_steps=100", "trainer.val_pairs=50",
    "trainer.log_every_n_steps=10", "decode=greedy", "logger=csv",
)  # fmt: skip
LONG = ("trainer.max_steps=600", "trainer.val_every_n_steps=200")
SHORT = ("trainer.max_steps=60", "optim.warmup_steps=10", "trainer.val_every_n_steps=60")
FORKS = multiprocessing.get_context("forkserver")  # its processes start with torch imported
FORKS.set_forkserver_preload(
    ["seq2seq.cli.train", "seq2seq.training.train", "seq2seq.data.pipeline", "seq2seq.report.page"]
)

Corpus = dict[str, list[list[str]]]  # source and target lines of train, val and test


@dataclass(frozen=True)
class Case:
    """A planted fault.

    Attributes:
        names: kinds of findings; the fault counts as named if one of them is found.
        settings: of the run.
        spoil: plants the fault in the corpus.
        refused: words of the error message that names the fault, if training refuses to begin.
        patch: plants the fault in the program, in the process of the run.
    """

    names: tuple[str, ...]
    settings: tuple[str, ...] = ()
    spoil: Callable[[Corpus, random.Random], None] | None = None
    refused: str | None = None
    patch: Callable[[], None] | None = None


# Faults of the corpus


def shuffle_targets(corpus: Corpus, draw: random.Random) -> None:
    draw.shuffle(corpus["train"][1])


def swap_columns(corpus: Corpus, draw: random.Random) -> None:
    for sides in corpus.values():
        sides.reverse()


def leak(split: str) -> Callable[[Corpus, random.Random], None]:
    def spoil(corpus: Corpus, draw: random.Random) -> None:
        for side, other in zip(corpus["train"], corpus[split], strict=True):
            side += other

    return spoil


def keep_few(count: int) -> Callable[[Corpus, random.Random], None]:
    def spoil(corpus: Corpus, draw: random.Random) -> None:
        corpus["train"] = [side[:count] for side in corpus["train"]]

    return spoil


def copy_sources(corpus: Corpus, draw: random.Random) -> None:
    corpus["train"][1] = list(corpus["train"][0])


def empty_targets(corpus: Corpus, draw: random.Random) -> None:
    targets = corpus["train"][1]
    for row in draw.sample(range(len(targets)), 6 * len(targets) // 10):
        targets[row] = ""


# Faults of the program


def freeze_layer() -> None:
    from seq2seq.training import train

    build = getattr(train, "build_model")  # noqa: B009

    def frozen(*given: Any) -> Any:
        model = build(*given)
        for name, parameter in model.named_parameters():
            if name.startswith("encoder.1."):
                parameter.requires_grad_(False)
        return model

    setattr(train, "build_model", frozen)  # noqa: B010


def slow_loader() -> None:
    from seq2seq.data.datamodule import TranslationData

    loader = TranslationData.train_dataloader

    def slow(self: Any, consumer: Any = None) -> Any:
        for batch in loader(self, consumer):
            time.sleep(0.05)
            yield batch

    TranslationData.train_dataloader = slow  # type: ignore[method-assign]


def wild_batches() -> None:
    from seq2seq.training.loss import TranslationTask

    forward = TranslationTask.forward

    def wild(self: Any, batch: Any) -> Any:
        loss, nll = forward(self, batch)
        self.calls = getattr(self, "calls", 0) + 1
        return (loss * 500 if self.calls % 70 == 0 else loss), nll

    TranslationTask.forward = wild  # type: ignore[method-assign]


def much_padding() -> None:
    from seq2seq.training.callbacks import throughput

    work = throughput.work

    def more(model: Any, batch: Any) -> Any:
        found = work(model, batch)
        found[2] *= 2  # positions
        return found

    throughput.work = more


NO_FILTERS = "cleaning.filters=[empty]"
CASES = {
    "warm-up longer than the run": Case(("warmup_long",), (*SHORT, "optim.warmup_steps=4000")),
    "tiny batches": Case(("batch_unusual",), (*SHORT, "data.max_tokens=200")),
    "fp32 where bf16 is faster": Case(
        ("precision_slow",),
        (*SHORT, "trainer.precision=32-true", "model.d_model=128", "data.length_multiple=0"),
    ),
    "learning rate 300 times too high": Case(
        ("diverged", "not_learning", "gradient_spikes"),
        ("optim.lr=3", "trainer.max_loss_spike=1000000"),
    ),
    "learning rate 10,000 times too low": Case(("not_learning",), ("optim.lr=1e-6",)),
    "shuffled targets": Case(("shuffled_targets",), SHORT, shuffle_targets),
    "swapped columns": Case(("columns_swapped",), SHORT, swap_columns, refused="swapped"),
    "leaked validation set": Case(("leaked",), (*SHORT, NO_FILTERS), leak("val")),
    "leaked test set": Case(("leaked",), (*SHORT, NO_FILTERS), leak("test")),
    "frozen layer": Case(("frozen_block",), patch=freeze_layer),
    "tiny data": Case(("tiny_data",), SHORT, keep_few(300)),
    "overfitting": Case(
        ("overfitting",), ("model.dropout=0", "trainer.val_every_n_steps=50"), keep_few(200)
    ),
    "slow loader": Case(("data_bound",), patch=slow_loader),
    "frequent validation": Case(
        ("validation_costly",), (*SHORT, "trainer.val_every_n_steps=2", "trainer.val_pairs=100")
    ),
    "much padding": Case(("padding_high",), patch=much_padding),
    "wild batches": Case(("gradient_spikes",), patch=wild_batches),
    "copied sources": Case(("source_copied",), (NO_FILTERS,), copy_sources),
    "empty targets": Case(("few_kept",), SHORT, empty_targets),
    "large vocabulary": Case(("rare_vocabulary",), (*SHORT, "tokenizer.vocab_size=30000",)),
}
HEALTHY, SOUND = "healthy", Case((), LONG)


def read_corpus(folder: Path | None) -> Corpus:
    """Read the corpus of the user, or the short pairs of the starter corpus."""
    if folder is not None:
        return {
            split: [(folder / f"{split}.{side}").read_text("utf-8").splitlines()
                    for side in ("en", "fr")]
            for split in ("train", "val", "test")
        }  # fmt: skip
    found: Corpus = {}
    for split, name in (("train", "train.tsv.gz"), ("val", "val.tsv"), ("test", "test.tsv")):
        pairs = list(read_pairs([STARTER / name], ("en", "fr")))
        short = [pair for pair in pairs if len(pair[0].split()) <= WORDS]
        found[split] = [list(side) for side in zip(*short, strict=True)]
    return found


def make_run(folder: Path, name: str, seed: int, options: argparse.Namespace) -> None:
    """Train one run with a fault, unless the finished run exists."""
    if (folder / "run" / "summary.json").exists():
        return
    case, draw = CASES.get(name, SOUND), random.Random(seed)
    corpus = read_corpus(options.corpus)
    order = draw.sample(range(len(corpus["train"][0])), len(corpus["train"][0]))
    corpus["train"] = [[side[row] for row in order] for side in corpus["train"]]
    if case.spoil is not None:
        case.spoil(corpus, draw)
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for split, sides in corpus.items():
        for suffix, lines in zip(("en", "fr"), sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / "corpus" / f"{split}.{suffix}").write_text(text, encoding="utf-8")
    settings = [*BASE, *options.set, *case.settings, f"seed={seed}",
                f"run_dir={folder / 'run'}", f"data.path={folder / 'corpus'}",
                f"data.cache={options.output / 'cache'}"]  # fmt: skip
    process = FORKS.Process(target=train, args=(name, settings, str(folder / "log.txt")))
    process.start()
    process.join()


def train(name: str, settings: list[str], log: str) -> None:
    """Train in this process, with the case's fault in the program if it has one."""
    from seq2seq.cli.train import main

    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    patch = CASES.get(name, SOUND).patch
    if patch is not None:
        patch()
    sys.argv = ["train", *settings]
    main()


def found_in(folder: Path, case: Case) -> set[str] | None:
    """Return the kinds of findings of a run; None if the run failed for another reason."""
    if not (folder / "run" / "config.yaml").exists():
        said = (folder / "log.txt").read_text(encoding="utf-8")
        return {case.names[0]} if case.refused and case.refused in said else None
    return {one.kind for one in read_run(folder / "run", folder.name).findings}


def measure(options: argparse.Namespace) -> None:
    """Make all runs, and print the table."""
    cases = options.cases or [*CASES, HEALTHY]
    print("| fault | named | also found |\n| --- | ---: | --- |")
    for name in cases:
        count = options.healthy if name == HEALTHY else options.seeds
        named, others = 0, Counter[str]()
        for seed in range(options.first_seed, options.first_seed + count):
            folder = options.output / name.replace(" ", "-").replace(",", "") / str(seed)
            make_run(folder, name, seed, options)
            case = CASES.get(name, SOUND)
            kinds, wanted = found_in(folder, case), set(case.names)
            named += kinds is not None and (bool(kinds & wanted) if wanted else not kinds)
            others.update({"failed"} if kinds is None else kinds - wanted)
        also = ", ".join(f"{kind} {n}" for kind, n in others.most_common())
        print(f"| {name} | {named}/{count} | {also} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each fault (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--healthy", type=int, default=10, help="runs without (%(default)s)")
    parser.add_argument("--corpus", type=Path, help="another corpus")
    parser.add_argument("--set", nargs="*", default=[], help="other settings of all runs")
    parser.add_argument("--cases", nargs="*", choices=[*CASES, HEALTHY], help="only these")
    measure(parser.parse_args())


if __name__ == "__main__":
    run_command(main)
