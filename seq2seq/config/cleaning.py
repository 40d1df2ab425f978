"""What is done to the training text (`cleaning.*`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config.checked import SHARE, Checked, setting

NORMALISATIONS = ("nfc", "controls", "spaces", "quotes", "marks", "guillemets", "french_spacing")
OF_FRENCH = ("guillemets", "french_spacing")  # for the French side only
FILTERS = (
    *("empty", "damaged", "too_long", "length_ratio", "identical", "markup", "symbols"),
    *("wrong_language", "quotation", "leakage", "duplicate"),
)


class CleaningConfig(Checked, section="cleaning"):
    """What is done to the training text. Each filter and its reason: seq2seq/data/cleaning.py.

    Validation and test text is normalised as the model's input is, and never filtered.
    """

    languages: list[str] = setting(["en", "fr"], "languages of source and target")
    normalise: list[str] = setting(
        ["nfc", "controls", "spaces"], "steps that change the text, in this order",
        choices=NORMALISATIONS, distinct=True,
    )  # fmt: skip
    filters: list[str] = setting(
        [name for name in FILTERS if name != "quotation"],
        "reasons to drop a pair, in this order",
        choices=FILTERS,
        distinct=True,
    )
    max_words: int = setting(200, "too_long: words on either side", at_least=1)
    max_characters: int = setting(2000, "too_long: characters on either side", at_least=1)
    max_ratio: float = setting(3.0, "length_ratio: of the characters of both sides", at_least=1)
    ratio_from: int = setting(20, "length_ratio: fewest characters of the longer", at_least=1)
    identical_from: int = setting(4, "identical: fewest words of both sides", at_least=1)
    min_letters: float = setting(
        0.5, "symbols: share of letters; a number or row of one sign counts once", **SHARE
    )
    language_from: int = setting(6, "wrong_language: fewest words of a side", at_least=1)

    def steps(self, side: int) -> list[str]:
        """The normalisation of the source (0) or the target (1)."""
        french = self.languages[side] == "fr"
        return [step for step in self.normalise if step not in OF_FRENCH or french]

    def rules(self) -> Iterator[str]:
        if sorted(self.languages) != ["en", "fr"]:
            yield (
                f"cleaning.languages={self.languages} must be [en,fr], or [fr,en] for the other "
                "direction: what wrong_language and french_spacing know"
            )
        if "duplicate" in self.filters[:-1]:
            yield "cleaning.filters: duplicate must stand last, since it compares what is left"
