"""Sentences of English text: abbreviations, decimals, ellipses and quotes do not end one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.sentences import sentences

TEXTS = [
    ["Dr. Smith lives in Washington D.C. with his wife. ", "He works at St. Mary's."],
    ["It costs 3.5 dollars. ", "That is 1.000 too much."],
    ['He said "Stop!" and ran. ', "She laughed."],
    ["Wait... what is that? ", "I don't know."],
    ["Mr. and Mrs. Brown arrived at 5 p.m. yesterday. ", "They left on Jan. 3."],
    ["Use e.g. apples, i.e. fruit, etc. for this. ", "It is good."],
    ["See Fig. 3 and No. 5 on p. 20. ", "Then go on."],
    ["The U.S. economy grew 2.5% in Q1. ", "The U.K. did not."],
    ["J. R. R. Tolkien wrote it. ", "It was long."],
    ["Is it Yahoo! or Google? ", "I use both."],
    ["Version 2.0.1 is out. ", "Download it at https://x.org/a.b?c=d."],
    ["What?! ", "No way! ", "Yes."],
    ["Hello world"],
]


@pytest.mark.parametrize("parts", TEXTS, ids=lambda parts: parts[0][:20])
def test_sentences_end_where_people_end_them(parts):
    assert sentences("".join(parts)) == parts


@given(st.text(st.sampled_from("aé .!?…\"'()\0😀\ue000世\u0301\u200b\u3000")))
def test_joined_they_are_the_line(line):
    assert "".join(sentences(line)) == line


def test_the_splitter_is_not_loaded_before_it_is_needed():
    code = "import sys, seq2seq.inference.sentences; sys.exit('sentencex' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
