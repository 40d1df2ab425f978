"""The interface of every model for training, search and bundles.

Shapes: B sentences, R hypotheses (B times the beams), S and T source and target lengths,
D width of hidden states, V vocabulary.
"""

from __future__ import annotations

import abc
from typing import Any, Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.errors import ConfigError


class DecodeState(Protocol):
    """A model's state between decoding steps, for all hypotheses of a search."""

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old rows[i] (R,)."""

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep only these sentences (B',) and the hypotheses `rows` (R',)."""


class TranslationModel(nn.Module, abc.ABC):
    """A model that reads a source, then predicts its translation token by token.

    Training runs `forward` on whole targets; search runs `start` once and `decode_step` for
    each token. Both give the same hidden states.

    Args:
        config: sizes and kinds.
        vocab_size: number of token ids of the source.
        target_vocab_size: number of token ids of the target; None = a shared vocabulary.

    Attributes:
        output: linear map from hidden states to scores of the vocabulary, which `project` applies.
            The loss computes its gradient itself, so it reads the weight and the bias.
    """

    output: nn.Linear

    def __init__(self, config: ModelConfig, vocab_size: int, target_vocab_size: int | None = None):
        super().__init__()
        self.config: Any = config
        self.vocab_sizes = (vocab_size, target_vocab_size or vocab_size)

    @abc.abstractmethod
    def forward(self, source_BS: Tensor, source_real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Return hidden states (B, T, D) of a target given its source.

        The loss computes scores from them in portions (`translation_loss`), a search by `project`.

        Args:
            source_BS: token ids.
            source_real_BS: True where a source token is real, False where it pads.
            target_BT: token ids, with the start mark first and padding at the end.
        """

    @abc.abstractmethod
    def start(self, source_BS: Tensor, source_real_BS: Tensor) -> DecodeState:
        """Encode B sources; begin one empty hypothesis for each."""

    @abc.abstractmethod
    def decode_step(self, target_RT: Tensor, state: Any) -> Tensor:
        """Return hidden states (R, T, D) of T further tokens; the state has the tokens before."""

    def project(self, hidden: Tensor) -> Tensor:
        """Map hidden states (..., D) to unnormalised scores of the next token (..., V)."""
        return self.output(hidden)


class BiasedOutput(nn.Linear):
    """Output layer that adds the bias after the products are rounded, not before.

    Marian in Hugging Face's library does the same: in half precision, scores are equal to the bit.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., V)."""
        return F.linear(x, self.weight) + self.bias


def make_embeddings(
    config: ModelConfig, vocab_sizes: tuple[int, int]
) -> tuple[nn.Embedding, nn.Embedding]:
    """Make source and target embeddings, which are one module if `tie_embeddings` is `all`.

    Raises:
        ConfigError: `tie_embeddings` is `all`, but the vocabularies differ in size.
    """
    source_size, target_size = vocab_sizes
    source = nn.Embedding(source_size, config.d_model)
    if config.tie_embeddings != "all":
        return source, nn.Embedding(target_size, config.d_model)
    if source_size != target_size:
        raise ConfigError(
            f"model.tie_embeddings=all shares one matrix, but the source has {source_size} "
            f"tokens and the target {target_size}: set model.tie_embeddings=decoder"
        )
    return source, source


def initialise(model: nn.Module) -> None:
    """Set matrices Xavier-uniform, biases zero, and embeddings to unit size after scaling.

    Recurrent cells keep PyTorch's initial weights.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
