"""What does not fit together is refused with the values and the rule, and changes nothing."""

import pytest
import torch
from tiny import random_ids, real_positions, tiny_recurrent, tiny_transformer
from torch.testing import assert_close

from seq2seq.config import KERNELS
from seq2seq.model.attention import attend

BOTH_MODELS = pytest.mark.parametrize("make", [tiny_transformer, tiny_recurrent])
POSITIONS = ("sinusoidal", "learned", "rotary")
SOURCE, SOURCE_REAL = random_ids(1, 2, 4), real_positions([4, 3])


# Batches


@BOTH_MODELS
@pytest.mark.parametrize(("rows", "length"), [(1, 2), (3, 2), (3, 1)])
def test_targets_that_cannot_share_the_sources_are_refused(make, rows, length):
    # Folded blindly, 1 x 2 and 3 x 2 tokens would fit 2 sources, and read the wrong ones.
    model, target = make(), random_ids(2, rows, length)
    with pytest.raises(RuntimeError):
        model(SOURCE, SOURCE_REAL, target)
    with pytest.raises(RuntimeError):
        model.decode_step(target, model.start(SOURCE, SOURCE_REAL))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0)])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_nothing_gives_nothing(kernel, shape, kv_heads):
    batch, length = shape
    q, k = torch.ones(batch, 2, length, 4), torch.ones(batch, kv_heads, 3, 4)
    allowed = torch.ones(batch, 1, length, 3, dtype=torch.bool)
    assert attend(q, k, k, allowed, kernel=kernel).shape == (batch, 2, length, 4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_without_any_key_reads_nothing(kernel):
    q, k = torch.ones(1, 2, 1, 4), torch.ones(1, 2, 0, 4)
    assert (attend(q, k, k, kernel=kernel) == 0).all()


# Modules


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
