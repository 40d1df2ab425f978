"""Patterns of plain actions: who does what, in each tense, affirmed and denied."""

from bilingual import (
    ALREADY,
    NEVER,
    NO_LONGER,
    NOT,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    infinitive,
    sentence,
)
from drawing import Draw, Pattern

DENIED = ((Tense.NOW, "now"), (Tense.PAST, "past"), (Tense.FUTURE, "future"))


def happening_now(d: Draw) -> Sentence:
    """My sister is reading a letter."""
    who, verb, what = d.action("do")
    return sentence(act(who, verb, Tense.NOW), what, d.maybe(0.3, "now"), keys=[(verb, what)])


def done(d: Draw) -> Sentence:
    """The nurse bought a red dress yesterday."""
    who, verb, what = d.action("do", "event", "mishap")
    when = d.when(0.6, "past", verb, what)
    return sentence(act(who, verb, Tense.PAST), what, when, keys=[(verb, what)])


def will_do(d: Draw) -> Sentence:
    """We will visit the castle tomorrow."""
    who, verb, what = d.action("do", "event")
    when = d.when(0.6, "future", verb, what)
    return sentence(act(who, verb, Tense.FUTURE), what, when, keys=[(verb, what)])


def was_doing(d: Draw) -> Sentence:
    """They were watching a film yesterday evening."""
    who, verb, what = d.action("do")
    when = d.maybe(0.4, "past day")
    return sentence(act(who, verb, Tense.WAS_DOING), what, when, keys=[(verb, what)])


def going_to(d: Draw) -> Sentence:
    """Paul is going to sell his car."""
    who, verb, what = d.action("do")
    going = act(who, d.lexicon.verb("go"), Tense.NOW)
    when = d.when(0.3, "future", verb, what)
    return sentence(going, Both("to", ""), infinitive(verb, who), what, when, keys=[(verb, what)])


def habit(d: Draw) -> Sentence:
    """My father often takes the bus. We read the newspaper every morning."""
    who, verb, what = d.habit()
    if d.chance(0.5):
        often = act(who, verb, Tense.PRESENT, d.frequency())
        return sentence(often, what, keys=[(verb, what)])
    return sentence(act(who, verb, Tense.PRESENT), what, d.adverb("habit"), keys=[(verb, what)])


def used_to(d: Draw) -> Sentence:
    """He used to read the newspaper every morning."""
    who, verb, what = d.habit()
    when = d.maybe(0.7, "habit")
    return sentence(act(who, verb, Tense.USED_TO), what, when, keys=[(verb, what)])


def does_not(d: Draw) -> Sentence:
    """He does not eat any meat: after the negation French has only `de`."""
    who, verb, noun = d.consumption()
    what = d.bare(noun, "any")
    return sentence(act(who, verb, Tense.PRESENT, NOT), what, keys=[(verb, what)])


def never(d: Draw) -> Sentence:
    """My aunt never drinks coffee. We no longer buy meat."""
    who, verb, noun = d.consumption()
    what = d.bare(noun)
    beside = d.pick((NEVER, NO_LONGER))
    return sentence(act(who, verb, Tense.PRESENT, beside), what, keys=[(verb, what)])


def denied(d: Draw) -> Sentence:
    """I did not find the key. She will not wear this hat."""
    who, verb, what = d.known_action("do")
    tense, time = d.pick(DENIED)
    when = d.maybe(0.3, time) if time == "now" else d.when(0.3, time, verb, what)
    return sentence(act(who, verb, tense, NOT), what, when, keys=[(verb, what)])


def already(d: Draw) -> Sentence:
    """They have already finished the exercise."""
    who, verb, what = d.known_action("complete")
    return sentence(act(who, verb, Tense.PERFECT, ALREADY), what, keys=[(verb, what)])


def giving(d: Draw) -> Sentence:
    """The teacher gave a book to the student."""
    verb = d.verb("give")
    who, whom = d.subject(adults=True), d.name() if d.chance(0.3) else d.somebody()
    what = d.object_for(verb, d.pick(d.lexicon.objects_of(verb)), who)
    tense = d.random.choice((Tense.PAST, Tense.FUTURE))
    to = Phrase(f"to {whom.en}", f"à {whom.fr}", whom.agreement, whom.head, whom.inner)
    return sentence(act(who, verb, tense), what, to, keys=[(verb, what)])


PATTERNS: tuple[Pattern, ...] = (
    happening_now,
    done,
    will_do,
    was_doing,
    going_to,
    habit,
    used_to,
    does_not,
    never,
    denied,
    already,
    giving,
)
