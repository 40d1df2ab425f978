import pytest

from seq2seq.config import ModelConfig, RecurrentConfig, TransformerConfig
from seq2seq.training.hardware import describe_attention

FLASH = "encoder flash, decoder flash, across flash kernel"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (TransformerConfig(), FLASH),
        (TransformerConfig(n_kv_heads=2), FLASH),
        (TransformerConfig(n_kv_heads=1, head_dim=80, positions="rotary"), FLASH),
        (TransformerConfig(kernel="reference"), "reference kernel"),
        (RecurrentConfig(), "additive"),
    ],
)
def test_the_kernel_of_attention_is_named(model: ModelConfig, text: str):
    assert describe_attention(model, "cpu", "32-true") == text
    assert describe_attention(model, "cpu", "bf16-mixed") == text


def test_a_slow_kernel_is_named_with_its_reason():
    text = describe_attention(TransformerConfig(attention_dropout=0.1), "cpu", "32-true")
    assert text.startswith("encoder math, decoder math, across math kernel")
    assert "math is the slow one: no fast one takes attention_dropout=0.1" in text
