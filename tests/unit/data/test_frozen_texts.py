"""The frozen texts: well-formed, and in no training text that is shipped."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter

import pytest
from conftest import ROOT

from seq2seq.lines import lines_of

SPEC = importlib.util.spec_from_file_location(
    "frozen_texts", ROOT / "scripts/benchmarks/frozen_texts.py"
)
frozen = importlib.util.module_from_spec(SPEC)
sys.modules["frozen_texts"] = frozen
SPEC.loader.exec_module(frozen)

TEXTS = frozen.frozen_texts()
DATA = sorted(
    file
    for file in (ROOT / "data").rglob("*")
    if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".py", ".md")
)


def test_their_number():
    assert Counter(text.set for text in TEXTS) == {"everyday": 200, "symbols": 300}
    everyday = Counter(text.kind for text in TEXTS if text.set == "everyday")
    assert len(everyday) == 12
    assert set(everyday.values()) <= {16, 17}


def test_each_is_there_once_and_whole():
    assert len({frozen.leak_key(text.en) for text in TEXTS}) == len(TEXTS)
    for text in TEXTS:
        fields = [text.kind, text.en, text.fr] + [text.symbols] * (text.set == "symbols")
        assert all(field and field == " ".join(field.split(" ")).strip() for field in fields), text


@pytest.mark.parametrize("wrong", [r"\w[?!;»]", r"«\S", r"[’“”\xa0\u202f]", r"[^\W\d]:(?= |$)"])
def test_french_typography(wrong):
    """Apart from links and code."""
    texts = [re.sub(r"https?://\S+", "", text.fr) for text in TEXTS]
    assert [text for text in texts if re.search(wrong, text)] == []


def test_references_hold_their_symbols():
    assert [(text.fr, gone) for text in TEXTS if (gone := frozen.lost(text.symbols, text.fr))] == []


@pytest.mark.parametrize(
    ("symbols", "french", "gone"),
    [
        ("30␣£|£␣30", "ça coûte 30\u202f£", ""),
        ("30␣£|£␣30", "ça coûte 130 £", "30␣£|£␣30"),
        ("30␣£|£␣30", "ça coûte £30,50", "30␣£|£␣30"),
        ("1,234.56", "1 234,56 $", ""),
        ("1,234.56", "1234 56", "1,234.56"),
        ("3\\.11", "3,11", "3\\.11"),
        ("🎉 🎉", "Bonne année 🎉", "🎉"),
        ("❤️", "Merci ❤", ""),
        ("👏🏽", "Bravo 👏", "👏🏽"),
        ("«»", 'j\'ai "faim"', ""),
        ("«»", "j'ai « faim", "«»"),
        ("«» «»", "« ici » ou “là”", ""),
        ("‹›", "le bateau 'Victory'", ""),
        ("‹›", "l'été n'est pas là", "‹›"),
        ("C++ C#", "le C et le C#", "C++"),
        ("O'Connor", "Sinéad O’Connor", ""),
    ],
)
def test_what_survives(symbols, french, gone):
    assert " ".join(frozen.lost(symbols, french)) == gone


def test_variants_leak():
    variants = [
        "THE OLD HOUSE IS EMPTY",
        "The old house is empty! 🎉",
        "£30",
        "See you tomorrow 👍",
    ]
    assert [text for text, _ in frozen.leaks(variants)] == variants
    assert frozen.leaks(["See you tomorrow.", "£31", "The old houses are empty."]) == []


@pytest.mark.parametrize("file", DATA, ids=lambda file: str(file.relative_to(ROOT / "data")))
def test_shipped_data_holds_none(file):
    assert file.name.removesuffix(".gz").endswith((".tsv", ".txt")), "read this kind of file too"
    cells = (cell for line in lines_of(file) for cell in line.split("\t"))
    assert frozen.leaks(cells) == []


def test_a_sheet_hides_which_is_which_and_the_key_tells(tmp_path):
    rows = [("everyday", "message", f"text {n}", f"texte {n}") for n in range(40)]
    for name in ("old", "new"):
        outputs = [(*row, row[3] if n == 0 else f"{name} {n}", "") for n, row in enumerate(rows)]
        frozen.write(tmp_path / name, frozen.OUTPUT, outputs)
    arguments = ["sheet", *(str(tmp_path / name) for name in ("old", "new")), "--seed", "3"]
    arguments += ["--sheet", str(tmp_path / "sheet"), "--key", str(tmp_path / "key")]
    options = frozen.parser().parse_args(arguments)
    options.run(options)
    judged = frozen.table(tmp_path / "sheet")
    key = frozen.table(tmp_path / "key")
    assert judged[0][5:7] == ["texte 0", "="]
    for (number, *_, first, second, _, _), (line, *names) in zip(judged[1:], key[1:], strict=True):
        assert number == line
        assert [first.split()[0], second.split()[0]] == names
    assert {names[1] for names in key} == {"old", "new"}
