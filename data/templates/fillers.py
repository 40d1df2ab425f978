"""Fillers for the slots of frames: one function per kind draws a text in English and French.

French writes numbers with a comma and spaces (1 234,56), currency signs and units after the number
and a space (30 £, 20 %, 5 °C), times with an h (15 h 30), and the first of a month as 1er.
Names, addresses, codes, versions and dates in figures stay as they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

Filler = tuple[str, str]
LISTS = Path(__file__).parent / "lists"
MONTHS = [
    ("January", "janvier"), ("February", "février"), ("March", "mars"), ("April", "avril"),
    ("May", "mai"), ("June", "juin"), ("July", "juillet"), ("August", "août"),
    ("September", "septembre"), ("October", "octobre"), ("November", "novembre"),
    ("December", "décembre"),
]  # fmt: skip
CURRENCIES = (("£", "£"), ("$", "$"), ("€", "€"), ("¥", "¥"))
UNITS = {
    "length": "km m cm mm miles feet|pieds inches|pouces metres|mètres kilometres|kilomètres",
    "weight": "kg g lb pounds|livres tonnes kilos grams|grammes",
    "storage": "GB|Go MB|Mo TB|To kB|ko",
    "speed": "km/h mph m/s km/h",
    "volume": "ml L litres cl gallons pints|pintes",
    "power": "W kW V kWh MHz Hz mAh",
    "area": "m² km² hectares cm² acres ha",
}
_DOMAINS = "example.com example.org example.net mail.example.com shop.example.com test.org"
_EXTENSIONS = "pdf docx xlsx png jpg txt zip csv html py mp3 mp4 json yaml md"
_STEMS = "report invoice photo notes budget IMG_ draft data config main letter cv slides backup"
_EMOJI = """
    😀 😂 😊 😍 😘 😉 😎 😢 😭 😅 🙂 🙈 🥰 🤔 🤣 ❤️ 💕 💪 👍 👏 🙏 👋 🎉 🎂
    🎁 ✨ 🔥 ☀️ 🌧️ ❄️ 🌸 ⭐ ✅ ⚠️ 🚀
"""
DOMAINS, EXTENSIONS, STEMS, EMOJI = (
    words.split() for words in (_DOMAINS, _EXTENSIONS, _STEMS, _EMOJI)
)


def number(value: float, places: int = 0) -> Filler:
    """Write a number in English and French: 1,234.5 and 1 234,5."""
    english = f"{value:,.{places}f}"
    return english, english.replace(",", " ").replace(".", ",")


def price(draw: random.Random) -> Filler:
    sign, french_sign = draw.choice(CURRENCIES)
    top = draw.choice((10, 100, 100, 1000, 10000, 1000000))
    amount = draw.randint(max(2, top // 20), top - 1)
    places = 0 if sign == "¥" or draw.random() < 0.5 else 2
    english, french = number(amount + (draw.randint(1, 99) / 100 if places else 0), places)
    if draw.random() < 0.3 and amount < 10000:
        english = english.replace(",", "")  # many leave the comma out
    behind = sign == "€" and draw.random() < 0.4
    return (f"{english}{draw.choice(('', ' '))}{sign}" if behind else f"{sign}{english}",
            f"{french} {french_sign}")  # fmt: skip


def millions(draw: random.Random) -> Filler:
    sign, name = draw.choice((("£", "de livres"), ("$", "de dollars"), ("€", "d'euros")))
    word, short, french = draw.choice((("million", "m", "million"), ("billion", "bn", "milliard")))
    value, places = draw.choice(((draw.randint(2, 900), 0), (draw.randint(21, 99) / 10, 1)))
    english, comma = number(value, places)
    unit = f" {word}" if draw.random() < 0.6 else short
    return f"{sign}{english}{unit}", f"{comma} {french}s {name}"


def percent(draw: random.Random) -> Filler:
    places = draw.choice((0, 0, 0, 1, 1, 2))
    value = draw.randint(2, 99) if not places else draw.uniform(1.1, 99)
    english, french = number(value, places)
    sign = draw.choice(("%", "%", "%", "%", " %", " percent", " per cent"))
    return english + sign, french + (" %" if "%" in sign else " pour cent")


def temperature(draw: random.Random) -> Filler:
    value = draw.choice(("-", "", "", "")) + str(draw.randint(2, 45))
    unit = draw.choice("CCCF")
    space = draw.choice(("", "", " "))
    return f"{value}{space}°{unit}", f"{value} °{unit}"


def date(draw: random.Random) -> Filler:
    """Draw a date, such as 12 June 2024, without an article in French."""
    day, (english, french) = draw.randint(1, 28), draw.choice(MONTHS)
    year = f" {draw.randint(1950, 2030)}" if draw.random() < 0.6 else ""
    th = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}.get(day, "th")
    if draw.random() < 0.25:
        english = english[:3] if draw.random() < 0.5 else english
    forms = (f"{day} {english}{year}", f"{english} {day}{year and ','}{year}",
             f"{day}{th} {english}{year}", f"{english} {day}{th}{year and ','}{year}")  # fmt: skip
    return draw.choice(forms), f"{'1er' if day == 1 else day} {french}{year}"


def figures(draw: random.Random) -> Filler:
    """Draw a date in figures, the same in both languages, as its order is ambiguous."""
    day, month, year = draw.randint(1, 28), draw.randint(1, 12), draw.randint(1990, 2030)
    return _same(draw.choice((f"{day:02}/{month:02}/{year}", f"{year}-{month:02}-{day:02}",
                              f"{day:02}.{month:02}.{year}", f"{month}/{day}/{year % 100:02}")))


def month(draw: random.Random) -> Filler:
    english, french = draw.choice(MONTHS)
    year = f" {draw.randint(1990, 2030)}" if draw.random() < 0.5 else ""
    return english + year, french + year


def time(draw: random.Random) -> Filler:
    hour, minute = draw.randint(6, 22), draw.choice((0, 0, 0, 15, 30, 45, 5, 10, 20, 40, 50))
    french = f"{hour} h {minute:02}" if minute else f"{hour} h"
    if draw.random() < 0.4:
        return f"{hour}:{minute:02}", french
    half = draw.choice(("a.m.", "am", "AM") if hour < 12 else ("p.m.", "pm", "PM"))
    space = "" if draw.random() < 0.25 and "." not in half else " "
    minutes = f":{minute:02}" if minute or draw.random() < 0.2 else ""
    return f"{(hour - 1) % 12 + 1}{minutes}{space}{half}", french


def measure(draw: random.Random, kind: str = "") -> Filler:
    """Draw a number with a unit of the given kind, or of any kind."""
    units = UNITS[kind] if kind else " ".join(UNITS.values())
    unit = draw.choice(units.split()).split("|")
    value, places = draw.choice(((draw.randint(2, 900), 0), (draw.randint(21, 99) / 10, 1)))
    english, french = number(value, places)
    space = "" if draw.random() < 0.3 and len(unit[0]) < 3 else " "
    return f"{english}{space}{unit[0]}", f"{french} {unit[-1]}"


def quantity(draw: random.Random) -> Filler:
    """Draw a number of things, from 2 to 99,999; most are small."""
    return number(draw.choice((draw.randint(2, 30), draw.randint(2, 99), draw.randint(100, 99999))))


def small(draw: random.Random) -> Filler:
    return _same(str(draw.randint(2, 20)))


def year(draw: random.Random) -> Filler:
    return _same(str(draw.randint(1800, 2030)))


def code(draw: random.Random) -> Filler:
    letters = "".join(
        draw.choice("ABCDEFGHJKLMNPRSTUVXZ") for _ in range(draw.choice((1, 2, 2, 3)))
    )
    digits = draw.randint(10, 99999)
    return _same(draw.choice((f"{letters}{digits}", f"{letters}-{digits}", f"#{digits}",
                              str(digits), f"{digits}-{letters}", f"{letters}/{digits}")))


def phone(draw: random.Random) -> Filler:
    def two() -> str:
        return f"{draw.randint(0, 99):02}"

    rest = " ".join(two() for _ in range(4))
    three = draw.randint(200, 999), draw.randint(1000, 9999)
    return _same(draw.choice((
        f"0{draw.randint(1, 9)} {rest}", f"+33 {draw.randint(1, 9)} {rest}",
        f"+44 20 {three[1]} {draw.randint(1000, 9999)}", f"({three[0]}) 555-{three[1]}",
        f"555-{three[1]}", f"0800 {three[0]} {draw.randint(100, 999)}",
        f"+1 {three[0]}-555-{three[1]}",
    )))  # fmt: skip


def version(draw: random.Random) -> Filler:
    numbers = ".".join(str(draw.randint(0, 20)) for _ in range(draw.choice((2, 2, 3))))
    name = draw.choice(
        ("Python", "iOS", "Android", "Firefox", "Linux", "Node.js", "PHP", "Ubuntu", "v", "")
    )
    return _same(f"{name}{' ' * (name not in ('v', ''))}{numbers}")


def email(draw: random.Random) -> Filler:
    first, last = (
        draw.choice(listed("names"))[0].lower(),
        draw.choice(listed("surnames"))[0].lower(),
    )
    user = draw.choice((first, f"{first}.{last}", f"{first[0]}.{last}",
                        f"{last}{draw.randint(1, 99)}", "info", "contact", "support", "hello",
                        "jobs", "press"))  # fmt: skip
    return _same(f"{user}@{draw.choice(DOMAINS)}")


def url(draw: random.Random) -> Filler:
    path = draw.choice(("", "/", "/help", "/en/faq", "/login", f"/blog/{draw.randint(10, 999)}",
                        "/search?q=test", f"/p/{draw.randint(100, 9999)}#top", "/docs/start.html"))
    start = draw.choice(("https://www.", "http://", "https://", "www.", ""))
    return _same(f"{start}{draw.choice(DOMAINS)}{path}")


def file(draw: random.Random) -> Filler:
    stem = draw.choice(STEMS)
    tail = draw.choice(
        ("", "", str(draw.randint(1, 2999)), f"_v{draw.randint(2, 9)}", "-final", "(1)")
    )
    return _same(f"{stem}{tail}.{draw.choice(EXTENSIONS)}")


def path(draw: random.Random) -> Filler:
    name = file(draw)[0]
    return _same(draw.choice((f"/home/user/{name}", f"C:\\Users\\Public\\{name}",
                              f"~/Downloads/{name}", f"/etc/{name}", f"src/{name}", "/var/log",
                              "~/.config")))  # fmt: skip


def handle(draw: random.Random) -> Filler:
    name = draw.choice(listed("names"))[0].lower()
    tail = draw.choice(("", "", "_fr", str(draw.randint(1, 99)), ".photo", "_official"))
    return _same(f"@{name}{tail}")


def emoji(draw: random.Random) -> Filler:
    one = draw.choice(EMOJI)
    return _same(draw.choice((one, one, one, one * 2, one * 3, one + draw.choice(EMOJI))))


def score(draw: random.Random) -> Filler:
    return _same(f"{draw.randint(1, 9)}-{draw.randint(0, 9)}")


def sum_(draw: random.Random) -> Filler:
    a, b = draw.randint(2, 30), draw.randint(2, 12)
    return draw.choice((
        _same(f"{a} + {b} = {a + b}"), _same(f"{a} × {b} = {a * b}"), _same(f"{a + b} - {b} = {a}"),
        _same(f"{a * b} ÷ {b} = {a}"), _same(f"{a} > {min(b, a - 1)}"), _same("x² + y² = z²"),
        _same(f"x ≤ {a}"), ("π ≈ 3.14", "π ≈ 3,14"), _same("a ≠ b"), _same(f"{a} ± {b}"),
    ))  # fmt: skip


def _same(text: str) -> Filler:
    return text, text


_lists: dict[str, list[Filler]] = {}


def listed(kind: str) -> list[Filler]:
    """Read a list of pairs. A list with one column has the same text for both languages."""
    if kind not in _lists:
        lines = (LISTS / f"{kind}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        _lists[kind] = [(row[0], row[-1]) for row in (line.split("\t") for line in lines)]
    return _lists[kind]


DRAWN: dict[str, Callable[[random.Random], Filler]] = {
    "price": price, "millions": millions, "percent": percent, "temperature": temperature,
    "date": date, "figures": figures, "month": month, "time": time, "measure": measure,
    "quantity": quantity, "small": small, "year": year, "code": code, "phone": phone,
    "version": version, "email": email, "url": url, "file": file, "path": path, "handle": handle,
    "emoji": emoji, "score": score, "sum": sum_,
} | {kind: partial(measure, kind=kind) for kind in UNITS}  # fmt: skip


def fill(kind: str, draw: random.Random) -> Filler:
    """Draw an English text and its French translation for a slot.

    Raises:
        KeyError: there is neither a function nor a list for this kind.
    """
    if kind in DRAWN:
        return DRAWN[kind](draw)
    if not (LISTS / f"{kind}.tsv").exists():
        raise KeyError(f"no filler and no list is named {kind!r}")
    return draw.choice(listed(kind))
