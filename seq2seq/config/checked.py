"""What a setting is: a default, a meaning and the values that it may have, in one place.

    class OptimConfig(Checked, section="optim"):
        beta1: float = setting(0.9, "decay of AdamW's first moment", at_least=0, below=1)

Each class is a dataclass. Creating an object checks every value, then the class's own `rules`. One
`ConfigError` names all problems.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

from seq2seq.errors import ConfigError, nearest
from seq2seq.length import Length

Value = TypeVar("Value")
Settings = TypeVar("Settings", bound="Checked")

BOUNDS = (
    *(("at_least", operator.ge, "small"), ("above", operator.gt, "small")),
    *(("at_most", operator.le, "large"), ("below", operator.lt, "large")),
)
SHARE = {"at_least": 0, "below": 1}


@dataclass_transform()
class Checked:
    """Base class of settings. Each subclass is a dataclass whose objects refuse impossible values.

    Attributes:
        section: prefix of the names of its settings, such as `optim`.
    """

    section: ClassVar[str] = ""

    def __init_subclass__(cls, section: str | None = None) -> None:
        dataclass(cls)
        cls.section = cls.section if section is None else section

    def __post_init__(self) -> None:
        if problems := list(self.problems()):
            raise ConfigError(*problems)

    def problems(self) -> Iterator[str]:
        """Yield one sentence for each value and each combination that cannot work."""
        for one in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            if "checks" in one.metadata:
                yield from one.metadata["checks"].problems(self, one.name)
        yield from self.rules()

    def rules(self) -> Iterator[str]:
        """Yield one sentence for each combination of values that cannot work."""
        yield from ()

    def idle(self, given: Iterable[str]) -> Iterator[str]:
        """Yield one sentence for each given setting, as typed, that would do nothing."""
        yield from ()


@dataclass(frozen=True)
class Checks:
    """The values that a setting may have or, for a list or dict, that each item may have."""

    at_least: float | None = None  # a number with a lower bound must be finite
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()  # words; for a dict, its keys
    length: bool = False  # such as 4000 or 2epochs
    distinct: bool = False  # no item of the list may come twice
    # Another setting of the same class, without which this one does nothing: `hub`, which must not
    # be empty, or `schedule=cosine or wsd`, which must have one of these values.
    only_with: str = ""
    instead: str = ""  # another remedy for a number out of bounds; follows the bound in the message

    def problems(self, owner: Checked, key: str) -> Iterator[str]:
        """Yield the problems of one setting of `owner`; `key` is the name of its field."""
        section = f"{owner.section}." if owner.section else ""
        name, value = f"{section}{key}", getattr(owner, key)
        if isinstance(value, dict):
            words, items = list(value), [(f"{name}.{one}", item) for one, item in value.items()]
        else:
            words = value if isinstance(value, list) else [] if value is None else [value]
            items = [(name, item) for item in words]
        for word in words if self.choices else ():
            if word not in self.choices:
                yield f"{name}={word} is not known: {nearest(str(word), self.choices)}"
        default = getattr(type(owner), key, None)
        if self.length and value is None and default is not None:
            yield f"{name}=null is not a length: give one, such as {default}"
        for label, item in items:
            if why := self._unfit(item):
                yield f"{label}={item} {why}"
        if self.distinct and len(set(words)) < len(words):
            yield f"{name} names one of them twice: {', '.join(map(str, words))}"
        if self.only_with and value != getattr(type(owner), key):
            other, _, valid = self.only_with.partition("=")
            given = getattr(owner, other)
            if not given or (valid and given not in valid.split(" or ")):
                needed = f"{section}{self.only_with}"
                yield f"{name}={value} does nothing without {needed}: leave it out"

    def _unfit(self, value: Any) -> str | None:
        """Say what is wrong with a length or a number; None = nothing."""
        if self.length:
            try:
                Length.parse(value)
            except ValueError as error:
                return f"is not a length: {error}"
        for name, holds, size in BOUNDS:
            bound = getattr(self, name)
            if bound is not None and not holds(value, bound):  # `not` refuses NaN, too
                return f"is too {size}: it must be {name.replace('_', ' ')} {bound}{self.instead}"
        finite = self.at_least is not None or self.above is not None
        return "sets no limit: give a finite number" if finite and value == math.inf else None


def setting(default: Value, meaning: str, **checks: Any) -> Value:
    """Make a field of a settings class; `checks` are those of `Checks`.

    A setting whose default is None may be left out.
    """
    if default is None and ("at_least" in checks or "above" in checks):
        checks["instead"] = ", or null"
    how: dict[str, Any] = {"metadata": {"meaning": meaning, "checks": Checks(**checks)}}
    if isinstance(default, list | dict):
        how["default_factory"] = lambda: copy(default)
    else:
        how["default"] = default
    return field(**how)  # the dataclass makes it one


def group(kind: type[Value]) -> Value:
    """Make a field that holds a whole group of settings; its meaning is the docstring of `kind`."""
    return field(default_factory=kind)


def groups_of(schema: type[Any]) -> dict[str, type[Checked]]:
    """Return the groups of settings that a class has: the class of each group, by field name."""
    made: dict[str, Any] = {one.name: one.default_factory for one in fields(schema)}
    return {name: kind for name, kind in made.items()
            if isinstance(kind, type) and issubclass(kind, Checked)}  # fmt: skip


def unchecked(schema: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Make a settings object without checking its values; `problems` can then list all faults."""
    made = object.__new__(schema)
    vars(made).update(values)
    return made


def changes_of(schema: type[Settings]) -> type[Any]:
    """Make a class with the fields of `schema`, in which None means "not given"."""
    types = get_type_hints(schema)
    body: dict[str, Any] = {"__annotations__": {}}
    for one in fields(schema):  # type: ignore[arg-type]  # subclasses are dataclasses
        body[one.name] = field(default=None, metadata={"meaning": one.metadata["meaning"]})
        body["__annotations__"][one.name] = types[one.name] | None
    return type(f"{schema.__name__}Changes", (Checked,), body)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted names, such as `data.path`; an empty group is a value."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, Mapping) and value
        found |= flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return found


def steps_of(value: Any) -> int | None:
    """Return the steps of a length; None if its unit is another one, or `value` is no length."""
    try:
        found = Length.parse(value)
    except ValueError:
        return None
    return int(found.count) if found.unit == "steps" else None
