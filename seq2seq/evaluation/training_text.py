"""Compare a test set with the training text of the model, if that text is available: how many
sentences are in both, and how often the words of the test set occur in training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq.data.cleaning import text_key
from seq2seq.data.corpus import Pair
from seq2seq.data.fingerprint import cache_folder
from seq2seq.files import read_json

MAX_AUTO_PAIRS = 2_000_000  # read in some 20 s; a larger training text is only read on request
SHOWN = 5  # examples of shared sources in the record
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Shared:
    """What each sentence of a test set shares with the training text."""

    pairs_read: int  # of the training text
    sources: list[bool]  # whether the training text has the source
    pairs: list[bool]  # whether the training text has the source with the reference
    rarest: list[int]  # how often the rarest word of the source occurs in the training sources

    def record(self, name: str, sources: Sequence[str]) -> dict[str, Any]:
        """Return the entry of `evaluation.json`, with the name of the training text."""
        examples = [source for source, seen in zip(sources, self.sources, strict=True) if seen]
        return {
            "training_text": name,
            "training_pairs": self.pairs_read,
            "sources": sum(self.sources),
            "pairs": sum(self.pairs),
            "examples": examples[:SHOWN],
        }


def compare(training: Iterable[Pair], sources: Sequence[str], references: Sequence[str]) -> Shared:
    """Compare a test set with the training text, which is read once.

    Sentences count as equal if they differ only in case and punctuation.
    """
    keys = [(text_key(s), text_key(r)) for s, r in zip(sources, references, strict=True)]
    words = [WORD.findall(source.lower()) for source in sources]
    wanted_sources, wanted_pairs = {source for source, _ in keys} - {0}, set(keys)
    counts = dict.fromkeys((word for own in words for word in own), 0)
    seen_sources: set[int] = set()
    seen_pairs: set[tuple[int, int]] = set()
    read = 0
    for source, target in tqdm(training, desc="reading training text", unit="pair", disable=None):
        read += 1
        for word in WORD.findall(source.lower()):
            if word in counts:
                counts[word] += 1
        key = text_key(source)
        if key in wanted_sources:
            seen_sources.add(key)
            pair = (key, text_key(target))
            if pair in wanted_pairs:
                seen_pairs.add(pair)
    return Shared(
        read,
        [source in seen_sources for source, _ in keys],
        [pair in seen_pairs for pair in keys],
        [min((counts[word] for word in own), default=0) for own in words],
    )


@dataclass(frozen=True)
class TrainingText:
    """A training text that can be read."""

    name: str  # of its corpus
    pairs: int
    folder: Path  # of its prepared pairs


def text_of(run: Path, cache: str | None) -> TrainingText | str:
    """Find the prepared text that a run was trained on, or say in words why it is not available."""
    try:
        report = read_json(run / "data_report.json")
        text, _, ids = report["fingerprint"].partition("-")
        corpus, pairs = f"{report['name']}-{text}", int(report["kept"])
    except FileNotFoundError:
        return "the model has no run beside it, so its training text is unknown"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"data_report.json of the run is damaged ({error!r})"
    folder = cache_folder(cache) / "corpora" / corpus / f"ids-{ids}"
    if not folder.exists():
        return "it is not in the cache (data.cache, or $SEQ2SEQ_CACHE)"  # no path: records travel
    return TrainingText(corpus, pairs, folder)
