"""Patterns that say what things and people are, have and feel."""

import english
import french
from bilingual import (
    NOT,
    SUBJECT_PRONOUNS,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    adjective_phrase,
    noun_phrase,
    sentence,
)
from drawing import NOTHING, Draw, Pattern
from words import Adjective

NOW_OR_THEN = (Tense.PRESENT, Tense.PRESENT, Tense.STATE_PAST)
PRONOUN_HEADS = frozenset(pronoun.head for pronoun in SUBJECT_PRONOUNS)
MINIMUM_AGE = {"grandfather": 60, "grandmother": 60}
OWN_BODY = {"I": "my", "he": "his", "she": "her", "you": "your"}
POSSESSIONS = ("pet", "farm animal", "object", "vehicle", "clothes", "furniture", "house", "garden")
MOOD_TIMES = ((Tense.PRESENT, "today"), (Tense.STATE_PAST, "past day"))
LIKED = ("food", "drink", "animal", "film", "song", "novel", "poem", "sight", "landscape", "flower")
OPPOSITES = (
    {"good", "bad"},
    {"interesting", "boring"},
    {"funny", "boring"},
    {"good", "boring"},
    {"easy", "difficult"},
    {"clean", "dirty"},
    {"quiet", "noisy"},
    {"happy", "sad"},
    {"rich", "poor"},
    {"modern", "old"},
    {"brave", "shy"},
    {"serious", "lazy"},
    {"beautiful", "dirty"},
    {"pretty", "dirty"},
)


def is_like(d: Draw) -> Sentence:
    """The house is old. The chairs were not comfortable."""
    noun, adjective = d.described("predicate")
    what = d.mentioned(noun)
    tense, beside = d.random.choice(NOW_OR_THEN), d.perhaps(NOT, 0.3)
    be = act(what, d.lexicon.verb("be"), tense, beside)
    degree = NOTHING if beside is NOT else d.degree(adjective, 0.3)
    quality = adjective_phrase(adjective, what.agreement)
    return sentence(be, degree, quality, keys=[(adjective, noun)])


def person_is(d: Draw) -> Sentence:
    """They are very tired today. She seems happy."""
    who, adjective = d.pick((d.pronoun(), d.pronoun(), d.name())), d.trait()
    quality, degree = adjective_phrase(adjective, who.agreement), d.degree(adjective, 0.4)
    if adjective.en_comparative and d.chance(0.4):
        seem = act(who, d.lexicon.verb("seem"), Tense.PRESENT)
        return sentence(seem, degree, quality, keys=[(adjective, who)])
    passing = d.is_passing(adjective)
    tense, time = d.pick(MOOD_TIMES) if passing else (Tense.PRESENT, "today")
    be = act(who, d.lexicon.verb("be"), tense)
    when = d.maybe(0.6, time) if passing else NOTHING
    return sentence(be, degree, quality, when, keys=[(adjective, who)])


def this_is(d: Draw) -> Sentence:
    """This is a beautiful tree."""
    noun, adjective = d.described("attribute", countable=True)
    plural = d.plural(noun)
    what = noun_phrase(d.lexicon.determiners["a"], noun, plural, adjective)
    start = Both("these are", "ce sont") if plural else Both("this is", "c'est")
    shown = Both(what.en.removeprefix("some "), what.fr)
    return sentence(start, shown, keys=[(adjective, noun)])


def profession(d: Draw) -> Sentence:
    """My aunt is a doctor."""
    noun = d.noun("profession")
    who = d.pick((d.pronoun(), d.name(), d.phrase(d.owner(), d.noun("kin"))))
    many, fr = who.agreement.plural, noun.fr_feminine if who.agreement.feminine else noun.fr
    # French names the profession without an article.
    job = Both(
        english.noun_form(noun, True) if many else english.with_article(noun.en),
        french.pluralize(fr) if many else fr,
    )
    be = act(who, d.lexicon.verb("be"), d.random.choice(NOW_OR_THEN), d.perhaps(NOT, 0.25))
    return sentence(be, job, keys=[(noun, who)])


def belongs_to(d: Draw) -> Sentence:
    """Paul's car is red."""
    noun, adjective = d.described("predicate", "object", "clothes", "vehicle", "pet", "house")
    owner = d.owner_for(noun)
    while owner.agreement.plural or owner.head in PRONOUN_HEADS:
        owner = d.owner_for(noun)
    what = d.phrase("the", noun, d.plural(noun))
    thing = what.en.removeprefix("the ")
    owned = Phrase(f"{owner.en}'s {thing}", f"{what.fr} de {owner.fr}", what.agreement, noun.en)
    be = act(owned, d.lexicon.verb("be"), d.random.choice(NOW_OR_THEN))
    return sentence(be, adjective_phrase(adjective, what.agreement), keys=[(adjective, noun)])


def small_but(d: Draw) -> Sentence:
    """The house is small but comfortable."""
    while True:
        noun, first = d.described("predicate")
        others = [a for a in d.lexicon.adjectives_for(noun, "predicate") if _contrast(first, a)]
        if others:
            break
    second, what = d.pick(others), d.mentioned(noun)
    be = act(what, d.lexicon.verb("be"), d.random.choice(NOW_OR_THEN))
    return sentence(
        be,
        adjective_phrase(first, what.agreement),
        Both("but", "mais"),
        adjective_phrase(second, what.agreement),
        keys=[(first, noun), (second, noun)],
    )


def _contrast(one: Adjective, other: Adjective) -> bool:
    """Tell whether one quality is good and the other bad, but they are no opposites."""
    if "bad" in (one.en, other.en):
        return False
    opposed = {one.rating, other.rating} == {"good", "bad"}
    return opposed and {one.en, other.en} not in OPPOSITES


def feeling(d: Draw) -> Sentence:
    """The children are hungry: French `has` hunger."""
    who, state = d.subject(), d.adverb("feeling", "opinion")
    tense, beside = d.random.choice((Tense.PRESENT, Tense.STATE_PAST)), d.perhaps(NOT, 0.3)
    be = act(who, d.lexicon.verb("be"), tense, beside)
    have = act(who, d.lexicon.verb("have"), tense, beside)
    clause = Phrase(be.en, have.fr, who.agreement, "be", who.inner)
    degree = NOTHING if state.en in ("right", "wrong") else d.maybe(0.3, "degree of feeling")
    return sentence(clause, degree, state, keys=[(state.en, who)])


def age(d: Draw) -> Sentence:
    """My sister is twelve years old: French `has` twelve years."""
    noun = d.noun("kin", "friend", "neighbor", "teacher")
    who = d.pick((d.pronoun(), d.name(), d.phrase(d.owner(), noun)))
    low = MINIMUM_AGE.get(noun.en, 35 if "adult" in noun.tags else 5)
    years = d.integer(low if who.head == noun.en else 5, 95)
    be = act(who, d.lexicon.verb("be"), Tense.PRESENT)
    have = act(who, d.lexicon.verb("have"), Tense.PRESENT)
    number = Both(f"{english.number(years)} years old", f"{french.number(years)} ans")
    return sentence(Both(be.en, have.fr), number, keys=[(f"{years} years", who)])


def hurts(d: Draw) -> Sentence:
    """My brother's back hurts: in French he has pain in the back."""
    noun, have = d.noun("body"), d.lexicon.verb("have")
    part = d.phrase("the", noun)
    me_or_you = d.pick(tuple(p for p in SUBJECT_PRONOUNS if p.head in OWN_BODY))
    who = d.pick((me_or_you, d.name(), d.somebody(plural=False)))
    owner = OWN_BODY.get(who.head) or f"{who.en}'s"
    pain = Both(f"{owner} {noun.en} hurts", f"{act(who, have, Tense.PRESENT).fr} mal à {part.fr}")
    return sentence(pain, d.maybe(0.5, "today", "now"), keys=[(noun, who)])


def likes(d: Draw) -> Sentence:
    """The children love old films: French needs the article."""
    who, verb, noun = d.subject(), d.verb("taste"), d.noun(*LIKED)
    avoided = "good" if verb.en == "hate" else "bad"
    options = [a for a in d.lexicon.adjectives_for(noun, "attribute") if a.rating != avoided]
    fussy = noun.count != "mass" and not noun.is_any(("food", "animal")) and d.chance(0.5)
    adjective = d.pick(options) if options and fussy else None
    the = noun_phrase(d.lexicon.determiners["the"], noun, noun.count != "mass", adjective)
    what = Phrase(the.en.removeprefix("the "), the.fr, the.agreement, noun.en, the.inner)
    beside = d.perhaps(NOT, 0.3 if verb.en == "like" else 0)
    return sentence(act(who, verb, Tense.PRESENT, beside), what, keys=[(verb, noun)])


def has(d: Draw) -> Sentence:
    """My uncle has two dogs."""
    noun = d.noun(*POSSESSIONS)
    who = d.owner_for(noun)
    numbered = noun.count == "count" and noun.is_any(("pet", "farm animal", "house", "clothes"))
    what = d.numbered(noun) if numbered and d.chance(0.6) else d.phrase("a", noun, adjectives=0.85)
    return sentence(act(who, d.lexicon.verb("have"), Tense.PRESENT), what, keys=[("have", what)])


def has_no(d: Draw) -> Sentence:
    """We do not have a car."""
    noun = d.noun(*POSSESSIONS, "drink", "dish", "ingredient")
    who = d.owner_for(noun)
    what = d.none_of(noun)
    have = act(who, d.lexicon.verb("have"), Tense.PRESENT, NOT)
    return sentence(have, what, keys=[("have", noun)])


PATTERNS: tuple[Pattern, ...] = (
    is_like,
    person_is,
    this_is,
    profession,
    belongs_to,
    small_but,
    feeling,
    age,
    hurts,
    likes,
    has,
    has_no,
)
