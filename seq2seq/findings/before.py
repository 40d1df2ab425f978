"""Checks of settings and data, which are known before the first step."""

from __future__ import annotations

import math

import numpy as np

from seq2seq.data.report import RARE, Report
from seq2seq.findings.record import Found, Record, check

TUNED = 8192  # tokens of an update that suit the default rate
MAX_BATCH_FACTOR = 16  # by which an update may be larger or smaller than that
SLOWER = "slower than bf16 here"  # part of `Record.device` if another precision is faster


@check("The warm-up takes most of the run")
def warmup_long(run: Record) -> Found:
    steps = run.setting("trainer.max_steps")
    if not isinstance(steps, int) or 2 * run.warmup <= steps:
        return None
    return (
        f"the learning rate rises for {run.warmup:,} steps, and training ends after {steps:,}",
        f"Set optim.warmup_steps={max(1, steps // 10)}, or raise trainer.max_steps",
    )


@check("Batches are far from those that the learning rate is for")
def batch_unusual(run: Record) -> Found:
    size = run.setting("data.max_tokens")
    if not isinstance(size, int) or run.setting("optim.lr") is not None:
        return None
    parts = [run.setting(f"trainer.{name}") for name in ("accumulate", "devices", "num_nodes")]
    tokens = size * math.prod(part for part in parts if isinstance(part, int))
    if TUNED / MAX_BATCH_FACTOR <= tokens <= TUNED * MAX_BATCH_FACTOR:
        return None
    return (
        f"an update sees {tokens:,} tokens, and the rate of optim.lr=null was found with some "
        f"{TUNED:,}",
        f"Set trainer.accumulate={round(TUNED / tokens)}, or a lower optim.lr" if tokens < TUNED
        else "Set a higher optim.lr, or a lower data.max_tokens",
    )  # fmt: skip


@check("Another precision is faster here", "Leave trainer.precision=auto")
def precision_slow(run: Record) -> Found:
    slow = SLOWER in run.device
    return f"the run trains on {run.device.partition(';')[0]}" if slow else None


@check(
    "The columns of the corpus look swapped",
    "Swap data.source_column and data.target_column, or see cleaning.languages",
)
def columns_swapped(run: Record) -> Found:
    if run.data is None or not run.data.read:
        return None
    share = run.data.dropped.get("wrong_language", 0) / run.data.read
    if share < 0.4:
        return None
    return f"{share:.0%} of all pairs are dropped because a side is not in its language"


@check(
    "Cleaning drops most of the corpus",
    "Look at the examples of that filter in the report of the data, and correct the corpus or the "
    "filter",
)
def few_kept(run: Record) -> Found:
    if run.data is None or not run.data.read or columns_swapped(run):
        return None
    share = run.data.kept / run.data.read
    if share > 0.5:
        return None
    worst, count = max(run.data.dropped.items(), key=lambda one: one[1])
    return f"{share:.0%} of {run.data.read:,} pairs are kept; {worst} dropped {count:,}"


@check(
    "Sources and targets do not seem to belong together",
    "See that line n of one file translates line n of the other",
)
def shuffled_targets(run: Record) -> Found:
    """Find a corpus in which the lengths of sources and targets are unrelated."""
    if run.data is None or sum(run.data.ratios) < 200:
        return None
    spread = _spread(np.linspace(-2, 2, len(run.data.ratios)), run.data.ratios)
    expected = _independent_spread(run.data)
    if spread < 0.8 * expected or expected < 0.3:
        return None
    return (
        "their lengths are as unrelated as those of pairs drawn at random (spread of log2 ratios "
        f"{spread:.2f}, at random {expected:.2f})"
    )


def _independent_spread(data: Report) -> float:
    """Compute the spread of log2(target / source tokens) if each source had a random target."""
    if not all(sum(counts[1:]) for counts in data.lengths):
        return 0.0
    return math.hypot(
        *(_spread(np.log2(np.arange(1, len(counts))), counts[1:]) for counts in data.lengths)
    )


def _spread(values: np.ndarray, counts: list[int]) -> float:
    """Compute the standard deviation of values with these counts."""
    weights = np.array(counts) / sum(counts)
    return math.sqrt(weights @ (values - weights @ values) ** 2)


@check(
    "There are very few training pairs",
    "A model of this kind needs some 10,000 pairs to translate anything: add text, or begin "
    "with a trained model (init_from=general)",
)
def tiny_data(run: Record) -> Found:
    epochs = max(run.values("epoch"), default=0.0)
    pairs = run.setting("trainer.train_pairs") or (run.data.kept if run.data else None)
    chosen = run.setting("init_from") or run.setting("trainer.val_on_train")
    if pairs is None or pairs >= 2_000 or chosen:
        return None
    seen = f" and were seen {epochs:.0f} times each" if epochs >= 2 else ""
    return f"they are {pairs:,}{seen}"


@check("The vocabulary is large for the text")
def rare_vocabulary(run: Record) -> Found:
    """Find a vocabulary whose tokens are mostly rare, or that is smaller than asked for."""
    if run.data is None or run.data.kept < 1000 or run.setting("init_from"):
        return None
    worst = max(run.data.vocabulary, key=lambda v: v["rare"] / max(1, v["size"]), default=None)
    asked = run.setting("tokenizer.vocab_size") or 0
    if worst is None or (worst["rare"] < 0.75 * worst["size"] and worst["size"] >= 0.9 * asked):
        return None
    return (
        f"{worst['rare']:,} of {worst['size']:,} subwords ({worst['name']}) occur fewer than "
        f"{RARE} times" + (f", and {asked:,} were asked for" if asked > worst["size"] else ""),
        f"Set tokenizer.vocab_size={max(500, worst['size'] // 4)}",
    )
