"""The benchmark of decoding measures what it says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from benchmarks.decode import benchmark_decode, fixed_length
from benchmarks.settings import DecodeBenchmarkConfig
from tiny import random_ids, restless_transformer

from seq2seq.config import TransformerConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import ConfigError

REQUESTS = [Request(random_ids(i, 1 + i % 5).tolist()) for i in range(6)]
TINY = TransformerConfig(
    name="mine", d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=32
)
CONFIG = DecodeBenchmarkConfig(
    model=TINY, vocab_size=40, length=5, beam=2, batch=3, warmup_calls=1, calls=4
)


@pytest.mark.parametrize("beam", [1, 3])
def test_each_output_has_the_length_that_is_asked_for(beam):
    config = fixed_length(replace(CONFIG, beam=beam, batch=6, length=9))
    model = ModelStep(restless_transformer())
    for [best, *_] in search(model, REQUESTS, config, max_length=24):
        assert len(best.tokens) + best.finished == 9  # an end mark may be the last


def test_a_line_says_what_was_measured(capsys):
    benchmark_decode(CONFIG)
    line = json.loads(capsys.readouterr().out)
    assert (line["model"], line["output_tokens"], line["beam"]) == ("mine", 5, 2)
    assert line["tokens_per_second"] == pytest.approx(5 * line["sentences_per_second"], rel=0.01)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ConfigError, match=r"length=40 is more than the model takes \(.*=32\)"):
        DecodeBenchmarkConfig(model=TINY, length=40)
    with pytest.raises(ConfigError, match=r"beam=0 is too small"):
        DecodeBenchmarkConfig(beam=0)
