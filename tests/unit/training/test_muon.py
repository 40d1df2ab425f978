"""Muon beside AdamW: the steps of both, in the place of one optimiser."""

from __future__ import annotations

import copy

import pytest
import torch
from tiny import tiny_recurrent, tiny_transformer
from tiny_training import Recorder, fp16, tiny_batch, tiny_fit, tiny_task, weights
from torch import nn
from torch.optim import AdamW, Muon, Optimizer
from torch.testing import assert_close

from seq2seq.config import OptimConfig
from seq2seq.training import optim
from seq2seq.training.optim import make_optimizer, orthogonal
from seq2seq.training.trainer import Trainer

CONFIG = OptimConfig(optimizer="muon", schedule="wsd", lr=0.02, warmup_steps=2, weight_decay=0.1)
KINDS = [
    (tiny_transformer, {}),
    (tiny_transformer, {"tie_embeddings": "none", "activation": "swiglu", "norm": "post"}),
    (tiny_transformer, {"positions": "learned", "n_kv_heads": 1, "qk_norm": True}),
    (tiny_recurrent, {"tie_embeddings": "all"}),
    (tiny_recurrent, {"tie_embeddings": "none"}),
]
kinds = pytest.mark.parametrize(("make", "kind"), KINDS)
MATRICES = tuple(  # of all layers between hidden states, by the ends of their names
    f"{name}.weight"
    for name in ("q_proj", "k_proj", "v_proj", "out_proj", "inner", "outer", "gate",
                 "state_proj", "source_proj", "score", "first_state", "readout")
)  # fmt: skip


def backward(model: nn.Module, number: int) -> None:
    batch = tiny_batch(number)
    hidden_BTD = model(batch.source, batch.source_real, batch.target_in)
    model.zero_grad()
    model.project(hidden_BTD).logsumexp(-1).mul(batch.labels.clamp(max=9)).mean().backward()


def step(model: nn.Module, optimizers: list[Optimizer], number: int) -> None:
    backward(model, number)
    for optimizer in optimizers:
        optimizer.step()


def of_two(model: nn.Module, lr: float) -> list[Optimizer]:
    """The optimisers of torch, whose parameters are told apart by their names."""
    named = dict(model.named_parameters())
    rest = [p for name, p in named.items() if not name.endswith(MATRICES)]
    groups = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in rest if p.dim() == 1], "weight_decay": 0.0},
    ]
    matrices = [p for name, p in named.items() if name.endswith(MATRICES)]
    return [
        Muon(matrices, lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        AdamW(groups, lr, betas=(0.9, 0.98), eps=1e-9, fused=True),
    ]


@pytest.fixture(autouse=True)
def in_bf16(monkeypatch):
    """Orthogonal matrices in bf16, as those of torch are on all devices."""
    monkeypatch.setattr(optim, "cpu_has", lambda precision: True)


def assert_equal(model: nn.Module, other: nn.Module) -> None:
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert one.equal(two), name


@kinds
def test_its_steps_are_those_of_both_optimisers(make, kind):
    model = make(**kind)
    other, start = copy.deepcopy(model), copy.deepcopy(model.state_dict())
    ours, theirs = make_optimizer(model, CONFIG, d_model=16), of_two(other, CONFIG.lr)
    for number in range(4):
        step(model, [ours], number)
        step(other, theirs, number)
        for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
            # Products of several matrices at once are rounded to bf16 in another order.
            assert_close(one, two, rtol=0, atol=5e-4, msg=lambda text, name=name: f"{name}: {text}")
        other.load_state_dict(model.state_dict())
    moved = {name for name, value in model.state_dict().items() if not value.equal(start[name])}
    assert {name for name, _ in model.named_parameters()} <= moved


@kinds
def test_hidden_matrices_go_to_muon_and_all_else_to_adamw_once(make, kind):
    model = make(**kind)
    matrices, *adamw = make_optimizer(model, CONFIG, d_model=16).param_groups
    names = {id(p): name for name, p in model.named_parameters()}
    found = [[names.pop(id(p)) for p in group["params"]] for group in (matrices, *adamw)]
    assert not names
    assert found[0] == [name for name, _ in model.named_parameters() if name.endswith(MATRICES)]
    assert all(p.dim() > 1 for p in adamw[0]["params"])
    assert all(p.dim() == 1 for p in adamw[1]["params"])
    assert [group["weight_decay"] for group in (matrices, *adamw)] == [0.1, 0.1, 0.0]
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    assert {id(model.output.weight), *embeddings} <= {id(p) for p in adamw[0]["params"]}
    assert "momentum" in matrices
    assert all("betas" in group for group in adamw)


def test_frozen_matrices_are_left_alone():
    model = tiny_transformer()
    model.encoder.requires_grad_(False)
    optimizer = make_optimizer(model, CONFIG, d_model=16)
    listed = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert listed == {id(p) for p in model.parameters() if p.requires_grad}


def test_a_state_that_is_loaded_goes_on_exactly():
    model = tiny_transformer()
    optimizer = make_optimizer(model, CONFIG, d_model=16)
    for number in range(3):
        step(model, [optimizer], number)
    state, again = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(model)
    fresh = make_optimizer(again, CONFIG, d_model=16)
    fresh.load_state_dict(state)
    for group in optimizer.param_groups + fresh.param_groups:
        group["lr"] = 0.005  # as a schedule does: the groups are still those that steps are made by
    for number in range(3, 6):
        step(model, [optimizer], number)
        step(again, [fresh], number)
    assert_equal(model, again)
    moments = [[value for one in o.state_dict()["state"].values() for value in one.values()]
               for o in (optimizer, fresh)]  # fmt: skip
    assert all(one.equal(two) for one, two in zip(*moments, strict=True))
    assert len(fresh.state) == len(list(again.parameters()))


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (16, 16)])
def test_singular_values_come_near_one_and_the_directions_stay(shape, monkeypatch):
    monkeypatch.setattr(optim, "cpu_has", lambda precision: False)
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    found = u.T @ orthogonal(matrix[None])[0] @ vh.T
    assert_close(found, found.diag().diag(), atol=1e-4, rtol=0)
    wide = s > 0.05 * s.norm()  # five iterations do not reach the smallest
    assert found.diag()[wide].min() > 0.6
    assert found.diag().max() < 1.3


def test_a_cpu_without_bf16_multiplies_in_fp32(monkeypatch):
    matrix, found = torch.randn(16, 48, generator=torch.Generator().manual_seed(1)), {}
    for has_bf16 in (True, False):
        monkeypatch.setattr(optim, "cpu_has", lambda precision, has=has_bf16: has)
        found[has_bf16] = orthogonal(matrix[None])
    assert (found[True].dtype, found[False].dtype) == (torch.bfloat16, torch.float32)
    assert_close(found[True].float(), found[False], atol=0.05, rtol=0)


# In real training


def train(task, steps: int, **options) -> tuple[Recorder, Trainer]:
    recorder = Recorder()
    return recorder, tiny_fit(task, [recorder], steps, val_every_n_steps=99, **options)


@pytest.mark.parametrize(("precision", "accumulate"), [("bf16-mixed", 2), ("16-mixed", 1)])
def test_it_trains_in_each_precision_with_clipping_and_accumulation(precision, accumulate):
    half = {"fabric": fp16(1024.0)} if precision == "16-mixed" else {"precision": precision}
    recorder, trainer = train(
        tiny_task(CONFIG), 20, accumulate=accumulate, gradient_clip=0.1, **half
    )
    assert recorder.faults == [None] * 20
    assert sum(recorder.nll[-5:]) < sum(recorder.nll[:5]) - 0.5
    assert min(recorder.norm) > 2 * 0.1
    # Momenta are running means of clipped gradients, whose norm they cannot exceed.
    state = trainer.optimizer.state.values()
    momenta = [one["momentum_buffer"].norm() for one in state if "momentum_buffer" in one]
    assert len(momenta) == len(trainer.optimizer.param_groups[0]["params"])
    assert 0 < torch.stack(momenta).norm() <= 0.1


def test_a_run_that_goes_on_ends_like_one_that_never_stopped(tmp_path):
    whole, again = tiny_task(CONFIG), tiny_task(CONFIG)
    train(whole, 8, run_dir=tmp_path, save_every=4)
    train(again, 8, checkpoint=tmp_path / "checkpoints" / "step-00000004.ckpt")
    assert all(weights(again)[name].equal(value) for name, value in weights(whole).items())


def test_a_bad_step_leaves_no_trace_in_either():
    task = tiny_task(CONFIG)
    task.model.output.weight.register_hook(lambda gradient: gradient + torch.inf)
    before = weights(task)
    recorder, _ = train(task, 3)
    assert recorder.faults == ["the gradient norm is inf"] * 3
    assert recorder.moments == [[], [], []]
    assert all(value.equal(before[name]) for name, value in weights(task).items())


def test_a_zero_matrix_stays_zero():
    """As the matrices behind blocks that start as zero do in the first step."""
    assert not orthogonal(torch.zeros(1, 3, 4)).any()


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (16, 16)])
def test_a_matrix_is_updated_alike_alone_and_among_others(shape, monkeypatch):
    monkeypatch.setattr(optim, "cpu_has", lambda precision: False)
    draw = torch.Generator().manual_seed(1)
    weights, gradients = torch.randn(2, 3, *shape, generator=draw)
    together = [nn.Parameter(weight.clone()) for weight in weights]
    alone = [nn.Parameter(weight.clone()) for weight in weights]
    others = [nn.Parameter(torch.ones(5, 7)), nn.Parameter(torch.ones(shape))]
    together.insert(1, others[1])  # as large, but without a gradient
    steps = [optim.Muon([*together, others[0]], 0.1, 0.1)]
    steps += [optim.Muon([matrix], 0.1, 0.1) for matrix in alone]
    for _ in range(3):
        for matrices in (alone, together[:1] + together[2:]):
            for matrix, gradient in zip(matrices, gradients, strict=True):
                matrix.grad = gradient.clone()
        for each in steps:
            each.step()
    for one, other in zip(together[:1] + together[2:], alone, strict=True):
        assert_close(one, other, rtol=0, atol=1e-5)
        assert not one.equal(weights[0])
    assert all((matrix == 1).all() for matrix in others)
