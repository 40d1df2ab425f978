"""What tutorials teach of attention, and where their code is broken, shown on ours."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_attention import (
    additive_by_loops,
    attention_by_loops,
    heads_by_loops,
    multi_head_by_loops,
    project_by_loops,
    softmax_by_hand,
    weights_by_loops,
    weights_of,
)
from tiny import causal_in_chunks, normal, real_positions, shake, tiny_config, tiny_transformer
from tiny import tiny_attention as module
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from tutorials import per_query, scaled, with_entries

from seq2seq.config import KERNELS
from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights, masked_softmax
from seq2seq.model.kv_cache import KeysValues, KVCache
from seq2seq.model.layers import Residual
from seq2seq.model.positions import SinusoidalPositions
from seq2seq.model.recurrent import AdditiveAttention

BOTH_KERNELS = pytest.mark.parametrize("kernel", KERNELS)
LENGTHS = [3, 5, 4]


def close(got, expected, atol: float = 1e-12) -> None:
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(expected)
    assert_close(got, expected, rtol=0, atol=atol)


def weights_through(q, k, kernel, allowed=None, scale=None, **options):
    """The weights that a kernel really uses: one-hot values show them in the context."""
    q = scaled(q, scale)
    one_hot = torch.eye(k.size(2), dtype=k.dtype).expand(*k.shape[:2], -1, -1)
    return attend(q, k, one_hot, allowed, kernel=kernel, **options)


# One head


@BOTH_KERNELS
def test_attention_without_parameters_averages_the_words_themselves(kernel):
    """softmax(X X' / sqrt(d)) X: rows sum to 1; the tutorial's printed numbers had no seed."""
    x = normal(1, 4, 6, 16)
    weights = weights_through(x[:, None], x[:, None], kernel)
    close(weights.sum(dim=-1), torch.ones(4, 1, 6, dtype=torch.float64))
    attention = module(16, 1, bias=False, kernel=kernel)
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        nn.init.eye_(linear.weight)
    one_head = x[:, None].numpy()
    close(attention(x), attention_by_loops(one_head, one_head, one_head)[:, 0])


@BOTH_KERNELS
def test_one_head_with_biases_scales_by_the_whole_width(kernel):
    """One head: its width is the width of the embedding, so sqrt(embedding) is right here only."""
    attention, x = module(12, 1, kernel=kernel), normal(1, 2, 5, 12)
    q, k, v = (linear(x) for linear in (attention.q_proj, attention.k_proj, attention.v_proj))
    weights = (q @ k.transpose(1, 2) / math.sqrt(12)).softmax(dim=-1)
    close(attention(x), attention.out_proj(weights @ v))


@BOTH_KERNELS
@pytest.mark.parametrize(("key_width", "value_width"), [(2, 4), (24, 28)])
def test_one_query_by_hand_with_values_wider_than_keys(kernel, key_width, value_width):
    """d_k != d_v, matrices as (out, in); the tutorial's prose counted to the wrong word."""
    x = normal(1, 6, 3).numpy()
    w_q, w_k, w_v = (
        normal(2 + i, width, 3).numpy()
        for i, width in enumerate((key_width, key_width, value_width))
    )
    third = 2
    query = [sum(w_q[e, d] * x[third, d] for d in range(3)) for e in range(key_width)]
    omega = []
    for word in x:
        key = [sum(w_k[e, d] * word[d] for d in range(3)) for e in range(key_width)]
        omega.append(sum(a * b for a, b in zip(query, key, strict=True)))
    weights = softmax_by_hand([score / math.sqrt(key_width) for score in omega])
    context = [
        sum(weight * (w_v[f] @ word) for weight, word in zip(weights, x, strict=True))
        for f in range(value_width)
    ]
    q, k, v = (torch.from_numpy(x @ w.T)[None, None] for w in (w_q, w_k, w_v))
    output = attend(q, k, v, kernel=kernel)
    assert output.shape == (1, 1, 6, value_width)
    close(output[0, 0, third], np.array(context))


@BOTH_KERNELS
def test_a_head_of_any_widths_takes_batches(kernel):
    """Keys are transposed in their last two dimensions; the tutorial's `keys.T` took no batch."""
    q, k, v = normal(1, 3, 1, 6, 2), normal(2, 3, 1, 8, 2), normal(3, 3, 1, 8, 4)
    together = attend(q, k, v, kernel=kernel)
    for b in range(3):
        alone = [tensor[b : b + 1] for tensor in (q, k, v)]
        close(together[b : b + 1], attention_by_loops(*(x.numpy() for x in alone)))


@BOTH_KERNELS
def test_the_order_is_scores_then_softmax_then_values(kernel):
    """A context lies between the values; the tutorial listed the softmax after the values."""
    q, k, v = normal(1, 2, 3, 5, 4), normal(2, 2, 3, 6, 4), normal(3, 2, 3, 6, 4)
    context = attend(q, k, v, kernel=kernel)
    assert (context <= v.amax(dim=2, keepdim=True) + 1e-12).all()
    assert (context >= v.amin(dim=2, keepdim=True) - 1e-12).all()


def test_the_query_is_the_row_and_the_key_the_column_of_the_weights():
    """Each row belongs to a query and sums to 1; the tutorial called the row index a value's."""
    q, k = normal(1, 1, 1, 3, 4), normal(2, 1, 1, 5, 4)
    weights = attention_weights(q, k)
    assert weights.shape == (1, 1, 3, 5)
    close(weights[0, 0, 1], np.array(softmax_by_hand((k[0, 0] @ q[0, 0, 1] / 2).tolist())))


# Many heads


def per_head_layers(attention: MultiHeadAttention, heads: int) -> list[dict[str, nn.Linear]]:
    """Q, K and V layers for each head, cut out of the packed ones."""
    layers = []
    for h in range(heads):
        columns = slice(h * attention.head_dim, (h + 1) * attention.head_dim)
        cut = {}
        for letter in "qkv":
            packed = getattr(attention, f"{letter}_proj")
            cut[letter] = nn.Linear(packed.in_features, attention.head_dim).double()
            cut[letter].load_state_dict(
                {"weight": packed.weight[columns], "bias": packed.bias[columns]}
            )
        layers.append(cut)
    return layers


@BOTH_KERNELS
@pytest.mark.parametrize("causal", [False, True])
def test_a_list_of_heads_with_layers_of_their_own_is_the_packed_projection(kernel, causal):
    """9 wide, 3 heads of 3; the tutorial scaled by the embedding and read a global width."""
    attention, x = module(9, 3, kernel=kernel), normal(1, 3, 8, 9)
    contexts = []
    for head in per_head_layers(attention, 3):
        scores = head["q"](x) @ head["k"](x).transpose(1, 2) / math.sqrt(3)
        if causal:
            scores = scores.masked_fill(torch.ones(8, 8).triu(1).bool(), -math.inf)
        contexts.append(scores.softmax(dim=-1) @ head["v"](x))
    expected = attention.out_proj(torch.cat(contexts, dim=-1))
    close(attention(x, causal=causal), expected)


@BOTH_KERNELS
def test_scores_are_scaled_by_the_width_of_a_head_not_of_the_embedding(kernel):
    """1/sqrt(head width); the tutorial's sqrt(d_e) is another result as soon as heads are two."""
    q, k = normal(1, 1, 3, 4, 3), normal(2, 1, 3, 5, 3)
    weights = weights_through(q, k, kernel)
    close(weights, weights_by_loops(q.numpy(), k.numpy(), scale=3**-0.5))
    wrong = torch.from_numpy(weights_by_loops(q.numpy(), k.numpy(), scale=9**-0.5))
    assert (weights - wrong).abs().max() > 0.01


@BOTH_KERNELS
def test_the_scale_is_exact_in_double_precision(kernel):
    """math.sqrt; the tutorial took the root in single precision and lost half of the digits."""
    q, k = 2 * normal(1, 1, 1, 3, 3), 2 * normal(2, 1, 1, 5, 3)
    weights = weights_through(q, k, kernel)
    close(weights, weights_by_loops(q.numpy(), k.numpy(), scale=1 / math.sqrt(3)), atol=1e-14)
    rounded = 1 / torch.tensor(3.0).sqrt().item()
    off = weights_through(q, k, kernel, scale=rounded) - weights
    assert off.abs().max() > 1e-9


def test_head_h_owns_a_run_of_columns_of_each_projection():
    """Linear(9, 9) is three layers of 9 to 3 side by side, which the tutorial miscounted."""
    attention, x = module(9, 3), normal(1, 2, 4, 9)
    k, v = attention.keys_values(x)
    for split, linear in ((k, attention.k_proj), (v, attention.v_proj)):
        weight, bias = linear.weight.detach().numpy().T, linear.bias.detach().numpy()
        close(split, heads_by_loops(project_by_loops(x.numpy(), weight, bias), 3))


@pytest.mark.parametrize("leading", [(5,), (5, 1, 2, 3, 4)])
def test_projections_act_on_the_last_dimension_whatever_stands_before_it(leading):
    """(..., 10) -> (..., 30), each vector alone."""
    projection = module(10, 3, None, 10).q_proj
    x = normal(1, *leading, 10)
    projected = projection(x)
    assert projected.shape == (*leading, 30)
    weight, bias = projection.weight.detach().numpy().T, projection.bias.detach().numpy()
    close(projected, project_by_loops(x.numpy(), weight, bias))


@BOTH_KERNELS
def test_every_batch_row_and_head_is_a_matrix_product_of_its_own(kernel):
    """Batched products: (B, H, T, E) is B * H separate attentions, scores a a' among them."""
    q, k, v = normal(1, 2, 3, 4, 2), normal(2, 2, 3, 5, 2), normal(3, 2, 3, 5, 2)
    together = attend(q, k, v, kernel=kernel)
    for b in range(2):
        for h in range(3):
            one = slice(b, b + 1), slice(h, h + 1)
            close(together[one], attend(q[one], k[one], v[one], kernel=kernel))


@BOTH_KERNELS
def test_the_scores_of_each_head_are_its_own_products(kernel):
    """a @ a' head by head: the weights are the softmax of these products, unscaled."""
    a = normal(1, 1, 2, 3, 4)
    weights = weights_through(a, a, kernel, scale=1.0)
    for h in range(2):
        for t in range(3):
            products = [sum(a[0, h, t, e] * a[0, h, s, e] for e in range(4)) for s in range(3)]
            close(weights[0, h, t], np.array(softmax_by_hand([float(p) for p in products])))


@BOTH_KERNELS
def test_heads_are_joined_side_by_side_on_the_features(kernel):
    """Beside each other; the tutorial joined them on the words: (24, 1) where (6, 4) is due."""
    attention, x = module(8, 4, kernel=kernel), normal(1, 2, 6, 8)
    nn.init.eye_(attention.out_proj.weight)
    before = attention(x)
    with torch.no_grad():
        attention.v_proj.bias[2 * 2 : 3 * 2] += 1.0
    changed = attention(x) - before
    assert changed.shape == (2, 6, 8)
    expected = torch.zeros(2, 6, 8, dtype=torch.float64)
    expected[..., 4:6] = 1.0
    close(changed, expected)


@BOTH_KERNELS
def test_three_heads_by_hand_down_to_the_output_projection(kernel):
    """d_k 24, d_v 28: scores, softmax, joining, output; the tutorial stopped at the projections."""
    x = normal(1, 6, 16)
    w_q, w_k, w_v = normal(2, 3, 24, 16), normal(3, 3, 24, 16), normal(4, 3, 28, 16)
    w_o = normal(5, 3 * 28, 16)
    q, k, v = (torch.einsum("hew,lw->hle", w, x)[None] for w in (w_q, w_k, w_v))
    context = attend(q, k, v, kernel=kernel)
    joined = context[0].transpose(0, 1).flatten(1)
    assert joined.shape == (6, 3 * 28)
    by_hand = np.concatenate(
        [
            attention_by_loops(*(tensor[:, h : h + 1].numpy() for tensor in (q, k, v)))[0, 0]
            for h in range(3)
        ],
        axis=1,
    )
    close(joined @ w_o, by_hand @ w_o.numpy(), atol=1e-9)


@BOTH_KERNELS
def test_two_causal_heads_of_width_one_are_weight_splits(kernel):
    """d_model 2, two heads, causal: (2, 6, 2); the tutorial's mask was as long as its context."""
    attention, x = module(2, 2, kernel=kernel), normal(1, 2, 6, 2)
    expected = multi_head_by_loops(x.numpy(), weights_of(attention), 2, causal=True)
    close(attention(x, causal=True), expected)


@pytest.mark.parametrize(("width", "heads", "head_dim"), [(768, 12, 64), (1600, 25, 64)])
def test_usual_sizes_have_heads_of_64(width, heads, head_dim):
    """768 / 12 and 1600 / 25."""
    with torch.device("meta"):
        attention = MultiHeadAttention(width, heads)
    assert attention.head_dim == head_dim
    assert attention.q_proj.weight.shape == attention.out_proj.weight.shape == (width, width)


def test_widths_and_heads_that_do_not_divide_are_refused_in_words():
    """Before any integer division; the tutorials had an assert, or a product that failed later."""
    with pytest.raises(ValueError, match="d_model=10 is not a multiple of n_heads=4"):
        MultiHeadAttention(10, 4)
    with pytest.raises(ValueError, match="n_kv_heads=3 does not divide n_heads=8"):
        MultiHeadAttention(16, 8, 3)


def test_a_module_without_biases_has_none_not_even_of_its_values():
    """bias=False is honoured everywhere; the tutorial gave its values a bias all the same."""
    attention = module(8, 2, bias=False)
    assert not [name for name, _ in attention.named_parameters() if "bias" in name]
    assert (attention(torch.zeros(1, 3, 8, dtype=torch.float64)) == 0).all()
    x = normal(1, 2, 5, 8)
    close(attention(x), multi_head_by_loops(x.numpy(), weights_of(attention), 2))


def test_a_repeated_word_is_looked_up_in_the_same_row_of_the_table():
    """One id and one vector for a word wherever it stands, times sqrt(width), plus its place."""
    model = tiny_transformer(positions="sinusoidal").double()
    ids = torch.tensor([[3, 7, 3, 5]])
    places = SinusoidalPositions(4, 16).double()(torch.zeros(1, 4, 16, dtype=torch.float64))
    words = model.source_embedding(ids) - places
    close(words[0, 0], words[0, 2], atol=1e-6)
    for t, word in enumerate([3, 7, 3, 5]):
        close(words[0, t], model.source_embedding.tokens.weight[word] * 4.0, atol=1e-6)


# Masks

WORKED = [[7.0, -8.0, 6.0], [-3.0, 2.0, 4.0], [1.0, 6.0, -2.0]]
WORKED_MASKS = {
    "plain": ["111", "111", "111"],
    "padded": ["110", "110", "110"],
    "causal": ["100", "110", "111"],
}


@BOTH_KERNELS
@pytest.mark.parametrize("name", WORKED_MASKS)
def test_the_worked_softmax_is_what_exponentials_give(name, kernel):
    """Plain, padded and causal; the tutorial misprints 0.000333 as 0.003."""
    may = [[mark == "1" for mark in row] for row in WORKED_MASKS[name]]
    expected = []
    for scores, row in zip(WORKED, may, strict=True):
        exponentials = [math.exp(s) if ok else 0.0 for s, ok in zip(scores, row, strict=True)]
        expected.append([e / sum(exponentials) for e in exponentials])
    scores, allowed = torch.tensor(WORKED, dtype=torch.float64), torch.tensor(may)
    close(masked_softmax(scores, allowed), np.array(expected))
    identity = torch.eye(3, dtype=torch.float64)[None, None]
    fused = weights_through(
        scores[None, None], identity, kernel, per_query(allowed), scale=1.0
    )
    close(fused[0, 0], np.array(expected))
    if name != "padded":
        assert expected[2][2] == pytest.approx(0.000333, abs=1e-6)


@BOTH_KERNELS
def test_a_padding_mask_may_broadcast_or_be_repeated(kernel):
    """(B, 1, 1, N) is (B, 1, N, N) and (B, H, N, N); the tutorial held that SDPA needs the copy."""
    q, k, v = (normal(seed, 3, 2, 5, 4) for seed in (1, 2, 3))
    short = masks.padding(real_positions(LENGTHS))
    assert short.shape == (3, 1, 1, 5)
    expected = attend(q, k, v, short, kernel=kernel)
    for repeated in (short.expand(-1, -1, 5, -1).clone(), short.expand(-1, 2, 5, -1).clone()):
        close(attend(q, k, v, repeated, kernel=kernel), expected)
    by_loops = attention_by_loops(q.numpy(), k.numpy(), v.numpy(), short.numpy())
    close(expected, by_loops)


@BOTH_KERNELS
@pytest.mark.parametrize("causal", [False, True])
def test_masking_leaves_every_argument_as_it_was(kernel, causal):
    """The tutorial filled its scores in place, so that its second method showed nothing."""
    real = real_positions(LENGTHS)
    allowed = masks.padding(real)
    arguments = [normal(1, 3, 5, 8), real, allowed]
    before = [tensor.clone() for tensor in arguments]
    masks.combine(allowed, masks.causal(5, 5))
    per_query(allowed[:, 0].expand(-1, 5, -1))
    module(8, 2, kernel=kernel)(arguments[0], allowed=allowed, causal=causal)
    scores = normal(2, 3, 5)
    kept = scores.clone()
    masked_softmax(scores, real)
    assert all(torch.equal(*pair) for pair in zip(arguments, before, strict=True))
    assert torch.equal(scores, kept)


def test_causal_and_padding_together_are_the_table_of_8_with_4_real_words():
    """Key j is seen by query i if j <= i and j is real."""
    allowed = masks.combine(masks.padding(real_positions([4], 8)), masks.causal(8, 8))
    expected = [[j <= i and j < 4 for j in range(8)] for i in range(8)]
    assert allowed.tolist() == [[expected]]


@BOTH_KERNELS
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_never_seen_causal_or_not(causal, train, kernel):
    """The tutorial read its padding mask in the causal branch only."""
    attention = module(9, 3, dropout=0.3, kernel=kernel).train(train)
    x, real = normal(1, 3, 5, 9), real_positions(LENGTHS)
    other = torch.where(real[..., None], x, 7.0)
    outputs = []
    for words in (x, other):
        torch.manual_seed(5)
        outputs.append(attention(words, allowed=masks.padding(real), causal=causal))
    assert not torch.equal(x, other)
    close(outputs[0][real], outputs[1][real])
    if not train:
        expected = multi_head_by_loops(
            x.numpy(),
            weights_of(attention),
            3,
            allowed=masks.padding(real).numpy(),
            causal=causal,
        )
        close(outputs[0], expected)


@BOTH_KERNELS
def test_an_empty_sentence_gets_the_output_bias_and_clean_gradients(kernel):
    """No word to see: zero weights; the tutorial's softmax of -inf alone made NaN of the row."""
    attention, x = module(9, 3, kernel=kernel), normal(1, 3, 5, 9).requires_grad_()
    allowed = masks.padding(real_positions([0, 5, 4]))
    output = attention(x, allowed=allowed)
    close(output[0], attention.out_proj.bias.expand(5, -1))
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in [x, *attention.parameters()])


@BOTH_KERNELS
def test_padding_at_the_left_of_a_causal_sequence_makes_no_nan(kernel):
    """The first queries see nothing; the tutorial's outputs and all its gradients were NaN."""
    attention, x = module(9, 3, kernel=kernel), normal(1, 3, 5, 9).requires_grad_()
    real = real_positions(LENGTHS).flip(1)
    output = attention(x, allowed=masks.padding(real), causal=True)
    assert output.isfinite().all()
    output[real].square().sum().backward()
    assert all(p.grad.isfinite().all() for p in [x, *attention.parameters()])
    assert (x.grad[~real] == 0).all()
    for b, length in enumerate(LENGTHS):
        close(output[b : b + 1, -length:], attention(x[b : b + 1, -length:], causal=True))


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_a_mask_of_lengths_may_be_true_or_one(kind):
    """Zeros and ones of any type; the tutorial inverted its mask bit by bit, booleans only."""
    real = real_positions(LENGTHS)
    assert torch.equal(masks.padding(real.to(kind))[:, 0, 0], real)
    x, attention = normal(1, 3, 5, 9), module(9, 3)
    expected = attention(x, allowed=masks.padding(real))
    close(attention(x, allowed=masks.padding(real.to(kind))), expected)


@BOTH_KERNELS
@pytest.mark.parametrize("raw", ["sentences by keys", "queries by keys for each sentence"])
def test_a_raw_mask_is_refused_even_where_its_sizes_happen_to_fit(raw, kernel):
    """(B, S) with B = S, (B, T, S) with B = H: the tutorials read them as other dimensions."""
    attention, x = module(8, 4, kernel=kernel), normal(1, 4, 4, 8)
    real = real_positions([1, 2, 3, 4])
    mask = real if raw == "sentences by keys" else real[:, None].expand(-1, 4, -1)
    with pytest.raises(ValueError, match=r"does not broadcast.*masks.padding.*mask\[:, None\]"):
        attention(x, allowed=mask)
    right = masks.padding(real) if mask.dim() == 2 else per_query(mask)
    close(attention(x, allowed=right), attention(x, allowed=masks.padding(real)))


@BOTH_KERNELS
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_sequence_first_mask_for_each_query_is_permuted_once(batch, queries, kernel):
    """(queries or 1, keys, batch or 1); the tutorial could take no mask without a batch."""
    attention, x = module(8, 2, kernel=kernel), normal(1, 5, 2, 8)
    mask = np.random.default_rng(0).random((queries, 5, batch)) < 0.7
    allowed = per_query(torch.from_numpy(mask).permute(2, 0, 1))
    assert allowed.shape == (batch, 1, queries, 5)
    output = attention(x.transpose(0, 1), allowed=allowed).transpose(0, 1)
    full = np.broadcast_to(mask, (5, 5, 2)).transpose(2, 0, 1)[:, None]
    expected = multi_head_by_loops(
        x.transpose(0, 1).numpy(), weights_of(attention), 2, allowed=full
    )
    close(output, expected.swapaxes(0, 1))
    if batch == 1:
        without_batch = per_query(torch.from_numpy(mask[..., 0]))
        close(attention(x.transpose(0, 1), allowed=without_batch).transpose(0, 1), output)


@BOTH_KERNELS
def test_renormalised_rows_are_the_softmax_of_scores_at_minus_infinity(kernel):
    """tril * weights, divided by their sums, is -inf above the diagonal before the softmax."""
    q, k = normal(1, 1, 1, 6, 2), normal(2, 1, 1, 6, 2)
    unmasked = weights_through(q, k, kernel)
    simple = unmasked * torch.ones(6, 6, dtype=torch.float64).tril()
    assert (simple.sum(dim=-1) < 0.99).any()
    renormalised = simple / simple.sum(dim=-1, keepdim=True)
    close(weights_through(q, k, kernel, causal=True), renormalised)
    close(
        weights_through(q, k, kernel, causal=True),
        weights_by_loops(q.numpy(), k.numpy(), causal=True),
    )


def test_no_mask_is_kept_so_that_any_length_goes_and_none_is_saved():
    """The tutorial saved a float mask of one context length, and longer inputs failed in it."""
    attention = module(8, 2)
    assert not list(attention.buffers())
    assert not [name for name in tiny_transformer().state_dict() if "mask" in name]
    long = normal(1, 1, 70, 8)
    close(attention(long, causal=True)[:, :3], attention(long[:, :3], causal=True))


# Over another sequence


@BOTH_KERNELS
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_over_padded_sentences_is_the_loops(causal, kernel):
    """Lengths 3, 5, 4, width 9, 3 heads, masked then softmaxed, with and without causality."""
    attention, x = module(9, 3, kernel=kernel), normal(1, 3, 5, 9)
    allowed = masks.padding(real_positions(LENGTHS))
    expected = multi_head_by_loops(
        x.numpy(), weights_of(attention), 3, allowed=allowed.numpy(), causal=causal
    )
    close(attention(x, allowed=allowed, causal=causal), expected)


@BOTH_KERNELS
def test_french_queries_read_english_keys_and_only_english_padding_matters(kernel):
    """English 3, 5, 4, French 7, 6, 2, width 18; the tutorial's prose swapped the languages."""
    attention = module(18, 3, kernel=kernel)
    english, french = normal(1, 3, 5, 18), normal(2, 3, 7, 18)
    allowed = masks.padding(real_positions(LENGTHS))
    output = attention(french, english, allowed)
    assert output.shape == french.shape
    expected = multi_head_by_loops(
        french.numpy(), weights_of(attention), 3, source=english.numpy(), allowed=allowed.numpy()
    )
    close(output, expected)
    french_real = real_positions([7, 6, 2])
    padded = torch.where(french_real[..., None], french, -3.0)
    close(attention(padded, english, allowed)[french_real], output[french_real])


@BOTH_KERNELS
def test_a_source_may_have_another_width_and_length(kernel):
    """The tutorial asked for equal widths, which only its own class needed."""
    attention = module(8, 2, 2, 3, source_dim=5, kernel=kernel)
    x, source = normal(1, 2, 6, 8), normal(2, 2, 4, 5)
    expected = multi_head_by_loops(x.numpy(), weights_of(attention), 2, source=source.numpy())
    close(attention(x, source), expected)


def test_an_empty_source_gives_the_output_bias():
    """Nothing to read is no error and no NaN, for that sentence alone."""
    attention = module(18, 3)
    english, french = normal(1, 3, 5, 18), normal(2, 3, 7, 18)
    output = attention(french, english, masks.padding(real_positions([0, 5, 4])))
    close(output[0], attention.out_proj.bias.expand(7, -1))
    close(output[1:2], attention(french[1:2], english[1:2]))


def test_unequal_batches_of_source_and_target_are_refused_in_words():
    """The tutorial failed in a reshape."""
    with pytest.raises(ValueError, match=r"batches of q, k and v differ.*q \(3.*k \(2"):
        module(18, 3)(normal(1, 3, 7, 18), normal(2, 2, 5, 18))


@BOTH_KERNELS
def test_causal_attention_over_a_source_is_refused(kernel):
    """The tutorial took the flag and silently ignored it."""
    with pytest.raises(ValueError, match="causal, rotary and cache belong to self-attention"):
        module(18, 3, kernel=kernel)(normal(1, 3, 7, 18), normal(2, 3, 5, 18), causal=True)


# Fused kernels


@BOTH_KERNELS
@pytest.mark.parametrize("math_backend", [False, True])
def test_a_mask_beside_causality_trains_with_dropout_under_every_kernel(kernel, math_backend):
    """The tutorial gave SDPA both, which its slow kernel refuses: the first training step died."""
    attention = module(9, 3, dropout=0.1, kernel=kernel).train()
    x, allowed = normal(1, 3, 5, 9), masks.padding(real_positions(LENGTHS))
    backends = [SDPBackend.MATH] if math_backend else list(SDPBackend.__members__.values())[1:]
    with sdpa_kernel(backends):
        output = attention(x, allowed=allowed, causal=True)
        output.square().sum().backward()
    assert output.isfinite().all()
    assert all(p.grad.isfinite().all() for p in attention.parameters())
    attention.eval()
    with sdpa_kernel(backends):
        expected = multi_head_by_loops(
            x.numpy(), weights_of(attention), 3, allowed=allowed.numpy(), causal=True
        )
        close(attention(x, allowed=allowed, causal=True), expected)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention_does_what_the_written_out_one_does(masked, causal, dropout):
    """One mask, expanded, and the dropout rate; the tutorial's fused path had neither."""
    x = normal(1, 4, 4, 8)
    allowed = masks.padding(real_positions([1, 4, 2, 3])) if masked else None
    twins = [module(8, 2, dropout=dropout, kernel=kernel) for kernel in KERNELS]
    outputs = [twin(x, allowed=allowed, causal=causal) for twin in twins]
    close(*outputs)
    for twin, output in zip(twins, outputs, strict=True):
        same_in_training = torch.allclose(twin.train()(x, allowed=allowed, causal=causal), output)
        assert same_in_training == (dropout == 0)


@BOTH_KERNELS
def test_a_single_new_query_sees_all_cached_keys(kernel):
    """SDPA's own causal flag aligns to the first key, so one query would see only that one."""
    q, k, v = normal(1, 2, 2, 1, 4), normal(2, 2, 2, 5, 4), normal(3, 2, 2, 5, 4)
    expected = attention_by_loops(q.numpy(), k.numpy(), v.numpy())
    close(attend(q, k, v, kernel=kernel, causal=True), expected)


# Dropout


@BOTH_KERNELS
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_dropout_divides_the_weights_it_keeps_by_one_minus_its_rate(rate, kernel):
    """After the softmax, not renormalised; "1 / rate" as in the tutorial is right at 0.5 only."""
    torch.manual_seed(0)
    q, k = normal(1, 4, 2, 8, 4), normal(2, 4, 2, 8, 4)
    weights = torch.from_numpy(weights_by_loops(q.numpy(), k.numpy(), causal=True))
    dropped = weights_through(q, k, kernel, causal=True, dropout=rate)
    kept = dropped != 0
    close(dropped[kept], (weights / (1 - rate))[kept])
    visible = weights > 0
    assert 0.7 < kept[visible].double().mean() / (1 - rate) < 1.3


@BOTH_KERNELS
def test_dropout_of_weights_is_off_in_evaluation(kernel):
    """Train only, and in the fused kernel too, whose dropout torch never turns off itself."""
    dropping, plain = module(8, 2, dropout=0.5, kernel=kernel), module(8, 2, kernel=kernel)
    x = normal(1, 2, 6, 8)
    assert torch.equal(dropping(x), plain(x))
    assert not torch.allclose(dropping.train()(x), plain(x))


def test_returned_weights_are_those_before_dropout_and_nothing_is_kept():
    """Rows sum to 1; the tutorial kept dropped weights in the module, whose rows do not."""
    attention, x = module(8, 2, dropout=0.5).train(), normal(1, 2, 6, 8)
    attributes = set(vars(attention))
    weights = attention.weights(x, causal=True)
    close(weights.sum(dim=-1), torch.ones(2, 2, 6, dtype=torch.float64))
    q = attention.q_proj(x).unflatten(-1, (2, 4)).transpose(1, 2)
    k = attention.keys_values(x).k
    close(weights, weights_by_loops(q.detach().numpy(), k.detach().numpy(), causal=True))
    assert set(vars(attention)) == attributes


def test_dropout_after_the_output_projection_drops_single_numbers():
    """The residual block's: plain dropout, where the tutorial's text named a 2-D one."""
    torch.manual_seed(0)
    block, x = normal(1, 3, 8, 16), normal(2, 3, 8, 16)
    residual = Residual(tiny_config(dropout=0.25)).double()
    added = residual(x, lambda _: block) - x
    kept = added.abs() > 1e-9
    close(added[kept], (block / 0.75)[kept])
    assert 0 < kept.double().mean(dim=-1).min() < 1
    assert kept.any(dim=1).all()
    close(residual.eval()(x, lambda _: block) - x, block)


# Fewer key/value heads


@BOTH_KERNELS
def test_full_width_heads_averaged_are_one_output_layer_of_their_stack(kernel):
    """Heads as wide as the embedding, one key and value, mean of H outputs: W_o = stack / H."""
    x = normal(1, 2, 5, 8)
    queries = [nn.Linear(8, 8, bias=False).double() for _ in range(4)]
    key, value = (nn.Linear(8, 8, bias=False).double() for _ in range(2))
    outputs = [nn.Linear(8, 8).double() for _ in range(4)]
    each = []
    for query, output in zip(queries, outputs, strict=True):
        scores = query(x) @ key(x).transpose(1, 2) / math.sqrt(8)
        each.append(output(scores.softmax(dim=-1) @ value(x)))
    ours = module(8, 4, 1, 8, kernel=kernel)
    with torch.no_grad():
        for linear in (ours.q_proj, ours.k_proj, ours.v_proj):
            linear.bias.zero_()
        ours.q_proj.weight.copy_(torch.cat([query.weight for query in queries]))
        ours.k_proj.weight.copy_(key.weight)
        ours.v_proj.weight.copy_(value.weight)
        ours.out_proj.weight.copy_(torch.cat([o.weight for o in outputs], dim=1) / 4)
        ours.out_proj.bias.copy_(torch.stack([o.bias for o in outputs]).mean(dim=0))
    close(ours(x), torch.stack(each).mean(dim=0))


def test_one_shared_key_and_value_head_has_fewer_parameters():
    """Multi-query heads of the usual width save; the tutorial's full-width ones cost four times."""
    sizes = {
        name: sum(p.numel() for p in MultiHeadAttention(*arguments, bias=False).parameters())
        for name, arguments in {
            "multi-head": (64, 8),
            "multi-query": (64, 8, 1),
            "full-width": (64, 8, 1, 64),
        }.items()
    }
    assert sizes["multi-query"] == 2 * 64 * 64 + 2 * 64 * 8 < sizes["multi-head"] == 4 * 64 * 64
    assert sizes["full-width"] > 4 * sizes["multi-head"]


@BOTH_KERNELS
@pytest.mark.parametrize("kv_heads", [None, 1, 2, 4, 8])
@pytest.mark.parametrize("batch", [1, 3])
def test_query_head_h_reads_key_value_head_h_over_group(batch, kv_heads, kernel):
    """Any divisor, any batch, None = all heads; the tutorial's class worked for none of them."""
    attention, x = module(16, 8, kv_heads, kernel=kernel), normal(1, batch, 6, 16)
    expected = multi_head_by_loops(x.numpy(), weights_of(attention), 8, kv_heads)
    close(attention(x), expected)


@BOTH_KERNELS
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_shared_heads_are_repeated_in_a_run_not_tiled(kv_heads, kernel):
    """Repeating each key/value head in a run gives multi-head attention, repeating all does not."""
    grouped, full = module(16, 4, kv_heads, kernel=kernel), module(16, 4, kernel=kernel)
    full.q_proj, full.out_proj = grouped.q_proj, grouped.out_proj
    x = normal(1, 2, 5, 16)
    expected = grouped(x)

    def with_heads(order: list[int]) -> torch.Tensor:
        for letter in "kv":
            few, many = getattr(grouped, f"{letter}_proj"), getattr(full, f"{letter}_proj")
            for name in ("weight", "bias"):
                heads = getattr(few, name).detach().unflatten(0, (kv_heads, 4))
                getattr(many, name).data = torch.cat([heads[h] for h in order])
        return full(x)

    close(with_heads([h * kv_heads // 4 for h in range(4)]), expected)
    if kv_heads == 2:
        assert not torch.allclose(with_heads([0, 1, 0, 1]), expected)


# Cache and memory


CHUNKS = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@BOTH_KERNELS
@settings(max_examples=15, deadline=None)
@given(chunks=CHUNKS, kv_heads=st.sampled_from([1, 2, 4]))
def test_steps_with_a_cache_are_one_causal_pass(kernel, chunks, kv_heads):
    """Query i of a chunk at s sees 0..s+i; the tutorial's cache had its dimensions swapped."""
    attention = module(8, 4, kv_heads, kernel=kernel)
    x = normal(1, 2, sum(chunks), 8)
    cache = KVCache(capacity=sum(chunks)).layer(0)
    steps = [attention(part, causal=True, cache=cache) for part in x.split(chunks, dim=1)]
    close(torch.cat(steps, dim=1), attention(x, causal=True))
    k, v = cache.append(*attention.keys_values(x[:, :0]))
    assert k.shape == v.shape == (2, kv_heads, sum(chunks), 2)


@BOTH_KERNELS
def test_a_stepwise_output_is_the_loops_over_all_words_so_far(kernel):
    """Token by token, against loops that know no cache."""
    attention, x = module(6, 3, kernel=kernel), normal(1, 2, 4, 6)
    cache = KVCache().layer(0)
    for t in range(4):
        so_far = multi_head_by_loops(x[:, : t + 1].numpy(), weights_of(attention), 3)
        close(attention(x[:, t : t + 1], causal=True, cache=cache)[:, 0], so_far[:, -1])


def test_a_full_cache_says_how_much_it_holds():
    """The tutorial wrote past its end, or failed in a copy."""
    attention, cache = module(8, 2), KVCache(capacity=5).layer(0)
    attention(normal(1, 2, 4, 8), causal=True, cache=cache)
    with pytest.raises(ValueError, match="room for 5 positions and holds 4: 2 more do not fit"):
        attention(normal(2, 2, 2, 8), causal=True, cache=cache)


def test_a_new_cache_begins_again_with_any_batch():
    """The tutorial fixed the batch when it made the module, and had no reset."""
    attention, cache = module(8, 2), KVCache().layer(0)
    attention(normal(1, 2, 4, 8), causal=True, cache=cache)
    with pytest.raises(ValueError, match="2 hypotheses, got 3"):
        attention(normal(2, 3, 1, 8), causal=True, cache=cache)
    x = normal(2, 3, 4, 8)
    close(attention(x, causal=True, cache=KVCache().layer(0)), attention(x, causal=True))


def new_nothing(attention: MultiHeadAttention) -> KeysValues:
    """Keys and values of no position, to look into a cache of two sentences."""
    return attention.keys_values(normal(1, 2, 0, 8))


def test_no_gradient_flows_into_the_cached_past():
    """The cache keeps numbers, not graphs."""
    attention, cache = module(8, 2), KVCache().layer(0)
    first, second = (normal(seed, 2, 3, 8).requires_grad_() for seed in (1, 2))
    attention(first, causal=True, cache=cache)
    assert not any(stored.requires_grad for stored in cache.append(*new_nothing(attention)))
    attention(second, causal=True, cache=cache).sum().backward()
    assert first.grad is None
    assert second.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_module_and_cache_follow_a_change_of_precision(dtype):
    """The tutorial's caches and masks were plain tensors, left behind by .double()."""
    attention = MultiHeadAttention(8, 2).to(dtype)
    cache = KVCache().layer(0)
    x = normal(1, 2, 3, 8).to(dtype)
    attention(x, causal=True, cache=cache)
    assert attention(x[:, :1], causal=True, cache=cache).dtype == dtype
    assert cache.append(*attention.keys_values(x[:, :0])).k.dtype == dtype
    assert not [name for name in attention.state_dict() if "cache" in name]


@BOTH_KERNELS
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_memory_stands_before_all_keys_and_every_query_sees_it(masked, causal, kv_heads, kernel):
    """m entries before K and V; the tutorial failed to join them and took softmax over queries."""
    attention, x = module(8, 4, kv_heads, kernel=kernel), normal(1, 2, 5, 8)
    memory = KeysValues(normal(2, kv_heads, 3, 2), normal(3, kv_heads, 3, 2))
    allowed = masks.padding(real_positions([3, 5])) if masked else None
    output = with_entries(attention, x, memory, allowed, causal=causal)
    q = attention.q_proj(x).unflatten(-1, (4, 2)).transpose(1, 2)
    k, v = (
        torch.cat([entries.expand(2, -1, -1, -1), own], dim=2).detach().numpy()
        for entries, own in zip(memory, attention.keys_values(x), strict=True)
    )
    may = np.ones((2, 1, 5, 8), dtype=bool)
    for b, t, s in np.ndindex(2, 5, 5):
        real = not masked or s < [3, 5][b]
        may[b, 0, t, 3 + s] = real and (not causal or s <= t)
    context = attention_by_loops(q.detach().numpy(), k, v, may)
    expected = project_by_loops(
        np.concatenate([context[:, h] for h in range(4)], axis=-1),
        attention.out_proj.weight.detach().numpy().T,
        attention.out_proj.bias.detach().numpy(),
    )
    close(output, expected)


@BOTH_KERNELS
@pytest.mark.parametrize("keys", [1, 4])
@pytest.mark.parametrize("broadcast", [False, True])
def test_memory_is_seen_even_by_a_query_that_sees_no_word(broadcast, keys, kernel):
    """Where padding hides all words, one or more, the memory alone is averaged."""
    attention, x = module(8, 2, kernel=kernel), normal(1, 1, keys, 8)
    memory = KeysValues(normal(2, 2, 3, 4), normal(3, 2, 3, 4))
    allowed = torch.zeros(1, 1, 1, 1 if broadcast else keys, dtype=torch.bool)
    q = attention.q_proj(x).unflatten(-1, (2, 4)).transpose(1, 2).detach().numpy()
    context = torch.from_numpy(attention_by_loops(q, *(part[None].numpy() for part in memory)))
    expected = attention.out_proj(context.transpose(1, 2).flatten(-2))
    close(with_entries(attention, x, memory, allowed), expected)


@BOTH_KERNELS
@settings(max_examples=10, deadline=None)
@given(chunks=CHUNKS, masked=st.booleans())
def test_memory_and_cache_go_together(kernel, chunks, masked):
    """In any chunks the memory is seen as in one pass, and is no position of the cache."""
    attention, length = module(8, 4, 2, kernel=kernel), sum(chunks)
    x, memory = normal(1, 2, length, 8), KeysValues(normal(2, 2, 3, 2), normal(3, 2, 3, 2))
    real, cache = real_positions([length, 1]).flip(1) if masked else None, KVCache()

    def reading(part, **options):
        return with_entries(attention, part, memory, **options)

    outputs = causal_in_chunks(reading, x, chunks, cache, real)
    allowed = None if real is None else masks.padding(real)
    close(outputs, reading(x, allowed=allowed, causal=True))
    assert cache.length == length


# Additive attention


@pytest.mark.parametrize("masked", [False, True])
def test_additive_attention_is_the_alignment_network_by_loops(masked):
    """v . tanh(W s + U h + b), softmax, average; the tutorial gave no formula."""
    attention = AdditiveAttention(4, 6, 5).double()
    shake(attention, 1)
    states, annotations = normal(1, 3, 2, 4), normal(2, 3, 5, 6)
    allowed = masks.padding(real_positions([3, 5, 0]))[:, 0] if masked else None
    contexts, weights = attention(states, annotations, allowed)
    expected = additive_by_loops(
        states.numpy(),
        annotations.numpy(),
        attention.state_proj.weight.detach().numpy().T,
        attention.source_proj.weight.detach().numpy().T,
        attention.source_proj.bias.detach().numpy(),
        attention.score.weight[0].detach().numpy(),
        None if allowed is None else allowed.expand(-1, 2, -1).numpy(),
    )
    close(contexts, expected[0])
    close(weights, expected[1])
