"""Strings that no model was trained on, by kind, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

# Kinds of strings that are parts in any order: so many at most, and the parts.
PARTS: dict[str, tuple[int, list[str]]] = {
    "empty": (2, ["", " ", "\t", "\n", "\u3000", "\u200b", "\ufeff", "\r\n"]),
    "one character": (1, [*map(chr, range(1, 0x3000, 7))]),
    "emoji": (30, list("😀👩‍👩‍👧‍👦🏳️‍🌈👍🏽❤️ 🇫🇷")),
    "scripts": (12, ["привет ", "世界", "مرحبا ", "שלום ", "नमस्ते ", "สวัสดี", "안녕 ", "ħello "]),
    "controls": (12, [*map(chr, [*range(33), *range(127, 160)])]),
    "surrogates": (6, ["a man ", "\ud800", "\udfff", " is here ", "\udc80"]),
    "NULs": (8, ["\0", "a", "\0dog", " "]),
    "HTML": (14, ["<b>", "</b>", "<p>", "a dog ", "<a href='x'>", "</a>", "<br/>", "&nbsp;", "<",
                  ">", "<!-- x -->", "</", "runs "]),
    "code": (16, ["if ", "(x)", "{", "}", ";\n", "%s", "$VAR", "{{y}}", "`", "\\", "==", "int "]),
    "digits": (40, list("0123456789.,-/: %€")),
    "letters": (300, list("abcdefghij")),
    "words": (50, ["a ", "man ", "dog ", "3.5 ", "{x} ", "the ", "! ", "www.a.b ", "sits. "]),
    "noise": (40, [*map(chr, range(1, 0x3000))]),
}  # fmt: skip
REPEATED = ["no ", "ha", "very ", "a man and ", "."]


def odd_strings(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """So many (kind, string), their kinds in turns."""
    rng, kinds = random.Random(seed), [*PARTS, "repeated"]
    for i in range(count):
        kind = kinds[i % len(kinds)]
        if kind == "repeated":
            yield kind, rng.choice(REPEATED) * rng.randint(2, 60)
        else:
            most, parts = PARTS[kind]
            yield kind, "".join(rng.choices(parts, k=rng.randint(1, most)))


def huge_strings(length: int) -> dict[str, str]:
    """Strings of so many characters."""
    parts = {
        "sentences": "A man is here. ", "one word": "a", "words": "dog ", "lines": "A dog.\n",
        "dots": ".", "brackets": "<", "tags": "<b>", "braces": "{", "digits": "1", "quotes": '"',
        "emoji": "😀", "placeholders": "a {x} ", "addresses": "a.", "ampersands": "&a",
        "space": "\u3000", "commas": "a,",
    }  # fmt: skip
    return {kind: (part * (length // len(part) + 1))[:length] for kind, part in parts.items()}
