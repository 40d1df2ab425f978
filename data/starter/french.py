"""French morphology and spelling: agreement, elision, contraction, conjugation, numbers."""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from words import Adjective, Determiner, Locality, Noun, Verb

PRONOUNS = ("je", "tu", "il", "nous", "vous", "ils")
REFLEXIVES = ("me", "te", "se", "nous", "vous", "se")
VOWELS = "aeiouyàâäéèêëîïôöùûüœh"
_ASPIRATED = (
    "hamster handball haricot haricots hasard haut haute hautes hauts héros hibou hockey "
    "homard honte huit huitième onze onzième oui yaourt yaourts"
)
ASPIRATED = frozenset(_ASPIRATED.split())
_TO_NINETEEN = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf"
)
NUMBERS = tuple(_TO_NINETEEN.split())
TENS = {20: "vingt", 30: "trente", 40: "quarante", 50: "cinquante", 60: "soixante"}

FUTURE = ("ai", "as", "a", "ons", "ez", "ont")
IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")
PRESENT = {
    "er": ("e", "es", "e", "ons", "ez", "ent"),
    "ir": ("is", "is", "it", "issons", "issez", "issent"),
    "re": ("s", "s", "", "ons", "ez", "ent"),
}
PARTICIPLE = {"er": "é", "ir": "i", "re": "u"}
IMPERATIVE = {
    "être": ("soyons", "soyez"),
    "avoir": ("ayons", "ayez"),
    "savoir": ("sachons", "sachez"),
}
DOUBLED = frozenset({"appeler", "rappeler", "jeter"})
PRESENT_OF_BE = ("suis", "es", "est", "sommes", "êtes", "sont")
PRESENT_OF_HAVE = ("ai", "as", "a", "avons", "avez", "ont")


class Agreement(NamedTuple):
    """What verbs, adjectives and participles agree with.

    Attributes:
        person: Index into `PRONOUNS` and all conjugation tables.
        feminine: Gender.
        plural: Number of adjectives (the polite `vous` is singular there).
    """

    person: int = 2
    feminine: bool = False
    plural: bool = False


# ---------------------------------------------------------------- nouns and adjectives


def starts_with_vowel(text: str) -> bool:
    """Tell whether the text begins with a vowel sound, so that words before it elide."""
    word = re.split(r"[\s,.]", text.lower(), maxsplit=1)[0]
    if word in ASPIRATED or word[:1] not in VOWELS:
        return False
    return word[0] != "y" or word == "y"


def pluralize(word: str) -> str:
    """Form the regular plural of a noun or masculine adjective."""
    if word[-1] in "sxz":
        return word
    if word.endswith(("eau", "eu")) and word != "bleu":
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


def noun_form(noun: Noun, plural: bool) -> str:
    """Return the noun in the singular or plural."""
    return (noun.fr_plural or pluralize(noun.fr)) if plural else noun.fr


def adjective_form(adjective: Adjective, feminine: bool, plural: bool) -> str:
    """Return the adjective's form of this gender and number."""
    if feminine:
        regular = adjective.fr if adjective.fr.endswith("e") else adjective.fr + "e"
        form = adjective.fr_feminine or regular
        invariable = adjective.fr_feminine == adjective.fr == adjective.fr_plural
        return pluralize(form) if plural and not invariable else form
    if plural:
        return adjective.fr_plural or pluralize(adjective.fr)
    return adjective.fr


def superlative(adjective: Adjective, noun: Noun) -> str:
    """Form the superlative: `le plus vieil hôpital`, `la maison la plus moderne`."""
    article, better = (
        ("la" if noun.feminine else "le"),
        comparative(adjective, noun.feminine, False),
    )
    if not adjective.before:
        return f"{article} {noun.fr} {article} {better}"
    if adjective.fr_vowel and not noun.feminine and starts_with_vowel(noun.fr):
        better = f"plus {adjective.fr_vowel}"
    return f"{article} {better} {noun.fr}"


def comparative(adjective: Adjective, feminine: bool, plural: bool) -> str:
    """Form the comparative with gender and number: `plus grand`, `meilleures`, `pire`."""
    form = adjective_form(adjective, feminine, plural)
    if adjective.fr == "bon":
        return re.sub("^bon(ne)?", lambda m: "meilleure" if m[1] else "meilleur", form)
    if adjective.fr == "mauvais":
        return "pires" if plural else "pire"
    return f"plus {form}"


def determiner_form(determiner: Determiner, feminine: bool, plural: bool, following: str) -> str:
    """Choose the form of the determiner before the word that follows."""
    if plural:
        return determiner.feminine_plural if feminine else determiner.plural
    vowel = starts_with_vowel(following)
    if feminine:
        return determiner.feminine_vowel if vowel else determiner.feminine
    return determiner.masculine_vowel if vowel else determiner.masculine


def noun_phrase(
    determiner: Determiner | str, noun: Noun, plural: bool, adjective: Adjective | None = None
) -> str:
    """Build determiner, noun and adjective in French order, all agreeing.

    Args:
        determiner: A determiner of the lexicon, or a fixed text such as a number.
        noun: The head.
        plural: Number.
        adjective: An optional adjective.
    """
    words = noun_form(noun, plural)
    if adjective:
        form = adjective_form(adjective, noun.feminine, plural)
        if not adjective.before:
            words = f"{words} {form}"
        else:
            elided = not plural and not noun.feminine and starts_with_vowel(words)
            words = f"{adjective.fr_vowel if elided and adjective.fr_vowel else form} {words}"
    if isinstance(determiner, str):
        return f"{determiner} {words}".strip()
    article = determiner_form(determiner, noun.feminine, plural, words)
    # `des` becomes `de` before an adjective that stands before its noun: de belles maisons.
    if article == "des" and adjective and adjective.before:
        article = "de"
    return f"{article} {words}"


def at_place(place: Locality) -> str:
    """Build `in` or `to` with a city or a country: à Paris, en France, au Japon."""
    if place.gender in ("m", "p"):
        return f"à {place.article}{place.fr}"
    return f"{'en' if place.gender else 'à'} {place.fr}"


# ---------------------------------------------------------------------------- verbs


def _light_stem(stem: str) -> str:
    """Change the stem of an -er verb before a silent ending: achet- -> achèt-."""
    if stem + "er" in DOUBLED:
        return stem + stem[-1]
    if stem.endswith(("oy", "uy", "ay")):
        return stem[:-1] + "i"
    return re.sub(r"[eé]([bcdfglmnprstv])$", r"è\1", stem)


def _before_hard_vowel(stem: str) -> str:
    """Keep g and c soft before a or o: mang- -> mange-, commenc- -> commenç-."""
    if stem.endswith("g"):
        return stem + "e"
    return stem[:-1] + "ç" if stem.endswith("c") else stem


@cache
def present(verb: Verb) -> tuple[str, ...]:
    """Return the six forms of the présent."""
    if verb.fr_present:
        return verb.fr_present
    stem, group = verb.fr[:-2], verb.fr[-2:]
    forms = [stem + ending for ending in PRESENT[group]]
    if group == "er":
        light = _light_stem(stem)
        forms = [light + ending for ending in PRESENT["er"]]
        forms[3], forms[4] = _before_hard_vowel(stem) + "ons", stem + "ez"
    return tuple(forms)


@cache
def imperfect(verb: Verb) -> tuple[str, ...]:
    """Return the six forms of the imparfait."""
    stem = "ét" if verb.fr == "être" else present(verb)[3].removesuffix("ons")
    soft = re.sub("ç$", "c", re.sub("ge$", "g", stem))
    return tuple((soft if end[0] == "i" else stem) + end for end in IMPERFECT)


@cache
def _future_stem(verb: Verb) -> str:
    stem, group = verb.fr[:-2], verb.fr[-2:]
    if verb.fr_future:
        return verb.fr_future
    if group == "er":
        # Verbs in é...er keep their é in the future: préférer -> préférera.
        return (stem if re.search(r"é.$", stem) else _light_stem(stem)) + "er"
    return verb.fr.removesuffix("e")


def future(verb: Verb) -> tuple[str, ...]:
    """Return the six forms of the futur."""
    return tuple(_future_stem(verb) + end for end in FUTURE)


def conditional(verb: Verb) -> tuple[str, ...]:
    """Return the six forms of the conditionnel."""
    return tuple(_future_stem(verb) + end for end in IMPERFECT)


SIMPLE_TENSES: dict[str, Callable[[Verb], tuple[str, ...]]] = {
    "present": present,
    "imperfect": imperfect,
    "future": future,
    "conditional": conditional,
}


def participle(verb: Verb, agreement: Agreement | None = None) -> str:
    """Return the past participle, which agrees if an agreement is given."""
    form = verb.fr_participle or verb.fr[:-2] + PARTICIPLE[verb.fr[-2:]]
    if agreement is None:
        return form
    # dû and similar lose their accent when anything is added.
    if agreement.feminine:
        form = form.replace("û", "u") + "e"
    return form + "s" if agreement.plural and not form.endswith("s") else form


def imperative(verb: Verb, person: int) -> str:
    """Return the imperative for `nous` (3) or `vous` (4)."""
    return IMPERATIVE.get(verb.fr, present(verb)[3:5])[person - 3]


def infinitive(verb: Verb, person: int = 2) -> str:
    """Return the infinitive, with the reflexive pronoun of the person."""
    return f"{REFLEXIVES[person]} {verb.fr}" if verb.auxiliary == "se" else verb.fr


def verb_group(
    verb: Verb,
    tense: str,
    subject: Agreement,
    *,
    negation: str = "",
    clitic: str = "",
    clitic_agreement: Agreement | None = None,
    adverb: str = "",
) -> str:
    """Build the whole verb: ne, pronoun, auxiliary, pas, adverb, participle.

    Args:
        verb: The verb.
        tense: A key of `SIMPLE_TENSES`, or ``perfect`` for the passé composé.
        subject: What the verb agrees with.
        negation: ``pas``, ``jamais``, ``plus`` or empty.
        clitic: An object pronoun before the verb.
        clitic_agreement: Set for a direct object pronoun: with avoir, the participle
            agrees with it.
        adverb: A short adverb after the conjugated verb.
    """
    reflexive = verb.auxiliary == "se"
    pronoun = REFLEXIVES[subject.person] if reflexive else clitic
    if tense == "perfect":
        with_be = verb.auxiliary != "avoir"
        finite = (PRESENT_OF_BE if with_be else PRESENT_OF_HAVE)[subject.person]
        tail = participle(verb, subject if with_be else clitic_agreement)
    else:
        finite, tail = SIMPLE_TENSES[tense](verb)[subject.person], ""
    return join("ne" if negation else "", pronoun, finite, negation, adverb, tail)


# ------------------------------------------------------------------- numbers and time


def number(n: int, feminine: bool = False) -> str:
    """Write a number from 0 to 100 in words."""
    if not 0 <= n <= 100:
        raise ValueError(f"number out of range: {n}")
    if n == 100:
        return "cent"
    if n < 20:
        words = NUMBERS[n]
    elif n < 70:
        tens, unit = TENS[n - n % 10], n % 10
        words = tens if not unit else f"{tens} et un" if unit == 1 else f"{tens}-{NUMBERS[unit]}"
    elif n < 80:
        words = "soixante et onze" if n == 71 else f"soixante-{NUMBERS[n - 60]}"
    else:
        words = "quatre-vingts" if n == 80 else f"quatre-vingt-{NUMBERS[n - 80]}"
    return words + "e" if feminine and re.search(r"\bun$", words) else words


def date(day: int, month: str) -> str:
    """Write a date: `le 1er mai`, `le 3 mai`."""
    return f"le {'1er' if day == 1 else day} {month}"


def clock(hour: int, minute: int) -> str:
    """Write a clock time on the twelve-hour dial, minutes in steps of five."""
    if minute > 30:
        hour = hour % 12 + 1
    hours = {12: "midi"}.get(hour) or f"{number(hour, True)} heure{'s' if hour > 1 else ''}"
    quarters = {0: "", 15: "et quart", 30: "et demie" if hour != 12 else "et demi"}
    if minute in quarters:
        return join(hours, quarters[minute])
    if minute < 30:
        return f"{hours} {number(minute)}"
    return f"{hours} moins {'le quart' if minute == 45 else number(60 - minute)}"


# ---------------------------------------------------------------------------- spelling

_ELIDING = re.compile(r"(?<![\w'-])([JjMmTtSsNnLl]e|[Ll]a|[Dd]e|[Qq]ue|[Cc]e) (?=(\S+))")
_SI = re.compile(r"\b([Ss])i (?=ils?\b)")
_CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}
_CONTRACTING = re.compile(r"(?<![\w'-])(de le|de les|à le|à les)(?= )")


def join(*parts: str) -> str:
    """Join the non-empty parts with single spaces."""
    return " ".join(part for part in parts if part)


def _elide(match: re.Match[str]) -> str:
    return match[1][:-1] + "'" if starts_with_vowel(match[2]) else match[0]


def spell(text: str) -> str:
    """Apply elision and contraction to a whole sentence: `je ai` -> `j'ai`.

    Elision comes first, so that `à le hôtel` gives `à l'hôtel` and not `au hôtel`.
    """
    text = _SI.sub(r"\1'", _ELIDING.sub(_elide, text))
    return _CONTRACTING.sub(lambda match: _CONTRACTIONS[match[0]], text)
