"""User errors: exit codes, many problems in one message, hints that name valid words."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.errors import BundleError, ConfigError, DataError, RunError, UserError, nearest

WORD = st.text("abcdefgh", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("error", "code"),
    [(UserError, 1), (DataError, 1), (BundleError, 1), (RunError, 1), (ConfigError, 2)],
)
def test_exit_codes(error, code):
    assert issubclass(error, UserError)
    assert error(["text"]).exit_code == code


def test_one_problem_is_the_message():
    assert str(ConfigError("a=1 is too small")) == "a=1 is too small"


def test_several_problems_are_counted_and_all_listed():
    error = ConfigError(*(f"problem {i}" for i in range(3)))
    head, *lines = str(error).splitlines()
    assert head == "3 settings cannot work:"
    assert lines == ["  - problem 0", "  - problem 1", "  - problem 2"]
    assert error.problems == ("problem 0", "problem 1", "problem 2")


@settings(deadline=None, database=None)
@given(WORD, st.lists(WORD, min_size=1, max_size=5))
def test_a_hint_names_only_valid_words_and_at_least_one(word, valid):
    hint = nearest(word, valid)
    if hint.startswith("did you mean"):
        named = hint.removeprefix("did you mean ").removesuffix("?").replace("'", "").split(" or ")
        assert set(named) <= set(valid)
        assert named
    else:
        assert hint == "choose one of: " + ", ".join(sorted(valid))


def test_the_closest_word_comes_first():
    assert nearest("bsae", ["big", "base", "tiny"]) == "did you mean 'base'?"
    assert nearest("train", ["trainer", "strain", "trains"]).startswith("did you mean 'trains'")


def test_without_a_close_word_all_are_named():
    assert nearest("zzz", ["post", "pre"]) == "choose one of: post, pre"


def test_problems_survive_the_way_from_another_process():
    error = pickle.loads(pickle.dumps(ConfigError("first", "second")))
    assert error.problems == ("first", "second")
    assert str(error) == "2 settings cannot work:\n  - first\n  - second"
