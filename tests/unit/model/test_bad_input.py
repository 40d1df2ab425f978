"""What does not fit together is refused with the values and the rule, and changes nothing."""

import pytest
import torch
from tiny import random_ids, real_positions, tiny_recurrent, tiny_transformer
from torch.testing import assert_close
from tutorials import PaddedPrefixes, read_width

from seq2seq.config import KERNELS
from seq2seq.model.attention import MultiHeadAttention, attend
from seq2seq.model.kv_cache import KVCache
from seq2seq.model.masks import padding
from seq2seq.model.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from seq2seq.model.recurrent import AdditiveAttention

BOTH_MODELS = pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
POSITIONS = ("sinusoidal", "learned", "rotary")
SOURCE, SOURCE_REAL = random_ids(1, 2, 4), real_positions([4, 3])


# Batches


@BOTH_MODELS
@pytest.mark.parametrize(("rows", "length"), [(1, 2), (3, 2), (3, 1)])
def test_targets_that_cannot_share_the_sources_are_refused(make, rows, length):
    # Folded blindly, 1 x 2 and 3 x 2 tokens would fit 2 sources, and read the wrong ones.
    model, target = make(), random_ids(2, rows, length)
    with pytest.raises(ValueError, match=f"{rows} targets cannot share 2 sources equally"):
        model(SOURCE, SOURCE_REAL, target)
    with pytest.raises(ValueError, match=f"{rows} targets cannot share 2 sources equally"):
        model.decode_step(target, model.start(SOURCE, SOURCE_REAL))


@BOTH_MODELS
@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (2, 1)])
def test_a_mask_of_other_source_tokens_is_refused(make, shape):
    with pytest.raises(ValueError, match=r"real source tokens is .*, the tokens are \(2, 4\)"):
        make().start(SOURCE, torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (2, 4)])
def test_a_mask_of_other_target_tokens_is_refused(shape):
    model = tiny_transformer()
    decoder = PaddedPrefixes(model, model.start(SOURCE, SOURCE_REAL))
    with pytest.raises(ValueError, match=r"real tokens is .*, the tokens are\s+\(2, 3\)"):
        decoder.decode(random_ids(2, 2, 3), torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0)])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_nothing_gives_nothing(kernel, shape, kv_heads):
    batch, length = shape
    q, k = torch.ones(batch, 2, length, 4), torch.ones(batch, kv_heads, 3, 4)
    allowed = torch.ones(batch, 1, length, 3, dtype=torch.bool)
    assert attend(q, k, k, allowed, kernel=kernel).shape == (batch, 2, length, 4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_without_any_key_cannot_be_causal(kernel):
    q, k = torch.ones(1, 2, 1, 4), torch.ones(1, 2, 0, 4)
    assert (attend(q, k, k, kernel=kernel) == 0).all()
    with pytest.raises(ValueError, match="1 queries cannot be the last of 0 keys"):
        attend(q, k, k, kernel=kernel, causal=True)


# Modules


@pytest.mark.parametrize("shape", [(3, 8), (1, 3, 6), (1, 1, 3, 8)])
def test_inputs_of_another_shape_are_refused(shape):
    attention, x = read_width(MultiHeadAttention(8, 2), 6), torch.ones(1, 3, 8)
    with pytest.raises(ValueError, match=r"x is \(batch, length, d_model = 8\), got"):
        attention(torch.ones(shape), torch.ones(1, 3, 6))
    with pytest.raises(ValueError, match=r"a memory is \(batch, length, width = 6\), got"):
        attention(x, torch.ones(1, 3, 8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d_model": 0}, "d_model=0 is too small"),
        ({"n_heads": 0, "head_dim": 4}, "n_heads=0 is too small"),
        ({"head_dim": 0}, "head_dim=0 is too small"),
        ({"head_dim": -1}, "head_dim=-1 is too small"),
        ({"dropout": 1.5}, "dropout=1.5 is no probability"),
        ({"kernel": "flash"}, "kernel=flash is not known"),
    ],
)
def test_impossible_options_are_refused_when_the_module_is_made(options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"d_model": 8, "n_heads": 2, **options})


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (padding(real_positions([3, 2])), r"\(2, 1, 1, 3\) does not broadcast to \(batch, queries"),
        (real_positions([3, 2]), "give all 3 dimensions"),
        (torch.ones(2, 1, 3), "a mask is boolean"),
        (torch.ones(2, 1, 2, dtype=torch.bool), "does not broadcast"),
    ],
)
def test_additive_attention_refuses_masks_of_other_kinds(allowed, message):
    with pytest.raises(ValueError, match=message):
        AdditiveAttention(4, 4, 5)(torch.ones(2, 2, 4), torch.ones(2, 3, 4), allowed)


def test_additive_attention_refuses_batches_that_disagree():
    with pytest.raises(ValueError, match=r"states \(1, 2, 4\) and annotations \(2, 3, 4\) differ"):
        AdditiveAttention(4, 4, 5)(torch.ones(1, 2, 4), torch.ones(2, 3, 4))


def test_a_recurrent_model_reads_no_padding_on_the_left():
    with pytest.raises(ValueError, match="sources whose padding stands at their ends"):
        tiny_recurrent().start(SOURCE, SOURCE_REAL.flip(1))


def test_a_recurrent_model_takes_a_source_without_any_word():
    model, real = tiny_recurrent(), real_positions([4, 0])
    hidden = model(SOURCE, real, random_ids(2, 2, 3))
    assert hidden.isfinite().all()
    alone = model(SOURCE[:1], real[:1], random_ids(2, 2, 3)[:1])
    assert_close(hidden[:1], alone)


# Positions and the cache


@pytest.mark.parametrize("make", [SinusoidalPositions, LearnedPositions, RotaryPositions])
@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (torch.tensor([[0, 8]]), r"position 8 lies past the model's limit of 8 tokens"),
        (torch.tensor([[-1, 0]]), "position -1 lies before the first"),
        (-1, "position -1 lies before the first"),
        (7, "position 8 lies past"),
        (torch.tensor([[1]]), r"one for each of 2 tokens, got \(1, 1\)"),
        (torch.tensor([1, 2]), r"one for each of 2 tokens, got \(2,\)"),
    ],
)
def test_positions_that_are_not_there_are_refused(make, positions, message):
    x = torch.ones((1, 1, 2, 4) if make is RotaryPositions else (1, 2, 4))
    with pytest.raises(ValueError, match=message):
        make(8, 4)(x, positions)


def test_sines_and_cosines_want_an_even_width():
    with pytest.raises(ValueError, match="a width of 7 is odd"):
        SinusoidalPositions(8, 7)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_refused_step_leaves_the_cache_as_it_was(positions):
    model = tiny_transformer(positions=positions, max_length=16)
    states = [model.start(SOURCE, SOURCE_REAL) for _ in range(2)]
    for state in states:
        model.decode_step(random_ids(3, 2, 15), state)
    with pytest.raises(ValueError, match=r"and holds 15: 3 more|position 17 lies past"):
        model.decode_step(random_ids(4, 2, 3), states[0])
    steps = [model.decode_step(random_ids(4, 2, 1), state) for state in states]
    assert torch.equal(*steps)


@pytest.mark.parametrize(("heads", "width"), [(1, 4), (2, 1), (3, 4)])
def test_a_cache_takes_no_keys_of_another_attention(heads, width):
    cache, k = KVCache(), torch.ones(1, 2, 1, 4)
    cache.append(0, k, k)
    other = torch.ones(1, heads, 1, width)
    for new in ((other, other), (k, other)):
        with pytest.raises(ValueError, match=rf"got \(1, {heads}, 1, {width}\): a cache"):
            cache.append(0, *new)
    assert cache.length == 1


def test_a_step_with_other_rows_leaves_the_cache_as_it_was():
    model = tiny_transformer()
    cache = model.start(SOURCE, SOURCE_REAL)
    model.decode_step(random_ids(2, 2, 1), cache)
    cache.reorder(torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="the past is that of 4 hypotheses, got 2"):
        model.decode_step(random_ids(2, 2, 1), cache)
    assert model.decode_step(random_ids(2, 4, 1), cache).shape[:2] == (4, 1)


def test_a_recurrent_state_takes_as_many_targets_as_it_holds():
    model = tiny_recurrent()
    state = model.start(SOURCE, SOURCE_REAL)
    with pytest.raises(ValueError, match="the past is that of 2 hypotheses, got 4"):
        model.decode_step(random_ids(2, 4, 1), state)
