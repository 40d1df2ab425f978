"""What is read from lines, tables and objects, and what answers them, written out by hand."""

from __future__ import annotations

import json

import pytest

from seq2seq.cli.records import JsonLines, Lines, Objects, Rows
from seq2seq.cli.translate_options import AnswerOptions
from seq2seq.errors import DataError
from seq2seq.inference.translation import Translation

BEST = Translation("un\tdeux\ntrois", -0.5, tokens=["un"], token_scores=[-0.25, -0.75],
                   alignment=[(0, 0), (1, 2)])  # fmt: skip
OTHER = Translation("deux", -1.0, tokens=["deux"], token_scores=[-2.0])
BOTH = Translation("un", -0.5, alternatives=[OTHER])
TEXT = AnswerOptions()
SCORES = AnswerOptions(scores=True)
JSON = AnswerOptions(json=True)
EVERYTHING = AnswerOptions(scores=True, alignments=True)


def answers(form, lines, translation=BEST):
    """What stands in the output for these lines."""
    return [
        record.row if record.text is None else form.answer(record, translation)
        for record in form.read(lines)
    ]


def translated(form, lines):
    return [record.text for record in form.read(lines)]


def test_a_line_answers_a_line():
    assert translated(Lines(TEXT), ["a", "", " b "]) == ["a", "", " b "]
    assert answers(Lines(TEXT), ["a"]) == ["un\tdeux trois"]
    assert answers(Lines(EVERYTHING), ["a"]) == ["-0.5000\tun deux trois\t0-0 1-2"]


def test_n_lines_answer_a_line_even_if_fewer_translations_differ():
    form = Lines(AnswerOptions(n_best=3))
    assert answers(form, ["a"], BOTH) == ["un\ndeux\n"]
    assert answers(form, [""], Translation("", None)) == ["\n\n"]


def test_an_object_answers_a_line_and_holds_the_alternatives():
    [line] = answers(JsonLines(AnswerOptions(n_best=2, json=True)), ["a \ud800"], BOTH)
    assert line.encode()  # what UTF-8 cannot hold is escaped
    assert json.loads(line) == {
        "source": "a \ud800", "translation": "un", "score": -0.5,
        "alternatives": [{"translation": "deux", "score": -1.0}],
    }  # fmt: skip
    [line] = answers(JsonLines(EVERYTHING), ["é"])
    assert '"source": "é"' in line
    assert json.loads(line) == {
        "source": "é", "translation": "un\tdeux\ntrois", "score": -0.5, "tokens": ["un"],
        "token_scores": [-0.25, -0.75], "alignment": [[0, 0], [1, 2]],
    }  # fmt: skip


def test_notes_stand_in_objects():
    [line] = answers(JsonLines(JSON), ["a"], Translation("un", -1.0).with_notes("tag <b> was lost"))
    assert json.loads(line)["notes"] == ["tag <b> was lost"]


@pytest.mark.parametrize(
    ("column", "into", "lines", "expected"),
    [
        ("en", "fr", ["id\ten", "1\tone", "", "2\t"],
         ["id\ten\tfr", "1\tone\tun deux trois", "", "2\t\tun deux trois"]),
        ("en", "fr", ["fr\ten\tid", "alt\tone\t1", "x\tone"],
         ["fr\ten\tid", "un deux trois\tone\t1", "un deux trois\tone\t"]),
        ("1", None, ["1\tone", "2\ttwo"], ["1\tone\tun deux trois", "2\ttwo\tun deux trois"]),
        ("0", "0", ["one\t1"], ["un deux trois\t1"]),
        ("0", "7", ["one"], ["one\tun deux trois"]),
        ("en", "en", ["en"], ["en"]),
    ],
)  # fmt: skip
def test_rows_keep_their_columns_and_get_another(column, into, lines, expected):
    assert answers(Rows("a.tsv", column, into, TEXT), lines) == expected


def test_scores_and_alignments_are_columns_too():
    lines = ["fr\ten", "old\tone"]
    assert answers(Rows("a.tsv", "en", "fr", EVERYTHING), lines) == [
        "fr\ten\tscore\talignment", "un deux trois\tone\t-0.5000\t0-0 1-2",
    ]  # fmt: skip
    numbered = Rows("a.tsv", "1", "0", EVERYTHING)
    assert answers(numbered, ["x\tone"]) == ["un deux trois\tone\t-0.5000\t0-0 1-2"]


@pytest.mark.parametrize(
    ("column", "lines", "message"),
    [
        ("de", ["id\ten", "1\tx"], r"a\.tsv has no column 'de'; it has: id, en\..*--column"),
        ("2", ["id\ten"], r"a\.tsv has no column '2'; it has: 0, 1\..* from 0"),
        ("en", ["id\ten", "1\tx", "2"], r"a\.tsv, line 3: 1 column\(s\), but the first line has 2"),
        ("en", ["id\ten", "1\tx\ty"], r"a\.tsv, line 2: 3 column\(s\), but the first line has 2"),
    ],
)
def test_a_table_that_is_not_as_it_should_be_is_refused(column, lines, message):
    with pytest.raises(DataError, match=message):
        list(Rows("a.tsv", column, None, TEXT).read(lines))


def test_objects_keep_their_fields_and_get_another():
    form = Objects("a.jsonl", "en", "fr", TEXT)
    lines = ['{"id": 1, "en": "one", "more": [1.5, null]}', "", '{"en": "x", "fr": {"old": 1}}']
    found = answers(form, lines)
    assert json.loads(found[0]) == {"id": 1, "en": "one", "more": [1.5, None], "fr": BEST.text}
    assert found[1] == ""
    assert json.loads(found[2]) == {"en": "x", "fr": BEST.text}
    form = Objects("a.jsonl", "en", "fr", AnswerOptions(n_best=2, scores=True))
    assert json.loads(answers(form, ['{"en": "x"}'], BOTH)[0]) == {
        "en": "x", "fr": "un", "score": -0.5, "tokens": [], "token_scores": None,
        "alternatives": [
            {"fr": "deux", "score": -1.0, "tokens": ["deux"], "token_scores": [-2.0]}
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"a\.jsonl, line 2: not JSON"),
        ("[1]", r"a\.jsonl, line 2: not an object: \[1\]"),
        ('{"fr": "x", "n": 1}', r"a\.jsonl, line 2 has no text 'en'; it has: fr\. Name one"),
        ('{"en": 1}', r"a\.jsonl, line 2 has no text 'en'; it has: none"),
        ("[" * 100_000, r"a\.jsonl, line 2: not JSON"),
    ],
)
def test_what_is_no_object_with_the_text_is_refused(line, message):
    with pytest.raises(DataError, match=message):
        list(Objects("a.jsonl", "en", "fr", TEXT).read(['{"en": "x"}', line]))


def test_an_empty_text_has_no_score():
    assert answers(Lines(EVERYTHING), [""], Translation("", None)) == [""]
    form = Rows("a.tsv", "0", None, SCORES)
    assert answers(form, ["\t1"], Translation("", None)) == ["\t1\t\t"]


def test_what_was_not_translated_and_what_is_not_told_are_null():
    untouched, untold = Translation("12", None), Translation("un", -0.5, tokens=["un"])
    for one in (untouched, untold):
        found = json.loads(answers(JsonLines(EVERYTHING), ["x"], one)[0])
        assert (found["score"], found["token_scores"]) == (one.score, None)
    assert answers(Lines(SCORES), ["12"], untouched) == ["\t12"]


@pytest.mark.parametrize("name", ["score", "notes", "alternatives"])
def test_columns_that_are_there_are_not_overwritten(name):
    line = json.dumps({"en": "a", name: 1})
    form = Objects("a.jsonl", "en", "fr", AnswerOptions(n_best=2, scores=True))
    [answer] = answers(form, [line], BOTH)
    assert json.loads(answer)[name] == 1
    lines = ["en\tscore", "a\told"]
    assert answers(Rows("a.tsv", "en", "fr", SCORES), lines) == [
        "en\tscore\tfr\tscore", "a\told\tun deux trois\t-0.5000",
    ]  # fmt: skip


def test_a_number_of_too_many_digits_names_the_line():
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: not JSON"):
        translated(Objects("a.jsonl", "en", "fr", TEXT), [f'{{"en": {"1" * 5000}}}'])
