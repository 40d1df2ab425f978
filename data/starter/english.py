"""English morphology: plurals, verb forms, do-support, numbers, dates and clock times."""

import re

from words import Adjective, Noun, Verb

PRONOUNS = ("I", "you", "he", "we", "you", "they")
BE = ("am", "are", "is", "are", "are", "are")
WAS = ("was", "were", "was", "were", "were", "were")
MODALS = frozenset({"can", "must"})
DOUBLED = frozenset({"cut", "drop", "plan", "run", "stop", "swim"})
_TO_NINETEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
NUMBERS = tuple(_TO_NINETEEN.split())
_BY_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
TENS = tuple(_BY_TENS.split())


def join(*parts: str) -> str:
    """Join the non-empty parts with single spaces."""
    return " ".join(part for part in parts if part)


def pluralize(word: str) -> str:
    """Form the regular plural."""
    if re.search(r"(s|x|z|ch|sh)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


def noun_form(noun: Noun, plural: bool) -> str:
    """Return the noun in the singular or plural."""
    return (noun.en_plural or pluralize(noun.en)) if plural else noun.en


def superlative(adjective: Adjective) -> str:
    """Form the superlative from the comparative: `tallest`, `most useful`, `best`."""
    irregular = {"better": "best", "worse": "worst"}
    form = adjective.en_comparative
    if form.startswith("more "):
        return "most " + form.removeprefix("more ")
    return irregular.get(form) or form.removesuffix("er") + "est"


def with_article(text: str) -> str:
    """Put `a` or `an` before the text."""
    return ("an " if re.match(r"[aeio]|u(?!se|ni)|hour", text, re.IGNORECASE) else "a ") + text


# ---------------------------------------------------------------------------- verbs


def _split(verb: Verb) -> tuple[str, str]:
    """Split `look for` into the word that is conjugated and the rest."""
    head, _, rest = verb.en.partition(" ")
    return head, rest


def third_person(verb: Verb) -> str:
    """Return the present form for he/she/it."""
    head, rest = _split(verb)
    form = {"be": "is", "have": "has", "go": "goes", "do": "does"}.get(head) or pluralize(head)
    return join(head if head in MODALS else form, rest)


def past(verb: Verb) -> str:
    """Return the simple past."""
    if verb.en_past:
        return verb.en_past
    head, rest = _split(verb)
    if head in DOUBLED:
        return join(head + head[-1] + "ed", rest)
    if re.search(r"[^aeiou]y$", head):
        return join(head[:-1] + "ied", rest)
    return join(head + ("d" if head.endswith("e") else "ed"), rest)


def participle(verb: Verb) -> str:
    """Return the past participle."""
    return verb.en_participle or past(verb)


def ing(verb: Verb) -> str:
    """Return the -ing form."""
    if verb.en_ing:
        return verb.en_ing
    head, rest = _split(verb)
    if head in DOUBLED:
        head += head[-1]
    return join(re.sub(r"(?<=[^aeiou])e$", "", head) + "ing", rest)


def verb_group(verb: Verb, tense: str, person: int, *, negation: str = "", adverb: str = "") -> str:
    """Build the verb with auxiliaries.

    Args:
        verb: The verb.
        tense: ``present``, ``progressive``, ``past``, ``future``, ``was doing``,
            ``used to`` or ``perfect``.
        person: Index into `PRONOUNS`.
        negation: ``not`` or empty.
        adverb: An adverb before the verb (``often``, ``never``).
    """
    if verb.en == "be born":
        return f"{WAS[person]} born"
    if verb.en == "be" or verb.en in MODALS:
        return _be_or_modal(verb, tense, person, negation, adverb)
    if tense in ("present", "past") and not negation:
        form = past(verb) if tense == "past" else verb.en
        if tense == "present" and person == 2:
            form = third_person(verb)
        return join(adverb, form)
    auxiliary, form = auxiliary_and_form(verb, tense, person)
    return join(auxiliary, negation, adverb, form)


def _be_or_modal(verb: Verb, tense: str, person: int, negation: str, adverb: str) -> str:
    if tense == "future":
        return join("will", negation, adverb, verb.en)
    if verb.en in MODALS:
        return "cannot" if negation and verb.en == "can" else join(verb.en, negation, adverb)
    return join((WAS if tense == "past" else BE)[person], negation, adverb)


def auxiliary_and_form(verb: Verb, tense: str, person: int) -> tuple[str, str]:
    """Return the auxiliary and the form after it, as in questions and negations."""
    has = "has" if person == 2 else "have"
    does = "does" if person == 2 else "do"
    table = {
        "present": (does, verb.en),
        "progressive": (BE[person], ing(verb)),
        "past": ("did", verb.en),
        "future": ("will", verb.en),
        "was doing": (WAS[person], ing(verb)),
        "used to": ("used to", verb.en),
        "perfect": (has, participle(verb)),
    }
    return table[tense]


# ------------------------------------------------------------------- numbers and time


def number(n: int) -> str:
    """Write a number from 0 to 100 in words."""
    if not 0 <= n <= 100:
        raise ValueError(f"number out of range: {n}")
    if n == 100:
        return "one hundred"
    if n < 20:
        return NUMBERS[n]
    return TENS[n // 10] + (f"-{NUMBERS[n % 10]}" if n % 10 else "")


def date(day: int, month: str) -> str:
    """Write a date: `May 3`."""
    return f"{month} {day}"


def clock(hour: int, minute: int) -> str:
    """Write a clock time on the twelve-hour dial, minutes in steps of five."""
    if minute > 30:
        hour = hour % 12 + 1
    name = number(hour)
    if minute == 0:
        return "noon" if hour == 12 else f"{name} o'clock"
    if minute == 30:
        return f"half past {name}"
    distance = minute if minute < 30 else 60 - minute
    amount = "a quarter" if distance == 15 else number(distance)
    return f"{amount} {'past' if minute < 30 else 'to'} {name}"
