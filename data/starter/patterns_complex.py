"""Sentences of two clauses: because, but, when, if, who, that."""

import english
from bilingual import (
    AND,
    BECAUSE,
    BUT,
    COMMA,
    HE,
    NOT,
    SHE,
    SUBJECT_PRONOUNS,
    THEY,
    Both,
    Phrase,
    Sentence,
    Tense,
    act,
    adjective_phrase,
    infinitive,
    pronoun_for,
    sentence,
)
from drawing import Draw, Pattern
from words import Noun, Verb

THAT = Both("that", "que")
THINKING = (
    ("I think", "je pense"),
    ("he thinks", "il pense"),
    ("we think", "nous pensons"),
    ("they think", "ils pensent"),
)


def _same(who: Phrase) -> Phrase:
    """Return the pronoun that takes up the subject: `my aunts` -> `they`."""
    if who in SUBJECT_PRONOUNS:
        return who
    if who.agreement.plural:
        fr = "elles" if who.agreement.feminine else "ils"
        return Phrase("they", fr, who.agreement, THEY.head)
    return SHE if who.agreement.feminine else HE


def because_did(d: Draw) -> Sentence:
    """He is happy because he found his key."""
    who = d.pick((d.pronoun(), d.pronoun(), d.name(), d.somebody(plural=False)))
    mood, names = d.pick(REASONS)
    adjective = d.lexicon.adjective(mood)
    verb = d.lexicon.verb(d.random.choice(names))
    what = d.known(d.pick(d.lexicon.objects_of(verb)), who, 0)
    return sentence(
        act(who, d.lexicon.verb("be"), Tense.PRESENT),
        adjective_phrase(adjective, who.agreement),
        BECAUSE,
        act(_same(who), verb, Tense.PAST),
        what,
        keys=[(verb, what)],
    )


REASONS = (
    ("happy", ("find", "finish", "receive", "see", "sell", "visit", "repair", "learn")),
    ("sad", ("lose", "break", "forget", "sell")),
    ("tired", ("clean", "wash", "paint", "carry", "repair", "build")),
    ("proud", ("finish", "build", "repair", "prepare", "write", "draw", "paint")),
)


def _two_actions(d: Draw, choices: tuple[tuple[str, str], ...]) -> tuple[Verb, Verb, Noun]:
    """Draw two verbs that follow each other and a thing that suits both."""
    first, second = d.pick(choices)
    one, other = d.lexicon.verb(first), d.lexicon.verb(second)
    nouns = d.lexicon.objects_of(other)
    return one, other, d.pick([n for n in d.lexicon.objects_of(one) if n in nouns])


def did_but(d: Draw) -> Sentence:
    """I looked for the key but I did not find it."""
    one, other, noun = _two_actions(d, ATTEMPTS)
    who = d.owner_for(noun)
    what = d.known(noun, who, 0)
    return sentence(
        act(who, one, Tense.PAST),
        what,
        BUT,
        act(_same(who), other, Tense.PAST, NOT, pronoun_for(what)),
        keys=[(one, what), (other, what)],
    )


ATTEMPTS = (
    ("look for", "find"),
    ("begin", "finish"),
    ("buy", "wear"),
    ("read", "understand"),
    ("choose", "buy"),
    ("write", "send"),
    ("hear", "see"),
    ("prepare", "eat"),
)


def did_and(d: Draw) -> Sentence:
    """She opened the box and closed it: French repeats the subject."""
    one, other, noun = _two_actions(d, SEQUENCES)
    who = d.owner_for(noun)
    what = d.object_for(one, noun, who)
    tense = d.pick((Tense.PAST, Tense.FUTURE))
    return sentence(
        act(who, one, tense),
        what,
        AND,
        act(_same(who), other, tense, clitic=pronoun_for(what)),
        keys=[(one, what), (other, what)],
    )


SEQUENCES = (
    ("buy", "read"),
    ("buy", "wear"),
    ("find", "wash"),
    ("wash", "eat"),
    ("buy", "repair"),
    ("open", "close"),
    ("repair", "sell"),
    ("write", "send"),
    ("prepare", "eat"),
    ("draw", "paint"),
    ("find", "take"),
)


def when_arrived(d: Draw) -> Sentence:
    """When I arrived, she was reading a letter."""
    who, verb, what = d.action("do")
    first, came = d.pick(SUBJECT_PRONOUNS), d.lexicon.verb(d.random.choice(ARRIVALS))
    if first.head == who.head or {first.head, who.head} == {"I", "we"}:
        return when_arrived(d)
    return sentence(
        Both("when", "quand"),
        act(first, came, Tense.PAST),
        COMMA,
        act(who, verb, Tense.WAS_DOING),
        what,
        keys=[(verb, what)],
    )


ARRIVALS = ("arrive", "come back", "go home", "leave", "go out")


def if_weather(d: Draw) -> Sentence:
    """If it rains tomorrow, we will stay at home."""
    sky, when = d.adverb("condition"), d.adverb("future day")
    who, verb = d.subject(), d.lexicon.verb(d.random.choice(("stay", "go", "do")))
    bad = sky.en in ("it rains", "it snows", "it is cold")
    if bad or verb.en == "stay":
        clause = act(who, d.lexicon.verb("stay"), Tense.FUTURE)
        rest = d.adverb("stay indoors" if bad else "stay outdoors")
    else:
        place = d.phrase("the", d.noun("beach", "park", "market", "lake", "swimming pool", "farm"))
        clause = act(who, d.lexicon.verb("go"), Tense.FUTURE)
        rest = Both(f"to {place.en}", f"à {place.fr}")
    condition = Both("if", "si")
    return sentence(condition, sky, when, COMMA, clause, rest, keys=[(sky.en, rest.en)])


def if_finds(d: Draw) -> Sentence:
    """If you find the key, you will take it."""
    one, other, noun = _two_actions(d, CONDITIONS)
    who = d.owner_for(noun)
    what = d.known(noun, who, 0)
    return sentence(
        Both("if", "si"),
        act(who, one, Tense.PRESENT),
        what,
        COMMA,
        act(_same(who), other, Tense.FUTURE, clitic=pronoun_for(what)),
        keys=[(one, what), (other, what)],
    )


CONDITIONS = (
    ("lose", "look for"),
    ("find", "take"),
    ("break", "repair"),
    ("buy", "read"),
    ("buy", "wear"),
    ("receive", "read"),
    ("forget", "look for"),
    ("finish", "send"),
    ("choose", "buy"),
)


def who_does(d: Draw) -> Sentence:
    """The man who is reading a book is my uncle."""
    person = d.phrase("the", d.noun("man", "woman", "boy", "girl"))
    young = person.head in ("boy", "girl")
    _, verb, what = d.action("do")
    while (young and "adult" in verb.kinds) or "for women" in d.lexicon.noun(what.head).tags:
        _, verb, what = d.action("do")
    relative = act(Phrase("who", "qui", person.agreement, "who"), verb, Tense.NOW)
    be, identity = Both("is", "est"), _identity(d, person, young)
    return sentence(person, relative, what, be, identity, keys=[(verb, what)])


def _identity(d: Draw, person: Phrase, young: bool) -> Both:
    """Build a phrase for who somebody is: `my uncle`, `a doctor` (French: `médecin`)."""
    feminine = person.agreement.feminine
    if not young and d.chance(0.4):
        noun = d.noun("profession")
        return Both(english.with_article(noun.en), noun.fr_feminine if feminine else noun.fr)
    relatives = d.lexicon.nouns_of("kin", "friend", "neighbor")
    fitting = [n for n in relatives if n.feminine == feminine and (not young or n.en in YOUNG)]
    return d.phrase(d.owner(), d.pick(fitting))


YOUNG = ("brother", "sister", "son", "daughter", "cousin", "friend")


def that_did(d: Draw) -> Sentence:
    """The dress that I bought is beautiful: the participle agrees."""
    verb = d.inseparable("complete", "event", "mishap")
    described = [n for n in d.lexicon.objects_of(verb) if d.lasting_qualities(n)]
    noun = d.pick(described)
    adjective = d.pick(d.lasting_qualities(noun))
    what = d.phrase("the", noun, d.plural(noun, 0.2))
    who = d.doer(verb, noun)
    # The relative pronoun is a direct object before the verb, like a clitic.
    clause = act(who, verb, Tense.PAST, clitic=Phrase("", "", what.agreement, ""))
    be = act(Phrase("", "", what.agreement, ""), d.lexicon.verb("be"), Tense.PRESENT)
    quality = adjective_phrase(adjective, what.agreement)
    return sentence(what, THAT, clause, be, quality, keys=[(verb, noun), (adjective, noun)])


def thinks_that(d: Draw) -> Sentence:
    """I think that the soup is too hot."""
    noun, adjective = d.graded("predicate")
    what = d.mentioned(noun)
    en, fr = d.pick(THINKING)
    be = act(what, d.lexicon.verb("be"), Tense.PRESENT)
    quality = adjective_phrase(adjective, what.agreement)
    degree = d.degree(adjective, 0.6)
    return sentence(Both(en, fr), THAT, be, degree, quality, keys=[(adjective, noun)])


def too_tired(d: Draw) -> Sentence:
    """We are too tired to work."""
    who = d.subject()
    adjective = d.lexicon.adjective(d.random.choice(HINDRANCES))
    verb = d.lexicon.verb(d.random.choice(EFFORTS))
    be = act(who, d.lexicon.verb("be"), Tense.PRESENT)
    too = Both("too", "trop")
    return sentence(
        be,
        too,
        adjective_phrase(adjective, who.agreement),
        Both("to", "pour"),
        infinitive(verb, who),
        d.maybe(0.4, "today", "future day"),
        keys=[(adjective, verb)],
    )


EFFORTS = ("work", "run", "walk", "swim", "dance", "travel", "sing", "go out")
HINDRANCES = ("tired", "sick", "old", "busy", "lazy", "sad", "shy", "young")


PATTERNS: tuple[Pattern, ...] = (
    because_did,
    did_but,
    did_and,
    when_arrived,
    if_weather,
    if_finds,
    who_does,
    that_did,
    thinks_that,
    too_tired,
)
