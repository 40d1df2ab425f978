import golden
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2seq.model.cache import BLOCK, DecoderCache, KeysValues, LayerCache


def layer_cache(sentences: int = 3) -> LayerCache:
    return LayerCache(KeysValues(*(torch.randn(sentences, 2, 4, 5) for _ in range(2))))


def new_positions(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 2, length, 5), torch.randn(rows, 2, length, 5)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([1, 2, BLOCK - 1, BLOCK, 3 * BLOCK])),
        st.tuples(st.just("reorder"), st.lists(st.integers(0, 99), min_size=1, max_size=6)),
    ),
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(operations=OPERATIONS)
def test_cache_remembers_what_concatenation_and_indexing_would(operations):
    cache, rows = layer_cache(), 3
    all_k, all_v = new_positions(rows, 0)
    for name, value in [*operations, ("append", 1)]:
        if name == "reorder":
            if not cache.length:
                continue  # before the first token the number of hypotheses is not known
            parents = torch.tensor([parent % rows for parent in value])
            cache.reorder(parents)
            all_k, all_v, rows = all_k[parents], all_v[parents], len(parents)
        else:
            k, v = new_positions(rows, value)
            all_k, all_v = torch.cat([all_k, k], dim=2), torch.cat([all_v, v], dim=2)
            got_k, got_v = cache.append(k, v)
            assert torch.equal(got_k, all_k)
            assert torch.equal(got_v, all_v)
            assert cache.length == all_k.size(2)


def test_more_positions_than_a_block_may_come_at_once():
    cache = layer_cache()
    k, v = new_positions(3, 1 + 3 * BLOCK)
    cache.append(k[:, :, :1], v[:, :, :1])
    got_k, got_v = cache.append(k[:, :, 1:], v[:, :, 1:])
    assert torch.equal(got_k, k)
    assert torch.equal(got_v, v)


def test_reorder_before_the_first_token_changes_nothing():
    cache = layer_cache()
    cache.reorder(torch.tensor([2, 1, 0]))
    k, v = new_positions(3, 1)
    assert torch.equal(cache.append(k, v)[0], k)


def test_another_number_of_hypotheses_is_refused():
    cache = layer_cache()
    cache.append(*new_positions(3, 1))
    with pytest.raises(ValueError, match="the cache holds 3 hypotheses, got 2"):
        cache.append(*new_positions(2, 1))


def test_select_keeps_sources_and_hypotheses_together():
    layers = [layer_cache(), layer_cache()]
    sources = [layer.cross for layer in layers]
    cache = DecoderCache(layers, torch.rand(3, 1, 1, 4) < 0.5)
    source_allowed = cache.source_allowed
    pasts = [layer.append(*new_positions(6, 2)) for layer in layers]  # two beams each
    past_k = [k.clone() for k, _ in pasts]
    sentences, rows = torch.tensor([0, 2]), torch.tensor([1, 0, 4, 4])
    cache.select(sentences, rows)
    assert torch.equal(cache.source_allowed, source_allowed[sentences])
    for layer, (cross_k, cross_v), k in zip(layers, sources, past_k, strict=True):
        assert torch.equal(layer.cross.k, cross_k[sentences])
        assert torch.equal(layer.cross.v, cross_v[sentences])
        new_k, new_v = new_positions(4, 1)
        got, _ = layer.append(new_k, new_v)
        assert torch.equal(got, torch.cat([k[rows], new_k], dim=2))


def test_length_counts_positions_over_all_steps():
    cache = DecoderCache([layer_cache(), layer_cache()], torch.ones(3, 1, 1, 4, dtype=torch.bool))
    assert cache.length == 0
    for layer in cache.layers:
        layer.append(*new_positions(3, 2))
        layer.append(*new_positions(3, 1))
    assert cache.length == 3
    cache.reorder(torch.tensor([0, 0]))
    assert cache.length == 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_steps_of_golden_vectors(dtype):
    case = golden.load("kv_cache_mha_stepwise")
    attention = golden.attention_module(case, dtype)
    x = golden.tensor(case["inputs"]["query"], dtype)
    close = golden.tolerance(case, dtype)
    for chunking in case["incremental"]:
        cache = LayerCache()
        for step in chunking["steps"]:
            assert cache.length == step["start"]
            new = x[:, step["start"] : step["start"] + step["length"]]
            output = attention(new, causal=True, cache=cache)
            assert_close(output, golden.tensor(step["output"], dtype), **close)
        k, v = cache.append(*attention.keys_values(x[:, :0]))
        assert_close(k, golden.tensor(case["expected"]["k"], dtype), **close)
        assert_close(v, golden.tensor(case["expected"]["v"], dtype), **close)
