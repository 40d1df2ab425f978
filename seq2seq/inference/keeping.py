"""Translations that hold what their sources hold: numbers, links, placeholders (`items.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from seq2seq.inference.items import Item, find_items, lost
from seq2seq.inference.layout import Layout
from seq2seq.inference.source import Candidates, Search, Source
from seq2seq.inference.translation import Translation, joined

# What joins a part of a sentence to an item stays there: a space, a bracket, a comma.
_JOINTS = re.compile(r"(?s)(?P<before>[\W_]*)(?P<core>.*?)(?P<after>[\s(\[{\"'«:=-]*)")
Find = Callable[[str], list[Item]]  # the items of a source


def keep_items(
    sources: Sequence[Source],
    found: Sequence[Candidates],
    search: Search,
    find: Find = find_items,
) -> list[Candidates]:
    """Replace translations that lost an item by others that hold it.

    Another hypothesis of the same search if one holds them; else the sentence is translated around
    the items: what stands between them, part by part. A search that is made to write them does
    worse, since a model that does not know where to put a link, loses the words around it: chrF
    of 500 constructed lines is 66 and 52 with placeholders and mixed items, and 80 and 72 around
    them (`tests/reference/kept_lines.py`, the tiny model of Multi30k). Where that would be longer
    than `Source.most`, or what is lost may stand behind it, the translation stays as it is.

    Args:
        sources: as they were searched for.
        found: for each its translations, best first.
        search: finds those of parts.
        find: the items that are to be kept.
    """
    items = [find(source.text) for source in sources]
    results = [
        sorted(each, key=lambda one: len(lost(of, one.text))) if of else list(each)
        for of, each in zip(items, found, strict=True)
    ]
    missing = {i: lost(of, results[i][0].text) for i, of in enumerate(items) if of}
    rows = [i for i, gone in missing.items() if gone and not sources[i].cut(results[i][0])]
    others = _around([sources[i] for i in rows], [missing[i] for i in rows], search, find)
    around = dict(zip(rows, others, strict=True))
    for i, gone in missing.items():
        if not gone:
            continue
        best, *_ = results[i]
        note = f"lost: {_listed(gone)}"
        if i in around and sources[i].has_room_for(around[i]):
            best = around[i]
            note = f"translated around {_listed(gone)}"
            if still := lost(items[i], best.text):
                note += f"; lost: {_listed(still)}"
        results[i] = [best.noted(note), *(one for one in results[i] if one.text != best.text)]
    return results


def _listed(items: Sequence[Item]) -> str:
    return ", ".join(dict.fromkeys(item.text for item in items))


def _around(
    sources: Sequence[Source], missing: Sequence[Sequence[Item]], search: Search, find: Find
) -> list[Translation]:
    """Translations of what stands between the missing items, with the items in their places."""
    layouts = [_between(one.text, gone) for one, gone in zip(sources, missing, strict=True)]
    parts = [
        Source(piece, source.prefix if i == 0 else "", source.most)
        for source, layout in zip(sources, layouts, strict=True)
        for i, piece in enumerate(layout.pieces)
    ]
    # A part may lose another item; each time there are fewer of them.
    translated = iter(keep_items(parts, search(parts), search, find) if parts else [])
    results = []
    for layout in layouts:
        best = [next(translated)[0] for _ in layout.pieces]
        texts = [_as_part(piece, one.text) for piece, one in zip(layout.pieces, best, strict=True)]
        text = layout.fill(texts)
        results.append(joined(best, text) if best else Translation(text, None))
    return results


def _between(text: str, items: Sequence[Item]) -> Layout:
    """The parts of a sentence between items, which stand in the gaps."""
    pieces: list[str] = []
    gaps = [""]
    starts = [0, *(item.end for item in items)]
    ends = [*(item.start for item in items), len(text)]
    for start, end, item in zip(starts, ends, [*items, None], strict=True):
        joints = _JOINTS.fullmatch(text, start, end)
        assert joints is not None  # the pattern takes anything
        if any(map(str.isalpha, joints["core"])):
            pieces.append(joints["core"])
            gaps[-1] += joints["before"]
            gaps.append(joints["after"])
        else:
            gaps[-1] += text[start:end]
        if item is not None:
            gaps[-1] += item.french
    return Layout(pieces, gaps)


def _as_part(source: str, target: str) -> str:
    """The translation of a part, without the full stop that models put at the end."""
    ends = source.rstrip().endswith((".", "…"))
    return target if ends else target.rstrip().removesuffix(".").rstrip()
