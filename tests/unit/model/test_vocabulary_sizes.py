"""Models whose source and target have vocabularies of their own, of different sizes."""

from __future__ import annotations

import pytest
import torch
from tiny import RECURRENT_SIZES, SIZES, random_ids

from seq2seq.config import ModelConfig, RecurrentConfig, TransformerConfig
from seq2seq.errors import ConfigError
from seq2seq.model.build import build_model

KINDS = {
    "transformer": (TransformerConfig, SIZES),
    "recurrent": (RecurrentConfig, RECURRENT_SIZES),
}
both_kinds = pytest.mark.parametrize("kind", KINDS)


def config(kind: str, tie: str) -> ModelConfig:
    schema, sizes = KINDS[kind]
    return schema(**sizes, tie_embeddings=tie)


@both_kinds
@pytest.mark.parametrize("tie", ["none", "decoder"])
@pytest.mark.parametrize("sizes", [(11, 17), (17, 11)])
@torch.no_grad()
def test_it_computes_what_a_model_with_one_size_does_that_never_sees_the_other_ids(
    kind, tie, sizes
):
    model = build_model(config(kind, tie), *sizes).eval()
    larger = build_model(config(kind, tie), 17).eval()
    for name, value in larger.state_dict().items():
        ours = model.state_dict()[name]
        value[tuple(map(slice, ours.shape))] = ours
    source, target = (random_ids(seed, 2, 6, vocab_size=n) for seed, n in enumerate(sizes))
    hidden = model(source, source != 0, target)
    torch.testing.assert_close(larger(source, source != 0, target), hidden)
    assert model.project(hidden).shape == (2, 6, sizes[1])
    torch.testing.assert_close(larger.project(hidden)[..., : sizes[1]], model.project(hidden))


@both_kinds
@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_one_size_serves_both_sides(kind, tie):
    one, two = build_model(config(kind, tie), 13), build_model(config(kind, tie), 13, 13)
    assert one.vocab_sizes == two.vocab_sizes == (13, 13)
    two.load_state_dict(one.state_dict())  # checkpoints of before there were two


@both_kinds
def test_one_matrix_for_two_sizes_is_refused(kind):
    with pytest.raises(ConfigError, match=r"tie_embeddings=all .* 11 tokens .* 17: set \S*decoder"):
        build_model(config(kind, "all"), 11, 17)
