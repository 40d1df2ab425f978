"""Marks are no text: none stands in what is asked of an output."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq.data.tokenizer import BOS, EOS, PAD


def check_tokens(name: str, sequences: Sequence[Sequence[int]]) -> None:
    """Raise ValueError if a sequence holds a mark, which no rule can put into an output or out."""
    for sequence in sequences:
        if any(token in (PAD, BOS, EOS) for token in sequence):
            raise ValueError(
                f"{name} holds a mark (padding, start or end): {list(sequence)}. Give tokens of "
                "text alone"
            )
