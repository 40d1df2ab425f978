"""Findings on what a run recorded: its curves and its translations."""

from __future__ import annotations

import math
from statistics import fmean, median

import numpy as np

from seq2seq.data.report import Report
from seq2seq.findings.before import warmup_long
from seq2seq.findings.record import Found, Record

LITTLE = 3.0  # seconds of validation that nobody minds


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
    # A model that learns its training text by heart is another case.
    losses = [values[-1] for name in ("train/nll", "val/nll") if (values := run.values(name))]
    guess = _guessing(run.data)
    warmup = run.setting("optim.warmup_steps")
    if not losses or guess is None or run.steps < 100 or warmup_long(run):
        return None
    if run.steps < 2 * (warmup if isinstance(warmup, int) else 0) or min(losses) < 0.8 * guess:
        return None
    rate = max(run.values("optim/lr"), default=math.nan)
    return (
        "The model does not learn",
        f"after {run.steps:,.0f} steps its loss is {min(losses):.2f} nats per token, and guessing "
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
    if len(texts) < 4 or not_learning(run) or warmup_long(run):
        return None
    starts = {" ".join(text.split()[:3]) for text in texts}
    bleu = run.values("val/bleu")
    early = run.steps < 3 * (warmup if isinstance(warmup, int) else 0)
    if early or _young(run) or len(starts) > len(texts) // 2 or (bleu and bleu[-1] > 5):
        return None
    return (
        "Translations hardly depend on the source",
        f"{len(texts)} different sources get translations of {len(starts)} beginnings, such as "
        f"“{texts[0][:60]}”",
        "See that sources and targets belong together; if they do, train longer",
    )


def overfitting(run: Record) -> Found:
    """The training loss falls far, and the validation loss rises, or stays where it was."""
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
        f"The model overfits since step {since:,.0f}",
        f"its validation loss was {dict(points)[since]:.3f} then and is {points[-1][1]:.3f}, while "
        f"the training loss fell to {fmean(train[-3:]):.3f}",
        "Add text, raise model.dropout, or set trainer.patience=5",
    )


def data_bound(run: Record) -> Found:
    """Training waits for its data."""
    shares = run.values("perf/data_wait_share", late=True)
    if not shares or median(shares) < 0.2:
        return None
    return (
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
    if not train or spent < max(train, LITTLE):
        return None
    return (
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
        "Gradients spike",
        f"{len(spikes)} of {len(norms)} norms are more than 10 times the usual {usual:.2g}, the "
        f"largest is {max(norms):.2g}",
        _gentler(run),
    )


def leaked(run: Record) -> Found:
    """Evaluation text stands in the training text, and no filter takes it out."""
    names = {"validation": "val", "test": "test"}
    shares = {split: values[-1] for split, short in names.items()
              if (values := run.values(f"data/{short}_in_training_share"))}  # fmt: skip
    if max(shares.values(), default=0) < 0.02 or run.setting("trainer.val_on_train"):
        return None
    return (
        "Evaluation text stands in the training text",
        f"{' and '.join(f'{share:.0%} of the {n} pairs' for n, share in shares.items())} are "
        "trained on",
        "Scores say nothing of new text: add leakage to cleaning.filters",
    )


def frozen_block(run: Record) -> Found:
    """A block of the model gets no gradient."""
    prefix = "optim/grad_norm/"
    late = {name.removeprefix(prefix): run.values(name, late=True)
            for name in run.curves if name.startswith(prefix)}  # fmt: skip
    if not late:
        return None
    usual = median(map(fmean, late.values()))
    frozen = [name for name, norms in late.items() if max(norms) < 1e-5 * usual]
    if not frozen:
        return None
    return (
        "A part of the model does not train",
        f"{', '.join(frozen)} has no gradient, where others have about {usual:.2g}",
        "See that its parameters require gradients, and are used",
    )


def _young(run: Record) -> bool:
    """Whether the model still learns: its output then says nothing of what is to come."""
    points = run.curves.get("val/nll", ())
    earlier = [loss for step, loss in points if step <= 2 / 3 * run.steps]
    return run.steps < 300 or not earlier or points[-1][1] < 0.97 * earlier[-1]


def output_degenerate(run: Record) -> Found:
    """Many translations repeat themselves, are empty or copies."""
    shares = run.values("decode/degenerate_share")
    if _young(run) or not shares or shares[-1] < 0.2:
        return None
    return (
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
        "Many translations are cut off",
        f"{shares[-1]:.0%} reach the limit of the output",
        "Train longer; if targets are that long, raise decode.max_extra or model.max_length",
    )


def source_copied(run: Record) -> Found:
    """The model copies, or its training text teaches it to."""
    remedy = "See that targets are translations, and add identical to cleaning.filters"
    same = max(run.values("data/identical_share"), default=0.0)
    if same >= 0.3:
        return (
            "Sources are copied",
            f"{same:.0%} of the training pairs have the same text on both sides",
            remedy,
        )
    sentences = run.samples[-1]["sentences"] if run.samples else []
    copied = [one for one in sentences if _is_copy(one["source"], one["hypothesis"])]
    if len(sentences) < 4 or len(copied) < 0.3 * len(sentences):
        return None
    return (
        "Sources are copied",
        f"{len(copied)} of {len(sentences)} translations have the words of their source, such as "
        f"“{copied[0]['hypothesis'][:60]}”",
        remedy,
    )


def _is_copy(source: str, hypothesis: str) -> bool:
    words, found = set(source.lower().split()), set(hypothesis.lower().split())
    return len(found) > 1 and len(words & found) >= 0.75 * len(found)
