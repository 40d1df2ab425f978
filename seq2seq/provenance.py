"""The origin of a run: `<run>/origin.json`, and beside it the report of the run's data.

Each start of the run adds an entry: the first start, and each one that resumes the run.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seq2seq import __version__
from seq2seq.data.report import Report
from seq2seq.errors import RunError, command_line
from seq2seq.files import replace_text

NAME, DATA_REPORT = "origin.json", "data_report.json"
LIBRARIES = ("torch", "lightning-fabric", "tokenizers", "sacrebleu", "datasets", "numpy")
PACKAGE = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 10  # of a git command


@dataclass(frozen=True)
class LaunchRecord:
    """One start of a run.

    Attributes:
        time: local time, to the second.
        command: the command as typed, without the launcher of several processes. For a run of a
            sweep, it is a command that makes this run alone.
        revision: commit of the code, with `+` if the code differed from it; None outside of git.
        versions: versions of Python, of this project and of its libraries.
        device: device of the first process, with precision and attention kernels.
        processes: number of processes that trained together.
        folder: working directory, to which paths in the command are relative; empty in older
            records.
        data: fingerprint of the prepared data; None in older records.
    """

    time: str
    command: str
    revision: str | None
    versions: dict[str, str]
    device: str
    processes: int
    folder: str = ""
    data: str | None = None


@dataclass(frozen=True)
class Provenance:
    """The content of `origin.json`.

    Attributes:
        parameters: number of parameters of the model.
        data: fingerprint of the data of the last start; None in older records.
        starts: all starts, oldest first.
    """

    parameters: int
    data: str | None
    starts: list[LaunchRecord] = field(default_factory=list)

    @classmethod
    def read(cls, run_dir: Path) -> Provenance | None:
        """Read `origin.json` of a run; None if the run has none, since it is an older one.

        Raises:
            RunError: the file is damaged.
        """
        path = run_dir / NAME
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            parameters, starts = int(values["parameters"]), values["starts"]
            return cls(parameters, values["data"], [LaunchRecord(**start) for start in starts])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"cannot read {path} ({error!r}): restore it, or delete it to do without"
            ) from error

    def facts(self, attention: str) -> dict[str, Any]:
        """Return the facts of the last start that trackers show beside the settings."""
        start = asdict(self.starts[-1])
        shown = {name: start[name] for name in ("revision", "versions", "command", "device")}
        made = {"parameters": self.parameters, "data_fingerprint": self.data}
        return {**shown, "attention": attention, **made}


def note_start(
    run_dir: Path, parameters: int, device: str, processes: int, report: Report
) -> Provenance:
    """Add this start to `origin.json`, and write the report of its data."""
    start = LaunchRecord(
        time=datetime.now().isoformat(" ", "seconds"),
        command=command_line("train", *sys.argv[1:]),
        revision=code_revision(),
        versions={
            "python": platform.python_version(),
            "seq2seq": __version__,
            **{name: version(name) for name in LIBRARIES},
        },
        device=device,
        processes=processes,
        folder=str(Path.cwd()),
        data=report.fingerprint,
    )
    try:
        earlier = Provenance.read(run_dir)
    except RunError:
        earlier = None  # a damaged record is no reason not to train
    starts = [*(earlier.starts if earlier else ()), start]
    origin = Provenance(parameters, report.fingerprint, starts)
    for name, content in ((NAME, origin), (DATA_REPORT, report)):
        text = json.dumps(asdict(content), indent=1, ensure_ascii=True)
        replace_text(run_dir / name, f"{text}\n")
    return origin


def code_revision() -> str | None:
    """Return the commit of this code, with `+` if the code may differ; None outside of git."""
    # If this package is copied into another project's checkout, that commit says nothing of it.
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "-uno")  # None if git takes too long
    new = _git("ls-files", "--others", "--exclude-standard", "*.py")  # untracked, in the package
    return None if commit is None else commit + ("" if changed == new == "" else "+")


def _git(*arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(PACKAGE), *arguments],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
