"""HTML pages from the templates in `report/templates`: each is one file and fetches nothing.

All that a template prints is escaped, and invisible characters are shown as their code points.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

TEMPLATES = Path(__file__).with_name("report") / "templates"
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode categories of invisible characters
LONGEST = 240  # characters of a text that are shown


def render(template: str, **values: Any) -> str:
    """Fill a template with these values, and return the page."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_printed,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "lines": lines}
    environment.globals["inline"] = _inline
    return environment


def _printed(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _inline(name: str) -> Markup:
    """Return the style sheet or the script of the pages, without escapes."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def visible(text: str) -> str:
    """Replace control characters, line ends and the like by their code: they could hide text."""
    return "".join(f"‹U+{ord(c):04X}›" if unicodedata.category(c) in HIDDEN else c for c in text)


def shown(text: str) -> Markup:
    """Show the first LONGEST characters of a text, and its invisible characters by their code."""
    if not text.strip():
        return Markup("<i>({})</i>").format("only spaces" if text else "empty")
    start = escape(visible(text[:LONGEST])[:LONGEST])
    if len(text) <= LONGEST:
        return start
    return Markup("{}… <i>({:,} characters)</i>").format(start, len(text))


def lines(text: str) -> Markup:
    """Escape a text, and keep its line breaks."""
    return escape("\n".join(map(visible, text.splitlines())))
