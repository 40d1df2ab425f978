import math

import pytest
import torch
from tiny import random_ids, real_positions, tiny_config, tiny_transformer
from torch.testing import assert_close

from seq2seq.config import TransformerConfig
from seq2seq.data.tokenizer import PAD
from seq2seq.model import masks
from seq2seq.model.positions import sinusoidal_table
from seq2seq.model.transformer import Transformer

POSITIONS = ("sinusoidal", "learned", "rotary")
ACTIVATIONS = ("relu", "gelu", "swiglu")
TIES = ("none", "decoder", "all")
KV_HEADS = (None, 2, 1)

# Every pair of values of any two settings occurs (a Latin square, once for each norm).
KINDS = [
    {
        "norm": norm,
        "positions": POSITIONS[i],
        "activation": ACTIVATIONS[j],
        "tie_embeddings": TIES[(i + j) % 3],
        "n_kv_heads": KV_HEADS[(i + 2 * j) % 3],
    }
    for norm in ("pre", "post")
    for i in range(3)
    for j in range(3)
]
every_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values()))
)
CLOSE = {"rtol": 0, "atol": 1e-11}


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def double_transformer(**kind) -> Transformer:
    return tiny_transformer(**kind).double()


# A batch of two sources, of 6 and 4 tokens.
SOURCE = random_ids(1, 2, 6)
SOURCE_REAL = real_positions([6, 4])
SOURCE_ALLOWED = masks.padding(SOURCE_REAL)
TARGET = random_ids(2, 2, 7)


# What may and what may not matter


@every_kind
def test_every_source_token_matters_and_no_later_target_token_does(kind):
    model = double_transformer(**kind)
    hidden = model(SOURCE, SOURCE_REAL, TARGET)
    changed_source = SOURCE.clone()
    changed_source[:, 3] = 3 + (SOURCE[:, 3] - 2) % 10
    assert (changed_source[:, 3] != SOURCE[:, 3]).all()
    differences = (model(changed_source, SOURCE_REAL, TARGET) - hidden).abs().amax(dim=-1)
    assert (differences > 1e-6).all()
    for t in range(TARGET.size(1)):
        changed = TARGET.clone()
        changed[:, t] = 3 + (TARGET[:, t] - 2) % 10
        differences = (model(SOURCE, SOURCE_REAL, changed) - hidden).abs().amax(dim=-1)
        assert (differences[:, :t] < 1e-11).all()
        assert (differences[:, t:] > 1e-6).all()


@every_kind
def test_order_of_source_tokens_matters(kind):
    model = double_transformer(**kind)
    swapped = SOURCE[:1, [1, 0, 2, 3, 4, 5]]
    assert swapped.tolist() != SOURCE[:1].tolist()
    real = SOURCE_REAL[:1]
    difference = model(swapped, real, TARGET[:1]) - model(SOURCE[:1], real, TARGET[:1])
    assert difference.abs().max() > 1e-4


@every_kind
def test_padding_and_its_content_change_nothing(kind):
    model = double_transformer(**kind)
    alone = model(SOURCE[1:, :4], SOURCE_REAL[1:, :4], TARGET[1:, :5])
    for filler in (PAD, 5):
        source, target = SOURCE.clone(), TARGET.clone()
        source[1, 4:] = filler
        target[1, 5:] = filler
        padded = model(source, SOURCE_REAL, target)
        assert_close(padded[1:, :5], alone, **CLOSE)


@every_kind
def test_permuting_the_batch_permutes_the_outputs(kind):
    model = double_transformer(**kind)
    source, target, real = random_ids(3, 4, 6), random_ids(4, 4, 5), real_positions([6, 2, 5, 1])
    order = torch.tensor([2, 0, 3, 1])
    hidden = model(source, real, target)
    assert_close(model(source[order], real[order], target[order]), hidden[order], **CLOSE)


def test_embeddings_are_scaled_before_positions_are_added():
    model = tiny_transformer(positions="sinusoidal", tie_embeddings="none")
    for embedding in (model.source_embedding, model.target_embedding):
        expected = embedding.tokens.weight[TARGET] * math.sqrt(16) + sinusoidal_table(10, 16)[3:]
        assert_close(embedding(TARGET, start=3), expected)


# Step by step


def decode_in_chunks(model, target_RT, state, chunks):
    parts = [model.decode_step(chunk, state) for chunk in target_RT.split(chunks, dim=1)]
    return torch.cat(parts, dim=1)


@every_kind
@pytest.mark.parametrize("chunks", [[1] * 7, [1, 3, 2, 1], [7]], ids=str)
def test_cached_steps_are_the_full_decoding(kind, chunks):
    model = double_transformer(**kind)
    memory = model.encode(SOURCE, SOURCE_REAL)
    state = model.start(SOURCE, SOURCE_REAL)
    stepwise = decode_in_chunks(model, TARGET, state, chunks)
    assert_close(stepwise, model.decode(TARGET, memory, SOURCE_ALLOWED), **CLOSE)
    assert state.length == 7


@every_kind
@pytest.mark.parametrize("chunks", [[1] * 4, [1, 3]], ids=str)
def test_beams_that_share_a_source_equal_copies_of_the_source(kind, chunks):
    model = double_transformer(**kind)
    memory = model.encode(SOURCE, SOURCE_REAL)
    beams = random_ids(6, 2 * 3, 4)
    state = model.start(SOURCE, SOURCE_REAL)
    copies = [tensor.repeat_interleave(3, dim=0) for tensor in (memory, SOURCE_ALLOWED)]
    expected = model.decode(beams, *copies)
    assert_close(decode_in_chunks(model, beams, state, chunks), expected, **CLOSE)


@every_kind
def test_a_search_may_exchange_and_drop_hypotheses_between_steps(kind):
    model = double_transformer(**kind)
    memory = model.encode(SOURCE, SOURCE_REAL)
    state = model.start(SOURCE, SOURCE_REAL)
    start = random_ids(7, 2, 1)
    model.decode_step(start, state)
    rows = torch.tensor([0, 0, 1, 1])  # two beams for each sentence
    state.reorder(rows)
    second = random_ids(8, 4, 1)
    model.decode_step(second, state)
    history = torch.cat([start[rows], second], dim=1)
    kept = torch.tensor([3, 2])
    state.keep(torch.tensor([1]), kept)  # the first sentence is done
    third = random_ids(9, 2, 1)
    stepped = model.decode_step(third, state)
    history = torch.cat([history[kept], third], dim=1)
    copies = [tensor[1:].repeat_interleave(2, dim=0) for tensor in (memory, SOURCE_ALLOWED)]
    assert_close(stepped, model.decode(history, *copies)[:, -1:], **CLOSE)


@every_kind
def test_sources_that_are_read_in_groups_of_like_length_are_those_of_one_batch(kind):
    model = double_transformer(**kind)
    lengths = [7, 1, 3, 9, 2, 8, 4, 6, 5] * 4
    source, real = random_ids(1, len(lengths), 9), real_positions(lengths)
    found = model._encode_by_length(source, real)
    assert_close(found[real], model.encode(source, real)[real], **CLOSE)
    assert found.isfinite().all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_max_length_can_be_used_up_and_not_passed(positions):
    model = tiny_transformer(positions=positions, max_length=8)
    ids, real = random_ids(1, 1, 9), torch.ones(1, 9, dtype=torch.bool)
    state = model.start(ids[:, :8], real[:, :8])
    model.decode_step(ids[:, :8], state)
    with pytest.raises(ValueError, match="position 8 lies past the model's limit of 8 tokens"):
        model.decode_step(ids[:, 8:], state)
    with pytest.raises(ValueError, match="position 8 lies past"):
        model.encode(ids, real)


# Parameters


@pytest.mark.parametrize("tie", TIES)
def test_tied_weights_are_one_tensor(tie):
    model = tiny_transformer(tie_embeddings=tie)
    source, target = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
    assert (source is target) == (tie == "all")
    assert (model.output.weight is target) == (tie != "none")
    tables = sum(p.shape == (13, 16) for p in model.parameters())
    assert tables == {"none": 3, "decoder": 2, "all": 1}[tie]


def test_base_model_has_the_number_of_parameters_of_the_paper():
    d, ff, vocabulary, layers = 512, 2048, 37_000, 6
    attention = 4 * (d * d + d)
    feed_forward = (d * ff + ff) + (ff * d + d)
    norm = 2 * d
    encoder = layers * (attention + feed_forward + 2 * norm) + norm
    decoder = layers * (2 * attention + feed_forward + 3 * norm) + norm
    expected = vocabulary * d + encoder + decoder
    with torch.device("meta"):
        model = Transformer(TransformerConfig(), vocabulary)
    assert sum(p.numel() for p in model.parameters()) == expected
    assert expected == pytest.approx(65e6, rel=0.05)


@every_kind
def test_state_dict_carries_the_whole_model(kind):
    model, other = double_transformer(seed=1, **kind), double_transformer(seed=2, **kind)
    hidden = model(SOURCE, SOURCE_REAL, TARGET)
    assert (other(SOURCE, SOURCE_REAL, TARGET) - hidden).abs().max() > 1e-3
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(SOURCE, SOURCE_REAL, TARGET), hidden)
    assert torch.equal(other.project(hidden), model.project(hidden))


@every_kind
def test_training_gives_every_parameter_a_finite_gradient(kind):
    torch.manual_seed(0)
    model = tiny_transformer(dropout=0.3, attention_dropout=0.2, **kind).train()
    with torch.enable_grad():
        logits = model.project(model(SOURCE, SOURCE_REAL, TARGET))
        logits.logsumexp(dim=-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("k_proj.bias"):  # softmax does not feel it
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("rates", [{"dropout": 0.3}, {"attention_dropout": 0.3}], ids=str)
def test_dropout_acts_in_training_only(rates):
    torch.manual_seed(0)
    model = tiny_transformer(**rates)
    inputs = (SOURCE, SOURCE_REAL, TARGET)
    assert torch.equal(model(*inputs), model(*inputs))
    model.train()
    assert not torch.equal(model(*inputs), model(*inputs))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tie", TIES)
def test_initial_embeddings_have_unit_size_and_matrices_are_xavier(tie, norm):
    torch.manual_seed(0)
    config = tiny_config(d_model=64, tie_embeddings=tie, norm=norm)
    model = Transformer(config, vocab_size=500)
    for embedding in (model.source_embedding, model.target_embedding):
        assert embedding.tokens.weight.std().item() * embedding.scale == pytest.approx(1, rel=0.02)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and module is not model.output:
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            if model.config.norm == "pre" and name.endswith(("out_proj", "outer")):
                blocks_of_a_layer = 2 if name.startswith("encoder") else 3
                bound /= math.sqrt(blocks_of_a_layer * 2)  # layers
            assert 0.9 * bound < module.weight.abs().max() <= bound, name
            assert (module.bias == 0).all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_activations_of_a_deep_stack_begin_at_the_size_of_a_shallow_one(norm):
    """What 24 pre-norm blocks add is of one size with what 2 add, at the start of training."""
    sizes = []
    for layers in (1, 12):
        torch.manual_seed(0)
        config = tiny_config(d_model=64, norm=norm, encoder_layers=layers, decoder_layers=1)
        model = Transformer(config, vocab_size=50)
        model.encoder_norm = torch.nn.Identity()
        source = torch.randint(4, 50, (8, 10))
        memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
        sizes.append(memory.std().item())
    assert sizes[1] == pytest.approx(sizes[0], rel=0.25)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_blocks_of_zeros_add_nothing_at_the_start(norm):
    torch.manual_seed(0)
    model = Transformer(tiny_config(norm=norm, zero_blocks=True), vocab_size=50)
    source, target = random_ids(1, 2, 6, vocab_size=50), random_ids(2, 2, 7, vocab_size=50)
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    normalise = torch.nn.LayerNorm(model.config.d_model)
    assert_close(memory, normalise(model.source_embedding(source)), rtol=0, atol=1e-4)
    hidden = model.decode(target, memory)
    assert_close(hidden, normalise(model.target_embedding(target)), rtol=0, atol=1e-4)


def test_queries_and_keys_over_the_source_may_stay_as_they_are():
    for cross in (True, False):
        model = tiny_transformer(qk_norm=True, cross_qk_norm=cross)
        for layer in model.decoder:
            assert isinstance(layer.self_attention.q_norm, torch.nn.RMSNorm)
            for norm in (layer.cross_attention.q_norm, layer.cross_attention.k_norm):
                assert isinstance(norm, torch.nn.RMSNorm) == cross
