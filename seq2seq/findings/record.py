"""The parts of every check: the record of a run, a finding, and the decorator `check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from seq2seq.data.report import Report

Points = Sequence[tuple[float, float]]  # (updates made, value), in the order of updates


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong; `kind` is the name of the check that found it."""

    kind: str
    title: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.title}: {self.evidence}. {self.remedy}"


@dataclass(frozen=True)
class Record:
    """What a run has recorded so far; all but the settings may be missing."""

    settings: Mapping[str, Any]  # content of `config.yaml`
    curves: Mapping[str, Points] = field(default_factory=dict)
    samples: Sequence[Mapping[str, Any]] = ()  # entries of `samples.jsonl`
    data: Report | None = None
    device: str = ""  # device and precision of the training, as in `origin.json`

    def values(self, name: str, late: bool = False) -> list[float]:
        """Return the values of a curve; if `late`, only those of the second half of its steps."""
        points = self.curves.get(name, ())
        middle = points[-1][0] / 2 if late and points else -1
        return [value for step, value in points if step > middle]

    def setting(self, name: str) -> Any:
        """Return a setting such as `optim.lr` or `seed`; None if the run has no such setting."""
        group, _, key = name.partition(".")
        found = self.settings.get(group)
        return (found or {}).get(key) if key else found

    @property
    def warmup(self) -> int:
        """The steps of the warm-up; 0 if there is none, or it is not given in steps."""
        steps = self.setting("optim.warmup_steps")
        return steps if isinstance(steps, int) else 0

    @property
    def steps(self) -> float:
        """The number of updates so far, according to the curves."""
        return max((points[-1][0] for points in self.curves.values() if points), default=0)


Found = str | tuple[str, str] | None  # evidence; evidence and remedy; None = nothing is wrong
Check = Callable[[Record], Finding | None]


def check(title: str, remedy: str = "") -> Callable[[Callable[[Record], Found]], Check]:
    """Turn a function that looks for evidence, and may say a remedy itself, into a check."""

    def made(find: Callable[[Record], Found]) -> Check:
        @wraps(find)
        def checked(run: Record) -> Finding | None:
            found = find(run)
            if found is None:
                return None
            evidence, own_remedy = (found, remedy) if isinstance(found, str) else found
            return Finding(find.__name__, title, evidence, own_remedy)

        return checked

    return made
