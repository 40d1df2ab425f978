"""Checks of what a run recorded while it trained: its curves and its translations."""

from __future__ import annotations

import math
from statistics import fmean, median

import numpy as np

from seq2seq.data.report import Report
from seq2seq.findings.before import warmup_long
from seq2seq.findings.record import Found, Record, check

MIN_VALIDATION_SECONDS = 3.0  # in total; less is never reported


@check("Training diverged")
def diverged(run: Record) -> Found:
    losses = run.values("train/nll")
    if len(losses) < 8:
        return None
    size = max(2, len(losses) // 10)
    smooth = [fmean(losses[i : i + size]) for i in range(len(losses) - size + 1)]
    lowest, last = min(smooth), smooth[-1]
    if last < lowest + max(0.5, 0.25 * lowest):
        return None
    at = run.curves["train/nll"][smooth.index(lowest)][0]
    # Batches of a mixture differ much in their losses; validation text is always the same.
    points, risen = run.curves.get("val/nll", ()), run.curves["train/nll"][-size][0]
    if points and points[-1][0] > risen and points[-1][1] <= 1.1 * min(loss for _, loss in points):
        return None
    return f"the loss rose from {lowest:.2f} at step {at:,.0f} to {last:.2f}", _gentler(run)


def _gentler(run: Record) -> str:
    rate = run.setting("optim.lr")
    lower = f"optim.lr={rate / 3:.2g}" if isinstance(rate, int | float) else "a lower optim.lr"
    return f"Try {lower}, a longer optim.warmup_steps, or trainer.gradient_clip=1"


@check("The model does not learn")
def not_learning(run: Record) -> Found:
    """Find a model that does hardly better than guessing each token by its frequency."""
    # The lower of both losses: a model that memorises its training text does learn.
    losses = [values[-1] for name in ("train/nll", "val/nll") if (values := run.values(name))]
    guess = _guessing(run.data)
    if not losses or guess is None or min(losses) < 0.8 * guess:
        return None
    if run.steps < max(100, 2 * run.warmup) or warmup_long(run):
        return None
    rate = max(run.values("optim/lr"), default=math.nan)
    return (
        f"after {run.steps:,.0f} steps its loss is {min(losses):.2f} nats per token, and guessing "
        f"tokens by their frequency costs {guess:.2f}; the learning rate rose to {rate:.1e}",
        f"{_gentler(run)}; if the rate is low, raise it tenfold" if rate > 3e-4
        else "The learning rate is low: raise optim.lr tenfold",
    )  # fmt: skip


def _guessing(data: Report | None) -> float | None:
    """Compute the nats per token of a guess by frequency: the entropy of the target's tokens."""
    if data is None or not data.vocabulary:
        return None
    counts = next((v for v in data.vocabulary if v["name"] == "target"), data.vocabulary[0])
    known = np.log([(rank, count) for rank, count in counts["counts"] if count] or [(1, 1)])
    if len(known) < 2:
        return None
    ranks = np.arange(1, round(math.exp(known[-1, 0])) + 1)
    shares = np.exp(np.interp(np.log(ranks), known[:, 0], known[:, 1]))
    shares /= shares.sum()
    entropy = float(-(shares * np.log(shares)).sum())
    return entropy - (math.log(2) if counts["name"] == "joint" else 0.0)


@check(
    "Translations hardly depend on the source",
    "See that sources and targets belong together; if they do, train longer",
)
def source_ignored(run: Record) -> Found:
    """Find a model whose translations of different sources begin alike."""
    texts = [one["hypothesis"] for one in _sentences(run)]
    starts = {" ".join(text.split()[:3]) for text in texts}
    bleu = run.values("val/bleu")
    if len(texts) < 4 or len(starts) > len(texts) // 2 or (bleu and bleu[-1] > 5):
        return None
    if run.steps < 3 * run.warmup or _young(run) or not_learning(run) or warmup_long(run):
        return None
    return (
        f"{len(texts)} different sources get translations of {len(starts)} beginnings, such as "
        f"“{texts[0][:60]}”"
    )


@check("The model overfits", "Add text, raise model.dropout, or set trainer.patience=5")
def overfitting(run: Record) -> Found:
    """Find a run whose training loss falls far while the validation loss rises or stays."""
    points, train = run.curves.get("val/nll", ()), run.values("train/nll", late=True)
    if len(points) < 3 or not train or diverged(run) or not_learning(run):
        return None
    best = min(value for _, value in points)
    limit = best + 0.03 * abs(best)
    since = next(step for step, value in points if value <= limit)
    rises = points[-1][1] > limit and fmean(train[-3:]) <= fmean(train)
    parts = fmean(train) < 0.4 * points[-1][1]
    if since > points[-3][0] or not (rises or parts):
        return None
    return (
        f"its validation loss was {dict(points)[since]:.3f} at step {since:,.0f} and is "
        f"{points[-1][1]:.3f}, while the training loss fell to {fmean(train[-3:]):.3f}"
    )


@check("Training waits for data", "Raise data.num_workers, or prepare the corpus on a local disk")
def data_bound(run: Record) -> Found:
    share = median(run.values("perf/data_wait_share", late=True) or [0])
    return f"{share:.0%} of the time is spent waiting for a batch" if share >= 0.2 else None


@check(
    "Batches hold much padding",
    "Sentences of very different lengths share batches: raise data.max_tokens, or the pool that "
    "batches are cut from",
)
def padding_high(run: Record) -> Found:
    share = median(run.values("perf/padding_share", late=True) or [0])
    return f"{share:.0%} of all positions have no token" if share >= 0.3 else None


@check(
    "Validation takes longer than training",
    "Raise trainer.val_every_n_steps, or set trainer.val_pairs=500",
)
def validation_costly(run: Record) -> Found:
    spent = sum(run.values("perf/validation_seconds"))
    points = [(0.0, 0.0), *run.curves.get("perf/step_seconds", ())]
    train = sum(v * (step - points[i][0]) for i, (step, v) in enumerate(points[1:]))
    if not train or spent < max(train, MIN_VALIDATION_SECONDS):
        return None
    return f"{spent:,.0f} s of validation, {train:,.0f} s of training"


@check("Gradients spike")
def gradient_spikes(run: Record) -> Found:
    """Find gradient norms that are far larger than usual."""
    norms = run.values("optim/grad_norm", late=True)
    if len(norms) < 8:
        return None
    usual = median(norms)
    spikes = [norm for norm in norms if norm > 10 * usual]
    if len(spikes) < 2 and max(norms) < 100 * usual:
        return None
    return (
        f"{len(spikes)} of {len(norms)} norms are more than 10 times the usual {usual:.2g}, the "
        f"largest is {max(norms):.2g}",
        _gentler(run),
    )


@check(
    "Evaluation text is in the training text",
    "Scores do not measure quality on new text: add leakage to cleaning.filters",
)
def leaked(run: Record) -> Found:
    names = {"validation": "val", "test": "test"}
    shares = {split: values[-1] for split, short in names.items()
              if (values := run.values(f"data/{short}_in_training_share"))}  # fmt: skip
    if max(shares.values(), default=0) < 0.02 or run.setting("trainer.val_on_train"):
        return None
    each = (f"{share:.0%} of the {split} pairs" for split, share in shares.items())
    return f"{' and '.join(each)} are trained on"


@check(
    "A part of the model does not train",
    "See that its parameters require gradients, and are used",
)
def frozen_block(run: Record) -> Found:
    prefix = "optim/grad_norm/"
    late = {name.removeprefix(prefix): run.values(name, late=True)
            for name in run.curves if name.startswith(prefix)}  # fmt: skip
    usual = median(map(fmean, late.values())) if late else 0
    frozen = [name for name, norms in late.items() if max(norms) < 1e-5 * usual]
    if not frozen:
        return None
    return f"{', '.join(frozen)} has no gradient, where others have about {usual:.2g}"


def _young(run: Record) -> bool:
    """Tell whether the model still learns, so that its output says nothing of the final one."""
    points = run.curves.get("val/nll", ())
    earlier = [loss for step, loss in points if step <= 2 / 3 * run.steps]
    return run.steps < 300 or not earlier or points[-1][1] < 0.97 * earlier[-1]


@check(
    "Many translations cannot be right",
    "Look at the samples, and at the loss: a model that has not learnt enough does so",
)
def output_degenerate(run: Record) -> Found:
    share = (run.values("decode/degenerate_share") or [0])[-1]
    if share < 0.2 or _young(run):
        return None
    return f"{share:.0%} repeat themselves, are empty, copied or of an impossible length"


@check(
    "Many translations are cut off",
    "Train longer; if targets are that long, raise decode.max_extra or model.max_length",
)
def output_cut_off(run: Record) -> Found:
    share = (run.values("decode/unfinished_share") or [0])[-1]
    return None if share < 0.2 or _young(run) else f"{share:.0%} reach the limit of the output"


@check(
    "Sources are copied",
    "See that targets are translations, and add identical to cleaning.filters",
)
def source_copied(run: Record) -> Found:
    """Find a model that copies sources, or a training text that teaches it to."""
    same = max(run.values("data/identical_share"), default=0.0)
    if same >= 0.3:
        return f"{same:.0%} of the training pairs have the same text on both sides"
    sentences = _sentences(run)
    copied = [one for one in sentences if _is_copy(one["source"], one["hypothesis"])]
    if len(sentences) < 4 or len(copied) < 0.3 * len(sentences):
        return None
    return (
        f"{len(copied)} of {len(sentences)} translations have the words of their source, such as "
        f"“{copied[0]['hypothesis'][:60]}”"
    )


def _sentences(run: Record) -> list[dict[str, str]]:
    """Return the sample sentences of the last validation."""
    return run.samples[-1]["sentences"] if run.samples else []


def _is_copy(source: str, hypothesis: str) -> bool:
    words, found = set(source.lower().split()), set(hypothesis.lower().split())
    return len(found) > 1 and len(words & found) >= 0.75 * len(found)
