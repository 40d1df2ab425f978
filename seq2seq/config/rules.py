"""Rules between groups of settings, and the settings that a resumed run may change.

Each rule yields a sentence for each combination that cannot work.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch

from seq2seq.config.checked import steps_of
from seq2seq.config.checkpoint import CheckpointConfig
from seq2seq.config.cleaning import CleaningConfig
from seq2seq.config.data import DataConfig
from seq2seq.config.model import ModelConfig, TransformerConfig
from seq2seq.config.optim import OptimConfig
from seq2seq.config.tokenizer import TokenizerConfig
from seq2seq.config.trainer import TrainerConfig
from seq2seq.length import rounding_step

RESUMABLE = (  # settings that may change when a run resumes
    *("trainer.*", "checkpoint.*", "logger.*"),
    *("data.path", "data.members.*.path", "data.cache", "data.processes", "data.num_workers"),
    *("data.store", "data.verify", "cleaning.max_dropped"),
    "decode.batch_tokens",  # memory of the search
    *("optim.decay_steps", "data.final_steps"),  # with max_steps, to let the rate fall now
)
FIXED = ("trainer.train_pairs", "trainer.val_pairs", "trainer.val_on_train")  # but not these


def may_change(key: str) -> bool:
    """Tell whether a setting may have another value when a run resumes."""
    return key not in FIXED and any(fnmatch(key, pattern) for pattern in RESUMABLE)


def sentences_fit_batches(data: DataConfig, model: ModelConfig) -> Iterator[str]:
    """Check that a batch can hold the longest pair, padded."""
    if data.max_tokens < 2 * model.max_length:
        yield (
            f"data.max_tokens={data.max_tokens} cannot hold one pair of sentences of "
            f"model.max_length={model.max_length} tokens each: raise the first or lower the second"
        )
    if data.length_multiple is None:
        return  # few shapes are chosen only if they fit
    multiple = data.length_multiple or rounding_step(model.max_length)
    if model.max_length % multiple:
        yield (
            f"data.length_multiple={data.length_multiple} would pad sentences beyond "
            f"model.max_length={model.max_length}: make the second a multiple of {multiple}"
        )


def vocabularies_fit_embeddings(tokenizer: TokenizerConfig, model: ModelConfig) -> Iterator[str]:
    """Check that two vocabularies do not share one matrix of embeddings."""
    if not tokenizer.joint and model.tie_embeddings == "all":
        yield (
            "tokenizer.joint=false makes two vocabularies, which cannot share the embeddings "
            "of model.tie_embeddings=all: set model.tie_embeddings=decoder"
        )


def layers_can_be_compiled(trainer: TrainerConfig, model: ModelConfig) -> Iterator[str]:
    """Check that the model has layers that torch.compile compiles once for all lengths."""
    if trainer.compile and not isinstance(model, TransformerConfig):
        yield (
            f"trainer.compile=true compiles the layers of a transformer, and model={model.name} "
            "runs token by token: set trainer.compile=false"
        )


def schedule_fits_run(
    optim: OptimConfig, trainer: TrainerConfig, data: DataConfig
) -> Iterator[str]:
    """Check that the parts of a run fit into it, if their lengths are in steps already."""
    total, warmup = steps_of(trainer.max_steps), steps_of(optim.warmup_steps)
    if total is not None and total <= (data.final_steps or 0):
        yield (
            f"data.final_steps={data.final_steps} leaves nothing of trainer.max_steps={total} for "
            "the steps before them: lower the first (0 = none) or raise the second"
        )
    if total is None or warmup is None:
        return
    if optim.schedule == "cosine" and warmup >= total:
        yield (
            f"optim.warmup_steps={warmup} leaves nothing of trainer.max_steps={total} for "
            "optim.schedule=cosine to fall in: lower the first or raise the second"
        )
    if optim.schedule == "wsd" and (optim.decay_steps is None or steps_of(optim.decay_steps)):
        decay = steps_of(optim.decay_steps) or optim.decay_length(total)
        if warmup + decay > total:
            yield (
                f"optim.schedule=wsd needs {warmup} steps of warm-up and {decay} of decay, "
                f"which trainer.max_steps={total} cannot hold: lower optim.warmup_steps or "
                "optim.decay_steps, or train longer"
            )


def sharded_weights_suffice(
    trainer: TrainerConfig, optim: OptimConfig, checkpoint: CheckpointConfig
) -> Iterator[str]:
    """Check that nothing needs whole weights under FSDP, where a process has only a part."""
    need_whole = (  # setting, whether it is used, what to do instead
        (f"optim.ema={optim.ema}", optim.ema, "optim.ema=0"),
        ("optim.optimizer=muon", optim.optimizer == "muon", "optim.optimizer=adamw"),
        (f"checkpoint.average={checkpoint.average}", checkpoint.average, "checkpoint.average=0"),
    )
    for name, used, instead in need_whole:
        if used and trainer.strategy == "fsdp":
            yield (
                f"{name} needs whole weights in each process, and trainer.strategy=fsdp leaves "
                f"only a part there: use trainer.strategy=ddp, or {instead}"
            )


def headings_are_english(data: DataConfig, cleaning: CleaningConfig) -> Iterator[str]:
    """Check that the source is English if the data have headings, capitalised as in English."""
    if cleaning.languages[:1] == ["en"]:
        return
    members = {f"data.members.{name}": corpus for name, corpus in data.corpora().items()}
    for name, corpus in {"data": data, **members}.items():
        if corpus.variants.get("heading"):
            yield (
                f"{name}.variants.heading writes the source as English headings are written, and "
                f"cleaning.languages={cleaning.languages} has another source: set "
                f"{name}.variants.heading=0"
            )
