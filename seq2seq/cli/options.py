"""Options of commands: each is a field of a settings class, which has its default and meaning.

    class SearchOptions(Checked):
        '''Options that are not given have the values of the model's validation.'''

        beam: int | None = option_of(DecodeConfig, "beam", "N")

A `Command` makes its help from the fields, reads a command line into them, and reports all mistakes
in one message. A group of options is a field that holds such a class, or a class of plain settings
(`group`).
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType
from typing import Any, Generic, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from seq2seq import __version__
from seq2seq.cli.exits import EXITS, run_command
from seq2seq.config.checked import Checked, Checks, groups_of, setting, unchecked
from seq2seq.errors import ConfigError, nearest

Settings = TypeVar("Settings", bound=Checked)


def option(
    default: Any, meaning: str, value: str = "", *, positional: bool = False, **checks: Any
) -> Any:
    """Make a field that is an option of a command.

    Args:
        default: its value if it is not given.
        meaning: its text in `--help`.
        value: placeholder of its value in the help, such as N; "N..." for one or more values,
            "A B" for two.
        positional: whether it is given without a flag; the help then shows `value`.
        checks: the values that it may have, as in `Checks`.
    """
    made: Any = setting(default, meaning)
    known = {"value": value, "positional": positional, "checks": Checks(**checks)}
    made.metadata = made.metadata | known
    return made


def option_of(
    schema: type[Checked], name: str, value: str = "", more: str = "", off: Any = None
) -> Any:
    """Make a setting of `schema` an option, with its checks, and its meaning followed by `more`.

    The option is None if it is not given. With the value `off`, it counts as not given.
    """
    [found] = [one for one in fields(schema) if one.name == name]  # type: ignore[arg-type]
    made = option(None, found.metadata["meaning"] + more, value)
    known = {"checks": found.metadata["checks"], "usual": found.default, "off": off}
    made.metadata = made.metadata | known
    return made


def options_of(schema: type[Checked]) -> list[Field[Any]]:
    """Return the fields of a class that are options, without those of its groups."""
    return [one for one in fields(schema) if "meaning" in one.metadata]  # type: ignore[arg-type]


def default_of(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def flag_of(one: Field[Any]) -> str:
    """Return the name of an option on the command line; of a positional one, its placeholder."""
    if one.metadata.get("positional"):
        return str(one.metadata["value"])
    return f"--{'no-' * (one.default is True)}{one.name.replace('_', '-')}"


def add_option(one: Field[Any], hint: Any, add: Callable[..., argparse.Action]) -> argparse.Action:
    """Add an option to a parser, or to a group of one; `add` is its `add_argument`."""
    many = get_origin(hint) is list  # several values
    [kind] = {*get_args(hint)} - {NoneType} or {hint}
    default, value = default_of(one), one.metadata.get("value", "")
    said = one.metadata["meaning"]
    if "usual" in one.metadata:
        said += f" (usually {one.metadata['usual']})"
    elif default not in (None, "", []) and kind is not bool:
        said += f" (default: {' '.join(default) if many else default})"
    how: dict[str, Any] = {"help": said.replace("%", "%%"), "default": default}
    if kind is bool:
        action = "store_false" if default else "store_true"
        return add(flag_of(one), dest=one.name, action=action, **how)
    how["type"] = kind
    if one.metadata.get("positional"):
        return add(one.name, metavar=value, nargs="*" if many else "?", **how)
    choices = one.metadata["checks"].choices
    value = value or ("{" + ",".join(choices) + "}" if choices else "N")
    names = tuple(value.removesuffix("...").split())
    if value.endswith("..."):
        how["nargs"] = "+"
    elif len(names) > 1:
        how["nargs"] = len(names)
    elif many:  # the option is repeated
        how["action"] = "append"
    return add(flag_of(one), dest=one.name, metavar=names if names[1:] else names[0], **how)


def values_of(options: Checked) -> Iterator[tuple[Field[Any], Any]]:
    """Yield the field and the value of each option, including those of groups."""
    for part in (options, *(getattr(options, name) for name in groups_of(type(options)))):
        for one in options_of(type(part)):
            yield one, getattr(part, one.name)


def flat(options: Checked) -> dict[str, Any]:
    """Return the values of all options, including those of groups, by the names of the fields."""
    return {one.name: value for one, value in values_of(options)}


def given(options: Checked) -> set[str]:
    """Return the flags of the given options, without those whose value switches the option off."""
    return {
        flag_of(one)
        for one, value in values_of(options)
        if value not in (default_of(one), one.metadata.get("off"))
    }


class Parser(argparse.ArgumentParser):
    """A parser that raises ConfigError for mistakes."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message.removeprefix("argument "))


@dataclass(frozen=True)
class Command(Generic[Settings]):
    """A command whose options are fields of settings; their docstring says what it does."""

    name: str
    schema: type[Settings]
    examples: str
    docs: str  # the page of the documentation to read on
    notes: str = ""

    def fill(self, parser: argparse.ArgumentParser) -> list[tuple[Field[Any], argparse.Action]]:
        """Add all options to a parser; return the field of each with the parser's action."""
        parser.add_argument("--version", action="version", version=f"seq2seq {__version__}")
        made = []
        groups: dict[str, type[Checked]] = {"": self.schema, **groups_of(self.schema)}
        for title, schema in groups.items():
            part = parser.add_argument_group(title, inspect.getdoc(schema)) if title else parser
            hints = get_type_hints(schema)
            for one in options_of(schema):
                made.append((one, add_option(one, hints[one.name], part.add_argument)))
        return made

    def read(self) -> Settings:
        """Read the options from `sys.argv`.

        Raises:
            ConfigError: options have mistakes; the message has all of them.
        """
        parser = self._parser()
        options = [one for one, _ in self.fill(parser)]
        flags = {one.name: flag_of(one) for one in options}
        arguments, texts = sys.argv[1:], list[str]()
        if "--" in arguments:  # only texts follow, which argparse gets wrong
            place = arguments.index("--")
            arguments, texts = arguments[:place], arguments[place + 1 :]
        parsed, rest = parser.parse_known_intermixed_args(arguments)
        several = [one.name for one in self._positional() if isinstance(default_of(one), list)]
        if several:
            [kind] = get_args(get_type_hints(self.schema)[several[0]])
            vars(parsed)[several[0]].extend(map(kind, texts))
        else:
            rest.extend(texts)
        groups = {name: _built(one, vars(parsed)) for name, one in groups_of(self.schema).items()}
        found = _built(self.schema, vars(parsed) | groups)
        parts: list[Checked] = [*groups.values(), found]
        wrong = [problem for part in parts for problem in part.problems()]
        problems = [*_unknown(rest, flags.values()), *(_in_flags(one, flags) for one in wrong)]
        if problems:
            raise ConfigError(*problems)
        return found

    def main(self, run: Callable[[Settings], object]) -> Callable[[], None]:
        """Make the function of a command out of one that takes its options."""

        def command() -> None:
            run_command(lambda: run(self.read()))

        return command

    def _positional(self) -> list[Field[Any]]:
        return [one for one in options_of(self.schema) if one.metadata.get("positional")]

    def _parser(self) -> Parser:
        usage = " ".join(
            f"[{flag_of(one)}{' ...' * isinstance(default_of(one), list)}]"
            for one in self._positional()
        )
        return Parser(
            prog=self.name,
            usage=f"{self.name} [options] {usage}".strip(),
            description=f"{inspect.getdoc(self.schema)}\n\nexamples:\n{self.examples}",
            epilog="\n\n".join(filter(None, [self.notes, EXITS, f"read on: {self.docs}"])),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )


def _unknown(rest: list[str], flags: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with arguments that no option takes."""
    for text in rest:
        name = text.partition("=")[0]
        if text.startswith("-") and text != "-":
            yield f"the option {name} is not known: {nearest(name, flags)}"
        else:
            yield f"{text} is one argument too many: leave it out, or quote a text with spaces"


def _built(schema: type[Settings], values: dict[str, Any]) -> Settings:
    """Make settings, without checks, from those values that belong to their fields."""
    names = [one.name for one in fields(schema)]  # type: ignore[arg-type]
    return unchecked(schema, {name: values[name] for name in names})


def _in_flags(problem: str, flags: dict[str, str]) -> str:
    """Rewrite a problem of settings with the flags of the command line."""

    def flag(found: re.Match[str]) -> str:
        return flags.get(found[1], found[1]) + " " * bool(found[2])

    return re.sub(r"\b(?:option|decode)\.(\w+)(=?)", flag, problem)
