"""Models of Hugging Face's Transformers library for tests: real code, random weights."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import torch
from conftest import ROOT

PIECES = 400
SIZES: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 64,
    "dropout": 0.0,
}


def sentences(side: int) -> list[str]:
    """Texts of the project, English (0) or French (1)."""
    lines = (ROOT / "data/starter/val.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[side] for line in lines if line.count("\t") >= 1]


def spm(side: int, pieces: int = PIECES) -> bytes:
    """A SentencePiece model that was trained on them, as OPUS-MT's are."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(side)),
        model_writer=model,
        vocab_size=pieces,
        character_coverage=1.0,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    return model.getvalue()


def write_vocabularies(folder: Path, separate: bool = False) -> tuple[int, int]:
    """`source.spm`, `target.spm` and what their pieces are numbered by; sizes of both."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    known: list[list[str]] = []
    for side, name in enumerate(("source", "target")):
        (folder / f"{name}.spm").write_bytes(spm(side))
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        known.append([processor.id_to_piece(i) for i in range(3, processor.get_piece_size())])
    if not separate:
        known = [sorted({*known[0], *known[1]})] * 2
    files = ("vocab.json", "target_vocab.json") if separate else ("vocab.json",)
    sizes = []
    for pieces, file in zip(known, files, strict=False):
        names = ["</s>", "<unk>", *pieces, "<pad>"]
        (folder / file).write_text(json.dumps({name: i for i, name in enumerate(names)}))
        sizes.append(len(names))
    return sizes[0], sizes[-1]


def marian(folder: Path, seed: int = 0, separate: bool = False, **changes: Any) -> Any:
    """A Marian model and its tokenizer in a folder, as the hub has them; the model."""
    from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

    source, target = write_vocabularies(folder, separate)
    settings = SIZES | {
        "vocab_size": source,
        "decoder_vocab_size": target,
        "share_encoder_decoder_embeddings": not separate,
        "pad_token_id": source - 1,
        "decoder_start_token_id": target - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
        "num_beams": None,
    }
    settings.pop("num_beams")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = MarianMTModel(MarianConfig(**settings | changes)).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "embed_positions" not in name:
                    weight += 0.1 * torch.randn_like(weight)
            model.final_logits_bias.normal_()
            for module in model.modules():
                if (
                    isinstance(module, torch.nn.Embedding)
                    and "Positional" not in type(module).__name__
                ):
                    module.weight[-1] = 0.0  # padding, from which outputs start
    model.generation_config = GenerationConfig(
        num_beams=4,
        length_penalty=1.0,
        max_length=64,
        bad_words_ids=[[target - 1]],
        pad_token_id=target - 1,
        eos_token_id=0,
        decoder_start_token_id=target - 1,
    )
    model.save_pretrained(folder)
    names = {"vocab": "vocab.json", "target_vocab_file": "target_vocab.json" if separate else None}
    tokenizer = MarianTokenizer(
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        **{key: name and str(folder / name) for key, name in names.items()},
        source_lang="en",
        target_lang="fr",
        separate_vocabs=separate,
    )
    tokenizer.save_pretrained(folder)
    return model
