"""The decoder's layers for one token as a CUDA graph, which a GPU replays from the second step on.

The layers are some 150 kernels. For small batches, launching the kernels one by one from Python
takes longer than running them; a graph launches all of them at once. A graph reads and writes the
same memory each time, and its shapes are fixed. So the numbers of sentences, source positions and
target positions are rounded up to a few sizes, and the state of a search is kept in a slot: the
tensors of one such shape, and the graph recorded over them. Masks hide the places that rounding
adds, so results stay the same up to rounding. One search at a time uses the slots; other searches
that run at the same time step without graphs. The state of a search moves on::

    ordinary state    encodes the source, and decodes the first token without a graph
    slot              from the second token on: the state is copied in, then the graph replayed
    larger slot       as soon as the target fills its slot, and so on

Shapes: B sentences, R hypotheses, S source length, K, E as in `kv_cache.py`, D model width. B and R
of a slot's tensors are rounded up, those of arguments and results are not.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import UserError
from seq2seq.model.kv_cache import FixedKVCache, KeysValues, TransformerState
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel

SOURCE_BLOCK, TARGET_BLOCK = 16, 32  # lengths are rounded up to multiples of these
MAX_SLOTS, MAX_BYTES = 64, 2 * 2**30  # slots kept for later searches when one is added
RECORDING = threading.Lock()  # CUDA records one graph at a time in a process


def graph_step(model: TranslationModel) -> GraphStep:
    """Wrap a translation model for a search, with a decoder that is replayed as CUDA graphs.

    Raises:
        UserError: the model is not on a GPU, or is no transformer with the fused kernel.
    """
    if (device := next(model.parameters()).device).type != "cuda":
        raise UserError(f"CUDA graphs need a GPU, and the model is on {device}: leave them out")
    if not isinstance(model, Transformer) or model.config.kernel != "sdpa":
        raise UserError("CUDA graphs are for transformers with model.kernel=sdpa: leave them out")
    return GraphStep(model)


class Shape(NamedTuple):
    """The sizes of a slot: sentences (rounded up), beams of each, positions of both sides."""

    sentences: int
    beams: int
    source: int
    target: int


class Slot(TransformerState):
    """A state whose tensors never move in memory, and the model's recorded step over them.

    Args:
        model: the model that steps.
        shape: sizes of the tensors.
        like: a state with the same heads, widths and dtype.
    """

    cache: FixedKVCache
    source_allowed: Tensor

    def __init__(self, model: Transformer, shape: Shape, like: TransformerState):
        k_BKSE = like.source[0].k
        _, heads, _, width = k_BKSE.shape
        rows, layers = shape.sentences * shape.beams, len(like.source)
        of_source = (shape.sentences, heads, shape.source, width)
        super().__init__(
            [KeysValues(*k_BKSE.new_zeros(2, *of_source)) for _ in range(layers)],
            k_BKSE.new_ones(shape.sentences, 1, 1, shape.source, dtype=torch.bool),
            FixedKVCache(k_BKSE.new_zeros(rows, 2 * layers, heads, shape.target, width)),
        )
        self.shape = shape
        self.tokens_R = k_BKSE.new_zeros(rows, dtype=torch.long)
        self.hidden_RD = k_BKSE.new_zeros(rows, model.config.d_model)
        self._replay = recorded(lambda: self._step(model), k_BKSE.device)

    def _step(self, model: Transformer) -> None:
        self.hidden_RD.copy_(model.decode_step(self.tokens_R[:, None], self)[:, 0])

    def run(self, tokens_R: Tensor) -> Tensor:
        """Append a token to each hypothesis; return hidden states (R, D).

        The next call overwrites them.
        """
        self.tokens_R[: len(tokens_R)] = tokens_R
        self._replay()
        self.cache.go_to(self.length + 1)
        return self.hidden_RD[: len(tokens_R)]

    def fill(self, other: TransformerState, sentences: Tensor, rows: Tensor) -> None:
        """Copy these sentences and hypotheses from another state, or from this slot itself."""
        assert other.cache.storage is not None
        self.cache.copy_rows(other.cache.storage, rows, other.length)
        self.cache.go_to(other.length)
        count = len(sentences)
        for new, old in zip(self.source, other.source, strict=True):
            new.k[:count], new.v[:count] = (part.index_select(0, sentences) for part in old)
        if other.source_allowed is None:
            self.source_allowed.fill_(True)
        else:
            self.source_allowed[:count] = other.source_allowed.index_select(0, sentences)

    def clear(self) -> None:
        """Set keys and values to zero: a NaN would spread even from a place that a mask hides."""
        for tensor in (self.cache.storage, *(part for layer in self.source for part in layer)):
            tensor.zero_()


class GraphState:
    """The state of a search: an ordinary state first, and a slot from the second token on."""

    def __init__(self, start: TransformerState, step: GraphStep):
        self.held, self._step = start, step
        self.sentences, self.beams = start.source[0].k.size(0), 1

    def reorder(self, rows: Tensor) -> None:
        if isinstance(self.held, Slot) and len(rows) == self.sentences * self.beams:
            self.held.reorder(rows)
        else:
            self.keep(torch.arange(self.sentences, device=rows.device), rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        self.sentences, self.beams = len(sentences), len(rows) // len(sentences)
        slot = self._step.slot(self)
        slot.fill(self.held, sentences, rows)
        self.held = slot

    def slot_with_room(self) -> Slot:
        """Return a slot with room for one more position; move to another slot if necessary."""
        if not isinstance(self.held, Slot) or self.held.length == self.held.shape.target:
            device = self.held.source[0].k.device
            rows = torch.arange(self.sentences * self.beams, device=device)
            self.keep(rows[: self.sentences], rows)
        assert isinstance(self.held, Slot)
        return self.held


class GraphStep(ModelStep):
    """A transformer with the interface of a search, whose decoder is replayed as CUDA graphs.

    Args:
        model: in evaluation mode, with the fused kernel; its weights must not move in memory.
    """

    model: Transformer

    def __init__(self, model: Transformer):
        super().__init__(model)
        self._limit = model.config.max_length
        self._slots: dict[Shape, Slot] = {}  # the most recently used last
        self._taken = threading.Lock()  # until the search that uses the slots deletes its state

    def start(self, source_BS: Tensor) -> GraphState | TransformerState:
        given = source_BS.size(1)
        length = max(given, min(_multiple(given, SOURCE_BLOCK), self._limit))
        padded_BS = F.pad(source_BS, (0, length - given), value=PAD)
        start = self.model.start(padded_BS, padded_BS != PAD)
        if not self._taken.acquire(blocking=False):
            return start
        state = GraphState(start, self)
        weakref.finalize(state, self._taken.release)
        return state

    def hidden(self, tokens_R: Tensor, state: GraphState | TransformerState) -> Tensor:
        """Return hidden states as `ModelStep` does; the next call overwrites them.

        The first step uses no graph: with beams, its shape occurs only once, and `model.zero_start`
        asks for the position as a plain number.
        """
        if isinstance(state, TransformerState):
            return super().hidden(tokens_R, state)
        if state.held.length == 0:
            return super().hidden(tokens_R, state.held)
        return state.slot_with_room().run(tokens_R)

    def slot(self, state: GraphState) -> Slot:
        """Return a slot of the shape that a state needs next: its present slot, or an empty one."""
        source = state.held.source[0].k.size(2)
        target = min(_multiple(state.held.length + 1, TARGET_BLOCK), self._limit)
        shape = Shape(_rounded(state.sentences), state.beams, source, target)
        slot = self._slots.pop(shape, None)
        if slot is None:
            while self._slots and (
                len(self._slots) >= MAX_SLOTS
                or sum(slot.bytes for slot in self._slots.values()) > MAX_BYTES
            ):
                del self._slots[next(iter(self._slots))]
            try:
                slot = Slot(self.model, shape, state.held)
            except torch.OutOfMemoryError:
                self._slots.clear()
                slot = Slot(self.model, shape, state.held)
        elif slot is not state.held:
            slot.clear()
        self._slots[shape] = slot
        return slot


def recorded(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record `run` as a CUDA graph and return its replay; without a GPU, return `run` itself."""
    if device.type != "cuda":
        return run
    graph = torch.cuda.CUDAGraph()
    with RECORDING:
        own = _stream(device)
        own.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(own):  # libraries set themselves up in the first runs
            run()
            run()
        torch.cuda.current_stream(device).wait_stream(own)
        with torch.cuda.graph(graph, stream=own, capture_error_mode="thread_local"):
            run()
    return graph.replay


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream that records graphs: libraries have a workspace for each stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _rounded(sentences: int) -> int:
    """Round up to one of 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: few sizes, seldom much too large."""
    power = 1 << (sentences - 1).bit_length()  # the next power of two
    return 3 * power // 4 if sentences <= 3 * power // 4 else power


def _multiple(number: int, block: int) -> int:
    """Round up to a multiple of a block."""
    return -(-number // block) * block
