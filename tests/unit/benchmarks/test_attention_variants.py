"""The comparison of attention variants measures models as they are used."""

from benchmarks.attention import measure
from benchmarks.settings import CompareConfig

from seq2seq.config import TransformerConfig
from seq2seq.model.transformer import Transformer

TINY = TransformerConfig(
    d_model=16, n_heads=1, d_ff=16, encoder_layers=1, decoder_layers=1, max_length=32
)
SMALL = CompareConfig(sentences=2, length=4, repeats=1)


def test_decoding_is_measured_without_dropout_and_training_with(monkeypatch):
    seen = {}
    step, forward = Transformer.decode_step, Transformer.forward

    def decode_step(self, *args):
        seen["decode"] = self.training
        return step(self, *args)

    def whole(self, *args):
        seen["train"] = self.training
        return forward(self, *args)

    monkeypatch.setattr(Transformer, "decode_step", decode_step)
    monkeypatch.setattr(Transformer, "forward", whole)
    measured = measure(TINY, SMALL, "cpu")
    assert seen == {"decode": False, "train": True}
    assert measured["cache_bytes_per_token"] == 2 * 16 * 4
