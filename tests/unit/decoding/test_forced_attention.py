"""Attention of given pairs: what a batch says of a pair is what the pair says alone."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_recurrent, tiny_transformer

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.forced import forced_attention
from seq2seq.decoding.request import Request
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.model.attention_maps import attention_maps, cross_attentions

IDS = st.lists(st.integers(3, 12), max_size=6)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=5)
MODELS = {"transformer": tiny_transformer(), "recurrent": tiny_recurrent()}
HEADS = {
    "transformer": (AttentionHead(), AttentionHead(1, 2), AttentionHead(-1, 0), AttentionHead(0)),
    "recurrent": (AttentionHead(), AttentionHead(0, 0)),
}


def alone(model, pair, head: AttentionHead) -> np.ndarray:
    """One pair without padding, from the maps of all attentions."""
    source, target = torch.tensor([[*pair[0], EOS]]), torch.tensor([[BOS, *pair[1]]])
    maps = attention_maps(model, source, torch.ones_like(source, dtype=torch.bool), target)
    names = [name for name in maps if "cross" in name] or ["attention"]
    layer = head.layer if head.layer >= -len(names) else 0
    weights = maps[names[layer]][0].numpy()
    return weights[head.head] if head.head is not None else sum(weights) / len(weights)


@pytest.mark.parametrize("kind", MODELS)
@given(pairs=PAIRS, data=st.data(), batch_tokens=st.sampled_from([8, 30, 8192]))
@settings(max_examples=40, deadline=None)
def test_a_pair_has_the_weights_that_it_has_alone(kind, pairs, data, batch_tokens):
    model, head = MODELS[kind], data.draw(st.sampled_from(HEADS[kind]))
    with patch("seq2seq.decoding.forced.BATCH_TOKENS", batch_tokens):
        found = forced_attention(model, pairs, head)
    assert len(found) == len(pairs)
    for pair, weights in zip(pairs, found, strict=True):
        assert weights.shape == (len(pair[1]) + 1, len(pair[0]) + 1)
        np.testing.assert_allclose(weights, alone(model, pair, head), atol=1e-6)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)


def test_the_last_row_is_that_of_the_end_mark_and_earlier_ones_do_not_know_it():
    model, pair = MODELS["transformer"], ([5, 6, 7], [8, 9, 10])
    whole, shorter = forced_attention(model, [pair, (pair[0], pair[1][:2])], AttentionHead())
    np.testing.assert_allclose(whole[:3], shorter, atol=1e-6)


def test_only_the_wanted_attention_is_computed_with_weights(monkeypatch):
    model = tiny_transformer()
    asked = []
    for name, module in model.named_modules():
        if name.endswith("attention"):
            own = module.weights

            def weights(*args, own=own, name=name, **options):
                asked.append(name)
                return own(*args, **options)

            monkeypatch.setattr(module, "weights", weights)
    forced_attention(model, [([5], [6])], AttentionHead(0))
    assert asked == ["decoder.0.cross_attention"]


@pytest.mark.parametrize(
    ("head", "exists"),
    [
        (AttentionHead(), True),
        (AttentionHead(1, 3), True),
        (AttentionHead(-9), True),  # older bundles of few layers: their first
        (AttentionHead(2), False),
        (AttentionHead(0, 4), False),
        (AttentionHead(0, -1), False),
    ],
)
def test_a_head_exists_or_not(head, exists):
    config = tiny_transformer().config
    assert head.exists(config.decoder_layers, config.n_heads) is exists


def test_the_default_is_the_last_layer_but_one_or_the_only_one():
    deep = tiny_transformer(decoder_layers=3)
    assert AttentionHead().module(cross_attentions(deep)) == "decoder.1.cross_attention"
    assert AttentionHead().module(cross_attentions(tiny_recurrent())) == "attention"
    assert cross_attentions(deep) == [f"decoder.{n}.cross_attention" for n in range(3)]


def test_an_ensemble_gives_the_mean_of_each_members_own_head():
    models = [tiny_transformer(1), tiny_transformer(2)]
    heads = [AttentionHead(0, 1), AttentionHead(1)]
    pairs = [([5, 6, 7], [8, 9]), ([4], [])]
    found = TorchEngine(models, heads=heads).attention(pairs)
    for pair, weights in zip(pairs, found, strict=True):
        members = [alone(model, pair, head) for model, head in zip(models, heads, strict=True)]
        np.testing.assert_allclose(weights, (members[0] + members[1]) / 2, atol=1e-6)


def test_threads_that_search_and_look_at_once_do_not_disturb_each_other():
    model = tiny_transformer()
    engine = TorchEngine([model])
    pairs = [([5, 6, 7], [8, 9, 10, 11]), ([4], [6]), ([3] * 6, [])]
    alone_weights = [engine.attention([pair]) for pair in pairs]
    alone_found = engine.search([Request(source) for source, _ in pairs], DecodeConfig(beam=3))

    def look(number: int) -> bool:
        (weights,), (expected,) = engine.attention([pairs[number % 3]]), alone_weights[number % 3]
        return weights.shape == expected.shape and bool(np.allclose(weights, expected, atol=1e-6))

    def search(number: int) -> bool:
        [found] = engine.search([Request(pairs[number % 3][0])], DecodeConfig(beam=3))
        return [one.tokens for one in found] == [one.tokens for one in alone_found[number % 3]]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            done = [pool.submit(job, n) for n in range(60) for job in (look, search)]
        assert all(job.result() for job in done)
    finally:
        sys.setswitchinterval(interval)
    assert not any(module._forward_hooks for module in model.modules())
