"""Filters of training text: which pairs are left out, and why.

`Cleaner` normalises a pair and names the first filter that drops it. Each filter is a short
function; `cleaning.filters` names the filters in the order in which they run. Filters that need all
pairs at once are in dedup.py, which compares keys of pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from seq2seq.config import CleaningConfig
from seq2seq.errors import ConfigError
from seq2seq.text import nfc, normaliser

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


class Cleaner:
    """The normaliser and the filters of pairs. It can be pickled, for work in several processes.

    Args:
        config: steps, filters and their limits.
        evaluation: pairs of validation and test, which the filter `leakage` looks for.
    """

    def __init__(self, config: CleaningConfig, evaluation: Iterable[tuple[str, str]] = ()) -> None:
        self.config = config
        self._source, self._target = (normaliser(config.steps(side)) for side in (0, 1))
        self.evaluation: set[int] = set()
        for pair in evaluation:
            self.evaluation |= self.evidence(*self.normalised(*pair))
        self._filters = [(name, FILTERS[name]) for name in config.filters if name in FILTERS]
        if "wrong_language" in config.filters:
            check_languages(config.languages)

    def evidence(self, source: str, target: str) -> set[int]:
        """Return the keys by which the filter `leakage` recognises a normalised pair.

        There is a key for the pair, for each side that is too long to be a common phrase, and, as
        an option, for every n words in a row.
        """
        sides = text_key(source), text_key(target)
        found = {pair_key(*map(str, sides))} if any(sides) else set()
        for key, text in zip(sides, (source, target), strict=True):
            if key and len(text.split()) >= self.config.leakage_from:
                found.add(key)
            if self.config.leakage_ngram:
                found |= ngram_keys(text, self.config.leakage_ngram)
        return found

    def leaked(self, source: str, target: str) -> set[int]:
        """Return the keys that a normalised pair shares with evaluation text."""
        return self.evaluation & self.evidence(source, target) if self.evaluation else set()

    def normalised(self, source: str, target: str) -> tuple[str, str]:
        """Normalise a pair like training text."""
        return self._source(source), self._target(target)

    def __call__(self, source: str, target: str) -> tuple[str, str, str | None]:
        """Return the normalised pair, and the filter that drops it (None = it is kept)."""
        source, target = self.normalised(source, target)
        for name, drops in self._filters:
            if drops(self, source, target):
                return source, target, name
        return source, target, None


def empty(cleaner: Cleaner, source: str, target: str) -> bool:
    """A side has no text: the model would learn to write nothing, or anything."""
    return not source or not target or source.isspace() or target.isspace()


# UTF-8 that was read as Latin-1 or Windows-1252 (Ã© for é, â€™ for an apostrophe). An Ã counts only
# if no letter follows, since Portuguese capitals have it (SÃO); an Â only before certain signs.
_DAMAGE = re.compile(
    "[\0\ufffd\ud800-\udfff]|Ã(?![^\\W\\d_ªºµƒŠŒŽšœžŸ])|Â[\xa0-\xbf]|â€|Å[“¡]|ï»¿|ï¿½"
)


def damaged(cleaner: Cleaner, source: str, target: str) -> bool:
    """Characters were lost or garbled, for example by a wrong encoding; the model would learn to
    write them."""
    return _is_damaged(source) or _is_damaged(target)


def _is_damaged(text: str) -> bool:
    if text.isascii():
        return "\0" in text
    return _DAMAGE.search(text) is not None


def too_long(cleaner: Cleaner, source: str, target: str) -> bool:
    """A side is too long: mostly paragraphs, lists and tables that were not cut into sentences."""
    words, characters = cleaner.config.max_words, cleaner.config.max_characters
    return any(
        len(text) > characters or (len(text) >= 2 * words and len(text.split()) > words)
        for text in (source, target)
    )


def length_ratio(cleaner: Cleaner, source: str, target: str) -> bool:
    """One side says much more than the other, so they are hardly translations."""
    shorter, longer = sorted((len(source), len(target)))
    config = cleaner.config
    return longer >= config.ratio_from and longer > config.max_ratio * shorter


def identical(cleaner: Cleaner, source: str, target: str) -> bool:
    """Both sides are the same sentence: the model would learn to copy."""
    least = cleaner.config.identical_from
    return source.casefold() == target.casefold() and len(source.split()) >= least


_MARKUP = re.compile(
    r"""</?[a-z][\w:-]*(?:\s+[\w:-]+\s*=[^<>]*)?\s*/?> | <!--|<!\[CDATA\[|<!DOCTYPE\b
    | &(?:\#\d+|\#x[\da-f]+|[a-z](?-i:[a-z]+)\d{0,2});
    | \{\{|\}\}|\{\||\|\}|\[\[|\]\]|'''|^={2,}[^=]+={2,}$""",
    re.VERBOSE | re.IGNORECASE,
)
_MARKUP_SIGNS = re.compile(r"[<&{}\[\]=/|]")  # quick to find, and rare: most texts have none
_LINK = re.compile(r"(?:\bhttps?://|\bftp://|\bwww\.)\S+", re.IGNORECASE)


def markup(cleaner: Cleaner, source: str, target: str) -> bool:
    """A side has tags, entities or templates of web pages and wikis, or is mostly links."""
    return _is_marked_up(source) or _is_marked_up(target)


def _is_marked_up(text: str) -> bool:
    if _MARKUP_SIGNS.search(text) is None and "'''" not in text and "www." not in text:
        return False
    links = sum(len(link) for link in _LINK.findall(text))
    return 2 * links > len(text) or _MARKUP.search(text) is not None


_NUMBER_OR_ROW = re.compile(r"\d+|(\S)\1*")
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())


def symbols(cleaner: Cleaner, source: str, target: str) -> bool:
    """A side is mostly digits and signs (10:30, rows of tables), so there is no language to
    learn from.

    A number or a row of one sign counts once, so "It is 10:30." and "Oh..." are sentences.
    """
    least = cleaner.config.min_letters
    return _is_symbols(source, least) or _is_symbols(target, least)


def _is_symbols(text: str, least: float) -> bool:
    needed = least * (len(text) - text.count(" "))
    ascii_letters = len(text.encode("ascii", "ignore").translate(None, _NO_LETTERS))
    if ascii_letters >= needed:  # nearly always true in English and French
        return False
    letters = sum(map(str.isalpha, text))
    signs = sum(not match[0][0].isalpha() for match in _NUMBER_OR_ROW.finditer(text))
    return letters < least * (letters + signs)


# Frequent words that English and French do not share; `other` has words of languages that look
# like one of the two. They decide clear cases ten times faster than the detector.
_FUNCTION_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "en": """
        the of and to that is was with this are have has had not for you it he she they we his her
        be been were from which will would there their by at what when your my do does did should
        can must who how why could if about than these those into them out don' i' it' please just
        because where very only also some other think know want shall its our him us didn' doesn'
        isn' wasn' won' can' you' we' he' she' they' that' there' let' am any every without such
        much after before through like all may more one good now need never see really make people
        take most here many first last against each got still cannot come go let going new two
        three under again back being both down even found get give help little look made nothing
        old said say something thing things time told too use way well while work years yes year
        yet own whose until since
        """,
        "fr": """
        le les des du et est dans pour qui pas je vous nous il elle ils elles ce cette ces avec
        sur au aux ne ont été mais plus leur tout être à sont où ou sans très une l' d' qu' c' n'
        j' s' m' t' son sa ses votre notre mon ma comme fait était avait dit donc mes vos nos
        leurs êtes suis sommes avez avons ça cela aussi bien quand rien faut peut ai cet pourquoi
        quel quelle quelque quelques beaucoup même déjà chaque encore toujours après là ici chez
        lui moi deux trois avant peu vraiment faire tous toute toutes autre autres temps voir
        avoir jamais depuis alors maintenant doit dire soit pendant plusieurs aucun jour chose
        besoin veux peux étaient vais entre mieux fois parce puis dont lorsque afin ainsi selon
        sous doivent étant cependant jours ans homme femme trop seulement est-ce devons pouvez
        peuvent veut faites dois voici seule seul avez-vous as-tu veux-tu
        """,
        "other": """
        der das und ist nicht ein eine ich mit zu wir sie den dem auf von war hat für aber el los
        las una por con para su del lo está pero muy como más yo di che è non della dei gli sono
        ho nel mi al questo più perché o os um uma não da em com ele ela foi você eu na het een
        van niet dat ik op te zijn maar er hij bij naar voor och att det som på är inte jag til af
        ikke og jeg han els amb és și pe cu nu care din este mai
        """,
    }.items()
}
_ALL_FUNCTION_WORDS = frozenset[str]().union(*_FUNCTION_WORDS.values())
# A side is dropped if the detector gives its language a lower probability. 3 of 720,000 clean texts
# are below; Spanish, German and even Italian sentences of six words have 0.003 or less.
_FOREIGN = 0.005


def wrong_language(cleaner: Cleaner, source: str, target: str) -> bool:
    """A side is clearly in another language, or both sides are swapped.

    Sides of fewer than `language_from` words are not judged: names and cries have no language.
    """
    least = cleaner.config.language_from
    return _is_foreign(source, cleaner.config.languages[0], least) or _is_foreign(
        target, cleaner.config.languages[1], least
    )


def _is_foreign(text: str, language: str, least: int) -> bool:
    if text.count(" ") + 1 < least:
        return False
    words = text.lower().replace("’", "'").replace("'", "' ").split()
    found = _ALL_FUNCTION_WORDS.intersection(words)
    own = len(found & _FUNCTION_WORDS.get(language, frozenset()))
    if own >= 2 + 2 * (len(found) - own) + len(words) // 20:
        return False
    detector = language_detector()
    if detector.classify(text)[0] == language:
        return False
    probability: float = dict(detector.rank(text))[language]
    return probability < _FOREIGN


@cache
def language_detector() -> LanguageIdentifier:
    """Load the detector (half a second), once in each process, when a text first needs it."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detector.set_languages(set(detector.labels) - {"pcm"})  # Nigerian Pidgin: "born October 20"
    return detector


def check_languages(languages: Iterable[str]) -> None:
    """Refuse languages that the detector does not know.

    Raises:
        ConfigError: the detector does not know a language; names it.
    """
    if {*languages} <= {"en", "fr"}:  # without loading the detector
        return
    known = language_detector().labels
    if unknown := ", ".join(language for language in languages if language not in known):
        raise ConfigError(
            f"cleaning.languages: the filter wrong_language does not know {unknown}. Give "
            "codes of ISO 639, or leave the filter out of cleaning.filters"
        )


def language_of(text: str) -> str:
    """Return the code of the language that a text looks like, whatever numbers are in it."""
    return str(language_detector().classify(re.sub(r"\d+", "", text))[0])


_QUOTED = re.compile("[\"“”«»„]|''|(?<![\\w'⟧])['‘](?=\\w)")
_DIALOGUE = re.compile("-*[—–-] ?(?=[^\\W\\d])")  # a dash before what somebody says


def quotation(cleaner: Cleaner, source: str, target: str) -> bool:
    """Speech that is marked on one side only, as in novels, where French has a dash or nothing for
    the quotation marks of English: the model would learn to drop them, or to invent them."""
    if (_QUOTED.search(source) is None) != (_QUOTED.search(target) is None):
        return True
    return (_DIALOGUE.match(source) is None) != (_DIALOGUE.match(target) is None)


def leakage(cleaner: Cleaner, source: str, target: str) -> bool:
    """The pair is in the validation or test text, or a long side of it is, or (as an option) it
    shares many words in a row with that text: a score on seen text measures nothing."""
    return bool(cleaner.leaked(source, target))


def ngram_keys(text: str, size: int) -> set[int]:
    """Return a key for each `size` words in a row, ignoring case and punctuation."""
    words = _WORD.findall(text.casefold())
    return {text_key(" ".join(words[i : i + size])) for i in range(len(words) - size + 1)}


Filter = Callable[[Cleaner, str, str], bool]
FILTERS: dict[str, Filter] = {
    one.__name__: one
    for one in (empty, damaged, too_long, length_ratio, identical, markup, symbols, wrong_language,
                quotation, leakage)
}  # fmt: skip

_WORD = re.compile(r"\w+")
_ASCII_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_OTHER_SIGNS = re.compile(r"[^\w\0-\x7f]+")


def text_key(text: str) -> int:
    """Hash the letters and digits of a text, ignoring case, to 64 bits.

    The hash is the same on every machine, and 0 for a text without a letter or digit.
    """
    data = letters_of(text)
    return _key(data) if data else 0


def letters_of(text: str) -> bytes:
    """Return the letters and digits of a text, folded to one case, in UTF-8."""
    folded = nfc(text).casefold()
    letters = folded if folded.isascii() else _OTHER_SIGNS.sub("", folded)
    return letters.encode().translate(None, _ASCII_SIGNS)  # many times faster than a regex


def pair_key(source: str, target: str, salt: str = "") -> int:
    """Hash a pair, exactly as written, to 64 bits, equal on every machine.

    Different salts give hashes that are as good as independent.
    """
    text = f"{salt}{len(source)} {source}{target}"  # the length says where the target begins
    return _key(text.encode("utf-8", "surrogatepass"))


def _key(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
