"""Make a model faster on a CPU, permanently: replace modules by others that cannot be trained.

- The matrix of a linear layer is converted once to the layout of oneDNN, not at each call. A
  decoding step has few rows and loads its matrices from memory each time; there, this is a third
  faster than `F.linear` with 64 rows and three times as fast with 5. torch.compile calls the same
  operation for linear layers with frozen weights.
- A product with a large matrix is faster for 4 rows than for fewer, so fewer rows are repeated.
- oneDNN compiles a product for each new number of rows and keeps the code, which would fill the
  memory of a server that runs for hours. So rows are padded to one of eight numbers per power of
  two.
- Queries, keys and values of the decoder's self-attention come from one product.
- Modules are called without torch's search for hooks, and layer norm without its checks.
- Submodules and weights of a module become plain attributes, which Python finds at once.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.length import rounding_step
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.layers import DecoderLayer
from seq2seq.model.recurrent import AdditiveAttention
from seq2seq.model.translation_model import BiasedOutput, TranslationModel

PACKED_FOR_ROWS = 64  # the layout is chosen for so many rows; other numbers are as fast
LARGE_MATRIX, ENOUGH_ROWS = 2**20, 4  # numbers in a large matrix; rows that make its product fast


def optimize_for_inference(model: TranslationModel) -> None:
    """Replace modules of a float32 or bfloat16 model on a CPU by faster ones, if torch has them.

    Results change by rounding only. The model can no longer be trained or saved.
    """
    if not can_pack():
        return
    model.requires_grad_(False)
    for layer in [*model.modules()]:
        # Not in the encoder: oneDNN would need one more kind of product for each source length.
        if isinstance(layer, DecoderLayer) and type(layer.self_attention) is MultiHeadAttention:
            layer.self_attention = JoinedSelfAttention(layer.self_attention)
    for parent in [*model.modules()]:
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                setattr(parent, name, PackedLinear([child]))
            elif type(child) is BiasedOutput:
                setattr(parent, name, PackedBiasedOutput(child))
    # What stops working: hooks, but for forward hooks of attention; and `to`, which makes new
    # buffers, since the plain attributes keep the old ones.
    for module in model.modules():
        if not isinstance(module, TranslationModel):
            kind = DirectLayerNorm if type(module) is nn.LayerNorm else type(module)
            module.__class__ = called_directly(kind)  # type: ignore[arg-type]
        # Otherwise torch looks these up in three dictionaries, after Python's look-up has failed.
        vars(module).update(module._modules | module._parameters | module._buffers)


@cache
def called_directly(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass without hooks: torch looks for hooks at each call, 140 times a step."""
    # `attention_maps` reads attention weights through hooks.
    hooked = issubclass(kind, MultiHeadAttention | AdditiveAttention)
    call = _with_forward_hooks if hooked else kind.forward
    return type(kind.__name__, (kind,), {"__call__": call})


def _with_forward_hooks(module: nn.Module, *args: Any, **options: Any) -> Any:
    if module._forward_hooks:
        return nn.Module.__call__(module, *args, **options)
    return module.forward(*args, **options)


def can_pack() -> bool:
    """Tell whether torch has oneDNN's packed products here, on a processor of a tested kind."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PackedLinear(nn.Module):
    """One linear layer, or several with the same input, whose outputs are concatenated.

    Args:
        layers: in float32 or bfloat16 on a CPU, all or none with a bias; their weights are copied.
    """

    def __init__(self, layers: Sequence[nn.Linear]):
        super().__init__()
        weight = torch.cat([layer.weight.detach() for layer in layers])
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.out_features, self.in_features = weight.shape
        bias = torch.cat(biases) if biases else None
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
        self._linear = torch.ops.mkldnn._linear_pointwise.default
        # No activation follows the product.
        self._packed: tuple[Any, ...] = (packed, bias, "none", [], "")
        large = weight.numel() >= LARGE_MATRIX
        self.fewest_numbers = ENOUGH_ROWS * self.in_features if large else 0

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers: (..., D_in) -> (..., D_out)."""
        rows = x.numel() // self.in_features
        if 0 < x.numel() < self.fewest_numbers:
            copies = -(-ENOUGH_ROWS // rows)  # rounded up; copies are cheaper than padding
            filled = torch.cat([x.reshape(rows, -1)] * copies)  # (rows * copies, D_in)
        elif missing := -rows % rounding_step(rows):
            filled = F.pad(x.reshape(rows, -1), (0, 0, 0, missing))
        else:
            return self._linear(x, *self._packed)
        product: Tensor = self._linear(filled, *self._packed)[:rows]
        return product.view(*x.shape[:-1], -1)


class PackedBiasedOutput(PackedLinear):
    """A `PackedLinear` for a `BiasedOutput`."""

    def __init__(self, layer: BiasedOutput):
        product = nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
        product.weight = layer.weight
        super().__init__([product])
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.bias


class DirectLayerNorm(nn.LayerNorm):
    """Layer norm that calls torch's operation without the checks of `F.layer_norm`."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class JoinedSelfAttention(MultiHeadAttention):
    """Self-attention whose queries, keys and values come from one product."""

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
        return self.qkv_proj(x_BTD).split_with_sizes(self.sizes, -1)
