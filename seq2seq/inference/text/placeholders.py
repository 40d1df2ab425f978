"""Placeholders: links, addresses, variables, code, foreign scripts, numbers and symbols, which are
kept.

These items stay in the text that the model reads. If a translation lost one, it has a fault, and
`fallback.py` replaces the item in the source by something that the model copies. Numbers are
compared by value and kind, as French writes them: 1,000.50 is 1 000,50; 10:30 is 10 h 30; 30 is
trente.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex

from seq2seq.inference.text.step import Attention, Fault, Step
from seq2seq.inference.translation import Translation

SPACE, NARROW, NO_BREAK = "[ \xa0\u2009\u202f]", "\u202f", "\xa0"
UNITS = {"$": "dollars?|[A-Z]{2}D", "£": "livres?|GBP|sterling", "€": "euros?|EUR",
         "¥": "yens?|yuans?|JPY|CNY", "₹": "roupies?|INR", "%": "pour ?cents?", "°": "degrés?",
         "°C": "degrés?", "°F": "degrés?"}  # fmt: skip

# One pass from left to right, so that the digits of a link are no number. No part of the pattern
# looks far ahead from many places, since one text may have 100,000 characters.
_SCRIPT = (
    "[\u0370-\u1cff\u1f00-\u1fff\u2c00-\u2dff\u2e80-\ud7ff\uf900-\ufdff\ufe70-\ufefe"
    "\U00020000-\U0003ffff]"
)
_ITEM = re.compile(
    r"""
      (?P<code> (?<!\w) `[^`\n]+` (?!\w) )                        # not Don`t
    | (?P<link> (?: \b(?:https?|ftp):// | \bwww\. ) [^\s<>"`]+ )
    | (?P<address> (?<![\w.+-]) [\w.+-]{1,64} @ [\w-]{1,63} (?: \.[\w-]{1,63} )+ )
    | (?P<variable>
          \{\{ [^{}\n]* \}\} | \$\{ \w+ \} | \{ [\w.:!\[\]-]* \}    # {{x}} ${VAR} {name} {0:.2f}
        | (?<![\d%]) % (?: \(\w+\) )? (?:\d{1,3}\$)? [-+0\#]{0,5} \d{0,6} (?:\.\d{1,6})?
          (?:hh?|ll?|[zjt])? [sdifgeuxXc] (?: %% | \b )          # %s %(n)d %1$s %.2f%%
        | \$ [A-Za-z_]\w*                                           # $VAR
      )
    | (?P<height> \b \d{1,2} ['’′] \x20? \d{1,2} ["”″] )             # 6'2"
    | (?P<script> (?![\W\d_]) {script}+ (?: [ '’-] {script}+ )* )    # words of other scripts
    | (?P<number>
          (?P<sign> (?<![\w.,)\]%-]) [-−] )? (?P<money> [$£€¥₹] )?
          (?P<digits> \d{1,3} (?: [\x20\u2009] \d{3} )+ (?: [.,]\d+ )? (?!\w)
            | \d+ (?: [.,:/'\xa0\u202f–-] \d+ )* )
          (?: (?P<unit> [\x20\xa0\u202f]? (?: %(?!\w) | °[CF]\b | °(?!\w) | [€£] ) )
            | (?P<half> \x20? (?:[ap]\.?m|[AP]\.?M)\b (?:\.(?=\s\w))? ) )?   # a.m., PM
      )
    """.replace("{script}", _SCRIPT),
    re.VERBOSE,
)
# Symbols of Unicode, alone or composed; not those of ASCII or of −5 °C, and no accents.
_SIGN = (
    r"[[\p{So}\p{Sk}\p{Sm}\p{Extended_Pictographic}²³¹½¼¾⅓⅔§¶†‡•‣※⁂‰]"
    r"--[\p{ASCII}°´¨¸¯¬−\ufffd]]"
)
_SYMBOL = regex.compile(
    rf"(?V1)(?:\p{{RI}}\p{{RI}}|[0-9#*]\ufe0f?\u20e3"
    rf"|{_SIGN}(?:[\ufe0e\ufe0f\p{{EMod}}\U000e0020-\U000e007f]|\u200d{_SIGN})*)+"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_WITH_THOUSANDS = re.compile(rf"\D*({_THOUSANDS.pattern})\D*")  # -1,000°C
_VALUE = re.compile(rf"\d+(?:\.\d+)?|{_THOUSANDS.pattern}")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)")
_DATE = re.compile(r"(\d{1,2})([/.-])(\d{1,2})(?:\2(\d{4}|\d\d))?")
_RANGE = re.compile(r"(\d+)[-–](\d+)")
_ENDING = ".,;:!?'*_"
_ARTICLE = re.compile(r"\b(?:an?|one)\b", re.IGNORECASE)  # "un" translates these, not only 1
_LONGEST = 40  # most digits of a number; more are only a sequence of digits

# Numbers that translations have in words; others that might be, such as 47, come in digits.
_ENDING_OF_WORD = "(?:e|u?ièmes?|aines?)?"  # quatre, quatrième, quinzaine
_UP_TO_TWENTY = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf",
                 "dix", "onze", "douze", "treize", "quatorze", "quinze", "seize", "dix-sept",
                 "dix-huit", "dix-neuf", "vingt"]  # fmt: skip
_WORDS = dict(enumerate(_UP_TO_TWENTY)) | {
    2: "deux|seconde?|seconds(?! )",
    9: "neuf|neuvièmes?",
    10: "dix|dizaines?",
    19: "XIXe|dix-neuf",  # centuries
    20: "XXe|vingt",
    21: "XXIe",
    30: "trente",
    40: "quarante",
    50: "cinquante",
    60: "soixante",
    70: "soixante-dix",
    80: "quatre-vingts?",
    90: "quatre-vingt-dix",
    100: "cent",
    1000: "mille",
}
MONTHS = ["janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
          "octobre", "novembre", "décembre"]  # fmt: skip


@dataclass(frozen=True)
class Item:
    """Something that a translation must keep.

    Attributes:
        kind: code, link, address, variable, height (in feet and inches), script, number or symbol.
        text: as the source has it.
        span: its place in the source, in characters.
        french: as the translation should have it: 1,000.5 is 1 000,5 in French.
        pattern: all ways in which the translation may have it.
        unit: a pattern of its currency or unit, which may be anywhere in the translation.
    """

    kind: str
    text: str
    span: tuple[int, int]
    french: str
    pattern: re.Pattern[str]
    unit: re.Pattern[str] | None = None

    @property
    def is_number(self) -> bool:
        return self.kind == "number"


def find_items(text: str) -> list[Item]:
    """Return the items of an English source, from left to right."""
    found = []
    article = _ARTICLE.search(text) is not None
    for match in _ITEM.finditer(text):
        kind, whole, (start, end) = str(match.lastgroup), match[0], match.span()
        if match["digits"] is None:
            if kind == "link":  # marks after it belong to the sentence
                whole = _without_ending(whole)
            span = start, start + len(whole)
            found.append(Item(kind, whole, span, whole, _literal(whole)))
            continue
        unit = match["money"] or (match["unit"] or "").strip()
        inside = start > 0 and text[start - 1].isalnum()
        after = "s" if re.match(r"['’]?s\b", text[end : end + 3]) else ""
        after = (match["half"] or after).strip().lower()[:1]
        french, pattern = _number(match["sign"] or "", match["digits"], after, inside, article)
        french += (NO_BREAK + unit) * bool(unit)
        needed = re.compile(f"{re.escape(unit[0])}|{UNITS[unit]}") if unit else None
        found.append(Item(kind, whole, (start, end), french, pattern, needed))
    return found


def find_symbols(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of symbols, such as emoji, arrows and bullets, but for those inside words."""
    for one in _SYMBOL.finditer(text):
        before, after = text[: one.start()][-1:], text[one.end() : one.end() + 1]
        if not (before.isalnum() and after.isalnum()):  # 2×4 would become 24
            yield one.span()


def _with_symbols(text: str, items: Sequence[Item]) -> list[Item]:
    """Add the symbols outside other items; the digit of a keycap, such as 1️⃣, is no number."""
    found = list(items)
    for start, end in find_symbols(text):
        inside = [item for item in found if item.span[0] < end and start < item.span[1]]
        if all(item.is_number for item in inside):
            symbol = text[start:end]
            # ★★ is not a part of ★★★. The search for a long literal alone would take cubic time.
            whole: Any = regex.compile(
                rf"(?V1)(?<!{_SIGN})(?:{regex.escape(symbol)}|(?!))(?!{_SIGN})"
            )
            found = [item for item in found if item not in inside]
            found.append(Item("symbol", symbol, (start, end), symbol, whole))
    return sorted(found, key=lambda item: item.span)


def _without_ending(link: str) -> str:
    """Return a link without the marks after it, and without brackets that it does not open."""
    end, surplus = len(link.rstrip(_ENDING)), link.count(")") - link.count("(")
    while surplus > 0 and link[end - 1] == ")":
        end, surplus = end - 1, surplus - 1
        while link[end - 1] in _ENDING:
            end -= 1
    return link[:end]


def _literal(text: str) -> re.Pattern[str]:
    """Return a pattern of these characters as a whole word: in "%soles" there is no "%s"."""
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    after = r"(?!\w)" if re.match(r"\w", text[-1]) else ""
    return re.compile(before + re.escape(text) + after)


@lru_cache(4096)
def _number(
    sign: str, digits: str, after: str, inside: bool, article: bool
) -> tuple[str, re.Pattern[str]]:
    """Return how French writes a number, and a pattern of all ways in which it may be written.

    Args:
        sign: the minus sign of a negative number, or nothing.
        digits: digits, with the marks between them.
        after: "a" or "p" of a.m. or p.m., "s" of a decade, or nothing.
        inside: whether the number ends a word, as in MP3.
        article: whether "un" may translate another word of the source.
    """
    before = r"(?<!\d)(?<!\d[.,\xa0\u202f])" if inside else r"(?<!\w)(?<!\d[.,\xa0\u202f])"
    digits = re.sub("[ \u2009]", "", digits)  # 1 000 000
    forms, french = [re.escape(digits)], digits
    clock = _CLOCK.fullmatch(digits)
    if clock or (after in {"a", "p"} and digits.isdecimal() and int(digits) < 13):
        hour, minute = (int(clock[1]), int(clock[2])) if clock else (int(digits), 0)
        forms = _times(hour, minute, after)
        if after in {"a", "p"}:
            french = f"{hour % 12 + 12 * (after == 'p')}{NO_BREAK}h"
            french += f"{NO_BREAK}{minute:02}" * (minute > 0)
    elif _VALUE.fullmatch(digits) and len(digits) <= _LONGEST:
        whole, _, part = digits.replace(",", "").partition(".")
        forms.append(_whole(whole) + _decimals(part))
        french = _french(digits)
        if after == "s":  # the 1990s, the 90s
            forms.append(digits[2:] if len(digits) == 4 else rf"\d\d{digits}")
    else:
        forms += _dates(digits)
    if both := _RANGE.fullmatch(digits):
        left, right = _whole(both[1]), _whole(both[2])
        forms.append(rf"{left}(?:{SPACE}?[-–—/:]{SPACE}?|[^.;]{{0,9}} (?:à|et|ou|contre) ){right}")
    minus = rf"(?:[-−–]{SPACE}?|moins{SPACE})" if sign else ""
    patterns = [f"{before}{minus}(?:{'|'.join(forms)})(?!\\d)(?![.,]\\d)(?!{SPACE}\\d{{3}}\\b)"]
    if digits.isascii() and digits.isdecimal() and len(digits) <= 4:
        patterns.append(rf"{minus}(?<!\w)(?:{_spoken(int(digits), article)})(?!\w)")
    return sign + french, re.compile("|".join(patterns), re.IGNORECASE)


def _whole(digits: str) -> str:
    """Return a pattern of a whole number, with or without a mark between thousands."""
    if len(digits) <= 3:
        return digits
    first = len(digits) % 3
    groups = [digits[:first]] * (first > 0) + re.findall("...", digits[first:])
    return f"(?:{SPACE}|[.'’])?".join(groups)


def _decimals(digits: str) -> str:
    """Return a pattern of the decimal mark and its digits; zeros at the end do not matter."""
    if not digits:
        return "(?:[.,]0+(?!\\d))?"
    kept = digits.rstrip("0")
    return f"[.,]{kept}0*" if kept else "(?:[.,]0+)?"


def _times(hour: int, minute: int, half: str) -> list[str]:
    """Return patterns of a time: 3:30 p.m. is 15 h 30, or 3 h 30 with a word for the afternoon."""
    forms = [] if half else [rf"0?{hour}:{minute:02}"]
    late = hour % 12 + 12 * (half == "p") if half else hour
    for shown, word in ((late, ""), (hour, r"[^.;]{1,9}(?:matin|soir|nuit|midi)")):
        past = rf"(?:0?{shown}|{_spoken(shown, False)}){SPACE}?(?:h|heures?|:){SPACE}?"
        forms.append(past + (f"0?{minute}" if minute else "(?:00)?(?!\\d)") + word)
        forms += [rf"{past}et demie{word}"] * (minute == 30)
    return forms + ["midi", "minuit"] * (minute == 0 and hour in (0, 12))


def _dates(digits: str) -> Iterator[str]:
    """Yield patterns of a date, whichever of day and month comes first; none if it is no date."""
    found = _DATE.fullmatch(digits)
    if found is None:
        return
    year = rf"(?:{SPACE}|[/.-])(?:\d\d)?{found[4]}" if found[4] else ""
    for day, month in ((int(found[1]), int(found[3])), (int(found[3]), int(found[1]))):
        yield rf"0?{day}[/.-]0?{month}" + year.replace(f"{SPACE}|", "")
        if 1 <= month <= 12:
            yield rf"{day}(?:er)?{SPACE}{MONTHS[month - 1]}{year}"


def _spoken(number: int, article: bool) -> str:
    """Return a pattern of a number in words: cardinal, ordinal or approximate (quinzaine)."""
    if number == 1:
        return "premi(?:er|ère)s?" + "|une?" * (not article)
    words = _WORDS.get(number, "(?!)").split("|")
    return "|".join(word.removesuffix("e") + _ENDING_OF_WORD for word in words).replace("-", "[ -]")


def lost(items: Sequence[Item], target: str) -> list[Item]:
    """Return the items that a translation lacks, or has less often than the source."""
    missing: list[Item] = []
    equal: dict[str, list[Item]] = {}
    for item in items:
        equal.setdefault(item.french, []).append(item)
    rest = target
    # Remove what is found, numbers last and longest first: digits of a link are no number.
    for same in sorted(equal.values(), key=lambda own: (own[0].is_number, -len(own[0].text))):
        one = same[0]
        there = len(one.pattern.findall(rest))
        if one.unit is not None and not one.unit.search(target):
            there = 0
        missing += same[there:]
        rest = one.pattern.sub("\0", rest, count=len(same) if one.is_number else 0)
    return sorted(missing, key=lambda item: item.span)


class Placeholders(Step):
    """The step that finds the items to keep, and which of them a translation lost.

    Args:
        languages: of source and target; numbers are items only from English to French.
        replaced: returns the spans of a source that terms of the user replace; their items need
            not be kept.
        symbols: whether symbols are items, too.
    """

    name = "placeholders"
    checks = True

    def __init__(
        self,
        languages: tuple[str, str] = ("en", "fr"),
        replaced: Callable[[str], Sequence[tuple[int, int]]] = lambda text: (),
        symbols: bool = False,
    ):
        self.languages, self.replaced, self.symbols = languages, replaced, symbols

    def before(self, text: str) -> tuple[str, list[Item]]:
        spans = self.replaced(text)
        known = self.languages == ("en", "fr")
        items = find_items(text)
        if self.symbols and not text.isascii():
            items = _with_symbols(text, items)
        return text, [
            item
            for item in items
            if (known or not item.is_number)
            and not any(a < item.span[1] and item.span[0] < b for a, b in spans)
        ]

    def after(
        self, result: Translation, state: list[Item], attention: Attention | None
    ) -> Translation:
        """Write thousands as French does: to a French reader, 1,000 is 1."""
        text = result.text
        if self.languages[1] == "fr":
            for item in state:
                if item.is_number and (found := _WITH_THOUSANDS.fullmatch(item.text)):
                    digits = found[1]
                    text = re.sub(rf"(?<![\d.,]){digits}(?![.,]?\d)", _french(digits), text)
        return result.with_text(text)

    def faults(self, result: Translation, state: list[Item]) -> list[Fault]:
        return [
            Fault(item.text, "item", item.french, item.span) for item in lost(state, result.text)
        ]


def _french(digits: str) -> str:
    """Write an English number, such as 1,000.5, as French does."""
    return digits.replace(",", NARROW).replace(".", ",")
