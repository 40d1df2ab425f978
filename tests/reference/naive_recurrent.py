"""The recurrent model written as plain loops over one sentence, gate by gate."""

from __future__ import annotations

import math

import numpy as np
from naive_attention import additive_by_loops

from seq2seq.model.recurrent import RecurrentModel


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gru_step(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray, b, c) -> np.ndarray:
    """One step of a gated recurrent unit, in the form that PyTorch documents.

    w (3D, in) and u (3D, D) hold the matrices of reset gate, update gate and new state; b and c
    are their biases.
    """
    width = len(h)
    reset, update, new = (slice(i * width, (i + 1) * width) for i in range(3))
    r = sigmoid(w[reset] @ x + b[reset] + u[reset] @ h + c[reset])
    z = sigmoid(w[update] @ x + b[update] + u[update] @ h + c[update])
    n = np.tanh(w[new] @ x + b[new] + r * (u[new] @ h + c[new]))
    return (1 - z) * n + z * h


def annotations_by_loops(model: RecurrentModel, source: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(S, D) states of both directions side by side, and the last state of the backward one."""
    part = {name: p.detach().numpy() for name, p in model.named_parameters()}
    width = model.config.d_model
    inputs = [part["source_tokens.weight"][i] * math.sqrt(width) for i in source]
    backward_end = np.zeros(0)
    for layer in range(model.config.encoder_layers):
        found = []
        for suffix, order in (("", 1), ("_reverse", -1)):
            gates = [
                part[f"encoder.{kind}_l{layer}{suffix}"]
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            h, states = np.zeros(width // 2), []
            for x in inputs[::order]:
                h = gru_step(x, h, *gates)
                states.append(h)
            found.append(states[::order])
            backward_end = h
        inputs = [np.concatenate(pair) for pair in zip(*found, strict=True)]
    return np.stack(inputs), backward_end


def hidden_by_loops(model: RecurrentModel, source: list[int], target: list[int]) -> np.ndarray:
    """(T, D) hidden states of a target given a source, from which words are predicted."""
    part = {name: p.detach().numpy() for name, p in model.named_parameters()}
    embedding = part.get("target_tokens.weight", part["source_tokens.weight"])
    annotations, backward_end = annotations_by_loops(model, source)
    state = np.tanh(part["first_state.weight"] @ backward_end + part["first_state.bias"])
    gates = [part[f"cell.{k}"] for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    hidden = []
    for token in target:
        x = embedding[token] * math.sqrt(model.config.d_model)
        contexts, _ = additive_by_loops(
            state[None, None],
            annotations[None],
            part["attention.state_proj.weight"].T,
            part["attention.source_proj.weight"].T,
            part["attention.source_proj.bias"],
            part["attention.score.weight"][0],
        )
        context = contexts[0, 0]
        state = gru_step(np.concatenate([x, context]), state, *gates)
        seen = np.concatenate([x, state, context])
        hidden.append(np.tanh(part["readout.weight"] @ seen + part["readout.bias"]))
    return np.stack(hidden)
