"""Findings: what looks wrong with a run, in plain words, with the evidence and a remedy.

Each check is a function of what a run recorded, so that the same checks run before training (the
settings and the data are known), after each validation, at the end, and in a report of old runs.
A new check is a function here that is named in `CHECKS`; `scripts/benchmarks/findings.py` measures
whether it names a planted fault, and stays silent on healthy runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from seq2seq.data.report import Report

Points = Sequence[tuple[float, float]]  # (updates made, value), by rising updates


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong.

    Attributes:
        kind: a key, the name of its check.
        title: what it is.
        evidence: the numbers that say so.
        remedy: what to do.
    """

    kind: str
    title: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.title}: {self.evidence}. {self.remedy}"


@dataclass(frozen=True)
class Record:
    """What is known of a run, as far as it is.

    Attributes:
        settings: as in `config.yaml`.
        curves: by name.
        samples: lines of `samples.jsonl`.
        data: the report of the prepared data.
        device: the hardware and the precision, in words.
    """

    settings: Mapping[str, Any]
    curves: Mapping[str, Points] = field(default_factory=dict)
    samples: Sequence[Mapping[str, Any]] = ()
    data: Report | None = None
    device: str = ""

    def values(self, name: str, late: bool = False) -> list[float]:
        """The values of a curve, or those of the second half of its steps."""
        points = self.curves.get(name, ())
        middle = points[-1][0] / 2 if late and points else -1
        return [value for step, value in points if step > middle]

    def setting(self, name: str) -> Any:
        """A setting such as `optim.lr`; None if it is not there."""
        section, _, key = name.partition(".")
        return (self.settings.get(section) or {}).get(key)

    @property
    def steps(self) -> float:
        """Updates that were made, as the curves say."""
        return max((points[-1][0] for points in self.curves.values() if points), default=0)


def findings(record: Record) -> list[Finding]:
    """All that looks wrong, the gravest first."""
    found = (check(record) for check in CHECKS)
    return [Finding(*one) for one in found if one is not None]


Found = tuple[str, str, str, str] | None

# Before training: settings and data


def warmup_long(run: Record) -> Found:
    """The learning rate is still rising when training ends."""
    warmup, steps = run.setting("optim.warmup_steps"), run.setting("trainer.max_steps")
    if not isinstance(warmup, int) or not isinstance(steps, int) or 2 * warmup <= steps:
        return None
    return (
        "warmup_long",
        "The warm-up takes most of the run",
        f"the learning rate rises for {warmup:,} steps, and training ends after {steps:,}",
        f"Set optim.warmup_steps={max(1, steps // 10)}, or raise trainer.max_steps",
    )


def batch_small(run: Record) -> Found:
    """A wide model gets batches that are far smaller than those it was tuned for."""
    width, tokens = run.setting("model.d_model"), run.setting("data.max_tokens")
    if not isinstance(width, int) or not isinstance(tokens, int) or width < 512:
        return None
    parts = [run.setting(f"trainer.{name}") or 1 for name in ("accumulate", "devices", "num_nodes")]
    tokens *= math.prod(parts)
    if tokens >= 8192:
        return None
    return (
        "batch_small",
        "Batches are small for this model",
        f"a step has {tokens:,} tokens of both sides; models of width {width} are tuned for some "
        "50,000 (Vaswani et al. 2017)",
        f"Set trainer.accumulate={math.ceil(25_000 / tokens)}, or take a smaller model",
    )


def full_precision(run: Record) -> Found:
    """A GPU computes in 32 bits."""
    if "32-true" not in run.device or "NVIDIA" not in run.device:
        return None
    return (
        "full_precision",
        "Training computes in 32 bits on a GPU",
        f"it runs on {run.device.partition(';')[0]}",
        "trainer.precision=bf16-mixed is about twice as fast, and learns as well",
    )


def columns_swapped(run: Record) -> Found:
    """Most pairs are in other languages than those that were named."""
    if run.data is None or not run.data.read:
        return None
    share = run.data.dropped.get("wrong_language", 0) / run.data.read
    if share < 0.4:
        return None
    return (
        "columns_swapped",
        "The columns of the corpus look swapped",
        f"{share:.0%} of all pairs are dropped because a side is not in its language",
        "Swap data.source_column and data.target_column, or see cleaning.languages",
    )


def few_kept(run: Record) -> Found:
    """Cleaning drops most of the corpus, for other reasons than languages."""
    if run.data is None or not run.data.read or columns_swapped(run):
        return None
    share, worst = run.data.kept / run.data.read, max(run.data.dropped.items(), key=lambda i: i[1])
    if share > 0.5:
        return None
    return (
        "few_kept",
        "Cleaning drops most of the corpus",
        f"{share:.0%} of {run.data.read:,} pairs are kept; {worst[0]} dropped {worst[1]:,}",
        "Look at its examples in the report of the data, and mend the corpus or that filter",
    )


def leaked(run: Record) -> Found:
    """Evaluation text stands in the training text, and no filter takes it out."""
    if run.data is None or "leakage" in (run.setting("cleaning.filters") or ()):
        return None
    worst = max(run.data.overlap, key=lambda one: one["in_training"] / max(1, one["pairs"]),
                default=None)  # fmt: skip
    if worst is None or worst["in_training"] < 0.02 * worst["pairs"]:
        return None
    return (
        "leaked",
        "Evaluation text stands in the training text",
        f"{worst['in_training']:,} of {worst['pairs']:,} pairs of {worst['split']} have a side "
        "that is trained on",
        "Scores say nothing of new text: add leakage to cleaning.filters",
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
        "shuffled_targets",
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
        "tiny_data",
        "There are very few training pairs",
        f"they are {pairs:,}{seen}",
        "A model of this kind needs some 10,000 pairs to translate anything: add text, or begin "
        "with a trained model (init_from=general)",
    )


def rare_vocabulary(run: Record) -> Found:
    """Most of the vocabulary is hardly ever seen."""
    if run.data is None or run.data.kept < 1000:
        return None
    worst = max(run.data.vocabulary, key=lambda v: v["rare"] / max(1, v["size"]), default=None)
    if worst is None or worst["rare"] < 0.75 * worst["size"]:
        return None
    return (
        "rare_vocabulary",
        "The vocabulary is large for the text",
        f"{worst['rare']:,} of {worst['size']:,} subwords ({worst['name']}) occur fewer than 10 "
        "times",
        f"Set tokenizer.vocab_size={max(500, worst['size'] // 4)}",
    )


# While a model trains, and after it


def diverged(run: Record) -> Found:
    """The loss rises far above what it was."""
    losses = run.values("train/nll")
    if len(losses) < 8:
        return None
    size = max(2, len(losses) // 10)
    smooth = [fmean(losses[i : i + size]) for i in range(len(losses) - size + 1)]
    lowest, last = min(smooth), smooth[-1]
    if last < lowest + max(0.5, 0.25 * lowest):
        return None
    at = run.curves["train/nll"][smooth.index(lowest)][0]
    return (
        "diverged",
        "Training diverged",
        f"the loss rose from {lowest:.2f} at step {at:,.0f} to {last:.2f}",
        _gentler(run),
    )


def _gentler(run: Record) -> str:
    rate = run.setting("optim.lr")
    lower = f"optim.lr={rate / 3:.2g}" if isinstance(rate, int | float) else "a lower optim.lr"
    return f"Try {lower}, a longer optim.warmup_steps, or trainer.gradient_clip=1"


def not_learning(run: Record) -> Found:
    """The model does no better than guessing each token by its frequency."""
    losses = run.values("val/nll") or run.values("train/nll")
    guess = _guessing(run.data)
    warmup = run.setting("optim.warmup_steps")
    if not losses or guess is None or run.steps < 100 or warmup_long(run):
        return None
    if run.steps < 2 * (warmup if isinstance(warmup, int) else 0) or losses[-1] < 0.8 * guess:
        return None
    rate = max(run.values("optim/lr"), default=math.nan)
    return (
        "not_learning",
        "The model does not learn",
        f"after {run.steps:,.0f} steps its loss is {losses[-1]:.2f} nats per token, and guessing "
        f"tokens by their frequency costs {guess:.2f}; the learning rate rose to {rate:.1e}",
        f"{_gentler(run)}; if the rate is low, raise it tenfold" if rate > 3e-4
        else "The learning rate is low: raise optim.lr tenfold",
    )  # fmt: skip


def _guessing(data: Report | None) -> float | None:
    """Nats per token of a guess by frequency: the entropy of the tokens of the target."""
    if data is None or not data.vocabulary:
        return None
    counts = next((v for v in data.vocabulary if v["name"] == "target"), data.vocabulary[0])
    known = [(rank, count) for rank, count in counts["counts"] if count]
    if len(known) < 2:
        return None
    ranks = np.arange(1, known[-1][0] + 1)
    shares = np.exp(np.interp(np.log(ranks), np.log([r for r, _ in known]),
                              np.log([c for _, c in known])))  # fmt: skip
    shares /= shares.sum()
    entropy = float(-(shares * np.log(shares)).sum())
    return entropy - (math.log(2) if counts["name"] == "joint" else 0.0)


def source_ignored(run: Record) -> Found:
    """Different sources get the same translation."""
    sentences = run.samples[-1]["sentences"] if run.samples else []
    texts = [one["hypothesis"] for one in sentences]
    warmup = run.setting("optim.warmup_steps")
    if len(texts) < 4 or not_learning(run) or warmup_long(run) or run.steps < 200:
        return None
    starts = {" ".join(text.split()[:3]) for text in texts}
    bleu = run.values("val/bleu")
    early = run.steps < 3 * (warmup if isinstance(warmup, int) else 0)
    if early or len(starts) > len(texts) // 2 or (bleu and bleu[-1] > 5):
        return None
    return (
        "source_ignored",
        "Translations hardly depend on the source",
        f"{len(texts)} different sources get translations of {len(starts)} beginnings, such as "
        f"“{texts[0][:60]}”",
        "See that sources and targets belong together; if they do, train longer",
    )


def overfitting(run: Record) -> Found:
    """The validation loss rises while the training loss falls."""
    points = run.curves.get("val/nll", ())
    if len(points) < 3:
        return None
    best = min(range(len(points)), key=lambda i: points[i][1])
    train = run.values("train/nll", late=True)
    falls = len(train) < 4 or fmean(train[len(train) // 2 :]) < fmean(train[: len(train) // 2])
    if best > len(points) - 3 or points[-1][1] < 1.03 * points[best][1] or not falls:
        return None
    return (
        "overfitting",
        f"The model overfits since step {points[best][0]:,.0f}",
        f"its validation loss rose from {points[best][1]:.3f} to {points[-1][1]:.3f} while the "
        "training loss fell",
        "Add text, raise model.dropout, or set trainer.patience=5",
    )


def data_bound(run: Record) -> Found:
    """Training waits for its data."""
    shares = run.values("perf/data_wait_share", late=True)
    if not shares or median(shares) < 0.2:
        return None
    return (
        "data_bound",
        "Training waits for data",
        f"{median(shares):.0%} of the time goes by until a batch is there",
        "Raise data.num_workers, or prepare the corpus on a local disk",
    )


def padding_high(run: Record) -> Found:
    """Much of what is computed is padding."""
    shares = run.values("perf/padding_share", late=True)
    if not shares or median(shares) < 0.3:
        return None
    return (
        "padding_high",
        "Batches hold much padding",
        f"{median(shares):.0%} of all positions have no token",
        "Sentences of very different lengths share batches: raise data.max_tokens, or the pool "
        "that batches are cut from",
    )


def validation_costly(run: Record) -> Found:
    """Validation takes longer than training."""
    spent = sum(run.values("perf/validation_seconds"))
    points = [(0.0, 0.0), *run.curves.get("perf/step_seconds", ())]
    train = sum(v * (step - points[i][0]) for i, (step, v) in enumerate(points[1:]))
    if not spent or not train or spent < max(train, 10.0):
        return None
    return (
        "validation_costly",
        "Validation takes longer than training",
        f"{spent:,.0f} s of validation, {train:,.0f} s of training",
        "Raise trainer.val_every_n_steps, or set trainer.val_pairs=500",
    )


def gradient_spikes(run: Record) -> Found:
    """Gradients are sometimes far larger than usual."""
    norms = run.values("optim/grad_norm", late=True)
    if len(norms) < 8:
        return None
    usual = median(norms)
    spikes = [norm for norm in norms if norm > 10 * usual]
    if len(spikes) < 2 and max(norms) < 100 * usual:
        return None
    return (
        "gradient_spikes",
        "Gradients spike",
        f"{len(spikes)} of {len(norms)} norms are more than 10 times the usual {usual:.2g}, the "
        f"largest is {max(norms):.2g}",
        _gentler(run),
    )


def frozen_block(run: Record) -> Found:
    """A block of the model gets no gradient."""
    prefix = "optim/grad_norm/"
    late = {name.removeprefix(prefix): run.values(name, late=True)
            for name in run.curves if name.startswith(prefix)}  # fmt: skip
    if not late:
        return None
    layers = {side: run.setting(f"model.{side}_layers") for side in ("encoder", "decoder")}
    expected = [f"{side}.{i}" for side, n in layers.items() if isinstance(n, int) for i in range(n)]
    usual = median(fmean(norms) for norms in late.values() if norms)
    frozen = [name for name in expected if name not in late]
    frozen += [name for name, norms in late.items() if norms and max(norms) < 1e-5 * usual]
    if not frozen:
        return None
    return (
        "frozen_block",
        "A part of the model does not train",
        f"{', '.join(frozen)} has no gradient, where others have about {usual:.2g}",
        "See that its parameters require gradients, and are used",
    )


def _young(run: Record) -> bool:
    """Whether the model still learns so fast that its output says nothing of what is to come."""
    losses = run.values("val/nll")
    return run.steps < 300 or len(losses) < 2 or losses[-1] < 0.9 * losses[-2]


def output_degenerate(run: Record) -> Found:
    """Many translations repeat themselves, are empty or copies."""
    shares = run.values("decode/degenerate_share")
    if _young(run) or not shares or shares[-1] < 0.2:
        return None
    return (
        "output_degenerate",
        "Many translations cannot be right",
        f"{shares[-1]:.0%} repeat themselves, are empty, copied or of an impossible length",
        "Look at the samples, and at the loss: a model that has not learnt enough does so",
    )


def output_cut_off(run: Record) -> Found:
    """Many translations end at the limit."""
    shares = run.values("decode/unfinished_share")
    if _young(run) or not shares or shares[-1] < 0.2:
        return None
    return (
        "output_cut_off",
        "Many translations are cut off",
        f"{shares[-1]:.0%} reach the limit of the output",
        "Train longer; if targets are that long, raise decode.max_extra or model.max_length",
    )


def source_copied(run: Record) -> Found:
    """The model copies."""
    sentences = run.samples[-1]["sentences"] if run.samples else []
    copied = [one for one in sentences if _is_copy(one["source"], one["hypothesis"])]
    if len(sentences) < 4 or len(copied) < 0.3 * len(sentences):
        return None
    return (
        "source_copied",
        "Sources are copied",
        f"{len(copied)} of {len(sentences)} translations have the words of their source, such as "
        f"“{copied[0]['hypothesis'][:60]}”",
        "See that targets are translations, and add identical to cleaning.filters",
    )


def _is_copy(source: str, hypothesis: str) -> bool:
    words, found = set(source.lower().split()), set(hypothesis.lower().split())
    return len(found) > 1 and len(words & found) >= 0.75 * len(found)


def length_off(run: Record) -> Found:
    """Translations are much shorter or longer than references."""
    ratios = run.values("val/length_ratio")
    if _young(run) or not ratios or 0.7 < ratios[-1] < 1.4:
        return None
    return (
        "length_off",
        f"Translations are too {'short' if ratios[-1] < 1 else 'long'}",
        f"they have {ratios[-1]:.2f} tokens for each of the references",
        "Train longer; if it stays so, see decode.length_penalty",
    )


def slows_down(run: Record) -> Found:
    """Steps take longer and longer."""
    seconds = run.values("perf/step_seconds")
    part = len(seconds) // 4
    if part < 3 or median(seconds[-part:]) < 3 * median(seconds[part : 2 * part]):
        return None
    return (
        "slows_down",
        "Training slows down",
        f"a step took {median(seconds[part : 2 * part]):.2g} s, and now "
        f"{median(seconds[-part:]):.2g} s",
        "See what else runs on the machine, its memory and its temperature",
    )


CHECKS = (
    diverged, not_learning, shuffled_targets, columns_swapped, leaked, warmup_long,
    frozen_block, source_ignored, overfitting, tiny_data, few_kept, source_copied,
    output_degenerate, output_cut_off, length_off, gradient_spikes, data_bound, padding_high,
    validation_costly, slows_down, batch_small, full_precision, rare_vocabulary,
)  # fmt: skip
