"""Settings of models: sizes and kinds (`model.*`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config.checked import SHARE, Checked, setting

KERNELS = ("sdpa", "reference")
# Model settings that may differ from those with which given weights were trained.
FREE_OF_WEIGHTS = ("name", "dropout", "attention_dropout", "kernel", "zero_blocks")
SIZE = {"at_least": 1, "at_most": 2**16}  # a larger number is a typing error


class ModelConfig(Checked, section="model"):
    """What every translation model has; `TransformerConfig` and `RecurrentConfig` add to it."""

    architecture: str = setting("", "transformer or rnn_attention; set by the preset")
    name: str = setting("base", "name of the model in folder names of runs")
    d_model: int = setting(512, "width of embeddings, of each layer's input and output", **SIZE)
    encoder_layers: int = setting(6, "layers of the encoder", **SIZE)
    tie_embeddings: str = setting(
        "all", "which weights share one matrix: none; decoder: target embeddings and output; all: "
        "source embeddings, too",
        choices=("none", "decoder", "all"),
    )  # fmt: skip
    dropout: float = setting(0.1, "dropout of embeddings and of each block's output", **SHARE)
    max_length: int = setting(
        256, "longest sentence in tokens, its end mark included", at_least=8, at_most=2**16
    )

    def rules(self) -> Iterator[str]:
        expected = next((n for n, kind in ARCHITECTURES.items() if isinstance(self, kind)), "none")
        if self.architecture != expected:
            yield (
                f"model.architecture={self.architecture} belongs to the preset ({expected} here): "
                f"choose another one with model=NAME, such as model=base or model=rnn_attention"
            )

    def summary(self) -> str:
        """Describe the sizes in words."""
        raise NotImplementedError


class TransformerConfig(ModelConfig):
    """Sizes and kind of a transformer (Vaswani et al. 2017; the defaults are its base model)."""

    architecture: str = "transformer"
    n_heads: int = setting(8, "query heads", **SIZE)
    n_kv_heads: int | None = setting(
        None, "key/value heads: null = n_heads; fewer = grouped-query; 1 = multi-query attention"
    )
    head_dim: int | None = setting(None, "width of a head; null = d_model / n_heads", **SIZE)
    qk_norm: bool = setting(False, "normalise queries and keys (RMS norm of each head)")
    cross_qk_norm: bool = setting(
        True, "qk_norm in cross-attention, too; CTranslate2 cannot run such a model"
    )
    kernel: str = setting("sdpa", "attention: sdpa (fused), reference (plain)", choices=KERNELS)
    d_ff: int = setting(2048, "inner width of the feed-forward blocks", **SIZE)
    decoder_layers: int = setting(6, "layers of the decoder", **SIZE)
    norm: str = setting("pre", "layer norm before or after a block", choices=("pre", "post"))
    activation: str = setting(
        "relu", "activation of the feed-forward blocks", choices=("relu", "gelu", "silu", "swiglu")
    )
    positions: str = setting(
        "sinusoidal", "how positions are encoded; halves: sines before cosines, as Marian has them",
        choices=("sinusoidal", "sinusoidal_halves", "learned", "rotary"),
    )  # fmt: skip
    attention_dropout: float = setting(0.0, "dropout of attention weights", **SHARE)
    zero_blocks: bool = setting(False, "start the last matrix of each block at zero")
    output_bias: bool = setting(
        False, "add a trained bias to the score of each target token, as Marian does"
    )
    zero_start: bool = setting(False, "start each output from a vector of zeros, as Marian does")

    def summary(self) -> str:
        heads = f"{self.n_heads} heads"
        if self.n_kv_heads not in (None, self.n_heads):
            heads += f" on {self.n_kv_heads} of keys and values"
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        return f"{layers} of width {self.d_model}, {heads}"

    def rules(self) -> Iterator[str]:
        yield from super().rules()
        if self.d_model < 1 or self.n_heads < 1:
            return  # which is told already
        if self.head_dim is None and self.d_model % self.n_heads:
            yield (
                f"model.d_model={self.d_model} cannot be shared equally by model.n_heads="
                f"{self.n_heads}: make d_model a multiple of n_heads, or set model.head_dim"
            )
        width = self.head_dim or self.d_model // self.n_heads
        if self.positions == "rotary" and width % 2:
            yield (
                f"model.positions=rotary turns pairs of numbers, but a head is {width} wide "
                "(model.head_dim, or d_model / n_heads): make it even"
            )
        if self.d_model % 2 and self.positions.startswith("sinusoidal"):
            yield f"model.d_model={self.d_model} is odd: sinusoidal positions need an even width"
        kv = self.n_kv_heads
        if kv is not None and (kv < 1 or self.n_heads % kv):
            yield (
                f"model.n_kv_heads={kv} does not divide model.n_heads={self.n_heads}: "
                f"each key/value head serves an equal group of query heads"
            )


class RecurrentConfig(ModelConfig):
    """Sizes of a recurrent encoder-decoder with attention (Bahdanau et al. 2015)."""

    architecture: str = "rnn_attention"
    encoder_layers: int = setting(1, "bidirectional layers of the encoder", **SIZE)
    d_attention: int = setting(
        512, "inner width of the network that scores source positions", **SIZE
    )

    def summary(self) -> str:
        return (
            f"{self.encoder_layers} bidirectional + 1 recurrent layers of width {self.d_model}, "
            f"additive attention of width {self.d_attention}"
        )

    def rules(self) -> Iterator[str]:
        yield from super().rules()
        if self.d_model % 2:
            yield f"model.d_model={self.d_model} is odd: each direction of the encoder has half"


ARCHITECTURES: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "rnn_attention": RecurrentConfig,
}
