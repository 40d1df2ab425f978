"""Commands in processes that are forked from one that has imported torch: seconds less for each.

Each command gets a process of its own; the server has imported modules and done nothing, so a kill
leaves of the command what a kill leaves of any other process.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import threading
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
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).parent))
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        atexit._run_exitfuncs()


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


def _feed(pipe: Path, data: bytes) -> None:
    try:
        pipe.write_bytes(data)
    except BrokenPipeError:  # the program did not want it
        return
