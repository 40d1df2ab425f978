"""Settings of the subword vocabulary (`tokenizer.*`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config.checked import SHARE, Checked, setting

BYTE_VOCABULARY = 259  # 256 bytes and three special tokens


class TokenizerConfig(Checked, section="tokenizer"):
    """Subword vocabulary. It can encode any text, because its smallest parts are bytes."""

    kind: str = setting(
        "bpe", "algorithm that learns the subwords", choices=("bpe", "unigram", "byte")
    )
    vocab_size: int = setting(
        8000, "size of each vocabulary, without symbols", at_least=BYTE_VOCABULARY
    )
    joint: bool = setting(True, "one vocabulary for both languages; false = one for each")
    symbols: list[str] = setting([], "texts that are never split, such as <name>", distinct=True)
    sample: int = setting(1_000_000, "learn from at most this many pairs", at_least=1)
    dropout: float = setting(
        0.0, "BPE-dropout: share of merges left out in training", **SHARE,
        only_with="kind=bpe",
    )  # fmt: skip
    dropout_variants: int = setting(
        8, "number of segmentations that BPE-dropout prepares; epochs use them in turn",
        at_least=1, only_with="dropout",
    )  # fmt: skip
    path: str | None = setting(
        None,
        "tokenizer.json to use, or a folder with one for each language; kind, vocab_size, joint, "
        "symbols and sample are then ignored",
    )

    def rules(self) -> Iterator[str]:
        if self.kind == "byte" and self.vocab_size != BYTE_VOCABULARY:
            yield (
                f"tokenizer.vocab_size={self.vocab_size}: tokenizer.kind=byte has "
                f"{BYTE_VOCABULARY} tokens, one for each byte and three special tokens: set "
                f"tokenizer.vocab_size={BYTE_VOCABULARY}"
            )
        for symbol in self.symbols:
            if not symbol.strip() or symbol != symbol.strip():
                yield f"tokenizer.symbols: {symbol!r} must be text without spaces at its ends"
