import json
from dataclasses import replace
from itertools import islice
from time import perf_counter

import pytest
import torch
import torch.nn.functional as F
from benchmarks import train as module
from benchmarks.settings import TrainBenchmarkConfig
from benchmarks.train import benchmark_train, open_data, train_steps
from torch.testing import assert_close

from seq2seq.config import (
    CleaningConfig,
    DataConfig,
    OptimConfig,
    TokenizerConfig,
    TrainerConfig,
    TransformerConfig,
)
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import ConfigError
from seq2seq.model.build import build_model

MODEL = TransformerConfig(
    d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.0, max_length=40
)


@pytest.fixture(autouse=True)
def small_product(monkeypatch):
    monkeypatch.setattr(module, "MATMUL", {"cpu": 64, "gpu": 64})


@pytest.fixture(scope="module")
def config(toy_corpus):
    return TrainBenchmarkConfig(
        model=MODEL,
        data=DataConfig(path=str(toy_corpus), max_tokens=512),
        cleaning=CleaningConfig(filters=[]),
        tokenizer=TokenizerConfig(vocab_size=300),
        # A larger eps: biases of keys have no gradient but rounding, which Adam would blow up.
        optim=OptimConfig(lr=0.01, warmup_steps=3, eps=1e-4),
        warmup_steps=1,
        steps=3,
    )


def first_batches(config, number):
    return list(islice(open_data(config).train_dataloader(), number))


def test_the_first_batches_of_training_are_counted(config):
    _, held, _ = train_steps(config, "cpu", "32-true")
    _, *counted = first_batches(config, 4)  # the first step warms up
    source, target, positions, flops = held.tolist()
    assert source == sum(int((batch.source != PAD).sum()) for batch in counted)
    assert target == sum(int((batch.labels != PAD).sum()) for batch in counted)
    assert positions == sum(batch.source.numel() + batch.labels.numel() for batch in counted)
    assert flops > 0


def test_a_line_says_what_was_measured(config, capsys):
    benchmark_train(replace(config, trainer=TrainerConfig(precision="32-true")))
    line = json.loads(capsys.readouterr().out)
    sizes = open_data(config).vocabularies.sizes
    assert line["parameters"] == sum(p.numel() for p in build_model(MODEL, *sizes).parameters())
    assert (line["steps"], line["compile"]) == (3, False)  # the first step warms up
    assert line["target_tokens_per_second"] > 0
    assert line["utilisation"] == pytest.approx(line["tflops"] / line["matmul_tflops"])
    assert line["peak_memory_mib"] > 64  # of a process that has loaded torch


@pytest.mark.parametrize("accumulate", [1, 2])
def test_its_steps_are_those_of_a_plain_loop(config, accumulate):
    config = replace(config, trainer=TrainerConfig(accumulate=accumulate, gradient_clip=0.5))
    trainer, _, times = train_steps(config, "cpu", "32-true")
    trained = trainer.model
    assert times.steps == 3

    torch.manual_seed(config.seed)
    model = build_model(MODEL, *open_data(config).vocabularies.sizes)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-4, weight_decay=0)
    batches = first_batches(config, 4 * accumulate)
    for step, rate in enumerate((1 / 3, 2 / 3, 1, (3 / 4) ** 0.5)):
        window = batches[step * accumulate : (step + 1) * accumulate]
        tokens = sum(batch.target_tokens for batch in window)
        optimizer.zero_grad()
        for batch in window:
            logits = model.project(model(batch.source, batch.source != PAD, batch.target_in))
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                batch.labels.flatten(),
                ignore_index=PAD,
                label_smoothing=0.1,
                reduction="sum",
            )
            (loss / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.param_groups[0]["lr"] = 0.01 * rate
        optimizer.step()
    for (name, ours), plain in zip(trained.named_parameters(), model.parameters(), strict=True):
        assert_close(ours, plain, rtol=1e-3, atol=1e-5, msg=name)


def test_all_time_belongs_to_one_part(config):
    config = replace(config, trainer=TrainerConfig(accumulate=3))
    started = perf_counter()
    _, _, times = train_steps(config, "cpu", "32-true")
    whole = perf_counter() - started
    assert sum(times.parts.values()) == pytest.approx(times.total)
    assert 0 < times.total < whole
    assert all(seconds > 0 for seconds in times.parts.values())


def test_the_moving_average_is_part_of_a_step(config):
    averaged = replace(config, optim=replace(config.optim, ema=0.9))
    trainer, _, _ = train_steps(averaged, "cpu", "32-true")
    assert trainer.ema.updates == 4


def test_what_the_device_lacks_is_refused_as_in_training(config, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="16-mixed needs a GPU, and this run is on the CPU"):
        benchmark_train(replace(config, trainer=TrainerConfig(precision="16-mixed")))
    with pytest.raises(ConfigError, match=r"trainer\.accelerator=gpu, but torch sees no GPU here"):
        benchmark_train(replace(config, trainer=TrainerConfig(accelerator="gpu")))


def test_settings_that_cannot_work_are_named(config):
    with pytest.raises(ConfigError) as error:
        replace(
            config,
            steps=0,
            warmup_steps=-1,
            trainer=TrainerConfig(devices=2),
            data=replace(config.data, max_tokens=10),
        )
    problems = "\n".join(error.value.problems)
    assert len(error.value.problems) == 4
    assert "steps=0 is too small" in problems
    assert "warmup_steps=-1 is too small" in problems
    assert "one device is measured; leave them out" in problems
    assert "data.max_tokens=10 cannot hold one pair" in problems  # a rule of training
