"""Each rule against loops over plain lists, and in every strategy."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import TableStep, random_language

from seq2seq.config import DecodeConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.decoding.constraints import (
    BannedSequences,
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
    apply_constraints,
)
from seq2seq.decoding.history import History
from seq2seq.decoding.request import OutputLimits, Request
from seq2seq.decoding.search import make_constraints, search
from seq2seq.errors import RequestError

VOCABULARY = 7
TOKENS = st.integers(3, VOCABULARY - 1)
STRATEGIES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "n_best": 4},
    "sample": {"strategy": "sample", "n_best": 3},
}
strategies = pytest.mark.parametrize("strategy", STRATEGIES)


def histories(max_length: int = 8):
    """Several hypotheses of equal length, of up to three sentences."""
    return st.integers(0, max_length).flatmap(
        lambda length: st.lists(
            st.tuples(st.integers(0, 2), st.lists(TOKENS, min_size=length, max_size=length)),
            min_size=1,
            max_size=5,
        )
    )


def as_history(rows) -> History:
    tokens = torch.tensor([tokens for _, tokens in rows], dtype=torch.long).reshape(len(rows), -1)
    return History(tokens, tokens.double(), torch.tensor([sentence for sentence, _ in rows]))


def log_probs_of(rows, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.log_softmax(torch.randn(len(rows), VOCABULARY, generator=draw), dim=1)


def ruled_out(constraint, rows) -> list[list[int]]:
    """The tokens that a hard rule makes impossible for each row; checks that others stay."""
    before = log_probs_of(rows)
    after = before.clone()
    constraint(after, as_history(rows))
    changed = after != before
    assert (after[changed] == -math.inf).all()
    return [row.nonzero()[:, 0].tolist() for row in changed]


# Each rule alone


@given(rows=histories(), prefixes=st.lists(st.lists(TOKENS, max_size=5), min_size=3, max_size=3))
def test_a_prefix_leaves_its_next_token_alone(rows, prefixes):
    found = ruled_out(ForcedPrefix(prefixes), rows)
    for (sentence, tokens), gone in zip(rows, found, strict=True):
        prefix, place = prefixes[sentence], len(tokens)
        expected = [t for t in range(VOCABULARY) if place < len(prefix) and t != prefix[place]]
        assert gone == expected


@given(
    rows=histories(),
    banned=st.lists(
        st.lists(st.lists(TOKENS, min_size=1, max_size=3), max_size=3), min_size=3, max_size=3
    ),
)
def test_a_banned_sequence_loses_its_last_token_once_the_others_are_there(rows, banned):
    found = ruled_out(BannedSequences(banned), rows)
    for (sentence, tokens), gone in zip(rows, found, strict=True):
        expected = [
            token
            for token in range(VOCABULARY)
            if any([*tokens, token][-len(one) :] == one for one in banned[sentence])
        ]
        assert gone == expected


def repeats(tokens: list[int], size: int) -> bool:
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(grams)) < len(grams)


@given(rows=histories(), size=st.integers(1, 4))
def test_no_ngram_occurs_again(rows, size):
    found = ruled_out(NoRepeatNgram(size), rows)
    for (_, tokens), gone in zip(rows, found, strict=True):
        last = tuple(tokens[len(tokens) - size + 1 :])
        grams = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
        assert gone == [token for token in range(VOCABULARY) if (*last, token) in grams]


def test_no_repeated_ngram_gives_way_where_nothing_else_is_possible():
    log_probs = torch.full((2, VOCABULARY), -math.inf)
    log_probs[:, 4] = log_probs[1, 5] = -1.0
    NoRepeatNgram(1)(log_probs, as_history([(0, [4]), (1, [4])]))
    assert (log_probs > -math.inf).nonzero().tolist() == [[0, 4], [1, 5]]


@given(rows=histories(), factor=st.floats(1, 3))
def test_the_penalty_multiplies_log_probabilities_of_used_tokens(rows, factor):
    before = log_probs_of(rows)
    after = apply_constraints(before, [RepetitionPenalty(factor)], as_history(rows))
    for r, (_, tokens) in enumerate(rows):
        for token in range(VOCABULARY):
            times = factor if token in tokens else 1
            assert after[r, token].item() == pytest.approx(times * before[r, token].item())
    # Scores stay those of the model, but for marks that are no outputs.
    assert torch.equal(before[:, EOS:], log_probs_of(rows)[:, EOS:])


@given(rows=histories(), least=st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_too_short_an_output_does_not_end(rows, least):
    found = ruled_out(MinLength(least), rows)
    for (sentence, tokens), gone in zip(rows, found, strict=True):
        assert gone == [EOS] * (len(tokens) < least[sentence])


# In a search


def outputs(strategy: str, requests: list[Request], seed: int, **changes) -> list[list]:
    config = DecodeConfig(
        **{"min_length": 0, "max_extra": 4, **STRATEGIES[strategy], **changes}
    )
    return search(TableStep(random_language(VOCABULARY, seed)), requests, config, max_length=64)


@strategies
@settings(max_examples=15, deadline=None)
@given(
    prefixes=st.lists(st.lists(TOKENS, max_size=4), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_all_outputs_begin_with_their_prefixes(strategy, prefixes, seed):
    requests = [Request([3] * i, prefix=prefix) for i, prefix in enumerate(prefixes)]
    for prefix, found in zip(prefixes, outputs(strategy, requests, seed), strict=True):
        assert found
        assert all(one.tokens[: len(prefix)] == prefix for one in found)


@strategies
@settings(max_examples=15, deadline=None)
@given(
    banned=st.lists(
        st.lists(st.lists(TOKENS, min_size=1, max_size=3), max_size=3), min_size=1, max_size=4
    ),
    seed=st.integers(0, 99),
)
def test_no_output_holds_what_is_banned(strategy, banned, seed):
    requests = [Request([3] * i, banned=own) for i, own in enumerate(banned)]
    for own, found in zip(banned, outputs(strategy, requests, seed), strict=True):
        for one in found:
            held = [one.tokens[i : i + len(b)] for b in own for i in range(len(one.tokens))]
            assert not [sequence for sequence in held if sequence in own]


def looping(source, words):
    """Likes to go round: 3 4 5 3 4 5 ..."""
    favourite = 3 + (words[-1] - 2) % 3 if words else 3
    return [0.0, 0.0, 0.03, *(0.79 if token == favourite else 0.06 for token in range(3, 7))]


@strategies
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_output_repeats_an_ngram(strategy, size):
    requests = [Request([3] * i) for i in range(4)]
    free, ruled = (
        search(
            TableStep(looping),
            requests,
            DecodeConfig(max_extra=9, no_repeat_ngram=number, **STRATEGIES[strategy]),
            max_length=64,
        )
        for number in (0, size)
    )
    assert any(repeats(one.tokens, size) for found in free for one in found)
    assert not any(repeats(one.tokens, size) for found in ruled for one in found)


@strategies
def test_a_prefix_may_repeat_what_the_rule_forbids(strategy):
    [found] = outputs(strategy, [Request([3] * 5, prefix=[4, 4, 4])], 1, no_repeat_ngram=1)
    assert all(one.tokens[:3] == [4, 4, 4] for one in found)
    assert all(not repeats(one.tokens[2:], 1) for one in found)


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_a_penalty_makes_repetition_rarer_and_scores_stay_the_models(strategy):
    def language(source, words):
        return [0.0, 0.0, 0.05, 0.5, 0.3, 0.15]

    def repeated(factor):
        config = DecodeConfig(repetition_penalty=factor, max_extra=9, **STRATEGIES[strategy])
        requests = [Request([3] * i) for i in range(9)]
        found = search(TableStep(language), requests, config, max_length=64)
        for [best, *_] in found:
            probabilities = [language((), ())[t] for t in best.tokens]
            expected = sum(map(math.log, probabilities)) + best.finished * math.log(0.05)
            assert best.log_prob == pytest.approx(expected, abs=1e-4)
        return sum(len(best.tokens) - len(set(best.tokens)) for [best, *_] in found)

    assert repeated(1.0) > repeated(9.0)


@strategies
def test_an_output_that_cannot_go_on_is_cut_off_there_without_marks(strategy):
    """Tokens are banned one by one, and the end mark by the minimum length."""
    words = list(range(3, VOCABULARY))
    cannot_begin = Request([3], banned=[[word] for word in words])
    cannot_go_on = Request([3], banned=[[3], *([a, b] for a in words for b in words)])
    found = outputs(strategy, [cannot_begin, cannot_go_on, Request([3])], 0, min_length=3)
    assert {(tuple(one.tokens), one.finished) for one in found[0]} == {((), False)}
    assert {(len(one.tokens), one.finished) for one in found[1]} == {(1, False)}
    for one in found[1]:
        assert math.isfinite(one.score)
        assert len(one.token_log_probs) == 1
    assert {PAD, BOS, EOS}.isdisjoint(token for own in found for one in own for token in one.tokens)
    assert all(len(one.tokens) >= 3 for one in found[2])


def test_only_the_rules_that_a_batch_needs_are_made():
    def kinds(request, **changes):
        limits = [OutputLimits(0, 9)] * 2
        made = make_constraints([Request([3]), request], limits, DecodeConfig(**changes))
        return [type(rule).__name__ for rule in made]

    always = ["MinLength"]
    assert kinds(Request([3])) == always
    assert kinds(Request([3], prefix=[4])) == [*always, "ForcedPrefix"]
    assert kinds(Request([3], banned=[[4]])) == [*always, "BannedSequences"]
    assert kinds(Request([3]), no_repeat_ngram=2) == [*always, "NoRepeatNgram"]
    assert kinds(Request([3]), repetition_penalty=1.2) == [*always, "RepetitionPenalty"]


# What cannot be


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"prefix": [3, 4, 5], "banned": [[4, 5]]},
         r"banned tokens \[4, 5\] are in its prefix \[3, 4, 5\]: leave one"),
        ({"prefix": [3] * 7}, r"its prefix has 7 tokens, and its output may have 6.*max_extra"),
        ({"banned": [[]]}, r"a banned sequence is empty"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_before_the_search_and_names_the_sentence(asked, why):
    requests = [Request([3, 4]), Request([3], **asked)]
    config = DecodeConfig(max_ratio=1.0, max_extra=5)
    with pytest.raises(RequestError, match=rf"sentence 2 cannot be translated so: .*{why}"):
        search(None, requests, config, max_length=64)


def test_what_just_fits_is_done():
    request = Request([3], prefix=[3, 4, 5, 6, 6])
    config = DecodeConfig(max_ratio=1.0, max_extra=4, beam=1)
    language = random_language(VOCABULARY, 0)
    [[found]] = search(TableStep(language), [request], config, max_length=64)
    assert found.tokens[:5] == [3, 4, 5, 6, 6]
