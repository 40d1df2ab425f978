"""Batches that are searched at the same time."""

import pytest
import torch
from tiny import random_ids, restless_transformer

from seq2seq.config import DecodeConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep

REQUESTS = [Request(random_ids(i, 1 + i % 7).tolist()) for i in range(12)]
SETTINGS = [{"beam": 1}, {"beam": 3}, {"strategy": "sample", "n_best": 2}]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_workers_find_what_one_finds(settings):
    config = DecodeConfig(batch_tokens=24, **settings)
    finished, model = [], ModelStep(restless_transformer())
    expected = search(model, REQUESTS, config, max_length=20)
    found = search(model, REQUESTS, config, max_length=20, workers=3, progress=finished.append)
    for own, others in zip(found, expected, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in others]
    assert sum(finished) == 12
    assert len(finished) > 1


class Watched:
    """A step model that notes how many threads its operations may take, and fails if told to."""

    def __init__(self, fails=False):
        self.model, self.fails, self.threads = ModelStep(restless_transformer()), fails, set()

    def start(self, source_BS):
        self.threads.add(torch.get_num_threads())
        if self.fails:
            raise MemoryError("too much")
        return self.model.start(source_BS)

    def step(self, tokens_R, state):
        return self.model.step(tokens_R, state)


def test_a_worker_has_one_thread_and_a_single_batch_all(two_threads):
    config, watched = DecodeConfig(batch_tokens=24), Watched()
    search(watched, REQUESTS, config, max_length=20, workers=2)
    assert watched.threads == {1}
    assert torch.get_num_threads() == 2
    alone = Watched()
    search(alone, REQUESTS[:1], config, max_length=20, workers=2)
    assert alone.threads == {2}


def test_what_goes_wrong_in_a_worker_comes_out(two_threads):
    with pytest.raises(MemoryError, match="too much"):
        search(Watched(fails=True), REQUESTS, DecodeConfig(), max_length=20, workers=2)
    assert torch.get_num_threads() == 2
