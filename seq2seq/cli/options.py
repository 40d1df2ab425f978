"""Options of commands: each is a field of a settings class, which says its default and meaning.

    class SearchOptions(Checked):
        '''by default as the model was validated'''

        beam: int | None = option_of(DecodeConfig, "beam", "N")

A `Command` makes its help of them, reads a command line into them, and refuses what is wrong with
any of them in one message. Groups of options are fields that hold such classes (`group`), or others
of plain settings.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from seq2seq import __version__
from seq2seq.cli.exits import EXITS
from seq2seq.config.checked import Checked, Checks, groups_of, setting, unchecked
from seq2seq.errors import ConfigError, nearest

Settings = TypeVar("Settings", bound=Checked)


def option(
    default: Any,
    meaning: str,
    value: str = "",
    *,
    flag: str = "",
    positional: bool = False,
    **checks: Any,
) -> Any:
    """A field that is an option of a command.

    Args:
        default: its value when it is not given.
        meaning: as `--help` tells it.
        value: what stands for its value in the help, such as N; "N..." for one and more values,
            "A B" for two.
        flag: the option, if that is not the name of the field.
        positional: it is given without a name, as `value` is.
        checks: the values that it may have, as in `Checks`.
    """
    made: Any = setting(default, meaning)
    known = {"value": value, "flag": flag, "positional": positional, "checks": Checks(**checks)}
    made.metadata = {**made.metadata, **known}
    return made


def option_of(
    schema: type[Checked], name: str, value: str = "", more: str = "", off: Any = None, **how: Any
) -> Any:
    """A setting of `schema` as an option: its meaning, and `more` of it; its checks.

    It is None where it is not given; with the value `off` it counts as not given.
    """
    [found] = [one for one in fields(schema) if one.name == name]  # type: ignore[arg-type]
    made = option(None, found.metadata["meaning"] + more, value, **how)
    known = {"checks": found.metadata["checks"], "usual": found.default, "off": off}
    made.metadata = {**made.metadata, **known}
    return made


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        key: name of its field.
        flag: how it is given; of a positional one, what stands for it in the help.
        kind: type of its value, or of each of them.
        many: it may be given several times, or has several values.
        default: its value when it is not given.
        known: the metadata of its field.
    """

    key: str
    flag: str
    kind: type
    many: bool
    default: Any
    known: dict[str, Any]

    @property
    def choices(self) -> tuple[str, ...]:
        checks: Checks = self.known["checks"]
        return checks.choices

    def read(self, text: Any) -> Any:
        """Its value; raises ValueError with what it is not."""
        if self.kind not in (int, float):
            return self.kind(text)
        with suppress(ValueError):
            if (value := self.kind(text)) == value:  # NaN is no number
                return value
        raise ValueError("no whole number" if self.kind is int else "no number")

    def add_to(self, add: Callable[..., argparse.Action]) -> argparse.Action:
        """Add it to a parser, or a group of one, by its `add_argument`."""
        said = self.known["meaning"]
        if "usual" in self.known:
            said += f" (usually {self.known['usual']})"
        elif self.default not in (None, "", []) and self.kind is not bool:
            default = " ".join(self.default) if self.many else self.default
            said += f" (default: {default})"
        how: dict[str, Any] = {"help": said.replace("%", "%%"), "default": argparse.SUPPRESS}
        if self.known["positional"]:
            return add(self.key, nargs="*" if self.many else "?", metavar=self.flag, **how)
        how["dest"] = self.key
        if self.kind is bool:
            return add(self.flag, action="store_const", const=not self.default, **how)
        choices = "{" + ",".join(self.choices) + "}" if self.choices else "N"
        value = self.known["value"] or choices
        names = tuple(value.removesuffix("...").split())
        if value.endswith("..."):
            how["nargs"] = "+"
        elif len(names) > 1:
            how["nargs"] = len(names)
        elif self.many:  # the option several times
            how["action"] = "append"
        return add(self.flag, metavar=names if len(names) > 1 else names[0], **how)


def options_of(schema: type[Checked]) -> list[Option]:
    """The options that the fields of a class are, without those of its groups."""
    found, hints = [], get_type_hints(schema)
    for one in fields(schema):  # type: ignore[arg-type]  # subclasses are dataclasses
        if "meaning" not in one.metadata:
            continue
        kind, many = hints[one.name], False
        if get_origin(kind) is list:
            kind, many = get_args(kind)[0], True
        elif NoneType in get_args(kind):
            [kind] = set(get_args(kind)) - {NoneType}
        default = one.default if one.default_factory is MISSING else one.default_factory()
        name = ("no-" if default is True else "") + one.name.replace("_", "-")
        known = {"value": "", "flag": "", "positional": False, **one.metadata}
        flag = known["value"] if known["positional"] else known["flag"] or f"--{name}"
        found.append(Option(one.name, flag, kind, many, default, known))
    return found


def flat(options: Checked) -> dict[str, Any]:
    """The values of all options by the names of their fields, those of groups too."""
    found: dict[str, Any] = {}
    for name, value in vars(options).items():
        found |= flat(value) if isinstance(value, Checked) else {name: value}
    return found


def given(options: Checked) -> set[str]:
    """The flags of the options that were given, but for values that switch one off."""
    found = {
        one.flag
        for one in options_of(type(options))
        if getattr(options, one.key) not in (one.default, one.known.get("off"))
    }
    return found.union(*(given(getattr(options, name)) for name in groups_of(type(options))))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ConfigError([message.removeprefix("argument ")])


@dataclass(frozen=True)
class Command(Generic[Settings]):
    """A command whose options are fields of settings.

    Attributes:
        name: as one types it.
        schema: its options; the docstring is what it does.
        examples: three and more command lines.
        docs: page to read on.
        notes: what else is worth knowing.
        flags: options that stand for settings of other names, for messages.
        gone: options that were removed, and what to do instead.
    """

    name: str
    schema: type[Settings]
    examples: str
    docs: str
    notes: str = ""
    flags: tuple[tuple[str, str], ...] = ()
    gone: Mapping[str, str] = field(default_factory=dict)

    def fill(self, parser: argparse.ArgumentParser) -> list[tuple[Option, argparse.Action]]:
        """Add all options to a parser; returns which became what."""
        parser.add_argument("--version", action="version", version=f"seq2seq {__version__}")
        made = [(one, one.add_to(parser.add_argument)) for one in options_of(self.schema)]
        for title, schema in groups_of(self.schema).items():
            add = parser.add_argument_group(title, schema.__doc__).add_argument
            made += [(one, one.add_to(add)) for one in options_of(schema)]
        return made

    def read(self) -> Settings:
        """The options that `sys.argv` gives.

        Raises:
            ConfigError: what is wrong with them, all of it in one message.
        """
        parser = self._parser()
        options = {action.dest: one for one, action in self.fill(parser)}
        flags = {name: one.flag for name, one in options.items()} | dict(self.flags)
        switches = {one.flag for one in options.values() if one.kind is bool}
        arguments, texts = sys.argv[1:], list[str]()
        if "--" in arguments:  # what follows is no option, which argparse gets wrong
            place = arguments.index("--")
            arguments, texts = arguments[:place], arguments[place + 1 :]
        valued = [text for text in arguments if "=" in text and text.partition("=")[0] in switches]
        given, rest = parser.parse_known_intermixed_args(
            [text for text in arguments if text not in valued]
        )
        several = [name for name, one in options.items() if one.known["positional"] and one.many]
        for name in several if texts else ():
            vars(given)[name] = [*vars(given).get(name, []), *texts]
        values, problems = {}, [*self._unknown([*valued, *rest], {*flags.values()}, switches)]
        for name, text in vars(given).items():
            one = options[name]
            try:
                values[name] = [one.read(each) for each in text] if one.many else one.read(text)
            except ValueError as error:
                problems.append(f"{one.flag} {text or repr(text)} is {error}")
        found = _built(self.schema, values)
        problems += [_in_flags(problem, flags) for problem in _problems(found)]
        if problems:
            raise ConfigError(problems)
        return found

    def _parser(self) -> argparse.ArgumentParser:
        given = [o for o in options_of(self.schema) if o.known["positional"]]
        usage = " ".join(f"[{one.flag}{' ...' * one.many}]" for one in given)
        return _Parser(
            prog=self.name,
            usage=f"{self.name} [options] {usage}".strip(),
            description=f"{inspect.getdoc(self.schema)}\n\nexamples:\n{self.examples}",
            epilog="\n\n".join(filter(None, [self.notes, EXITS, f"read on: {self.docs}"])),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def _unknown(self, rest: list[str], flags: set[str], switches: set[str]) -> Iterator[str]:
        """What is wrong with arguments that no option takes."""
        for text in rest:
            name = text.partition("=")[0]
            if name in self.gone:
                yield f"{name} is gone: {self.gone[name]}"
            elif name in switches:
                yield f"{text}: {name} takes no value"
            elif text.startswith("-") and text != "-":
                yield f"the option {name} is not known: {nearest(name, flags)}"
            else:
                yield f"{text} is one argument too many: leave it out, or quote a text with spaces"


def _built(schema: type[Settings], values: dict[str, Any]) -> Settings:
    """Settings with some values given, and others as by default; nothing is checked."""
    own = {one.key: values.get(one.key, one.default) for one in options_of(schema)}
    groups = {name: _built(kind, values) for name, kind in groups_of(schema).items()}
    return unchecked(schema, own | groups)


def _problems(made: Checked) -> Iterator[str]:
    for name in groups_of(type(made)):
        yield from _problems(getattr(made, name))
    yield from made.problems()


def _in_flags(problem: str, flags: dict[str, str]) -> str:
    """A problem of settings in the words of the command line."""

    def flag(found: re.Match[str]) -> str:
        return flags.get(found[1], found[1]) + " " * bool(found[2])

    return re.sub(r"\b(?:option|decode)\.(\w+)(=?)", flag, problem)
