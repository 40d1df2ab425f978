"""Commands in processes that are forked from one that has imported torch: seconds less for each.

Each command gets a process of its own; the server has imported modules and done nothing, so a kill
leaves of the command what a kill leaves of any other process.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest import mock

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["seq2seq.cli.train", "seq2seq.training.train", "seq2seq.report.page", "pandas",
     "seq2seq.data.report", "seq2seq.data.pipeline", "seq2seq.cli.translate",
     "seq2seq.inference.translator", "seq2seq.evaluation.evaluate", "seq2seq.evaluation.compare"]
)  # fmt: skip


def _be(
    program: str, arguments: Sequence[str], cwd: str, streams: Sequence[str], env: dict[str, str]
) -> None:
    """Become a command: its streams, folder, environment and arguments."""
    for number, path in enumerate(streams):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(path, flags), number)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115  # as long as the process lives
    os.setsid()  # signals to its group reach its own children and no other command
    # Shells start what runs in the background with Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    multiprocessing.set_start_method(None, force=True)  # its own children are not of this server
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).parent))
    code: object = 0
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    # Only now does no frame hold a loader any more, whose processes would be waited for.
    atexit._run_exitfuncs()
    sys.exit(code)


def begin(
    program: Path,
    *arguments: object,
    cwd: Path,
    env: Mapping[str, str],
    streams: Sequence[Path],
) -> BaseProcess:
    """Start a Python program; `streams` are the files of its input, output and error output."""
    with mock.patch.dict(os.environ, env):  # the server begins with the first command
        forkserver.ensure_running()
    process = SERVER.Process(
        target=_be,
        args=(str(program), [*map(str, arguments)], str(cwd), [*map(str, streams)], dict(env)),
    )
    process.start()
    return process


def run(
    program: Path, *arguments: object, cwd: Path, env: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end, its standard input a pipe."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        os.mkfifo(streams[0])
        process = begin(program, *arguments, cwd=cwd, env=env, streams=streams)
        threading.Thread(target=_feed, args=(streams[0], stdin), daemon=True).start()
        process.join(600)
        assert process.exitcode is not None, f"{program} {arguments} has not ended in ten minutes"
        out, err = (path.read_text(encoding="utf-8") for path in streams[1:])
    return subprocess.CompletedProcess([program, *arguments], process.exitcode, out, err)


class Command:
    """A Python program that was started, with what tests need of `subprocess.Popen`."""

    def __init__(self, program: Path, *arguments: object, cwd: Path, env: Mapping[str, str]):
        self._folder = tempfile.TemporaryDirectory()
        self._out, self._err = (Path(self._folder.name, name) for name in ("out", "err"))
        streams = [Path(os.devnull), self._out, self._err]
        self._process = begin(program, *arguments, cwd=cwd, env=env, streams=streams)
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = 600) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, "it has not ended in time"
        return self.returncode

    def communicate(self, timeout: float = 600) -> tuple[str, str]:
        """Wait until it ends; return its output and its error output."""
        self.wait(timeout)
        return self._out.read_text(encoding="utf-8"), self._err.read_text(encoding="utf-8")


def _feed(pipe: Path, data: bytes) -> None:
    try:
        pipe.write_bytes(data)
    except BrokenPipeError:  # the program did not want it
        return
