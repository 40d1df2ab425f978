"""Patterns with object pronouns, which stand before the French verb."""

import french
from bilingual import (
    INDIRECT_FRENCH,
    NOT,
    OBJECT_PRONOUNS,
    PLAIN,
    PLEASE,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    infinitive,
    pronoun_for,
    sentence,
    topic,
)
from drawing import NOTHING, Draw, Pattern
from french import Agreement
from words import Noun, Verb

TOPIC_TIMES = (
    (Tense.PAST, "past"),
    (Tense.PAST, "past"),
    (Tense.NOW, ""),
    (Tense.FUTURE, "future"),
)

KINDS_BY_TENSE = {
    Tense.PAST: ("complete", "event", "mishap"),
    Tense.NOW: ("do",),
    Tense.FUTURE: ("complete", "event"),
}
MEETING_TIMES = ((Tense.PAST, "past"), (Tense.PAST, "past"), (Tense.FUTURE, "future"))


def topic_does(d: Draw) -> Sentence:
    """The keys? I lost them yesterday."""
    tense, time = d.pick(TOPIC_TIMES)
    who, verb, what = _known_thing(d, *KINDS_BY_TENSE[tense])
    clause = act(who, verb, tense, PLAIN, pronoun_for(what))
    when = d.when(0.4, time, verb, what) if time else NOTHING
    return sentence(topic(what), clause, when, keys=[(verb, what)])


def topic_must(d: Draw) -> Sentence:
    """Your shirt? You must wash it."""
    who, verb, what = _known_thing(d, "duty")
    modal = act(who, d.lexicon.verb(d.random.choice(("must", "can"))), Tense.PRESENT)
    done = infinitive(verb, who, pronoun_for(what))
    return sentence(topic(what), modal, done, keys=[(verb, what)])


def topic_please(d: Draw) -> Sentence:
    """The door? Close it, please."""
    verb = d.pick([v for v in d.lexicon.verbs_of("complete") if "do" in v.kinds])
    what = d.known(d.pick(d.lexicon.objects_of(verb)), None, 0)
    pronoun = pronoun_for(what)
    order = Both(f"{verb.en} {pronoun.en}", f"{french.imperative(verb, 4)}-{pronoun.fr}")
    return sentence(topic(what), order, PLEASE, keys=[(verb, what)])


def _known_thing(d: Draw, *kinds: str) -> tuple[Phrase, Verb, Phrase]:
    """Draw a subject, a verb whose particle stays beside it, and a known object."""
    verb = d.inseparable(*kinds)
    noun: Noun = d.pick(d.lexicon.objects_of(verb))
    return d.doer(verb, noun), verb, d.known(noun, None, 0)


def _pronouns(d: Draw) -> tuple[Phrase, Phrase]:
    """Draw a subject and an object pronoun for somebody else."""
    who = d.subject(adults=True)
    return who, _other(d, who)


def _other(d: Draw, who: Phrase) -> Phrase:
    """Draw an object pronoun that does not refer back to the subject."""
    # `I see us` and `you help you` are no sentences.
    first = ("I", "we")
    own = first if who.head in first else ("you",) if who.head == "you" else ()
    others = [pronoun for pronoun in OBJECT_PRONOUNS if pronoun.head not in own]
    return d.pick(others)


def meets_somebody(d: Draw) -> Sentence:
    """Paul saw her yesterday. We will help them tomorrow."""
    (who, whom), verb = _pronouns(d), d.pick(_momentary(d))
    tense, time = d.pick(MEETING_TIMES)
    clause = act(who, verb, tense, d.perhaps(NOT, 0.25), whom)
    return sentence(clause, d.maybe(0.6, time), keys=[(verb, f"{who.head} {whom.head}")])


def often_meets(d: Draw) -> Sentence:
    """The teacher often helps us. I do not know him."""
    (who, whom), beside = _pronouns(d), d.frequency()
    verb = d.verb("person")
    if "state" in verb.kinds:
        beside = d.perhaps(NOT, 0.5)
    clause = act(who, verb, Tense.PRESENT, beside, whom)
    return sentence(clause, keys=[(verb, f"{who.head} {whom.head}")])


def _momentary(d: Draw) -> list[Verb]:
    """List the verbs for what one can do to a person at one moment."""
    return [v for v in d.lexicon.verbs_of("person") if "state" not in v.kinds]


def _indirect(d: Draw, who: Phrase) -> Phrase:
    """Draw an indirect object pronoun for somebody else: lui, leur, me ..."""
    direct = _other(d, who)
    fr = INDIRECT_FRENCH.get(direct.en, direct.fr)
    # The participle never agrees with an indirect object: elle nous a parlé.
    return Phrase(direct.en, fr, Agreement(direct.agreement.person), direct.head)


def talked_to(d: Draw) -> Sentence:
    """She answered them this morning."""
    who, verb = d.subject(), d.verb("indirect")
    whom = _indirect(d, who)
    tense, time = d.random.choice(((Tense.PAST, "past"), (Tense.FUTURE, "future")))
    clause = act(who, verb, tense, clitic=whom)
    return sentence(clause, d.maybe(0.6, time), keys=[(verb, f"{who.head} {whom.head}")])


def gave_somebody(d: Draw) -> Sentence:
    """I gave him the key."""
    who, verb = d.subject(adults=True), d.verb("give")
    whom = _indirect(d, who)
    what = d.object_for(verb, d.pick(d.lexicon.objects_of(verb)), who)
    tense = d.random.choice((Tense.PAST, Tense.PAST, Tense.FUTURE))
    return sentence(act(who, verb, tense, clitic=whom), what, keys=[(verb, what)])


def wants_to_see(d: Draw) -> Sentence:
    """They want to invite her."""
    who, whom = _pronouns(d)
    verb = d.pick(_momentary(d))
    want, to = d.random.choice((("want", "to"), ("can", ""), ("must", "")))
    modal = act(who, d.lexicon.verb(want), Tense.PRESENT, d.perhaps(NOT, 0.25))
    return sentence(
        modal,
        Both(to, ""),
        infinitive(verb, who, whom),
        d.maybe(0.3, "future"),
        keys=[(verb, f"{who.head} {whom.head}")],
    )


PATTERNS: tuple[Pattern, ...] = (
    topic_does,
    topic_must,
    topic_please,
    meets_somebody,
    often_meets,
    talked_to,
    gave_somebody,
    wants_to_see,
)
