"""The engine torch: runs the models of this project unconverted; chooses device and precision.

Training chooses its own precision, see `training/hardware.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from seq2seq.bundle.bundle import load_bundle, require_same_language
from seq2seq.config import DecodeConfig
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.cuda_graph import graph_step
from seq2seq.decoding.forced import forced_attention, forced_log_probs
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.request import IdPair, Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import Ensemble, ModelStep, Searchable
from seq2seq.errors import UserError, nearest
from seq2seq.inference.engines import PRECISIONS, Loaded, Progress, device_number
from seq2seq.model.optimize import optimize_for_inference
from seq2seq.model.translation_model import TranslationModel

# Functions that tell whether a CPU has what a precision needs; torch has no public ones.
INSTRUCTIONS = {
    "bfloat16": ("_is_amx_tile_supported", "_is_avx512_bf16_supported"),
    "float16": ("_is_amx_fp16_supported",),
}


class TorchEngine:
    """One model of this project, or several as an ensemble.

    Args:
        models: in evaluation mode, on one device, over one vocabulary.
        heads: the head of each model that aligns best; none = the defaults of `AttentionHead`.
        cuda_graphs: replay the decoder as CUDA graphs, which is faster for small batches.

    Raises:
        UserError: these models cannot use CUDA graphs.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        length_ratio: float = 1.0,
        heads: Sequence[AttentionHead] = (),
        cuda_graphs: bool = False,
    ):
        self.models, self.length_ratio = list(models), length_ratio
        self.heads = list(heads) or [AttentionHead() for _ in models]
        self.max_length = min(model.config.max_length for model in models)
        steps = [graph_step(model) if cuda_graphs else ModelStep(model) for model in models]
        self._step: Searchable = steps[0] if len(steps) == 1 else Ensemble(steps)
        self._device = next(models[0].parameters()).device
        # Read only once: while a search runs in several threads, each of them has only one.
        self._workers = torch.get_num_threads() if self._device.type == "cpu" else 1

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        return search(
            self._step,
            requests,
            config,
            max_length=self.max_length,
            length_ratio=self.length_ratio,
            device=self._device,
            progress=progress,
            workers=self._workers,
        )

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        return forced_log_probs(self.models, pairs)

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        each = zip(self.models, self.heads, strict=True)
        of_models = [forced_attention(model, pairs, head) for model, head in each]
        return [np.mean(weights, axis=0) for weights in zip(*of_models, strict=True)]


def load(paths: Sequence[str | Path], device: str, precision: str, cuda_graphs: bool) -> Loaded:
    """Load models as `load_engine` says."""
    chosen = choose_device(device)
    choose_precision(precision, chosen)  # report a mistake before reading anything
    bundles = [load_bundle(one, chosen) for one in paths]
    require_same_language(list(zip(map(str, paths), bundles, strict=True)))
    models = [cast_for_inference(one.model, precision) for one in bundles]
    heads = [one.alignment for one in bundles]
    engine = TorchEngine(models, bundles[0].length_ratio, heads, cuda_graphs)
    return engine, bundles[0].vocabularies, bundles[0]


def choose_device(name: str = "auto") -> torch.device:
    """Return the device called `name`, as `device_number` finds it."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, number = device_number(name, gpus, "torch")
    return torch.device(f"cuda:{number}" if ":" in name and kind == "cuda" else kind)


def cast_for_inference(model: TranslationModel, precision: str = "auto") -> TranslationModel:
    """Convert a model in place to translate in this precision (`choose_precision`); return it."""
    device = next(model.parameters()).device
    chosen = choose_precision(precision, device)
    model.to(getattr(torch, chosen))
    if chosen in ("float32", "bfloat16") and device.type == "cpu":
        optimize_for_inference(model)
    return model


def choose_precision(precision: str, device: torch.device) -> str:
    """Return `precision`, or what auto stands for.

    - auto: float32 on a CPU, which is exact: a sentence comes out the same in any batch. On a GPU
      bfloat16, or float16 if the GPU has no bfloat16.
    - bfloat16, float16: of weights and activations; sums inside products are float32.

    Raises:
        UserError: the precision is unknown, or the device has no instructions for it.
    """
    if precision.startswith("int"):
        raise UserError(
            f"precision {precision} is one of the other engine: add --engine ctranslate2 (in "
            'Python engine="ctranslate2"), or use float32, bfloat16 or float16'
        )
    if precision not in (known := PRECISIONS["torch"]):
        raise UserError(f"precision {precision} is not known: {nearest(precision, known)}")
    if device.type == "cpu":
        wanted = "float32" if precision == "auto" else precision
        if wanted != "float32" and not cpu_has(wanted):
            raise UserError(
                f"precision {wanted} would be slower than float32 here: this CPU has no "
                "instructions for it; use float32"
            )
        return wanted
    # Emulated bf16 would be slower than fp32.
    has_bf16 = device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "bfloat16" and not has_bf16:
        raise UserError(f"precision bfloat16: {device} has no arithmetic for it; use float16")
    if precision == "auto":
        return "bfloat16" if has_bf16 else "float16"
    return precision


def cpu_has(precision: str) -> bool:
    """Tell whether the CPU has instructions for products in this precision."""
    return any(getattr(torch.cpu, name, bool)() for name in INSTRUCTIONS[precision])
