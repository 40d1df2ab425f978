"""Ctrl-C and other signals: all processes stop together, after the state is saved."""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import torch.distributed as dist

from seq2seq.errors import UserError, command_line
from seq2seq.training.distributed import process_rank

# SIGHUP is sent when a terminal is closed; Windows has no such signal.
SIGNALS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
# Seconds after which a SIGINT counts as a second Ctrl-C: launchers forward the first one, too.
SECOND_CTRL_C_AFTER = 2.0


class Interrupted(UserError):
    """A signal stopped the run, after its state was saved."""

    def __init__(self, signal_number: int, step: int, run_dir: Path):
        self.exit_code = 128 + signal_number
        super().__init__(
            f"stopped by {signal.Signals(signal_number).name} after step {step}; everything is "
            f"saved. To continue: {command_line('train', f'resume={run_dir}')}"
        )


class Stopping(Exception):
    """The process was asked to stop, so that its validation ends early."""


@contextmanager
def ending_together() -> Iterator[None]:
    """Have the group of processes end at the exit of each process, if all of them come to an end.

    Threads of a group that is left to the interpreter can abort the process (signal 6). After a
    failure the group stays: others may still wait for this process, and the end of the group
    would wait for them.
    """
    try:
        yield
    except Interrupted:
        atexit.register(_end_group)
        raise
    atexit.register(_end_group)


def _end_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


class StopRequest:
    """Remembers whether this process was asked to stop.

    If one process stopped alone, the others would wait for it in their next exchange of gradients.
    So a process only remembers a signal. After each step the trainer asks all processes whether
    one of them got a signal.

    Attributes:
        signal: the number of the signal that this process got; 0 = none.
    """

    def __init__(self) -> None:
        self.signal, self._when = 0, 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals in the block, and restore the old handlers after it."""
        # Under nohup, SIGHUP stays ignored: the run outlives its terminal.
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
            if process_rank() == 0:  # no print(): the signal may have interrupted one
                with suppress(OSError):  # the terminal may be closed
                    os.write(2, b"\nstopping: the state is saved first\n")
        elif number == signal.SIGINT and time.monotonic() - self._when > SECOND_CTRL_C_AFTER:
            signal.signal(number, signal.default_int_handler)
            raise KeyboardInterrupt  # asked twice: stop at once, without saving

    def raise_if_stopping(self, *_: object) -> None:
        """Raise if the process was asked to stop; a long search calls this between its parts.

        Raises:
            Stopping: the process was asked to stop.
        """
        if self.signal:
            raise Stopping
