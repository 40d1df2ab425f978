"""The recurrent baseline: a bidirectional encoder, additive attention, a recurrent decoder.

After Bahdanau, Cho and Bengio (2015), "Neural machine translation by jointly learning to align
and translate". Shapes: B sentences, R hypotheses (B times N beams), S and T source and target
lengths, D width, A width of the alignment network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.config import RecurrentConfig
from seq2seq.model import masks
from seq2seq.model.attention import masked_softmax
from seq2seq.model.dropout import Dropout
from seq2seq.model.translation_model import (
    TranslationModel,
    initialise,
    make_embeddings,
)


class AdditiveAttention(nn.Module):
    """Attention whose scores come from a small network: v . tanh(W s + U h + b) (their eq. 6).

    Args:
        state_dim: width of the decoder states, which are the queries.
        source_dim: width of the source annotations, which are keys and values.
        d_attention: inner width A.
    """

    def __init__(self, state_dim: int, source_dim: int, d_attention: int):
        super().__init__()
        self.state_proj = nn.Linear(state_dim, d_attention, bias=False)
        self.source_proj = nn.Linear(source_dim, d_attention)
        self.score = nn.Linear(d_attention, 1, bias=False)

    def forward(
        self,
        states_BTD: Tensor,
        annotations_BSD: Tensor,
        allowed_BTS: Tensor | None = None,
        keys_BSA: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attend from decoder states to source annotations.

        Args:
            states_BTD: decoder states, the queries.
            annotations_BSD: encoder outputs, the keys and values.
            allowed_BTS: mask that broadcasts to (B, T, S), True = may attend.
            keys_BSA: `source_proj` of the annotations, if already computed.

        Returns:
            Contexts (B, T, source_dim) and weights (B, T, S); both zero if nothing is allowed.
        """
        keys_BSA = self.source_proj(annotations_BSD) if keys_BSA is None else keys_BSA
        inner_BTSA = torch.tanh(self.state_proj(states_BTD)[:, :, None] + keys_BSA[:, None])
        energies_BTS = self.score(inner_BTSA).squeeze(-1)
        weights_BTS = masked_softmax(energies_BTS, allowed_BTS)
        return weights_BTS @ annotations_BSD, weights_BTS


@dataclass
class RecurrentState:
    """The decoder's state: the encoded source, and one hidden state for each hypothesis."""

    annotations_BSD: Tensor
    keys_BSA: Tensor
    source_allowed_B1S: Tensor
    hidden_RD: Tensor

    @property
    def bytes(self) -> int:
        """Memory in bytes; it does not grow with the target."""
        return sum(t.numel() * t.element_size() for t in vars(self).values())

    def reorder(self, rows: Tensor) -> None:
        """Make hypothesis i a copy of the old rows[i] (R,)."""
        self.hidden_RD = self.hidden_RD.index_select(0, rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep only these sentences (B',) and the hypotheses `rows` (R',)."""
        self.annotations_BSD = self.annotations_BSD.index_select(0, sentences)
        self.keys_BSA = self.keys_BSA.index_select(0, sentences)
        self.source_allowed_B1S = self.source_allowed_B1S.index_select(0, sentences)
        self.reorder(rows)


class RecurrentModel(TranslationModel):
    """Recurrent encoder-decoder with attention.

    It differs from the paper in PyTorch's GRU cells, tied embeddings, and a tanh readout instead of
    maxout.
    """

    config: RecurrentConfig

    def __init__(
        self, config: RecurrentConfig, vocab_size: int, target_vocab_size: int | None = None
    ):
        super().__init__(config, vocab_size, target_vocab_size)
        width, layers = config.d_model, config.encoder_layers
        self.source_tokens, self.target_tokens = make_embeddings(config, self.vocab_sizes)
        self.scale = math.sqrt(width)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.GRU(
            width,
            width // 2,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if layers > 1 else 0.0,
        )
        self.first_state = nn.Linear(width // 2, width)
        self.attention = AdditiveAttention(width, width, config.d_attention)
        self.cell = nn.GRUCell(2 * width, width)
        self.readout = nn.Linear(3 * width, width)
        self.output = nn.Linear(width, self.vocab_sizes[1], bias=False)
        initialise(self)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:  # their appendix B.1; one square matrix for each gate
                for gate in parameter.chunk(3):
                    nn.init.orthogonal_(gate)
        if config.tie_embeddings != "none":
            self.output.weight = self.target_tokens.weight

    def start(self, source_BS: Tensor, source_real_BS: Tensor) -> RecurrentState:
        """Encode B sources in both directions; begin one empty hypothesis for each.

        Raises:
            ValueError: padding is not at the ends of the sources.
        """
        real = source_real_BS.to(torch.bool).cpu()
        if (real[:, 1:] & ~real[:, :-1]).any():
            raise ValueError("a recurrent model reads sources whose padding stands at their ends")
        embedded_BSD = self._embed(self.source_tokens, source_BS)
        # Packed, so that the backward direction begins at the last real token.
        lengths = real.sum(dim=1).clamp(min=1)
        packed = pack_padded_sequence(embedded_BSD, lengths, batch_first=True, enforce_sorted=False)
        annotations_BSD, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=source_BS.size(1)
        )
        backward_B = annotations_BSD[:, 0, self.config.d_model // 2 :]
        return RecurrentState(
            annotations_BSD,
            self.attention.source_proj(annotations_BSD),
            masks.padding(source_real_BS)[:, 0],
            torch.tanh(self.first_state(backward_B)),
        )

    def forward(self, source_BS: Tensor, source_real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Return hidden states (B, T, D) of a target given its source."""
        return self.decode_step(target_BT, self.start(source_BS, source_real_BS))

    def decode_step(self, target_RT: Tensor, state: RecurrentState) -> Tensor:
        """Return hidden states (R, T, D) of T further tokens, computed one after another."""
        embedded_RTD = self._embed(self.target_tokens, target_RT)
        read = []
        for embedded_RD in embedded_RTD.unbind(dim=1):
            context_RD = self._look(state)
            seen = torch.cat([embedded_RD, context_RD], dim=-1)
            state.hidden_RD = self.cell(seen, state.hidden_RD)
            read.append(torch.cat([state.hidden_RD, context_RD], dim=-1))
        everything = torch.cat([embedded_RTD, torch.stack(read, dim=1)], dim=-1)
        return self.dropout(torch.tanh(self.readout(everything)))

    def _embed(self, tokens: nn.Embedding, ids_BL: Tensor) -> Tensor:
        return self.dropout(tokens(ids_BL) * self.scale)

    def _look(self, state: RecurrentState) -> Tensor:
        """Return the context (R, D) of each hypothesis; the beams of a sentence share a source."""
        rows, width = state.hidden_RD.shape
        states_BND = state.hidden_RD.view(state.annotations_BSD.size(0), -1, width)
        contexts_BND: Tensor = self.attention(
            states_BND, state.annotations_BSD, state.source_allowed_B1S, state.keys_BSA
        )[0]
        return contexts_BND.reshape(rows, width)
