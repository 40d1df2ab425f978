"""Errors that a user can cause and fix: a message says what happened, why, and what to do.

Commands print these errors as one plain message and exit with `exit_code`. Any other exception is
a bug of this project, and keeps its traceback.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"  # exists only in a clone


class UserError(Exception):
    """An input of the user cannot be used; the message says what, why and what to do."""

    exit_code = 1


class ConfigError(UserError):
    """One or more settings are impossible; all of them are reported together."""

    exit_code = 2

    def __init__(self, *problems: str):
        self.problems = problems
        if len(problems) == 1:
            super().__init__(problems[0])
        else:
            lines = "".join(f"\n  - {problem}" for problem in problems)
            super().__init__(f"{len(problems)} settings cannot work:{lines}")


class DataError(UserError):
    """A corpus file is missing, unreadable or not what the settings say it is."""


class BundleError(UserError):
    """A model folder is missing, damaged or made by something else."""


class RequestError(UserError):
    """The options of a translation contradict each other, or do not fit the model or the text."""


class RunError(UserError):
    """A run folder cannot be used as asked (taken, unfinished, unwritable)."""


def nearest(word: str, valid: Iterable[str]) -> str:
    """Write a hint that names the valid words close to `word`, or all if none is close."""
    options = sorted(valid)
    close = difflib.get_close_matches(word, options, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(repr(c) for c in close)}?"
    return f"choose one of: {', '.join(options)}"


def install(extra: str) -> str:
    """Return the command that installs a group of optional packages of `pyproject.toml`."""
    return f"pip install -e '.[{extra}]'" if SCRIPTS.is_dir() else f"pip install 'seq2seq[{extra}]'"


def command_line(command: str, *arguments: object) -> str:
    """Quote a command for pasting into a shell, such as `seq2seq train resume=runs/demo`."""
    return shlex.join(["seq2seq", command, *map(str, arguments)])
