"""Settings of the benchmarks (`configs/benchmark_*.yaml`)."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq.config import Checked, ModelConfig, PrepareConfig, TrainConfig, TransformerConfig
from seq2seq.config.checked import group, setting
from seq2seq.config.commands import device_is_named


class DataBenchmarkConfig(PrepareConfig):
    """All settings of `scripts/benchmark.py data`."""

    copies: int = setting(1, "copies of the corpus, each with other sentences", at_least=1)


class TrainBenchmarkConfig(TrainConfig):
    """All settings of `scripts/benchmark.py train`: those of a run, and how much is measured."""

    warmup_steps: int = setting(3, "steps before measuring", at_least=0)
    steps: int = setting(10, "steps to measure", at_least=1)

    def rules(self) -> Iterator[str]:
        yield from super().rules()
        if self.trainer.devices * self.trainer.num_nodes != 1:
            yield "trainer.devices, trainer.num_nodes: one device is measured; leave them out"
        if self.trainer.strategy == "fsdp":
            yield "trainer.strategy=fsdp: one process is measured, which shares no weights"


class DecodeBenchmarkConfig(Checked):
    """All settings of `scripts/benchmark.py decode`."""

    model: ModelConfig = group(TransformerConfig)  # its weights are random
    vocab_size: int = setting(8000, "subwords", at_least=8)
    precision: str = setting("float32", "see inference/engines/torch.py")
    beam: int = setting(5, "hypotheses of a sentence; 1 = greedy", at_least=1)
    batch: int = setting(64, "sentences decoded together", at_least=1)
    workers: int = setting(1, "batches at once, a thread each", at_least=1)
    cuda_graphs: bool = setting(False, "replay captured steps, on a GPU")
    length: int = setting(20, "tokens of each output", at_least=1)
    warmup_calls: int = setting(2, "calls before measuring", at_least=0)
    calls: int = setting(10, "calls to measure", at_least=1)
    device: str = setting("auto", "where the model runs: auto, cpu, cuda or cuda:1")
    seed: int = setting(1, "of weights and sentences")

    def rules(self) -> Iterator[str]:
        yield from device_is_named(self.device)
        most = self.model.max_length
        if self.length > most:
            yield f"length={self.length} is more than the model takes (model.max_length={most})"
