"""Every setting of the project: its type, default, meaning and the rules between settings.

These dataclasses are the schema of the YAML files in `configs/` (Hydra merges the files into
them, so an unknown key or a wrong type fails at once) and what all code below the entry
points receives. Impossible values raise `ConfigError`, with all problems in one message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from fnmatch import fnmatch
from typing import Any, TypeVar, get_type_hints

from seq2seq.errors import ConfigError, nearest
from seq2seq.length import Length

OPTIMIZERS = ("adamw", "muon")
SCHEDULES = ("inverse_sqrt", "cosine", "wsd")
PRECISIONS = ("auto", "32-true", "bf16-mixed", "16-mixed")
KERNELS = ("sdpa", "reference")
LOGGERS = ("wandb", "tensorboard", "csv", "none")
RESUMABLE = (  # settings that may change when a run goes on
    *("trainer.*", "checkpoint.*", "logger.*"),
    *("data.path", "data.members.*.path", "data.cache", "data.processes", "data.num_workers"),
    "decode.batch_tokens",  # memory of the search
)

FIXED = ("trainer.train_pairs", "trainer.val_pairs", "trainer.val_on_train")  # but for these

Settings = TypeVar("Settings", bound="Checked")


def may_change(key: str) -> bool:
    """Whether a setting may have another value when a run goes on."""
    return key not in FIXED and any(fnmatch(key, pattern) for pattern in RESUMABLE)


class Checked:
    """Base of the settings: refuses impossible values when it is made."""

    def problems(self) -> Iterator[str]:
        """Yield one sentence for each value that cannot work."""
        yield from ()

    def __post_init__(self) -> None:
        problems = list(self.problems())
        if problems:
            raise ConfigError(problems)


def unchecked(schema: type[Settings], values: Mapping[str, Any]) -> Settings:
    """A settings object whose problems can still be asked for, however bad its values are."""
    settings = object.__new__(schema)
    vars(settings).update(values)
    return settings


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


def length(name: str, value: Any) -> Iterator[str]:
    try:
        Length.parse(value)
    except ValueError as error:
        yield f"{name}={value} is no length: {error}"


def steps(value: Any) -> int | None:
    """A length that is given in steps; None for other units, and for what is no length."""
    try:
        found = Length.parse(value)
    except ValueError:
        return None
    return int(found.count) if found.unit == "steps" else None


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
    word_dropout: float = 0.0  # share of tokens whose whole embedding is dropped in training
    max_length: int = 256  # longest sentence in tokens, its end mark included

    def problems(self) -> Iterator[str]:
        for name in self.sizes():
            yield from at_least(f"model.{name}", getattr(self, name), 1)
        for name in (*self.sizes(), "max_length"):
            yield from at_most(f"model.{name}", getattr(self, name), 2**16)
        yield from at_least("model.max_length", self.max_length, 8)
        yield from one_of("model.tie_embeddings", self.tie_embeddings, ("none", "decoder", "all"))
        for name in ("dropout", "word_dropout"):
            yield from share(f"model.{name}", getattr(self, name))
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


# Settings of a model that any weights fit.
FREE_OF_WEIGHTS = ("name", "dropout", "attention_dropout", "word_dropout", "kernel")
ARCHITECTURES: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "rnn_attention": RecurrentConfig,
}


@dataclass
class CorpusConfig(Checked):
    """Where parallel text is. It comes from one of these:

    - files: `train`, `val` and `test` each name a file, a glob, the stem of files inside `path`
      (`val` finds `val.parquet`, `val.tsv.gz`, `val.en` + `val.fr`, ...), or a list of these;
    - the hub, when `path` is null: `hub` names a data set, `train` and the others its splits;
    - `urls`, when `path` is null: files that are fetched once, and named as above;
    - `sacrebleu`, when `path` is null: `test` and the others name its test sets.
    """

    name: str = "files"
    path: str | None = None  # folder that the names below are looked up in
    origin: str | None = None  # where the corpus can be had; named when it is missing
    hub: str | None = None  # data set of the Hugging Face hub, or a folder laid out like one
    hub_config: str | None = None  # its configuration, such as en-fr
    hub_revision: str | None = None  # its branch, tag or commit
    urls: list[str] = field(default_factory=list)  # fetched into the cache
    sacrebleu: bool = False  # the names below are test sets of sacrebleu, such as wmt14/full
    train: Any = "train"
    val: Any = "val"
    test: Any = "test"
    source_column: str = "en"  # column of the source text; a number for TSV without header
    target_column: str = "fr"
    # Rows of files that are read, by values of other columns (numbers as text), such as
    # {source: [tatoeba]}; {} = all
    where: dict[str, list[str]] = field(default_factory=dict)
    # Share of the training pairs that come again in capitals, without capital and full stop
    # (plain), or as a heading; see seq2seq/data/variants.py
    variants: dict[str, float] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        if self.source_column == self.target_column:
            yield (
                f"data.source_column and data.target_column are both {self.source_column!r}: "
                "a model that copies needs no training; name two columns"
            )
        if self.hub and self.urls:
            yield "data.hub and data.urls both say where the corpus is: give one of them"
        if self.sacrebleu and (self.hub or self.urls):
            yield "data.sacrebleu=true and another place both say where the corpus is: give one"
        if self.where and self.path is None and (self.hub or self.sacrebleu):
            yield (
                "data.where chooses rows of files, and this corpus has none: leave it out, or "
                "download the files and name their folder, data.path=FOLDER"
            )
        for column, values in dict[str, Any](self.where).items():
            if isinstance(values, str):  # whose characters would be the values
                yield f"data.where.{column}={values} is one text: give a list, [{values}]"
            elif not values:
                yield (
                    f"data.where.{column}=[] chooses no row: give the values that the column "
                    "shall have, or leave it out"
                )
        for name, share_of_pairs in self.variants.items():
            yield from one_of("data.variants", name, VARIANTS)
            if not 0 <= share_of_pairs <= 1:
                yield (
                    f"data.variants.{name}={share_of_pairs} is a share of the pairs: give a number "
                    "from 0 (none) to 1 (all)"
                )


@dataclass
class DataConfig(CorpusConfig):
    """A corpus, or several of them mixed, and how it is prepared and cut into batches."""

    members: dict[str, CorpusConfig] = field(default_factory=dict)  # corpora of a mixture
    weights: dict[str, float] = field(default_factory=dict)  # times per epoch; 1 if not named
    final_weights: dict[str, float] = field(default_factory=dict)  # weights in the last final_steps
    final_steps: int | None = None  # updates at the end of a run; 0 = none
    temperature: float = 1.0  # share ~ size ** (1 / temperature); 1 = every pair once
    streaming: bool = False  # read while training instead of preparing first
    cache: str | None = None  # prepared corpora; null = $SEQ2SEQ_CACHE, or ~/.cache/seq2seq
    processes: int | None = None  # that prepare the corpus; null = one per core
    max_tokens: int = 8192  # padded source + target positions of a batch
    max_sentences: int | None = None  # pairs of a batch; null = as many as the tokens allow
    length_multiple: int = 1  # padded lengths are multiples of this; 8 suits tensor cores
    longest_first: bool = False  # begin with the largest batch: too little memory shows at once
    num_workers: int = 0  # processes that make batches beside the training one

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from at_least("data.max_tokens", self.max_tokens, 2)
        yield from at_least("data.num_workers", self.num_workers, 0)
        yield from at_least("data.length_multiple", self.length_multiple, 1)
        yield from at_least("data.temperature", self.temperature, 1)
        for name in ("max_sentences", "processes"):
            if getattr(self, name) is not None:
                yield from at_least(f"data.{name}", getattr(self, name), 1)
        yield from self._mixture_problems()
        if self.temperature != 1 and not self.members:
            yield (
                f"data.temperature={self.temperature} weighs the members of a mixture, and "
                f"data={self.name} has none: leave it out"
            )
        if self.streaming and self.longest_first:
            yield (
                "data.longest_first=true needs all lengths before training starts, which "
                "data.streaming=true does not know: leave one of them out"
            )
        if self.streaming and self.num_workers:
            yield (
                f"data.num_workers={self.num_workers} does nothing with data.streaming=true, "
                "which tokenises in threads of its own: leave one of them out"
            )

    def _mixture_problems(self) -> Iterator[str]:
        members = {name: _corpus(member) for name, member in self.members.items()}
        for name, corpus in members.items():
            for problem in corpus.problems():
                yield problem.replace("data.", f"data.members.{name}.")
        if members and self.train is not None:
            yield (
                f"data.train={self.train} and data.members both name the training text: "
                "set data.train=null to mix the members"
            )
        if members and self.val is None and self.test is None:
            empty: dict[str, Any] = {"urls": [], "where": {}}
            for name in ("path", "hub", "urls", "source_column", "target_column", "where"):
                default = empty.get(name, getattr(CorpusConfig, name, None))
                shared = {corpus.path for corpus in members.values()} if name == "path" else ()
                if getattr(self, name) != default and getattr(self, name) not in shared:
                    yield (
                        f"data.{name}={getattr(self, name)} does nothing, since the members of "
                        f"data={self.name} say where its text is: choose another corpus, such as "
                        f"data=files, or set data.members.NAME.{name}"
                    )
        if members and self.variants:
            yield (
                f"data.variants={self.variants} does nothing, since the members of "
                f"data={self.name} have variants of their own: set data.members.NAME.variants"
            )
        for setting in ("weights", "final_weights") if self.final_steps else ("weights",):
            for name, weight in getattr(self, setting).items():
                if name not in members:
                    yield f"data.{setting}.{name} weighs no member: {nearest(name, members)}"
                elif not 0 < weight < math.inf:
                    yield (
                        f"data.{setting}.{name}={weight} is how often each pair is seen in an "
                        "epoch: give a positive number; to leave a member out, mix without it "
                        "(docs/data.md)"
                    )
        if self.weights and self.temperature != 1:
            yield "data.weights and data.temperature both decide the mixture: give one of them"
        yield from self._final_problems()

    def _final_problems(self) -> Iterator[str]:
        if self.final_steps is None:
            if self.final_weights:
                yield (
                    "data.final_weights count in the last updates of a run: say in how many, such "
                    "as data.final_steps=500, or data.final_steps=0 for none"
                )
            return
        yield from at_least("data.final_steps", self.final_steps, 0)
        if self.final_steps > 0 and not self.final_weights:
            yield (
                f"data.final_steps={self.final_steps} does nothing without other weights for these "
                "updates: give them, +data.final_weights.NAME=NUMBER, or set data.final_steps=0"
            )
        if self.final_steps > 0 and self.streaming:
            yield (
                f"data.final_steps={self.final_steps} does not go with data.streaming=true, which "
                "reads its members by one set of weights: set data.final_steps=0, or leave "
                "streaming out"
            )


def _corpus(member: CorpusConfig | Mapping[str, Any]) -> CorpusConfig:
    """A member of a mixture, which is still a dict while settings are checked."""
    if isinstance(member, CorpusConfig):
        return member
    return unchecked(CorpusConfig, {**vars(CorpusConfig()), **member})


def headings_of_french(data: DataConfig, cleaning: CleaningConfig) -> Iterator[str]:
    """What is wrong with headings where the source is French."""
    if cleaning.languages[:1] == ["en"]:
        return
    members = {f"data.members.{name}": _corpus(one) for name, one in data.members.items()}
    for name, corpus in {"data": data, **members}.items():
        if corpus.variants.get("heading"):
            yield (
                f"{name}.variants.heading writes the source as English headings are written, and "
                f"cleaning.languages={cleaning.languages} makes it French: set "
                f"{name}.variants.heading=0"
            )


VARIANTS = ("capitals", "plain", "heading")
NORMALISATIONS = ("nfc", "controls", "spaces", "quotes", "french_spacing")
FILTERS = (
    "empty",
    "damaged",
    "too_long",
    "length_ratio",
    "identical",
    "markup",
    "symbols",
    "wrong_language",
    "leakage",
    "duplicate",
)


@dataclass
class CleaningConfig(Checked):
    """What is done to the training text. Each filter and its reason: seq2seq/data/cleaning.py.

    Validation and test text is normalised as the model's input is, and never filtered.
    """

    languages: list[str] = field(default_factory=lambda: ["en", "fr"])  # of source and target
    normalise: list[str] = field(default_factory=lambda: ["nfc", "controls", "spaces"])
    filters: list[str] = field(default_factory=lambda: list(FILTERS))  # in this order
    max_words: int = 200  # too_long: on either side
    max_characters: int = 2000  # too_long: on either side
    max_ratio: float = 3.0  # length_ratio: between the characters of the two sides ...
    ratio_from: int = 20  # ... where the longer has at least this many
    identical_from: int = 4  # identical: words that both sides must have at least
    min_letters: float = 0.5  # symbols: share of letters; a number or row of one sign counts once
    language_from: int = 6  # wrong_language: words that a side must have to be judged

    def steps(self, side: int) -> list[str]:
        """The normalisation of the source (0) or the target (1)."""
        french = self.languages[side] == "fr"
        return [step for step in self.normalise if step != "french_spacing" or french]

    def problems(self) -> Iterator[str]:
        if sorted(self.languages) != ["en", "fr"]:
            yield (
                f"cleaning.languages={self.languages} must be [en,fr], or [fr,en] for the other "
                "direction: what wrong_language and french_spacing know"
            )
        for name, given, valid in (
            ("normalise", self.normalise, NORMALISATIONS),
            ("filters", self.filters, FILTERS),
        ):
            for item in given:
                yield from one_of(f"cleaning.{name}", item, valid)
            if len(set(given)) < len(given):
                yield f"cleaning.{name} names one of them twice: {', '.join(map(str, given))}"
        if "duplicate" in self.filters[:-1]:
            yield (
                "cleaning.filters: duplicate must stand last, since pairs are compared after all "
                "others are gone"
            )
        counts = ("max_words", "max_characters", "ratio_from", "identical_from", "language_from")
        for name in counts:
            yield from at_least(f"cleaning.{name}", getattr(self, name), 1)
        yield from at_least("cleaning.max_ratio", self.max_ratio, 1)
        yield from share("cleaning.min_letters", self.min_letters)


BYTE_VOCABULARY = 259  # 256 bytes and three marks


@dataclass
class TokenizerConfig(Checked):
    """Subword vocabulary; every text can be encoded in it, since its parts go down to bytes."""

    kind: str = "bpe"  # bpe | unigram | byte
    vocab_size: int = 8000  # of each vocabulary, symbols apart
    joint: bool = True  # one vocabulary for both languages; false = one for each
    symbols: list[str] = field(default_factory=list)  # never split, such as <name>
    sample: int = 1_000_000  # pairs that the vocabulary is learned from, at most
    dropout: float = 0.0  # BPE-dropout: share of merges left out in training
    dropout_variants: int = 8  # segmentations that are prepared; each epoch takes the next
    # A ready tokenizer.json, or a folder with those of both languages, instead of learning: kind,
    # vocab_size, joint, symbols and sample then say nothing.
    path: str | None = None

    def problems(self) -> Iterator[str]:
        yield from one_of("tokenizer.kind", self.kind, ("bpe", "unigram", "byte"))
        yield from at_least("tokenizer.vocab_size", self.vocab_size, BYTE_VOCABULARY)
        yield from at_least("tokenizer.sample", self.sample, 1)
        yield from share("tokenizer.dropout", self.dropout)
        yield from at_least("tokenizer.dropout_variants", self.dropout_variants, 1)
        if self.dropout and self.kind != "bpe":
            yield (
                f"tokenizer.dropout={self.dropout} leaves out merges, and "
                f"tokenizer.kind={self.kind} has none: set tokenizer=bpe, or dropout=0"
            )
        if self.kind == "byte" and self.vocab_size != BYTE_VOCABULARY:
            yield (
                f"tokenizer.vocab_size={self.vocab_size}: tokenizer.kind=byte has "
                f"{BYTE_VOCABULARY} tokens, one for each byte and three marks: set "
                f"tokenizer.vocab_size={BYTE_VOCABULARY}"
            )
        if len(set(self.symbols)) < len(self.symbols):
            yield f"tokenizer.symbols names one of them twice: {', '.join(self.symbols)}"
        for symbol in self.symbols:
            if not symbol.strip() or symbol != symbol.strip():
                yield f"tokenizer.symbols: {symbol!r} must be text without spaces at its ends"


@dataclass
class OptimConfig(Checked):
    """The optimiser, its schedule after a linear warm-up, and what is added to the loss.

    Lengths are steps (updates of the weights) or text such as 2epochs or 50Mtokens.
    """

    optimizer: str = "adamw"  # adamw | muon: Muon for matrices of the layers, AdamW for the rest
    schedule: str = "inverse_sqrt"  # inverse_sqrt (the paper, section 5.3) | cosine | wsd
    lr: float | None = None  # peak; none = the paper's (d_model * warmup_steps) ** -0.5
    warmup_steps: Any = 4000
    decay_steps: Any = None  # wsd: its last steps, in which the rate falls; none = a fifth of all
    final_lr: float = 0.0  # cosine, wsd: share of the peak that is left at the end
    beta1: float = 0.9  # beta1, beta2, eps: of AdamW
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0  # on matrices only, never on biases and norms
    label_smoothing: float = 0.1
    r_drop: float = 0.0  # weight of R-Drop (Liang et al. 2021), which doubles each batch; 0 = off
    ema: float = 0.0  # decay of the average of weights that is evaluated and shipped; 0 = off

    def problems(self) -> Iterator[str]:
        yield from one_of("optim.optimizer", self.optimizer, OPTIMIZERS)
        yield from one_of("optim.schedule", self.schedule, SCHEDULES)
        yield from length("optim.warmup_steps", self.warmup_steps)
        if self.decay_steps is not None:
            yield from length("optim.decay_steps", self.decay_steps)
            if self.schedule != "wsd":
                yield (
                    f"optim.decay_steps={self.decay_steps} belongs to optim.schedule=wsd, and this "
                    f"is {self.schedule}: leave it out"
                )
        if self.final_lr and self.schedule == "inverse_sqrt":
            yield (
                f"optim.final_lr={self.final_lr} belongs to optim.schedule=cosine and wsd: "
                "inverse_sqrt has no end; leave it out"
            )
        yield from at_least("optim.r_drop", self.r_drop, 0)
        yield from at_least("optim.weight_decay", self.weight_decay, 0)
        for name in ("beta1", "beta2", "label_smoothing", "final_lr", "ema"):
            yield from share(f"optim.{name}", getattr(self, name))
        if self.lr is not None and not 0 < self.lr < math.inf:
            yield f"optim.lr={self.lr} would not learn: give a positive number, or null"
        if not 0 < self.eps < math.inf:
            yield f"optim.eps={self.eps} keeps AdamW from dividing by zero: give a positive number"

    def decay_length(self, total_steps: int) -> int:
        """Steps in which wsd falls; `decay_steps` is a number of steps, or None."""
        return self.decay_steps or max(1, round(total_steps / 5))


@dataclass
class DecodeConfig(Checked):
    """How translations are searched for."""

    strategy: str = "beam"  # beam | sample | mbr: of samples, the one that is most like the others
    beam: int = 5  # hypotheses kept per sentence; 1 = greedy
    n_best: int = 1  # translations returned per sentence
    length_norm: str = "average"  # none | average | gnmt: by what function of length ...
    length_penalty: float = 1.0  # ... to this power, a log probability is divided
    coverage: float = 0.0  # taken off for source tokens that got little attention (GNMT's beta)
    groups: int = 1  # of beams that differ from each other (diverse beam search) ...
    diversity: float = 0.5  # ... taken off a token for each earlier group that just chose it
    temperature: float = 1.0  # of samples: below 1 sharper, above 1 flatter
    top_k: int = 0  # sample among the likeliest so many; 0 = all
    top_p: float = 1.0  # ... among the likeliest that have this probability together
    min_p: float = 0.0  # ... among those at least so likely, relative to the likeliest
    samples: int = 32  # that mbr chooses from
    seed: int = 1  # of samples; each sentence draws for itself
    min_length: int = 1  # fewest output tokens before the end mark; 1 = never an empty output
    min_ratio: float = 0.0  # the same relative to the length that is to be expected
    max_ratio: float = 2.0  # output limit in tokens: max_ratio * expected length + max_extra
    max_extra: int = 10
    no_repeat_ngram: int = 0  # n-grams of so many tokens occur once; 0 = no such rule
    repetition_penalty: float = 1.0  # multiplies log probabilities of tokens that were used before
    batch_tokens: int = 4096  # source positions x beam decoded at once

    def problems(self) -> Iterator[str]:
        yield from one_of("decode.strategy", self.strategy, ("beam", "sample", "mbr"))
        yield from one_of("decode.length_norm", self.length_norm, ("none", "average", "gnmt"))
        for name in ("beam", "n_best", "groups", "max_extra", "batch_tokens"):
            yield from at_least(f"decode.{name}", getattr(self, name), 1)
        yield from at_least("decode.samples", self.samples, 2)
        for name in ("length_penalty", "coverage", "diversity", "top_k", "min_length", "min_ratio",
                     "max_ratio", "no_repeat_ngram", "seed"):
            yield from at_least(f"decode.{name}", getattr(self, name), 0)
        yield from at_least("decode.repetition_penalty", self.repetition_penalty, 1)
        if not 0 < self.temperature < float("inf"):
            yield f"decode.temperature={self.temperature} must be above 0; for 0 use decode.beam=1"
        if not 0 < self.top_p <= 1:
            yield f"decode.top_p={self.top_p} is a probability: give more than 0 and at most 1"
        if not 0 <= self.min_p < 1:
            yield f"decode.min_p={self.min_p} is a share: give 0 to below 1"
        if self.n_best > self.width >= 1:
            most, name = self.width, "samples" if self.strategy == "mbr" else "beam"
            yield f"decode.n_best={self.n_best} needs as many hypotheses (decode.{name}={most})"
        if self.strategy == "beam" and self.groups > 1 and self.beam % self.groups:
            yield (
                f"decode.groups={self.groups} must divide decode.beam={self.beam}: each group has "
                "equally many hypotheses"
            )
        if self.strategy != "beam" and (self.groups > 1 or self.coverage > 0):
            yield (
                f"decode.groups and decode.coverage belong to decode.strategy=beam, and this is "
                f"{self.strategy}: leave them out"
            )
        if self.min_ratio > self.max_ratio:
            yield (
                f"decode.min_ratio={self.min_ratio} is above decode.max_ratio={self.max_ratio}: "
                "no output could be long enough"
            )

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that are extended at once; only samples that are wanted."""
        return {"mbr": self.samples, "sample": self.n_best}.get(self.strategy, self.beam)


def _optional(settings: type[Any]) -> type[Any]:
    """The same settings, of which some are given and the others are None."""
    types = get_type_hints(settings)
    none = [(field.name, types[field.name] | None, None) for field in fields(settings)]
    return make_dataclass(f"{settings.__name__}Changes", none, bases=(Checked,))


# Search settings that are given; the others are as the model was validated.
DecodeChanges = _optional(DecodeConfig)


@dataclass
class TrainerConfig(Checked):
    """The training loop. One step is one update of the weights.

    `max_steps` and `val_every_n_steps` are steps, or text such as 20epochs or 500Mtokens.
    """

    max_steps: Any = 10000
    accelerator: str = "auto"  # auto | cpu | gpu
    devices: int = 1  # processes (GPUs) on this machine
    num_nodes: int = 1
    strategy: str = "auto"  # auto | ddp | fsdp
    precision: str = "auto"  # the fastest that is safe on this device; or one of PRECISIONS
    compile: bool = False  # by torch.compile
    accumulate: int = 1  # batches per step
    split: int = 1  # parts that a batch is computed in, one by one: less memory, but slower
    halve_on_oom: bool = False  # double `split` and go on when memory runs out
    gradient_clip: float = 1.0  # largest global gradient norm; 0 = no clipping
    on_bad_step: str = "skip"  # skip | stop: what a spike or a loss that is no number does
    spike: float = 5.0  # nats per token above the recent average that make a spike
    val_every_n_steps: Any = 1000
    patience: int | None = None  # validations without a better BLEU before training stops
    log_every_n_steps: int = 50
    train_pairs: int | None = None  # train on the first so many only; null = all
    val_pairs: int | None = None  # validate on the first so many only; null = all
    val_on_train: bool = False  # validate on the training pairs: does it learn at all?
    profile: bool = False  # write what a few steps spend their time on to <run>/profile

    def problems(self) -> Iterator[str]:
        for name in ("max_steps", "val_every_n_steps"):
            yield from length(f"trainer.{name}", getattr(self, name))
        for name in ("devices", "num_nodes", "accumulate", "split", "log_every_n_steps"):
            yield from at_least(f"trainer.{name}", getattr(self, name), 1)
        for name in ("patience", "train_pairs", "val_pairs"):
            if getattr(self, name) is not None:
                yield from at_least(f"trainer.{name}", getattr(self, name), 1)
        if self.val_on_train and self.train_pairs is None and self.val_pairs is None:
            yield (
                "trainer.val_on_train=true would translate the whole training text at each "
                "validation: say how much of it, trainer.val_pairs=NUMBER"
            )
        yield from at_least("trainer.gradient_clip", self.gradient_clip, 0)
        yield from at_least("trainer.spike", self.spike, 0.1)
        yield from one_of("trainer.accelerator", self.accelerator, ("auto", "cpu", "gpu"))
        yield from one_of("trainer.strategy", self.strategy, ("auto", "ddp", "fsdp"))
        if self.strategy == "fsdp" and self.compile:
            yield (
                "trainer.compile=true does not go with trainer.strategy=fsdp, whose weights come "
                "and go while a step runs: leave it out, or use trainer=ddp"
            )
        yield from one_of("trainer.precision", self.precision, PRECISIONS)
        yield from one_of("trainer.on_bad_step", self.on_bad_step, ("skip", "stop"))


@dataclass
class CheckpointConfig(Checked):
    """When the state of a run is saved; the best by validation BLEU is always kept too."""

    every_n_steps: int = 500
    every_minutes: float | None = None  # also after so much time
    average: int = 0  # validated weights that are averaged at the end (0 = none) ...
    average_by: str = "last"  # last | best: ... the last of them, or those with the best BLEU

    def problems(self) -> Iterator[str]:
        yield from at_least("checkpoint.every_n_steps", self.every_n_steps, 1)
        if self.every_minutes is not None:
            yield from at_least("checkpoint.every_minutes", self.every_minutes, 0.01)
        yield from at_least("checkpoint.average", self.average, 0)
        yield from one_of("checkpoint.average_by", self.average_by, ("last", "best"))
        if self.average == 1:
            yield "checkpoint.average=1 averages nothing: give 0, or 2 and more"


@dataclass
class LoggerConfig(Checked):
    """Where curves go, beside `<run>/metrics`; what is kept of each validation."""

    kind: str = "wandb"
    project: str = "seq2seq"  # W&B project
    group: str | None = None  # of W&B runs; null = the sweep that the run belongs to, if any
    upload_bundle: bool = True  # the bundle becomes a W&B artifact at the end
    samples: int = 10  # sentences in samples.jsonl, and as many of the worst; 0 = no such file.
    # Of more than 20, some have no picture in W&B.

    def problems(self) -> Iterator[str]:
        yield from one_of("logger.kind", self.kind, LOGGERS)
        yield from at_least("logger.samples", self.samples, 0)


@dataclass
class TrainConfig(Checked):
    """All settings of `scripts/train.py`."""

    model: ModelConfig = field(default_factory=TransformerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = 1
    run_dir: str | None = None  # none = runs/<data>-<model>-<time>
    resume: str | None = None  # folder of a run to continue
    # Run, bundle or shipped model (general) whose weights training starts from: fine-tuning.
    init_from: str | None = None
    dry_run: bool = False  # build all of it, say what it would take, and stop

    def problems(self) -> Iterator[str]:
        if self.data.max_tokens < 2 * self.model.max_length:
            yield (
                f"data.max_tokens={self.data.max_tokens} cannot hold one pair of sentences of "
                f"model.max_length={self.model.max_length} tokens each: raise the first or lower "
                "the second"
            )
        if self.model.max_length % self.data.length_multiple:
            yield (
                f"data.length_multiple={self.data.length_multiple} would pad sentences beyond "
                f"model.max_length={self.model.max_length}: make the second a multiple of the first"
            )
        if not self.tokenizer.joint and self.model.tie_embeddings == "all":
            yield (
                "tokenizer.joint=false makes two vocabularies, which cannot share the embeddings "
                "of model.tie_embeddings=all: set model.tie_embeddings=decoder"
            )
        yield from self._length_problems()
        if self.trainer.strategy == "fsdp" and (self.optim.ema or self.checkpoint.average):
            name = "optim.ema" if self.optim.ema else "checkpoint.average"
            yield (
                f"{name} needs whole weights in each process, and trainer.strategy=fsdp leaves "
                "only a part there: use trainer.strategy=ddp, or leave it out"
            )
        if self.trainer.strategy == "fsdp" and self.optim.optimizer == "muon":
            yield (
                "optim.optimizer=muon makes whole matrices orthogonal, and trainer.strategy=fsdp "
                "leaves each process only some rows of them: use trainer.strategy=ddp, or "
                "optim.optimizer=adamw"
            )
        yield from headings_of_french(self.data, self.cleaning)
        yield from at_least("seed", self.seed, 0)
        yield from at_most("seed", self.seed, 2**32 - 1)

    def lengths(self) -> dict[str, Any]:
        """All lengths of training that are set, by name."""
        names = {
            "trainer.max_steps": self.trainer.max_steps,
            "trainer.val_every_n_steps": self.trainer.val_every_n_steps,
            "optim.warmup_steps": self.optim.warmup_steps,
            "optim.decay_steps": self.optim.decay_steps,
        }
        return {name: value for name, value in names.items() if value is not None}

    def _length_problems(self) -> Iterator[str]:
        """Schedules that do not fit into the run, as far as their lengths are steps already."""
        if self.data.streaming:
            for name, value in self.lengths().items():
                if steps(value) is None and not list(length(name, value)):
                    yield (
                        f"{name}={value}: with data.streaming=true nobody knows how long an epoch "
                        "is: give a number of steps, or leave data.streaming out"
                    )
        optim, total = self.optim, steps(self.trainer.max_steps)
        if total is not None and total <= (self.data.final_steps or 0):
            yield (
                f"data.final_steps={self.data.final_steps} leaves nothing of trainer.max_steps="
                f"{total} for the steps before them: lower the first (0 = none) or raise the second"
            )
        warmup = steps(optim.warmup_steps)
        if total is None or warmup is None:
            return
        if optim.schedule == "cosine" and warmup >= total:
            yield (
                f"optim.warmup_steps={warmup} leaves nothing of trainer.max_steps={total} for "
                "optim.schedule=cosine to fall in: lower the first or raise the second"
            )
        if optim.schedule == "wsd" and (optim.decay_steps is None or steps(optim.decay_steps)):
            decay = steps(optim.decay_steps) or optim.decay_length(total)
            if warmup + decay > total:
                yield (
                    f"optim.schedule=wsd needs {warmup} steps of warm-up and {decay} of decay, "
                    f"which trainer.max_steps={total} cannot hold: lower optim.warmup_steps or "
                    "optim.decay_steps, or train longer"
                )


@dataclass
class AverageConfig(Checked):
    """All settings of `scripts/average_checkpoints.py`."""

    run: str | None = None  # whose snapshots are averaged (made with checkpoint.average=N)
    average: int = 5  # so many of them
    by: str = "last"  # last | best: the last ones, or those with the best validation BLEU
    inputs: list[str] = field(default_factory=list)  # bundles or runs to average instead
    output: str | None = None  # folder of the new bundle

    def problems(self) -> Iterator[str]:
        yield from at_least("average", self.average, 2)
        yield from one_of("by", self.by, ("last", "best"))
        if (self.run is None) == (not self.inputs):
            yield (
                "what shall be averaged? Give either run=FOLDER (a run made with "
                "checkpoint.average=N) or inputs=[FOLDER,FOLDER,...] (bundles or runs)"
            )
        if len(self.inputs) == 1:
            yield f"inputs=[{self.inputs[0]}] is one model only: an average needs two and more"
        if self.output is None:
            yield "output= is missing: name the folder of the new bundle, output=runs/averaged"


@dataclass
class PrepareConfig(Checked):
    """All settings of `scripts/prepare_data.py`."""

    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    tasks: int = 1  # of a cluster that clean one corpus together, one part each
    task: int = 0  # which of them this is

    def problems(self) -> Iterator[str]:
        yield from at_least("tasks", self.tasks, 1)
        yield from at_least("task", self.task, 0)
        if self.task >= self.tasks >= 1:
            yield f"task={self.task} does not exist: tasks={self.tasks} are counted from 0"
        if self.data.streaming:
            yield "data.streaming=true needs no preparation: leave it out here"
        yield from headings_of_french(self.data, self.cleaning)


@dataclass
class DataBenchmarkConfig(Checked):
    """All settings of `scripts/benchmark.py data`."""

    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    pairs: int = 50_000  # of the corpus, from its beginning
    max_length: int = 256  # tokens of a sentence; longer pairs are left out
    repeats: int = 3  # measurements of each; the median counts
    seed: int = 1

    def problems(self) -> Iterator[str]:
        for name in ("pairs", "repeats"):
            yield from at_least(name, getattr(self, name), 1)
        yield from at_least("max_length", self.max_length, 8)
        yield from at_least("seed", self.seed, 0)


@dataclass
class TrainBenchmarkConfig(Checked):
    """All settings of `scripts/benchmark.py train`: each combination of the lists is measured."""

    model: ModelConfig = field(default_factory=TransformerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    # none = trainer.precision; where that is auto, each that this device has
    precisions: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)  # none = model.kernel
    compile: list[bool] = field(default_factory=list)  # none = trainer.compile
    threads: list[int] = field(default_factory=list)  # none = as many as torch takes
    warmup_steps: int = 3  # not counted, in each measurement
    steps: int = 10  # counted, in each measurement
    repeats: int = 3  # measurements of each setting, in turns
    seed: int = 1

    def problems(self) -> Iterator[str]:
        for name in ("steps", "repeats"):
            yield from at_least(name, getattr(self, name), 1)
        yield from at_least("warmup_steps", self.warmup_steps, 0)
        for precision in self.precisions:
            yield from one_of("precisions", precision, PRECISIONS[1:])
        for kernel in self.kernels:
            yield from one_of("kernels", kernel, KERNELS)
        for threads in self.threads:
            yield from at_least("threads", threads, 1)
        if self.kernels and not isinstance(self.model, TransformerConfig):
            yield f"kernels: model={self.model.name} has no choice of kernels: leave it out"
        if self.trainer.devices * self.trainer.num_nodes != 1:
            yield "trainer.devices, trainer.num_nodes: one device is measured; leave them out"
        yield from unchecked(TrainConfig, vars(TrainConfig()) | self._training()).problems()

    def training(self) -> TrainConfig:
        """Those of the run whose steps are measured."""
        return TrainConfig(**self._training())

    def _training(self) -> dict[str, Any]:
        parts = ("model", "data", "cleaning", "tokenizer", "optim", "trainer", "seed")
        return {name: getattr(self, name) for name in parts}


@dataclass
class DecodeBenchmarkConfig(Checked):
    """All settings of `scripts/benchmark.py decode`: each combination of the lists is measured."""

    model: ModelConfig = field(default_factory=TransformerConfig)  # of random weights
    vocab_size: int = 8000
    precisions: list[str] = field(default_factory=lambda: ["float32"])  # see inference/precision.py
    beams: list[int] = field(default_factory=lambda: [1, 5])
    batches: list[int] = field(default_factory=lambda: [1, 64])  # sentences decoded together
    workers: list[int] = field(default_factory=lambda: [1])  # batches at once, a thread each
    cuda_graphs: list[bool] = field(default_factory=lambda: [False])  # on a GPU; cuda_graph.py
    length: int = 20  # tokens of each output
    warmup_calls: int = 2  # not counted, in each measurement
    calls: int = 10  # counted, in each measurement
    repeats: int = 3  # measurements of each setting, in turns
    device: str = "auto"  # auto | cpu | cuda
    seed: int = 1

    def problems(self) -> Iterator[str]:
        for name in ("length", "calls", "repeats"):
            yield from at_least(name, getattr(self, name), 1)
        yield from at_least("vocab_size", self.vocab_size, 8)
        yield from at_least("warmup_calls", self.warmup_calls, 0)
        for name in ("beams", "batches", "workers"):
            for value in getattr(self, name):
                yield from at_least(name, value, 1)
        yield from one_of("device", self.device, ("auto", "cpu", "cuda"))
        most = self.model.max_length
        if self.length > most:
            yield f"length={self.length} is more than the model takes (model.max_length={most})"


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
    """All settings of `scripts/evaluate.py`: either a model translates a test set, or translations
    that are there are scored (`hypothesis` and `reference`)."""

    model: str | None = None  # folder of a run or of a bundle; or general, the shipped one
    data: DataConfig = field(default_factory=DataConfig)
    split: str = "test"  # train | val | test
    decode: Any = field(default_factory=DecodeChanges)  # none = as the run was validated
    precision: str | None = None  # see inference/precision.py; none = float32, as in validation
    device: str = "auto"  # auto | cpu | cuda
    hypothesis: str | None = None  # translations, a file of lines; it may be packed
    reference: str | None = None  # what they are compared with, line by line
    source: str | None = None  # what was translated; needed for breakdowns, faults and COMET
    output: str | None = None  # folder of the results, none = <model>/evaluation; or FILE.json
    language: str | None = None  # of the translations; none = as the model was trained, or fr
    # Text that the test set is compared with: auto = the model's, if it is in the cache and of
    # modest size; all = of any size; none; or files, named as in data.train.
    training_text: Any = "auto"
    comet: str | None = None  # checkpoint of a COMET model, FOLDER/checkpoints/model.ckpt
    comet_command: str = "comet-score"  # of the package unbabel-comet, which stands elsewhere

    def problems(self) -> Iterator[str]:
        yield from one_of("split", self.split, ("train", "val", "test"))
        yield from one_of("device", self.device, ("auto", "cpu", "cuda"))
        files = [name for name in ("hypothesis", "reference", "source") if getattr(self, name)]
        if self.model is None and not files:
            yield (
                "model= is missing: name the folder of a run or a bundle, for example "
                "model=runs/demo; or translations to score, hypothesis=FILE reference=FILE"
            )
        elif self.model is not None and files:
            yield (
                f"model= translates a test set, and {files[0]}= is for translations that are "
                "there: give one of them"
            )
        elif files and not {"hypothesis", "reference"} <= set(files):
            yield f"{files[0]}= alone cannot be scored: give hypothesis=FILE reference=FILE"
        record = str(self.output or "").endswith(".json")
        if self.output is not None and record != (self.model is None):
            kind = "a file, output=FILE.json" if self.model is None else "a folder, output=FOLDER"
            yield f"output={self.output}: the results of this go to {kind}"
        if self.comet is not None and files and self.source is None:
            yield "comet= reads what was translated, too: give source=FILE"
        if self.comet is None and self.comet_command != EvaluateConfig.comet_command:
            yield f"comet_command={self.comet_command} does nothing without comet=MODEL.ckpt"
        if ".." in self.data.name.split("/"):
            yield f"data.name={self.data.name} names a folder of results: leave .. out"
        if self.model is None and files:
            yield from self._idle()

    def _idle(self) -> Iterator[str]:
        """Settings that do nothing for translations that are there, as far as that can be told:
        `data` has a default in configs/, and its columns are those of `training_text`, too."""
        changes = {f"decode.{name}": value for name, value in vars(self.decode).items()}
        for name in ("split", "precision", "device"):
            value = getattr(self, name)
            changes[name] = None if value == getattr(EvaluateConfig, name) else value
        named = self.training_text not in ("auto", "all", "none")
        if not named and self.data.name not in (DataConfig.name, "starter"):
            changes["data"] = self.data.name
        if self.training_text == "all" or (named and self.source is None):
            changes["training_text"] = self.training_text
        for name, value in changes.items():
            if value is not None:
                needed = "source=FILE" if name == "training_text" and named else "model=FOLDER"
                yield f"{name}={value} does nothing without {needed}: leave it out"
