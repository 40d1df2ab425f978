"""The hand-written short texts: their form, and that English decides the French."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import pytest
from conftest import ROOT
from omegaconf import OmegaConf

from seq2seq.data.corpus import find_files

FILES = sorted((ROOT / "data/short").glob("*.tsv"))
PHRASES = sorted((ROOT / "data/starter/phrases").glob("*.tsv"))
MARKS = ".?!:,"


def lines(files) -> list[str]:
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()[1:]]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_a_table_of_pairs(file):
    header, *rows = file.read_text(encoding="utf-8").splitlines()
    assert header == "en\tfr"
    assert all(len(row.split("\t")) == 2 and all(row.split("\t")) for row in rows)


def test_english_decides_the_french():
    of_the_starter = {line.split("\t")[0]: line for line in lines(PHRASES)}
    assert len(of_the_starter) > 1000
    english = Counter(line.split("\t")[0] for line in lines(FILES))
    assert not [text for text, count in english.items() if count > 1 or text in of_the_starter]


def test_the_preset_finds_them_all():
    corpus = OmegaConf.load(ROOT / "configs/data/short_texts.yaml")
    files = find_files(corpus.train, str(ROOT / "data/short"), ("en", "fr"))
    assert files == FILES


def test_their_number_is_that_of_the_description():
    text = (ROOT / "data/README.md").read_text(encoding="utf-8")
    assert f"{len(lines(FILES)):,} short texts" in text
    for file in FILES:
        assert f"`{file.name}`" in text


def faults(en: str, fr: str) -> list[str]:
    """Names the typographic rules that a pair breaks."""
    ends = [text[-1:] if text[-1:] in MARKS else "" for text in (en, fr)]
    plain = re.sub(r"(?<= )[?!]{2,}|[:;]-?[()DP/]|\d:\d", "", fr)  # signs that chats have, scores
    rules = {
        "not composed": unicodedata.normalize("NFC", en + fr) != en + fr,
        "typographic apostrophe": "’" in en + fr,
        "space that is not plain, or two": bool(re.search(r"[^\S ]|  ", en + fr)),
        "space at an end": en != en.strip() or fr != fr.strip(),
        "no space before French ? ! : ;": bool(re.search(r"\S[?!:;](?= |$)", plain)),
        "space before French . or ,": bool(re.search(r" (?!\.\.\.)[.,](?!\w)", fr)),
        "typewriter quotation marks in French": '"' in fr,
        "different ends": ends[0] != ends[1],
    }
    return [name for name, broken in rules.items() if broken]


def test_typography():
    pairs = [line.split("\t") for line in lines(FILES)]
    assert not [(pair, found) for pair in pairs if (found := faults(*pair))]
