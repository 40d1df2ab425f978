"""What is known of a run, and what a finding says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    def steps(self) -> float:
        """Updates that were made, as the curves say."""
        return max((points[-1][0] for points in self.curves.values() if points), default=0)


Found = tuple[str, str, str] | None  # title, evidence, remedy
