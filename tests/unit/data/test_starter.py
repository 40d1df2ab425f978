"""The starter corpus: it is up to date, cleanly split, and its French is right."""

import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

STARTER = Path(__file__).resolve().parents[3] / "data" / "starter"
SCRIPT = STARTER / "build.py"


@pytest.fixture(scope="module", autouse=True)
def starter_on_path() -> Any:
    """Lets the sibling modules of data/starter be imported by their plain names."""
    sys.path.insert(0, str(STARTER))
    yield
    sys.path.remove(str(STARTER))


@pytest.fixture(scope="module")
def build() -> Any:
    return importlib.import_module("build")


@pytest.fixture(scope="module")
def french() -> Any:
    return importlib.import_module("french")


@pytest.fixture(scope="module")
def english() -> Any:
    return importlib.import_module("english")


@pytest.fixture(scope="module")
def lexicon() -> Any:
    return importlib.import_module("words").load()


@pytest.fixture(scope="module")
def drawn(build: Any) -> Any:
    return build.draw_all()


@pytest.fixture(scope="module")
def corpus(build: Any, drawn: Any) -> Any:
    return build.split(drawn, build.read_phrases())


# ----------------------------------------------------------------------------- the files


def test_files_are_up_to_date(build: Any, corpus: Any) -> None:
    assert build.check(corpus) == []


def test_check_complains_about_a_changed_file(
    build: Any, corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    build.write(corpus)
    assert build.check(corpus) == []
    (tmp_path / "val.tsv").write_text("en\tfr\nHello!\tBonjour !\n", encoding="utf-8")
    (tmp_path / "test.tsv").unlink()
    complaints = build.check(corpus)
    assert len(complaints) == 2
    assert "val.tsv is out of date" in complaints[0]
    assert "test.tsv is missing" in complaints[1]


def test_command_line_explains_itself() -> None:
    run = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
    assert run.returncode == 0
    assert "--check" in run.stdout


def test_same_bytes_each_time(build: Any, corpus: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    build.write(corpus)
    first = (tmp_path / "train.tsv.gz").read_bytes()
    build.write(corpus)
    assert (tmp_path / "train.tsv.gz").read_bytes() == first
    assert first[3] == 0  # no file name in the gzip header
    assert first[4:8] == bytes(4)  # no time either


def test_sizes(build: Any, corpus: Any) -> None:
    assert len(corpus.composed) >= 40_000
    assert len(corpus.validation) == 500
    assert len(corpus.test) == 1000
    assert (STARTER / "train.tsv.gz").stat().st_size < 4_000_000


# ---------------------------------------------------------------------------- the splits


def test_held_out_sentences_are_not_in_training(corpus: Any) -> None:
    held_out = corpus.validation + corpus.test
    for side in (0, 1):
        train = {pair[side] for pair in corpus.train}
        assert not [pair for pair in held_out if pair[side] in train]
        assert len({pair[side] for pair in held_out}) == len(held_out)


def test_held_out_combinations_are_unseen(build: Any, corpus: Any, drawn: Any) -> None:
    by_english = {sentence.en: sentence for _, sentence in drawn}
    train = [by_english[en].combinations for en, _ in corpus.composed]
    assert not [c for combinations in train for c in combinations if build.is_held_out(c)]
    seen = frozenset().union(*train)
    for en, _ in corpus.validation + corpus.test:
        assert by_english[en].combinations - seen


def test_every_pattern_and_word_is_in_training(
    build: Any, corpus: Any, drawn: Any, english: Any, lexicon: Any
) -> None:
    train = {en for en, _ in corpus.composed}
    patterns = Counter(pattern.__name__ for pattern, sentence in drawn if sentence.en in train)
    assert len(patterns) == len(importlib.import_module("grammar").PATTERNS)
    assert min(patterns.values()) >= 100
    words = Counter(word for en in train for word in re.findall(r"[\w-]+", en.lower()))
    for noun in lexicon.nouns:
        forms = {english.noun_form(noun, plural).lower().split()[-1] for plural in (False, True)}
        assert sum(words[form] for form in forms) >= 50, noun.en
    for adjective in lexicon.adjectives:
        assert words[adjective.en.lower()] >= 25, adjective.en
    for verb in lexicon.verbs_of("do", "event", "mishap", "person", "intransitive", "arrival"):
        forms = {verb.en, english.past(verb), english.third_person(verb), english.ing(verb)}
        assert sum(words[form.split()[0]] for form in forms) >= 50, verb.en


def test_english_is_distinct_and_decides_the_french(corpus: Any) -> None:
    everything = corpus.composed + corpus.validation + corpus.test
    assert len({en for en, _ in everything}) == len(everything)
    assert len(set(corpus.train)) == len(corpus.train)


# -------------------------------------------------------------------------- typography


def _faults(en: str, fr: str) -> list[str]:
    """Names the typographic rules that a pair breaks."""
    rules = {
        "typographic apostrophe": "’" in en + fr,
        "space that is not plain": bool(re.search(r"[^\S ]", en + fr)),
        "double space": "  " in en + fr,
        "space at an end": en != en.strip() or fr != fr.strip(),
        "no capital": not (en[0].isupper() and fr[0].isupper()),
        "no space before French ? ! : ;": bool(re.search(r"\S[?!;]|[^\s\d]:", fr)),
        "space before French . or ,": bool(re.search(r" [.,]", fr)),
        "space before English punctuation": bool(re.search(r" [?!:;.,]", en)),
        "different ends": en[-1] != fr[-1] or en[-1] not in ".?!",
        "missing elision": bool(
            re.search(r"(?<!-)\b(?:je|ne|me|te|se|que|de) [aeiouéèêâîœ]", fr, re.IGNORECASE)
            and not re.search(r"\b(?:de|que) (?:onze|oui)\b", fr)
        ),
        "missing contraction": bool(re.search(r"\b(?:de|à) les? (?=\w)", fr)),
    }
    return [name for name, broken in rules.items() if broken]


def test_typography(corpus: Any) -> None:
    pairs = corpus.composed + corpus.validation + corpus.test
    assert not [(pair, faults) for pair in pairs if (faults := _faults(*pair))]


# -------------------------------------------------------------------------- morphology


@pytest.mark.parametrize(
    ("determiner", "noun", "plural", "adjective", "expected"),
    [
        ("a", "tree", False, "beautiful", "un bel arbre"),
        ("the", "house", False, "old", "la vieille maison"),
        ("a", "man", False, "old", "un vieil homme"),
        ("a", "hotel", False, "new", "un nouvel hôtel"),
        ("this", "tree", False, None, "cet arbre"),
        ("this", "school", False, None, "cette école"),
        ("my", "school", False, None, "mon école"),
        ("my", "idea", False, "good", "ma bonne idée"),
        ("a", "house", True, "beautiful", "de belles maisons"),
        ("a", "dress", True, "white", "des robes blanches"),
        ("the", "horse", True, None, "les chevaux"),
        ("the", "newspaper", True, None, "les journaux"),
        ("the", "bird", True, None, "les oiseaux"),
        ("a", "gift", True, "beautiful", "de beaux cadeaux"),
        ("the", "shoe", True, "brown", "les chaussures marron"),
        ("a", "soup", False, "fresh", "une soupe fraîche"),
        ("a", "car", False, "expensive", "une voiture chère"),
        ("which", "lesson", True, None, "quelles leçons"),
        ("any", "meat", False, None, "de viande"),
        ("their", "son", True, None, "leurs fils"),
    ],
)
def test_noun_phrases(
    french: Any,
    lexicon: Any,
    determiner: str,
    noun: str,
    plural: bool,
    adjective: str | None,
    expected: str,
) -> None:
    phrase = french.noun_phrase(
        lexicon.determiners[determiner],
        lexicon.noun(noun),
        plural,
        lexicon.adjective(adjective) if adjective else None,
    )
    assert french.spell(phrase) == expected


@pytest.mark.parametrize(
    ("verb", "tense", "person", "expected"),
    [
        ("eat", "present", 3, "nous mangeons"),
        ("begin", "present", 3, "nous commençons"),
        ("begin", "imperfect", 3, "nous commencions"),
        ("eat", "imperfect", 0, "je mangeais"),
        ("buy", "present", 5, "ils achètent"),
        ("buy", "future", 0, "j'achèterai"),
        ("prefer", "present", 2, "il préfère"),
        ("prefer", "future", 2, "il préférera"),
        ("call", "present", 0, "j'appelle"),
        ("call", "present", 4, "vous appelez"),
        ("clean", "future", 3, "nous nettoierons"),
        ("send", "future", 4, "vous enverrez"),
        ("choose", "present", 5, "ils choisissent"),
        ("wait for", "perfect", 2, "il a attendu"),
        ("drink", "present", 5, "ils boivent"),
        ("must", "present", 5, "ils doivent"),
        ("can", "present", 0, "je peux"),
        ("do", "present", 4, "vous faites"),
        ("be", "imperfect", 5, "ils étaient"),
        ("see", "future", 0, "je verrai"),
        ("receive", "future", 2, "il recevra"),
        ("come back", "future", 2, "il reviendra"),
        ("go", "future", 5, "ils iront"),
        ("get up", "present", 0, "je me lève"),
        ("get dressed", "perfect", 3, "nous nous sommes habillés"),
        ("want", "conditional", 0, "je voudrais"),
        ("laugh", "imperfect", 3, "nous riions"),
    ],
)
def test_conjugation(
    french: Any, lexicon: Any, verb: str, tense: str, person: int, expected: str
) -> None:
    subject = french.Agreement(person, plural=person in (3, 5))
    group = french.verb_group(lexicon.verb(verb), tense, subject)
    assert french.spell(f"{french.PRONOUNS[person]} {group}") == expected


@pytest.mark.parametrize(
    ("adjective", "noun", "expected"),
    [
        ("old", "hospital", "le plus vieil hôpital"),
        ("beautiful", "tree", "le plus bel arbre"),
        ("old", "school", "la plus vieille école"),
        ("good", "idea", "la meilleure idée"),
        ("quiet", "hotel", "l'hôtel le plus calme"),
    ],
)
def test_superlatives(french: Any, lexicon: Any, adjective: str, noun: str, expected: str) -> None:
    superlative = french.superlative(lexicon.adjective(adjective), lexicon.noun(noun))
    assert french.spell(superlative) == expected


def test_participles_agree(french: Any, lexicon: Any) -> None:
    women = french.Agreement(5, feminine=True, plural=True)
    me = french.Agreement(0)
    arrive, see, talk = (lexicon.verb(name) for name in ("arrive", "see", "talk to"))
    assert "elles " + french.verb_group(arrive, "perfect", women) == "elles sont arrivées"
    seen = french.verb_group(see, "perfect", me, clitic="les", clitic_agreement=women)
    assert french.spell("je " + seen) == "je les ai vues"
    woman = women._replace(plural=False)
    assert "je " + french.verb_group(talk, "perfect", me, clitic="leur") == "je leur ai parlé"
    denied = french.verb_group(
        see,
        "perfect",
        me,
        negation="pas",
        clitic="la",
        clitic_agreement=woman,
    )
    assert french.spell("je " + denied) == "je ne l'ai pas vue"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("il ne aime pas", "il n'aime pas"),
        ("à le cinéma", "au cinéma"),
        ("à le hôpital", "à l'hôpital"),
        ("de la eau", "de l'eau"),
        ("de le pain", "du pain"),
        ("près de les arbres", "près des arbres"),
        ("si il pleut", "s'il pleut"),
        ("si elle vient", "si elle vient"),
        ("parce que elle dort", "parce qu'elle dort"),
        ("je y vais", "j'y vais"),
        ("le huit mai", "le huit mai"),
        ("beaucoup de onions", "beaucoup d'onions"),
        ("donnez-le à Marie", "donnez-le à Marie"),
        ("est-ce que ils", "est-ce qu'ils"),
    ],
)
def test_elision_and_contraction(french: Any, text: str, expected: str) -> None:
    assert french.spell(text) == expected


@pytest.mark.parametrize(
    ("n", "en", "fr"),
    [
        (21, "twenty-one", "vingt et un"),
        (71, "seventy-one", "soixante et onze"),
        (80, "eighty", "quatre-vingts"),
        (81, "eighty-one", "quatre-vingt-un"),
        (91, "ninety-one", "quatre-vingt-onze"),
        (99, "ninety-nine", "quatre-vingt-dix-neuf"),
        (100, "one hundred", "cent"),
    ],
)
def test_numbers(english: Any, french: Any, n: int, en: str, fr: str) -> None:
    assert english.number(n) == en
    assert french.number(n) == fr


def test_numbers_agree_and_have_bounds(english: Any, french: Any) -> None:
    assert french.number(21, feminine=True) == "vingt et une"
    for module in (english, french):
        with pytest.raises(ValueError, match="out of range"):
            module.number(101)


@pytest.mark.parametrize(
    ("hour", "minute", "en", "fr"),
    [
        (8, 30, "half past eight", "huit heures et demie"),
        (7, 45, "a quarter to eight", "huit heures moins le quart"),
        (12, 0, "noon", "midi"),
        (12, 30, "half past twelve", "midi et demi"),
        (12, 55, "five to one", "une heure moins cinq"),
        (1, 10, "ten past one", "une heure dix"),
    ],
)
def test_clock(english: Any, french: Any, hour: int, minute: int, en: str, fr: str) -> None:
    assert english.clock(hour, minute) == en
    assert french.clock(hour, minute) == fr


def test_dates(english: Any, french: Any) -> None:
    assert (english.date(1, "May"), french.date(1, "mai")) == ("May 1", "le 1er mai")
    assert (english.date(3, "May"), french.date(3, "mai")) == ("May 3", "le 3 mai")


@pytest.mark.parametrize(
    ("verb", "past", "ing", "third"),
    [
        ("carry", "carried", "carrying", "carries"),
        ("write", "wrote", "writing", "writes"),
        ("swim", "swam", "swimming", "swims"),
        ("look for", "looked for", "looking for", "looks for"),
        ("go home", "went home", "going home", "goes home"),
        ("wash", "washed", "washing", "washes"),
    ],
)
def test_english_verbs(
    english: Any, lexicon: Any, verb: str, past: str, ing: str, third: str
) -> None:
    entry = lexicon.verb(verb)
    assert english.past(entry) == past
    assert english.ing(entry) == ing
    assert english.third_person(entry) == third


@pytest.mark.parametrize(
    ("text", "expected"),
    [("old man", "an old man"), ("useful map", "a useful map"), ("umbrella", "an umbrella")],
)
def test_english_articles(english: Any, text: str, expected: str) -> None:
    assert english.with_article(text) == expected
