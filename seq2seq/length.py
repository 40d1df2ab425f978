"""Lengths of training: steps, epochs or target tokens; and a rule that keeps shapes few."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

UNITS = {"steps": 1.0, "epochs": 1.0, "tokens": 1.0, "ktokens": 1e3, "mtokens": 1e6, "btokens": 1e9}


@dataclass(frozen=True)
class Length:
    """A length in one of three units.

    Attributes:
        count: number of units.
        unit: `steps` (updates of the weights), `epochs`, or `tokens` (real target tokens).
    """

    count: float
    unit: str

    @classmethod
    def parse(cls, value: Any) -> Length:
        """Read `4000`, `2epochs` or `50Mtokens`.

        Raises:
            ValueError: the value has another form, or is not positive.
        """
        found = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([a-z]*)\s*", str(value).lower())
        unit = (found.group(2) or "steps") if found else ""
        unit = unit if unit.endswith("s") else f"{unit}s"
        try:
            count = float(found.group(1)) * UNITS[unit] if found else 0.0
        except (ValueError, KeyError):
            count = 0.0
        unit = "tokens" if unit.endswith("tokens") else unit
        if isinstance(value, bool) or not 0 < count < math.inf or (unit == "steps" and count % 1):
            raise ValueError("give a number of steps, such as 4000, or 2epochs, or 50Mtokens")
        return cls(count, unit)

    def in_steps(self, steps_per_epoch: float, tokens_per_step: float) -> int:
        """Convert the length to whole steps: the nearest number, at least one."""
        per_unit = {"steps": 1.0, "epochs": steps_per_epoch, "tokens": 1 / tokens_per_step}
        return max(1, round(self.count * per_unit[self.unit]))


def rounding_step(number: int) -> int:
    """Return the step to whose multiples a number is rounded up, so that there are few shapes.

    There are 8 steps between powers of two, so larger numbers get coarser: 1 to 16 stay as they
    are; then come 18, 20 ... 32, 36, 40 ... 64, 72, 80 ... 128 and so on.
    """
    power: int = 1 << max(0, (number - 1).bit_length() - 4)
    return power
