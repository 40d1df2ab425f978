"""Constructed English lines that hold what a translation must keep, with French references."""

from __future__ import annotations

import random
from dataclasses import dataclass

PEOPLE = [
    ("A man", "Un homme"), ("Two women", "Deux femmes"), ("A little girl", "Une petite fille"),
    ("The boys", "Les garçons"), ("A young woman", "Une jeune femme"),
]  # fmt: skip
VERBS = [("is sitting", "est assis"), ("are playing", "jouent"), ("is standing", "se tient")]
PLACES = [
    ("in the street", "dans la rue"), ("on the beach", "sur la plage"),
    ("near a dog", "près d'un chien"), ("in front of a house", "devant une maison"),
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        kind: of what it holds.
        items: what must stand in the translation, in French form, each as often as here.
    """

    kind: str
    source: str
    reference: str
    items: list[str]


def kept_lines(count: int, seed: int = 0) -> list[Line]:
    """So many lines, their kinds in turns."""
    rng = random.Random(seed)
    makers = [_tags, _placeholders, _urls, _mails, _numbers, _layout, _mixed]
    return [makers[i % len(makers)](rng) for i in range(count)]


def _clause(rng: random.Random) -> tuple[tuple[str, str], tuple[str, str], tuple[str, str]]:
    return rng.choice(PEOPLE), rng.choice(VERBS), rng.choice(PLACES)


def _line(kind: str, rng: random.Random, form: str, items: list[str], french: list[str]) -> Line:
    """`form` has {p} {v} {w} for who, verb and where, and @0 @1 ... for items."""
    who, verb, where = _clause(rng)
    texts = []
    for side, own in ((0, items), (1, french)):
        text = form.replace("{p}", who[side]).replace("{v}", verb[side])
        text = text.replace("{w}", where[side])
        for number, item in enumerate(own):
            text = text.replace(f"@{number}", item)
        texts.append(text)
    return Line(kind, *texts, french)


def _tags(rng: random.Random) -> Line:
    name = rng.choice(["b", "i", "em", "strong", "span", "u"])
    opening = rng.choice([f"<{name}>", f'<{name} class="x y">', f'<{name} id="n{rng.random()}">'])
    link = f'<a href="https://example.org/{rng.randint(1, 99)}?a=b">'
    form = rng.choice(
        ["@0{p}@1 {v} {w}.", "{p} @0{v}@1 {w}.", "@2{p} {v}@3 @0{w}@1.", "{p} {v} @2@0{w}@1@3.",
         "@4 {p} {v} @0{w}@1."]
    )  # fmt: skip
    tags = [opening, f"</{name}>", link, "</a>", '<img src="a.png"/>']
    used = [tag for number, tag in enumerate(tags) if f"@{number}" in form]
    who = _line("tags", rng, form, tags, tags)
    return Line("tags", who.source, who.reference, used)


def _placeholders(rng: random.Random) -> Line:
    item = rng.choice(
        ["{name}", "{{user}}", "%s", "%(count)d", "$HOME", "${HOME}", "{0}", "%1$s", "{x.y}", "%d"]
    )
    form = rng.choice(["{p} {v} {w} with @0.", "@0 {v} {w}.", "{p} {v} {w}: @0", "@0: {p} {v}."])
    return _line("placeholders", rng, form, [item], [item])


def _urls(rng: random.Random) -> Line:
    item = rng.choice(
        ["https://example.org/a/b?c=d&e=f", "http://www.example.com", "www.example.net/x_(y)",
         f"https://ex.org/{rng.randint(1, 10**6)}.html", "ftp://files.example.org/a.zip"]
    )  # fmt: skip
    form = rng.choice(["{p} {v} {w}: @0", "{p} {v} {w} (@0).", "@0 {p} {v}.", "{p} {v} on @0 {w}."])
    return _line("urls", rng, form, [item], [item])


def _mails(rng: random.Random) -> Line:
    name, host = rng.choice(["jo", "a.b", "x_y"]), rng.choice(["ex.org", "a-b.co.uk"])
    item = f"{name}@{host}"
    form = rng.choice(["{p} {v} {w}, @0.", "@0 {v} {w}.", "{p} {v} {w} with @0 and a dog."])
    return _line("mails", rng, form, [item], [item])


def _numbers(rng: random.Random) -> Line:
    big = rng.randint(21, 10**6)
    item, french = rng.choice(
        [(str(big), str(big)), (f"{big + 1000:,}", f"{big + 1000:,}".replace(",", "\u202f")),
         (f"{big / 10:.1f}", f"{big / 10:.1f}".replace(".", ",")), ("10:30", "10:30"),
         (f"{rng.randint(1, 28)}/{rng.randint(1, 12)}/2024",) * 2]
    )  # fmt: skip
    form = rng.choice(["{p} {v} {w} with @0 cats.", "{p} {v} {w} at @0.", "{p} {v} @0 {w}."])
    return _line("numbers", rng, form, [item], [french])


def _layout(rng: random.Random) -> Line:
    marker = rng.choice(["- ", "1. ", "• ", "a) ", "  * ", "\t", "> ", "12) ", "   "])
    after = rng.choice(["", "  ", "\n", " \n\n"])
    return _line("layout", rng, f"@0{{p}} {{v}} {{w}}.{after}", [marker], [marker])


def _mixed(rng: random.Random) -> Line:
    items = ["<b>", "</b>", "{name}", str(rng.randint(30, 999)), "https://example.org/x"]
    form = "@0{p}@1 {v} {w} with @2 and @3 dogs: @4"
    return _line("mixed", rng, form, items, items)
