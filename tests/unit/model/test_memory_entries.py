"""Attention that also reads given keys and values, written over `attend` in tutorials.py."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_attention import attention_by_loops, project_by_loops
from tiny import causal_in_chunks, normal, real_positions
from tiny import tiny_attention as module
from torch.testing import assert_close
from tutorials import with_entries

from seq2seq.config import KERNELS
from seq2seq.model import masks
from seq2seq.model.kv_cache import KeysValues, KVCache

BOTH_KERNELS = pytest.mark.parametrize("kernel", KERNELS)
EXACT = {"rtol": 0, "atol": 1e-12}


@BOTH_KERNELS
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_memory_stands_before_all_keys_and_every_query_sees_it(masked, causal, kv_heads, kernel):
    """M entries before K and V."""
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
    assert_close(output, torch.from_numpy(expected), **EXACT)


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
    assert_close(with_entries(attention, x, memory, allowed), expected, **EXACT)


@BOTH_KERNELS
@settings(max_examples=10, deadline=None)
@given(chunks=st.lists(st.integers(1, 6), min_size=1, max_size=6), masked=st.booleans())
def test_memory_and_cache_go_together(kernel, chunks, masked):
    """In any chunks the memory is seen as in one pass, and is no position of the cache."""
    attention, length = module(8, 4, 2, kernel=kernel), sum(chunks)
    x, memory = normal(1, 2, length, 8), KeysValues(normal(2, 2, 3, 2), normal(3, 2, 3, 2))
    real, cache = real_positions([length, 1]).flip(1) if masked else None, KVCache()

    def reading(part, **options):
        return with_entries(attention, part, memory, **options)

    outputs = causal_in_chunks(reading, x, chunks, cache, real)
    allowed = None if real is None else masks.padding(real)
    assert_close(outputs, reading(x, allowed=allowed, causal=True), **EXACT)
    assert cache.length == length
