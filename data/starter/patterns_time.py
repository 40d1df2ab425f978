"""Patterns about time, prices and movements: clock, dates, durations, daily routine."""

import english
import french
from bilingual import NOT, PLAIN, Both, Phrase, Sentence, Tense, act, question, sentence
from drawing import NOTHING, Draw, Pattern

DEPARTING = ("train", "bus", "plane", "boat")
STARTING = ("film", "lesson", "party", "game", "meal")
SERVING = ("store", "museum", "bank", "bakery", "pharmacy", "library", "restaurant", "market")


def _clock(d: Draw) -> Both:
    """Draw a clock time."""
    hour, minute = d.integer(1, 12), d.integer(0, 11) * 5
    return Both(english.clock(hour, minute), french.clock(hour, minute))


def what_time_it_is(d: Draw) -> Sentence:
    """It is a quarter to eight."""
    time = _clock(d)
    now = d.pick((Both("it is", "il est"), Both("it is already", "il est déjà")))
    return sentence(now, time, d.maybe(0.4, "place of time"), keys=[("time", time.en)])


def event_at(d: Draw) -> Sentence:
    """The train leaves at half past eight."""
    tags, verb_names = d.pick(EVENTS)
    verb = d.lexicon.verb(d.random.choice(verb_names))
    what = d.phrase(d.random.choice(("the", "the", "this", "our")), d.noun(*tags))
    time, when = _clock(d), d.maybe(0.4, "clock future")
    tense = Tense.FUTURE if when.en else Tense.PRESENT
    at = Both(f"at {time.en}", f"à {time.fr}")
    return sentence(act(what, verb, tense), at, when, keys=[(verb, time.en)])


EVENTS = (
    (DEPARTING, ("leave", "arrive")),
    (STARTING, ("begin", "finish")),
    (SERVING, ("open", "close")),
)


def what_time(d: Draw) -> Sentence:
    """What time does the train leave?"""
    tags, verb_names = d.pick(EVENTS)
    verb, noun = d.lexicon.verb(d.random.choice(verb_names)), d.noun(*tags)
    what, when = d.phrase("the", noun), d.maybe(0.8, "clock future", "today")
    tense = Tense.PRESENT if not when.en or when.en == "today" else Tense.FUTURE
    en_aux, en_form = english.auxiliary_and_form(verb, tense.value[0], 2)
    clause = act(what, verb, tense)
    asked = Both(
        f"what time {en_aux} {what.en} {en_form}", f"à quelle heure est-ce que {clause.fr}"
    )
    return question(asked, when, keys=[(verb, noun)])


def routine(d: Draw) -> Sentence:
    """My father gets up at seven o'clock. The children went to bed early yesterday."""
    who, verb = d.subject(), d.verb("daily routine")
    tense, time_of_day = d.pick(ROUTINE_TIMES)
    clock = _clock(d)
    at = d.pick((Both(f"at {clock.en}", f"à {clock.fr}"), d.adverb("early")))
    return sentence(act(who, verb, tense), at, d.maybe(0.5, time_of_day), keys=[(verb, who)])


ROUTINE_TIMES = (
    (Tense.PRESENT, "clock habit"),
    (Tense.PAST, "clock past"),
    (Tense.FUTURE, "clock future"),
    (Tense.USED_TO, "clock habit"),
)


def reflexive(d: Draw) -> Sentence:
    """The children are having fun. You must rest. We did not hurry."""
    who, verb = d.subject(), d.verb("reflexive", "daily routine")
    tense, time = d.pick(REFLEXIVE_TIMES)
    clause = act(who, verb, tense, d.perhaps(NOT, 0.25))
    when = NOTHING if "daily routine" in verb.kinds else d.maybe(0.6, time)
    return sentence(clause, when, keys=[(verb, who)])


REFLEXIVE_TIMES = ((Tense.NOW, "now"), (Tense.PAST, "past day"), (Tense.FUTURE, "future"))


def moves(d: Draw) -> Sentence:
    """My aunts arrived yesterday."""
    who, verb = d.subject(), d.verb("arrival")
    tense, time = d.pick(MOVING_TIMES)
    if "outing" in verb.kinds:  # one goes home in the evening, not last year
        time = time[:1]
    clause = act(who, verb, tense, d.perhaps(NOT, 0.15) if "future move" not in time else PLAIN)
    early = d.maybe(0.5, "early") if time[0].startswith("clock") else NOTHING
    return sentence(clause, early, d.maybe(0.7, *time), keys=[(verb, who)])


MOVING_TIMES = (
    (Tense.PAST, ("past", "past long", "past slow")),
    (Tense.PAST, ("clock past",)),
    (Tense.FUTURE, ("future", "future long", "future slow", "future move")),
    (Tense.FUTURE, ("clock future",)),
)


def in_action(d: Draw) -> Sentence:
    """The baby is sleeping in the garden."""
    who, verb = d.subject(), d.verb("intransitive")
    tense, time = d.pick(ACTION_TIMES)
    clause = act(who, verb, tense, d.perhaps(NOT, 0 if tense is Tense.USED_TO else 0.2))
    return sentence(clause, d.maybe(0.6, time), keys=[(verb, who)])


ACTION_TIMES = (
    (Tense.NOW, "now"),
    (Tense.PAST, "past day"),
    (Tense.FUTURE, "future"),
    (Tense.WAS_DOING, "past day"),
    (Tense.USED_TO, "clock habit"),
)


def in_manner(d: Draw) -> Sentence:
    """She sings very well."""
    who = d.subject()
    name, manners = d.pick(MANNERS)
    verb, manner = d.lexicon.verb(name), d.adverb(*manners)
    degree = d.maybe(0.3, "degree") if manner.en not in ("a lot", "too much") else NOTHING
    return sentence(act(who, verb, Tense.PRESENT), degree, manner, keys=[(verb, who)])


MANNERS = (
    ("sing", ("skill",)),
    ("dance", ("skill",)),
    ("swim", ("skill", "pace")),
    ("walk", ("pace",)),
    ("run", ("pace",)),
    ("work", ("skill", "amount", "pace")),
    ("sleep", ("skill", "amount")),
    ("travel", ("amount",)),
    ("cry", ("amount",)),
    ("laugh", ("amount",)),
)


def plays(d: Draw) -> Sentence:
    """My cousins play football every week."""
    who, pastime, (tense, time) = d.subject(), d.adverb("pastime"), d.pick(PLAYING_TIMES)
    clause = act(who, d.lexicon.verb("play"), tense)
    return sentence(clause, pastime, d.maybe(0.5, time), keys=[(pastime.en, who)])


PLAYING_TIMES = (*ACTION_TIMES, (Tense.PRESENT, "habit"))


def speaks(d: Draw) -> Sentence:
    """She speaks Spanish well: `bien` stands before the French language."""
    who, language, how = d.subject(), d.adverb("language"), d.maybe(0.7, "manner of speaking")
    beside = PLAIN if how.en else d.perhaps(NOT, 0.5)
    clause = act(who, d.lexicon.verb("speak"), Tense.PRESENT, beside)
    rest = Both(f"{language.en} {how.en}".strip(), f"{how.fr} {language.fr}".strip())
    return sentence(clause, rest, keys=[(language.en, who)])


def ago(d: Draw) -> Sentence:
    """She arrived three days ago."""
    who, verb = d.subject(), d.verb("arrival")
    n, unit = (
        d.integer(2, 12),
        d.adverb("short unit", *(() if "outing" in verb.kinds else ("unit",))),
    )
    when = Both(f"{english.number(n)} {unit.en} ago", f"il y a {french.number(n)} {unit.fr}")
    return sentence(act(who, verb, Tense.PAST), when, keys=[(verb, unit.en)])


def since(d: Draw) -> Sentence:
    """She has been working for two years: French uses the present."""
    who = d.subject()
    names, kind = d.pick(LASTING)
    verb = d.lexicon.verb(d.random.choice(names))
    n, unit = d.integer(2, 20), d.adverb(kind)
    has = "has" if who.agreement.person == 2 else "have"
    clause = Both(f"{who.en} {has} been {english.ing(verb)}", act(who, verb, Tense.PRESENT).fr)
    when = Both(f"for {english.number(n)} {unit.en}", f"depuis {french.number(n)} {unit.fr}")
    return sentence(clause, when, keys=[(verb, unit.en)])


LASTING = (
    (("sleep", "rest", "run", "walk", "swim", "cry", "dance", "work"), "minutes"),
    (("work", "travel"), "unit"),
    (("dance", "sing", "swim"), "long unit"),
)


def dates(d: Draw) -> Sentence:
    """Today is Monday, May 3. My birthday is on June 1."""
    day, month = d.integer(1, 28), d.adverb("month")
    en, fr = english.date(day, month.en), french.date(day, month.fr)
    if d.chance(0.55):
        weekday = d.adverb("day")
        today = f"nous sommes le {weekday.fr} {fr.removeprefix('le ')}"
        return sentence(Both(f"today is {weekday.en}, {en}", today), keys=[(weekday.en, en)])
    noun = d.noun("birthday", "party")
    whose = d.phrase(d.owner(), noun)
    if d.chance(0.6):
        who = d.name() if d.chance(0.6) else d.somebody(plural=False)
        the = d.phrase("the", noun)
        whose = Phrase(f"{who.en}'s {noun.en}", f"{the.fr} de {who.fr}", the.agreement, noun.en)
    be = act(whose, d.lexicon.verb("be"), Tense.PRESENT)
    return sentence(be, Both(f"on {en}", fr), keys=[(noun, en)])


def closed_on(d: Draw) -> Sentence:
    """The museum is closed on Mondays."""
    noun, day = d.noun(*SERVING), d.adverb("day")
    adjective = d.lexicon.adjective(d.random.choice(("open", "closed")))
    what = d.phrase(d.random.choice(("the", "this")), noun, d.plural(noun, 0.3))
    form = french.adjective_form(adjective, noun.feminine, what.agreement.plural)
    be = act(what, d.lexicon.verb("be"), Tense.PRESENT, d.perhaps(NOT, 0.3))
    on = Both(f"on {day.en}s", f"le {day.fr}")
    return sentence(be, Both(adjective.en, form), on, keys=[(noun, day.en)])


def price(d: Draw) -> Sentence:
    """This bag costs eighty-one euros."""
    noun = d.noun("clothes", "portable", "furniture", "product")
    what = d.phrase("this", noun, d.plural(noun), 0.2)
    n = d.integer(2, 100)
    cost = act(what, d.lexicon.verb("cost"), Tense.PRESENT)
    amount = Both(f"{english.number(n)} euros", f"{french.number(n)} euros")
    return sentence(cost, amount, keys=[(noun, f"{n} euros")])


PATTERNS: tuple[Pattern, ...] = (
    what_time_it_is,
    event_at,
    what_time,
    routine,
    reflexive,
    moves,
    in_action,
    in_manner,
    plays,
    speaks,
    ago,
    since,
    dates,
    closed_on,
    price,
)
