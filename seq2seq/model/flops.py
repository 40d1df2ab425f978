"""The least arithmetic of a training step: the operations of its matrix products.

Only real tokens count, because padding is no useful work. A product of (m, k) by (k, n) costs
2mkn floating-point operations; its gradients for both factors cost twice as much again. All else
(norms, softmax, dropout, the optimiser) is left out, as is usual (Chowdhery et al. 2022, appendix
B). The formulas, written out: docs/explanation/training.md.
"""

from __future__ import annotations

from seq2seq.config import ModelConfig, RecurrentConfig, TransformerConfig

BACKWARD = 2  # times the forward pass: gradients of inputs, and of weights


def training_flops(
    config: ModelConfig, target_vocab_size: int, sentences: int, source: int, target: int
) -> float:
    """Count the floating-point operations of one forward and backward pass over a batch.

    Args:
        sentences: pairs of the batch; they count as equally long, which is nearly true of ours.
        source, target: real tokens of each side, end marks included.
    """
    if isinstance(config, RecurrentConfig):
        products = _recurrent(config, sentences, source, target)
    else:
        assert isinstance(config, TransformerConfig)
        products = _transformer(config, sentences, source, target)
    products += target * config.d_model * target_vocab_size
    return 2 * (1 + BACKWARD) * products


def _transformer(config: TransformerConfig, sentences: int, source: int, target: int) -> float:
    """Count the multiplications of a forward pass, without the projection to the vocabulary."""
    width = config.d_model
    head = config.head_dim or width // config.n_heads
    queries, kv = config.n_heads * head, (config.n_kv_heads or config.n_heads) * head
    query_and_out, keys_values = 2 * width * queries, 2 * width * kv
    feed_forward = (3 if config.activation == "swiglu" else 2) * width * config.d_ff
    layer = query_and_out + keys_values + feed_forward
    seen = source / sentences  # source tokens that each source or target token reads
    before = (target / sentences + 1) / 2  # target tokens that a target token reads
    # Scores and weighted sums of values take `queries` multiplications each per pair of tokens.
    encoder = source * (layer + 2 * queries * seen)
    decoder = target * (layer + query_and_out + 2 * queries * (before + seen))
    decoder += source * keys_values
    return config.encoder_layers * encoder + config.decoder_layers * decoder


def _recurrent(config: RecurrentConfig, sentences: int, source: int, target: int) -> float:
    """Count the multiplications of a forward pass of the recurrent model; the gates of each cell
    are three matrices."""
    width, half, inner = config.d_model, config.d_model // 2, config.d_attention
    seen = source / sentences
    both_directions = 2 * 3 * half * (width + half)
    encoder = source * (config.encoder_layers * both_directions + width * inner)
    attention = width * inner + seen * (inner + width)
    cell, readout = 3 * width * (2 * width + width), 3 * width * width
    decoder = target * (attention + cell + readout)
    return encoder + decoder + sentences * half * width
