"""Settings of the search for translations (`decode.*`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config.checked import SHARE, Checked, changes_of, setting


class DecodeConfig(Checked, section="decode"):
    """How translations are searched for."""

    strategy: str = setting("beam", "beam, or sample: drawn by chance", choices=("beam", "sample"))
    beam: int = setting(5, "hypotheses kept per sentence; 1 = greedy", at_least=1, at_most=1000)
    n_best: int = setting(1, "translations returned per sentence", at_least=1, at_most=10**4)
    length_norm: str = setting(
        "average", "function of length that divides a log probability",
        choices=("none", "average", "gnmt"),
    )  # fmt: skip
    length_penalty: float = setting(1.0, "power of that function", at_least=0)
    temperature: float = setting(
        1.0, "of samples: below 1 sharper, above 1 flatter",
        above=0, instead="; for 0 use decode.beam=1",
    )  # fmt: skip
    top_k: int = setting(0, "sample among the likeliest so many; 0 = all", at_least=0)
    top_p: float = setting(
        1.0, "sample among the likeliest that have this probability together", above=0, at_most=1
    )
    min_p: float = setting(
        0.0, "sample among those at least so likely, relative to the likeliest", **SHARE
    )
    seed: int = setting(1, "of samples; each sentence draws for itself", at_least=0)
    min_length: int = setting(
        1, "fewest output tokens; 1 = never an empty output", at_least=0, at_most=10**5
    )
    min_ratio: float = setting(
        0.0, "the same, relative to the expected length", at_least=0, at_most=1000
    )
    max_ratio: float = setting(
        2.0, "output limit in tokens: max_ratio * expected length + max_extra",
        at_least=0, at_most=1000,
    )
    max_extra: int = setting(10, "see max_ratio", at_least=1, at_most=10**5)
    no_repeat_ngram: int = setting(0, "n-grams of so many tokens occur once; 0 = off", at_least=0)
    repetition_penalty: float = setting(
        1.0, "multiplies log probabilities of tokens that were used before", at_least=1
    )
    batch_tokens: int = setting(
        4096, "source positions x beam decoded at once", at_least=1, at_most=2**24
    )

    def rules(self) -> Iterator[str]:
        if self.n_best > self.width >= 1:
            yield f"decode.n_best={self.n_best} needs as many hypotheses (decode.beam={self.beam})"
        if self.min_ratio > self.max_ratio:
            yield (
                f"decode.min_ratio={self.min_ratio} is above decode.max_ratio={self.max_ratio}: "
                "no output could be long enough"
            )

    @property
    def width(self) -> int:
        """Hypotheses that the search extends at each step: the beam, or the number of samples."""
        return self.n_best if self.strategy == "sample" else self.beam


# Search settings of a command; those that are None stay as in the validation of the model.
DecodeChanges = changes_of(DecodeConfig)
