"""Packed linear layers are the layers that they were made of."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2seq.model.optimize import LARGE, PackedLinear, can_pack

pytestmark = pytest.mark.skipif(not can_pack(), reason="this torch has no packed products")


def packed(linear):
    return PackedLinear(linear.weight, linear.bias)


@torch.inference_mode()
@pytest.mark.parametrize("shape", [(5,), (1, 5), (64, 5), (2, 3, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_layer(shape, bias):
    linear, x = nn.Linear(5, 7, bias), torch.randn(shape)
    assert_close(packed(linear)(x), linear(x), atol=1e-6, rtol=1e-6)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_a_large_matrix_with_few_rows(rows):
    linear, x = nn.Linear(512, LARGE // 512), torch.randn(rows, 512)
    assert_close(packed(linear)(x), linear(x), atol=1e-5, rtol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("bias", [True, False])
def test_joined_layers_give_their_outputs_side_by_side(bias):
    parts, x = [nn.Linear(6, width, bias) for width in (4, 2, 3)], torch.randn(5, 6)
    together = PackedLinear.joined([packed(part) for part in parts])(x)
    assert_close(together, torch.cat([part(x) for part in parts], -1), atol=1e-6, rtol=1e-6)


@torch.inference_mode()
def test_bfloat16():
    linear, x = nn.Linear(64, 32).bfloat16(), torch.randn(3, 64).bfloat16()
    assert_close(packed(linear)(x), linear(x))


def test_it_copies_the_weights():
    linear, x = nn.Linear(5, 7), torch.randn(2, 5)
    with torch.inference_mode():
        layer, before = packed(linear), linear(x)
    with torch.no_grad():
        linear.weight.zero_()
    assert_close(layer(x), before, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_its_state_is_that_of_the_layer(bias):
    linear = nn.Linear(5, 7, bias)
    found, expected = packed(linear).state_dict(), linear.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_other_processors_do_without(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not can_pack()
