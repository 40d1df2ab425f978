"""All random generators of a process go on after a detour through a checkpoint."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from seq2seq.training.random_state import random_state, seed_process, set_random_state


@pytest.fixture(autouse=True)
def _untouched():
    before = random_state()
    yield
    set_random_state(before)


def draws() -> list[float]:
    return [
        *torch.rand(3).tolist(),
        *torch.nn.functional.dropout(torch.ones(20), 0.5).tolist(),
        *np.random.random(3).tolist(),
        float(np.random.normal()),
        random.random(),
        random.gauss(0, 1),
    ]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_is_drawn_next_is_the_same(tmp_path, before):
    seed_process(1, 2, 3)
    for _ in range(before):
        draws()  # an odd number of normal draws leaves one in store
    torch.save(random_state(), tmp_path / "state")
    expected = draws()
    seed_process(4, 5, 6)
    assert draws() != expected
    set_random_state(torch.load(tmp_path / "state", weights_only=True))
    assert draws() == expected


def test_processes_and_steps_have_seeds_of_their_own():
    seen = set()
    for seed, rank, step in [(1, 1, 0), (1, 2, 0), (2, 1, 0), (1, 1, 8), (1, 0, 8)]:
        seed_process(seed, rank, step)
        seen.add(tuple(draws()))
        seed_process(seed, rank, step)
        assert tuple(draws()) in seen
    assert len(seen) == 5
