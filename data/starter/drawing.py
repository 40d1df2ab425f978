"""Draw the words of sentences at random: who does what to whom."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import english
import french
import words
from bilingual import (
    PLAIN,
    SUBJECT_PRONOUNS,
    Adverbial,
    Both,
    Phrase,
    Sentence,
    counted,
    named,
    noun_phrase,
    word,
)
from french import Agreement
from words import Adjective, Noun, Verb

T = TypeVar("T", bound=Hashable)
Pattern = Callable[["Draw"], Sentence]

NOTHING = Both("", "")
# More candidates balance the words better but make the drawing less random.
CANDIDATES = 8
OWNERS_BY_PERSON = ("my", "your", "his", "our", "your", "their")
# One reads a book and builds a house at a time; their plurals come up elsewhere.
ONE_AT_A_TIME = ("text", "show", "thought", "building", "transport", "vehicle", "sight", "occasion")
OWNERS = ("my", "your", "his", "her", "our", "their")
# Things that people call `my ...`; nobody speaks of `my river`.
OWNED = (
    "owned",
    "kin",
    "pet",
    "object",
    "clothes",
    "furniture",
    "vehicle",
    "room",
    "picture",
    "text",
    "soup",
    "sandwich",
    "coffee",
    "tea",
)
# Temporary qualities, which go with `today`: nobody is tall today.
PASSING = ("tired", "sick", "busy", "happy", "sad", "alone", "ready")
JUDGEMENTS = ("good", "bad", "delicious", "sweet", "beautiful")
# States that would contradict the action: nobody cleans a clean room or opens an open door.
STATES = (
    "bad",
    "boring",
    "clean",
    "dirty",
    "open",
    "closed",
    "broken",
    "empty",
    "sick",
    "tired",
    "alone",
)
GROCERIES = ("food", "drink", "ingredient", "vegetable", "newspaper")
PEOPLE = ("person", "kin")
# Nouns that need a possessive: one says `my sister`, hardly `the sister`.
RELATIVES = ("kin", "relation")


def _label(option: Hashable) -> Hashable:
    """Return the key that counts a word: its English form, which is quick to look up."""
    return getattr(option, "en", option)


class Draw:
    """A random source of words and phrases, which prefers those drawn least so far.

    Without this preference, words that few patterns can use would be too rare to be learnt.
    """

    def __init__(self, seed: int) -> None:
        """Start a reproducible sequence of draws."""
        self.random = random.Random(seed)
        self.lexicon = words.load()
        self._uses: Counter[Hashable] = Counter()

    # ------------------------------------------------------------------ single choices

    def pick(self, options: Sequence[T]) -> T:
        """Draw a few of the options at random and return the least used of them."""
        candidates = [self.random.choice(options) for _ in range(CANDIDATES)]
        chosen = min(candidates, key=lambda option: self._uses[_label(option)])
        self._uses[_label(chosen)] += 1
        return chosen

    def chance(self, probability: float) -> bool:
        """Toss a weighted coin."""
        return self.random.random() < probability

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return self.pick(range(low, high + 1))

    def adverb(self, *kinds: str) -> Both:
        """Draw an adverb, day or expression of the given kinds."""
        return word(self.pick(self.lexicon.list_of(*kinds)))

    def maybe(self, probability: float, *kinds: str) -> Both:
        """Draw an adverb or nothing."""
        return self.adverb(*kinds) if self.chance(probability) else NOTHING

    def when(self, probability: float, time: str, verb: Verb, what: Phrase) -> Both:
        """Draw a past or future time on a scale that suits the action, or nothing.

        Nobody buys an apple `last year`, but one can buy a house then.
        """
        groceries = self.lexicon.noun(what.head).is_any(GROCERIES)
        if "slow" in verb.kinds:
            return self.maybe(probability, f"{time} slow")
        scales = (time, f"{time} long") if "lasting" in verb.kinds and not groceries else (time,)
        return self.maybe(probability, *scales)

    def frequency(self) -> Adverbial:
        """Draw `often`, `always` ... to stand beside the verb."""
        adverb = self.adverb("frequency")
        return Adverbial(en_adverb=adverb.en, fr_adverb=adverb.fr)

    def verb(self, *kinds: str) -> Verb:
        """Draw a verb of one of the kinds."""
        return self.pick(self.lexicon.verbs_of(*kinds))

    def inseparable(self, *kinds: str) -> Verb:
        """Draw a verb that a pronoun does not split, unlike `put on` in `put it on`."""
        return self.pick([v for v in self.lexicon.verbs_of(*kinds) if "separable" not in v.kinds])

    def noun(self, *tags: str) -> Noun:
        """Draw a noun with one of the tags."""
        return self.pick(self.lexicon.nouns_of(*tags))

    # -------------------------------------------------------------------- noun phrases

    def phrase(self, name: str, noun: Noun, plural: bool = False, adjectives: float = 0) -> Phrase:
        """Build a noun phrase with the named determiner.

        After `a` and `some` the adjective may be a judgement such as `good`; after other
        determiners it may not, since it tells a known thing from others.

        Args:
            name: A determiner of the lexicon.
            noun: The head.
            plural: Number; nouns such as `shoes` are always plural.
            adjectives: Probability of an adjective.
        """
        adjective: Adjective | None = None
        if self.chance(adjectives):
            options = self.lexicon.adjectives_for(noun, "attribute")
            options = [a for a in options if a.en not in STATES]
            if name not in ("a", "some"):
                options = [a for a in options if a.en not in JUDGEMENTS]
            adjective = self.pick(options) if options else None
        determiner = self.lexicon.determiners[name]
        return noun_phrase(determiner, noun, plural or noun.count == "pair", adjective)

    def plural(self, noun: Noun, probability: float = 0.3) -> bool:
        """Draw the number of a noun that can have a plural."""
        return noun.count == "pair" or (noun.count == "count" and self.chance(probability))

    def owner(self) -> str:
        """Draw a possessive."""
        return self.random.choice(OWNERS)

    def owner_of_own(self, noun: Noun, who: Phrase | None) -> str:
        """Draw a possessive, mostly the one of the subject: `she sells her car`."""
        if "for women" in noun.tags:
            return self.random.choice(("my", "your", "her"))
        if who is None or self.chance(0.35):
            return self.owner()
        if who.agreement.person == 2:
            return "her" if who.agreement.feminine else "his"
        return OWNERS_BY_PERSON[who.agreement.person]

    def known(self, noun: Noun, who: Phrase | None = None, adjectives: float = 0.15) -> Phrase:
        """Build a phrase for a thing both speakers know: `the key`, `my old car`."""
        owned = noun.is_any(OWNED) and self.chance(0.4)
        name = self.owner_of_own(noun, who) if owned else "this" if self.chance(0.2) else "the"
        plural = noun.count == "count" and not noun.is_any(ONE_AT_A_TIME) and self.chance(0.25)
        return self.phrase(name, noun, plural, adjectives)

    def unknown(self, noun: Noun, adjectives: float = 0.35) -> Phrase:
        """Build a phrase for a new thing: `a red dress`, `some water`."""
        single = noun.is_any(ONE_AT_A_TIME)
        plural = noun.count == "count" and not single and self.chance(0.25)
        name = "some" if noun.count == "mass" else "a"
        # `some` with an adjective sounds odd for a liquid or a food, so it is left out.
        return self.phrase(name, noun, plural, 0 if name == "some" else adjectives)

    def usual(self, noun: Noun) -> Phrase:
        """Build the object of a habit: `drinks milk`, `writes letters`, `wears a hat`."""
        if noun.count == "mass" or self.plural(noun, 0.4):
            return self.phrase("usual", noun, noun.count != "mass")
        return self.phrase("a", noun, adjectives=0.1)

    def object_for(self, verb: Verb, noun: Noun, who: Phrase | None = None) -> Phrase:
        """Build the object of a verb, new or known as the verb allows."""
        if verb.article == "the" or self.chance(0.4):
            return self.known(noun, who)
        return self.unknown(noun)

    def bare(self, noun: Noun, name: str = "bare") -> Phrase:
        """Build an object for negations: `no longer eats meat` -> `plus de viande`."""
        return self.phrase(name, noun, noun.count != "mass")

    def none_of(self, noun: Noun) -> Phrase:
        """Build the object of a negation: `do not have a car` -> `pas de voiture`."""
        if noun.count in ("mass", "pair"):
            return self.bare(noun, "any")
        return self.phrase("not a", noun)

    def numbered(self, noun: Noun, high: int = 12) -> Phrase:
        """Build a noun phrase with a number: `three chairs`."""
        return counted(self.integer(2, high), noun)

    def amount(self) -> Phrase:
        """Build a measured food or drink: `two cups of tea`."""
        unit = self.pick(self.lexicon.quantities)
        noun = self.noun(*unit.goes_with)
        n = self.random.choice((1, 1, 1, 2, 3, 4, 5))
        units = english.pluralize(unit.en) if n > 1 else unit.en
        en = f"{'a' if n == 1 else english.number(n)} {units}"
        fr_units = french.pluralize(unit.fr) if n > 1 else unit.fr
        fr = f"{french.number(n, unit.feminine)} {fr_units}"
        alone = unit.en in ("piece", "slice")
        what = self.phrase("bare", noun, noun.count == "count" and not alone)
        head = Agreement(5 if n > 1 else 2, unit.feminine, n > 1)
        return Phrase(f"{en} of {what.en}", f"{fr} {what.fr}", head, noun.en, ((unit.en, noun.en),))

    # -------------------------------------------------------------------- qualities

    def perhaps(self, beside: Adverbial, probability: float) -> Adverbial:
        """Draw a negation or nothing."""
        return beside if self.chance(probability) else PLAIN

    def described(self, use: str, *tags: str, countable: bool = False) -> tuple[Noun, Adjective]:
        """Draw a noun (with one of the tags, if any) and an adjective that suits it."""
        nouns = self.lexicon.nouns_of(*tags) if tags else list(self.lexicon.nouns)
        suited = [noun for noun in nouns if self.lexicon.adjectives_for(noun, use)]
        noun = self.pick([n for n in suited if not (countable and n.count in ("mass", "single"))])
        return noun, self.pick(self.lexicon.adjectives_for(noun, use))

    def graded(self, use: str) -> tuple[Noun, Adjective]:
        """Draw a noun and an adjective that has degrees."""
        while True:
            noun, adjective = self.described(use)
            if adjective.en_comparative:
                return noun, adjective

    def mentioned(self, noun: Noun) -> Phrase:
        """Build a subject that is known: `the house`, `my sisters`, `this coffee`."""
        if noun.is_any(RELATIVES):
            return self.phrase(self.owner(), noun, self.plural(noun))
        if noun.is_any(("animal", "infant")):
            return self.phrase("the", noun, self.plural(noun))
        owned = noun.is_any(OWNED) and self.chance(0.3)
        name = self.owner_of_own(noun, None) if owned else "this" if self.chance(0.2) else "the"
        return self.phrase(name, noun, self.plural(noun))

    def trait(self) -> Adjective:
        """Draw an adjective for a person, to stand after `be`."""
        return self.pick(self.lexicon.adjectives_for(self.lexicon.noun("friend"), "predicate"))

    def degree(self, adjective: Adjective, probability: float = 1) -> Both:
        """Draw `very`, `really` ... if the adjective has degrees."""
        if not adjective.en_comparative or not self.chance(probability):
            return NOTHING
        measured = adjective.rating in ("bad", "measure")
        return self.adverb("degree", "excess") if measured else self.adverb("degree")

    def lasting_qualities(self, noun: Noun) -> list[Adjective]:
        """List the adjectives that suit a thing whatever was done to it."""
        options = self.lexicon.adjectives_for(noun, "predicate")
        return [adjective for adjective in options if adjective.en not in STATES]

    def is_passing(self, adjective: Adjective) -> bool:
        """Tell whether a quality is temporary, such as `tired`."""
        return adjective.en in PASSING

    # ------------------------------------------------------------------------- people

    def pronoun(self) -> Phrase:
        """Draw a subject pronoun."""
        return self.pick(SUBJECT_PRONOUNS)

    def name(self) -> Phrase:
        """Draw a first name."""
        return named(self.pick(self.lexicon.names))

    def somebody(self, adults: bool = False, plural: bool | None = None) -> Phrase:
        """Build a phrase for a person: `the doctor`, `my sisters`."""
        people = self.lexicon.nouns_of(*PEOPLE)
        noun = self.pick([n for n in people if not (adults and "young one" in n.tags)])
        owned = noun.is_any(RELATIVES) or ("owned" in noun.tags and self.chance(0.6))
        name = self.owner() if owned else self.random.choice(("the", "the", "the", "this"))
        many = self.chance(0.25) if plural is None else plural
        return self.phrase(name, noun, many and noun.count == "count")

    def subject(self, adults: bool = False) -> Phrase:
        """Draw a pronoun, a name or a person."""
        kind = self.random.random()
        if kind < 0.45:
            return self.pronoun()
        return self.name() if kind < 0.62 else self.somebody(adults)

    def asked(self, verb: Verb, noun: Noun) -> Phrase:
        """Draw a subject for a question: neither `I` nor `we`."""
        while True:
            who = self.doer(verb, noun)
            if who.head not in ("I", "we"):
                return who

    def doer(self, verb: Verb, noun: Noun | None = None) -> Phrase:
        """Draw a subject who can do the action."""
        adults = "adult" in verb.kinds or (noun is not None and "alcohol" in noun.tags)
        wearing = noun is not None and verb.fr in ("porter", "mettre")
        return self.owner_for(noun, adults) if noun and wearing else self.subject(adults)

    def owner_for(self, noun: Noun, adults: bool = False) -> Phrase:
        """Draw a subject who can have or wear the thing."""
        while True:
            who = self.subject(adults)
            man = who.agreement.person in (2, 5) and not who.agreement.feminine
            if not (man and "for women" in noun.tags):
                return who

    def action(self, *kinds: str) -> tuple[Phrase, Verb, Phrase]:
        """Draw a subject, a verb and an object that go together."""
        verb = self.verb(*kinds)
        noun = self.pick(self.lexicon.objects_of(verb))
        who = self.doer(verb, noun)
        return who, verb, self.object_for(verb, noun, who)

    def known_action(self, *kinds: str) -> tuple[Phrase, Verb, Phrase]:
        """Draw an action on a thing both speakers know."""
        verb = self.verb(*kinds)
        noun = self.pick(self.lexicon.objects_of(verb))
        who = self.doer(verb, noun)
        return who, verb, self.known(noun, who)

    def habit(self) -> tuple[Phrase, Verb, Phrase]:
        """Draw a subject, a verb and an object for what people do regularly: take the bus."""
        habit = self.pick(self.lexicon.habits)
        verb, noun = self.lexicon.verb(habit.verb), self.noun(*habit.objects)
        what = self.phrase("the", noun) if habit.article == "the" else self.usual(noun)
        return self.doer(verb, noun), verb, what

    def consumption(self) -> tuple[Phrase, Verb, Noun]:
        """Draw a subject, `eat`, `drink` or `buy`, and a food or drink."""
        verb = self.lexicon.verb(self.random.choice(("eat", "eat", "drink", "drink", "buy")))
        options = [n for n in self.lexicon.objects_of(verb) if n.is_any(("food", "drink"))]
        noun = self.pick(options)
        return self.doer(verb, noun), verb, noun
