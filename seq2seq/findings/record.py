"""What is known of a run, what a finding says, and how a check is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from seq2seq.data.report import Report

Points = Sequence[tuple[float, float]]  # (updates made, value), by rising updates


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong.

    Attributes:
        kind: a key, the name of its check.
        title: what it is.
        evidence: the numbers that say so.
        remedy: what to do.
    """

    kind: str
    title: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.title}: {self.evidence}. {self.remedy}"


@dataclass(frozen=True)
class Record:
    """What is known of a run, as far as it is.

    Attributes:
        settings: as in `config.yaml`.
        curves: by name.
        samples: lines of `samples.jsonl`.
        data: the report of the prepared data.
        device: what it trains on, and in which precision, as `origin.json` has it.
    """

    settings: Mapping[str, Any]
    curves: Mapping[str, Points] = field(default_factory=dict)
    samples: Sequence[Mapping[str, Any]] = ()
    data: Report | None = None
    device: str = ""

    def values(self, name: str, late: bool = False) -> list[float]:
        """The values of a curve, or those of the second half of its steps."""
        points = self.curves.get(name, ())
        middle = points[-1][0] / 2 if late and points else -1
        return [value for step, value in points if step > middle]

    def setting(self, name: str) -> Any:
        """A setting such as `optim.lr`; None if it is not there."""
        section, _, key = name.partition(".")
        return (self.settings.get(section) or {}).get(key)

    @property
    def warmup(self) -> int:
        """Steps of the warm-up; 0 if they are none, or not given as steps."""
        steps = self.setting("optim.warmup_steps")
        return steps if isinstance(steps, int) else 0

    @property
    def steps(self) -> float:
        """Updates that were made, as the curves say."""
        return max((points[-1][0] for points in self.curves.values() if points), default=0)


Found = str | tuple[str, str] | None  # the evidence; the evidence and a remedy; nothing is wrong
Check = Callable[[Record], Finding | None]


def check(title: str, remedy: str = "") -> Callable[[Callable[[Record], Found]], Check]:
    """Make a check of a function that looks for evidence; its name is the kind of the finding."""

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
