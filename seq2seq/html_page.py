"""What the pages of the project have in common: one file, nothing fetched, light and dark."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # kinds of characters that show nothing
LONGEST = 240  # characters of a text that are shown

# The colours are those of Okabe and Ito, which the colour-blind can tell apart; where one is too
# pale to be read on the background, darker or lighter.
STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1d2329; --dim: #5b6570; --line: #dde1e6;
  --panel: #f5f7f9; --accent: #00785a; --source: #0072b2; --target: #c65600; }
@media (prefers-color-scheme: dark) { :root { --back: #14181c; --ink: #e4e8ec; --dim: #9aa5b1;
  --line: #333b44; --panel: #1c2228; --accent: #2fbf95; --source: #56b4e9; --target: #f0a030; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; }
p, figcaption { margin: .4rem 0 .8rem; color: var(--dim); font-size: .9rem; max-width: 44rem; }
.grid { display: grid; gap: 0 2.5rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(25rem, 100%), 1fr)); }
.grid > * { min-width: 0; }
.grid h2 { margin-bottom: .25rem; }
.tiles { display: grid; gap: .75rem; margin: 1.5rem 0 0;
  grid-template-columns: repeat(auto-fit, minmax(min(9.5rem, 46%), 1fr)); }
.tiles div { background: var(--panel); border-radius: .5rem; padding: .7rem .9rem; }
.tiles dt, .tiles small { color: var(--dim); font-size: .82rem; }
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600; line-height: 1.3; }
.tiles small { display: block; font-weight: 400; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; font-weight: 400; overflow-wrap: anywhere; }
thead th { color: var(--dim); font-size: .82rem; }
th:first-child, td:first-child { padding-left: 0; }
.numbers :is(th, td):not(:first-child) { text-align: right; overflow-wrap: normal;
  font-variant-numeric: tabular-nums; }
.texts { table-layout: fixed; font-size: .88rem; }
.texts td { white-space: pre-wrap; }
.texts i { color: var(--dim); }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit !important; }
pre { background: var(--panel); border-radius: .5rem; padding: .8rem 1rem; overflow-x: auto;
  font: .82rem/1.45 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
"""


def html_page(title: str, body: Iterable[str], style: str = "", script: str = "") -> str:
    """The whole page.

    Args:
        title: of the window, as text.
        body: HTML.
        style, script: of this page alone, beside `STYLE`.
    """
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(visible(title))}</title>\n<style>{STYLE}{style}</style>\n</head>",
            "<body>\n<main>",
            *body,
            "</main>",
            *([f"<script>\n{script}</script>"] if script else []),
            "</body>\n</html>\n",
        ]
    )


def visible(text: str) -> str:
    """Control characters, line ends and the like by their code, since they could hide text."""
    return "".join(f"‹U+{ord(c):04X}›" if unicodedata.category(c) in HIDDEN else c for c in text)


def shown(text: str) -> str:
    """A text as HTML: what cannot be seen is named, and the end of a long one left out."""
    if not text.strip():
        return f"<i>({'only spaces' if text else 'empty'})</i>"
    start = escape(visible(text[:LONGEST])[:LONGEST])
    return start if len(text) <= LONGEST else f"{start}… <i>({len(text):,} characters)</i>"


def tiles(items: Iterable[tuple[str, str, str]]) -> str:
    """Numbers in a row: name, number, and what else there is to say of it."""
    cells = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(number)} <small>{escape(more)}</small></dd></div>"
        for name, number, more in items
    )
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def grid(*parts: str) -> str:
    """Parts side by side, where there is room."""
    return f'<div class="grid">{"".join(parts)}</div>'


def plain_table(rows: Sequence[Sequence[str]], kind: str = "numbers") -> str:
    """A table: the head first, names to the left; of `numbers` the rest to the right."""
    head = "".join(f'<th scope="col">{escape(visible(name))}</th>' for name in rows[0])
    lines = [
        f'<th scope="row">{escape(visible(row[0]))}</th>'
        + "".join(f"<td>{escape(visible(cell))}</td>" for cell in row[1:])
        for row in rows[1:]
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def number_table(title: str, rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A section with a table of numbers."""
    return (
        f"<section><h2>{escape(title)}</h2><p>{escape(note)}</p>{plain_table(rows)}</section>\n"
    )


def data_block(value: Any) -> str:
    """Data for a script: JSON in an element that no text can break out of."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c").replace("&", "\\u0026")
    return f'<script type="application/json">{text}</script>'
