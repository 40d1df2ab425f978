import golden
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_attention import attention_by_loops, weights_by_loops
from tiny import real_positions, shake
from torch.testing import assert_close

from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
HEADS = pytest.mark.parametrize(
    ("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1)], ids=["multi-head", "grouped", "multi-query"]
)
CLOSE = {torch.float64: {"rtol": 0, "atol": 1e-12}, torch.float32: {"rtol": 0, "atol": 1e-5}}


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def attention_module(d_model: int, heads: int, kv_heads: int | None = None, seed: int = 0):
    torch.manual_seed(seed)
    attention = MultiHeadAttention(d_model, heads, kv_heads).double().eval()
    shake(attention, seed)
    return attention


# attend and attention_weights


@st.composite
def attention_problems(draw):
    kv_heads = draw(st.sampled_from([1, 2]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 3]))
    batch, width, value_width = (draw(st.integers(1, high)) for high in (2, 4, 4))
    keys = draw(st.integers(1, 5))
    causal = draw(st.booleans())
    queries = draw(st.integers(1, keys if causal else 5))
    seed = draw(st.integers(0, 999))
    mask_shape = draw(
        st.sampled_from(
            [
                None,
                (batch, 1, 1, keys),
                (batch, 1, queries, keys),
                (1, 1, queries, keys),
                (batch, heads, queries, keys),
            ]
        )
    )
    allowed = None
    if mask_shape is not None:
        # Few True, so that queries without any key are common.
        allowed = torch.from_numpy(np.random.default_rng(seed).random(mask_shape) < 0.5)
    return {
        "q": normal(seed, batch, heads, queries, width),
        "k": normal(seed + 1, batch, kv_heads, keys, width),
        "v": normal(seed + 2, batch, kv_heads, keys, value_width),
        "allowed": allowed,
        "causal": causal,
        "scale": draw(st.sampled_from([None, 1.0, 0.3])),
    }


@DTYPES
@settings(max_examples=30, deadline=None)
@given(problem=attention_problems())
def test_attend_is_attention_by_loops(dtype, problem):
    q, k, v = (problem[name] for name in "qkv")
    rest = {name: problem[name] for name in ("causal", "scale")}
    allowed = problem["allowed"]
    context = attend(q.to(dtype), k.to(dtype), v.to(dtype), allowed, **rest)
    expected = attention_by_loops(
        q.numpy(), k.numpy(), v.numpy(), None if allowed is None else allowed.numpy(), **rest
    )
    assert context.dtype == dtype
    assert_close(context.double(), torch.from_numpy(expected), **CLOSE[dtype])


@settings(max_examples=30, deadline=None)
@given(problem=attention_problems())
def test_attention_weights_are_those_of_loops_and_give_the_context_of_attend(problem):
    q, k, v, scale = (problem[name] for name in ("q", "k", "v", "scale"))
    allowed = problem["allowed"]
    if problem["causal"]:
        allowed = masks.combine(allowed, masks.causal(q.size(2), k.size(2)))
    weights = attention_weights(q, k, allowed, scale)
    expected = weights_by_loops(
        q.numpy(), k.numpy(), None if allowed is None else allowed.numpy(), scale=scale
    )
    assert_close(weights, torch.from_numpy(expected), **CLOSE[torch.float64])
    v_BHSE = v.repeat_interleave(q.size(1) // v.size(1), dim=1)
    assert_close(weights @ v_BHSE, attend(q, k, v, allowed, scale=scale), rtol=0, atol=1e-12)


@HEADS
@DTYPES
def test_weights_of_each_query_sum_to_one(heads, kv_heads, dtype):
    q, k = normal(1, 2, heads, 3, 4, dtype=dtype), normal(2, 2, kv_heads, 5, 4, dtype=dtype)
    weights = attention_weights(q, k, masks.padding(real_positions([3, 5])))
    assert weights.shape == (2, heads, 3, 5)
    assert_close(weights.sum(dim=-1), torch.ones(2, heads, 3, dtype=dtype))
    assert (weights[0, :, :, 3:] == 0).all()


@HEADS
def test_a_query_that_may_see_nothing_gets_zeros_and_clean_gradients(heads, kv_heads):
    q = normal(1, 2, heads, 3, 4).requires_grad_()
    k, v = (normal(seed, 2, kv_heads, 5, 4).requires_grad_() for seed in (2, 3))
    allowed = masks.padding(real_positions([0, 5]))
    assert (attention_weights(q, k, allowed)[0] == 0).all()
    context = attend(q, k, v, allowed)
    assert (context[0] == 0).all()
    assert (context[1] != 0).all()
    context.square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (q, k, v))
    assert (k.grad[0] == 0).all()


def test_very_unequal_scores_neither_overflow_nor_lose_the_mask():
    q = torch.full((1, 1, 1, 1), 1e4)
    k = torch.tensor([1e4, -1e4, 0.0]).view(1, 1, 3, 1)
    allowed = torch.tensor([False, True, True]).view(1, 1, 1, 3)
    assert attention_weights(q, k, allowed, scale=1.0).flatten().tolist() == [0.0, 0.0, 1.0]
    assert attend(q, k, k, allowed, scale=1.0).item() == 0.0


def test_dropout_keeps_the_expected_context():
    torch.manual_seed(0)
    q, k, v = normal(1, 1, 1, 1, 4), normal(2, 1, 1, 6, 4), normal(3, 1, 1, 6, 4)
    many = [tensor.expand(4000, -1, -1, -1) for tensor in (q, k, v)]
    dropped = attend(*many, dropout=0.3)
    assert dropped.std(dim=0).min() > 0.01
    assert_close(dropped.mean(dim=0), attend(q, k, v)[0], rtol=0, atol=0.05)


# MultiHeadAttention


def torch_twin(ours: MultiHeadAttention, d_model: int, heads: int) -> torch.nn.MultiheadAttention:
    """PyTorch's own module with the weights of ours."""
    twin = torch.nn.MultiheadAttention(d_model, heads, batch_first=True, dtype=torch.float64)
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([linear.weight for linear in projections]))
        twin.in_proj_bias.copy_(torch.cat([linear.bias for linear in projections]))
    twin.out_proj.load_state_dict(ours.out_proj.state_dict())
    return twin.eval()


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_that_of_torch(causal):
    ours = attention_module(12, 3)
    x, real = normal(1, 2, 5, 12), real_positions([5, 3])
    forbidden = ~masks.causal(5, 5)[0, 0] if causal else None
    theirs, _ = torch_twin(ours, 12, 3)(x, x, x, key_padding_mask=~real, attn_mask=forbidden)
    output = ours(x, allowed=masks.padding(real), causal=causal)
    assert_close(output, theirs, rtol=0, atol=1e-12)


def test_cross_attention_is_that_of_torch():
    ours = attention_module(12, 3)
    x, source, real = normal(1, 2, 4, 12), normal(2, 2, 6, 12), real_positions([6, 2])
    theirs, _ = torch_twin(ours, 12, 3)(x, source, source, key_padding_mask=~real)
    output = ours(x, source, masks.padding(real))
    assert_close(output, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_heads_are_multi_head_attention_with_repeated_projections(kv_heads):
    grouped, full = attention_module(16, 4, kv_heads), attention_module(16, 4)
    full.q_proj, full.out_proj = grouped.q_proj, grouped.out_proj
    with torch.no_grad():
        for name in ("k_proj", "v_proj"):
            few, many = getattr(grouped, name), getattr(full, name)
            for tensor in ("weight", "bias"):
                heads = getattr(few, tensor).unflatten(0, (kv_heads, 4))
                repeated = heads.repeat_interleave(4 // kv_heads, dim=0).flatten(0, 1)
                getattr(many, tensor).copy_(repeated)
    x = normal(1, 2, 5, 16)
    expected = full(x, causal=True)
    assert_close(grouped(x, causal=True), expected, rtol=0, atol=1e-12)


def test_fewer_key_value_heads_shrink_keys_values_and_their_projections_only():
    shapes = {name: tuple(p.shape) for name, p in attention_module(16, 4, 2).named_parameters()}
    assert shapes["q_proj.weight"] == shapes["out_proj.weight"] == (16, 16)
    assert shapes["k_proj.weight"] == shapes["v_proj.weight"] == (8, 16)
    k, v = attention_module(16, 4, 2).keys_values(normal(1, 3, 5, 16))
    assert k.shape == v.shape == (3, 2, 5, 4)


def test_key_value_heads_are_as_many_as_heads_unless_told():
    ours, same = attention_module(12, 3), attention_module(12, 3, 3)
    assert ours.k_proj.weight.shape == same.k_proj.weight.shape == (12, 12)


def test_attention_weights_are_dropped_in_training_only():
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.5)
    x = normal(1, 1, 6, 8, dtype=torch.float32)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_a_width_that_heads_cannot_share_is_refused():
    with pytest.raises(ValueError, match="d_model=10 is not a multiple of n_heads=4"):
        MultiHeadAttention(10, 4)


def test_key_value_heads_that_do_not_divide_the_heads_are_refused():
    with pytest.raises(ValueError, match="n_kv_heads=3 does not divide n_heads=4"):
        MultiHeadAttention(16, 4, 3)


# Golden vectors


@DTYPES
@pytest.mark.parametrize(
    "name",
    [
        "mha_self_attention_9_3",
        "causal_padded_self_attention_3_5_4",
        "cross_attention_padded_en_3_5_4_fr_7_6_2",
        "gqa_8_heads_2_kv",
        "mqa_4_heads_1_kv",
        "kv_cache_mha_stepwise",
    ],
)
class TestGoldenVectors:
    def test_module(self, name, dtype):
        case = golden.load(name)
        attention = golden.attention_module(case, dtype)
        real = golden.key_padding(case)
        allowed = None if real is None else masks.padding(real)
        x = golden.tensor(case["inputs"]["query"], dtype)
        if case["config"]["self_attention"]:
            output = attention(x, allowed=allowed, causal=case["config"]["causal"])
        else:
            source = golden.tensor(case["inputs"]["key_value"], dtype)
            output = attention(x, source, allowed)
        expected = golden.tensor(case["expected"]["output"], dtype)
        assert_close(output, expected, **golden.tolerance(case, dtype))

    def test_function(self, name, dtype):
        case = golden.load(name)
        expected = {
            field: golden.tensor(case["expected"][field], dtype)
            for field in ("q", "k", "v", "attention_weights", "context")
        }
        q, k, v = (expected[letter] for letter in "qkv")
        real, causal = golden.key_padding(case), case["config"]["causal"]
        allowed = None if real is None else masks.padding(real)
        context = attend(q, k, v, allowed, causal=causal)
        close = golden.tolerance(case, dtype)
        assert_close(context.transpose(1, 2).flatten(-2), expected["context"], **close)
        if causal:
            allowed = masks.combine(allowed, masks.causal(q.size(2), k.size(2)))
        assert_close(attention_weights(q, k, allowed), expected["attention_weights"], **close)


@DTYPES
def test_worked_softmax_of_golden_vectors(dtype):
    worked = golden.load("softmax_worked_000")
    scores = golden.tensor(worked["inputs"]["scores"], dtype)[None, None]
    identity = torch.eye(3, dtype=dtype)[None, None]
    for case in worked["cases"]:
        allowed = None if case["mask"] is None else torch.tensor(case["mask"])
        weights = attention_weights(scores, identity, allowed, scale=1.0)[0, 0]
        expected = golden.tensor(case["softmax"], dtype)
        assert_close(weights, expected, **golden.tolerance(worked, dtype), msg=case["mask_name"])
