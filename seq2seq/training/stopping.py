"""Ctrl-C and other signals: remembered until the state is saved, then obeyed by all together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from seq2seq.errors import UserError, command_line
from seq2seq.training.distributed import process_rank

# Windows has no SIGHUP, which comes when a terminal is closed.
SIGNALS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
# Seconds after which a second Ctrl-C counts as one: launchers pass the first on, too.
SECOND_CTRL_C_AFTER = 2.0


class Interrupted(UserError):
    """The run was stopped by a signal, after its state was saved."""

    def __init__(self, signal_number: int, step: int, run_dir: Path):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"stopped by {signal.Signals(signal_number).name} after step {step}; everything is "
            f"saved. To go on: {command_line('train', f'resume={run_dir}')}"
        )


class Stopping(Exception):
    """Breaks off a validation: the process was asked to stop."""


class StopRequest:
    """Whether this process was asked to stop.

    A process that stopped alone would leave the others waiting for it in their next exchange of
    gradients. So a signal is only remembered; the trainer asks all processes after each step
    whether one of them got it.

    Attributes:
        signal: the number of the signal that this process got; 0 = none.
    """

    def __init__(self) -> None:
        self.signal, self._when = 0, 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals, and give them back at the end."""
        # By nohup SIGHUP is ignored: the run outlives its terminal.
        numbers = [
            number
            for number in SIGNALS
            if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN
        ]
        old_handlers = {number: signal.signal(number, self._remember) for number in numbers}
        try:
            yield
        finally:
            for number, handler in old_handlers.items():
                signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.signal == 0:
            self.signal, self._when = number, time.monotonic()
            if process_rank() == 0:  # print() might have been interrupted itself
                with suppress(OSError):  # the terminal is closed
                    os.write(2, b"\nstopping: the state is saved first\n")
        elif number == signal.SIGINT and time.monotonic() - self._when > SECOND_CTRL_C_AFTER:
            signal.signal(number, signal.default_int_handler)
            raise KeyboardInterrupt  # asked twice: at once, without saving

    def raise_if_stopping(self, *_: object) -> None:
        """Break off a long search; a function to be called between its parts.

        Raises:
            Stopping: the process was asked to stop.
        """
        if self.signal:
            raise Stopping
