"""Read and write vocabularies of Transformers models: Marian's SentencePiece files, and ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, normalizers, processors
from torch import Tensor

from seq2seq.data.sentencepiece import UNKNOWN, SentencePieceTokenizer
from seq2seq.data.tokenizer import BOS, EOS, PAD, SPECIAL_TOKENS, Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import BundleError, UserError
from seq2seq.files import read_json, write_json


@dataclass(frozen=True)
class Words:
    """The vocabularies of an imported model.

    Attributes:
        vocabularies: with our ids.
        rows: for each of our ids, the id in their vocabulary; for source and target.
        languages: of source and target; empty if unknown.
        starts: whether only our vocabulary has BOS, so that it is never an output.
    """

    vocabularies: Vocabularies
    rows: tuple[Tensor, Tensor]
    languages: list[str]
    starts: bool


def read_vocabulary(folder: Path, theirs: Mapping[str, Any]) -> Words:
    """Read the vocabulary of a model; raise BundleError if it is missing or of another kind."""
    described = read_theirs(folder / "tokenizer_config.json", optional=True)
    named = [described.get(f"{side}_lang") for side in ("source", "target")]
    languages = [] if None in named else [str(name) for name in named]
    if not (folder / "source.spm").is_file():
        try:
            words = Tokenizer.load(folder / "tokenizer.json")
        except UserError as error:
            raise BundleError(
                f"{folder} has no vocabulary that seq2seq can read: source.spm, target.spm and "
                f"vocab.json of Marian, or a tokenizer.json of this project ({error})"
            ) from error
        everything = torch.arange(words.vocab_size)
        both = Vocabularies(words, words)
        return Words(both, (everything, everything), languages, starts=False)
    rows, tokenizers = [], []
    separate = bool(described.get("separate_vocabs"))
    for side in ("source", "target"):
        name = "target_vocab.json" if separate and side == "target" else "vocab.json"
        ids = read_theirs(folder / name)
        own, names = _our_ids(folder / name, ids, theirs, start=side == "target")
        rows.append(torch.tensor(own))
        try:
            model = (folder / f"{side}.spm").read_bytes()
            tokenizers.append(SentencePieceTokenizer(model, names))
        except (OSError, RuntimeError) as error:
            raise BundleError(
                f"cannot read {folder / side}.spm: {error}. Download the model again"
            ) from error
    return Words(Vocabularies(*tokenizers), (rows[0], rows[1]), languages, starts=True)


def _our_ids(
    path: Path, ids: Mapping[str, int], theirs: Mapping[str, Any], start: bool
) -> tuple[list[int], list[str]]:
    """Return, for each of our ids, the id in their vocabulary and the token's name.

    Args:
        path, ids: file of the vocabulary, and its content.
        theirs: content of `config.json`.
        start: BOS is the token that starts their decoder; else BOS is padding, and never used.
    """
    names = {i: name for name, i in ids.items()}
    pad = ids.get("<pad>", theirs.get("pad_token_id"))
    eos = ids.get("</s>", theirs.get("eos_token_id"))
    if UNKNOWN not in ids or pad not in names or eos not in names:
        raise BundleError(f"{path} lacks one of <pad>, </s> and {UNKNOWN}: it is not Marian's")
    size = theirs.get("vocab_size")
    if start:
        size = theirs.get("decoder_vocab_size") or size
    if sorted(names) != list(range(size or 0)):
        raise BundleError(
            f"{path} does not fit config.json, which has {size} tokens, numbered from 0: it has "
            f"{len(names)}, up to number {max(names)}. Download the model again"
        )
    bos = theirs.get("decoder_start_token_id", pad) if start else pad
    others = [i for i in sorted(names) if i not in (pad, eos)]
    known = set(names.values())
    bos_name = next(name for name in (SPECIAL_TOKENS[1], "<start>", "<begin>") if name not in known)
    kept = [names[i] for i in others]
    return [pad, bos, eos, *others], [names[pad], bos_name, names[eos], *kept]


def their_orders(vocabularies: Vocabularies, zero_start: bool) -> list[list[int]]:
    """Return our ids in the order of their ids, for source and target.

    In Marian, the end mark is 0, padding is last and starts outputs, and there is no start mark.
    """
    return [
        [EOS, *range(len(SPECIAL_TOKENS), size), PAD] if zero_start else list(range(size))
        for size in vocabularies.sizes
    ]


def write_vocabulary(
    vocabularies: Vocabularies, orders: Sequence[Tensor], languages: Sequence[str], folder: Path
) -> None:
    """Write the files of a vocabulary; `orders` as from `their_orders`."""
    described = {
        "source_lang": languages[0],
        "target_lang": languages[1],
        "pad_token": SPECIAL_TOKENS[PAD],
        "eos_token": SPECIAL_TOKENS[EOS],
        "clean_up_tokenization_spaces": False,
    }
    source, target = vocabularies.source, vocabularies.target
    if isinstance(source, Tokenizer):
        (folder / "tokenizer.json").write_text(_library_form(source), encoding="utf-8")
        described |= {"tokenizer_class": "PreTrainedTokenizerFast", "split_special_tokens": True}
        described["bos_token"] = SPECIAL_TOKENS[BOS]
    else:
        assert isinstance(target, SentencePieceTokenizer)
        separate = source.names() != target.names()
        for side, own, order in zip(("source", "target"), (source, target), orders, strict=True):
            (folder / f"{side}.spm").write_bytes(own.model)
            if side == "source" or separate:
                name = "vocab.json" if side == "source" else "target_vocab.json"
                names = own.names()
                write_json(folder / name, {names[i]: n for n, i in enumerate(order.tolist())})
        described |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
        described["unk_token"] = UNKNOWN
    write_json(folder / "tokenizer_config.json", described)


def _library_form(tokenizer: Tokenizer) -> str:
    """Return our vocabulary in the library's form, which adds a leading space and the end mark.

    Decoding removes the space again.
    """
    theirs = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    end = SPECIAL_TOKENS[EOS]
    theirs.normalizer = normalizers.Prepend(" ")
    theirs.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, EOS)]
    )
    theirs.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return str(theirs.to_str())


# JSON


def read_theirs(path: Path, optional: bool = False) -> dict[str, Any]:
    """Read a model's JSON file; raise BundleError if it is damaged, or missing and not optional."""
    if optional and not path.exists():
        return {}
    try:
        return read_json(path)
    except (OSError, ValueError) as error:
        raise BundleError(f"cannot read {path}: {error}. Download the model again") from error
