"""Questions: mostly with `est-ce que`, a few set ones with inversion."""

from bilingual import (
    HE,
    SUBJECT_PRONOUNS,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    adjective_phrase,
    ask,
    noun_phrase,
    question,
)
from drawing import NOTHING, RELATIVES, Draw, Pattern
from words import Noun, Verb

INVERTED = {"you": "êtes-vous", "he": "est-il", "she": "est-elle", "they": "sont-ils"}
HAVE = ("pet", "object", "vehicle", "house", "garden", "brother", "sister", "idea", "question")


def _asked(d: Draw, verb: Verb, what: Phrase, tense: Tense, in_front: bool = False) -> Phrase:
    """Build a question about an action; `in_front`: its object comes before the verb."""
    who = d.asked(verb, d.lexicon.noun(what.head))
    return ask(who, verb, tense, what.agreement if in_front else None)


def are_they_doing(d: Draw) -> Sentence:
    """Are you reading the newspaper? Will she wear a hat tomorrow?"""
    _, verb, what = d.action("do")
    if d.chance(0.5):
        return question(_asked(d, verb, what, Tense.NOW), what, keys=[(verb, what)])
    when = d.when(0.5, "future", verb, what)
    return question(_asked(d, verb, what, Tense.FUTURE), what, when, keys=[(verb, what)])


def did_they(d: Draw) -> Sentence:
    """Did you find the key?"""
    _, verb, what = d.action("complete", "event", "mishap")
    when = d.when(0.3, "past", verb, what)
    clause = _asked(d, verb, what, Tense.PAST)
    return question(clause, what, when, keys=[(verb, what)])


def where_did_they(d: Draw) -> Sentence:
    """Where did you buy this hat?"""
    verb = d.lexicon.verb(d.random.choice(("buy", "find", "hide", "lose", "learn", "see")))
    what = d.known(d.pick(d.lexicon.objects_of(verb)))
    clause = _asked(d, verb, what, Tense.PAST)
    return question(Both("where", "où"), clause, what, keys=[(verb, what)])


def when_will_they(d: Draw) -> Sentence:
    """When will you visit the museum?"""
    _, verb, what = d.known_action("complete")
    clause = _asked(d, verb, what, Tense.FUTURE)
    return question(Both("when", "quand"), clause, what, keys=[(verb, what)])


def why_did_they(d: Draw) -> Sentence:
    """Why did he sell his bike?"""
    _, verb, what = d.known_action("willed")
    clause = _asked(d, verb, what, Tense.PAST)
    return question(Both("why", "pourquoi"), clause, what, keys=[(verb, what)])


def how_many(d: Draw) -> Sentence:
    """How many apples did you buy?"""
    verb = d.lexicon.verb(
        d.random.choice(("buy", "eat", "see", "sell", "find", "break", "write", "draw", "receive"))
    )
    noun = d.pick([n for n in d.lexicon.objects_of(verb) if n.count != "mass"])
    what = d.bare(noun)
    asked = Both(f"how many {what.en}", f"combien {what.fr}")
    clause = _asked(d, verb, what, Tense.PAST, in_front=True)
    return question(asked, clause, d.when(0.2, "past", verb, what), keys=[(verb, what)])


def which_one(d: Draw) -> Sentence:
    """Which dress did you choose?"""
    verb = d.pick([v for v in d.lexicon.verbs_of("complete") if v.en not in ("do", "begin")])
    noun = d.pick([n for n in d.lexicon.objects_of(verb) if n.count != "mass"])
    plural = noun.count == "pair" or (noun.count == "count" and d.chance(0.3))
    what = noun_phrase(d.lexicon.determiners["which"], noun, plural)
    clause = _asked(d, verb, what, Tense.PAST, in_front=True)
    return question(what, clause, d.when(0.2, "past", verb, what), keys=[(verb, what)])


def who_did(d: Draw) -> Sentence:
    """Who broke the window?"""
    _, verb, what = d.known_action("do", "event", "mishap")
    return question(_who_acts(verb), what, d.when(0.3, "past", verb, what), keys=[(verb, what)])


def _who_acts(verb: Verb) -> Both:
    """Build a question for the subject: `who` takes the place of `he`."""
    clause = act(HE, verb, Tense.PAST)
    return Both("who" + clause.en.removeprefix("he"), "qui" + clause.fr.removeprefix("il"))


def do_you_have(d: Draw) -> Sentence:
    """Do you have a red pen?"""
    noun = d.noun(*HAVE, "food", "drink", "ingredient")
    name = "any" if noun.count == "mass" else "some" if noun.count == "pair" else "a"
    what = _any(d, noun) if name == "any" else d.phrase(name, noun, adjectives=0.6)
    return question(Both("do you have", "avez-vous"), what, keys=[("have", what)])


def _any(d: Draw, noun: Noun) -> Phrase:
    """Build `any milk`: in questions French keeps the partitive article."""
    some = d.phrase("some", noun)
    return Phrase("any" + some.en.removeprefix("some"), some.fr, some.agreement, some.head)


def are_you(d: Draw) -> Sentence:
    """Are you tired?"""
    who = d.pick(tuple(p for p in SUBJECT_PRONOUNS if p.head in INVERTED))
    adjective = d.trait()
    be = "is" if who.agreement.person == 2 else "are"
    asked = Both(f"{be} {who.en}", INVERTED[who.head])
    return question(
        asked,
        d.degree(adjective, 0.4),
        adjective_phrase(adjective, who.agreement),
        d.maybe(0.6, "today", "now") if d.is_passing(adjective) else NOTHING,
        keys=[(who, adjective)],
    )


def is_it(d: Draw) -> Sentence:
    """Is this book interesting?"""
    noun = d.pick([n for n in d.lexicon.nouns if d.lexicon.adjectives_for(n, "predicate")])
    owned = noun.is_any(RELATIVES)
    what = d.phrase(d.owner() if owned else d.random.choice(("this", "the")), noun, d.plural(noun))
    adjective = d.pick(d.lexicon.adjectives_for(noun, "predicate"))
    be = Both("are", "sont") if what.agreement.plural else Both("is", "est")
    subject = Both(f"{be.en} {what.en}", f"est-ce que {what.fr} {be.fr}")
    return question(subject, adjective_phrase(adjective, what.agreement), keys=[(adjective, noun)])


PATTERNS: tuple[Pattern, ...] = (
    are_they_doing,
    did_they,
    where_did_they,
    when_will_they,
    why_did_they,
    how_many,
    which_one,
    who_did,
    do_you_have,
    are_you,
    is_it,
)
