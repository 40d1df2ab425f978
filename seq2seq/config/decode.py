"""Settings of the search for translations (`decode.*`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config.checked import SHARE, Checked, changes_of, setting


class DecodeConfig(Checked, section="decode"):
    """How translations are searched for."""

    strategy: str = setting(
        "beam", "beam: beam search; sample: draw tokens at random", choices=("beam", "sample")
    )
    beam: int = setting(5, "hypotheses kept per sentence; 1 = greedy", at_least=1, at_most=1000)
    n_best: int = setting(1, "translations returned per sentence", at_least=1, at_most=10**4)
    length_norm: str = setting(
        "average", "divisor of the log probability, a function of the length",
        choices=("none", "average", "gnmt"),
    )  # fmt: skip
    length_penalty: float = setting(1.0, "exponent of that divisor", at_least=0)
    temperature: float = setting(
        1.0, "divides the logits of samples: below 1 sharper, above 1 flatter",
        above=0, instead="; for 0 use decode.beam=1",
    )  # fmt: skip
    top_k: int = setting(0, "sample from the k likeliest tokens; 0 = all", at_least=0)
    top_p: float = setting(
        1.0, "sample from the likeliest tokens that together have this probability",
        above=0, at_most=1,
    )  # fmt: skip
    min_p: float = setting(
        0.0, "sample only tokens with at least this share of the likeliest token's probability",
        **SHARE,
    )  # fmt: skip
    seed: int = setting(1, "seed of samples; each sentence has its own random numbers", at_least=0)
    min_length: int = setting(
        1, "fewest output tokens; 1 = never an empty output", at_least=0, at_most=10**5
    )
    min_ratio: float = setting(
        0.0, "fewest output tokens, relative to the expected length", at_least=0, at_most=1000
    )
    max_ratio: float = setting(
        2.0, "output limit in tokens: max_ratio * expected length + max_extra",
        at_least=0, at_most=1000,
    )
    max_extra: int = setting(10, "constant part of that limit", at_least=1, at_most=10**5)
    no_repeat_ngram: int = setting(
        0, "no n-gram of this many tokens occurs twice; 0 = off", at_least=0
    )
    repetition_penalty: float = setting(
        1.0, "factor on the log probabilities of tokens that the output has already; 1 = off",
        at_least=1,
    )  # fmt: skip
    batch_tokens: int = setting(
        4096, "source positions x beam that are decoded at once; decides the memory",
        at_least=1, at_most=2**24,
    )  # fmt: skip

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
