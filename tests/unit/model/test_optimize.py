"""A model that was optimised for inference is the same model."""

from itertools import product

import pytest
import torch
from tiny import random_ids, real_positions, tiny_transformer
from torch import nn
from torch.testing import assert_close

from seq2seq.length import rounding_step
from seq2seq.model.attention_maps import attention_maps
from seq2seq.model.optimize import LARGE_MATRIX, PackedLinear, can_pack, optimize_for_inference

pytestmark = pytest.mark.skipif(not can_pack(), reason="this torch has no packed products")
BF16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this processor has no bfloat16"
)
SOURCE, REAL, TARGET = random_ids(1, 3, 6), real_positions([6, 2, 4]), random_ids(2, 3, 5)
KINDS = [
    {"positions": positions, "norm": norm, **other}
    for positions, norm, other in product(
        ("sinusoidal", "rotary"),
        ("pre", "post"),
        ({}, {"n_kv_heads": 1, "activation": "swiglu"}, {"qk_norm": True, "head_dim": 6}),
    )
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_an_optimised_model_gives_the_same(kind):
    model = tiny_transformer(**kind)
    expected = model(SOURCE, REAL, TARGET)
    maps = attention_maps(model, SOURCE, REAL, TARGET)
    for _ in range(2):  # a second time changes nothing
        optimize_for_inference(model)
        assert_close(model(SOURCE, REAL, TARGET), expected, atol=1e-5, rtol=1e-5)
        state = model.start(SOURCE, REAL)
        steps = [model.decode_step(part, state) for part in TARGET.split([1, 3, 1], dim=1)]
        assert_close(torch.cat(steps, dim=1), expected, atol=1e-5, rtol=1e-5)
        found = attention_maps(model, SOURCE, REAL, TARGET)
        assert found.keys() == maps.keys()
        for name, expected_map in maps.items():
            assert_close(found[name], expected_map, atol=1e-5, rtol=1e-5)


def test_an_optimised_model_has_no_layer_left_that_is_slow():
    model = tiny_transformer()
    optimize_for_inference(model)
    kinds = {type(module) for module in model.modules()}
    assert nn.Linear not in kinds
    assert nn.LayerNorm not in kinds
    assert not any(parameter.requires_grad for parameter in model.parameters())


@BF16
@torch.inference_mode()
@pytest.mark.parametrize("optimised", [False, True])
def test_the_bias_of_outputs_is_added_to_products_that_are_rounded(optimised):
    model, hidden = tiny_transformer(output_bias=True).bfloat16(), torch.randn(4, 3, 16).bfloat16()
    bias = torch.nn.init.normal_(model.output.bias, std=3.0)
    expected = nn.functional.linear(hidden, model.output.weight) + bias
    if optimised:
        optimize_for_inference(model)
    assert torch.equal(model.project(hidden), expected)


@torch.inference_mode()
@pytest.mark.parametrize("shape", [(5,), (1, 5), (64, 5), (2, 3, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_is_the_layer(shape, bias):
    linear, x = nn.Linear(5, 7, bias), torch.randn(shape)
    assert_close(PackedLinear([linear])(x), linear(x), atol=1e-6, rtol=1e-6)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9])
def test_a_large_matrix_with_few_rows(rows):
    linear, x = nn.Linear(512, LARGE_MATRIX // 512), torch.randn(rows, 1, 512)
    assert_close(PackedLinear([linear])(x), linear(x), atol=1e-5, rtol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("bias", [True, False])
def test_joined_layers_give_their_outputs_side_by_side(bias):
    parts, x = [nn.Linear(6, width, bias) for width in (4, 2, 3)], torch.randn(5, 6)
    together = PackedLinear(parts)(x)
    assert_close(together, torch.cat([part(x) for part in parts], -1), atol=1e-6, rtol=1e-6)


@BF16
@torch.inference_mode()
def test_bfloat16():
    linear, x = nn.Linear(64, 32).bfloat16(), torch.randn(3, 64).bfloat16()
    assert_close(PackedLinear([linear])(x), linear(x))


def test_a_packed_layer_copies_the_weights():
    linear, x = nn.Linear(5, 7), torch.randn(2, 5)
    with torch.inference_mode():
        layer, before = PackedLinear([linear]), linear(x)
    with torch.no_grad():
        linear.weight.zero_()
    assert_close(layer(x), before, atol=1e-6, rtol=1e-6)


def test_other_processors_do_without(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not can_pack()
    model = tiny_transformer()
    optimize_for_inference(model)
    assert type(model.output) is nn.Linear


def test_products_have_few_numbers_of_rows_and_little_is_added():
    added = [-rows % rounding_step(rows) for rows in range(1, 8193)]
    kept = {rows + more for rows, more in enumerate(added, start=1)}
    assert len(kept) == 16 + 8 * 9
    assert all(8 * more <= rows for rows, more in enumerate(added, start=1))
    assert all(filled % rounding_step(filled) == 0 for filled in kept)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17, 33, 100, 129])
@pytest.mark.parametrize("outputs", [24, LARGE_MATRIX // 16 + 1], ids=["small", "large"])
def test_filling_up_rows_changes_no_row(rows, outputs):
    layer, x = nn.Linear(16, outputs), torch.randn(rows, 1, 16)
    product = PackedLinear([layer])(x)
    assert product.shape == (rows, 1, outputs)
    assert_close(product, layer(x), atol=1e-5, rtol=1e-5)
