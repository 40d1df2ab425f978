import pytest
import torch
from naive_attention import additive_by_loops, heads_by_loops, weights_by_loops
from naive_recurrent import annotations_by_loops
from tiny import random_ids, real_positions, tiny_recurrent, tiny_transformer
from torch.testing import assert_close

from seq2seq.config import KERNELS
from seq2seq.model.attention_maps import attention_maps

SOURCE, SOURCE_REAL, TARGET = random_ids(1, 2, 6), real_positions([6, 4]), random_ids(2, 2, 5)
KINDS = pytest.mark.parametrize(
    "kind",
    [
        {},
        {"positions": "rotary", "n_kv_heads": 2, "norm": "post"},
        {"positions": "learned", "n_kv_heads": 1, "qk_norm": True, "kernel": "reference"},
    ],
    ids=["sinusoidal", "rotary", "learned"],
)


def maps_of(**kind):
    model = tiny_transformer(**kind).double()
    return model, attention_maps(model, SOURCE, SOURCE_REAL, TARGET)


@KINDS
def test_there_is_a_map_of_each_attention_with_its_heads_queries_and_keys(kind):
    _, maps = maps_of(**kind)
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == {
        "encoder.0.self_attention": (2, 4, 6, 6),
        "encoder.1.self_attention": (2, 4, 6, 6),
        "decoder.0.self_attention": (2, 4, 5, 5),
        "decoder.0.cross_attention": (2, 4, 5, 6),
        "decoder.1.self_attention": (2, 4, 5, 5),
        "decoder.1.cross_attention": (2, 4, 5, 6),
    }


@KINDS
def test_rows_sum_to_one_and_show_neither_padding_nor_the_future(kind):
    _, maps = maps_of(**kind)
    for name, weights in maps.items():
        ones = torch.ones(weights.shape[:-1], dtype=torch.float64)
        assert_close(weights.sum(dim=-1), ones)
        if name.startswith("decoder") and "self" in name:
            assert (weights.triu(1) == 0).all()
            assert (weights.tril() > 0).sum() == 2 * 4 * 15
        else:
            assert (weights[1, ..., 4:] == 0).all()
            assert (weights[1, ..., :4] > 0).all()
            assert (weights[0] > 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_maps_of_a_first_layer_are_the_loops_over_its_queries_and_keys(stack, kernel):
    model, maps = maps_of(kernel=kernel, n_kv_heads=2)
    ids = SOURCE if stack == "encoder" else TARGET
    layer = getattr(model, stack)[0]
    embedding = model.source_embedding if stack == "encoder" else model.target_embedding
    x = layer.self_residual.norm(embedding(ids))
    attention = layer.self_attention
    q, k = (
        heads_by_loops(linear(x).detach().numpy(), heads)
        for linear, heads in ((attention.q_proj, 4), (attention.k_proj, 2))
    )
    allowed = SOURCE_REAL[:, None, None].numpy() if stack == "encoder" else None
    expected = weights_by_loops(q, k, allowed, causal=stack == "decoder")
    assert_close(maps[f"{stack}.0.self_attention"], torch.from_numpy(expected), rtol=0, atol=1e-12)


def test_maps_over_the_source_come_from_the_encoders_output():
    model, maps = maps_of(norm="post")
    memory = model.encode(SOURCE, SOURCE_REAL)
    layer = model.decoder[0]
    x = model.target_embedding(TARGET)
    x = layer.self_residual(x, lambda y: layer.self_attention(y, causal=True))
    q, k = (
        heads_by_loops(linear(y).detach().numpy(), 4)
        for linear, y in ((layer.cross_attention.q_proj, x), (layer.cross_attention.k_proj, memory))
    )
    expected = weights_by_loops(q, k, SOURCE_REAL[:, None, None].numpy())
    assert_close(maps["decoder.0.cross_attention"], torch.from_numpy(expected), rtol=0, atol=1e-12)


def hooks(model) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


@pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
def test_looking_leaves_no_trace_in_the_model(make):
    model = make()
    before = model(SOURCE, SOURCE_REAL, TARGET)
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    maps = attention_maps(model, SOURCE, SOURCE_REAL, TARGET)
    assert hooks(model) == 0
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert torch.equal(model(SOURCE, SOURCE_REAL, TARGET), before)
    assert not any(weights.requires_grad for weights in maps.values())


def test_hooks_are_removed_after_a_failure_too():
    model = tiny_transformer()
    with pytest.raises(ValueError, match="lies past the model's limit of 48"):
        attention_maps(model, SOURCE, SOURCE_REAL, random_ids(1, 2, 49))
    assert hooks(model) == 0


def test_a_model_in_training_is_refused():
    model = tiny_transformer(dropout=0.1).train()
    with pytest.raises(ValueError, match=r"dropout would falsify the maps: call model.eval\(\)"):
        attention_maps(model, SOURCE, SOURCE_REAL, TARGET)
    assert hooks(model) == 0


def test_a_recurrent_model_has_one_map_of_one_head():
    model = tiny_recurrent().double()
    maps = attention_maps(model, SOURCE, SOURCE_REAL, TARGET)
    assert list(maps) == ["attention"]
    weights = maps["attention"]
    assert weights.shape == (2, 1, 5, 6)
    assert_close(weights.sum(dim=-1), torch.ones(2, 1, 5, dtype=torch.float64))
    assert (weights[1, ..., 4:] == 0).all()
    assert (weights[1, ..., :4] > 0).all()


def test_the_first_row_of_a_recurrent_map_is_the_loops_over_the_first_state():
    model = tiny_recurrent().double()
    weights = attention_maps(model, SOURCE, SOURCE_REAL, TARGET)["attention"]
    attention = model.attention
    for b in range(2):
        annotations, end = annotations_by_loops(model, SOURCE[b, SOURCE_REAL[b]].tolist())
        state = torch.tanh(model.first_state(torch.from_numpy(end))).detach().numpy()
        expected = additive_by_loops(
            state[None, None],
            annotations[None],
            attention.state_proj.weight.detach().numpy().T,
            attention.source_proj.weight.detach().numpy().T,
            attention.source_proj.bias.detach().numpy(),
            attention.score.weight[0].detach().numpy(),
        )[1]
        found = weights[b, 0, 0, SOURCE_REAL[b]]
        assert_close(found, torch.from_numpy(expected[0, 0]), rtol=0, atol=1e-12)
