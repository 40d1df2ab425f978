"""Ctrl-C and other signals: remembered until the state is saved, then obeyed by all together."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from seq2seq.errors import UserError
from seq2seq.training.processes import Processes

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 2.0  # seconds after which a second Ctrl-C is one: launchers pass the first on, too
WORD = "seq2seq/stop"


class Interrupted(UserError):
    """The run was stopped by a signal, after its state was saved."""

    def __init__(self, signal_number: int, step: int, run_dir: Path):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"stopped by {signal.Signals(signal_number).name} after step {step}; everything is "
            f"saved. To go on: python scripts/train.py resume={run_dir}"
        )


class StopRequest:
    """Whether the run was asked to stop.

    A process that stopped alone would leave the others waiting for it in their next exchange of
    gradients. So a signal is only remembered; `agreed` lets all know at the same place whether
    one of them got it.
    """

    def __init__(self) -> None:
        self.processes = Processes()
        self._signal, self._when = 0, 0.0
        self._old_handlers: dict[int, Any] = {}

    def listen(self, got: int = 0) -> None:
        """From now on, take the signals; `got` is one that came before, or 0."""
        self._signal = self._signal or got
        for number in SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # by nohup: the run outlives its terminal
            self._old_handlers[number] = signal.signal(number, self._remember)

    def leave(self) -> None:
        """Give the signals back."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._signal == 0:
            self._signal, self._when = number, time.monotonic()
            if self.processes.rank == 0:  # print() might have been interrupted itself
                with suppress(OSError):  # the terminal is closed
                    os.write(2, b"\nstopping: the state is saved first\n")
        elif number == signal.SIGINT and time.monotonic() - self._when > AGAIN:
            signal.signal(number, signal.default_int_handler)
            raise KeyboardInterrupt  # asked twice: at once, without saving

    def asked(self) -> bool:
        """Whether this process, or another one during its validation, was; does not wait."""
        if self._signal:
            self.processes.tell(WORD)
            return True
        return self.processes.told(WORD)

    def leave_if_asked(self, *_: object) -> None:
        """Break off a loop over batches, as an iterator that has ended does."""
        if self.asked():
            raise StopIteration

    def agreed(self, *numbers: int) -> list[int]:
        """The number of the signal or 0, then the largest of each other number; together."""
        return self.processes.largest(self._signal, *numbers)
