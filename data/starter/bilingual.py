"""Building blocks of sentences, each in English and French.

Word order is the same for most of a sentence, so a pattern lists its parts in order and
`sentence` joins the English and the French halves side by side. A part that is ordered
differently inside (noun with adjective, verb with pronoun) is built here as one block.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import english
import french
from french import Agreement
from words import Adjective, Determiner, Name, Noun, Verb, Word

Combination = tuple[str, str]


@dataclass(frozen=True)
class Both:
    """The same piece of meaning in English and in French."""

    en: str
    fr: str


@dataclass(frozen=True)
class Phrase(Both):
    """A noun phrase or pronoun: it also knows its agreement and its content words.

    Attributes:
        agreement: What verbs and adjectives agree with.
        head: The English noun (or pronoun, or name), used in combinations.
        inner: Combinations inside the phrase (adjective with noun).
    """

    agreement: Agreement
    head: str
    inner: tuple[Combination, ...] = ()


@dataclass(frozen=True)
class Sentence:
    """A finished sentence pair and the content combinations it shows."""

    en: str
    fr: str
    combinations: frozenset[Combination]


class Tense(Enum):
    """Tenses as pairs: the English form decides the French one."""

    PRESENT = ("present", "present")
    NOW = ("progressive", "present")
    PAST = ("past", "perfect")
    PERFECT = ("perfect", "perfect")
    WAS_DOING = ("was doing", "imperfect")
    USED_TO = ("used to", "imperfect")
    STATE_PAST = ("past", "imperfect")
    FUTURE = ("future", "future")


@dataclass(frozen=True)
class Adverbial:
    """A word that stands beside the verb: a negation or a short adverb."""

    en_negation: str = ""
    en_adverb: str = ""
    fr_negation: str = ""
    fr_adverb: str = ""


PLAIN = Adverbial()
NOT = Adverbial(en_negation="not", fr_negation="pas")
NEVER = Adverbial(en_adverb="never", fr_negation="jamais")
NO_LONGER = Adverbial(en_adverb="no longer", fr_negation="plus")
ALREADY = Adverbial(en_adverb="already", fr_adverb="déjà")

I = Phrase("I", "je", Agreement(0), "I")  # noqa: E741  (it is the English pronoun)
YOU = Phrase("you", "vous", Agreement(4), "you")
HE = Phrase("he", "il", Agreement(2), "he")
SHE = Phrase("she", "elle", Agreement(2, feminine=True), "she")
WE = Phrase("we", "nous", Agreement(3, plural=True), "we")
THEY = Phrase("they", "ils", Agreement(5, plural=True), "they")
SUBJECT_PRONOUNS = (I, YOU, HE, SHE, WE, THEY)

# Object pronouns, with the agreement of the past participle after them.
ME = Phrase("me", "me", I.agreement, "I")
YOU_OBJECT = Phrase("you", "vous", YOU.agreement, "you")
HIM = Phrase("him", "le", HE.agreement, "he")
HER = Phrase("her", "la", SHE.agreement, "she")
US = Phrase("us", "nous", WE.agreement, "we")
THEM = Phrase("them", "les", THEY.agreement, "they")
OBJECT_PRONOUNS = (ME, YOU_OBJECT, HIM, HER, US, THEM)
INDIRECT_FRENCH = {"him": "lui", "her": "lui", "them": "leur"}


def word(item: Word) -> Both:
    """Turn a lexicon entry into a block."""
    return Both(item.en, item.fr)


# ------------------------------------------------------------------------ noun phrases


def agreement_of(noun: Noun, plural: bool) -> Agreement:
    """Return the third-person agreement of a noun."""
    return Agreement(5 if plural else 2, noun.feminine, plural)


def noun_phrase(
    determiner: Determiner, noun: Noun, plural: bool = False, adjective: Adjective | None = None
) -> Phrase:
    """Build a noun phrase in both languages."""
    words = english.join(adjective.en if adjective else "", english.noun_form(noun, plural))
    article = determiner.en_plural if plural else determiner.en
    return Phrase(
        english.with_article(words) if article == "a" else english.join(article, words),
        french.noun_phrase(determiner, noun, plural, adjective),
        agreement_of(noun, plural),
        noun.en,
        ((adjective.en, noun.en),) if adjective else (),
    )


def counted(n: int, noun: Noun) -> Phrase:
    """Build a number with a noun: `three chairs`."""
    plural = n > 1
    return Phrase(
        english.join(english.number(n), english.noun_form(noun, plural)),
        french.noun_phrase(french.number(n, noun.feminine), noun, plural),
        agreement_of(noun, plural),
        noun.en,
    )


def named(name: Name) -> Phrase:
    """Turn a first name into a phrase."""
    return Phrase(name.name, name.name, Agreement(2, name.feminine), name.name)


def pronoun_for(phrase: Phrase) -> Phrase:
    """Return the direct object pronoun (it, them) that stands for a thing."""
    if phrase.agreement.plural:
        return Phrase("them", "les", phrase.agreement, phrase.head)
    fr = "la" if phrase.agreement.feminine else "le"
    return Phrase("it", fr, phrase.agreement, phrase.head)


def adjective_phrase(adjective: Adjective, agreement: Agreement) -> Both:
    """Make a predicate adjective agree: `they are tired` -> `fatigués`."""
    form = french.adjective_form(adjective, agreement.feminine, agreement.plural)
    return Both(adjective.en, form)


# ------------------------------------------------------------------------ verb groups


def act(
    subject: Phrase,
    verb: Verb,
    tense: Tense,
    beside: Adverbial = PLAIN,
    clitic: Phrase | None = None,
) -> Phrase:
    """Build subject and verb, with an object pronoun if one is given.

    Returns:
        A phrase headed by the verb, so that it can be used in combinations.
    """
    en_tense, fr_tense = tense.value
    en_verb = english.verb_group(
        verb,
        en_tense,
        subject.agreement.person,
        negation=beside.en_negation,
        adverb=beside.en_adverb,
    )
    return Phrase(
        english.join(subject.en, en_verb, clitic.en if clitic else ""),
        french.join(subject.fr, _french_group(subject, verb, fr_tense, beside, clitic)),
        subject.agreement,
        verb.en,
        subject.inner,
    )


def _french_group(
    subject: Phrase, verb: Verb, tense: str, beside: Adverbial, clitic: Phrase | None
) -> str:
    direct = clitic is not None and clitic.fr not in INDIRECT_FRENCH.values()
    return french.verb_group(
        verb,
        tense,
        subject.agreement,
        negation=beside.fr_negation,
        clitic=clitic.fr if clitic else "",
        clitic_agreement=clitic.agreement if clitic and direct else None,
        adverb=beside.fr_adverb,
    )


def ask(
    subject: Phrase, verb: Verb, tense: Tense, object_before: Agreement | None = None
) -> Phrase:
    """Build a question: `did you find` -> `est-ce que vous avez trouvé`.

    Args:
        subject: Who does it.
        verb: What they do.
        tense: When.
        object_before: Agreement of a direct object that stands before the verb
            (`which dress`, `how many apples`): the participle agrees with it.
    """
    en_tense, fr_tense = tense.value
    auxiliary, form = english.auxiliary_and_form(verb, en_tense, subject.agreement.person)
    verb_fr = french.verb_group(verb, fr_tense, subject.agreement, clitic_agreement=object_before)
    return Phrase(
        english.join(auxiliary, subject.en, form),
        french.join("est-ce que", subject.fr, verb_fr),
        subject.agreement,
        verb.en,
        subject.inner,
    )


def infinitive(verb: Verb, subject: Phrase, clitic: Phrase | None = None) -> Phrase:
    """Build an infinitive without `to`, with the subject's reflexive pronoun."""
    fr = french.infinitive(verb, subject.agreement.person)
    return Phrase(
        english.join(verb.en, clitic.en if clitic else ""),
        french.join(clitic.fr if clitic else "", fr),
        subject.agreement,
        verb.en,
    )


# -------------------------------------------------------------------------- sentences


def _capital(text: str) -> str:
    """Capitalise the first letter, and the first letter after a question mark."""
    return re.sub(r"(^|\? )(\w)", lambda match: match[1] + match[2].upper(), text)


def sentence(
    *parts: Both, end: str = ".", keys: Iterable[tuple[Phrase | Word | str, ...]] = ()
) -> Sentence:
    """Join parts that have the same order in both languages, and apply the spelling rules.

    Args:
        *parts: Blocks in order.
        end: ``.``, ``?`` or ``!``.
        keys: The pairs of content words whose combination may be held out of
            training; pairs inside noun phrases are added automatically.
    """
    en = english.join(*(part.en for part in parts)).replace(" ,", ",")
    fr = french.spell(french.join(*(part.fr for part in parts))).replace(" ,", ",")
    inner = [pair for part in parts if isinstance(part, Phrase) for pair in part.inner]
    outer = [(_label(first), _label(second)) for first, second in keys]
    return Sentence(
        _capital(en) + end,
        _capital(fr) + (end if end == "." else f" {end}"),
        frozenset(inner + outer),
    )


def question(*parts: Both, keys: Iterable[tuple[Phrase | Word | str, ...]] = ()) -> Sentence:
    """Build a sentence that ends with a question mark."""
    return sentence(*parts, end="?", keys=keys)


def _label(item: Phrase | Word | str) -> str:
    if isinstance(item, str):
        return item
    return item.head if isinstance(item, Phrase) else item.en


COMMA = Both(",", ",")
AND = Both("and", "et")
BUT = Both("but", "mais")
BECAUSE = Both("because", "parce que")
PLEASE = Both(", please", ", s'il vous plaît")


def topic(phrase: Phrase) -> Phrase:
    """Build a topic that a pronoun takes up: `The keys?` in `The keys? I lost them`."""
    return Phrase(phrase.en + "?", phrase.fr + " ?", phrase.agreement, phrase.head, phrase.inner)
