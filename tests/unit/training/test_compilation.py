"""Compiled in place, for all shapes, with the losses of eager training."""

from __future__ import annotations

import logging
from functools import partial, partialmethod

import pytest
import torch
from tiny import random_ids, tiny_transformer
from tiny_training import Recorder, tiny_fit, tiny_task
from torch._dynamo.testing import CompileCounterWithBackend

from seq2seq.errors import RunError
from seq2seq.training.callbacks import Callback
from seq2seq.training.compilation import compile_layers


@pytest.fixture(autouse=True)
def _no_graphs_of_others():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def inputs(seed: int, sentences: int, source: int, target: int):
    source_ids, target_ids = random_ids(seed, sentences, source), random_ids(1, sentences, target)
    return source_ids, source_ids > 0, target_ids


SHAPES = [(4, 6, 8), (9, 12, 5), (3, 8, 8), (2, 10, 11), (7, 7, 7), (20, 3, 2)]
CPU = torch.device("cpu")


def compiled(model, backend) -> None:
    """Compile with this backend instead of the real one."""

    def forward_backward(batch, sync):
        model(batch.source, batch.source_real, batch.target_in).sum().backward()

    for part in model.modules():
        part.compile = partial(part.compile, backend=backend)
    compile_layers(model, CPU, forward_backward, 500)


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "n_kv_heads": 2}])
def test_one_graph_serves_all_layers_of_a_kind_and_all_shapes_with_eager_results(options):
    options = {"encoder_layers": 2, "decoder_layers": 2, **options}
    model, eager = tiny_transformer(**options).train(), tiny_transformer(**options).train()
    counter = CompileCounterWithBackend("eager")
    compiled(model, counter)
    assert list(model.state_dict()) == list(eager.state_dict())
    assert all(weight.grad is None for weight in model.parameters())
    for number, shape in enumerate(SHAPES):
        given = inputs(number, *shape)
        ours, theirs = model(*given), eager(*given)
        torch.testing.assert_close(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
    for weight, other in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, other.grad, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 2  # of the encoder's layers, and of the decoder's


@pytest.mark.parametrize(
    ("positions", "max_length", "sentences"), [(131_072, 128, 2184), (8192, 10, 455), (64, 128, 32)]
)
def test_the_trial_has_the_size_of_a_batch_and_no_two_equal_sizes(positions, max_length, sentences):
    seen = []
    model = tiny_transformer(max_length=max_length)
    compile_layers(model, CPU, lambda batch, sync: seen.append(batch), positions)
    [batch] = seen
    assert batch.source.size(0) == batch.labels.size(0) == sentences
    assert len({sentences, batch.source.size(1), batch.labels.size(1)}) == 3
    assert batch.labels.size(1) <= max_length


def test_random_numbers_do_not_notice():
    model = tiny_transformer(dropout=0.1, encoder_layers=1, decoder_layers=1).train()
    torch.manual_seed(0)
    state = torch.get_rng_state()
    compiled(model, "eager")
    assert torch.get_rng_state().equal(state)


class Search(Callback):
    """Translates after each validation and at the end of training, as these do."""

    def __init__(self, counter: CompileCounterWithBackend):
        self.counter, self.searches = counter, 0

    def on_validation_end(self, trainer) -> None:
        before, (source, real, _) = self.counter.frame_count, inputs(0, 3, 5, 7)
        with torch.inference_mode():
            trainer.model.decode_step(source[:, :1], trainer.model.start(source, real))
        assert self.counter.frame_count == before
        self.searches += 1

    on_train_end = on_validation_end


def test_nothing_is_compiled_for_a_search_between_steps(monkeypatch):
    counter = CompileCounterWithBackend("eager")
    make = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(make, backend=counter))
    search = Search(counter)
    tiny_fit(tiny_task(), [search], 4, val_every_n_steps=2, compile=True)
    assert search.searches == 3
    assert counter.frame_count > 0


def broken(graph, examples):
    raise RuntimeError("No working C++ compiler found\nin the usual places\n\nLong advice follows")


def test_a_compiler_that_fails_is_told_with_what_to_do():
    said = r"No working C\+\+ compiler found in the usual places\)\. Leave it out"
    with pytest.raises(RunError, match=said):
        compiled(tiny_transformer(max_length=8).train(), broken)


def test_too_little_memory_is_not_taken_for_a_broken_compiler():
    def forward_backward(batch, sync):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    with pytest.raises(torch.OutOfMemoryError):
        compile_layers(tiny_transformer(), CPU, forward_backward, 64)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_compiled_training_has_the_losses_of_eager_training_with_few_graphs(precision, caplog):
    """By the real compiler, in the real loop, with a validation between."""
    eager, compiled = Recorder(), Recorder()
    tiny_fit(tiny_task(), [eager], 12, val_every_n_steps=6, precision=precision)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with caplog.at_level(logging.INFO):
        tiny_fit(
            tiny_task(), [compiled], 12, val_every_n_steps=6, precision=precision, compile=True
        )
    assert "compiled in" in caplog.text
    made = torch._dynamo.utils.counters["stats"]["unique_graphs"] - before
    assert made <= 4  # two for each kind of layer
    within = {"32-true": 1e-4, "bf16-mixed": 0.02}[precision]
    assert compiled.nll == pytest.approx(eager.nll, abs=within)
