"""What CTranslate2 is asked: settings, limits and batches; and what it found for sentences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2seq.config import DecodeConfig
from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.tokenizer import EOS
from seq2seq.decoding.hypothesis import Hypothesis, length_divisor
from seq2seq.decoding.request import Request
from seq2seq.errors import ConfigError

Tokens = tuple[int, ...]
Output = tuple[Tokens, float]  # with its end mark, if it has one; log probability

NO_PENALTY = 1e-10  # at 0 it stops when the first beam ends, whatever the others could become
BATCHES_PER_WORKER = 4  # at least, lest all wait for the one that has the longest sentences, ...
FEWEST_ROWS = 64  # ... but of so many hypotheses: in smaller ones each takes longer


@dataclass(frozen=True)
class Task:
    """A sentence to be translated.

    Attributes:
        least, most: output tokens before the end mark at least, and with it at most.
    """

    request: Request
    least: int
    most: int

    @property
    def ruled(self) -> bool:
        """Whether rules may take likely tokens away."""
        return bool(self.least > 1 or self.request.prefix or self.request.banned)

    def cuts(self, output: Tokens) -> bool:
        """Whether an output is too long; the limit of its batch may be that of another."""
        return len(output) > self.most


def ended(output: Tokens) -> bool:
    return output[-1:] == (EOS,)


def without_end(output: Tokens) -> Tokens:
    return output[:-1] if ended(output) else output


def hypotheses(found: Sequence[Output], config: DecodeConfig) -> list[Hypothesis]:
    """From what was found for a sentence, best first."""
    all_of_them = [
        Hypothesis(
            list(without_end(output)),
            log_prob,
            log_prob / length_divisor(len(output), config),
            ended(output),
        )
        for output, log_prob in found
    ]
    all_of_them.sort(key=lambda one: -one.score)
    if config.strategy != "beam":
        return all_of_them
    # What the limit cut off is better than nothing only.
    finished = [one for one in all_of_them if one.finished] or all_of_them[:1]
    return finished


def batches(
    tasks: Sequence[Task], config: DecodeConfig, workers: int
) -> Iterator[list[int]]:
    """Numbers of sentences of similar length and equal rules, in each group the longest first.

    Several workers get several batches each.
    """
    groups: dict[Any, list[int]] = defaultdict(list)
    for row, task in enumerate(tasks):
        banned = tuple(map(tuple, task.request.banned))
        # Beside sentences with a prefix, one without could not end at once.
        groups[task.least, bool(task.request.prefix), banned].append(row)
    tokens = 2 * max(1, config.batch_tokens // config.width)  # of two equal sides
    most = _fair_share(len(tasks), config.width, workers)
    for rows in groups.values():
        number = math.ceil(len(rows) / most)
        if number > 1:  # a round for all workers, or several
            number = math.ceil(number / workers) * workers
        budget = Budget(tokens, math.ceil(len(rows) / number))
        lengths = np.array([[len(tasks[row].request.source) + 1] * 2 for row in rows])
        for batch in reversed(token_batches(lengths, budget)):
            yield [rows[i] for i in batch]


def _fair_share(sentences: int, width: int, workers: int) -> int:
    """How many sentences a batch may have, so that no worker waits long for another."""
    if workers == 1:
        return sentences
    fewest = min(FEWEST_ROWS // width, math.ceil(sentences / workers))
    return max(1, fewest, math.ceil(sentences / (workers * BATCHES_PER_WORKER)))


def length_exponent(config: DecodeConfig) -> float:
    """Its score is log probability / length ** penalty, as ours with `average`.

    We rank by our own formula what has ended; its score decides only which are the N best of
    more than N that did, and when it may stop.
    """
    return max(NO_PENALTY, config.length_penalty * (config.length_norm != "none"))


def refuse_unknown(config: DecodeConfig) -> None:
    """Raise ConfigError, with all that CTranslate2 lacks or means otherwise."""
    sampled = config.strategy != "beam"
    lacking = {
        f"decode.min_p={config.min_p}": sampled and config.min_p > 0,
        # Its own is applied to scores before the softmax.
        f"decode.repetition_penalty={config.repetition_penalty}": config.repetition_penalty != 1,
    }
    problems = [
        f"the engine ctranslate2 has no {name}: leave it out, or use the engine torch"
        for name, asked in lacking.items()
        if asked
    ]
    if problems:
        raise ConfigError(problems)
