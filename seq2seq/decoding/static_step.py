"""A transformer's step at fixed shapes, which a GPU replays as a CUDA graph.

A step is some 150 kernels. While batches are small, launching them one by one from Python takes
longer than they run; a graph of them is launched at once. It reads and writes the same places of
memory each time, and its shapes are fixed. So sentences, source positions and target positions are
rounded up, to few sizes, and what a search remembers lies in a slot: the tensors of one such shape
and the graph recorded over them. Masks hide what is rounded up, and the numbers stay the same.

Shapes as in `transformer_step.py`; they are those of the slot, rounded up, unless said otherwise.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.data.tokenizer import PAD
from seq2seq.decoding.transformer_step import Past, TransformerState, TransformerStep, step_model
from seq2seq.errors import UserError
from seq2seq.model.cache import KeysValues
from seq2seq.model.transformer import Transformer
from seq2seq.model.translation_model import TranslationModel

SOURCE_BLOCK, TARGET_BLOCK = 16, 32
# What is kept for searches to come: the memory of slots, and their number, since each graph has
# memory of its own, too.
IDLE_BYTES, IDLE_SLOTS = 2 * 2**30, 64
RECORDING = threading.Lock()  # CUDA records one graph at a time in a process


def graph_step(model: TranslationModel) -> StaticStep:
    """The step model of a translation model whose steps are CUDA graphs.

    Raises:
        UserError: the model is not on a GPU, or is no transformer with the fused kernel.
    """
    if (device := next(model.parameters()).device).type != "cuda":
        raise UserError(f"CUDA graphs need a GPU, and the model is on {device}: leave them out")
    if not isinstance(step_model(model), TransformerStep):
        raise UserError("CUDA graphs are for transformers with model.kernel=sdpa: leave them out")
    assert isinstance(model, Transformer)
    return StaticStep(model)


class Shape(NamedTuple):
    """What makes two slots differ."""

    sentences: int
    beams: int
    source: int
    target: int


class Slot:
    """The tensors of one shape, and the step over them.

    Args:
        step: the decoder.
        shape: of the slot.
        like: a state whose tensors have the heads, widths and numbers of this slot.
    """

    def __init__(self, step: TransformerStep, shape: Shape, like: Slot | TransformerState):
        self.shape = shape
        self.past: Tensor
        self.cross: list[KeysValues]
        rows = shape.sentences * shape.beams
        new = like.past.new_zeros
        _, parts, heads, _, width = like.past.shape
        self.past = new(rows, parts, heads, shape.target, width)
        over_source = (shape.sentences, heads, shape.source, width)
        self.cross = [KeysValues(new(over_source), new(over_source)) for _ in like.cross]
        self.padding_B11S = new(shape.sentences, 1, 1, shape.source)
        self.tokens_R = new(rows, dtype=torch.long)
        self.place = new(1, dtype=torch.long)
        self.hidden_RD = new(rows, step.model.config.d_model)
        tensors = [self.past, *(part for of_layer in self.cross for part in of_layer)]
        self.bytes = sum(tensor.nbytes for tensor in tensors)
        self.replay = recorded(lambda: self._run(step), self.past.device)

    def clear(self) -> None:
        """Forget: what is not a number would stay so, even where a mask hides it."""
        for tensor in (self.past, *(part for of_layer in self.cross for part in of_layer)):
            tensor.zero_()

    def _run(self, step: TransformerStep) -> None:
        places_T = torch.arange(self.shape.target, device=self.place.device)
        allowed_1T = (places_T <= self.place)[None]
        parts = self.past.unbind(1)
        pasts = [
            Past(k, v, self.place, allowed_1T) for k, v in zip(parts[::2], parts[1::2], strict=True)
        ]
        self.hidden_RD.copy_(step.run(self.tokens_R, pasts, self.cross, self.padding_B11S))

    def fill(
        self, other: Slot | TransformerState, sentences: Tensor, rows: Tensor, length: int
    ) -> None:
        """Copy so many positions of these sentences and hypotheses, from any state or itself."""
        self.fill_past(other, rows, length)
        count = len(sentences)
        for new, old in zip(self.cross, other.cross, strict=True):
            new.k[:count], new.v[:count] = (part.index_select(0, sentences) for part in old)
        if other.padding_B11S is None:
            self.padding_B11S.zero_()
        else:
            self.padding_B11S[:count] = other.padding_B11S.index_select(0, sentences)

    def fill_past(self, other: Slot | TransformerState, rows: Tensor, length: int) -> None:
        """The same of the hypotheses alone."""
        used = other.past[..., :length, :]
        self.past[: len(rows), ..., :length, :] = used.index_select(0, rows)


class StaticState:
    """What a search remembers: first as ever, from its second token on in a slot."""

    def __init__(self, start: TransformerState, step: StaticStep):
        self.held: Slot | TransformerState = start
        self.length, self.sentences, self.beams = 0, start.past.size(0), 1
        self._step, self._taken = step, list[Slot]()
        weakref.finalize(self, _give_back, self._taken, step.returned)

    def reorder(self, rows: Tensor) -> None:
        beams = len(rows) // self.sentences
        if isinstance(self.held, Slot) and beams == self.beams:
            self.held.fill_past(self.held, rows, self.length)
        else:
            self.keep(torch.arange(self.sentences, device=rows.device), rows)

    def keep(self, sentences: Tensor, rows: Tensor) -> None:
        self.sentences, self.beams = len(sentences), len(rows) // len(sentences)
        shape = self._step.shape(self)
        held = self.held
        if not isinstance(held, Slot) or held.shape != shape:
            self.held = self._step.take(shape, held)
            self._taken.append(self.held)
        assert isinstance(self.held, Slot)
        self.held.fill(held, sentences, rows, self.length)
        if isinstance(held, Slot) and held is not self.held:
            self._taken.remove(held)
            self._step.returned.append(held)

    def slot_with_room(self) -> Slot:
        """The slot, with room for one more position."""
        if not isinstance(self.held, Slot) or self.length == self.held.shape.target:
            device = self.held.past.device
            sentences = torch.arange(self.sentences, device=device)
            self.keep(sentences, torch.arange(self.sentences * self.beams, device=device))
        assert isinstance(self.held, Slot)
        return self.held


class StaticStep:
    """A transformer as a step model whose steps are replayed.

    Args:
        model: in evaluation mode, with the fused kernel; its weights are shared, and must stay
            where they are.
    """

    def __init__(self, model: Transformer):
        self._plain = TransformerStep(model)
        self._limit = model.config.max_length
        self._idle: list[Slot] = []  # the last used one last
        self._lock = threading.Lock()
        # States end whenever Python collects them, even under the lock, so they ask for none.
        self.returned: deque[Slot] = deque()

    def start(self, source_BS: Tensor) -> StaticState:
        given = source_BS.size(1)
        length = max(given, min(_multiple(given, SOURCE_BLOCK), self._limit))
        padded_BS = F.pad(source_BS, (0, length - given), value=PAD)
        return StaticState(self._plain.start(padded_BS), self)

    def step(self, tokens_R: Tensor, state: StaticState) -> Tensor:
        return self.log_probs(self.hidden(tokens_R, state))

    def hidden(self, tokens_R: Tensor, state: StaticState) -> Tensor:
        """Append a token to each hypothesis; what the decoder makes of it (R, D), until the next.

        The first is the plain step's: one hypothesis for each sentence, which is never so again.
        """
        if isinstance(state.held, TransformerState) and not state.length:
            hidden_RD = self._plain.hidden(tokens_R, state.held)
        else:
            slot = state.slot_with_room()
            slot.tokens_R[: len(tokens_R)] = tokens_R
            slot.place.fill_(state.length)
            slot.replay()
            hidden_RD = slot.hidden_RD[: len(tokens_R)]
        state.length += 1
        return hidden_RD

    def log_probs(self, hidden_RD: Tensor) -> Tensor:
        """Log probabilities (R, V) of the next token."""
        return self._plain.log_probs(hidden_RD)

    def shape(self, state: StaticState) -> Shape:
        """The shape that a state needs for its next position."""
        source, target = state.held.cross[0].k.size(2), _multiple(state.length + 1, TARGET_BLOCK)
        return Shape(_size(state.sentences), state.beams, source, min(target, self._limit))

    def take(self, shape: Shape, like: Slot | TransformerState) -> Slot:
        """An idle slot of this shape, or a new one."""
        with self._lock:
            while self.returned:
                self._idle.append(self.returned.popleft())
            found = next((slot for slot in reversed(self._idle) if slot.shape == shape), None)
            if found is not None:
                self._idle.remove(found)
            while len(self._idle) > IDLE_SLOTS or sum(s.bytes for s in self._idle) > IDLE_BYTES:
                self._idle.pop(0)  # the oldest
        if found is not None:
            found.clear()
            return found
        try:
            return Slot(self._plain, shape, like)
        except torch.OutOfMemoryError:
            with self._lock:
                self._idle.clear()
            return Slot(self._plain, shape, like)


def _give_back(slots: list[Slot], returned: deque[Slot]) -> None:
    returned.extend(slots)


def recorded(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """What does the same as `run` whenever it is called: on a GPU a graph, elsewhere itself."""
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
    replay: Callable[[], None] = graph.replay
    return replay


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The one that graphs are recorded on: libraries have a workspace for each."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _size(sentences: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: seldom much too large, and few."""
    power = 1 << (sentences - 1).bit_length()  # the next power of two
    return 3 * power // 4 if sentences <= 3 * power // 4 else power


def _multiple(number: int, block: int) -> int:
    """The next multiple of a block."""
    return -(-number // block) * block
