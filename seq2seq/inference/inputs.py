"""Texts as they were given: checked, and such that they can be written."""

from __future__ import annotations

from collections.abc import Iterable

from seq2seq.errors import UserError


def readable(text: str) -> str:
    """A text that can be written as UTF-8: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def readable_list(name: str, texts: Iterable[str]) -> list[str]:
    """Texts as they can be written.

    Raises:
        UserError: they are a single text, or hold what is none.
    """
    refuse_single_text(name, texts)
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(
                f"{name} has a {type(text).__name__} in place {number}, where a text must be: give "
                "a list of str"
            )
    return [readable(text) for text in texts]


def readable_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of texts as they can be written.

    Raises:
        UserError: something is no pair of texts.
    """
    pairs = list(pairs)
    for number, pair in enumerate(pairs, 1):
        texts = list(pair) if isinstance(pair, tuple | list) else [pair]
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise UserError(
                f"pairs has {repr(pair)[:60]} in place {number}, where a source and its "
                "translation must be: give a list of (str, str)"
            )
    return [(readable(source), readable(target)) for source, target in pairs]


def refuse_single_text(name: str, texts: Iterable[str]) -> None:
    """Raise UserError for a text where a list of them is wanted."""
    if isinstance(texts, str):
        raise UserError(
            f"{name} is a single text, whose characters would be taken one by one: give a list, "
            f"such as [{texts[:40]!r}]"
        )
