"""Patterns with modal verbs, infinitives and imperatives."""

import french
from bilingual import (
    NOT,
    PLEASE,
    SUBJECT_PRONOUNS,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    infinitive,
    question,
    sentence,
)
from drawing import NOTHING, Draw, Pattern
from words import Noun, Verb

NEEDED = ("product", "clothes", "furniture", "vehicle", "drink", "dish", "ingredient", "tableware")
RESTS = ("sleep", "work", "swim", "dance", "leave", "go home", "rest", "come back", "get up")


MODALS = (("want", "to"), ("can", ""), ("must", ""))


def modal(d: Draw) -> Sentence:
    """My son wants to buy a bike. You must not open this box."""
    who, verb, what = d.action("do")
    name, to = d.pick(MODALS)
    beside = d.perhaps(NOT, 0.25)
    if beside is NOT:  # `pas` would turn `un` into `de`: only known things are denied.
        who, verb, what = d.known_action("do")
    wish = act(who, d.lexicon.verb(name), Tense.PRESENT, beside)
    return sentence(wish, Both(to, ""), infinitive(verb, who), what, keys=[(verb, what)])


def modal_alone(d: Draw) -> Sentence:
    """I want to sleep."""
    who, verb = d.subject(), d.lexicon.verb(d.random.choice(RESTS))
    name, to = d.pick(MODALS)
    wish = act(who, d.lexicon.verb(name), Tense.PRESENT, d.perhaps(NOT, 0.25))
    return sentence(
        wish, Both(to, ""), infinitive(verb, who), d.maybe(0.6, "future"), keys=[(verb, who)]
    )


def knows_how(d: Draw) -> Sentence:
    """He knows how to swim."""
    who, name = d.subject(), d.random.choice(SKILLS)
    know = act(who, d.lexicon.verb("know how"), Tense.PRESENT, d.perhaps(NOT, 0.3))
    if name == "play":
        skill, pastime = infinitive(d.lexicon.verb("play"), who), d.adverb("pastime")
        both = Both(f"{skill.en} {pastime.en}", f"{skill.fr} {pastime.fr}")
        done = Phrase(both.en, both.fr, who.agreement, pastime.en)
    elif name in ("swim", "dance"):
        done = infinitive(d.lexicon.verb(name), who)
    else:
        verb = d.lexicon.verb(name)
        what = d.phrase("a", d.pick(d.lexicon.objects_of(verb)))
        done = Phrase(f"{name} {what.en}", f"{verb.fr} {what.fr}", who.agreement, what.head)
    return sentence(know, Both("to", ""), done, keys=[(who, done)])


SKILLS = ("swim", "dance", "play", "play", "play", "drive", "drive", "draw", "draw")


def tries_to(d: Draw) -> Sentence:
    """Marie forgot to close the window."""
    link = d.pick([v for v in d.lexicon.verbs if any(k.startswith("to") for k in v.kinds)])
    particle = next(k for k in link.kinds if k.startswith("to")).partition(":")[2]
    willed = d.lexicon.verbs_of("willed")
    verb = d.pick([v for v in willed if v.kinds.isdisjoint(("event", "mishap"))])
    noun = d.pick(d.lexicon.objects_of(verb))
    who = d.doer(verb, noun)
    tense = Tense.PRESENT if link.en == "hope to" else Tense.PAST
    what = d.object_for(verb, noun, who)
    linked = act(who, link, tense)
    return sentence(linked, Both("", particle), infinitive(verb, who), what, keys=[(verb, what)])


def would_like(d: Draw) -> Sentence:
    """I would like two cups of tea, please. Would you like some?"""
    what = d.amount()
    if d.chance(0.2):
        return question(Both("would you like", "voulez-vous"), what)
    polite = d.chance(0.5)
    who = d.pick(SPEAKERS) if polite else d.pick((d.name(), d.somebody(adults=True)))
    form = french.conditional(d.lexicon.verb("want"))[who.agreement.person]
    like = Phrase(f"{who.en} would like", f"{who.fr} {form}", who.agreement, "like", who.inner)
    return sentence(like, what, PLEASE if polite else NOTHING)


SPEAKERS = tuple(pronoun for pronoun in SUBJECT_PRONOUNS if pronoun.head in ("I", "we"))


def buys_amount(d: Draw) -> Sentence:
    """My mother bought two kilos of apples. He drank a glass of water."""
    what = d.amount()
    noun, unit = d.lexicon.noun(what.head), what.inner[0][0]
    name = d.random.choice(("bring", "buy"))
    if unit in PORTIONS and noun.is_any(("food", "drink")):
        name = "drink" if "drink" in noun.tags else "eat"
    verb = d.lexicon.verb(name)
    tense, time = d.pick(((Tense.PAST, "past"), (Tense.FUTURE, "future")))
    return sentence(act(d.doer(verb, noun), verb, tense), what, d.maybe(0.4, time))


PORTIONS = ("cup", "glass", "piece", "slice", "bowl")


def needs(d: Draw) -> Sentence:
    """I need a new bag: French has need of it."""
    noun = d.noun(*NEEDED)
    who = d.owner_for(noun)
    need = act(who, d.lexicon.verb("need"), Tense.PRESENT)
    return sentence(need, Both("", "besoin de"), _need(d, noun), keys=[("need", noun)])


def _need(d: Draw, noun: Noun) -> Phrase:
    """Build the object of `need`: after `besoin de`, the partitive article disappears."""
    if noun.count == "mass":
        return Phrase(noun.en, noun.fr, d.phrase("the", noun).agreement, noun.en)
    if noun.count == "pair":
        what = d.phrase("which", noun, adjectives=0.7)
        en, fr = what.en.removeprefix("which "), what.fr.partition(" ")[2]
        return Phrase(en, fr, what.agreement, noun.en, what.inner)
    return d.numbered(noun, 9) if d.chance(0.3) else d.phrase("a", noun, adjectives=0.6)


# -------------------------------------------------------------------------- imperatives


def please_do(d: Draw) -> Sentence:
    """Close the door, please. Do not open this window."""
    verb, what = _order(d)
    form = french.imperative(verb, 4)
    order = d.pick((Both(verb.en, form), Both(f"do not {verb.en}", f"ne {form} pas")))
    if order.en.startswith("do not"):
        what = d.known(d.lexicon.noun(what.head))
    polite = PLEASE if d.chance(0.5) else NOTHING
    return sentence(order, what, polite, keys=[(verb, what)])


def let_us(d: Draw) -> Sentence:
    """Let's buy some bread."""
    verb, what = _order(d)
    order = Both(f"let's {verb.en}", french.imperative(verb, 3))
    return sentence(order, what, d.when(0.4, "future", verb, what), keys=[(verb, what)])


def _order(d: Draw) -> tuple[Verb, Phrase]:
    """Draw a verb and an object for a request."""
    verb = d.pick([v for v in d.lexicon.verbs_of("do") if v.en not in ("sell", "build", "wear")])
    noun = d.pick(d.lexicon.objects_of(verb))
    known = verb.article == "the" or noun.count == "count"
    return verb, d.known(noun) if known else d.unknown(noun)


def can_you(d: Draw) -> Sentence:
    """Can you open the window, please?"""
    verb, what = _order(d)
    asked = Both(f"can you {verb.en}", f"pouvez-vous {verb.fr}")
    time = d.when(0.3, "future", verb, what)
    return question(asked, what, time, PLEASE if d.chance(0.4) else NOTHING, keys=[(verb, what)])


PATTERNS: tuple[Pattern, ...] = (
    modal,
    modal_alone,
    knows_how,
    tries_to,
    would_like,
    buys_amount,
    needs,
    please_do,
    let_us,
    can_you,
)
