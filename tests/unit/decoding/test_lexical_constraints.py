"""Required terms: always there, and by a beam where the language likes them best."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_search import TableStep, all_outputs, random_language
from test_constraints import STRATEGIES, strategies
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.config import DecodeConfig
from seq2seq.decoding.history import History
from seq2seq.decoding.lexical_constraints import RequiredTerms, round_robin
from seq2seq.decoding.request import Request, missing_tokens
from seq2seq.decoding.search import search
from seq2seq.errors import RequestError

VOCABULARY = 6
TERMS = st.lists(st.lists(st.integers(3, 5), min_size=1, max_size=3), max_size=3)


def holds(tokens, terms) -> bool:
    """Whether each term stands there as often as it is asked for."""
    for term, count in Counter(map(tuple, terms)).items():
        places = (tuple(tokens[i : i + len(term)]) for i in range(len(tokens)))
        if sum(place == term for place in places) < count:
            return False
    return True


def all_strings(alphabet, length):
    return itertools.chain.from_iterable(
        itertools.product(alphabet, repeat=n) for n in range(length + 1)
    )


# What is missing


def missing(sequences, output):
    """How many tokens complete an output, and how many once each of three has come next."""
    tokens = torch.tensor([output], dtype=torch.long)
    history = History(tokens, tokens.double(), torch.tensor([0]))
    now, tokens, after, other = RequiredTerms([sequences], [99]).missing(history)
    known = dict(zip(tokens[0].tolist(), after[0].tolist(), strict=True))
    return now.item(), {token: known.get(token, other.item()) for token in (3, 4, 5)}


@settings(max_examples=60, deadline=None)
@given(
    output=st.lists(st.integers(3, 5), max_size=5),
    sequences=st.lists(st.lists(st.integers(3, 5), min_size=1, max_size=3), min_size=1, max_size=2),
)
def test_so_many_tokens_as_are_missing_always_complete_an_output(output, sequences):
    output = tuple(output)
    now, after = missing(sequences, output)
    assert (now == 0) == holds(output, sequences)
    assert any(holds((*output, *more), sequences) for more in all_strings((3, 4, 5), now))
    for token, left in after.items():
        assert left >= missing(sequences, (*output, token))[0]
        if any(token in sequence for sequence in sequences) and now:
            assert left == missing(sequences, (*output, token))[0]
    assert not now or min(after.values()) < now  # there is always a way on


def test_what_is_missing_by_hand():
    expected = {(): 5, (3,): 4, (3, 4): 3, (3, 5): 4, (3, 4, 3, 4): 1, (5, 3, 4, 3): 1,
                (3, 4, 5, 3, 4): 0}  # fmt: skip
    found = {output: missing([[3, 4], [3, 4], [5]], output)[0] for output in expected}
    assert found == expected


@settings(max_examples=60, deadline=None)
@given(
    sentences=st.lists(TERMS, min_size=1, max_size=3).filter(any),
    length=st.integers(0, 6),
    seed=st.integers(0, 99),
)
def test_what_a_batch_lacks_and_has_met_is_counted_as_by_loops(sentences, length, seed):
    terms = RequiredTerms(sentences, [99] * len(sentences))
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, 6, (2 * len(sentences), length), generator=draw)
    history = History(tokens, tokens.double(), torch.arange(len(sentences)).repeat_interleave(2), 2)
    found = terms.missing(history).now_R.tolist()
    for lacking, row, b in zip(found, tokens.tolist(), history.sentence_R.tolist(), strict=True):
        assert lacking == missing_tokens(sentences[b], row)
    candidates = torch.tensor([[3, 4, 5]]).expand(len(tokens), -1)
    met = terms.constraints_met(history, candidates).tolist()
    for own, row, b in zip(met, tokens.tolist(), history.sentence_R.tolist(), strict=True):
        for number, token in zip(own, (3, 4, 5), strict=True):
            all_tokens = sum(map(len, sentences[b]))
            assert number <= all_tokens - missing_tokens(sentences[b], [*row, token])


# In a search


def outputs(strategy, requests, seed, sharpness=3.0, **changes):
    config = DecodeConfig(**{"max_extra": 8, **STRATEGIES[strategy], **changes})
    language = random_language(VOCABULARY, seed, sharpness)
    return search(TableStep(language), requests, config, max_length=64)


@strategies
@settings(max_examples=25, deadline=None)
@given(sentences=st.lists(TERMS, min_size=1, max_size=3), seed=st.integers(0, 99), data=st.data())
def test_every_output_holds_all_its_terms(strategy, sentences, seed, data):
    size = data.draw(st.integers(0, 2), label="no repeated n-gram")
    prefix = data.draw(st.lists(st.integers(3, 5), max_size=2), label="prefix")
    requests = [
        Request([3] * i, required=terms, prefix=prefix) for i, terms in enumerate(sentences)
    ]
    found = outputs(strategy, requests, seed, no_repeat_ngram=size, max_extra=11)
    for terms, own in zip(sentences, found, strict=True):
        assert own
        for one in own:
            assert holds(one.tokens, terms)
            assert one.tokens[: len(prefix)] == prefix


@strategies
@settings(max_examples=15, deadline=None)
@given(sentences=st.lists(TERMS, min_size=1, max_size=3), seed=st.integers(0, 99))
def test_terms_are_forced_in_time_where_there_is_no_room_to_spare(strategy, sentences, seed):
    for i, terms in enumerate(sentences):
        room = max(1, sum(map(len, terms)))
        [own] = outputs(
            strategy, [Request([3] * i, required=terms)], seed, max_ratio=0, max_extra=room + 1
        )
        assert all(holds(one.tokens, terms) for one in own)
        assert all(len(one.tokens) <= room + 1 for one in own)


@pytest.mark.parametrize("norm", ["none", "average"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "required", [[[3]], [[3], [3]], [[3, 4]], [[4, 4]], [[3], [5]], [[3, 4], [5]], [[3, 4, 3]]]
)
def test_a_beam_as_large_as_the_space_finds_the_best_output_with_the_terms(required, seed, norm):
    language, source, limit = random_language(VOCABULARY, seed, 2.0), (3, 4), 5
    config = DecodeConfig(
        beam=400, n_best=3, length_norm=norm, max_ratio=0, max_extra=limit, min_length=0
    )
    [found] = search(
        TableStep(language), [Request(source, required=required)], config, max_length=64
    )
    outputs = [one for one in all_outputs(language, source, limit) if holds(one.tokens, required)]
    outputs.sort(key=lambda one: -one.score(norm == "average"))
    assert [tuple(one.tokens) for one in found] == [one.tokens for one in outputs[:3]]
    for one, other in zip(found, outputs, strict=False):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_a_small_beam_places_a_term_better_than_greedy_search_does():
    gained = []
    for seed in range(20):
        request = Request([3], required=[[3, 4]])
        [[greedy]], [[beam]] = (
            outputs(name, [request], seed, 1.5, n_best=1, min_length=0)
            for name in ("greedy", "beam")
        )
        gained.append(beam.score - greedy.score)
    assert np.mean(gained) > 0.1
    assert min(gained) > -0.5


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_sentences_without_terms_are_searched_as_if_no_other_had_any(strategy):
    free = [Request([3] * i) for i in range(6)]
    mixed = [*free, Request([4], required=[[5, 5], [3]])]
    alone = outputs(strategy, free, 3)
    together = outputs(strategy, mixed, 3)[:-1]
    assert [[(one.tokens, one.score) for one in own] for own in together] == [
        [(one.tokens, one.score) for one in own] for own in alone
    ]


@strategies
@settings(max_examples=15, deadline=None)
@given(
    sentences=st.lists(st.lists(st.lists(st.integers(3, 12), min_size=1, max_size=4), max_size=3),
                       min_size=2, max_size=5),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_terms_give_the_same_output_in_any_batch(strategy, sentences, seed):
    """In a vocabulary that is larger than what a beam looks at."""
    language = TableStep(random_language(40, seed))
    requests = [Request([3] * i, required=terms) for i, terms in enumerate(sentences)]
    config = DecodeConfig(max_extra=14, **{**STRATEGIES[strategy]})
    alone = [search(language, [one], config, max_length=64)[0] for one in requests]
    together = search(language, requests[::-1], config, max_length=64)[::-1]
    assert [[one.tokens for one in own] for own in together] == [
        [one.tokens for one in own] for own in alone
    ]


def test_greedy_search_writes_a_term_to_its_end_where_the_language_would_end():
    def language(source, words):  # ends after two words, and would not go on with 4 after 3
        end = 0.9 if len(words) == 2 else 0.02
        return [0.0, 0.0, end, 0.04, 0.01, 0.93 - end]

    config = DecodeConfig(beam=1, max_extra=12)
    [[free], [found]] = search(
        TableStep(language), [Request([3]), Request([3], required=[[3, 4]])], config, max_length=64
    )
    assert free.tokens == [5, 5]
    assert found.tokens[:4] == [5, 5, 3, 4]


def test_terms_that_cannot_fit_are_refused():
    with pytest.raises(RequestError, match=r"have 9 tokens, and its output may have 8"):
        outputs("beam", [Request([], required=[[3, 4, 5]] * 3)], 0, max_ratio=0, max_extra=9)


# The allocation of beams


@given(
    st.lists(
        st.tuples(st.sampled_from([-math.inf, -4.0, -3.0, -2.0, -1.0]), st.integers(-3, 0)),
        min_size=1,
    ),
    st.integers(1, 9),
)
def test_banks_share_the_beams_by_turns(candidates, beams):
    scores, banks = (torch.tensor([column]) for column in zip(*candidates, strict=True))
    possible = scores > -math.inf
    order = scores.argsort(dim=1, descending=True, stable=True)
    # By hand: a queue for each bank, the fullest first, of which each gives one in turn.
    queues = {bank: [c for c in order[0].tolist() if banks[0, c] == bank and possible[0, c]]
              for bank in (0, -1, -2, -3)}  # fmt: skip
    expected = []
    while any(queues.values()):
        expected += [queue.pop(0) for queue in queues.values() if queue]
    found = round_robin(order, banks, possible)[0].tolist()
    assert sorted(found) == list(range(len(candidates)))
    assert found[: len(expected)][:beams] == expected[:beams]


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple) else [made]:
            self.size = max(self.size, one.numel())
        return made


def test_turns_take_no_more_memory_than_the_candidates():
    """Not that of their pairs."""
    order = torch.arange(500).expand(4, -1)
    with Largest() as largest:
        round_robin(order, torch.zeros(4, 500, dtype=torch.long), torch.ones(4, 500).bool())
    assert 4 * 500 <= largest.size <= 4 * 501


def test_one_bank_changes_no_order():
    order = torch.tensor([[2, 0, 1, 3]])
    found = round_robin(order, torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4).bool())
    assert found.tolist() == order.tolist()


def test_scores_of_outputs_with_terms_are_those_of_the_language():
    language = random_language(VOCABULARY, 2)
    for strategy in STRATEGIES:
        config = DecodeConfig(**STRATEGIES[strategy])
        [found] = search(
            TableStep(language), [Request([3], required=[[4, 5]])], config, max_length=64
        )
        for one in found:
            output = [*one.tokens, 2] if one.finished else one.tokens
            expected = sum(
                math.log(language((3,), tuple(output[:i]))[token])
                for i, token in enumerate(output)
            )
            assert one.log_prob == pytest.approx(expected, abs=1e-5)
