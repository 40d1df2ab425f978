
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_attention import attention_by_loops, multi_head_by_loops, weights_by_loops, weights_of
from tiny import causal_in_chunks, normal, real_positions
from tiny import tiny_attention as module
from torch.testing import assert_close
from tutorials import per_query, scaled

from seq2seq.config import KERNELS
from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights, masked_softmax
from seq2seq.model.fused_attention import fused_arguments, fused_backend
from seq2seq.model.kv_cache import KVCache
from seq2seq.model.positions import RotaryPositions

BOTH_KERNELS = pytest.mark.parametrize("kernel", KERNELS)
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
HEADS = pytest.mark.parametrize(
    ("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1)], ids=["multi-head", "grouped", "multi-query"]
)
CLOSE = {torch.float64: {"rtol": 0, "atol": 1e-12}, torch.float32: {"rtol": 0, "atol": 1e-5}}
EXACT = CLOSE[torch.float64]


def chance(seed: int, share: float, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape) < share)


# attend


@st.composite
def attention_problems(draw, least_keys=1):
    kv_heads = draw(st.sampled_from([1, 2]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 3]))
    batch, width, value_width = (draw(st.integers(1, high)) for high in (2, 4, 4))
    keys = draw(st.integers(least_keys, 5))
    causal = draw(st.booleans())
    queries = draw(st.integers(1, keys if causal else 5))
    seed = draw(st.integers(0, 999))
    full = (batch, heads, queries, keys)
    allowed = None
    if draw(st.booleans()):
        shape = [size if draw(st.booleans()) else 1 for size in full]
        allowed = chance(seed, 0.5, *shape)  # few True: queries without any key are common
    return {
        "q": normal(seed, batch, heads, queries, width),
        "k": normal(seed + 1, batch, kv_heads, keys, width),
        "v": normal(seed + 2, batch, kv_heads, keys, value_width),
        "allowed": allowed,
        "causal": causal,
        "scale": draw(st.sampled_from([None, 1.0, 0.3])),
    }


def by_loops(problem, function):
    arrays = {
        name: part.numpy() if isinstance(part, torch.Tensor) else part
        for name, part in problem.items()
    }
    if function is weights_by_loops:
        del arrays["v"]
    return torch.from_numpy(function(**arrays))


@DTYPES
@BOTH_KERNELS
@settings(max_examples=30, deadline=None)
@given(problem=attention_problems())
def test_attend_is_attention_by_loops(kernel, dtype, problem):
    q, k, v = (problem[name].to(dtype) for name in "qkv")
    rest = {name: problem[name] for name in ("allowed", "causal")}
    context = attend(scaled(q, problem["scale"]), k, v, kernel=kernel, **rest)
    assert context.dtype == dtype
    assert_close(context.double(), by_loops(problem, attention_by_loops), **CLOSE[dtype])


@settings(max_examples=30, deadline=None)
@given(problem=attention_problems())
def test_weights_are_those_of_loops(problem):
    q = scaled(problem["q"], problem["scale"])
    weights = attention_weights(q, problem["k"], problem["allowed"], causal=problem["causal"])
    assert_close(weights, by_loops(problem, weights_by_loops), **EXACT)


@BOTH_KERNELS
@settings(max_examples=30, deadline=None)
@given(problem=attention_problems(), share=st.sampled_from([0.0, 0.1, 0.5]))
def test_under_any_mask_blind_queries_get_zeros_and_all_gradients_are_finite(
    kernel, problem, share
):
    q, k, v = (problem[name].requires_grad_() for name in "qkv")
    causal, shape = problem["causal"], (*q.shape[:3], k.size(2))
    allowed = chance(1, share, *shape)
    context = attend(q, k, v, allowed, kernel=kernel, causal=causal)
    order = masks.causal(q.size(2), k.size(2)) if causal else None
    blind = ~masks.combine(allowed, order).expand(shape).any(dim=-1)
    assert (context[blind] == 0).all()
    assert (context[~blind] != 0).all()
    context.square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (q, k, v))
    assert (q.grad[blind] == 0).all()


@BOTH_KERNELS
def test_very_unequal_scores_neither_overflow_nor_lose_the_mask(kernel):
    q = torch.full((1, 1, 1, 1), 1e4)
    k = torch.tensor([1e4, -1e4, 0.0]).view(1, 1, 3, 1)
    allowed = torch.tensor([False, True, True]).view(1, 1, 1, 3)
    v = torch.tensor([5.0, 6.0, 7.0]).view(1, 1, 3, 1)
    assert attend(q, k, v, allowed, kernel=kernel).item() == 7.0


@DTYPES
def test_masked_softmax_is_the_softmax_of_what_is_allowed(dtype):
    scores = normal(1, 4, 6, dtype=dtype)
    allowed = chance(1, 0.5, 4, 6)
    allowed[2] = False
    got = masked_softmax(scores, allowed)
    for row in range(4):
        assert_close(got[row, allowed[row]], scores[row, allowed[row]].softmax(dim=0))
        assert (got[row, ~allowed[row]] == 0).all()
    assert_close(masked_softmax(scores, None), scores.softmax(dim=-1))


@BOTH_KERNELS
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_keeps_the_expected_context_and_finite_gradients(causal, masked, kernel):
    torch.manual_seed(0)
    q, k, v = (normal(seed, 1, 2, 6, 4) for seed in (1, 2, 3))
    allowed = masks.padding(real_positions([4], 6)) if masked else None
    many = [tensor.expand(3000, -1, -1, -1).clone().requires_grad_() for tensor in (q, k, v)]
    dropped = attend(*many, allowed, dropout=0.3, kernel=kernel, causal=causal)
    assert dropped.std(dim=0).min() > 0.01
    expected = attend(q, k, v, allowed, kernel=kernel, causal=causal)
    assert_close(dropped.mean(dim=0), expected[0], rtol=0, atol=0.06)
    dropped.square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in many)


@BOTH_KERNELS
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_dropout_divides_the_weights_it_keeps_by_one_minus_its_rate(rate, kernel):
    """After the softmax, not renormalised; one-hot values show the weights in the context."""
    torch.manual_seed(0)
    q, k = normal(1, 4, 2, 8, 4), normal(2, 4, 2, 8, 4)
    weights = torch.from_numpy(weights_by_loops(q.numpy(), k.numpy(), causal=True))
    one_hot = torch.eye(8, dtype=torch.float64).expand(4, 2, -1, -1)
    dropped = attend(q, k, one_hot, kernel=kernel, causal=True, dropout=rate)
    kept = dropped != 0
    assert_close(dropped[kept], (weights / (1 - rate))[kept], **EXACT)
    assert 0.7 < kept[weights > 0].double().mean() / (1 - rate) < 1.3


@pytest.mark.parametrize("causal", [False, True])
@BOTH_KERNELS
def test_masking_leaves_every_argument_as_it_was(kernel, causal):
    real, scores = real_positions([3, 5, 4]), normal(2, 3, 5)
    arguments = [normal(1, 3, 5, 8), real, masks.padding(real), scores]
    before = [tensor.clone() for tensor in arguments]
    module(8, 2, kernel=kernel)(arguments[0], allowed=arguments[2], causal=causal)
    masked_softmax(scores, real)
    assert all(torch.equal(*pair) for pair in zip(arguments, before, strict=True))


# Mistakes


GOOD = (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)


@BOTH_KERNELS
@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (torch.zeros(2, 1, 1, 5), r"boolean, True = may attend, got torch.float32: masks.padding"),
        (torch.ones(2, 1, 1, 5, dtype=torch.int64), "a mask is boolean.*got torch.int64"),
        (chance(1, 1, 2, 5), r"shape \(2, 5\) does not broadcast to .* = \(2, 4, 3, 5\): give all"),
        (chance(1, 1, 2, 3, 5), r"shape \(2, 3, 5\) does not broadcast.*and mask\[:, None\] of"),
        (chance(1, 1, 2, 1, 1, 6), r"shape \(2, 1, 1, 6\) does not broadcast.*each full or 1"),
        (chance(1, 1, 2, 1, 4, 5), r"shape \(2, 1, 4, 5\) does not broadcast"),
        (chance(1, 1, 2, 2, 3, 5), r"shape \(2, 2, 3, 5\) does not broadcast"),
        (chance(1, 1, 3, 1, 1, 5), r"shape \(3, 1, 1, 5\) does not broadcast"),
    ],
)
def test_a_mask_that_does_not_fit_is_named_with_the_shape_it_should_have(allowed, message, kernel):
    with pytest.raises(ValueError, match=message):
        attend(*(torch.zeros(shape) for shape in GOOD), allowed, kernel=kernel)


@BOTH_KERNELS
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_raw_mask_is_refused_even_where_its_sizes_happen_to_fit(dimensions, kernel):
    """(B, S) with B = S, or (B, T, S) with B = H."""
    real = real_positions([1, 2, 3, 4])
    mask = real if dimensions == 2 else real[:, None].expand(-1, 4, -1)
    with pytest.raises(ValueError, match=r"does not broadcast.*masks.padding.*mask\[:, None\]"):
        module(8, 4, kernel=kernel)(normal(1, 4, 4, 8), allowed=mask)


@BOTH_KERNELS
def test_more_causal_queries_than_keys_are_refused(kernel):
    q, k = torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 3, 2)
    with pytest.raises(ValueError, match="4 queries cannot be the last of 3 keys"):
        attend(q, k, k, causal=True, kernel=kernel)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((10, 4), "d_model=10 is not a multiple of n_heads=4: change one, or set head_dim"),
        ((16, 4, 3), "n_kv_heads=3 does not divide n_heads=4"),
        ((16, 4, 8), "n_kv_heads=8 does not divide n_heads=4"),
    ],
)
def test_impossible_sizes_of_a_module_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(*sizes)


@pytest.mark.parametrize(
    "option",
    [{"causal": True}, {"rotary": RotaryPositions(9, 4)}, {"cache": KVCache().layer(0)}],
    ids=["causal", "rotary", "cache"],
)
@pytest.mark.parametrize("computed", [False, True])
def test_what_belongs_to_self_attention_is_refused_beside_a_source(option, computed):
    attention, x, source = module(8, 2), normal(1, 2, 3, 8), normal(2, 2, 5, 8)
    with pytest.raises(ValueError, match=r"belong to self-attention.*leave out either them or the"):
        attention(x, attention.keys_values(source) if computed else source, **option)


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


@BOTH_KERNELS
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_that_of_torch(causal, kernel):
    ours = module(12, 3, kernel=kernel)
    x, real = normal(1, 2, 5, 12), real_positions([5, 3])
    forbidden = ~masks.causal(5, 5)[0, 0] if causal else None
    theirs, their_weights = torch_twin(ours, 12, 3)(
        x, x, x, key_padding_mask=~real, attn_mask=forbidden, average_attn_weights=False
    )
    output = ours(x, allowed=masks.padding(real), causal=causal)
    assert_close(output, theirs, **EXACT)
    weights = ours.weights(x, allowed=masks.padding(real), causal=causal)
    assert_close(weights, their_weights, **EXACT)


@BOTH_KERNELS
@pytest.mark.parametrize("computed", [False, True])
def test_cross_attention_is_that_of_torch(computed, kernel):
    ours = module(12, 3, kernel=kernel)
    x, source, real = normal(1, 2, 4, 12), normal(2, 2, 6, 12), real_positions([6, 2])
    theirs, _ = torch_twin(ours, 12, 3)(x, source, source, key_padding_mask=~real)
    output = ours(x, ours.keys_values(source) if computed else source, masks.padding(real))
    assert_close(output, theirs, **EXACT)


@BOTH_KERNELS
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "sizes", [(12, 4), (12, 4, 2), (12, 3, 1, 5), (7, 2, 2, 6), (8, 2, 1, 3, 5)], ids=str
)
def test_heads_of_any_number_and_width_are_the_loops(sizes, bias, kernel):
    width = sizes[4] if len(sizes) > 4 else None
    attention = module(*sizes[:4], source_dim=width, bias=bias, kernel=kernel)
    x, heads, kv_heads = normal(1, 2, 4, sizes[0]), sizes[1], (*sizes, None)[2]
    source = None if width is None else normal(2, 2, 6, width)
    expected = multi_head_by_loops(
        x.numpy(),
        weights_of(attention),
        heads,
        kv_heads,
        source=None if source is None else source.numpy(),
        causal=source is None,
    )
    output = attention(x, source, causal=source is None)
    assert_close(output, torch.from_numpy(expected), **EXACT)


def test_widths_of_projections_follow_heads_and_source():
    attention = module(16, 4, 2, 6, source_dim=10)
    shapes = {name: tuple(p.shape) for name, p in attention.named_parameters()}
    assert shapes == {
        "q_proj.weight": (24, 16),
        "q_proj.bias": (24,),
        "k_proj.weight": (12, 10),
        "k_proj.bias": (12,),
        "v_proj.weight": (12, 10),
        "v_proj.bias": (12,),
        "out_proj.weight": (16, 24),
        "out_proj.bias": (16,),
    }
    k, v = attention.keys_values(normal(1, 3, 5, 10))
    assert k.shape == v.shape == (3, 2, 5, 6)


def test_a_state_dict_has_four_projections_and_gives_the_same_module():
    ours, other = module(16, 4, 2, seed=1), module(16, 4, 2, seed=2)
    names = [
        f"{part}_proj.{kind}" for part in ("q", "k", "v", "out") for kind in ("weight", "bias")
    ]
    assert list(ours.state_dict()) == names
    assert list(module(16, 4, bias=False).state_dict()) == names[::2]
    x = normal(1, 2, 5, 16)
    assert not torch.allclose(other(x), ours(x))
    other.load_state_dict(ours.state_dict())
    assert torch.equal(other(x), ours(x))


@BOTH_KERNELS
@pytest.mark.parametrize("cross", [False, True])
def test_normalised_queries_and_keys_are_the_formula(cross, kernel):
    attention = module(12, 4, 2, qk_norm=True, kernel=kernel)
    assert attention.q_norm.weight.shape == attention.k_norm.weight.shape == (3,)
    assert not torch.allclose(attention.q_norm.weight, torch.ones(3, dtype=torch.float64))
    x, source = normal(1, 2, 4, 12), normal(2, 2, 5, 12)
    read = source if cross else x

    def normalised(split, gain):
        mean_square = split.square().mean(dim=-1, keepdim=True)
        return split / (mean_square + torch.finfo(torch.float32).eps).sqrt() * gain

    q = normalised(attention.q_proj(x).unflatten(-1, (4, 3)), attention.q_norm.weight)
    k = normalised(attention.k_proj(read).unflatten(-1, (2, 3)), attention.k_norm.weight)
    v = attention.v_proj(read).unflatten(-1, (2, 3))
    q, k, v = (split.transpose(1, 2).detach().numpy() for split in (q, k, v))
    context = torch.from_numpy(attention_by_loops(q, k, v))
    expected = attention.out_proj(context.transpose(1, 2).flatten(-2))
    assert_close(attention(x, source if cross else None), expected, rtol=0, atol=1e-9)


def test_normalised_scores_do_not_grow_with_the_input():
    normed, plain = module(12, 4, qk_norm=True, bias=False), module(12, 4, bias=False)
    x = normal(1, 2, 4, 12)
    for attention, same in ((normed, True), (plain, False)):
        weights, larger = (attention.weights(scale * x) for scale in (1, 100))
        assert torch.allclose(weights, larger, atol=1e-6) == same


@BOTH_KERNELS
@pytest.mark.parametrize("cross", [False, True])
def test_weights_are_those_of_the_projected_queries_and_keys(cross, kernel):
    attention, x = module(8, 4, 2, kernel=kernel), normal(1, 2, 5, 8)
    source = normal(2, 2, 3, 8) if cross else None
    allowed = masks.padding(real_positions([2, 3 if cross else 5]))
    weights = attention.weights(x, source, allowed, causal=not cross)
    q = attention.q_proj(x).unflatten(-1, (4, 2)).transpose(1, 2)
    k = attention.keys_values(x if source is None else source).k
    expected = weights_by_loops(
        q.detach().numpy(), k.detach().numpy(), allowed.numpy(), causal=not cross
    )
    assert_close(weights, torch.from_numpy(expected), **EXACT)


def test_returned_weights_are_those_before_dropout_and_nothing_is_kept():
    attention, x = module(8, 2, dropout=0.5).train(), normal(1, 2, 6, 8)
    attributes = set(vars(attention))
    assert_close(attention.weights(x, causal=True), attention.eval().weights(x, causal=True))
    assert set(vars(attention)) == attributes


def test_no_gradient_flows_into_the_cached_past():
    attention, cache = module(8, 2), KVCache().layer(0)
    first, second = (normal(seed, 2, 3, 8).requires_grad_() for seed in (1, 2))
    attention(first, causal=True, cache=cache)
    attention(second, causal=True, cache=cache).sum().backward()
    assert first.grad is None
    assert second.grad.abs().sum() > 0


@BOTH_KERNELS
def test_rotary_positions_turn_queries_and_keys_but_not_values(kernel):
    attention, rotary, x = module(8, 2, kernel=kernel), RotaryPositions(9, 4), normal(1, 2, 5, 8)
    q = rotary(attention.q_proj(x).unflatten(-1, (2, 4)).transpose(1, 2))
    k, v = attention.keys_values(x)
    loops = attention_by_loops(*(part.detach().numpy() for part in (q, rotary(k), v)))
    expected = attention.out_proj(torch.from_numpy(loops).transpose(1, 2).flatten(-2))
    assert_close(attention(x, rotary=rotary), expected, **EXACT)


@BOTH_KERNELS
def test_attention_weights_are_dropped_in_training_only(kernel):
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.5, kernel=kernel)
    x = normal(1, 1, 6, 8, dtype=torch.float32)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


@BOTH_KERNELS
@HEADS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_training_with_dropout_is_finite_under_every_kernel(
    masked, causal, heads, kv_heads, kernel
):
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, heads, kv_heads, dropout=0.2, kernel=kernel).train()
    x = normal(1, 3, 5, 8, dtype=torch.float32).requires_grad_()
    allowed = masks.padding(real_positions([0, 5, 2])) if masked else None
    output = attention(x, allowed=allowed, causal=causal)
    output.square().sum().backward()
    assert output.isfinite().all()
    assert all(p.grad.isfinite().all() for p in [x, *attention.parameters()])


@BOTH_KERNELS
@pytest.mark.parametrize("kv_heads", [1, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_half_precision_is_near_single_precision(masked, kv_heads, kernel):
    half = module(32, 4, kv_heads, kernel=kernel).to(torch.bfloat16)
    single = module(32, 4, kv_heads, kernel=kernel).float()
    single.load_state_dict(half.state_dict())
    x = normal(1, 2, 7, 32).to(torch.bfloat16)
    allowed = masks.padding(real_positions([0, 5], 7)) if masked else None
    got, expected = (m(y, allowed=allowed) for m, y in ((half, x), (single, x.float())))
    assert got.dtype == torch.bfloat16
    assert_close(got.float(), expected, rtol=0.02, atol=0.03)


# Properties


SIZES = st.sampled_from([(8, 4, 4), (8, 4, 2), (8, 4, 1)])


@BOTH_KERNELS
@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, causal=st.booleans(), more=st.integers(1, 4), seed=st.integers(0, 99))
def test_more_padding_changes_nothing(kernel, sizes, causal, more, seed):
    attention, x = module(*sizes, kernel=kernel), normal(seed, 2, 4, 8)
    real = real_positions([3, 4])
    longer = torch.cat([x, 50 * normal(seed + 1, 2, more, 8)], dim=1)
    longer_real = torch.nn.functional.pad(real, (0, more))
    output = attention(longer, allowed=masks.padding(longer_real), causal=causal)
    expected = attention(x, allowed=masks.padding(real), causal=causal)
    assert_close(output[:, :4][real], expected[real], **EXACT)


@BOTH_KERNELS
@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, cut=st.integers(1, 5), masked=st.booleans(), seed=st.integers(0, 99))
def test_later_words_never_matter(kernel, sizes, cut, masked, seed):
    attention, x = module(*sizes, kernel=kernel), normal(seed, 2, 6, 8)
    other = torch.cat([x[:, :cut], normal(seed + 1, 2, 6 - cut, 8)], dim=1)
    allowed = masks.padding(chance(seed, 0.6, 2, 6)) if masked else None
    outputs = [attention(words, allowed=allowed, causal=True) for words in (x, other)]
    assert_close(outputs[0][:, :cut], outputs[1][:, :cut], **EXACT)
    seen = torch.ones(2, dtype=torch.bool) if allowed is None else allowed[:, 0, 0, -1]
    assert (outputs[0][:, -1] != outputs[1][:, -1]).any(dim=-1)[seen].all()


@BOTH_KERNELS
@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, order=st.permutations(range(4)), causal=st.booleans(), seed=st.integers(0, 99))
def test_sentences_in_another_order_give_outputs_in_that_order(kernel, sizes, order, causal, seed):
    attention, x = module(*sizes, kernel=kernel), normal(seed, 4, 5, 8)
    allowed = masks.padding(chance(seed, 0.6, 4, 5))
    output = attention(x, allowed=allowed, causal=causal)
    permuted = attention(x[order], allowed=allowed[order], causal=causal)
    assert_close(permuted, output[order], **EXACT)


@BOTH_KERNELS
@settings(max_examples=25, deadline=None)
@given(problem=attention_problems(), data=st.data())
def test_keys_have_no_order_of_their_own(kernel, problem, data):
    q, k, v, allowed = (problem[name] for name in ("q", "k", "v", "allowed"))
    order = data.draw(st.permutations(range(k.size(2))))
    moved = allowed
    if allowed is not None and allowed.size(3) > 1:
        moved = allowed[..., order]
    expected = attend(q, k, v, allowed, kernel=kernel)
    assert_close(attend(q, k[:, :, order], v[:, :, order], moved, kernel=kernel), expected, **EXACT)


@BOTH_KERNELS
def test_as_many_key_value_heads_as_query_heads_are_multi_head_attention(kernel):
    plain, grouped = module(12, 3, kernel=kernel), module(12, 3, 3, kernel=kernel)
    x = normal(1, 2, 5, 12)
    assert torch.equal(grouped(x, causal=True), plain(x, causal=True))
    assert plain.keys_values(x).k.shape == (2, 3, 5, 4)


@BOTH_KERNELS
@settings(max_examples=25, deadline=None)
@given(
    chunks=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    sizes=SIZES,
    rotary=st.booleans(),
    masked=st.booleans(),
)
def test_any_chunks_with_a_cache_are_the_whole(kernel, chunks, sizes, rotary, masked):
    attention, length = module(*sizes, kernel=kernel), sum(chunks)
    turns = RotaryPositions(length, 2) if rotary else None
    x, real = normal(1, 2, length, 8), chance(length, 0.7, 2, length)
    real = real if masked else None
    parts = causal_in_chunks(attention, x, chunks, KVCache(), real, rotary=turns)
    allowed = None if real is None else masks.padding(real)
    assert_close(parts, attention(x, allowed=allowed, causal=True, rotary=turns), **EXACT)


# Compilation


CALLS = {
    "plain": {},
    "causal": {"causal": True},
    "masked": {"allowed": masks.padding(real_positions([0, 5, 3]))},
    "masked and causal": {"allowed": masks.padding(real_positions([2, 5, 3])), "causal": True},
    "cross": {
        "memory": normal(3, 3, 4, 16, dtype=torch.float32),
        "allowed": masks.padding(real_positions([2, 4, 3])),
    },
    "rotary": {"causal": True, "rotary": RotaryPositions(9, 4)},
}


def compiled_is_eager(call: str, kernel: str, kv_heads: int, backend: str) -> None:
    torch._dynamo.reset()
    try:
        attention = module(16, 4, kv_heads, kernel=kernel).float()
        compiled = torch.compile(attention, fullgraph=True, backend=backend)
        options = dict(CALLS[call])
        x = normal(1, 3, 5, 16, dtype=torch.float32)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        got, expected = (
            m(y, **options) for m, y in zip((compiled, attention), inputs, strict=True)
        )
        assert_close(got, expected, rtol=0, atol=1e-5)
        got.square().sum().backward()
        expected.square().sum().backward()
        assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=1e-4)
    finally:
        torch._dynamo.reset()


@BOTH_KERNELS
@pytest.mark.parametrize("call", CALLS)
def test_a_compiled_module_is_one_graph_and_the_eager_one(call, kernel):
    compiled_is_eager(call, kernel, kv_heads=2, backend="aot_eager")


@pytest.mark.slow
def test_a_module_compiled_to_machine_code_is_the_eager_one():
    compiled_is_eager("masked and causal", "sdpa", kv_heads=2, backend="inductor")


# Which kernel of torch runs


FAST = {
    "plain": (4, None, False),
    "causal": (4, None, True),
    "padded": (4, "padding", False),
    "causal and padded": (4, "padding", True),
    "a mask for each query": (4, "per query", False),
    "grouped": (2, None, False),
    "grouped and causal": (2, None, True),
    "grouped and padded": (2, "padding", False),
    "grouped, causal and padded": (2, "padding", True),
    "multi-query, causal and padded": (1, "padding", True),
}


def fast_case(kv_heads, mask, causal, dtype=torch.float32, device="cpu", length=16, width=32):
    q = normal(1, 2, 4, length, width).to(device, dtype)
    k, v = (normal(seed, 2, kv_heads, length, width).to(device, dtype) for seed in (2, 3))
    allowed = {
        None: None,
        "padding": masks.padding(real_positions([length // 2, length])),
        "per query": per_query(chance(1, 0.5, 2, length, length)),
        "blind": masks.padding(real_positions([0, length])),
    }[mask]
    return (q, k, v, None if allowed is None else allowed.to(device)), causal


@pytest.mark.parametrize("case", FAST)
def test_a_fast_kernel_runs(case):
    arguments, causal = fast_case(*FAST[case])
    assert fused_backend(*arguments, causal=causal) == "flash"


def test_dropout_on_a_cpu_and_values_of_another_width_run_the_slow_kernel():
    (q, k, v, _), _ = fast_case(4, None, False)
    assert fused_backend(q, k, v, dropout=0.1) == "math"
    assert fused_backend(q, k, v[..., :8]) == "math"


def test_plain_causality_is_left_to_the_kernel_without_any_mask():
    (q, k, v, _), _ = fast_case(4, None, True)
    arguments = fused_arguments(q, k, v, None, True)
    assert arguments["attn_mask"] is None
    assert arguments["is_causal"] is True


@settings(max_examples=30, deadline=None)
@given(problem=attention_problems())
def test_the_causal_flag_and_a_mask_never_meet(problem):
    q, k, v, allowed = (problem[name] for name in ("q", "k", "v", "allowed"))
    arguments = fused_arguments(q, k, v, allowed, problem["causal"])
    assert not (arguments["is_causal"] and arguments["attn_mask"] is not None)
    if arguments["is_causal"]:
        assert q.size(2) == k.size(2) > 1


def test_grouped_heads_copy_neither_keys_nor_values():
    for case in FAST:
        (q, k, v, allowed), causal = fast_case(*FAST[case])
        arguments = fused_arguments(q, k, v, allowed, causal)
        assert arguments["key"] is k
        assert arguments["value"] is v
        if arguments["attn_mask"] is not None:
            assert arguments["attn_mask"].size(1) == 1  # one mask serves all heads


@pytest.mark.parametrize(("kernel", "calls"), [("sdpa", 2), ("reference", 0)])
def test_a_module_runs_the_kernel_that_it_was_given(kernel, calls, monkeypatch):
    seen = []
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        "seq2seq.model.attention.F.scaled_dot_product_attention",
        lambda **arguments: seen.append(arguments) or fused(**arguments),
    )
    attention, x = module(8, 2, kernel=kernel), normal(1, 2, 5, 8)
    attention(x, causal=True)
    attention(x, normal(2, 2, 3, 8))
    assert len(seen) == calls
    attention.weights(x)  # which the fused kernel cannot give
    assert len(seen) == calls
