"""Terminology: target phrases that are to stand for source phrases, and such as must not come.

A model that has learnt terms reads them inline (`data/annotations.py`). Any other is asked for the
sentence as it is; where a term is missing then, `fallback.py` has it written in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from seq2seq.data.annotations import AS, END_TERM, TERM
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import DataError, UserError
from seq2seq.inference.engines import Engine
from seq2seq.inference.text.fallback import Search, Source
from seq2seq.inference.text.markup import Markup, Tag, Taken
from seq2seq.inference.text.step import Fault, Step
from seq2seq.inference.text.tags import Token, stand_in
from seq2seq.inference.translation import Translation

Span = tuple[int, int]

LEAST = 0.9  # characters of what goes on behind a term, for each of what stood there
# French articles, of which the gender of a term wants another.
_ARTICLES = [
    ["le", "la", "l'", "les"], ["un", "une", "des"], ["du", "de la", "de l'", "des"],
    ["au", "à la", "à l'", "aux"], ["ce", "cet", "cette", "ces"], ["mon", "ma", "mes"],
    ["ton", "ta", "tes"], ["son", "sa", "ses"], ["quel", "quelle", "quels", "quelles"],
    ["de", "d'"],
]  # fmt: skip
_ARTICLE = re.compile(
    r"(?:^|(?<=\s))(" + "|".join(sorted(chain(*_ARTICLES), key=len, reverse=True)) + r")\s?$",
    re.IGNORECASE,
)


class Terminology(Step):
    """Asks for terms.

    Args:
        phrases: target phrases by source phrases.
        banned: target phrases that no translation should contain, however they are written in
            capitals, nor words that begin with one.
        inline: whether the model has learnt to read terms in its source.

    Raises:
        UserError: a phrase of a pair is empty, or holds what is banned.
    """

    name = "terminology"
    checks = True

    def __init__(
        self,
        phrases: Mapping[str, str],
        banned: Sequence[str] = (),
        *,
        inline: bool = False,
    ):
        own = [phrase.strip() for phrase in banned if phrase.strip()]
        # As a search can ban them; a sentence may begin with one.
        self.banned = list(dict.fromkeys(s for p in own for s in (p, p[:1].upper() + p[1:])))
        self._banned = re.compile("|".join(map(_begun, own)), re.IGNORECASE) if own else None
        self._targets = {_key(source): target for source, target in phrases.items()}
        for source, target in phrases.items():
            if not source.strip() or not target.strip():
                raise UserError(
                    f"the term {source!r}: {target!r} has an empty phrase, which cannot be found "
                    "or required: write both phrases, or leave the term out"
                )
            if wrong := self.forbidden(target):
                raise UserError(
                    f"the term {source!r}: {target!r} holds the banned {wrong[0]!r}: leave one of "
                    "them out"
                )
        longest_first = sorted(self._targets, key=len, reverse=True)
        words = "|".join(re.escape(source).replace(r"\ ", r"\s+") for source in longest_first)
        # The edges of a phrase are those of words: no term "art" in "part".
        self._pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) if words else None
        self._inline = inline

    def before(self, text: str) -> tuple[str, list[Fault]]:
        """The text, with its terms inline if the model reads them so, and what each asks for."""
        terms = [Fault(f"the term {t}", "term", t, span) for span, t in self.terms(text)]
        if self._inline:
            for term in reversed(terms):
                start, end = term.span
                start -= text[start - 1 : start] == " "
                marked = f"{TERM}{text[start:end]}{AS} {term.wanted}{END_TERM}"
                text = text[:start] + marked + text[end:]
        return text, terms

    def faults(self, result: Translation, state: list[Fault]) -> list[Fault]:
        """The terms that a translation lacks, each once."""
        missing = {
            term.wanted: term
            for term in reversed(state)
            if not re.search(_whole(term.wanted), result.text, re.IGNORECASE)
        }
        return list(missing.values())[::-1]

    def terms(self, source: str) -> list[tuple[Span, str]]:
        """Where a source has terms, the longest of those that overlap, and their targets."""
        if self._pattern is None:
            return []
        found = []
        for match in self._pattern.finditer(source):
            # The pattern takes some letters for the same that are not in lower case: a long s.
            target = self._targets.get(_key(match[0]))
            if target is not None:
                found.append((match.span(), target))
        return found

    def spans(self, source: str) -> list[Span]:
        """The places of terms in a source."""
        return [span for span, _ in self.terms(source)]

    def forbidden(self, target: str) -> tuple[str, ...]:
        """The banned phrases in a translation, each once as it is written there."""
        if self._banned is None:
            return ()
        return tuple(dict.fromkeys(match[0] for match in self._banned.finditer(target)))


class TermWriter:
    """Writes missing terms into translations, for a model that has not learnt to read them.

    A term takes the place of the words that looked at its source phrase, behind the article that
    makes it likeliest, and the search goes on there; what it finds is taken if the model likes it
    better than what stood there.
    """

    def __init__(self, engine: Engine, vocabularies: Vocabularies):
        self.engine, self.vocabularies = engine, vocabularies

    def __call__(
        self, sources: Sequence[Source], found: Sequence[Translation], search: Search
    ) -> list[list[Translation]]:
        """For each source the translation with its terms."""
        written = [self._written(*each) for each in zip(sources, found, strict=True)]
        begun = [
            replace(source, prefix=text[:end])
            for source, (text, end) in zip(sources, written, strict=True)
        ]
        results = []
        for source, best, (text, _), own in zip(
            sources, found, written, search(begun), strict=True
        ):
            as_it_was = best.with_text(text)
            # What goes on may stop too early, say again what stood there, or go on in the term.
            fitting = [
                one
                for one in own
                if LEAST < len(one.text) / len(text) < 1 / LEAST
                and source.rank(one) <= source.rank(as_it_was)
            ]
            choices = [as_it_was, *fitting[:1]]
            scored = [self._scored(source.plain, one) for one in choices]
            results.append([max(scored, key=lambda one: sum(one.token_scores))])
        return results

    def _scored(self, source: str, one: Translation) -> Translation:
        """A translation with the tokens of its text, and what the model thinks of them."""
        vocabulary, limit = self.vocabularies.target, self.engine.max_length - 1
        ids = self.vocabularies.source.encode([source])[0], vocabulary.encode([one.text])[0]
        [scores] = self.engine.score([(ids[0][:limit], ids[1][:limit])])
        tokens = vocabulary.tokens(ids[1])
        return replace(one, score=sum(scores) / len(scores), tokens=tokens, token_scores=scores)

    def _written(self, source: Source, best: Translation) -> tuple[str, int]:
        """A translation with its missing terms, and where the last of them ends."""
        terms = [fault for fault in source.faults(best) if fault.kind == "term"]
        signs = [stand_in(best.text)]
        signs.append(stand_in(best.text + signs[0]))
        text, last = best.text, 0
        markup = Markup(self.vocabularies, str)
        for term in terms:
            tags = [
                Tag(sign, at, Token(at, at + 1, "term", opens=number == 0, closes=number == 1))
                for number, (sign, at) in enumerate(zip(signs, term.span, strict=True))
            ]
            taken = Taken(source.plain, tags, escaped=False)
            one = best.with_text(text)
            looked = markup.looks(one, taken)
            assert looked is not None
            pair = looked[0][0], looked[1][0]
            before, rest = f"{text} ".lstrip(), ""  # where no place can be found
            if all(pair) and max(map(len, pair)) < self.engine.max_length:
                [weights] = self.engine.attention([pair])
                left, _, inside = markup.after(one, taken, weights).text.partition(signs[0])
                there, _, right = inside.partition(signs[1])
                if left.startswith(source.prefix):
                    before, rest = left, right
                    if not any(map(str.isalnum, there)):  # a mark is no word for it
                        before, rest = f"{left.rstrip()} ", there + right
            before = self._behind_article(source, before, term.wanted)
            text, last = before + rest, max(last, len(before))
        return text, last

    def _behind_article(self, source: Source, before: str, term: str) -> str:
        """What stands before a term, with the article that makes the term likeliest, and the term.

        How likely the article itself is says nothing: the model expected another word.
        """
        if not before.strip():
            term = term[:1].upper() + term[1:]
        article = _ARTICLE.search(before)
        if article is None or article.start(1) < len(source.prefix):
            return before + term
        start = before[: article.start(1)]
        if _ARTICLE.search(f"{term.split()[0]} ") or "'" in term[:3]:  # it brings its own
            return start + term
        group = next(group for group in _ARTICLES if article[1].lower() in group)
        vowel = term[0].lower() in "aâeéèêiîoôuhy"
        plural = article[1][-1].lower() in "sx"  # one or many: the source said it
        choices = []
        for other in group:
            if (other[-1] in "sx") != plural:
                continue
            elided = other.endswith("'")
            if (elided or not vowel or other[-1] in "nstxum") and (vowel or not elided):
                other = other[:1].upper() + other[1:] if article[1][0].isupper() else other
                choices.append((start + other, "" if elided else " "))
        pairs, lengths = [], []
        [ids] = self.vocabularies.source.encode([source.plain])
        for begun, space in choices:
            left, whole = self.vocabularies.target.encode([begun, begun + space + term])
            pairs.append((ids, whole))
            lengths.append(len(left))
        scored = self.engine.score(pairs)
        likely = [sum(own[n:-1]) for own, n in zip(scored, lengths, strict=True)]
        begun, space = choices[likely.index(max(likely))]
        return begun + space + term


def _whole(phrase: str) -> str:
    """A pattern of a phrase between edges of words."""
    return _begun(phrase) + (r"(?!\w)" if re.match(r"\w", phrase[-1]) else "")


def _begun(phrase: str) -> str:
    """A pattern of a phrase, or of what begins with it, from the edge of a word on."""
    edge = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    return edge + r"\s+".join(map(re.escape, phrase.split()))


def _key(phrase: str) -> str:
    return " ".join(phrase.lower().split())


def load_terms(path: str | Path) -> dict[str, str]:
    """Read a file of terms: source phrase, tab, target phrase; one pair per line.

    Blank lines and lines that begin with # say nothing.

    Raises:
        DataError: the file cannot be read, or a line is no pair, or contradicts another; names it.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read the terms {path}: {error}. Give a UTF-8 text file of lines 'source "
            "phrase, tab, target phrase'"
        ) from error
    terms: dict[str, str] = {}
    lines_of: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise DataError(
                f"{path}, line {number}: {line.strip()[:60]!r} is no pair of phrases: write the "
                "source phrase, one tab, and the target phrase"
            )
        source, target = parts
        if terms.setdefault(_key(source), target) != target:
            raise DataError(
                f"{path}, line {number}: {source!r} is {target!r} here, and "
                f"{terms[_key(source)]!r} in line {lines_of[_key(source)]}: keep one of them"
            )
        lines_of.setdefault(_key(source), number)
    return terms
