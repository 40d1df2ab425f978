"""Compare a model in the Transformers library with the same model here: outputs and speed.

python scripts/benchmarks/huggingface.py FOLDER TEXT [--lines N] [--translate N] [--repeats N]

FOLDER is a Marian or Pegasus model, downloaded or written by `seq2seq export huggingface`; TEXT has
one sentence per line. The script compares encoding and decoding, logits, the outputs of greedy
search and of 4 beams (it prints outputs that differ), and the seconds for all sentences, with the
engines in turn. Needs the libraries `transformers` and `ctranslate2`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from seq2seq.bundle.hub import import_folder
from seq2seq.cli.exits import run_command
from seq2seq.config import DecodeConfig
from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import BOS, PAD
from seq2seq.decoding.request import Request
from seq2seq.inference.engines import Engine, load_engine
from seq2seq.interop.huggingface import read_huggingface
from seq2seq.interop.vocabulary import Words, read_theirs, read_vocabulary
from seq2seq.lines import lines_of

LIMIT = 128  # most tokens of a source, and of an output
BATCH = 32  # sentences in each call of `generate`
LOGITS = 64  # sentences whose logits are compared

Ids = list[list[int]]


def compare_vocabularies(words: Words, tokenizer: Any, texts: Sequence[str]) -> None:
    """Print the lines that both encode or decode differently, as sources and as targets."""
    sides = {"text": words.vocabularies.source, "text_target": words.vocabularies.target}
    for (key, own), rows in zip(sides.items(), words.rows, strict=True):
        encoded = own.encode(texts)
        here = [[*rows[ids].tolist(), tokenizer.eos_token_id] for ids in encoded]
        there = [tokenizer(**{key: text})["input_ids"] for text in texts]
        texts_here = own.decode(encoded)
        texts_there = tokenizer.batch_decode(there, skip_special_tokens=True)
        for what, ours, theirs in (("encoded", here, there), ("decoded", texts_here, texts_there)):
            other = [i for i, one in enumerate(ours) if one != theirs[i]]
            print(f"{what} otherwise, as {key}: {len(other)} of {len(texts)} lines")
            for i in other[:5]:
                print(f"  {texts[i]!r}: {ours[i]!r} here, {theirs[i]!r} there")


def compare_logits(words: Words, folder: Path, sources: Ids, targets: Ids) -> None:
    """Print how far the logits of all tokens of these targets differ, in one padded batch.

    Compare the library's two kinds of attention, too, as they round differently.
    """
    batch, (source_rows, target_rows) = collate(sources, targets), words.rows
    real = batch.labels != PAD
    for dtype in (torch.float32, torch.bfloat16):
        ours, logits = read_huggingface(folder).model.to(dtype), dict[str, torch.Tensor]()
        with torch.inference_mode():
            hidden = ours(batch.source, batch.source_real, batch.target_in)[real]
            logits["ours"] = ours.project(hidden)
            for kind in ("eager", "sdpa"):
                theirs = AutoModelForSeq2SeqLM.from_pretrained(
                    folder, dtype=dtype, attn_implementation=kind
                ).eval()
                logits[kind] = theirs(
                    input_ids=source_rows[batch.source], attention_mask=batch.source_real.long(),
                    decoder_input_ids=target_rows[batch.target_in],
                ).logits[real][:, target_rows]  # fmt: skip
        expected = logits.pop("sdpa").float()  # the default of the library
        for name, found in logits.items():
            apart = (found.float() - expected).abs()
            apart[:, BOS] = 0  # the library may lack this token
            print(f"logits in {dtype}, {name}: {apart.max():.1e} apart at most, "
                  f"{apart.mean():.1e} on average; {(apart == 0).float().mean():.1%} are equal; "
                  f"their size is up to {expected.abs().max():.1f}")  # fmt: skip


def generated(model: Any, tokenizer: Any, texts: Sequence[str], beam: int) -> list[str]:
    """Translate with the library, in batches of texts of similar length, as ours are."""
    found = [""] * len(texts)
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        inputs = tokenizer([texts[i] for i in rows], return_tensors="pt", padding=True)
        outputs = model.generate(
            **inputs, num_beams=beam, early_stopping=beam > 1, length_penalty=1.0,
            max_new_tokens=LIMIT,
        )  # fmt: skip
        decoded = tokenizer.batch_decode(outputs, skip_special_tokens=True)
        for row, text in zip(rows, decoded, strict=True):
            found[row] = text
    return found


def searched(engine: Engine, sources: Ids, beam: int) -> Ids:
    """Translate with one of our engines, within the same limits."""
    config = DecodeConfig(beam=beam, max_ratio=0, max_extra=LIMIT, min_length=0)
    found = engine.search([Request(ids) for ids in sources], config)
    return [list(best.tokens) for best, *_ in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=10_000, help="that are encoded and decoded")
    parser.add_argument("--translate", type=int, default=1000, help="of these, at most")
    parser.add_argument("--repeats", type=int, default=3, help="of the searches, in turns")
    options = parser.parse_args()
    folder, texts = options.folder, [*islice(lines_of(options.text), options.lines)]
    words = read_vocabulary(folder, read_theirs(folder / "config.json"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    compare_vocabularies(words, tokenizer, texts)
    encoded = zip(texts, words.vocabularies.source.encode(texts), strict=True)
    chosen = [(text, ids) for text, ids in encoded if 0 < len(ids) < LIMIT][: options.translate]
    texts, sources = [text for text, _ in chosen], [ids for _, ids in chosen]
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    model.generation_config.max_length = None  # otherwise each call warns of two limits
    with TemporaryDirectory() as scratch:
        bundle = Path(scratch) / "bundle"
        import_folder(folder, bundle)
        engines = {name: load_engine([bundle], "cpu", name, "float32", cuda_graphs=False)[0]
                   for name in ("torch", "ctranslate2")}  # fmt: skip
    targets = searched(engines["torch"], sources[:LOGITS], beam=1)
    compare_logits(words, folder, sources[:LOGITS], targets)
    decode = words.vocabularies.target.decode
    for beam in (1, 4):
        found, seconds = dict[str, list[str]](), dict[str, list[float]]()
        for _ in range(options.repeats):
            for name in ("transformers", *engines):
                started = time.perf_counter()
                if name in engines:
                    found[name] = decode(searched(engines[name], sources, beam))
                else:
                    found[name] = generated(model, tokenizer, texts, beam)
                seconds.setdefault(name, []).append(time.perf_counter() - started)
        print(f"beam {beam}, {len(sources)} sentences, median of {options.repeats}: " + ", ".join(
            f"{name} {median(times):.1f} s" for name, times in seconds.items()))  # fmt: skip
        for name in engines:
            both = list(zip(found[name], found["transformers"], strict=True))
            other = [i for i, (here, there) in enumerate(both) if here != there]
            print(f"  {name}: {len(other)} of {len(both)} outputs differ")
            for i in other:
                print("    {}\n      here  {}\n      there {}".format(texts[i], *both[i]))


if __name__ == "__main__":
    run_command(main)
