"""Findings name what was planted in a record, with its numbers, and nothing in a healthy one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seq2seq.data.report import Report
from seq2seq.findings import CHECKS, Record, findings
from seq2seq.findings.before import SLOWER, shuffled_targets
from seq2seq.findings.curves import _guessing

STEPS = range(10, 1001, 10)
SETTINGS: dict[str, Any] = {
    "model": {"d_model": 128, "encoder_layers": 2, "decoder_layers": 1},
    "data": {"max_tokens": 4096},
    "optim": {"warmup_steps": 100, "lr": 1e-3},
    "trainer": {"max_steps": 1000},
    "cleaning": {"filters": ["empty", "leakage"]},
}


@pytest.fixture(autouse=True)
def no_check_fails(request, caplog):
    """An empty list of findings could mean that a check raised."""
    yield
    if request.function is not test_a_check_that_fails_is_named_and_ends_nothing:
        assert not [line for line in caplog.get_records("call") if "survives" in line.msg]


def curve(function) -> list[tuple[float, float]]:
    return [(float(step), float(function(step))) for step in STEPS]


def at(*values: float) -> list[tuple[float, float]]:
    """Values of validations, the last at the last step."""
    return [(1000.0 * (i + 1) / len(values), value) for i, value in enumerate(values)]


def lengths(seed: int, related: bool) -> tuple[list[list[int]], list[int]]:
    """Histograms of the lengths of 2,000 pairs and of their ratios, counted one by one."""
    rng = np.random.default_rng(seed)
    source = rng.integers(3, 40, 2000)
    target = rng.integers(3, 40, 2000)
    if related:
        target = np.maximum(1, source + rng.integers(-2, 3, 2000))
    ratios = [0] * 41
    for s, t in zip(source, target, strict=True):
        ratios[round(10 * min(2, max(-2, math.log2(t / s)))) + 20] += 1
    return [np.bincount(side).tolist() for side in (source, target)], ratios


def data(related: bool = True, **changes: Any) -> Report:
    sides, ratios = lengths(0, related)
    zipf = [[rank, round(50_000 / rank)] for rank in (1, 3, 10, 30, 100, 300, 1000)]
    report = Report(
        name="corpus", fingerprint="", settings={}, files=[], read=50_000, kept=48_000,
        dropped={"empty": 1000, "wrong_language": 1000}, examples={}, words=[1, 1],
        characters=[1, 1], tokens=[1, 1], lengths=sides, ratios=ratios,
        vocabulary=[{"name": "target", "size": 1000, "used": 1000, "rare": 50, "counts": zipf}],
        overlap=[{"split": "val", "pairs": 1000, "in_training": 4}], samples=[], mixture=[],
        seconds={},
    )  # fmt: skip
    return replace(report, **changes)


def sentences(*texts: tuple[str, str]) -> list[dict[str, Any]]:
    found = [{"source": source, "reference": "x", "hypothesis": text} for source, text in texts]
    return [{"step": 1000, "sentences": found, "worst": []}]


GOOD = sentences(("a man reads", "un homme lit"), ("the house", "la maison"),
                 ("two dogs", "deux chiens"), ("it rains", "il pleut"))  # fmt: skip


def record(**changes: Any) -> Record:
    """A healthy run; `curves` and settings by their whole names replace its own."""
    noise = np.random.default_rng(1).normal(0, 0.05, 2000)
    curves = {
        "train/nll": curve(lambda step: 1.5 + 6 * math.exp(-step / 200) + noise[step]),
        "val/nll": at(2.6, 1.95, 1.92, 1.9),
        "val/bleu": at(5, 12, 18, 22),
        "optim/lr": curve(lambda step: min(step, 100) * 1e-5),
        "optim/grad_norm": curve(lambda step: 0.5 + abs(noise[step])),
        **{f"optim/grad_norm/{name}": curve(lambda step: 0.2 + abs(noise[step]))
           for name in ("encoder.0", "encoder.1", "decoder.0", "embedding")},
        "decode/degenerate_share": at(0.9, 0.2, 0.02, 0.01),
        "decode/unfinished_share": at(0.9, 0.1, 0.0, 0.0),
        "perf/data_wait_share": curve(lambda step: 0.02),
        "perf/padding_share": curve(lambda step: 0.08),
        "perf/step_seconds": curve(lambda step: 0.1 + abs(noise[step]) / 10),
        "perf/validation_seconds": at(6, 6, 6, 6),
        "epoch": curve(lambda step: step / 200),
    }  # fmt: skip
    settings = {section: dict(group) for section, group in SETTINGS.items()}
    for name in [name for name in changes if "." in name]:
        section, key = name.split(".")
        settings[section][key] = changes.pop(name)
    curves |= changes.pop("curves", {})
    own = {"data": data(), "samples": GOOD, **changes}
    return Record(settings, {name: points for name, points in curves.items() if points}, **own)


def without(*names: str) -> dict[str, list]:
    return {name: [] for name in names}


PLANTED = {
    "diverged": record(
        curves={"train/nll": curve(lambda s: 2 if s < 600 else 7), "val/nll": at(2.6, 2.4, 4, 4)}
    ),
    "not_learning": record(
        curves={"val/nll": at(6.4, 6.3, 6.3, 6.3), "train/nll": curve(lambda s: 6.3 + 1 / s)}
    ),
    "shuffled_targets": record(data=data(related=False)),
    "columns_swapped": record(data=data(kept=3000, dropped={"wrong_language": 47_000})),
    "leaked": record(curves={"data/val_in_training_share": [(10.0, 0.4)]}),
    "warmup_long": record(**{"optim.warmup_steps": 4000}),
    "batch_unusual": record(**{"optim.lr": None, "data.max_tokens": 256}),
    "precision_slow": record(device=f"CPU (1 thread), 32-true ({SLOWER}); attention: flash"),
    "frozen_block": record(curves={"optim/grad_norm/encoder.1": curve(lambda s: 0.0)}),
    "source_ignored": record(
        curves={"val/bleu": at(1, 1, 1, 1)},
        samples=sentences(*[(f"source {i}", f"il est un {i}") for i in range(6)]),
    ),
    "overfitting": record(curves={"val/nll": at(2.0, 1.8, 1.9, 2.0, 2.1)}),
    "tiny_data": record(data=data(read=350, kept=300, dropped={"empty": 50})),
    "few_kept": record(data=data(kept=10_000, dropped={"empty": 40_000})),
    "source_copied": record(
        samples=sentences(*[(f"the dog number {i}", f"the dog number {i}") for i in range(4)])
    ),
    "output_degenerate": record(curves={"decode/degenerate_share": at(0.5, 0.5)}),
    "output_cut_off": record(curves={"decode/unfinished_share": at(0.5, 0.5)}),
    "gradient_spikes": record(
        curves={"optim/grad_norm": curve(lambda s: 50 if s % 100 == 0 else 0.5)}
    ),
    "data_bound": record(curves={"perf/data_wait_share": curve(lambda s: 0.5)}),
    "padding_high": record(curves={"perf/padding_share": curve(lambda s: 0.5)}),
    "validation_costly": record(curves={"perf/validation_seconds": at(60, 60, 60, 60)}),
    "rare_vocabulary": record(
        data=data(vocabulary=[{"name": "joint", "size": 9000, "used": 9, "rare": 8000,
                               "counts": []}])
    ),
}  # fmt: skip


def test_a_healthy_run_has_no_findings():
    assert findings(record()) == []


RECURRENT = record(curves={
    **without(*(f"optim/grad_norm/{name}" for name in ("encoder.0", "encoder.1", "decoder.0"))),
    **{f"optim/grad_norm/{name}": curve(lambda step: 0.2) for name in ("encoder", "decoder")},
})  # fmt: skip


def test_a_healthy_recurrent_run_has_no_findings():
    """Its encoder and its decoder are one block each, however many layers they have."""
    assert findings(RECURRENT) == []


def test_a_corpus_without_filters_has_no_findings():
    assert findings(record(data=data(read=48_000, kept=48_000, dropped={}))) == []


def test_a_check_that_fails_is_named_and_ends_nothing(monkeypatch, caplog):
    def broken(run):
        raise ZeroDivisionError

    monkeypatch.setattr("seq2seq.findings.CHECKS", (broken, *CHECKS))
    assert [one.kind for one in findings(PLANTED["leaked"])] == ["leaked"]
    assert "the check broken failed, which the run survives: ZeroDivisionError()" in caplog.text


def test_every_check_has_a_planted_fault_here():
    assert {check.__name__ for check in CHECKS} == PLANTED.keys() == NUMBERS.keys()


NUMBERS = {  # that were planted, or follow from it
    "diverged": "from 2.00 at step 10 to 7.00",
    "not_learning": "loss is 6.30",
    "shuffled_targets": "spread of log2 ratios",
    "columns_swapped": "94% of all pairs",
    "leaked": "40% of the validation pairs",
    "warmup_long": "4,000 steps, and training ends after 1,000",
    "batch_unusual": "an update sees 256 tokens",
    "precision_slow": "CPU (1 thread), 32-true (slower than bf16 here)",
    "frozen_block": "encoder.1 has no gradient, where others have about 0.2",
    "source_ignored": "6 different sources get translations of 1 beginnings",
    "overfitting": "was 1.800 at step 400 and is 2.100",
    "tiny_data": "they are 300 and were seen 5 times each",
    "few_kept": "20% of 50,000 pairs are kept; empty dropped 40,000",
    "source_copied": "4 of 4 translations",
    "output_degenerate": "50% repeat",
    "output_cut_off": "50% reach",
    "gradient_spikes": "5 of 50 norms are more than 10 times the usual 0.5, the largest is 50",
    "data_bound": "50% of the time",
    "padding_high": "50% of all positions",
    "validation_costly": "240 s of validation",
    "rare_vocabulary": "8,000 of 9,000 subwords (joint) occur fewer than 10 times",
}
REMEDIES = {"batch_unusual": "trainer.accumulate=32", "warmup_long": "optim.warmup_steps=100",
            "rare_vocabulary": "tokenizer.vocab_size=2250", "leaked": "cleaning.filters",
            "overfitting": "model.dropout"}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_named_with_its_numbers_and_a_remedy(kind):
    [found] = findings(PLANTED[kind])
    assert found.kind == kind
    assert NUMBERS[kind] in found.evidence
    assert REMEDIES.get(kind, "") in found.remedy
    assert str(found) == f"{found.title}: {found.evidence}. {found.remedy}"


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_known_before_the_first_step_is_found_then(kind):
    """Faults of settings and data need no curve; all others need one."""
    planted = PLANTED[kind]
    early = findings(replace(planted, curves={}, samples=()))
    static = {"columns_swapped", "shuffled_targets", "warmup_long", "tiny_data", "few_kept",
              "rare_vocabulary", "batch_unusual", "precision_slow"}  # fmt: skip
    assert [one.kind for one in early] == ([kind] if kind in static else [])


@pytest.mark.parametrize("name", sorted(record().curves))
def test_a_run_that_lacks_a_curve_is_no_fault(name):
    kept = {other: points for other, points in record().curves.items() if other != name}
    assert findings(replace(record(), curves=kept)) == []


def test_few_pairs_are_no_fault_where_they_were_chosen():
    """To fine-tune a model, or to learn some pairs by heart."""
    few = PLANTED["tiny_data"]
    for name, value in (("init_from", "general"), ("trainer", {"val_on_train": True})):
        assert findings(replace(few, settings={**few.settings, name: value})) == []


def test_nothing_is_known_of_an_empty_run():
    assert findings(Record({})) == []


def test_batches_of_other_losses_are_no_divergence_while_the_validation_loss_falls():
    unlike = {"train/nll": curve(lambda step: 0.5 if 600 < step < 850 else 1.8)}
    assert findings(record(curves=unlike)) == []
    before = {"val/nll": at(2.6, 1.95, 1.92, 1.9, 1.9, 1.9)[:5]}  # nothing after the rise
    for others in (without("val/nll"), before):
        [found] = findings(record(curves=unlike | others))
        assert found.kind == "diverged"


def test_a_validation_loss_that_stays_while_the_training_loss_vanishes_is_overfitting():
    stays = {"val/nll": at(3.6, 3.57, 3.56, 3.55, 3.57), "train/nll": curve(lambda s: 20 / s)}
    [found] = findings(record(curves=stays))
    assert found.kind == "overfitting"
    assert "fell to 0.02" in found.evidence


@pytest.mark.parametrize("seed", range(3))
def test_lengths_of_pairs_drawn_at_random_are_told_from_those_of_translations(seed):
    for related in (True, False):
        sides, ratios = lengths(seed, related)
        found = shuffled_targets(record(data=data(lengths=sides, ratios=ratios)))
        assert (found is None) == related


def test_guessing_costs_the_entropy_of_the_tokens():
    counts = [[rank, 1000] for rank in range(1, 65)]
    report = data(vocabulary=[{"name": "target", "size": 64, "counts": counts}])
    assert _guessing(report) == pytest.approx(math.log(64))


def test_a_model_that_knows_its_text_by_heart_has_learnt():
    [found] = findings(record(curves={"val/nll": at(6.3, 6.3, 6.3, 6.3)}))
    assert found.kind == "overfitting"


@pytest.mark.parametrize(("accumulate", "far"), [(1, True), (2, False), (500, True)])
def test_a_batch_is_what_an_update_sees(accumulate, far):
    settings = {"optim.lr": None, "data.max_tokens": 300, "trainer.accumulate": accumulate}
    assert [one.kind for one in findings(record(**settings))] == ["batch_unusual"] * far


def test_a_text_with_fewer_subwords_than_asked_for_has_a_vocabulary_that_is_too_large():
    vocabulary = [{"name": "joint", "size": 6442, "used": 5246, "rare": 3859, "counts": []}]
    run = record(data=data(vocabulary=vocabulary))
    assert findings(run) == []
    asked = {**SETTINGS, "tokenizer": {"vocab_size": 8000}}
    [found] = findings(replace(run, settings=asked))
    assert found.kind == "rare_vocabulary"
    assert found.evidence.endswith("and 8,000 were asked for")
    assert findings(replace(run, settings={**asked, "init_from": "general"})) == []


@pytest.mark.parametrize("losses", [(5.0, 3.0), (3.7, 3.3, 3.1)])
def test_output_of_a_model_that_still_learns_is_no_fault(losses):
    young = {"val/nll": at(*losses), "decode/degenerate_share": at(*[1.0] * len(losses))}
    assert findings(record(curves=young)) == []


def test_training_text_that_teaches_to_copy_is_named_before_the_model_has_learnt_it():
    [found] = findings(record(curves={"data/identical_share": [(1.0, 0.9)]}))
    assert found.kind == "source_copied"
    assert found.evidence == "90% of the training pairs have the same text on both sides"
