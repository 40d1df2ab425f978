import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import random_ids, real_positions, tiny_transformer
from torch.testing import assert_close

from seq2seq.config import KERNELS
from seq2seq.model.kv_cache import BLOCK, DecoderCache, KeysValues, LayerCache


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
    with pytest.raises(ValueError, match="the past is that of 3 hypotheses, got 2"):
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


# Capacity, memory, reset


def test_positions_past_the_capacity_are_refused_and_nothing_is_stored():
    cache = LayerCache(capacity=5)
    k, v = new_positions(3, 4)
    cache.append(k, v)
    message = (
        r"room for 5 positions and holds 4: 2 more do not fit; decode shorter outputs or allow"
    )
    with pytest.raises(ValueError, match=message):
        cache.append(*new_positions(3, 2))
    assert cache.length == 4
    last_k, last_v = new_positions(3, 1)
    assert torch.equal(cache.append(last_k, last_v).k, torch.cat([k, last_k], dim=2))
    with pytest.raises(ValueError, match="room for 5 positions and holds 5: 1 more do not fit"):
        cache.append(*new_positions(3, 1))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_transformer_cannot_decode_past_its_max_length(padded, positions):
    model = tiny_transformer(max_length=8, positions=positions)
    state = model.start(random_ids(1, 1, 4), torch.ones(1, 4, dtype=torch.bool))
    real = real_positions([6], 8).flip(1) if padded else None
    assert model.decode_step(random_ids(2, 1, 8), state, real).isfinite().all()
    message = "position 8 lies past the model's limit of 8 tokens"
    if padded:  # only 6 positions are taken, but 8 places
        message = "room for 8 positions and holds 8: 1 more"
    with pytest.raises(ValueError, match=message):
        model.decode_step(random_ids(3, 1, 1), state)


def test_bytes_are_those_of_the_buffers_counted_by_hand():
    assert LayerCache().bytes == 0
    cache = layer_cache()
    cross = 2 * 3 * 2 * 4 * 5 * 4  # k and v, sentences, heads, source, width, bytes of a float
    assert cache.bytes == cross
    cache.append(*new_positions(6, 1))
    past = 2 * 6 * 2 * BLOCK * 5 * 4
    assert cache.bytes == cross + past
    cache.append(*new_positions(6, BLOCK - 1))
    assert cache.bytes == cross + past
    cache.append(*new_positions(6, 1))
    assert cache.bytes == cross + 2 * past
    both = DecoderCache([cache, layer_cache()], torch.ones(3, 1, 1, 4, dtype=torch.bool))
    assert both.bytes == 2 * cross + 2 * past
    both.select(torch.tensor([1]), torch.tensor([2, 3]))
    assert layer_bytes(both) == [(cross + 2 * past) // 3, cross // 3]


def layer_bytes(cache: DecoderCache) -> list[int]:
    return [layer.bytes for layer in cache.layers]


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


def test_reset_forgets_the_target_and_keeps_the_source():
    model = tiny_transformer()
    source, real = random_ids(1, 2, 5), real_positions([5, 3])
    state = model.start(source, real)
    fresh = state.bytes
    model.decode_step(random_ids(2, 4, 3), state, chance(2, 4, 3))
    assert state.bytes > fresh
    state.reset()
    assert (state.length, state.real_RL, state.bytes) == (0, None, fresh)
    target = random_ids(3, 2, 4)  # another number of hypotheses, too
    assert_close(model.decode_step(target, state), model(source, real, target))


# Prefixes that are aligned at their ends


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
    state = model.start(source, source_real)
    found = [model.decode_step(padded, state, real)]
    found += [model.decode_step(part, state) for part in further.split([1, 3, 1], dim=1)]
    together = torch.cat(found, dim=1)
    assert together.isfinite().all()
    for b, prefix in enumerate(prefixes):
        whole = torch.cat([prefix, further[b : b + 1]], dim=1)
        alone = model(source[b : b + 1], source_real[b : b + 1], whole)
        assert_close(together[b, 4 - prefix.size(1) :], alone[0], rtol=0, atol=1e-5)


@POSITIONS
@settings(max_examples=20, deadline=None)
@given(chunks=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
def test_padding_anywhere_in_any_chunk_is_as_if_it_were_not_there(positions, chunks, data):
    model = tiny_transformer(positions=positions, n_kv_heads=2)
    length, seed = sum(chunks), data.draw(st.integers(0, 99))
    source, source_real = random_ids(seed, 2, 4), real_positions([4, 2])
    target, real = random_ids(seed + 1, 2, length), chance(seed, 2, length)
    state, found, start = model.start(source, source_real), [], 0
    for size in chunks:
        part = slice(start, start + size)
        if data.draw(st.booleans()):
            real[:, part] = True  # which need not be said
        given_real = None if real[:, part].all() else real[:, part]
        found.append(model.decode_step(target[:, part], state, given_real))
        start += size
    together = torch.cat(found, dim=1)
    at_once = model.decode(target, model.encode(source, source_real), source_real, real)
    for b in range(2):
        alone = model(source[b : b + 1], source_real[b : b + 1], target[b : b + 1, real[b]])
        assert_close(together[b, real[b]], alone[0], rtol=0, atol=1e-5)
        assert_close(at_once[b, real[b]], alone[0], rtol=0, atol=1e-5)


@POSITIONS
def test_padding_moves_with_its_hypothesis_when_beams_are_chosen(positions):
    model = tiny_transformer(positions=positions)
    source, source_real = random_ids(1, 3, 5), real_positions([5, 2, 4])
    prefix, real = random_ids(2, 6, 3), real_positions([2, 3, 1, 3, 2, 3]).flip(1)
    further = random_ids(3, 4, 2)
    sentences, rows = torch.tensor([0, 2]), torch.tensor([1, 0, 4, 4])
    state = model.start(source, source_real)
    model.decode_step(prefix, state, real)
    state.select(sentences, rows)
    assert torch.equal(state.real_RL, real[rows])
    state.reorder(torch.tensor([1, 0, 2, 3]))
    rows = rows[[1, 0, 2, 3]]
    found = model.decode_step(further, state)
    for r, (row, sentence) in enumerate(zip(rows.tolist(), [0, 0, 2, 2], strict=True)):
        whole = torch.cat([prefix[row, real[row]], further[r]])[None]
        one = slice(sentence, sentence + 1)
        alone = model(source[one], source_real[one], whole)
        assert_close(found[r], alone[0, -2:], rtol=0, atol=1e-5)


def test_positions_count_real_tokens_and_the_mask_shows_them():
    cache = DecoderCache([LayerCache()], torch.ones(2, 1, 1, 4, dtype=torch.bool))
    assert cache.place(torch.zeros(2, 3), None) == (0, None)
    real = torch.tensor([[0, 0, 1], [1, 0, 1]])
    positions, allowed = cache.place(torch.zeros(2, 3), real)
    assert positions.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert allowed.tolist() == real.bool()[:, None, None].tolist()
    cache.layers[0].append(*new_positions(2, 3))
    positions, allowed = cache.place(torch.zeros(2, 2), None)
    assert positions.tolist() == [[1, 2], [2, 3]]
    assert allowed[:, 0, 0].long().tolist() == [[0, 0, 1, 1, 1], [1, 0, 1, 1, 1]]
