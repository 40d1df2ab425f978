"""Findings on settings and data, which are known before the first step."""

from __future__ import annotations

import math

import numpy as np

from seq2seq.data.report import RARE, Report
from seq2seq.findings.record import Found, Record

TUNED, FAR = 8192, 16  # tokens of an update that the default rate is good for; a factor
SLOWER = "slower than bf16 here"  # is said of a precision where it holds


def warmup_long(run: Record) -> Found:
    """The learning rate is still rising when training ends."""
    warmup, steps = run.setting("optim.warmup_steps"), run.setting("trainer.max_steps")
    if not isinstance(warmup, int) or not isinstance(steps, int) or 2 * warmup <= steps:
        return None
    return (
        "The warm-up takes most of the run",
        f"the learning rate rises for {warmup:,} steps, and training ends after {steps:,}",
        f"Set optim.warmup_steps={max(1, steps // 10)}, or raise trainer.max_steps",
    )


def batch_unusual(run: Record) -> Found:
    """The default learning rate, which belongs to batches of another order of size."""
    size = run.setting("data.max_tokens")
    if not isinstance(size, int) or run.setting("optim.lr") is not None:
        return None
    parts = [run.setting(f"trainer.{name}") for name in ("accumulate", "devices", "num_nodes")]
    tokens = size * math.prod(part for part in parts if isinstance(part, int))
    if TUNED / FAR <= tokens <= TUNED * FAR:
        return None
    return (
        "Batches are far from those that the learning rate is for",
        f"an update sees {tokens:,} tokens, and the rate of optim.lr=null was found with some "
        f"{TUNED:,}",
        f"Set trainer.accumulate={round(TUNED / tokens)}, or a lower optim.lr" if tokens < TUNED
        else "Set a higher optim.lr, or a lower data.max_tokens",
    )  # fmt: skip


def precision_slow(run: Record) -> Found:
    """The precision that was asked for is slower than another one here."""
    if SLOWER not in run.device:
        return None
    return (
        "Another precision is faster here",
        f"the run trains on {run.device.partition(';')[0]}",
        "Leave trainer.precision=auto",
    )


def columns_swapped(run: Record) -> Found:
    """Most pairs are in other languages than those that were named."""
    if run.data is None or not run.data.read:
        return None
    share = run.data.dropped.get("wrong_language", 0) / run.data.read
    if share < 0.4:
        return None
    return (
        "The columns of the corpus look swapped",
        f"{share:.0%} of all pairs are dropped because a side is not in its language",
        "Swap data.source_column and data.target_column, or see cleaning.languages",
    )


def few_kept(run: Record) -> Found:
    """Cleaning drops most of the corpus, for other reasons than languages."""
    if run.data is None or not run.data.read or columns_swapped(run):
        return None
    share = run.data.kept / run.data.read
    if share > 0.5:
        return None
    worst = max(run.data.dropped.items(), key=lambda one: one[1])
    return (
        "Cleaning drops most of the corpus",
        f"{share:.0%} of {run.data.read:,} pairs are kept; {worst[0]} dropped {worst[1]:,}",
        "Look at its examples in the report of the data, and mend the corpus or that filter",
    )


def shuffled_targets(run: Record) -> Found:
    """The lengths of sources and targets have nothing to do with each other."""
    if run.data is None or sum(run.data.ratios) < 200:
        return None
    centres = np.linspace(-2, 2, len(run.data.ratios))
    weights = np.array(run.data.ratios) / sum(run.data.ratios)
    spread = math.sqrt(weights @ (centres - weights @ centres) ** 2)
    expected = _independent_spread(run.data)
    if spread < 0.8 * expected or expected < 0.3:
        return None
    return (
        "Sources and targets do not seem to belong together",
        f"their lengths are as unrelated as those of pairs drawn at random (spread of log2 ratios "
        f"{spread:.2f}, at random {expected:.2f})",
        "See that line n of one file translates line n of the other",
    )


def _independent_spread(data: Report) -> float:
    """The spread of log2(target / source tokens) if targets were given to sources by chance."""
    variance = 0.0
    for counts in data.lengths:
        lengths = np.log2(np.arange(1, len(counts)))
        weights = np.array(counts[1:], dtype=float)
        if not weights.sum():
            return 0.0
        weights /= weights.sum()
        variance += float(weights @ (lengths - weights @ lengths) ** 2)
    return math.sqrt(variance)


def tiny_data(run: Record) -> Found:
    """The same few pairs are seen again and again."""
    epochs = max(run.values("epoch"), default=0.0)
    pairs = run.setting("trainer.train_pairs") or (run.data.kept if run.data else None)
    if pairs is None or pairs >= 2_000:
        return None
    seen = f" and were seen {epochs:.0f} times each" if epochs >= 2 else ""
    return (
        "There are very few training pairs",
        f"they are {pairs:,}{seen}",
        "A model of this kind needs some 10,000 pairs to translate anything: add text, or begin "
        "with a trained model (init_from=general)",
    )


def rare_vocabulary(run: Record) -> Found:
    """Most of the vocabulary is hardly ever seen, or the text has fewer subwords than asked for."""
    if run.data is None or run.data.kept < 1000:
        return None
    worst = max(run.data.vocabulary, key=lambda v: v["rare"] / max(1, v["size"]), default=None)
    asked = run.setting("tokenizer.vocab_size") or 0
    if worst is None or (worst["rare"] < 0.75 * worst["size"] and worst["size"] >= 0.9 * asked):
        return None
    return (
        "The vocabulary is large for the text",
        f"{worst['rare']:,} of {worst['size']:,} subwords ({worst['name']}) occur fewer than "
        f"{RARE} times" + (f", and {asked:,} were asked for" if asked > worst["size"] else ""),
        f"Set tokenizer.vocab_size={max(500, worst['size'] // 4)}",
    )
