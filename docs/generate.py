"""Parts of the site that are made of the code: settings, help of commands, links to sources."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints
from unittest.mock import patch

import matplotlib.pyplot as plt
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx_gallery.scrapers import matplotlib_scraper

from seq2seq.cli.help import as_typed, preset_purpose
from seq2seq.cli.main import COMMANDS, module_of
from seq2seq.cli.names import presets_of, resources
from seq2seq.config import (
    ARCHITECTURES,
    AverageConfig,
    EvaluateConfig,
    ModelConfig,
    PrepareConfig,
    TrainConfig,
)
from seq2seq.config.checked import BOUNDS, groups_of

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = {
    "train": TrainConfig,
    "prepare": PrepareConfig,
    "evaluate": EvaluateConfig,
    "average": AverageConfig,
}
TYPES = {"bool": "true or false", "int": "whole number", "float": "number", "str": "text"}

# Packages whose modules are no API: commands and settings have pages of their own.
NO_API = ("cli", "config", "findings", "report", "serving", "trackers")


def complete_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Add what is made of the code; make links to texts outside docs/ links to files."""
    makers = {"reference/settings": settings, "reference/commands": commands}
    if name in makers:
        source[0] = "\n".join([source[0], *makers[name]()])
    folder = Path(app.env.doc2path(name)).parent

    def outside(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        return link[0] if path.is_relative_to(ROOT / "docs") else f"](path:{link[1]})"

    source[0] = re.sub(r"\]\(([^)#:\s]+\.md)(#[^)\s]*)?\)", outside, source[0])


# Settings


def settings() -> Iterator[str]:
    """Every setting of every command, as Markdown: groups first, then those of one command."""
    groups: dict[str, type[Any]] = {}
    for schema in SCHEMAS.values():
        groups |= {name: kind for name, kind in groups_of(schema).items() if name not in groups}
    presets = presets_of("train") | presets_of("prepare_data")
    for name, kind in groups.items():
        yield f"## {name}"
        if name in presets:
            yield f"Presets, `{name}=NAME`:\n"
            for one in presets[name]:
                file = resources() / "configs" / name / f"{one}.yaml"
                yield f"- `{one}`: {_escaped(preset_purpose(file))}"
            yield ""
        kinds = ARCHITECTURES if issubclass(kind, ModelConfig) else {name: kind}
        for title, one in kinds.items():
            if len(kinds) > 1:
                yield f"### {title}"
            yield _escaped(" ".join((one.__doc__ or "").split("\n\n")[0].split())) + "\n"
            yield from _table(one, f"{name}.")
    for command, schema in SCHEMAS.items():
        yield f"## {command} alone"
        yield from _table(schema, "", without=groups_of(schema))


def _table(kind: type[Any], prefix: str, without: Any = ()) -> Iterator[str]:
    shown = [one for one in fields(kind) if one.name not in without]
    if not shown:
        return
    hints = get_type_hints(kind)
    yield "| setting | default | meaning | values |\n| --- | --- | --- | --- |"
    for one in shown:
        default = one.default if one.default is not MISSING else one.default_factory()
        meaning = _escaped(_meaning(kind, one.name))
        values = _escaped(_values(one, hints[one.name]))
        yield f"| `{prefix}{one.name}` | `{as_typed(default)}` | {meaning} | {values} |"
    yield ""


def _meaning(kind: type[Any], name: str) -> str:
    """What a setting means; a class that only changes its default inherits the meaning."""
    owners = [vars(base).get("__dataclass_fields__", {}) for base in kind.__mro__]
    found = [own[name].metadata.get("meaning") for own in owners if name in own]
    return next(filter(None, found), "")


def _values(one: Field[Any], hint: Any) -> str:
    """The values that a setting takes: its choices, its bounds, or its type."""
    checks = one.metadata.get("checks")
    if checks is not None and checks.choices:
        return ", ".join(checks.choices)
    if checks is not None and checks.length:
        return "a length, such as 4000, 2epochs or 50Mtokens"
    name = getattr(hint, "__name__", "") if isinstance(hint, type) else str(hint)
    for python, word in TYPES.items():
        name = name.replace(python, word)
    bounds = [
        f"{bound.replace('_', ' ')} {getattr(checks, bound)}"
        for bound, *_ in BOUNDS
        if getattr(checks, bound, None) is not None
    ]
    return ", ".join([name.replace("None", "null").replace(" | ", " or "), *bounds])


def _escaped(text: str) -> str:
    """Text in a cell of a Markdown table."""
    return text.replace("|", r"\|").replace("<", r"\<").replace("*", r"\*").replace("_", r"\_")


# Commands


def commands() -> Iterator[str]:
    """What `--help` prints of each command, as Markdown."""
    for command, purpose in COMMANDS.items():
        page = io.StringIO()
        spec = find_spec(module_of(command))
        arguments = [str(spec.origin if spec else command), "--help"]
        with (
            patch.object(sys, "argv", arguments),
            patch.dict(os.environ, {"COLUMNS": "98"}),
            contextlib.redirect_stdout(page),
            contextlib.suppress(SystemExit),
        ):
            import_module(module_of(command)).main()
        title = f"## {command}\n\n{_escaped(purpose[0].upper() + purpose[1:])}."
        yield f"{title}\n\n```text\n{page.getvalue().rstrip()}\n```\n"


# Links


class SourceLinks(SphinxTransform):
    """A link of a page to a file of the package leads to the page that shows its source."""

    default_priority = 300

    def apply(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(addnodes.download_reference)):
            page = Path(self.env.doc2path(self.env.docname))
            path = (page.parent / node["reftarget"]).resolve()
            if not path.is_relative_to(ROOT / "seq2seq") or path.suffix != ".py":
                continue
            module = path.relative_to(ROOT).with_suffix("")
            if module.parts[1] in NO_API or module.stem == "__init__":
                continue
            uri = self.app.builder.get_relative_uri(
                self.env.docname, f"_modules/{module.as_posix()}"
            )
            link = nodes.reference("", "", *node.children, internal=True, refuri=uri)
            node.replace_self(link)


# Figures of the course


def figure_style(gallery_conf: dict[str, Any], name: str) -> None:
    """Each lesson starts with the same style."""
    plt.rcdefaults()
    plt.rcParams.update(
        {
            "savefig.bbox": "tight",
            "svg.fonttype": "none",
            "svg.hashsalt": "seq2seq",  # the same figure, the same file
            "font.size": 9,
        }
    )


def svg_figures(block: Any, names: Any, gallery_conf: Any, **kwargs: Any) -> str:
    """Figures that stay sharp at any size."""
    return matplotlib_scraper(block, names, gallery_conf, format="svg", **kwargs)
