"""Settings of how training text is normalised and filtered (`cleaning.*`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from seq2seq.config.checked import SHARE, Checked, setting

NORMALISATIONS = ("nfc", "controls", "spaces", "quotes", "marks", "guillemets", "french_spacing")
OF_FRENCH = ("guillemets", "french_spacing")  # for the French side only
FILTERS = (
    *("empty", "damaged", "too_long", "length_ratio", "identical", "markup", "symbols"),
    *("wrong_language", "quotation", "leakage", "duplicate", "near_duplicate"),
)
LAST = ("duplicate", "near_duplicate")  # they compare the pairs that the others leave
CODE = re.compile("[a-z]{2,3}")
# Settings that came later, with the values that clean text as before they existed.
IDLE: dict[str, Any] = {"leakage_from": 1, "leakage_ngram": None}


class CleaningConfig(Checked, section="cleaning"):
    """What is done to the training text. Each filter and its reason: seq2seq/data/cleaning.py.

    Validation and test text is normalised as the model's input is, and never filtered.
    """

    languages: list[str] = setting(
        ["en", "fr"], "languages of source and target, by their codes of ISO 639"
    )
    normalise: list[str] = setting(
        ["nfc", "controls", "spaces"], "steps that change the text, in this order",
        choices=NORMALISATIONS, distinct=True,
    )  # fmt: skip
    filters: list[str] = setting(
        [name for name in FILTERS if name not in ("quotation", "near_duplicate")],
        "reasons to drop a pair, in this order",
        choices=FILTERS,
        distinct=True,
    )
    max_words: int = setting(200, "too_long: most words of a side", at_least=1)
    max_characters: int = setting(2000, "too_long: most characters of a side", at_least=1)
    max_ratio: float = setting(
        3.0, "length_ratio: largest ratio of the characters of both sides", at_least=1
    )
    ratio_from: int = setting(
        20, "length_ratio: judge pairs whose longer side has at least this many characters",
        at_least=1,
    )  # fmt: skip
    identical_from: int = setting(
        4, "identical: judge pairs of at least this many words", at_least=1
    )
    min_letters: float = setting(
        0.5, "symbols: smallest share of letters; a number or a row of one sign counts as one "
        "character", **SHARE,
    )  # fmt: skip
    language_from: int = setting(
        6, "wrong_language: judge sides of at least this many words", at_least=1
    )
    leakage_from: int = setting(
        6, "leakage: a side of at least this many words drops the pair by itself; a whole pair "
        "always does", at_least=1,
    )  # fmt: skip
    leakage_ngram: int | None = setting(
        None, "leakage: also drop pairs that share this many words in a row with evaluation text; "
        "without leakage in cleaning.filters, the report counts them and none is dropped",
        at_least=4,
    )  # fmt: skip
    max_dropped: float = setting(
        0.95, "share of a corpus that filters may drop before preparation stops; 1 = all",
        above=0, at_most=1,
    )  # fmt: skip

    def steps(self, side: int) -> list[str]:
        """Return the normalisation steps of the source (0) or the target (1)."""
        french = self.languages[side] == "fr"
        return [step for step in self.normalise if step not in OF_FRENCH or french]

    def deciding(self) -> dict[str, Any]:
        """Return the settings that affect the text, as JSON; later ones only if they do so."""
        said = {name: value for name, value in asdict(self).items() if name != "max_dropped"}
        return {name: value for name, value in said.items() if IDLE.get(name, ()) != value}

    def rules(self) -> Iterator[str]:
        if len({*self.languages}) != 2 or not all(map(CODE.fullmatch, self.languages)):
            yield (
                f"cleaning.languages={self.languages} must be two codes of languages, source then "
                "target, such as [en,fr] or [de,en]"
            )
        compared = [name for name in self.filters if name in LAST]
        if compared and self.filters[-len(compared) :] != compared:
            yield (
                f"cleaning.filters: {' and '.join(compared)} must come last, because they "
                "compare the pairs that are left"
            )
