import subprocess
import sys

import pytest
import torch
from conftest import run_program

from seq2seq.config import ModelConfig, RecurrentConfig, TransformerConfig
from seq2seq.training import hardware
from seq2seq.training.hardware import describe_attention, peak_memory, set_up_process

FLASH = "encoder flash, decoder flash, cross-attention flash kernel"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (TransformerConfig(), FLASH),
        (TransformerConfig(n_kv_heads=2), FLASH),
        (TransformerConfig(n_kv_heads=1, head_dim=80, positions="rotary"), FLASH),
        (TransformerConfig(kernel="reference"), "reference kernel"),
        (RecurrentConfig(), "additive"),
    ],
)
def test_the_kernel_of_attention_is_named(model: ModelConfig, text: str):
    assert describe_attention(model, "cpu", "32-true") == text
    assert describe_attention(model, "cpu", "bf16-mixed") == text


def test_kernels_are_asked_for_as_training_calls_them(monkeypatch):
    asked = []

    def answer(q, k, v, allowed=None, dropout=0.0, *, causal=False):
        asked.append((q.shape[1], k.shape[1], q.shape[3], q.dtype, allowed is not None, causal))
        return "flash" if causal else "efficient"

    monkeypatch.setattr(hardware, "fused_backend", answer)
    text = describe_attention(TransformerConfig(n_kv_heads=2), "cpu", "bf16-mixed")
    assert text == "encoder efficient, decoder flash, cross-attention efficient kernel"
    half = torch.bfloat16
    assert asked == [(8, 2, 64, half, True, False), (8, 2, 64, half, False, True)]


def test_peak_memory_is_that_of_this_process_not_of_its_parent():
    large = torch.ones(2**26)  # 256 MiB
    code = "from seq2seq.training.hardware import peak_memory; print(peak_memory('cpu'))"
    child = int(subprocess.check_output([sys.executable, "-c", code]))
    assert peak_memory("cpu") - child > 0.5 * large.nbytes


WINDOWS = """
import pathlib, signal, sys
for name in [*sys.modules]:
    if name.partition(".")[0] == "seq2seq":
        del sys.modules[name]
sys.modules["resource"] = None
del signal.SIGHUP
from seq2seq.data import datamodule, shards
from seq2seq.training import hardware, stopping, train
shards._allow_open_files(3)
datamodule._leave_signals_to_the_main_process(0)
with stopping.StopRequest().listening():
    pathlib.Path.read_text = lambda *_, **__: ""
    print(hardware.peak_memory("cpu"))
"""


def test_what_windows_lacks_is_not_needed(tmp_path):
    """A module `resource`, SIGHUP and /proc."""
    program = tmp_path / "windows.py"
    program.write_text(WINDOWS)
    said = run_program(program)
    assert (said.returncode, said.stdout) == (0, "0\n"), said.stderr


def test_a_slow_kernel_is_named_with_its_reason():
    text = describe_attention(TransformerConfig(attention_dropout=0.1), "cpu", "32-true")
    assert text.startswith("encoder math, decoder math, cross-attention math kernel")
    assert "math is the slow one: no fast one takes attention_dropout=0.1" in text


def test_a_cpu_multiplies_in_full_precision_and_a_gpu_on_its_tensor_cores():
    before = torch.get_float32_matmul_precision()
    try:
        for accelerator, precision in (("gpu", "high"), ("cpu", "highest")):
            set_up_process(accelerator)
            assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
