"""The arithmetic that a model translates with; training has its own, see `training/hardware.py`."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from seq2seq.errors import UserError, nearest
from seq2seq.model.optimize import optimize_for_inference
from seq2seq.model.translation_model import TranslationModel

PRECISIONS = ("auto", "float32", "bfloat16", "float16", "int8")
# What a CPU needs for each; torch has no public question.
INSTRUCTIONS = {
    "bfloat16": ("_is_amx_tile_supported", "_is_avx512_bf16_supported"),
    "float16": ("_is_amx_fp16_supported",),
    "int8": ("_is_vnni_supported",),
}


def prepared(model: TranslationModel, precision: str = "auto") -> TranslationModel:
    """A model that translates in this precision: the same one, changed for good.

    - auto: float32 on a CPU, which is exact: a sentence comes out the same in any batch. On a GPU
      bfloat16, or float16 where it has none.
    - bfloat16, float16: weights and activations; sums are float32 inside products.
    - int8: weights of linear layers, a scale for each output; their inputs are quantised when they
      come. The rest stays float32. On a CPU only.

    Raises:
        UserError: the precision is not known, or the device has no instructions for it.
    """
    device = next(model.parameters()).device
    chosen = choose_precision(precision, device)
    if chosen == "int8":
        return _with_int8_weights(model)
    model.to(getattr(torch, chosen))
    if chosen in ("float32", "bfloat16") and device.type == "cpu":
        optimize_for_inference(model)
    return model


def choose_precision(precision: str, device: torch.device) -> str:
    """`precision`, where auto is what `prepared` says.

    Raises:
        UserError: the precision is not known, or the device has no instructions for it.
    """
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision} is not known: {nearest(precision, PRECISIONS)}")
    if device.type == "cpu":
        wanted = "float32" if precision == "auto" else precision
        if wanted != "float32" and not cpu_has(wanted):
            raise UserError(
                f"precision {wanted} would be slower than float32 here: this CPU has no "
                "instructions for it; use float32"
            )
        return wanted
    if precision == "int8":
        raise UserError(
            f"precision int8 is for the CPU, and the model is on {device}: use bfloat16, float16, "
            "or device cpu; the engine ctranslate2 has int8 on a GPU, too"
        )
    # Emulated bf16 would be slower than fp32.
    has_bf16 = device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "bfloat16" and not has_bf16:
        raise UserError(f"precision bfloat16: {device} has no arithmetic for it; use float16")
    if precision == "auto":
        return "bfloat16" if has_bf16 else "float16"
    return precision


def cpu_has(precision: str) -> bool:
    """Whether the CPU has instructions for products in this precision."""
    return any(getattr(torch.cpu, name, bool)() for name in INSTRUCTIONS[precision])


def _with_int8_weights(model: TranslationModel) -> TranslationModel:
    """Quantise all linear layers."""
    engines = torch.backends.quantized
    with warnings.catch_warnings():
        # Deprecated in favour of torchao, whose int8 is 2 to 5 times slower unless compiled.
        warnings.filterwarnings("ignore", message=".*deprecated.*")
        from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

        before = engines.engine
        try:
            if "onednn" in engines.supported_engines:
                engines.engine = "onednn"  # twice as fast as the default from 64 rows on
            quantised: TranslationModel = quantize_dynamic(  # type: ignore[no-untyped-call]
                model, {nn.Linear: per_channel_dynamic_qconfig}, inplace=True
            )
        finally:
            engines.engine = before
    return quantised
