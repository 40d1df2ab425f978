from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import random_ids, real_positions, tiny_transformer
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import PAD
from seq2seq.training import loss
from seq2seq.training.loss import translation_loss

VOCABULARY, WIDTH = 11, 6
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])


def problem(
    lengths: list[int], seed: int = 0
) -> tuple[torch.nn.Linear, torch.Tensor, torch.Tensor]:
    """An output layer, hidden states and padded labels."""
    torch.manual_seed(seed)
    linear = torch.nn.Linear(WIDTH, VOCABULARY)
    hidden = torch.randn(len(lengths), max(lengths), WIDTH, requires_grad=True)
    labels = random_ids(seed, len(lengths), max(lengths), vocab_size=VOCABULARY)
    return linear, hidden, labels.masked_fill(~real_positions(lengths), PAD)


def loss_of(linear, hidden, labels, smoothing):
    return translation_loss(SimpleNamespace(output=linear), hidden, labels, smoothing)


class Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor that is made beside one that was there."""

    def __init__(self, there: torch.Tensor):
        super().__init__()
        self.there, self.bytes = there.data_ptr(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **kwargs or {})
        if isinstance(made, torch.Tensor) and made.data_ptr() != self.there:
            self.bytes = max(self.bytes, made.untyped_storage().nbytes())
        return made


def test_a_validation_makes_no_gradient_of_the_vocabulary():
    """Its loss is that of training."""
    linear, hidden, labels = problem([2])
    sums = loss_of(linear, hidden, labels, 0.1)
    hidden = hidden.detach()
    with torch.no_grad(), Largest(linear.weight) as largest:
        again = loss_of(linear, hidden, labels, 0.1)
    assert (again.smoothed, again.nll) == (sums.smoothed, sums.nll)
    assert 0 < largest.bytes < linear.weight.nbytes


def torch_loss(linear, hidden, labels, smoothing=0.0):
    return F.cross_entropy(
        linear(hidden).flatten(0, 1),
        labels.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    smoothing=st.sampled_from([0.0, 0.1, 0.6]),
    seed=st.integers(0, 99),
)
def test_sums_and_gradients_are_those_of_torch_cross_entropy(lengths, smoothing, seed):
    linear, hidden, labels = problem(lengths, seed)
    sums = loss_of(linear, hidden, labels, smoothing)
    expected = torch_loss(linear, hidden, labels, smoothing)
    assert_close(sums.smoothed, expected)
    assert_close(sums.nll, torch_loss(linear, hidden, labels))
    inputs = [hidden, linear.weight, linear.bias]
    ours, theirs = torch.autograd.grad(sums.smoothed, inputs), torch.autograd.grad(expected, inputs)
    assert_close(ours, theirs)


@SMOOTHING
def test_more_padding_changes_nothing_and_gets_no_gradient(smoothing):
    linear, hidden, labels = problem([4, 2])
    more_hidden = torch.cat([hidden, torch.full((2, 3, WIDTH), 100.0)], dim=1)
    more_labels = F.pad(labels, (0, 3), value=PAD)
    sums = loss_of(linear, hidden, labels, smoothing)
    more = loss_of(linear, more_hidden, more_labels, smoothing)
    assert_close((more.smoothed, more.nll), (sums.smoothed, sums.nll))
    gradient = torch.autograd.grad(sums.smoothed, hidden)[0]
    assert (gradient[labels == PAD] == 0).all()
    assert (gradient[labels != PAD] != 0).any(dim=-1).all()


def test_only_the_smoothed_sum_has_a_gradient():
    linear, hidden, labels = problem([3])
    for smoothing in (0.0, 0.1):
        sums = loss_of(linear, hidden, labels, smoothing)
        assert sums.smoothed.requires_grad
        assert not sums.nll.requires_grad


def test_loss_of_a_batch_is_that_of_its_sentences_one_by_one():
    model = tiny_transformer()
    pairs = [([5, 6, 7], [8, 9]), ([4], [10, 11, 12, 3]), ([9, 9, 8, 3, 5], [7])]

    def loss(*some, multiple=1):
        batch = collate([source for source, _ in some], [target for _, target in some], multiple)
        hidden = model(batch.source, batch.source_real, batch.target_in)
        return translation_loss(model, hidden, batch.labels, smoothing=0.1)

    together, alone = loss(*pairs), [loss(pair) for pair in pairs]
    assert_close(together.nll, torch.stack([sums.nll for sums in alone]).sum())
    assert_close(together.smoothed, torch.stack([sums.smoothed for sums in alone]).sum())
    assert_close(together.smoothed, loss(*pairs, multiple=8).smoothed)


@pytest.mark.parametrize("at_once", [1, VOCABULARY, 3 * VOCABULARY, 2**20])
def test_scores_may_be_made_in_any_portions(at_once, monkeypatch):
    linear, hidden, labels = problem([5, 1, 3, 2])
    inputs = [hidden, linear.weight, linear.bias]
    expected = torch_loss(linear, hidden, labels, 0.1)
    monkeypatch.setitem(loss.SCORES_AT_ONCE, "cpu", at_once)
    sums = loss_of(linear, hidden, labels, 0.1)
    assert_close((sums.smoothed, sums.nll), (expected, torch_loss(linear, hidden, labels)))
    assert_close(torch.autograd.grad(sums.smoothed, inputs), torch.autograd.grad(expected, inputs))


def test_scores_far_apart_lose_nothing():
    """A label whose probability is too small for any float has a finite loss all the same."""
    linear, hidden, labels = problem([3, 2])
    with torch.no_grad():
        linear.weight *= 1e4
    sums = loss_of(linear, hidden, labels, 0.1)
    assert_close(sums.nll, torch_loss(linear, hidden, labels))
    assert_close(sums.smoothed, torch_loss(linear, hidden, labels, 0.1))
    assert sums.nll > 1000


def test_the_gradient_can_be_asked_for_twice_and_is_scaled_with_the_loss():
    linear, hidden, labels = problem([4, 2])
    smoothed = loss_of(linear, hidden, labels, 0.1).smoothed
    once = torch.autograd.grad(smoothed, hidden, retain_graph=True)[0].clone()
    assert_close(torch.autograd.grad(smoothed * 3, hidden)[0], once * 3)


def test_autocast_multiplies_in_half_precision_and_sums_in_full():
    linear, hidden, labels = problem([4, 2, 5])
    full = loss_of(linear, hidden, labels, 0.1)
    inputs = [hidden, linear.weight, linear.bias]
    expected = torch.autograd.grad(full.smoothed, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        half = loss_of(linear, hidden, labels, 0.1)
    assert half.smoothed.dtype == half.nll.dtype == torch.float32
    assert half.smoothed != full.smoothed
    assert_close(half.smoothed, full.smoothed, rtol=1e-2, atol=0)
    gradients = torch.autograd.grad(half.smoothed, inputs)
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    assert_close(gradients, expected, rtol=5e-2, atol=2e-2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_none_is_made(mode, monkeypatch):
    def made(*_):
        raise AssertionError("a gradient was made")

    linear, hidden, labels = problem([4, 2])
    expected = loss_of(linear, hidden, labels, 0.1)
    monkeypatch.setattr(loss, "_add_product", made)
    with mode():
        sums = loss_of(linear, hidden, labels, 0.1)
    assert_close((sums.smoothed, sums.nll), (expected.smoothed.detach(), expected.nll))
    assert not sums.smoothed.requires_grad
