"""Patterns about places: where things are, where people live, go and come from; weather."""

import english
import french
from bilingual import (
    NEVER,
    NOT,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    counted,
    sentence,
    word,
)
from drawing import NOTHING, Draw, Pattern
from words import Locality, Noun


def _find(d: Draw) -> tuple[Noun, Both, Phrase]:
    """Draw a thing, a preposition and a place."""
    spot = d.pick(d.lexicon.locations)
    thing, place = d.noun(*spot.things), d.noun(*spot.places)
    while thing == place:
        place = d.noun(*spot.places)
    owned = place.is_any(("furniture", "container", "room")) and d.chance(0.3)
    where = d.phrase(d.owner() if owned else "the", place)
    return thing, word(spot), where


def there_is(d: Draw) -> Sentence:
    """There is a cat in the garden."""
    noun, preposition, where = _find(d)
    tense = d.random.choice(("is", "is", "was"))
    what = _some_or_number(d, noun)
    be = {"is": ("are", "is"), "was": ("were", "was")}[tense][not what.agreement.plural]
    start = Both(f"there {be}", "il y a" if tense == "is" else "il y avait")
    return sentence(start, what, preposition, where, keys=[(noun, where)])


def there_is_no(d: Draw) -> Sentence:
    """There is no milk on the table."""
    noun, preposition, where = _find(d)
    plural = noun.count == "pair" or (noun.count == "count" and d.chance(0.4))
    tense = d.random.choice(("is", "was"))
    be = {"is": ("is", "are"), "was": ("was", "were")}[tense][plural]
    start = Both(f"there {be} no", f"il n'y {'a' if tense == 'is' else 'avait'} pas")
    what = Both(english.noun_form(noun, plural), "de " + french.noun_form(noun, plural))
    return sentence(start, what, preposition, where, keys=[(noun, where)])


def _some_or_number(d: Draw, noun: Noun) -> Phrase:
    """Build `some bread`, `a red book` or `three chairs`."""
    if noun.count == "count" and d.chance(0.3):
        return d.numbered(noun, 6)
    return d.phrase("some", noun) if noun.count == "mass" else d.phrase("a", noun, adjectives=0.4)


def there_are_many(d: Draw) -> Sentence:
    """There are forty-two chairs in the restaurant."""
    things, places = d.pick(CROWDS)
    noun, place, n = d.noun(*things), d.phrase("the", d.noun(*places)), d.integer(13, 100)
    start = d.pick((Both("there are", "il y a"), Both("there were", "il y avait")))
    return sentence(start, counted(n, noun), Both("in", "dans"), place, keys=[(noun, f"{n} there")])


# Things that are counted by the dozen, and their places.
CROWDS = (
    (("chair", "table", "tourist", "bottle", "plate", "woman", "man"), ("restaurant", "hotel")),
    (("student", "child", "computer", "girl", "boy", "lamp"), ("school",)),
    (("book", "novel", "newspaper", "magazine", "student"), ("library",)),
    (("house", "street", "restaurant", "store", "car", "dog"), ("village",)),
    (("tree", "flower", "bird", "child", "duck"), ("park", "garden")),
    (("engineer", "doctor", "nurse", "bed"), ("hospital",)),
    (("apple", "pear", "egg", "tomato", "lemon", "strawberry"), ("basket", "kitchen")),
)


def there_is_enough(d: Draw) -> Sentence:
    """There are too many books on the desk."""
    noun, preposition, where = _find(d)
    many = noun.count != "mass"
    amount = d.pick(AMOUNTS)
    start = Both(f"there {'are' if many else 'is'}", "il y a")
    quantity = Both(amount[2] if many else amount[1], amount[0])
    what = Both(english.noun_form(noun, many), french.noun_form(noun, many))
    return sentence(start, quantity, what, preposition, where, keys=[(noun, where)])


AMOUNTS = (
    ("beaucoup de", "a lot of", "a lot of"),
    ("trop de", "too much", "too many"),
    ("assez de", "enough", "enough"),
    ("peu de", "little", "few"),
)


def is_where(d: Draw) -> Sentence:
    """The keys are on the table."""
    noun, preposition, where = _find(d)
    what = d.known(noun)
    tense = d.random.choice((Tense.PRESENT, Tense.PRESENT, Tense.STATE_PAST))
    be = act(what, d.lexicon.verb("be"), tense, d.perhaps(NOT, 0.25))
    return sentence(be, preposition, where, keys=[(noun, where)])


# -------------------------------------------------------------------- going and living


def _in(place: Locality) -> Both:
    """Build `in` with a place: à Paris, en France, au Canada."""
    return Both(f"in {place.en}", french.at_place(place))


def lives_in(d: Draw) -> Sentence:
    """My brother lives in Japan. She was born in Rome."""
    who, place = d.subject(), d.pick(d.lexicon.places)
    name, tense = d.pick(LIVING)
    return sentence(act(who, d.lexicon.verb(name), tense), _in(place), keys=[(who, place)])


LIVING = (
    ("live", Tense.PRESENT),
    ("live", Tense.USED_TO),
    ("work", Tense.NOW),
    ("be born", Tense.PAST),
)


def goes_to_country(d: Draw) -> Sentence:
    """We will go to Canada next month."""
    who, place = d.subject(), d.pick(d.lexicon.places)
    go, (tense, time) = d.lexicon.verb("go"), d.pick(TRAVEL_TIMES)
    to = Both(f"to {place.en}", french.at_place(place))
    return sentence(act(who, go, tense), to, d.maybe(0.7, *time), keys=[(who, place)])


TRAVEL_TIMES = (
    (Tense.PAST, ("past long", "past slow", "month time")),
    (Tense.FUTURE, ("future long", "future slow", "month time")),
    (Tense.PRESENT, ("habit long",)),
)


def comes_from(d: Draw) -> Sentence:
    """He comes from Portugal."""
    who, place = d.subject(), d.pick(d.lexicon.places)
    come = act(who, d.lexicon.verb("come"), Tense.PRESENT, d.perhaps(NOT, 0.3))
    origin = Both(f"from {place.en}", f"de {place.article}{place.fr}")
    return sentence(come, origin, keys=[(who, place)])


def goes_to(d: Draw) -> Sentence:
    """We are going to the cinema."""
    who, noun = d.subject(), d.noun("place", "swimming pool", "castle")
    go, (tense, time) = d.lexicon.verb("go"), d.pick(OUTING_TIMES)
    there = d.phrase("the", noun)
    beside = d.frequency() if tense is Tense.PRESENT and d.chance(0.5) else d.perhaps(NOT, 0.15)
    when = NOTHING if beside.en_adverb else d.maybe(0.6, time)
    to = Both(f"to {there.en}", f"à {there.fr}")
    return sentence(act(who, go, tense, beside), to, when, keys=[(noun, who)])


OUTING_TIMES = (
    (Tense.NOW, "now"),
    (Tense.PAST, "past"),
    (Tense.FUTURE, "future"),
    (Tense.PRESENT, "habit"),
)


def never_been(d: Draw) -> Sentence:
    """I have never visited Italy."""
    who, place = d.subject(), d.pick(d.lexicon.places)
    article = {"f": "la ", "m": "le ", "p": "les "}.get(place.gender, "")
    clause = act(who, d.lexicon.verb("visit"), Tense.PERFECT, NEVER)
    return sentence(clause, Both(place.en, article + place.fr), keys=[(who, place)])


def weather(d: Draw) -> Sentence:
    """It is cold in Paris today. It was raining in London this morning."""
    kind, time = d.pick(SKIES)
    return _sky_over(d, d.adverb(kind), d.maybe(0.7, time))


SKIES = (
    ("weather", "today"),
    ("weather", "now"),
    ("past weather", "past day"),
    ("past weather", "past day"),
)


def forecast(d: Draw) -> Sentence:
    """It will snow in Canada tomorrow. It is often hot in Spain in summer."""
    if d.chance(0.6):
        return _sky_over(d, d.adverb("future weather"), d.maybe(0.8, "future"))
    adverb, quality = d.adverb("frequency"), d.adverb("climate")
    usual = Both(f"it is {adverb.en} {quality.en}", f"il fait {adverb.fr} {quality.fr}")
    return _sky_over(d, usual, d.adverb("season"))


def _sky_over(d: Draw, sky: Both, when: Both) -> Sentence:
    """Build a sentence about the weather at a place and a time."""
    place = d.pick(d.lexicon.places)
    return sentence(sky, _in(place), when, keys=[(sky.en, place.en)])


PATTERNS: tuple[Pattern, ...] = (
    there_is,
    there_is_no,
    there_are_many,
    there_is_enough,
    is_where,
    lives_in,
    goes_to_country,
    comes_from,
    goes_to,
    never_been,
    weather,
    forecast,
)
