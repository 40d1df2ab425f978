"""What a translation must hold as its source does: links, placeholders, numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

# One pass from left to right, so that the digits of a URL are no number. Nothing here looks far
# ahead from many places: a text of 100,000 characters is read in one go.
_ITEM = re.compile(
    r"""
      (?P<code> `[^`\n]+` )
    | (?P<url> (?: \b(?:https?|ftp):// | \bwww\. ) [^\s<>"`]+ )
    | (?P<mail> (?<![\w.+-]) [\w.+-]{1,64} @ [\w-]{1,63} (?: \.[\w-]{1,63} )+ )
    | (?P<placeholder>
          \{\{ [^{}\n]* \}\} | \$\{ \w+ \} | \{ [\w.:!\[\]-]* \}    # {{x}} ${VAR} {name} {0:.2f}
        | (?<![\d%]) % (?: \(\w+\) )? (?:\d{1,3}\$)? [-+0\#]{0,5} \d{0,6} (?:\.\d{1,6})?
          (?:hh?|ll?)? [sdifgeuxXc] \b                              # %s %(n)d %1$s %.2f
        | \$ [A-Za-z_]\w*                                           # $VAR
      )
    | (?P<entity> &(?: \#\d{1,7} | \#x[\da-f]{1,6} | [a-z]{2,31}\d{0,2} ); )
    | (?P<number> \d+ (?: [.,:/'\xa0\u202f-] \d+ )* )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMALS = re.compile(r"\d+\.\d+")
_ENDING = ".,;:!?'*_"
_SPACE = "[ \xa0\u202f]"
_WORDS = (
    "zéro", "premi(?:er|ère)s?", "deux|seconde?|seconds", "trois", "quatre", "cinq", "six", "sept",
    "huit", "neuf", "dix", "onze", "douze", "treize", "quatorze", "quinze", "seize", "dix-sept",
    "dix-huit", "dix-neuf", "vingt",
)  # fmt: skip
_ARTICLE = re.compile(r"\b(?:an?|one)\b", re.IGNORECASE)  # what "un" is in English, beside 1
_LONGEST_NUMBER = 40  # digits that are read as a number; more are a sequence of digits


@dataclass(frozen=True)
class Item:
    """One of them.

    Attributes:
        kind: code, url, mail, placeholder, entity or number.
        text: as it stands in the source.
        start: where, in characters.
        article: whether the source has a, an or one, so that "un" tells nothing of its 1.
    """

    kind: str
    text: str
    start: int
    article: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def french(self) -> str:
        """As it is to stand in the translation: 1,000.5 is 1 000,5 in French."""
        if self.kind != "number":
            return self.text
        if _THOUSANDS.fullmatch(self.text) or _DECIMALS.fullmatch(self.text):
            return self.text.replace(",", "\u202f").replace(".", ",")
        return self.text

    @cached_property
    def _forms(self) -> re.Pattern[str]:
        """What it may look like in a translation."""
        if self.kind != "number" or len(self.text) > _LONGEST_NUMBER:
            # As a word of its own: in "%soles" there is no "%s".
            before = r"(?<!\w)" if re.match(r"\w", self.text) else ""
            after = r"(?!\w)" if re.match(r"\w", self.text[-1]) else ""
            return re.compile(before + re.escape(self.text) + after)
        return self._number()

    def _number(self) -> re.Pattern[str]:
        """Any way in which French may write this number; the same for the same digits."""
        groups = re.split(r"\D", self.text)
        if _THOUSANDS.fullmatch(self.text):
            groups = re.split(r"[^\d,]", self.text)
            groups[0] = groups[0].replace(",", "")
        # 10:30 is also 10 h 30; 12/05 also 12-05.
        between = rf"(?:{_SPACE}?[.,:/'h-]{_SPACE}?|{_SPACE})"
        digits = between.join(_with_thousands(group) for group in groups)
        found = rf"(?<!\d){digits}(?!\d)"
        if self.text.isascii() and len(self.text) <= 2 and int(self.text) < len(_WORDS):
            found += rf"|\b(?:{_WORDS[int(self.text)]})(?:ièmes?)?\b"
            if int(self.text) == 1 and not self.article:
                found += r"|\bune?\b"
        return re.compile(found, re.IGNORECASE)

    def count(self, target: str) -> int:
        """How often it stands in a translation."""
        return len(self._forms.findall(target))

    def without(self, target: str) -> str:
        """A translation without it."""
        return self._forms.sub("\0", target)


def _with_thousands(digits: str) -> str:
    """A pattern of a whole number, with or without a mark between thousands."""
    if len(digits) <= 3:
        return digits
    first = len(digits) % 3
    groups = [digits[:first]] * (first > 0) + re.findall("...", digits[first:])
    return f"(?:{_SPACE}|[.,'])?".join(groups)


def find_items(text: str) -> list[Item]:
    """The items of a source, from left to right."""
    found = []
    article = _ARTICLE.search(text) is not None
    for match in _ITEM.finditer(text):
        kind, item = str(match.lastgroup), match[0]
        if kind == "url":  # marks after it belong to the sentence
            item = _without_ending(item)
        found.append(Item(kind, item, match.start(), article))
    return found


def _without_ending(url: str) -> str:
    """A link without the marks after it, and without brackets that it does not open."""
    end, surplus = len(url.rstrip(_ENDING)), url.count(")") - url.count("(")
    while surplus > 0 and url[end - 1] == ")":
        end, surplus = end - 1, surplus - 1
        while url[end - 1] in _ENDING:
            end -= 1
    return url[:end]


def lost(items: list[Item], target: str) -> list[Item]:
    """Those that a translation does not hold, or not as often as the source does."""
    missing: list[Item] = []
    equal: dict[str, list[Item]] = {}
    for item in items:
        equal.setdefault(item.french, []).append(item)
    # What is found goes, the longest first: the digits of a link are no number of their own.
    for same in sorted(equal.values(), key=lambda i: (i[0].kind == "number", -len(i[0].text))):
        missing += same[same[0].count(target) :]
        target = same[0].without(target)
    return sorted(missing, key=lambda item: item.start)
