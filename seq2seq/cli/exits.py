"""How a command ends: mistakes of the user become one plain message and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from seq2seq.cores import set_up_libraries
from seq2seq.errors import RunError, UserError

if TYPE_CHECKING:
    from tqdm import tqdm

Result = TypeVar("Result")

EXITS = """\
exit codes: 0 done; 1 an input, file or model cannot be used; 2 an option or a setting is wrong;
128 + n stopped by signal n (130 = Ctrl-C, 141 = the reader of the output closed it)"""

# What a user can mend of files and disks.
DISK = ("ENOSPC", "EROFS", "ENAMETOOLONG", "EACCES", "EDQUOT", "EISDIR", "ENOTDIR", "EIO")


def run_command(main: Callable[[], Result]) -> Result:
    """Run a command; report errors that the user can mend, without traceback, and exit by `EXITS`.

    So a traceback always means a bug of this program.
    """
    set_up_libraries()
    try:
        return main()
    except UserError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        fail("interrupted", 130)
    except BrokenPipeError:
        # Nobody reads our output any longer: print nothing more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) not in DISK:
            raise
        place = f" ({error.filename})" if error.filename else ""
        fail(f"{error.strerror}{place}: make room or choose another place", 1)


def prepare_streams() -> None:
    """Make sure that answers can be written, whatever the locale says.

    Raises:
        RunError: standard output is closed.
    """
    if sys.stderr is None:  # closed; a message to it would go to standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise RunError("standard output is closed, so answers have nowhere to go")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # French needs it


def fail(message: str, code: int) -> NoReturn:
    """Print an error message and exit with code."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def progress_bar(shown: bool, total: int | None = None, done: int = 0) -> tqdm[NoReturn]:
    """Make a progress bar on standard error: lines, speed, and time left if `total` is known."""
    from tqdm import tqdm  # slow to load: --help and error messages should not wait for it

    return tqdm(total=total, initial=done, unit=" lines", disable=not shown, dynamic_ncols=True)
