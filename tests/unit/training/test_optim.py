import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_transformer

from seq2seq.config import OptimConfig
from seq2seq.training.optim import (
    make_optimizer,
    peak_learning_rate,
    share_of_peak,
)


def rate_of_the_paper(step: int, d_model: int, warmup_steps: int) -> float:
    """Equation 3 of Vaswani et al. 2017; its first step is 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@given(
    step=st.integers(1, 300_000), d_model=st.sampled_from([64, 512]), warmup=st.integers(1, 10_000)
)
def test_default_rate_is_the_formula_of_the_paper(step, d_model, warmup):
    peak = peak_learning_rate(OptimConfig(warmup_steps=warmup), d_model)
    expected = rate_of_the_paper(step, d_model, warmup)
    share = share_of_peak(step - 1, OptimConfig(warmup_steps=warmup), 0)
    assert peak * share == pytest.approx(expected, rel=1e-9)


def test_matrices_decay_and_biases_and_norms_do_not():
    model = tiny_transformer(positions="learned")
    optimizer = make_optimizer(model, OptimConfig(weight_decay=0.01), d_model=16)
    decay = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    for name, parameter in model.named_parameters():
        vector = name.endswith("bias") or ".norm." in name or "_norm." in name
        assert decay.pop(id(parameter)) == (0.0 if vector else 0.01), name
    assert not decay


def test_every_parameter_is_updated_once_even_if_tied_and_frozen_ones_never():
    model = tiny_transformer(tie_embeddings="all")
    model.encoder.requires_grad_(False)
    optimizer = make_optimizer(model, OptimConfig(), d_model=16)
    listed = [id(p) for group in optimizer.param_groups for p in group["params"]]
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    assert len(listed) == len(set(listed))
    assert set(listed) == trained
    assert all(id(p) not in trained for p in model.encoder.parameters())


def test_optimizer_has_the_settings():
    config = OptimConfig(lr=0.5, beta1=0.8, beta2=0.7, eps=1e-5)
    optimizer = make_optimizer(torch.nn.Linear(2, 2), config, d_model=2)
    assert all(group["betas"] == (0.8, 0.7) for group in optimizer.param_groups)
    assert all(group["eps"] == 1e-5 for group in optimizer.param_groups)
    assert all(group["lr"] == 0.5 for group in optimizer.param_groups)


def test_first_update_moves_each_weight_by_the_rate_and_decays_it():
    linear = torch.nn.Linear(3, 2)
    weight, bias = linear.weight.detach().clone(), linear.bias.detach().clone()
    config = OptimConfig(lr=0.01, weight_decay=0.1)
    optimizer = make_optimizer(linear, config, d_model=3)
    linear(torch.ones(1, 3)).sum().backward()  # all gradients are 1
    optimizer.step()
    torch.testing.assert_close(linear.weight.detach(), weight * (1 - 0.01 * 0.1) - 0.01)
    torch.testing.assert_close(linear.bias.detach(), bias - 0.01)


# Schedules with an end, as lists over a whole run: (warm-up, decay, total, final)

RUNS = [(10, 20, 100, 0.0), (1, 1, 2, 0.1), (30, 70, 100, 0.1), (5, 10, 1000, 0.3)]


def rates(config: OptimConfig, total: int) -> list[float]:
    """Those of the updates 1, 2, ..., total; the peak is 1."""
    return [share_of_peak(step, config, total) for step in range(total)]


def both(warmup: int, decay: int, total: int, final: float) -> dict[str, list[float]]:
    common = {"lr": 1.0, "warmup_steps": warmup, "final_lr_ratio": final}
    return {
        "cosine": rates(OptimConfig(schedule="cosine", **common), total),
        "wsd": rates(OptimConfig(schedule="wsd", decay_steps=decay, **common), total),
    }


@pytest.mark.parametrize(("warmup", "decay", "total", "final"), RUNS)
def test_schedules_rise_to_the_peak_at_the_end_of_warm_up_and_fall_to_the_end(
    warmup, decay, total, final
):
    for name, found in both(warmup, decay, total, final).items():
        assert found[:warmup] == pytest.approx([n / warmup for n in range(1, warmup + 1)]), name
        assert found[warmup - 1] == 1.0 == max(found)
        assert found[-1] == pytest.approx(final, abs=1e-12), name
        assert all(a >= b for a, b in pairwise(found[warmup - 1 :])), name


@pytest.mark.parametrize(("warmup", "decay", "total", "final"), RUNS)
def test_cosine_is_the_curve_of_torch_after_its_warm_up(warmup, decay, total, final):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total - warmup, eta_min=final)
    for rate in both(warmup, decay, total, final)["cosine"][warmup - 1 :]:
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-9)
        optimizer.step()
        theirs.step()


def test_wsd_is_the_formula_of_the_paper():
    """Equations 1 and 2 of Hägele et al. 2024, with steps n from 1."""
    config = OptimConfig(schedule="wsd", warmup_steps=100, decay_steps=200)
    for n in range(1, 1001):
        decay = 1 - math.sqrt((n - 800) / 200) if n > 800 else 1.0
        expected = n / 100 if n < 100 else decay
        assert share_of_peak(n - 1, config, 1000) == pytest.approx(expected)


def test_wsd_falls_in_the_last_fifth_unless_told_otherwise():
    found = rates(OptimConfig(schedule="wsd", lr=1.0, warmup_steps=10), 100)
    assert [n for n, rate in enumerate(found, 1) if rate == 1.0] == list(range(10, 81))


@given(
    warmup=st.integers(1, 50), stable=st.integers(0, 50), decay=st.integers(1, 50),
    final=st.floats(0, 0.99),
)
def test_schedules_are_continuous_and_stay_at_their_end(warmup, stable, decay, final):
    total = warmup + stable + decay
    common = {"warmup_steps": warmup, "final_lr_ratio": final}
    for config in (
        OptimConfig(schedule="cosine", **common),
        OptimConfig(schedule="wsd", decay_steps=decay, **common),
    ):
        found = [share_of_peak(step, config, total) for step in range(total + 9)]
        # The steepest parts: the warm-up, the middle of a cosine, the first step of 1 - sqrt.
        steepest = max(
            1 / warmup, math.pi / 2 / max(1, total - warmup), math.sqrt(1 / decay)
        )
        jumps = [abs(a - b) for a, b in pairwise(found)]
        assert max(jumps) <= steepest + 1e-9
        assert found[total - 1 :] == pytest.approx([final] * 10)
