"""Every setting of the project: its type, default, meaning and the rules between settings.

These dataclasses are the schema of the YAML files in `configs/` (Hydra merges the files into
them, so an unknown key or a wrong type fails at once) and what all code below the entry
points receives. Impossible values raise `ConfigError`, with all problems in one message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from seq2seq.errors import ConfigError, nearest

PRECISIONS = ("auto", "32-true", "bf16-mixed", "16-mixed")
KERNELS = ("sdpa", "reference")
LOGGERS = ("wandb", "tensorboard", "csv", "none")


class Checked:
    """Base of the settings: refuses impossible values when it is made."""

    def problems(self) -> Iterator[str]:
        """Yield one sentence for each value that cannot work."""
        yield from ()

    def __post_init__(self) -> None:
        problems = list(self.problems())
        if problems:
            raise ConfigError(problems)


def one_of(name: str, value: str, valid: tuple[str, ...]) -> Iterator[str]:
    if value not in valid:
        yield f"{name}={value} is not known: {nearest(str(value), valid)}"


def at_least(name: str, value: float, least: float) -> Iterator[str]:
    if not value >= least:  # written so that NaN is refused too
        yield f"{name}={value} is too small: it must be at least {least}"
    elif value == math.inf:
        yield f"{name}={value} sets no limit: give a finite number"


def at_most(name: str, value: float, most: float) -> Iterator[str]:
    if value > most:
        yield f"{name}={value} is too large: it must be at most {most}"


def share(name: str, value: float) -> Iterator[str]:
    if not 0.0 <= value < 1.0:
        yield f"{name}={value} is no probability: give a number from 0 to below 1"


@dataclass
class ModelConfig(Checked):
    """What every translation model has; `TransformerConfig` and `RecurrentConfig` add to it."""

    architecture: str = ""  # set by the preset: transformer | rnn_attention
    name: str = "base"  # names the run's folder
    d_model: int = 512  # width of embeddings and of every layer's input and output
    encoder_layers: int = 6
    tie_embeddings: str = "all"  # none | decoder (target = output) | all (source too)
    dropout: float = 0.1  # on the embeddings and on each block's output
    max_length: int = 256  # longest sentence in tokens, its end mark included

    def problems(self) -> Iterator[str]:
        for name in self.sizes():
            yield from at_least(f"model.{name}", getattr(self, name), 1)
        for name in (*self.sizes(), "max_length"):
            yield from at_most(f"model.{name}", getattr(self, name), 2**16)
        yield from at_least("model.max_length", self.max_length, 8)
        yield from one_of("model.tie_embeddings", self.tie_embeddings, ("none", "decoder", "all"))
        yield from share("model.dropout", self.dropout)
        expected = next((n for n, kind in ARCHITECTURES.items() if isinstance(self, kind)), "none")
        if self.architecture != expected:
            yield (
                f"model.architecture={self.architecture} belongs to the preset ({expected} here): "
                f"choose another one with model=NAME, such as model=base or model=rnn_attention"
            )

    def sizes(self) -> tuple[str, ...]:
        """Names of the fields that count something, at least one of it."""
        return ("d_model", "encoder_layers")

    def summary(self) -> str:
        """The sizes in words."""
        raise NotImplementedError


@dataclass
class TransformerConfig(ModelConfig):
    """Sizes and kind of a transformer (Vaswani et al. 2017; the defaults are its base model)."""

    architecture: str = "transformer"
    n_heads: int = 8  # query heads
    n_kv_heads: int | None = None  # null = n_heads; fewer = grouped-query; 1 = multi-query
    head_dim: int | None = None  # width of a head; null = d_model / n_heads
    qk_norm: bool = False  # normalise queries and keys (RMS norm for each head)
    kernel: str = "sdpa"  # sdpa (fused) | reference (written out) attention
    d_ff: int = 2048  # inner width of the feed-forward blocks
    decoder_layers: int = 6
    norm: str = "pre"  # pre | post: where the layer norm stands
    activation: str = "relu"  # relu | gelu | swiglu
    positions: str = "sinusoidal"  # sinusoidal | learned | rotary
    attention_dropout: float = 0.0  # on attention weights

    def sizes(self) -> tuple[str, ...]:
        return (*super().sizes(), "n_heads", "d_ff", "decoder_layers")

    def summary(self) -> str:
        heads = f"{self.n_heads} heads"
        if self.n_kv_heads not in (None, self.n_heads):
            heads += f" on {self.n_kv_heads} of keys and values"
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        return f"{layers} of width {self.d_model}, {heads}"

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from one_of("model.norm", self.norm, ("pre", "post"))
        yield from one_of("model.activation", self.activation, ("relu", "gelu", "swiglu"))
        yield from one_of("model.positions", self.positions, ("sinusoidal", "learned", "rotary"))
        yield from one_of("model.kernel", self.kernel, KERNELS)
        yield from share("model.attention_dropout", self.attention_dropout)
        if self.head_dim is not None:
            yield from at_least("model.head_dim", self.head_dim, 1)
            yield from at_most("model.head_dim", self.head_dim, 2**16)
        if self.d_model >= 1 and self.n_heads >= 1:
            yield from self._head_problems()

    def _head_problems(self) -> Iterator[str]:
        if self.head_dim is None and self.d_model % self.n_heads:
            yield (
                f"model.d_model={self.d_model} cannot be shared equally by "
                f"model.n_heads={self.n_heads}: make d_model a multiple of n_heads, or set "
                "model.head_dim"
            )
        width = self.head_dim or self.d_model // self.n_heads
        if self.positions == "rotary" and width % 2:
            yield (
                f"model.positions=rotary turns pairs of numbers, but a head is {width} wide "
                "(model.head_dim, or d_model / n_heads): make it even"
            )
        if self.d_model % 2 and self.positions == "sinusoidal":
            yield f"model.d_model={self.d_model} is odd: sinusoidal positions need an even width"
        kv = self.n_kv_heads
        if kv is not None and (kv < 1 or self.n_heads % kv):
            yield (
                f"model.n_kv_heads={kv} does not divide model.n_heads={self.n_heads}: "
                f"each key/value head serves an equal group of query heads"
            )


@dataclass
class RecurrentConfig(ModelConfig):
    """Sizes of a recurrent encoder-decoder with attention (Bahdanau et al. 2015)."""

    architecture: str = "rnn_attention"
    encoder_layers: int = 1
    d_attention: int = 512  # inner width of the network that scores source positions

    def sizes(self) -> tuple[str, ...]:
        return (*super().sizes(), "d_attention")

    def summary(self) -> str:
        return (
            f"{self.encoder_layers} bidirectional + 1 recurrent layers of width {self.d_model}, "
            f"additive attention of width {self.d_attention}"
        )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.d_model % 2:
            yield (
                f"model.d_model={self.d_model} is odd: each direction of the encoder has half of it"
            )


ARCHITECTURES: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "rnn_attention": RecurrentConfig,
}


@dataclass
class DataConfig(Checked):
    """Where the parallel text is and how it is cut into batches.

    `train`, `val` and `test` each name a file, a glob, the stem of files inside `path`
    (`val` finds `val.parquet`, `val.tsv.gz`, `val.en` + `val.fr`, ...), or a list of these.
    """

    name: str = "files"
    path: str | None = None  # folder that the names below are looked up in
    origin: str | None = None  # where the corpus can be had; named when it is missing
    train: Any = "train"
    val: Any = "val"
    test: Any = "test"
    source_column: str = "en"  # column of the source text; a number for TSV without header
    target_column: str = "fr"
    max_tokens: int = 4096  # a batch holds at most this many target (and source) positions
    num_workers: int = 0  # processes that prepare batches beside the training one

    def problems(self) -> Iterator[str]:
        yield from at_least("data.max_tokens", self.max_tokens, 2)
        yield from at_least("data.num_workers", self.num_workers, 0)
        if self.source_column == self.target_column:
            yield (
                f"data.source_column and data.target_column are both {self.source_column!r}: "
                "a model that copies needs no training; name two columns"
            )


@dataclass
class TokenizerConfig(Checked):
    """Joint subword vocabulary of both languages."""

    vocab_size: int = 8000
    path: str | None = None  # a ready tokenizer.json instead of training one

    def problems(self) -> Iterator[str]:
        yield from at_least("tokenizer.vocab_size", self.vocab_size, 260)


@dataclass
class OptimConfig(Checked):
    """AdamW under an inverse-square-root schedule with linear warm-up (the paper, section 5.3)."""

    lr: float | None = None  # peak; none = the paper's (d_model * warmup_steps) ** -0.5
    warmup_steps: int = 4000
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0  # on matrices only, never on biases and norms
    label_smoothing: float = 0.1

    def problems(self) -> Iterator[str]:
        yield from at_least("optim.warmup_steps", self.warmup_steps, 1)
        yield from at_least("optim.weight_decay", self.weight_decay, 0)
        for name in ("beta1", "beta2", "label_smoothing"):
            yield from share(f"optim.{name}", getattr(self, name))
        if self.lr is not None and not 0 < self.lr < math.inf:
            yield f"optim.lr={self.lr} would not learn: give a positive number, or null"
        if not 0 < self.eps < math.inf:
            yield f"optim.eps={self.eps} keeps AdamW from dividing by zero: give a positive number"


@dataclass
class DecodeConfig(Checked):
    """How translations are searched for."""

    beam: int = 5  # hypotheses kept per sentence; 1 = greedy
    n_best: int = 1  # translations returned per sentence
    length_penalty: float = 1.0  # score = log probability / length ** this
    min_length: int = 1  # fewest output tokens before the end mark; 1 = never an empty output
    max_ratio: float = 2.0  # output limit in tokens: max_ratio * source + max_extra
    max_extra: int = 10
    batch_tokens: int = 4096  # source positions x beam decoded at once

    def problems(self) -> Iterator[str]:
        yield from at_least("decode.beam", self.beam, 1)
        yield from at_least("decode.n_best", self.n_best, 1)
        if self.n_best > self.beam >= 1:
            yield f"decode.n_best={self.n_best} needs a beam as large (decode.beam={self.beam})"
        yield from at_least("decode.length_penalty", self.length_penalty, 0)
        yield from at_least("decode.min_length", self.min_length, 0)
        yield from at_least("decode.max_ratio", self.max_ratio, 0)
        yield from at_least("decode.max_extra", self.max_extra, 1)
        yield from at_least("decode.batch_tokens", self.batch_tokens, 1)


@dataclass
class TrainerConfig(Checked):
    """The training loop. One step is one update of the weights."""

    max_steps: int = 10000
    accelerator: str = "auto"  # auto | cpu | gpu
    devices: int = 1  # processes (GPUs) on this machine
    num_nodes: int = 1
    strategy: str = "auto"  # auto | ddp
    precision: str = "auto"  # bf16-mixed on a capable GPU, 16-mixed on an older one, else 32-true
    accumulate: int = 1  # batches per step
    gradient_clip: float = 1.0  # largest global gradient norm; 0 = no clipping
    val_every_n_steps: int = 1000
    log_every_n_steps: int = 50

    def problems(self) -> Iterator[str]:
        counts = ("max_steps", "devices", "num_nodes", "accumulate")
        for name in (*counts, "val_every_n_steps", "log_every_n_steps"):
            yield from at_least(f"trainer.{name}", getattr(self, name), 1)
        yield from at_least("trainer.gradient_clip", self.gradient_clip, 0)
        yield from one_of("trainer.accelerator", self.accelerator, ("auto", "cpu", "gpu"))
        yield from one_of("trainer.strategy", self.strategy, ("auto", "ddp"))
        yield from one_of("trainer.precision", self.precision, PRECISIONS)


@dataclass
class CheckpointConfig(Checked):
    """When the state of a run is saved; the best by validation BLEU is always kept too."""

    every_n_steps: int = 500

    def problems(self) -> Iterator[str]:
        yield from at_least("checkpoint.every_n_steps", self.every_n_steps, 1)


@dataclass
class LoggerConfig(Checked):
    """Where curves go, beside `<run>/metrics`."""

    kind: str = "wandb"
    project: str = "seq2seq"  # W&B project

    def problems(self) -> Iterator[str]:
        yield from one_of("logger.kind", self.kind, LOGGERS)


@dataclass
class TrainConfig(Checked):
    """All settings of `scripts/train.py`."""

    model: ModelConfig = field(default_factory=TransformerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = 1
    run_dir: str | None = None  # none = runs/<data>-<model>-<time>
    resume: str | None = None  # folder of a run to continue

    def problems(self) -> Iterator[str]:
        if self.data.max_tokens < self.model.max_length:
            yield (
                f"data.max_tokens={self.data.max_tokens} cannot hold one sentence of "
                f"model.max_length={self.model.max_length} tokens: raise the first or lower the "
                "second"
            )
        yield from at_least("seed", self.seed, 0)
        yield from at_most("seed", self.seed, 2**32 - 1)


@dataclass
class CompareConfig(Checked):
    """All settings of `scripts/compare_attention.py`."""

    model: ModelConfig = field(default_factory=TransformerConfig)  # sizes that variants share
    runs: Any = field(default_factory=list)  # trained runs to compare instead of variants
    sentences: int = 64  # in a batch
    length: int = 24  # longest sentence in tokens
    vocab_size: int = 8000  # subwords of the variants
    repeats: int = 5  # measurements of each; the median counts
    calls: bool = True  # also time single calls of attention
    output: str | None = None  # folder of the tables and the figure; none = runs/attention-<time>
    device: str = "auto"  # auto | cpu | cuda

    def problems(self) -> Iterator[str]:
        least = {"sentences": 1, "length": 2, "vocab_size": 4, "repeats": 1}
        for name, value in least.items():
            yield from at_least(name, getattr(self, name), value)
            yield from at_most(name, getattr(self, name), 2**16)
        yield from one_of("device", self.device, ("auto", "cpu", "cuda"))
        if not isinstance(self.model, TransformerConfig):
            yield (
                f"model={self.model.name} has no heads to vary: choose a transformer, such as "
                "model=base; the recurrent model is compared with each"
            )


@dataclass
class EvaluateConfig(Checked):
    """All settings of `scripts/evaluate.py`."""

    model: str | None = None  # folder of a run or of a bundle
    data: DataConfig = field(default_factory=DataConfig)
    split: str = "test"  # train | val | test
    beam: int | None = None  # none = as the run was validated
    length_penalty: float | None = None
    output: str | None = None  # folder of the results; none = <model>/evaluation
    device: str = "auto"  # auto | cpu | cuda

    def problems(self) -> Iterator[str]:
        yield from one_of("split", self.split, ("train", "val", "test"))
        yield from one_of("device", self.device, ("auto", "cpu", "cuda"))
        if self.model is None:
            yield (
                "model= is missing: name the folder of a run or a bundle, "
                "for example model=runs/demo"
            )
