"""The sentences of data/templates are what the frames make; symbols are on both sides."""

from __future__ import annotations

import gzip
import random
import re
import subprocess
import sys

import pytest
from conftest import ROOT

FOLDER = ROOT / "data/templates"
TEXT = gzip.decompress((FOLDER / "pairs.tsv.gz").read_bytes()).decode()
PAIRS = [line.split("\t") for line in TEXT.splitlines()[1:]]


@pytest.fixture(scope="module")
def fillers():
    sys.path.insert(0, str(FOLDER))
    try:
        import fillers as module

        yield module
    finally:
        sys.path.remove(str(FOLDER))


def test_the_file_is_up_to_date():
    command = [sys.executable, str(FOLDER / "build.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_pair_is_whole_and_there_once():
    assert len({tuple(pair) for pair in PAIRS}) == len(PAIRS) > 15_000
    for pair in PAIRS:
        assert len(pair) == 2
        assert all(side == " ".join(side.split()) != "" for side in pair), pair
        assert not any("{" in side or "}" in side for side in pair), pair


@pytest.mark.parametrize("sign", list("£$€¥°²™®©→←↔×÷≈≤≥±½#@*•✓✔☐★❤🎉"))
def test_a_sign_of_one_side_is_on_the_other(sign):
    units = re.compile(r"([£$€])[\d.,]+ ?(million|billion|m|bn)\b")  # 5 millions de dollars
    found = [pair for pair in PAIRS if sign in pair[0]]
    assert len(found) > 0
    for english, french in found:
        if not units.search(english):
            assert english.count(sign) == french.count(sign), (english, french)


@pytest.mark.parametrize("wrong", [r"\w[?!;»]", r"«\S", r"[’“”\"\xa0\u202f]", r"[^\W\d]:(?= |$)",
                                   r"\d[£$€%]", r"[£$€]\d", r"\b(?:de|que) (?=[AEIOUÉ])"])
def test_french_typography(wrong):
    texts = [
        re.sub(r"\S*(?:https?:|www\.|example|test\.org)\S*", "", french) for _, french in PAIRS
    ]
    kept = [t for t in texts if re.search(wrong, t) and "! ? # $ %" not in t]
    assert kept == []


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("price", r"[\d ]+(,\d\d)? [£$€¥]"),
        ("percent", r"\d+(,\d+)? (%|pour cent)"),
        ("temperature", r"-?\d+ °[CF]"),
        ("date", r"(1er|\d+) [a-zéû]+( \d{4})?"),
        ("time", r"\d+ h( \d\d)?"),
        ("millions", r"\d+(,\d)? (million|milliard)s (de livres|de dollars|d'euros)"),
    ],
)
def test_french_forms(kind, form, fillers):
    for seed in range(200):
        english, french = fillers.fill(kind, random.Random(seed))
        assert re.fullmatch(form, french), (english, french)
        digits = [re.sub(r"\D", "", side) for side in (english, french)]
        if kind not in ("time", "date"):
            assert digits[0] == digits[1]


def test_times_are_read_right(fillers):
    made = dict(fillers.time(random.Random(seed)) for seed in range(3000))
    assert made["12:15 pm"] == "12 h 15"
    assert made["3:30 p.m."] == "15 h 30"
    assert made["9 a.m."] == "9 h"
    assert made["15:30"] == "15 h 30"
