"""The batcher: what it joins, in which turn, and that nothing depends on it."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_translator import tiny_translator

from seq2seq.errors import UserError
from seq2seq.inference.translation import Translation
from seq2seq.serving.batcher import OVERHEAD, Batcher, Job
from seq2seq.serving.limits import Refused
from seq2seq.serving.models import Model


class Recorder:
    """Answers with capitals; the first batch holds the worker until `go` is set."""

    def __init__(self):
        self.go, self.batches = threading.Event(), []
        self.gone = False

    def __call__(self, texts, settings, progress):
        self.batches.append(list(texts))
        try:
            while not self.go.wait(0.005):
                progress(0)
        except Exception:
            self.gone = True
            raise
        if "poison" in texts:
            raise ValueError("one text is at fault")
        if settings.get("beam") == -1:
            raise UserError("no such beam")
        if "unsayable" in texts:
            raise UserError("one text cannot be translated so")
        return [Translation(text.upper(), None) for text in texts]


def run(scenario, **how):
    """Run a scenario with a batcher whose worker is busy with the text "first"."""

    async def whole():
        recorder = Recorder()
        batcher = Batcher(recorder, wait=0, **how)
        first = batcher.submit("someone", ["first"], {})
        while not recorder.batches:
            await asyncio.sleep(0.001)
        await scenario(batcher, recorder, first)
        recorder.go.set()
        await batcher.close()

    asyncio.run(asyncio.wait_for(whole(), 20))


async def results(*groups):
    return [one.text for group in groups for one in await asyncio.gather(*group)]


def test_equal_settings_and_like_lengths_share_a_batch():
    async def scenario(batcher, recorder, first):
        groups = [first, *(batcher.submit("a", texts, how) for texts, how in [
            (["one"], {}), (["two"], {"beam": 2}), (["three"], {}), (["long " * 300], {}),
        ])]  # fmt: skip
        recorder.go.set()
        assert len(await results(*groups)) == 5
        assert recorder.batches[1:] == [["one", "three"], ["two"], ["long " * 300]]

    run(scenario)


@pytest.mark.parametrize(("took", "batches"), [(100, [["b", "c", "d"]]), (0, [["b", "c"], ["d"]])])
def test_who_was_just_answered_joins_the_next_batch(took, batches):
    async def scenario():
        recorder = Recorder()
        recorder.go.set()
        batcher = Batcher(recorder, wait=0.01)
        await results(*(batcher.submit(text, ["a"], {}) for text in "bcd"))
        assert recorder.batches.pop() == ["a"] * 3
        batcher._took = took  # seconds of that batch: another may wait for a tenth of them
        first = [batcher.submit(text, [text], {}) for text in "bc"]
        if took == 0:
            await results(*first)
        await asyncio.sleep(0.1)
        await results(*first, batcher.submit("d", ["d"], {}))
        assert recorder.batches == batches
        await batcher.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_clients_take_turns_whoever_asks_for_much():
    async def scenario(batcher, recorder, first):
        groups = [
            batcher.submit("much", [f"m{n}" for n in range(6)], {}),
            batcher.submit("little", ["l"], {}),
            batcher.submit("other", ["o", "p"], {}),
        ]
        recorder.go.set()
        await results(*groups)
        assert recorder.batches[1:] == [["m0", "l", "o"], ["p", "m1", "m2"], ["m3", "m4", "m5"]]

    run(scenario, batch=3)


def test_what_does_not_fit_is_refused_and_who_leaves_makes_room():
    async def scenario(batcher, recorder, first):
        waiting = batcher.submit("a", ["x" * (100 - OVERHEAD)], {})
        with pytest.raises(Refused) as refused:
            batcher.submit("b", ["y"], {})
        assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert batcher.waiting == 0
        again = batcher.submit("b", ["y"], {})
        recorder.go.set()
        assert await results(again) == ["Y"]
        assert recorder.batches == [["first"], ["y"]]

    run(scenario, queue=100)


def test_a_batch_that_nobody_waits_for_any_more_is_stopped():
    async def scenario(batcher, recorder, first):
        first[0].cancel()
        while not recorder.gone:
            await asyncio.sleep(0.001)
        recorder.go.set()
        assert await results(batcher.submit("b", ["next"], {})) == ["NEXT"]

    run(scenario)


def test_a_fault_of_one_text_is_no_fault_of_those_beside_it():
    async def scenario(batcher, recorder, first):
        good, bad, unsayable = (
            batcher.submit("a", [text], {}) for text in ("good", "poison", "unsayable")
        )
        recorder.go.set()
        with pytest.raises(UserError, match="cannot be translated so"):
            await results(unsayable)
        assert await results(good) == ["GOOD"]
        with pytest.raises(ValueError, match="at fault"):
            await results(bad)
        with pytest.raises(UserError, match="no such beam"):
            await results(batcher.submit("a", ["p", "q"], {"beam": -1}))

    run(scenario)


def test_leaving_a_long_queue_looks_at_no_other_text(monkeypatch):
    compared = []

    def equal(job, other):
        compared.append(other)
        return job is other

    monkeypatch.setattr(Job, "__eq__", equal)  # a search through a list or deque would call it

    async def scenario(batcher, recorder, first):
        groups = [batcher.submit("a", ["x"] * 200, {}) for _ in range(10)]
        for group in reversed(groups):
            for answer in reversed(group):
                answer.cancel()
        await asyncio.sleep(0)
        assert batcher.waiting == 0
        assert not compared

    run(scenario)


def test_a_batcher_that_ends_leaves_nobody_waiting():
    async def scenario(batcher, recorder, first):
        waiting = batcher.submit("a", ["x"], {})
        await batcher.close()
        assert waiting[0].cancelled()
        assert first[0].cancelled()
        while not recorder.gone:  # else its thread would keep the process
            await asyncio.sleep(0.001)

    run(scenario)


WORDS = st.sampled_from(["the", "old", "house", "is", "here", "a", "man", "reads", "<b>big</b>"])
TEXT = st.lists(WORDS, max_size=12).map(" ".join)
HOW = st.sampled_from([
    {}, {"beam": 1}, {"n_best": 2}, {"typography": True}, {"prefix": "la"}, {"align": True},
    {"terms": {"house": "maison"}}, {"strategy": "sample", "seed": 3}, {"split": False},
])  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(TEXT, min_size=1, max_size=4), HOW),
                max_size=12), st.integers(1, 3), st.integers(1, 8))  # fmt: skip
def test_answers_are_those_of_each_text_alone(requests, workers, batch):
    translator = tiny_translator()
    model = Model("tiny", translator, translator)

    async def together():
        batcher = Batcher(model.run, workers=workers, batch=batch, wait=0.001)
        groups = [batcher.submit(*request) for request in requests]
        found = [list(await asyncio.gather(*group)) for group in groups]
        await batcher.close()
        assert batcher.waiting == 0
        return found

    alone = {}
    for found, (_, texts, how) in zip(asyncio.run(together()), requests, strict=True):
        for one, text in zip(found, texts, strict=True):
            key = (text, json.dumps(how))
            if key not in alone:
                [alone[key]] = translator.translate([text], **how)
            expected = alone[key]
            names = ("text", "tokens", "alignment", "notes", "finished", "parts")
            assert [getattr(one, n) for n in names] == [getattr(expected, n) for n in names]
            assert [o.text for o in one.alternatives] == [o.text for o in expected.alternatives]
            assert one.score == pytest.approx(expected.score, abs=1e-5)
