"""A model made faster on a CPU, for good: modules that cannot be trained replace others.

- A linear layer's matrix is laid out once as oneDNN's products read it, not at each call. For the
  few rows of a decoding step, whose matrices come from memory each time, that is a third faster
  than `F.linear` with 64 rows and three times as fast with 5. It is an operation of torch that
  torch.compile calls for linear layers with frozen weights.
- A large matrix is read faster for 4 rows than for fewer, so few rows are repeated.
- oneDNN compiles a product for each new number of rows and keeps the code, so a server that runs
  for hours would fill the memory: rows are filled up to one of eight numbers per power of two.
- Queries, keys and values of the decoder's self-attention are one product.
- Modules are called without the search for hooks, and layer norm without its checks.
- Parts and weights of a module become plain attributes, which Python finds at once.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.layers import DecoderLayer
from seq2seq.model.recurrent import AdditiveAttention
from seq2seq.model.translation_model import BiasedOutput, TranslationModel

ROWS = 64  # of the products that matrices are packed for; others are as fast
LARGE, ENOUGH_ROWS = 2**20, 4  # numbers of a matrix that is large; rows it is read fast for


def optimize_for_inference(model: TranslationModel) -> None:
    """Replace modules of a model in float32 or bfloat16 on a CPU by faster ones, where torch can.

    The numbers stay the same but for rounding. The model cannot be trained or saved any more.
    """
    if not can_pack():
        return
    model.requires_grad_(False)
    for layer in [*model.modules()]:
        # Not in the encoder: for each length it reads oneDNN would need one kind of product more.
        if isinstance(layer, DecoderLayer) and type(layer.self_attention) is MultiHeadAttention:
            layer.self_attention = JoinedSelfAttention(layer.self_attention)
    for parent in [*model.modules()]:
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                setattr(parent, name, PackedLinear([child]))
            elif type(child) is BiasedOutput:
                setattr(parent, name, PackedBiasedOutput(child))
    for module in model.modules():
        if not isinstance(module, TranslationModel):
            kind = DirectLayerNorm if type(module) is nn.LayerNorm else type(module)
            module.__class__ = called_directly(kind)  # type: ignore[arg-type]
        # torch would look for each of these in three dictionaries, after Python has failed to.
        vars(module).update(module._modules | module._parameters | module._buffers)


@cache
def called_directly(kind: type[nn.Module]) -> type[nn.Module]:
    """The same modules without hooks: torch looks for them at each call, 140 times a step."""
    # The weights of attention are looked at through hooks.
    hooked = issubclass(kind, MultiHeadAttention | AdditiveAttention)
    call = _with_forward_hooks if hooked else kind.forward
    return type(kind.__name__, (kind,), {"__call__": call})


def _with_forward_hooks(module: nn.Module, *args: Any, **options: Any) -> Any:
    if module._forward_hooks:
        return nn.Module.__call__(module, *args, **options)
    return module.forward(*args, **options)


def can_pack() -> bool:
    """Whether torch has oneDNN's packed products here, on a processor that they were tried on."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def kept_rows(rows: int) -> int:
    """The number of rows, at least `rows`, of a product that oneDNN compiles: up to 16 each, then
    eight between two powers of two (18, 20, ... 32, 36, ...)."""
    step: int = 2 ** max(0, (rows - 1).bit_length() - 4)
    return -(-rows // step) * step


class PackedLinear(nn.Module):
    """One linear layer, or several of the same input, whose outputs come side by side.

    Args:
        layers: in float32 or bfloat16 on a CPU, all with a bias or none; their weights are copied.
    """

    def __init__(self, layers: Sequence[nn.Linear]):
        super().__init__()
        weight = torch.cat([layer.weight.detach() for layer in layers])
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.out_features, self.in_features = weight.shape
        bias = torch.cat(biases) if biases else None
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
        self._linear = torch.ops.mkldnn._linear_pointwise.default
        # No function follows the product.
        self._packed: tuple[Any, ...] = (packed, bias, "none", [], "")
        self.fewest_numbers = ENOUGH_ROWS * self.in_features if weight.numel() >= LARGE else 0

    def forward(self, x: Tensor) -> Tensor:
        """(..., D_in) -> (..., D_out)."""
        rows = x.numel() // self.in_features
        if x.numel() < self.fewest_numbers:
            copies = -(-ENOUGH_ROWS // rows)  # rounded up; they are cheaper than padding
            filled = torch.cat([x.reshape(rows, -1)] * copies)  # (rows * copies, D_in)
        elif missing := kept_rows(rows) - rows:
            filled = F.pad(x.reshape(rows, -1), (0, 0, 0, missing))
        else:
            whole: Tensor = self._linear(x, *self._packed)
            return whole
        product: Tensor = self._linear(filled, *self._packed)[:rows]
        return product.view(*x.shape[:-1], -1)


class PackedBiasedOutput(PackedLinear):
    """The same of a `BiasedOutput`."""

    def __init__(self, layer: BiasedOutput):
        product = nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
        product.weight = layer.weight
        super().__init__([product])
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.bias


class DirectLayerNorm(nn.LayerNorm):
    """Layer norm without what `F.layer_norm` does around the operation."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class JoinedSelfAttention(MultiHeadAttention):
    """Self-attention whose queries, keys and values are one product."""

    def __init__(self, attention: MultiHeadAttention):
        nn.Module.__init__(self)
        self.head_dim, self.dropout = attention.head_dim, attention.dropout
        self.kernel = attention.kernel
        projections = [attention.q_proj, attention.k_proj, attention.v_proj]
        self.sizes = [projection.out_features for projection in projections]
        self.qkv_proj = PackedLinear(projections)
        self.out_proj = attention.out_proj
        self.q_norm, self.k_norm = attention.q_norm, attention.k_norm

    def _project_self(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = self.qkv_proj(x_BTD).split_with_sizes(self.sizes, -1)
        return parts
