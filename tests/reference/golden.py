"""Golden vectors of attention, if a folder shared/golden lies beside the checkout.

`python tests/reference/golden.py` prints the worst error of every file, kernel and precision.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import tutorials
from torch import Tensor, nn

from seq2seq.config import KERNELS
from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights, masked_softmax
from seq2seq.model.kv_cache import KeysValues, KVCache
from seq2seq.model.recurrent import AdditiveAttention

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden"
ATTENTION = (
    "single_head_self_attention_001",
    "causal_single_head_001",
    "cross_attention_001",
    "causal_mha_two_heads_004",
    "attention_dropout_given_draw_004",
    "mha_self_attention_9_3",
    "parameter_free_attention",
    "padded_self_attention_3_5_4",
    "causal_padded_self_attention_3_5_4",
    "cross_attention_padded_en_3_5_4_fr_7_6_2",
    "seq_first_mask_002",
    "mqa_4_heads_1_kv",
    "mqa_full_width_heads_mean_003",
    "gqa_8_heads_2_kv",
    "kv_cache_mha_stepwise",
    "mqa_memory_entries",
)
OTHERS = ("per_head_scores_004", "softmax_worked_000", "masks_000", "additive_attention_rnn")
DTYPES = (torch.float64, torch.float32)

Case = dict[str, Any]
Errors = dict[str, float]  # what was compared -> largest absolute difference


def load(name: str) -> Case:
    """One case; skips the calling test where there are no golden vectors."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no golden vectors in {FOLDER}")
    case: Case = json.loads(path.read_text(encoding="utf-8"))
    return case


def tolerance(case: Case, what: str, dtype: torch.dtype) -> float:
    kind = "printed" if what.startswith("printed") else str(dtype).removeprefix("torch.")
    return float(case["tolerance"][kind])


def error(got: Tensor, expected: Any) -> float:
    """Largest absolute difference; null in a table stands for minus infinity."""
    if not isinstance(expected, Tensor):
        expected = torch.tensor(_numbers(expected), dtype=torch.float64)
    assert got.shape == expected.shape, f"got {tuple(got.shape)}, not {tuple(expected.shape)}"
    got, expected = got.detach().double(), expected.double()
    difference = torch.where(got == expected, 0.0, got - expected)
    return float(difference.abs().max())


def errors(name: str, kernel: str, dtype: torch.dtype) -> Errors:
    """Everything of a case that we can compute, compared with what it expects."""
    case = load(name)
    special: dict[str, Callable[[Case, str, torch.dtype], Errors]] = {
        "per_head_scores_004": _scores,
        "softmax_worked_000": _softmax,
        "masks_000": _masks,
        "additive_attention_rnn": _additive,
    }
    return special.get(name, _attention)(case, kernel, dtype)


# Ordinary cases


def _attention(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    config, expected, name = case["config"], case["expected"], case["name"]
    q, k, v = (_tensor(expected[letter], dtype) for letter in "qkv")
    allowed, causal = allowed_of(case), config["causal"]
    keep = case["masks"].get("dropout_keep_mask")
    found = _projected(case, dtype)
    if keep is not None:
        weights, context = _with_draw(q, k, v, torch.tensor(keep), config["dropout_p"], kernel)
    else:
        weights = weights_through(q, k, kernel, allowed, causal=causal)
        context = attend(q, k, v, allowed, kernel=kernel, causal=causal)
    joined = context.transpose(1, 2).flatten(-2)
    w_o, b_o = (case["weights"][part] for part in ("W_o", "b_o"))
    output = joined if w_o is None else _linear(joined, w_o, b_o)
    result = {what: error(got, expected[what]) for what, got in found.items()}
    result["weights"] = error(weights, expected["attention_weights"])
    result["context"] = error(joined, expected["context"])
    result["output"] = error(output, expected["output"])
    if keep is None and module_fits(case):
        result["module"] = error(run_module(case, kernel, dtype), expected["output"])
    extra = {
        "kv_cache_mha_stepwise": _steps,
        "seq_first_mask_002": _sequence_first,
        "mqa_full_width_heads_mean_003": _mean_of_heads,
    }.get(name)
    if extra is not None:
        result |= extra(case, kernel, dtype)
    for table in case.get("printed", ()):
        got = _printed(table["compares_to"], q, k, weights, output, kernel)
        result[f"printed: {table['what']}"] = error(got, table["values"])
    return result


def allowed_of(case: Case) -> Tensor | None:
    """The masks of a case but for the causal one."""
    real, per_query = (case["masks"][name] for name in ("key_padding_mask", "attention_mask"))
    return masks.combine(
        None if real is None else masks.padding(torch.tensor(real)),
        None if per_query is None else tutorials.per_query(torch.tensor(per_query)),
    )


def weights_through(
    q: Tensor,
    k: Tensor,
    kernel: str,
    allowed: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The weights that a kernel uses: the context of one-hot values.

    The reference kernel writes them out, too, and must give the same.
    """
    one_hot = torch.eye(k.size(2), dtype=k.dtype).expand(*k.shape[:2], -1, -1)
    q = tutorials.scaled(q, scale)
    used = attend(q, k, one_hot, allowed, kernel=kernel, causal=causal)
    if kernel == "reference":
        written_out = attention_weights(q, k, allowed, causal=causal)
        torch.testing.assert_close(written_out, used)
    return used


def module_fits(case: Case) -> bool:
    """Ours has values as wide as keys, and an output as wide as its input."""
    config, weights = case["config"], case["weights"]
    w_o = weights["W_o"]
    out = config["num_heads"] * config["v_head_dim"] if w_o is None else len(w_o[0])
    return config["qk_head_dim"] == config["v_head_dim"] and out == len(weights["W_q"])


def attention_module(case: Case, dtype: torch.dtype, kernel: str = "sdpa") -> MultiHeadAttention:
    """Our module with the weights of a case; a null W_o is the identity."""
    config, weights = case["config"], case["weights"]
    biases = any(weights[f"b_{letter}"] is not None for letter in "qkvo")
    attention = MultiHeadAttention(
        len(weights["W_q"]),
        config["num_heads"],
        config["num_kv_heads"],
        config["qk_head_dim"],
        kernel=kernel,
    )
    if not biases:
        tutorials.without_biases(attention)
    tutorials.read_width(attention, len(weights["W_k"])).to(dtype)
    for letter in "qkvo":
        linear = getattr(attention, {"o": "out_proj"}.get(letter, f"{letter}_proj"))
        weight, bias = weights[f"W_{letter}"], weights[f"b_{letter}"]
        fill(linear, torch.eye(linear.in_features).tolist() if weight is None else weight, bias)
    return attention.eval()


def fill(linear: nn.Linear, weight: Any, bias: Any) -> None:
    """Give a projection a weight that is (in, out), and a bias; null is zero."""
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight, dtype=torch.float64).T)
        if linear.bias is not None:
            linear.bias.copy_(torch.tensor(0.0 if bias is None else bias, dtype=torch.float64))


def run_module(case: Case, kernel: str, dtype: torch.dtype) -> Tensor:
    attention, inputs = attention_module(case, dtype, kernel), case["inputs"]
    x, given = _tensor(inputs["query"], dtype), inputs["key_value"]
    causal = case["config"]["causal"]
    output: Tensor
    if "memory_k" in inputs:
        entries = KeysValues(*(_tensor(inputs[f"memory_{letter}"], dtype) for letter in "kv"))
        output = tutorials.with_entries(attention, x, entries, allowed_of(case), causal=causal)
    else:
        source = None if given is None else _tensor(given, dtype)
        output = attention(x, source, allowed_of(case), causal=causal)
    return output


def _projected(case: Case, dtype: torch.dtype) -> dict[str, Tensor]:
    """q, k and v per head, from the inputs and weights."""
    inputs, config, weights = case["inputs"], case["config"], case["weights"]
    x = _tensor(inputs["query"], dtype)
    source = x if inputs["key_value"] is None else _tensor(inputs["key_value"], dtype)
    found = {}
    for letter, given in (("q", x), ("k", source), ("v", source)):
        projected = _linear(given, weights[f"W_{letter}"], weights[f"b_{letter}"])
        heads = config["num_heads" if letter == "q" else "num_kv_heads"]
        found[letter] = projected.unflatten(-1, (heads, -1)).transpose(1, 2)
        if f"memory_{letter}" in inputs:
            memory = _tensor(inputs[f"memory_{letter}"], dtype).expand(len(x), -1, -1, -1)
            found[letter] = torch.cat([memory, found[letter]], dim=2)
    return found


def _with_draw(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor, rate: float, kernel: str
) -> tuple[Tensor, Tensor]:
    """Weights and context after dropout, where the draw is given.

    The reference kernel makes its draw by a function that can be replaced. The fused one draws
    inside, so that only its weights before dropout can be looked at.
    """

    def drop(weights: Tensor, probability: float) -> Tensor:
        return weights * keep / (1 - probability)

    if kernel == "reference":
        one_hot = torch.eye(k.size(2), dtype=k.dtype).expand(*k.shape[:2], -1, -1)
        with patch("seq2seq.model.attention.F.dropout", drop):
            weights, context = (
                attend(q, k, x, dropout=rate, kernel=kernel, causal=True) for x in (one_hot, v)
            )
        return weights, context
    dropped = drop(weights_through(q, k, kernel, causal=True), rate)
    return dropped, dropped @ v


def _steps(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    attention = attention_module(case, dtype, kernel)
    x = _tensor(case["inputs"]["query"], dtype)
    result = {}
    for chunking in case["incremental"]:
        cache = KVCache(capacity=x.size(1))
        for step in chunking["steps"]:
            assert cache.length == step["start"]
            new = x[:, step["start"] : step["start"] + step["length"]]
            output = attention(new, causal=True, cache=cache.layer(0))
            result[f"step {step['start']} of {chunking['chunks']}"] = error(output, step["output"])
        stored = cache.append(0, *attention.keys_values(x[:, :0]))
        for letter, kept in zip("kv", stored, strict=True):
            result[f"cached {letter} of {chunking['chunks']}"] = error(
                kept, case["expected"][letter]
            )
    return result


def _sequence_first(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    variant = case["variant"]
    x = _tensor(variant["query_seq_first"], dtype).transpose(0, 1)
    allowed = tutorials.per_query(torch.tensor(variant["mask_q_k_batch"]).permute(2, 0, 1))
    attention = attention_module(case, dtype, kernel)
    weights = attention.weights(x, allowed=allowed)
    return {
        "sequence-first output": error(
            attention(x, allowed=allowed).transpose(0, 1), variant["output_seq_first"]
        ),
        "sequence-first weights": error(
            weights.permute(2, 3, 0, 1), variant["attention_weights_q_k_batch_head"]
        ),
    }


def _mean_of_heads(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    """The mean over heads of output layers is one output layer: their stack, divided by H."""
    variant = {name: _tensor(v, torch.float64) for name, v in case["variant"].items()}
    attention = attention_module(case, dtype, kernel)
    heads = len(variant["per_head_W_q"])
    fill(attention.q_proj, torch.cat([*variant["per_head_W_q"]], dim=1).tolist(), None)
    stacked = torch.cat([*variant["per_head_W_out"]], dim=0) / heads
    fill(attention.out_proj, stacked.tolist(), variant["per_head_b_out"].mean(dim=0).tolist())
    output = attention(_tensor(case["inputs"]["query"], dtype))
    return {"per-head layers": error(output, case["expected"]["output"])}


def _printed(
    compares_to: str, q: Tensor, k: Tensor, weights: Tensor, output: Tensor, kernel: str
) -> Tensor:
    """Our value of what a printed table rounds."""
    scores = (q @ k.transpose(-1, -2))[0, 0]
    unmasked = weights_through(q, k, kernel)[0, 0]
    order = masks.causal(*scores.shape)[0, 0]
    return {
        "expected.output": output,
        "expected.output[0]": output[0],
        "expected.output[0][2]": output[0, 2],
        "expected.attention_weights[0][0]": weights[0, 0],
        "expected.attention_weights[0][0][2]": weights[0, 0, 2],
        "sqrt(2) * unmasked scaled scores": scores,
        "sqrt(2) * scaled scores [0][0][2]": scores[2],
        "variant.unmasked_attention_weights": unmasked,
        "variant.masked_not_renormalised": unmasked * order,
        "variant.masked_unscaled_scores": scores.masked_fill(~order, -math.inf),
    }[compares_to]


# Cases with a layout of their own


def _scores(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    q, k = (_tensor(case["inputs"][letter], dtype) for letter in "qk")
    scores = torch.tensor(case["expected"]["unscaled_scores"], dtype=torch.float64)
    weights = weights_through(q, k, kernel, scale=1.0)
    [table] = case["printed"]
    return {
        "softmax of unscaled scores": error(weights, scores.softmax(dim=-1)),
        "printed: products": error(q @ k.transpose(-1, -2), table["values"]),
    }


def _softmax(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    scores = _tensor(case["inputs"]["scores"], dtype)
    identity = torch.eye(3, dtype=dtype)[None, None]
    result = {}
    for worked, table in zip(case["cases"], case["printed"], strict=True):
        mask = None if worked["mask"] is None else torch.tensor(worked["mask"])
        allowed = None if mask is None else tutorials.per_query(mask)
        weights = weights_through(scores[None, None], identity, kernel, allowed, scale=1.0)[0, 0]
        name = worked["mask_name"]
        result[name] = error(weights, worked["softmax"])
        result[f"{name}, masked_softmax"] = error(masked_softmax(scores, mask), worked["softmax"])
        if table["decimals"] == 4:  # the others show fewer digits than the tolerance has
            result[f"printed: {name}"] = error(weights, table["values"])
    return result


def _masks(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    result = {}
    for drawn in case["cases"]:
        real, queries = torch.tensor(drawn["key_padding_mask"]), drawn["query_len"]
        allowed: Tensor | None = masks.padding(real)
        if drawn["causal"]:
            assert drawn["query_offset"] == real.size(1) - queries
            allowed = masks.combine(allowed, masks.causal(queries, real.size(1)))
        assert allowed is not None
        expected = torch.tensor(drawn["allowed"])
        result[drawn["what"]] = error(allowed.expand_as(expected), expected)
    return result


def _additive(case: Case, kernel: str, dtype: torch.dtype) -> Errors:
    states, annotations = (_tensor(case["inputs"][n], dtype) for n in ("states", "annotations"))
    weights, expected = case["weights"], case["expected"]
    attention = AdditiveAttention(states.size(2), annotations.size(2), len(weights["v"])).to(dtype)
    fill(attention.state_proj, weights["W_s"], None)
    fill(attention.source_proj, weights["U_h"], weights["b"])
    fill(attention.score, [[number] for number in weights["v"]], None)
    allowed = masks.padding(torch.tensor(case["masks"]["key_padding_mask"]))[:, 0]
    contexts, found = attention(states, annotations, allowed)
    energies = torch.tensor(expected["energies"], dtype=torch.float64)
    unmasked = attention(states, annotations)[1]
    return {
        "context": error(contexts, expected["context"]),
        "weights": error(found, expected["attention_weights"]),
        "softmax of energies": error(unmasked, energies.softmax(dim=-1)),
    }


def _tensor(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype)


def _linear(x: Tensor, weight: Any, bias: Any) -> Tensor:
    projected = x @ _tensor(weight, x.dtype)
    return projected if bias is None else projected + _tensor(bias, x.dtype)


def _numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [_numbers(value) for value in values]
    return -math.inf if values is None else float(values)


def main() -> None:
    columns = [(kernel, dtype) for kernel in KERNELS for dtype in DTYPES]
    names = [f"{kernel} {str(dtype).removeprefix('torch.')}" for kernel, dtype in columns]
    print(f"{'worst absolute error':42}" + "".join(f"{name:>20}" for name in [*names, "printed"]))
    for name in (*ATTENTION, *OTHERS):
        row = []
        printed: list[float] = []
        for kernel, dtype in columns:
            found = errors(name, kernel, dtype)
            row.append(max(x for what, x in found.items() if not what.startswith("printed")))
            printed += (x for what, x in found.items() if what.startswith("printed"))
        cells = [f"{worst:20.1e}" for worst in row]
        print(f"{name:42}" + "".join(cells) + (f"{max(printed):20.1e}" if printed else ""))


if __name__ == "__main__":
    main()
