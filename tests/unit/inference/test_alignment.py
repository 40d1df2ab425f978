"""Links between words: from weights, from the best head, in translations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import random_ids, tiny_recurrent, tiny_transformer
from tiny_bundle import tiny_bundle, translator_of

from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.forced import forced_attention
from seq2seq.inference.alignment import bare_words, word_links
from seq2seq.inference.head_selection import agreements, choose_head, ibm1_links
from seq2seq.inference.text.segmentation import Layout

LENGTHS = st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any)
PAIRS = [
    (random_ids(seed, 1 + seed % 6).tolist(), random_ids(seed + 99, 1 + seed % 4).tolist())
    for seed in range(40)
]


def links_by_loops(weights, source_lengths, target_lengths, least):
    found, row = [], 0
    for j, rows in enumerate(target_lengths):
        totals, column = [], 0
        for columns in source_lengths:
            cells = [weights[row + a][column + b] for a in range(rows) for b in range(columns)]
            totals.append(sum(cells) / max(1, rows))
            column += columns
        best = max(range(len(totals)), key=lambda i: totals[i])
        found += [(best, j)] if totals[best] >= least else []
        row += rows
    return found


@given(LENGTHS, LENGTHS, st.integers(0, 99), st.sampled_from([0.05, 0.2, 0.5]))
@settings(max_examples=100, deadline=None)
def test_links_are_those_of_the_loops(source_lengths, target_lengths, seed, least):
    rows, columns = sum(target_lengths) + 1, sum(source_lengths) + 1
    weights = np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), size=rows)
    found = word_links(weights, source_lengths, target_lengths, least)
    assert found == links_by_loops(weights.tolist(), source_lengths, target_lengths, least)


def test_what_looked_at_the_end_mark_or_at_all_alike_has_no_link():
    weights = np.array([[0.9, 0.05, 0.05], [0.1, 0.1, 0.8], [0.0, 0.0, 1.0]])
    assert word_links(weights, [1, 1], [1, 1]) == [(0, 0)]
    assert word_links(np.full((2, 11), 1 / 11), [1] * 10, [1]) == []


@pytest.mark.parametrize("model", [tiny_transformer(), tiny_recurrent()])
def test_agreements_are_counted_for_each_head_alone_and_the_best_is_chosen(model):
    links = ibm1_links(*zip(*PAIRS, strict=True))
    found, shares = agreements(model, PAIRS), {}
    for (layer, column), share in np.ndenumerate(found):
        head = AttentionHead(layer, None if column == found.shape[1] - 1 else column)
        weights = forced_attention(model, PAIRS, head)
        hits = [
            int(one[t, :-1].argmax()) == s
            for one, of_pair in zip(weights, links, strict=True)
            for s, t in of_pair
        ]
        shares[head] = sum(hits) / len(hits)
        assert share == pytest.approx(shares[head])
    assert found.max() > found.min() or found.size == 2  # one head is its own mean
    assert shares[choose_head(model, PAIRS)] == max(shares.values())


def test_pairs_that_do_not_fit_are_left_out_and_without_any_there_is_the_default():
    model = tiny_transformer()
    poor = [([], [5]), ([5], []), ([5] * 48, [5]), ([5], [5] * 48)]
    assert choose_head(model, poor) == choose_head(model, []) == AttentionHead()
    assert choose_head(model, poor + PAIRS) == choose_head(model, PAIRS)


def test_words_are_those_of_split_and_tokens_those_of_the_whole_sentence():
    translator = translator_of(tiny_bundle())
    source, target = "the  big\u00a0house, here ", " la maison\test ici"
    [links] = translator.align([(source, target)])
    assert links == translator.align([("the big house, here", "la maison est ici")])[0]
    assert {s for s, _ in links} <= set(range(len(source.split())))
    assert [t for _, t in links] == sorted({t for _, t in links} & set(range(4)))


def test_empty_and_too_long_pairs_have_no_links_and_shift_no_others():
    translator = translator_of(tiny_bundle())
    good = ("a man reads", "un homme lit")
    odd = [("", ""), ("a", ""), (" ", "un"), ("man " * 40, "homme"), ("man", "homme " * 40)]
    found = translator.align([*odd[:2], good, *odd[2:]])
    assert found[2] == translator.align([good])[0]
    assert [links for n, links in enumerate(found) if n != 2] == [[]] * 5


def test_translations_come_with_links_only_when_asked():
    translator = translator_of(tiny_bundle())
    texts = ["the big house", "", "a man reads here"]
    plain = translator.translate(texts, n_best=2)
    linked = translator.translate(texts, n_best=2, align=True)
    assert [t.text for t in linked] == [t.text for t in plain]
    assert not any(t.alignment for t in plain)
    for text, best in zip(texts, linked, strict=True):
        for one in (best, *best.alternatives):
            assert one.alignment == translator.align([(text, one.text)])[0]


def test_tags_are_no_words_but_keep_their_places():
    assert bare_words('a <b class="x y">big</b>, house<br/>') == ["a", "", "", "big,", "house"]
    translator = translator_of(tiny_bundle())
    sources = ("the big house is", '<i lang="en">the big</i> house is')
    plain, tagged = translator.align([(source, "la maison est ici") for source in sources])
    assert plain
    assert tagged == [(source + 1, target) for source, target in plain]


TEXT = st.lists(st.sampled_from(["a", "bc", " ", "\n", "\u00a0", "<b>"]), max_size=4).map("".join)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4), TEXT)
@settings(max_examples=100, deadline=None)
def test_the_first_word_of_a_piece_is_counted_in_the_whole_text(parts, last):
    gaps, pieces = [gap for gap, _ in parts] + [last], [f"x{piece}" for _, piece in parts]
    layout = Layout(pieces, gaps)
    before = ""
    for gap, piece, number in zip(gaps, pieces, layout.first_words(pieces), strict=False):
        before += gap
        assert number == len((before + "x").split()) - 1
        before += piece


def test_links_of_pieces_are_links_of_the_text():
    translator = translator_of(tiny_bundle())
    text = "- the big house.\n\nA man <b>reads</b> here."
    [whole] = translator.translate([text], align=True, rescue=False)
    words, output = text.split(), whole.text.split()
    assert whole.alignment
    assert all(0 <= s < len(words) and 0 <= t < len(output) for s, t in whole.alignment)
    parts = ["the big house.", "A man <b>reads</b> here."]
    [first, second] = translator.translate(parts, align=True, rescue=False)
    expected = [(s + 1, t + 1) for s, t in first.alignment]
    expected += [(s + 4, t + 1 + len(first.text.split())) for s, t in second.alignment]
    assert whole.alignment == expected


def test_half_a_surrogate_pair_can_be_aligned_and_scored():
    translator = translator_of(tiny_bundle())
    pair = ("a man \ud800", "un \udfff homme")
    assert translator.align([pair]) == translator.align([("a man ?", "un ? homme")])
    assert translator.score([pair]) == translator.score([("a man ?", "un ? homme")])


def test_links_lead_to_the_same_words_after_typography():
    translator = translator_of(tiny_bundle(max_length=64))
    texts = ["a man reads", "the house is here"]
    settings = {"prefix": "l'homme lit: oui", "max_extra": 30, "align": True, "rescue": False}
    plain = translator.translate(texts, **settings)
    printed = translator.translate(texts, typography=True, **settings)
    for one, other in zip(plain, printed, strict=True):
        assert other.text.startswith("l’homme lit\xa0: oui")
        assert one.alignment
        first = [[link for link in found.alignment if link[1] == 0] for found in (one, other)]
        assert first[0] == first[1]
