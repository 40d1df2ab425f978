"""The lexicon: what a word is, and how the tables in ``lexicon/`` are read.

Every table is tab-separated with a header row. A word says what it *is* (its tags) and
what it goes *with* (the tags it accepts), so that patterns never produce nonsense.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

LEXICON = Path(__file__).resolve().parent / "lexicon"

Row = dict[str, str]


@dataclass(frozen=True)
class Word:
    """A word or set phrase with one English and one French form."""

    en: str
    fr: str


@dataclass(frozen=True)
class Noun(Word):
    """A noun. Its English form is also one of its tags.

    Attributes:
        en_plural: Irregular English plural, or empty.
        fr_plural: Irregular French plural, or empty.
        feminine: French gender.
        count: ``count``, ``mass`` (no plural), ``single`` (no plural, one per owner)
            or ``pair`` (plural only).
        fr_feminine: French form for a woman of this profession, or empty.
        tags: Semantic classes, most general first.
    """

    en_plural: str
    fr_plural: str
    feminine: bool
    count: str
    fr_feminine: str
    tags: frozenset[str]

    def is_any(self, tags: Iterable[str]) -> bool:
        """Tell whether the noun carries at least one of the tags."""
        return not self.tags.isdisjoint(tags)


@dataclass(frozen=True)
class Adjective(Word):
    """An adjective and the kinds of noun it can describe.

    Attributes:
        en_comparative: English comparative (``taller``, ``more useful``); empty when
            the quality has no degrees.
        fr_feminine: Irregular French feminine, or empty.
        fr_plural: Irregular French masculine plural, or empty.
        fr_vowel: French masculine singular before a vowel (``bel``), or empty.
        before: Whether the French adjective stands before its noun.
        use: ``both``, ``attribute`` (only beside a noun) or ``predicate`` (only after
            `be`).
        rating: ``good``, ``bad``, ``measure``, ``mood`` or ``neutral``; decides what is
            said about it (nobody is `a little happy`).
        goes_with: Tags of the nouns it can describe.
    """

    en_comparative: str
    fr_feminine: str
    fr_plural: str
    fr_vowel: str
    before: bool
    use: str
    rating: str
    goes_with: frozenset[str]

    def suits(self, noun: Noun) -> bool:
        """Tell whether the adjective can describe the noun."""
        return noun.is_any(self.goes_with)


@dataclass(frozen=True)
class Verb(Word):
    """A verb in both languages.

    Attributes:
        en_past: Irregular English past, or empty.
        en_participle: Irregular English past participle, or empty.
        en_ing: Irregular English -ing form, or empty.
        fr_present: The six irregular French present forms, or empty.
        fr_future: Irregular French future stem, or empty.
        fr_participle: Irregular French past participle, or empty.
        auxiliary: ``avoir``, ``être`` or ``se`` (reflexive).
        kinds: The groups of patterns the verb takes part in.
        article: ``any`` object, or only ``the`` known one.
        objects: Tags of the nouns it can have as its object.
    """

    en_past: str
    en_participle: str
    en_ing: str
    fr_present: tuple[str, ...]
    fr_future: str
    fr_participle: str
    auxiliary: str
    kinds: frozenset[str]
    article: str
    objects: frozenset[str]


@dataclass(frozen=True)
class Determiner:
    """A determiner with every form it takes."""

    name: str
    en: str
    en_plural: str
    masculine: str
    feminine: str
    masculine_vowel: str
    feminine_vowel: str
    plural: str
    feminine_plural: str


@dataclass(frozen=True)
class Name:
    """A first name, the same in both languages."""

    name: str
    feminine: bool


@dataclass(frozen=True)
class Locality(Word):
    """A city or a country; ``gender`` (m, f or p for plural) is empty for cities."""

    kind: str
    gender: str

    @property
    def article(self) -> str:
        """The article kept after `de`: du Canada, des États-Unis, but de France."""
        return {"m": "le ", "p": "les "}.get(self.gender, "")


@dataclass(frozen=True)
class Listed(Word):
    """A word or set phrase of a named kind (adverbs, days, expressions ...)."""

    kind: str


@dataclass(frozen=True)
class Selector(Word):
    """A word that goes with some nouns only: `a cup` goes with tea and coffee."""

    goes_with: frozenset[str]
    feminine: bool


@dataclass(frozen=True)
class Location(Word):
    """A preposition with typical things and places: toys under beds, cars in front of houses."""

    things: frozenset[str]
    places: frozenset[str]


@dataclass(frozen=True)
class Scene:
    """A place, and the things that are compared there: `the oldest house in the village`."""

    en: str
    preposition: str
    goes_with: frozenset[str]


@dataclass(frozen=True)
class Habit:
    """Something people do regularly: a verb, its article and its usual objects."""

    verb: str
    article: str
    objects: frozenset[str]


@dataclass(frozen=True)
class Lexicon:
    """All words, read once from the tables."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    verbs: tuple[Verb, ...]
    names: tuple[Name, ...]
    places: tuple[Locality, ...]
    listed: tuple[Listed, ...]
    quantities: tuple[Selector, ...]
    locations: tuple[Location, ...]
    scenes: tuple[Scene, ...]
    habits: tuple[Habit, ...]
    determiners: dict[str, Determiner] = field(hash=False)

    def nouns_of(self, *tags: str) -> list[Noun]:
        """Return the nouns with at least one of the tags."""
        return self._nouns_with(frozenset(tags))

    def _nouns_with(self, tags: frozenset[str]) -> list[Noun]:
        if tags not in self._known:
            self._known[tags] = [noun for noun in self.nouns if noun.is_any(tags)]
        return self._known[tags]

    def noun(self, en: str) -> Noun:
        """Return the noun with this English form."""
        return next(noun for noun in self.nouns if noun.en == en)

    def adjective(self, en: str) -> Adjective:
        """Return the adjective with this English form."""
        return next(adjective for adjective in self.adjectives if adjective.en == en)

    def verb(self, en: str) -> Verb:
        """Return the verb with this English form."""
        return next(verb for verb in self.verbs if verb.en == en)

    def verbs_of(self, *kinds: str) -> list[Verb]:
        """Return the verbs of at least one of the kinds."""
        return [verb for verb in self.verbs if not verb.kinds.isdisjoint(kinds)]

    def objects_of(self, verb: Verb) -> list[Noun]:
        """Return the nouns that make sense as the object of the verb."""
        return self._nouns_with(frozenset(verb.objects))

    def adjectives_for(self, noun: Noun, use: str) -> list[Adjective]:
        """Return the adjectives that can describe the noun in the given use."""
        return self._suited[noun.en, use]

    @cached_property
    def _known(self) -> dict[frozenset[str], list[Noun]]:
        """Answers of `_nouns_with`, by tags: the search asks thousands of times for the same."""
        return {}

    @cached_property
    def _suited(self) -> dict[tuple[str, str], list[Adjective]]:
        """The adjectives for each noun and use. Computed only once, as it is looked up often."""
        return {
            (noun.en, use): [a for a in self.adjectives if a.use in ("both", use) and a.suits(noun)]
            for noun in self.nouns
            for use in ("attribute", "predicate")
        }

    def list_of(self, *kinds: str) -> list[Listed]:
        """Return the adverbs, days, months and expressions of the given kinds."""
        return [item for item in self.listed if item.kind in kinds]

    def places_of(self, *kinds: str) -> list[Locality]:
        """Return the cities or countries."""
        return [place for place in self.places if place.kind in kinds]


def _rows(table: str) -> list[Row]:
    """Read one table of the lexicon."""
    with (LEXICON / f"{table}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _set(text: str) -> frozenset[str]:
    """Split a comma-separated cell."""
    return frozenset(part for part in text.split(",") if part)


def _noun(row: Row) -> Noun:
    return Noun(
        row["en"],
        row["fr"],
        row["en_plural"],
        row["fr_plural"],
        row["gender"] == "f",
        row["count"],
        row["fr_feminine"],
        _set(row["tags"]) | {row["en"]},
    )


def _adjective(row: Row) -> Adjective:
    return Adjective(
        row["en"],
        row["fr"],
        row["en_comparative"],
        row["fr_feminine"],
        row["fr_plural"],
        row["fr_vowel"],
        row["position"] == "before",
        row["use"],
        row["rating"],
        _set(row["for"]),
    )


def _verb(row: Row) -> Verb:
    return Verb(
        row["en"],
        row["fr"],
        row["en_past"],
        row["en_participle"],
        row["en_ing"],
        tuple(row["fr_present"].split()),
        row["fr_future"],
        row["fr_participle"],
        row["auxiliary"] or "avoir",
        _set(row["kinds"]),
        row["article"],
        _set(row["objects"]),
    )


def _check_tags(lexicon: Lexicon) -> None:
    """Raise an error for a tag that no noun has: it is nearly always a spelling mistake."""
    known = frozenset[str]().union(*(noun.tags for noun in lexicon.nouns))
    wanted = {word.en: word.goes_with for word in lexicon.adjectives}
    wanted |= {verb.en: verb.objects for verb in lexicon.verbs}
    wanted |= {f"a {unit.en} of": unit.goes_with for unit in lexicon.quantities}
    wanted |= {f"in the {scene.en}": scene.goes_with for scene in lexicon.scenes}
    wanted |= {f"location {n}": s.things | s.places for n, s in enumerate(lexicon.locations)}
    wanted |= {f"to {habit.verb}": habit.objects for habit in lexicon.habits}
    for word, tags in wanted.items():
        unknown = sorted(tags - known)
        if unknown:
            raise ValueError(f"lexicon: '{word}' asks for unknown tags {', '.join(unknown)}")


@cache
def load() -> Lexicon:
    """Read all tables and check their tags."""
    listed = [row for table in ("adverbs", "calendar", "expressions") for row in _rows(table)]
    lexicon = Lexicon(
        nouns=tuple(map(_noun, _rows("nouns"))),
        adjectives=tuple(map(_adjective, _rows("adjectives"))),
        verbs=tuple(map(_verb, _rows("verbs"))),
        names=tuple(Name(row["name"], row["gender"] == "f") for row in _rows("names")),
        places=tuple(Locality(**row) for row in _rows("places")),
        listed=tuple(Listed(**row) for row in listed),
        quantities=tuple(
            Selector(row["en"], row["fr"], _set(row["of"]), row["gender"] == "f")
            for row in _rows("quantities")
        ),
        locations=tuple(
            Location(row["en"], row["fr"], _set(row["things"]), _set(row["places"]))
            for row in _rows("locations")
        ),
        scenes=tuple(
            Scene(row["scene"], row["preposition"], _set(row["nouns"])) for row in _rows("scenes")
        ),
        habits=tuple(
            Habit(row["verb"], row["article"], _set(row["objects"])) for row in _rows("habits")
        ),
        determiners={row["name"]: Determiner(**row) for row in _rows("determiners")},
    )
    _check_tags(lexicon)
    return lexicon
