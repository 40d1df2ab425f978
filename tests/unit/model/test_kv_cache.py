"""What a decoder remembers: keys and values of the past, through steps, reorderings and ends."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import random_ids, real_positions, tiny_transformer
from torch.testing import assert_close
from tutorials import PaddedPrefixes, started_again

from seq2seq.config import KERNELS
from seq2seq.model.kv_cache import BLOCK, FixedKVCache, KeysValues, KVCache, TransformerState


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
@given(operations=OPERATIONS, layers=st.sampled_from([1, 3]))
def test_cache_remembers_what_concatenation_and_indexing_would(operations, layers):
    cache, rows = KVCache(layers), 3
    past = [new_positions(rows, 0) for _ in range(layers)]
    for name, value in [*operations, ("append", 1)]:
        if name == "reorder":
            if not cache.length:
                continue  # before the first token the number of hypotheses is not known
            parents = torch.tensor([parent % rows for parent in value])
            cache.reorder(parents)
            past, rows = [(k[parents], v[parents]) for k, v in past], len(parents)
        else:
            for layer in range(layers):
                new = new_positions(rows, value)
                pairs = zip(past[layer], new, strict=True)
                past[layer] = tuple(torch.cat(pair, dim=2) for pair in pairs)
                found = cache.append(layer, *new)
                assert torch.equal(found.k, past[layer][0])
                assert torch.equal(found.v, past[layer][1])
            assert cache.length == past[0][0].size(2)


def test_the_storage_of_a_reordering_grows_with_that_of_the_cache():
    """Two storages take turns: the second must not stay as short as it was made."""
    cache, reverse = KVCache(), torch.tensor([2, 1, 0])
    k, v = new_positions(3, BLOCK)
    cache.append(0, k, v)
    cache.reorder(reverse)
    more_k, more_v = new_positions(3, 1)  # one more than the storage has room for
    cache.append(0, more_k, more_v)
    cache.reorder(reverse)  # the hypotheses of the first block are where they were
    last_k, last_v = new_positions(3, 1)
    found = cache.append(0, last_k, last_v)
    assert torch.equal(found.k, torch.cat([k, more_k[reverse], last_k], dim=2))
    assert torch.equal(found.v, torch.cat([v, more_v[reverse], last_v], dim=2))


def test_reorder_before_the_first_token_changes_nothing():
    cache = KVCache()
    cache.reorder(torch.tensor([2, 1, 0]))
    k, v = new_positions(3, 1)
    assert torch.equal(cache.append(0, k, v).k, k)


def test_a_step_counts_when_all_layers_have_stored_it():
    cache = KVCache(2)
    cache.append(0, *new_positions(3, 2))
    assert cache.length == 0  # a step that fails here is as if it had not begun
    for layer in (0, 1):
        cache.append(layer, *new_positions(3, 2))
    assert cache.length == cache.layer(1).position == 2


def test_keep_drops_sources_and_hypotheses_together():
    source = [KeysValues(*(torch.randn(3, 2, 4, 5) for _ in range(2))) for _ in range(2)]
    allowed = torch.rand(3, 1, 1, 4) < 0.5
    state = TransformerState(list(source), allowed, KVCache(2))
    past = [state.cache.append(layer, *new_positions(6, 2)).k.clone() for layer in (0, 1)]
    sentences, rows = torch.tensor([0, 2]), torch.tensor([1, 0, 4, 4])
    state.keep(sentences, rows)
    assert torch.equal(state.source_allowed, allowed[sentences])
    for layer in (0, 1):
        assert torch.equal(state.source[layer].k, source[layer].k[sentences])
        assert torch.equal(state.source[layer].v, source[layer].v[sentences])
        new_k, new_v = new_positions(4, 1)
        found = state.cache.append(layer, new_k, new_v)
        assert torch.equal(found.k, torch.cat([past[layer][rows], new_k], dim=2))


def test_positions_past_the_capacity_are_refused_and_nothing_is_stored():
    cache = KVCache(capacity=5)
    k, v = new_positions(3, 4)
    cache.append(0, k, v)
    message = (
        r"room for 5 positions and holds 4: 2 more do not fit; decode shorter outputs or allow"
    )
    with pytest.raises(ValueError, match=message):
        cache.append(0, *new_positions(3, 2))
    assert cache.length == 4
    last_k, last_v = new_positions(3, 1)
    assert torch.equal(cache.append(0, last_k, last_v).k, torch.cat([k, last_k], dim=2))
    with pytest.raises(ValueError, match="room for 5 positions and holds 5: 1 more do not fit"):
        cache.append(0, *new_positions(3, 1))


def test_bytes_are_those_of_the_storage_counted_by_hand():
    source = [KeysValues(*(torch.randn(3, 2, 4, 5) for _ in range(2))) for _ in range(2)]
    state = TransformerState(source, None, KVCache(2))
    of_source = 2 * 2 * 3 * 2 * 4 * 5 * 4  # layers, k and v, sentences, heads, source, width, bytes
    assert state.bytes == of_source
    past = 2 * 2 * 6 * 2 * BLOCK * 5 * 4
    for length, blocks in ((1, 1), (BLOCK - 1, 1), (1, 2)):
        for layer in (0, 1):
            state.cache.append(layer, *new_positions(6, length))
        assert state.bytes == of_source + blocks * past
    state.keep(torch.tensor([1]), torch.tensor([2, 3]))
    assert state.bytes == (of_source + 2 * past) // 3


def test_half_precision_and_shared_heads_need_less():
    def needed(dtype, **changes):
        model = tiny_transformer(**changes).to(dtype)
        state = model.start(random_ids(1, 2, 4), torch.ones(2, 4, dtype=torch.bool))
        model.decode_step(random_ids(2, 2, 3), state)
        return state.bytes

    single = needed(torch.float32)
    assert single == 2 * 2 * 2 * 16 * (4 + BLOCK) * 4  # layers, k and v, sentences, width
    assert needed(torch.bfloat16) == single // 2
    assert needed(torch.float32, n_kv_heads=1) == single // 4


@torch.inference_mode()
def test_a_reordering_takes_no_fresh_memory_while_the_number_of_hypotheses_stays():
    model = tiny_transformer()
    state, places = model.start(random_ids(1, 3, 4), real_positions([4, 2, 3])), set()
    for _ in range(6):
        model.decode_step(torch.full((3, 1), 1), state)
        state.reorder(torch.tensor([2, 1, 0]))
        places.add(state.cache.storage.data_ptr())
    assert len(places) == 2


def test_hypotheses_of_a_sentence_share_its_keys_and_values():
    model = tiny_transformer()
    state = model.start(random_ids(1, 3, 4), real_positions([4, 2, 3]))
    before = [part.data_ptr() for layer in state.source for part in layer]
    model.decode_step(torch.full((3, 1), 1), state)
    state.reorder(torch.arange(3).repeat_interleave(5))
    assert model.decode_step(torch.full((15, 1), 5), state).shape == (15, 1, 16)
    assert [part.data_ptr() for layer in state.source for part in layer] == before


def test_a_fixed_cache_stores_in_place_and_shows_what_is_stored():
    grown, fixed = KVCache(2), FixedKVCache(torch.zeros(3, 4, 2, 6, 5))
    place = fixed.storage.data_ptr()
    for length in range(4):
        fixed.go_to(length)
        assert fixed.position.tolist() == [[length]]
        assert fixed.allowed.flatten().tolist() == [p <= length for p in range(6)]
        for layer in (0, 1):
            new = new_positions(3, 1)
            expected, found = grown.append(layer, *new), fixed.append(layer, *new)
            assert torch.equal(found.k[:, :, : length + 1], expected.k)
            assert torch.equal(found.v[:, :, : length + 1], expected.v)
        fixed.go_to(length + 1)
        rows = torch.tensor([2, 0, 0])
        grown.reorder(rows)
        fixed.reorder(rows)
    assert fixed.storage.data_ptr() == place


# What the tutorials add: a target begun again, and prefixes that are aligned at their ends


def test_a_source_begins_again_with_any_number_of_hypotheses():
    model = tiny_transformer()
    source, real = random_ids(1, 2, 5), real_positions([5, 3])
    state = model.start(source, real)
    model.decode_step(random_ids(2, 4, 3), state)
    again = started_again(state)
    assert (again.length, again.cache.bytes) == (0, 0)
    target = random_ids(3, 2, 4)
    assert_close(model.decode_step(target, again), model(source, real, target))


POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])


def chance(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


@POSITIONS
@pytest.mark.parametrize("kernel", KERNELS)
def test_left_padded_prefixes_go_on_as_each_would_alone(positions, kernel):
    model = tiny_transformer(positions=positions, kernel=kernel)
    source, source_real = random_ids(1, 3, 5), real_positions([5, 2, 4])
    prefixes = [random_ids(10 + b, 1, length) for b, length in enumerate((4, 1, 3))]
    further = random_ids(2, 3, 5)
    padded, real = torch.zeros(3, 4, dtype=torch.long), real_positions([4, 1, 3]).flip(1)
    for b, prefix in enumerate(prefixes):
        padded[b, 4 - prefix.size(1) :] = prefix[0]
    decoder = PaddedPrefixes(model, model.start(source, source_real))
    found = [decoder.decode(padded, real)]
    for part in further.split([1, 3, 1], dim=1):
        found.append(decoder.decode(part, torch.ones_like(part, dtype=torch.bool)))
    together = torch.cat(found, dim=1)
    assert together.isfinite().all()
    for b, prefix in enumerate(prefixes):
        whole = torch.cat([prefix, further[b : b + 1]], dim=1)
        alone = model(source[b : b + 1], source_real[b : b + 1], whole)
        assert_close(together[b, 4 - prefix.size(1) :], alone[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@settings(max_examples=20, deadline=None)
@given(chunks=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_padding_anywhere_in_any_chunk_is_as_if_it_were_not_there(positions, chunks, seed):
    """Not with rotary positions: inside a sentence padding would count as distance."""
    model, length = tiny_transformer(positions=positions, n_kv_heads=2), sum(chunks)
    source, source_real = random_ids(seed, 2, 4), real_positions([4, 2])
    target, real = random_ids(seed + 1, 2, length), chance(seed, 2, length)
    decoder = PaddedPrefixes(model, model.start(source, source_real))
    parts = zip(target.split(chunks, dim=1), real.split(chunks, dim=1), strict=True)
    together = torch.cat([decoder.decode(*part) for part in parts], dim=1)
    for b in range(2):
        alone = model(source[b : b + 1], source_real[b : b + 1], target[b : b + 1, real[b]])
        assert_close(together[b, real[b]], alone[0], rtol=0, atol=1e-5)


@POSITIONS
def test_padding_moves_with_its_hypothesis_when_beams_are_chosen(positions):
    model = tiny_transformer(positions=positions)
    source, source_real = random_ids(1, 3, 5), real_positions([5, 2, 4])
    prefix, real = random_ids(2, 6, 3), real_positions([2, 3, 1, 3, 2, 3]).flip(1)
    further = random_ids(3, 4, 2)
    sentences, rows = torch.tensor([0, 2]), torch.tensor([1, 0, 4, 4])
    decoder = PaddedPrefixes(model, model.start(source, source_real))
    decoder.decode(prefix, real)
    decoder.keep(sentences, rows)
    found = decoder.decode(further, torch.ones(4, 2, dtype=torch.bool))
    for r, (row, sentence) in enumerate(zip(rows.tolist(), [0, 0, 2, 2], strict=True)):
        whole = torch.cat([prefix[row, real[row]], further[r]])[None]
        one = slice(sentence, sentence + 1)
        alone = model(source[one], source_real[one], whole)
        assert_close(found[r], alone[0, -2:], rtol=0, atol=1e-5)


def test_sources_padded_on_the_left_are_encoded_whole():
    model, source_BS = tiny_transformer(), random_ids(1, 2, 7)
    real_BS = torch.arange(7).ge(torch.tensor([[3], [4]]))
    with torch.no_grad():
        found, whole = model._encode_by_length(source_BS, real_BS), model.encode(source_BS, real_BS)
    assert_close(found[real_BS], whole[real_BS])
