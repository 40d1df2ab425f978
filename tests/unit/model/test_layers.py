import pytest
import torch
import torch.nn.functional as F
from tiny import real_positions, shake, tiny_config
from torch import nn
from torch.testing import assert_close

from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual

NORMS = pytest.mark.parametrize("norm", ["pre", "post"])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])


def shaken(module: nn.Module) -> nn.Module:
    shake(module, seed=0)
    return module.double().eval()


def test_pre_norm_normalises_what_the_block_reads():
    residual = shaken(Residual(tiny_config(norm="pre")))
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    assert_close(residual(x, torch.exp), x + residual.norm(x).exp())


def test_post_norm_normalises_the_sum():
    residual = shaken(Residual(tiny_config(norm="post")))
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    assert_close(residual(x, torch.exp), residual.norm(x + x.exp()))


def test_dropout_takes_from_the_block_and_never_from_the_input():
    torch.manual_seed(0)
    residual = Residual(tiny_config(norm="pre", dropout=0.5)).train()
    x = torch.randn(2, 30, 16)
    added = residual(x, torch.ones_like) - x
    kept = added.round(decimals=4).unique()
    assert kept.tolist() == [0.0, 2.0]


@ACTIVATIONS
def test_feed_forward_is_two_matrices_with_the_activation_between(activation):
    block = shaken(FeedForward(tiny_config(activation=activation)))
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    inner = x @ block.inner.weight.T + block.inner.bias
    inner = inner.clamp(min=0) if activation == "relu" else inner * (1 + (inner / 2**0.5).erf()) / 2
    assert_close(block(x), inner @ block.outer.weight.T + block.outer.bias)


def test_swiglu_gates_the_inner_layer_by_a_third_matrix():
    block = shaken(FeedForward(tiny_config(activation="swiglu")))
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    gate = F.linear(x, block.gate.weight, block.gate.bias)
    inner = F.linear(x, block.inner.weight, block.inner.bias)
    expected = F.linear(gate * gate.sigmoid() * inner, block.outer.weight, block.outer.bias)
    assert_close(block(x), expected)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in projections]))
    theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in projections]))
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    """Give one of PyTorch's own transformer layers the weights of ours."""
    residuals = [ours.self_residual, ours.feed_forward_residual]
    with torch.no_grad():
        copy_attention(ours.self_attention, theirs.self_attn)
        if isinstance(ours, DecoderLayer):
            copy_attention(ours.cross_attention, theirs.multihead_attn)
            residuals.insert(1, ours.cross_residual)
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
        for number, residual in enumerate(residuals, start=1):
            getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


def torch_settings(norm: str, activation: str) -> dict:
    return {
        "d_model": 16,
        "nhead": 4,
        "dim_feedforward": 24,
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm == "pre",
        "batch_first": True,
        "dtype": torch.float64,
    }


@NORMS
@ACTIVATIONS
def test_encoder_layer_is_that_of_torch(norm, activation):
    ours = shaken(EncoderLayer(tiny_config(norm=norm, activation=activation)))
    theirs = nn.TransformerEncoderLayer(**torch_settings(norm, activation))
    copy_layer(ours, theirs)
    x, real = torch.randn(2, 5, 16, dtype=torch.float64), real_positions([5, 3])
    expected = theirs(x, src_key_padding_mask=~real)
    assert_close(ours(x, masks.padding(real), None), expected, rtol=0, atol=1e-11)


@NORMS
@ACTIVATIONS
def test_decoder_layer_is_that_of_torch(norm, activation):
    ours = shaken(DecoderLayer(tiny_config(norm=norm, activation=activation)))
    theirs = nn.TransformerDecoderLayer(**torch_settings(norm, activation))
    copy_layer(ours, theirs)
    x, memory = (torch.randn(2, length, 16, dtype=torch.float64) for length in (4, 5))
    source = real_positions([5, 3])
    expected = theirs(
        x,
        memory,
        tgt_mask=~masks.causal(4, 4)[0, 0],
        memory_key_padding_mask=~source,
    )
    for read in (memory, ours.cross_attention.keys_values(memory)):
        assert_close(ours(x, read, masks.padding(source)), expected, rtol=0, atol=1e-11)
