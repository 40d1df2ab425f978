"""What training, search and bundles ask of a model, whatever it is made of.

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
    """What a model remembers of the hypotheses that are being extended."""

    def reorder(self, rows: Tensor) -> None:
        """Hypothesis i becomes a copy of the old rows[i] (R,)."""

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep these sentences (B',) and these hypotheses (R',) only."""


class TranslationModel(nn.Module, abc.ABC):
    """Reads a source, then predicts its translation token by token.

    Training runs `forward` on whole targets; search runs `start` once and `decode_step` for
    each token. Both give the same hidden states.

    Args:
        config: sizes and kinds.
        vocab_size: number of token ids of the source.
        target_vocab_size: the same of the target; None = they share a vocabulary.

    Attributes:
        output: from hidden states to scores of the vocabulary. `project` is this linear map: the
            loss, which makes its gradient itself, reads the weight and the bias.
    """

    output: nn.Linear

    def __init__(self, config: ModelConfig, vocab_size: int, target_vocab_size: int | None = None):
        super().__init__()
        self.config: Any = config
        self.vocab_sizes = (vocab_size, target_vocab_size or vocab_size)

    @abc.abstractmethod
    def forward(self, source_BS: Tensor, source_real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Hidden states (B, T, D) of a target given its source; `project` makes scores of them.

        Args:
            source_BS: token ids.
            source_real_BS: True where a source token is real, False where it pads.
            target_BT: token ids, the start mark first; padding stands at their ends.
        """

    @abc.abstractmethod
    def start(self, source_BS: Tensor, source_real_BS: Tensor) -> DecodeState:
        """Read B sources; one empty hypothesis for each."""

    @abc.abstractmethod
    def decode_step(self, target_RT: Tensor, state: Any) -> Tensor:
        """Hidden states (R, T, D) of T further tokens, whose past is in the state."""

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) -> unnormalised scores of the next token (..., V)."""
        logits: Tensor = self.output(hidden)
        return logits


class BiasedOutput(nn.Linear):
    """Scores whose bias is added to rounded products, not before they are rounded.

    So does Marian in Hugging Face's library: in half precision the scores are equal to the bit.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight) + self.bias


def make_embeddings(
    config: ModelConfig, vocab_sizes: tuple[int, int]
) -> tuple[nn.Embedding, nn.Embedding]:
    """Source and target embeddings; one and the same where `tie_embeddings` is `all`.

    Raises:
        ConfigError: they cannot be the same, since the vocabularies differ in size.
    """
    source_size, target_size = vocab_sizes
    source = nn.Embedding(source_size, config.d_model)
    if config.tie_embeddings != "all":
        return source, nn.Embedding(target_size, config.d_model)
    if source_size != target_size:
        raise ConfigError(
            [
                f"model.tie_embeddings=all shares one matrix, but the source has {source_size} "
                f"tokens and the target {target_size}: set model.tie_embeddings=decoder"
            ]
        )
    return source, source


def initialise(model: nn.Module) -> None:
    """Xavier-uniform matrices, zero biases, embeddings of unit size after their scaling.

    Recurrent cells keep PyTorch's own start.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
