"""What each step around the model is worth: on and off, on real text.

python scripts/benchmarks/text_steps.py FILE.parquet... [--model DIR] [--lines N]
    [--engine ctranslate2]

The files have columns `en` and `fr`. For each file and step: BLEU and seconds without the step, and
the lines that the step changes with their chrF.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.evaluation.metrics import corpus_scores
from seq2seq.inference.text import NAMES
from seq2seq.inference.translator import Translator


def translated(
    translator: Translator, texts: Sequence[str], **options: Any
) -> tuple[list[str], float]:
    """Translate texts; return the translations and the seconds that they took."""
    started = time.perf_counter()
    found = [one.text for one in translator.translate(texts, **options)]
    return found, time.perf_counter() - started


def score(kind: str, outputs: Sequence[str], references: Sequence[str]) -> float:
    return corpus_scores(outputs, references, [kind])[0].value if outputs else 0.0


def compare_steps(translator: Translator, name: str, pairs: Sequence[Pair]) -> None:
    """Print a row for each step, comparing all steps with all but this one."""
    texts, references = [en for en, _ in pairs], [fr for _, fr in pairs]
    translator.translate(texts[:64])  # the first call is slower
    full, seconds = translated(translator, texts)
    bleu = score("BLEU", full, references)
    print(f"\n{name}, {len(pairs)} lines: BLEU {bleu:.2f}, {seconds:.1f} s")
    print("| without | BLEU | seconds | lines it changes | chrF with | without |")
    print("| --- |" + " ---: |" * 5)
    for step in NAMES:
        off, seconds = translated(translator, texts, without=[step])
        rows = [i for i, output in enumerate(off) if full[i] != output]
        chrf = [
            score("chrF2", [every[i] for i in rows], [references[i] for i in rows])
            for every in (full, off)
        ]
        print(f"| {step} | {score('BLEU', off, references):.2f} | {seconds:.1f} | {len(rows)} | "
              f"{chrf[0]:.1f} | {chrf[1]:.1f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", help="a run or bundle; without, the shipped model")
    parser.add_argument("--engine", default="torch", choices=("torch", "ctranslate2"))
    parser.add_argument("--lines", type=int, help="of each file, at most")
    options = parser.parse_args()
    translator = Translator.load(options.model, device="cpu", engine=options.engine)
    for path in options.files:
        pairs = islice(read_pairs([path], ("en", "fr")), options.lines)
        compare_steps(translator, path.stem, list(pairs))


if __name__ == "__main__":
    main()
