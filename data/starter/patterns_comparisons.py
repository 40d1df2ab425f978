"""Comparatives and superlatives."""

import english
import french
from bilingual import Both, Phrase, Sentence, Tense, act, sentence
from drawing import RELATIVES, Draw, Pattern
from words import Adjective, Noun

# Only things of one sort are compared: a dress with a coat, not with a lake.
SORTS = (
    "kin",
    "animal",
    "fruit",
    "drink",
    "text",
    "clothes",
    "furniture",
    "vehicle",
    "transport",
    "room",
    "place",
    "landscape",
    "thought",
    "container",
    "town",
    "show",
)


def _comparison(adjective: Adjective, what: Phrase, degree: str) -> Both:
    """Build `taller than` or `as tall as`, agreeing in French."""
    agreement = what.agreement
    if degree == "as":
        form = french.adjective_form(adjective, agreement.feminine, agreement.plural)
        return Both(f"as {adjective.en} as", f"aussi {form} que")
    better = french.comparative(adjective, agreement.feminine, agreement.plural)
    return Both(f"{adjective.en_comparative} than", f"{better} que")


def _rivals(d: Draw, noun: Noun, adjective: Adjective) -> list[Noun]:
    """List the things that the noun can be compared with."""
    sort = next((tag for tag in SORTS if tag in noun.tags), "")
    countable = [n for n in d.lexicon.nouns_of(sort) if n.count == noun.count]
    return [n for n in countable if n != noun and adjective.suits(n)]


def compares(d: Draw) -> Sentence:
    """The train is more comfortable than the bus."""
    rivals: list[Noun] = []
    while not rivals:
        noun, adjective = d.graded("predicate")
        rivals = _rivals(d, noun, adjective)
    other, plural = d.pick(rivals), d.plural(noun, 0.2)
    name = d.owner() if noun.is_any(RELATIVES) else "this" if d.chance(0.3) else "the"
    what = d.phrase(name, noun, plural)
    against = d.phrase(d.owner() if other.is_any(RELATIVES) else "the", other, plural)
    be = act(what, d.lexicon.verb("be"), Tense.PRESENT)
    quality = _comparison(adjective, what, d.random.choice(("more", "more", "as")))
    return sentence(be, quality, against, keys=[(adjective, noun), (adjective, other)])


def compares_people(d: Draw) -> Sentence:
    """Marie is taller than Paul."""
    first = d.pick((d.name(), d.somebody(plural=False)))
    second = d.pick((d.name(), d.somebody(plural=False)))
    adjective = d.trait()
    if first.head == second.head or not adjective.en_comparative or adjective.use != "both":
        return compares_people(d)
    quality = _comparison(adjective, first, d.random.choice(("more", "more", "as")))
    be = act(first, d.lexicon.verb("be"), Tense.PRESENT)
    return sentence(be, quality, second, keys=[(adjective, first), (adjective, second)])


def superlative(d: Draw) -> Sentence:
    """It is the oldest house in the village."""
    if d.chance(0.5):
        return _superlative_there(d)
    scene = d.pick(d.lexicon.scenes)
    options: list[Adjective] = []
    while not options:
        noun = d.noun(*scene.goes_with)
        options = [a for a in d.lexicon.adjectives_for(noun, "attribute") if a.en_comparative]
    adjective = d.pick(options)
    place = d.phrase("the", d.lexicon.noun(scene.en))
    best = _superlative(adjective, noun)
    where = Both(f"{scene.preposition} {place.en}", f"de {place.fr}")
    return sentence(best, where, keys=[(adjective, noun)])


def _superlative_there(d: Draw) -> Sentence:
    """Build a sentence such as `It is the most beautiful island in Spain`."""
    noun = d.noun("landscape", "town", "castle", "museum", "bridge", "beach", "church")
    options = [a for a in d.lexicon.adjectives_for(noun, "attribute") if a.en_comparative]
    adjective = d.pick(options)
    place = d.pick(d.lexicon.places_of("country"))
    where = Both(f"in {place.en}", f"de {place.article}{place.fr}")
    best = _superlative(adjective, noun)
    return sentence(best, where, keys=[(adjective, noun), (noun, place)])


def _superlative(adjective: Adjective, noun: Noun) -> Both:
    """Build `it is the oldest house`; French has some adjectives before the noun, some after it."""
    english_form = english.superlative(adjective)
    french_form = french.superlative(adjective, noun)
    return Both(f"it is the {english_form} {noun.en}", f"c'est {french_form}")


PATTERNS: tuple[Pattern, ...] = (compares, compares_people, superlative)
