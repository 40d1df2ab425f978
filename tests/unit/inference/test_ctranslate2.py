"""CTranslate2 beside our own engine: the same outputs and scores, whatever the model is made of."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ROOT
from tiny import RECURRENT_SIZES, SIZES, random_ids, shake
from tiny_bundle import tiny_bundle

from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.config import DecodeConfig, RecurrentConfig, TransformerConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.decoding.request import Request, output_limits
from seq2seq.errors import BundleError, ConfigError, RunError, UserError
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.translator import Translator
from seq2seq.model.recurrent import RecurrentModel
from seq2seq.model.transformer import Transformer

ctranslate2 = pytest.importorskip("ctranslate2", reason="pip install -e '.[ctranslate2]'")

from seq2seq.bundle.ctranslate2 import exported  # noqa: E402
from seq2seq.bundle.ctranslate2_export import export  # noqa: E402
from seq2seq.cli.export import main  # noqa: E402
from seq2seq.inference.engines import PRECISIONS, BothEngines, choose_engine  # noqa: E402
from seq2seq.inference.engines import ctranslate2 as ctranslate2_engine  # noqa: E402
from seq2seq.inference.engines.ctranslate2 import CTranslate2Engine  # noqa: E402

BYTES = 259  # tokens of a vocabulary of bytes
DECODE = DecodeConfig(beam=3, n_best=3, min_length=0, max_ratio=0.0, max_extra=14)
KINDS = {
    "norm": ("pre", "post"),
    "activation": ("relu", "gelu", "swiglu"),
    "positions": ("sinusoidal", "learned", "rotary"),
    "n_kv_heads": (None, 2, 1),
}
# What is left goes through its values beside them.
UNTIED = {"tie_embeddings": "none"}  # its outputs vary most
OTHERS = itertools.cycle(
    [
        UNTIED,
        UNTIED | {"head_dim": 6},
        UNTIED | {"encoder_layers": 1, "decoder_layers": 3},
        {"tie_embeddings": "decoder"},
        {"tie_embeddings": "all"},
    ]
)
ARCHITECTURES = [
    dict(zip(KINDS, values, strict=True)) | next(OTHERS)
    for values in itertools.product(*KINDS.values())
]
SELF_NORM = {"qk_norm": True, "cross_qk_norm": False}
ARCHITECTURES += [
    SELF_NORM | {"activation": "relu", "positions": "rotary"},
    SELF_NORM | {"norm": "post", "positions": "learned", "n_kv_heads": 2},
    SELF_NORM | {"activation": "swiglu", "positions": "rotary", "n_kv_heads": 1},
]


def talkative(
    seed: int = 0, sizes: tuple[int, int | None] = (BYTES, None), ending: float = 1.0, **changes
) -> Transformer:
    """A random model that never wants to say a mark, and ends its outputs now and then."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**{**SIZES, **UNTIED, **changes}), *sizes)
    shake(model, seed)
    last = model.decoder[-1].feed_forward_residual.norm
    norm = last if model.config.norm == "post" else model.decoder_norm
    with torch.no_grad():
        for layer in [*model.encoder, *model.decoder]:  # else it would repeat its last word
            for block in (layer.self_attention.out_proj, layer.feed_forward.outer):
                block.weight *= 8.0
        for layer in model.decoder:
            layer.cross_attention.out_proj.weight *= 8.0
        if model.config.tie_embeddings == "none":  # so that positions weigh more
            model.target_embedding.tokens.weight *= 0.2
        norm.weight *= 3.0
        # One dimension is the same at each step, and only marks look at it.
        norm.weight[0], norm.bias[0] = 0.0, 4.0
        model.output.weight[:, 0] = 0.0
        for token, score in ((PAD, -8.0), (BOS, -8.0), (EOS, ending)):
            model.output.weight[token] *= token == EOS
            model.output.weight[token, 0] = score / 4
    return model.eval()


def vocabularies(joint: bool = True) -> Vocabularies:
    first, second = (Tokenizer.train((), BYTES, "byte") for _ in range(2))
    return Vocabularies(first, first if joint else second)


def save(model, folder: Path, joint: bool = True, alignment: AttentionHead | None = None) -> Path:
    training = {"step": 1, "scores": {}, "length_ratio": 1.2}
    words = vocabularies(joint)
    Bundle(model, words, DECODE, training, [], alignment or AttentionHead()).save(folder)
    return folder


def engines(model, folder: Path, **options) -> tuple[TorchEngine, CTranslate2Engine]:
    """Ours, and CTranslate2's on what was exported."""
    head = options.get("alignment") or AttentionHead()
    made = export(save(model, folder / "bundle", **options))
    with pytest.MonkeyPatch.context() as two_workers:
        two_workers.setenv("OMP_NUM_THREADS", "2")
        return TorchEngine([model], 1.2, [head]), CTranslate2Engine(made, "cpu")


def requests(count: int = 12, seed: int = 0) -> list[Request]:
    lengths = [1 + i * 5 % 11 for i in range(count)]
    return [
        Request(random_ids(seed + i, length, vocab_size=BYTES).tolist())
        for i, length in enumerate(lengths)
    ]


def outputs(results) -> list[list[tuple[list[int], bool]]]:
    return [[(one.tokens, one.finished) for one in found] for found in results]


def assert_same(ours, theirs, config: DecodeConfig = DECODE) -> None:
    """The same tokens in the same order, with the same scores and probabilities.

    Both give what came for free too, beyond what was asked for, and ours may stop earlier. Where
    the limit cut a hypothesis off, CTranslate2 may have lost another for it.
    """
    whole = [
        (a[: config.n_best], b[: config.n_best])
        for a, b in zip(ours, theirs, strict=True)
        if not a[0].finished or (b[0].finished and len(b) == config.beam)
    ]
    assert 2 * len(whole) > len(ours)
    ours, theirs = zip(*whole, strict=True)
    assert outputs(ours) == outputs(theirs)
    for a, b in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        assert b.score == pytest.approx(a.score, abs=1e-4, rel=1e-5)
        assert b.log_prob == pytest.approx(a.log_prob, abs=1e-3)


def forced(engine: TorchEngine, request: Request, found) -> float:
    """The whole model's log probability of an output."""
    [log_probs] = engine.score([(request.source, found.tokens)])
    return sum(log_probs if found.finished else log_probs[:-1])


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[TorchEngine, CTranslate2Engine]:
    return engines(talkative(4, positions="learned"), tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An exported model; not to be changed."""
    return export(save(talkative(), tmp_path_factory.mktemp("folder") / "bundle"))


# The same as ours


@pytest.mark.parametrize(
    "kinds", ARCHITECTURES, ids=lambda kinds: "-".join(map(str, kinds.values()))
)
def test_outputs_scores_and_attention_are_ours_for_each_architecture(kinds, tmp_path):
    ours, theirs = engines(talkative(**kinds), tmp_path)
    wanted = requests()
    for changes in ({}, {"beam": 1, "n_best": 1}):
        config = replace(DECODE, **changes)
        found = ours.search(wanted, config)
        assert_same(found, theirs.search(wanted, config), config)

    targets = [random_ids(i, 1 + i % 7, vocab_size=BYTES).tolist() for i in range(len(wanted))]
    pairs = [(request.source, target) for request, target in zip(wanted, targets, strict=True)]
    for a, b in zip(ours.score(pairs), theirs.score(pairs), strict=True):
        assert b == pytest.approx(a, abs=1e-4)
    for a, b in zip(ours.attention(pairs), theirs.attention(pairs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_two_vocabularies_of_different_sizes(tmp_path):
    larger = Tokenizer.train(["the old house of the man"] * 9, 300)
    model = talkative(sizes=(BYTES, larger.vocab_size), tie_embeddings="decoder")
    words = Vocabularies(vocabularies().source, larger)
    Bundle(model, words, DECODE, {"step": 1, "scores": {}}).save(tmp_path / "bundle")
    theirs = CTranslate2Engine(export(tmp_path / "bundle"), "cpu")
    assert_same(TorchEngine([model]).search(requests(), DECODE), theirs.search(requests(), DECODE))


@pytest.mark.parametrize(
    "changes",
    [
        {"length_norm": "none"},
        {"length_norm": "none", "n_best": 1},  # it has a stopping rule of its own for this one
        {"length_penalty": 0.0, "n_best": 1},
        {"length_penalty": 0.6},
        {"length_penalty": 1.5, "beam": 6},
        {"length_norm": "gnmt", "length_penalty": 0.6, "n_best": 1},
        {"batch_tokens": 1},
    ],
    ids=str,
)
def test_outputs_are_ours_for_each_setting_of_the_search(pair, changes):
    config = replace(DECODE, **changes)
    ours, theirs = (engine.search(requests(40), config) for engine in pair)
    assert_same(ours, theirs, config)


@pytest.mark.parametrize("n_best", [1, 3])
@pytest.mark.parametrize(
    "limit",
    [
        {"max_ratio": 0.0, "max_extra": 2, "min_length": 1},
        {"max_ratio": 0.0, "max_extra": 4},
        {"max_ratio": 0.5, "max_extra": 3},
    ],
    ids=str,
)
def test_torch_searches_again_what_the_limit_cut_off(limit, n_best, tmp_path):
    """What ended is found beside what the limit cuts off, and nothing empty takes its place."""
    ours, theirs = engines(talkative(7, ending=2.5, positions="learned"), tmp_path)
    config = replace(DECODE, beam=4, n_best=n_best, **limit)
    expected = [own[:n_best] for own in ours.search(requests(40), config)]
    both = BothEngines(theirs, lambda: ours).search(requests(40), config)
    assert outputs([own[:n_best] for own in both]) == outputs(expected)
    assert not all(one.finished for [one, *_] in theirs.search(requests(40), config))


@pytest.mark.parametrize("beam", [1, 3])
def test_torch_searches_again_where_an_output_would_be_empty(beam, tmp_path):
    ours, theirs = engines(talkative(7, ending=4.0, positions="learned"), tmp_path)
    config = replace(DECODE, beam=beam, n_best=1, min_length=1)
    free = theirs.search(requests(40), replace(config, min_length=0, n_best=beam))
    assert not all(one.tokens for own in free for one in own)
    both = BothEngines(theirs, lambda: ours).search(requests(40), config)
    expected = ours.search(requests(40), config)
    assert outputs([own[:1] for own in both]) == outputs([own[:1] for own in expected])


def test_hypotheses_that_came_for_free_are_passed_on(pair):
    """Where the first is degenerate, the next is taken, as with torch."""
    ours, theirs = pair
    both = BothEngines(theirs, lambda: ours).search(requests(20), replace(DECODE, beam=4, n_best=1))
    assert max(map(len, both)) > 1


def test_an_output_is_no_longer_than_its_own_limit(pair):
    """Among sentences that have more room, too; its score is that of the whole model."""
    ours, theirs = pair
    config = replace(DECODE, max_ratio=0.5, max_extra=1)
    for request, found in zip(requests(40), theirs.search(requests(40), config), strict=True):
        most = output_limits(len(request.source) + 1, config, 99, 1.2).most
        for one in found:
            assert len(one.tokens) + one.finished <= most
            assert one.finished or len(one.tokens) == most
            assert one.log_prob == pytest.approx(forced(ours, request, one), abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "workers", "tokens"),
    [
        ({}, 1, 252),  # 64 hypotheses at once, which are quicker together
        ({}, 16, 24),  # and something for each worker
        ({"batch_tokens": 60}, 2, 20),
        ({"batch_tokens": 1}, 2, 1),
        ({"beam": 64, "n_best": 1}, 1, 52),  # a batch for each worker, four times
        ({"beam": 64, "n_best": 1}, 2, 26),
    ],
    ids=str,
)
def test_batches_keep_to_the_budget_and_give_each_worker_its_share(
    pair, monkeypatch, changes, workers, tokens
):
    _, theirs = pair
    asked: list[int] = []

    class Recording:
        score_batch = theirs._model.score_batch

        def translate_batch(self, *given, max_batch_size, **options):
            asked.append(max_batch_size)
            return real.translate_batch(*given, max_batch_size=max_batch_size, **options)

    real = theirs._model
    monkeypatch.setattr(theirs, "_model", Recording())
    monkeypatch.setattr(theirs, "_workers", workers)
    wanted = requests(30) + [replace(one, prefix=(5,)) for one in requests(3)]
    found = theirs.search(wanted, replace(DECODE, **changes))
    assert all(found)
    assert (len(asked), asked[0]) == (2, tokens)


def test_large_vocabularies_are_scored_in_small_batches(pair, monkeypatch):
    _, theirs = pair
    pairs = [(request.source, [5, 9, 7]) for request in requests()]
    together = theirs.score(pairs)
    monkeypatch.setattr(ctranslate2_engine, "BATCH_LOGITS", BYTES)  # one position at once
    for a, b in zip(together, theirs.score(pairs), strict=True):
        assert b == pytest.approx(a, abs=1e-4)


def test_there_is_a_thread_for_each_core_where_affinity_is_not_known(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert ctranslate2_engine._threads() == os.cpu_count()


@pytest.mark.parametrize("head", [0, 3])
@pytest.mark.parametrize("kv_heads", [None, 2, 1])
def test_the_head_that_aligns_is_told_though_it_is_not_the_first(kv_heads, head, tmp_path):
    chosen = AttentionHead(layer=1, head=head)
    ours, theirs = engines(talkative(n_kv_heads=kv_heads), tmp_path, alignment=chosen)
    pairs = [(request.source, [5, 9, 7]) for request in requests()]
    for a, b in zip(ours.attention(pairs), theirs.attention(pairs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert_same(ours.search(requests(), DECODE), theirs.search(requests(), DECODE))


def test_a_sentence_alone_is_as_among_others_in_any_order(pair):
    _, theirs = pair
    wanted = requests(20)
    together = theirs.search(wanted, DECODE)
    assert outputs(together) == outputs([theirs.search([one], DECODE)[0] for one in wanted])
    assert outputs(theirs.search(wanted[::-1], DECODE)) == outputs(together[::-1])


def test_threads_share_an_engine(pair):
    _, theirs = pair
    groups = [requests(12, seed) for seed in range(8)]
    alone = [outputs(theirs.search(group, DECODE)) for group in groups]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda group: outputs(theirs.search(group, DECODE)), groups))
    assert found == alone


def test_nothing_gives_nothing_and_progress_counts_each_sentence(pair):
    _, theirs = pair
    counts: list[int] = []
    assert theirs.search([], DECODE) == theirs.score([]) == theirs.attention([]) == []
    theirs.search(requests(), replace(DECODE, batch_tokens=30), counts.append)
    assert sum(counts) == 12
    assert len(counts) > 2


# Rules


def holds(tokens: list[int], sequence: list[int]) -> bool:
    return any(tokens[i : i + len(sequence)] == sequence for i in range(len(tokens)))


def test_marks_are_never_said_even_by_a_model_that_wants_to(tmp_path):
    model = talkative()
    with torch.no_grad():
        model.output.weight[[PAD, BOS], 0] = 1.0
    _, theirs = engines(model, tmp_path)
    for found in theirs.search(requests(), DECODE):
        assert all({PAD, BOS, EOS}.isdisjoint(one.tokens) for one in found)


def test_rules_hold_and_scores_are_of_the_whole_model(pair):
    ours, theirs = pair
    free = theirs.search(requests(), DECODE)
    wanted = [
        replace(request, prefix=[40 + i, 41], banned=[found[0].tokens[1:2], [9, 8]])
        if i % 2
        else replace(request, banned=[found[0].tokens[:2]])
        for i, (request, found) in enumerate(zip(requests(), free, strict=True))
        if len(found[0].tokens) > 2
    ]
    assert len(wanted) >= 6
    config = replace(DECODE, min_length=4, no_repeat_ngram=2)
    for request, found in zip(wanted, theirs.search(wanted, config), strict=True):
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        for one in found:
            pairs = list(itertools.pairwise(one.tokens))
            assert one.tokens[: len(request.prefix)] == list(request.prefix)
            assert not any(holds(one.tokens, list(banned)) for banned in request.banned)
            assert len(one.tokens) >= 4
            assert len(set(pairs)) == len(pairs)
            assert one.log_prob == pytest.approx(forced(ours, request, one), abs=1e-3)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "sinusoidal_halves", "rotary"])
def test_rules_hold_up_to_the_limit_of_the_model(positions, tmp_path):
    """What the limit cuts off is scored, too, and aligned."""
    model = talkative(4, ending=-8.0, positions=positions, max_length=16)
    ours, theirs = engines(model, tmp_path)
    config = replace(DECODE, max_extra=1000, no_repeat_ngram=2)
    found = theirs.search(requests(), config)
    for request, hypotheses in zip(requests(), found, strict=True):
        for one in hypotheses:
            assert (len(one.tokens), one.finished) == (16, False)
            own, _ = token_log_probs(ours, request, one)
            assert one.log_prob == pytest.approx(sum(own), abs=1e-3)
    pairs = [
        (request.source, one.tokens) for request, [one, *_] in zip(requests(), found, strict=True)
    ]
    for (source, target), weights in zip(pairs, theirs.attention(pairs), strict=True):
        assert weights.shape == (len(target) + 1, len(source) + 1)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-5)


def test_samples_are_drawn_from_the_likeliest_tokens(pair):
    ours, theirs = pair
    config = replace(DECODE, strategy="sample", n_best=20, top_k=2)
    found = theirs.search(requests(4), config)
    for request, samples in zip(requests(4), found, strict=True):
        assert len(samples) == 20
        assert len({tuple(one.tokens) for one in samples}) > 1
        scores = [one.score for one in samples]
        assert scores == sorted(scores, reverse=True)
        for one in samples:
            own, likelier = token_log_probs(ours, request, one)
            assert one.log_prob == pytest.approx(sum(own), abs=1e-3)
            assert max(likelier) <= 1  # than a token that was drawn


def token_log_probs(engine: TorchEngine, request: Request, found) -> tuple[list, list]:
    """Log probabilities of an output's tokens, and how many tokens were likelier than each."""
    [model] = engine.models
    source = torch.tensor([[*request.source, EOS]])
    labels = torch.tensor([*found.tokens, EOS])[: len(found.tokens) + found.finished]
    target = torch.tensor([[BOS, *labels[:-1].tolist()]])
    with torch.inference_mode():
        hidden = model(source, torch.ones_like(source, dtype=torch.bool), target)
        rows = model.project(hidden)[0].log_softmax(dim=-1)
    own = rows.gather(1, labels[:, None])
    return own[:, 0].tolist(), (rows > own).sum(dim=1).tolist()


def test_cold_samples_are_the_greedy_output(pair):
    _, theirs = pair
    cold = replace(DECODE, strategy="sample", n_best=5, temperature=1e-4)
    greedy = theirs.search(requests(), replace(DECODE, beam=1, n_best=1))
    for samples, [expected] in zip(theirs.search(requests(), cold), greedy, strict=True):
        assert [one.tokens for one in samples] == [expected.tokens] * 5


def test_what_ctranslate2_lacks_is_refused_in_one_message(pair):
    _, theirs = pair
    config = replace(DECODE, strategy="sample", min_p=0.1, repetition_penalty=1.2)
    with pytest.raises(ConfigError) as caught:
        theirs.search([Request([5])], config)
    assert len(caught.value.problems) == 2
    for name in ("decode.repetition_penalty=1.2", "decode.min_p=0.1"):
        assert (
            f"the engine ctranslate2 has no {name}: leave it out, or use the engine torch"
            in caught.value.problems
        )


# Files


@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_small_weights_say_nearly_the_same(quantization, folder, tmp_path):
    small = export(folder.with_name("bundle"), tmp_path / "small", quantization)
    sizes = [(one / "model.bin").stat().st_size for one in (small, folder)]
    assert sizes[0] < 0.75 * sizes[1]
    pairs = [(request.source, [7, 8, 9]) for request in requests()]
    exact, rough = (CTranslate2Engine(one, "cpu").score(pairs) for one in (folder, small))
    assert rough != exact
    # Without VNNI, a processor cuts sums of 8-bit products off at 16 bits.
    close = 0.25 if quantization == "float16" or torch.cpu._is_vnni_supported() else 1.0
    assert np.abs(np.array(rough) - np.array(exact)).max() < close


def test_a_folder_is_a_model_of_ctranslate2_with_all_that_we_need(folder):
    names = {"config.json", "model.bin", "shared_vocabulary.json", "tokenizer.json"}
    assert {path.name for path in folder.iterdir()} == names
    plain = ctranslate2.Translator(str(folder))
    source = ["a", "b", "</s>"]
    [result] = plain.translate_batch([source], beam_size=3, max_decoding_length=40)
    words = vocabularies().source
    ids = [words.backend.token_to_id(token) for token in source[:-1]]
    config = replace(DECODE, max_ratio=0.0, max_extra=40, min_length=1)
    [[best, *_]] = CTranslate2Engine(folder, "cpu").search([Request(ids)], config)
    assert best.tokens == [words.backend.token_to_id(token) for token in result.hypotheses[0]]


def test_a_translator_runs_on_a_bundle_converted_once_or_on_what_was_exported(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path / "cache"))
    bundle = save(talkative(), tmp_path / "bundle")
    texts = ["the old house", "", "1 2 3"]
    plain = [one.text for one in Translator.load(bundle, "cpu").translate(texts, protect=False)]
    with caplog.at_level(logging.WARNING):
        first = Translator.load(bundle, "cpu", engine="ctranslate2")
        Translator.load(bundle, "cpu", engine="ctranslate2")
    said = [line for line in caplog.messages if "for ctranslate2, once: it is kept in" in line]
    assert len(said) == 1
    assert [one.text for one in first.translate(texts, protect=False)] == plain
    other = Translator.load(export(bundle), "cpu", engine="ctranslate2")
    assert [one.text for one in other.translate(texts, protect=False)] == plain
    save(talkative(seed=1), tmp_path / "bundle")
    assert exported(bundle) != exported(other_folder := export(bundle, tmp_path / "other"))
    assert exported(other_folder) == other_folder
    assert len(list((tmp_path / "cache" / "ctranslate2").iterdir())) == 2


def test_threads_may_convert_a_bundle_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path / "cache"))
    bundle = save(talkative(), tmp_path / "bundle")
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(exported, [bundle] * 4))
    assert set((tmp_path / "cache" / "ctranslate2").iterdir()) == folders
    assert CTranslate2Engine(folders.pop(), "cpu").search(requests(), DECODE)


def test_a_cache_that_cannot_be_written_is_told_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RunError, match="cannot be written"):
        exported(save(talkative(), tmp_path / "bundle"))


def test_what_another_version_exported_is_refused(tmp_path):
    made = export(save(talkative(), tmp_path / "bundle"))
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    config["ctranslate2"]["layout"] -= 1
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(BundleError, match="another version of seq2seq: export the bundle again"):
        CTranslate2Engine(made, "cpu")


def test_a_model_without_room_on_the_device_is_not_called_damaged(folder, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("CUDA failed with error out of memory")

    monkeypatch.setattr(ctranslate2, "Translator", full)
    with pytest.raises(UserError, match=r"no room on cpu.*use the precision int8, or"):
        CTranslate2Engine(folder, "cpu")


def test_a_bundle_in_16_bits_is_converted_as_one_of_32_with_the_same_weights(tmp_path):
    half = load_bundle(save(talkative(), tmp_path / "half"))
    half.save(tmp_path / "half", dtype=torch.float16)
    load_bundle(tmp_path / "half").save(tmp_path / "same")
    made = [export(tmp_path / name) / "model.bin" for name in ("half", "same")]
    assert made[0].read_bytes() == made[1].read_bytes()


def test_models_that_ctranslate2_cannot_run_are_refused_by_the_setting(tmp_path, caplog):
    save(talkative(qk_norm=True), tmp_path / "normed")
    with pytest.raises(BundleError, match=r"model\.cross_qk_norm=true: use the engine"):
        export(tmp_path / "normed")
    with caplog.at_level("WARNING"), pytest.raises(BundleError, match=r"model\.qk_norm=true"):
        exported(tmp_path / "normed")
    assert not caplog.messages  # of converting
    config = RecurrentConfig(**RECURRENT_SIZES)
    save(RecurrentModel(config, BYTES), tmp_path / "recurrent", alignment=AttentionHead())
    with pytest.raises(BundleError, match=r"model\.architecture=rnn_attention \(it runs"):
        export(tmp_path / "recurrent")
    assert {path.name for path in tmp_path.iterdir()} == {"normed", "recurrent"}


def test_a_bundle_that_is_the_current_folder_is_exported_beside_it(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(save(talkative(), tmp_path / "bundle"))
    assert export(".") == tmp_path / "bundle-ctranslate2-float32"
    monkeypatch.chdir(empty := tmp_path / "empty")
    with pytest.raises(RunError, match=f"{empty} exists already: choose another folder with"):
        export(tmp_path / "bundle", Path(), force=True)
    assert empty.is_dir()


def test_an_output_that_exists_is_replaced_when_asked_and_if_it_is_a_model(tmp_path):
    bundle = save(talkative(), tmp_path / "bundle")
    output = export(bundle, tmp_path / "out")
    with pytest.raises(RunError, match="out exists already: choose another folder with --output"):
        export(bundle, output)
    before = (output / "model.bin").stat().st_size
    export(bundle, output, "int8", force=True)
    assert (output / "model.bin").stat().st_size < before
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("years", encoding="utf-8")
    with pytest.raises(RunError, match="since --force replaces exported models only"):
        export(bundle, tmp_path / "work", force=True)
    assert (tmp_path / "work" / "thesis.tex").read_text(encoding="utf-8") == "years"
    with pytest.raises(RunError, match="since --force replaces exported models only"):
        export(bundle, tmp_path / "work" / "thesis.tex", force=True)  # a file is no model either


def test_an_exported_model_is_no_bundle_for_torch(folder):
    with pytest.raises(BundleError, match="was exported from a bundle for ctranslate2: give the"):
        Translator.load(folder, "cpu")


@pytest.mark.parametrize("fault", ["cut", "newer", "no vocabulary"])
def test_a_damaged_folder_is_reported(fault, folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    weights = (copy / "model.bin").read_bytes()
    if fault == "cut":
        (copy / "model.bin").write_bytes(weights[:-1000])
    elif fault == "newer":
        (copy / "model.bin").write_bytes((99).to_bytes(4, "little") + weights[4:])
    else:
        (copy / "shared_vocabulary.json").unlink()
    with pytest.raises(BundleError, match=r"cannot read the model .*damaged, or of a newer"):
        CTranslate2Engine(copy, "cpu")


def test_a_newer_format_of_ours_is_reported(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8")) | {"format": 99}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(BundleError, match="has format 99"):
        CTranslate2Engine(copy, "cpu")


def test_devices_and_precisions_that_are_not_there_are_reported(folder, monkeypatch):
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 0)
    with pytest.raises(UserError, match=r"but ctranslate2 finds no such GPU: use cpu$"):
        CTranslate2Engine(folder, "cuda")
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 2)
    with pytest.raises(UserError, match=r"finds no such GPU: use cpu, cuda:0, cuda:1$"):
        CTranslate2Engine(folder, "cuda:2")
    for name in ("foo", "cpu:x", "cuda:", ""):
        with pytest.raises(UserError, match=f"device '{name}' is not known: use auto, cpu or cuda"):
            CTranslate2Engine(folder, name)
    with pytest.raises(UserError, match=r"precision int3 is not fast on this cpu.*auto, .*float32"):
        CTranslate2Engine(folder, "cpu", "int3")


def test_the_names_of_precisions_are_those_of_the_package(folder):
    for name in ("float23", *PRECISIONS["ctranslate2"]):
        try:
            ctranslate2.Translator(str(folder), compute_type=name)
            known = True
        except ValueError as error:  # also of those that this CPU lacks
            known = "Invalid compute type" not in str(error)
        assert known == (name != "float23"), name
    assert ctranslate2.get_supported_compute_types("cpu") <= set(PRECISIONS["ctranslate2"])


@pytest.mark.parametrize("command", ["translate", "score"])
@pytest.mark.parametrize("kind", ["exported", "converted"])
def test_nothing_waits_for_torch(kind, command, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path / "cache"))
    model = folder if kind == "exported" else folder.with_name("bundle")
    exported(model)
    (tmp_path / "a.en").write_text("x\n")
    texts = ["x"] if command == "translate" else [str(tmp_path / "a.en")] * 2
    code = f"import sys; from seq2seq.cli import {command}; {command}.main()\nprint(*sys.modules)"
    given = ["--engine", "ctranslate2", "--model", str(model), *texts]
    found = subprocess.run(
        [sys.executable, "-c", code, *given], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    modules = set(found.stdout.splitlines()[-1].split())
    assert "ctranslate2" in modules
    slow = {"torch", "lightning_fabric", "hydra", "datasets", "safetensors", "pyarrow"}
    if command == "score":
        slow.remove("pyarrow")  # reads files of pairs
    assert not slow & modules


def test_mistakes_are_told_before_anything_is_converted(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path))
    bundle = folder.with_name("bundle")
    with pytest.raises(UserError, match="device 'gpu' is not known: use auto, cpu or cuda"):
        Translator.load(bundle, "gpu", engine="ctranslate2")
    with pytest.raises(UserError, match=r"precision int3 is not fast on this cpu .* choose one of"):
        Translator.load(bundle, "cpu", engine="ctranslate2", precision="int3")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"needs a package .*pip install -e '\.\[ctranslate2\]'"):
        Translator.load(folder, engine="ctranslate2")


def test_several_models_and_unknown_engines_are_refused(folder):
    with pytest.raises(UserError, match="ctranslate2 runs one model, and 2 were given"):
        Translator.load([folder, folder], engine="ctranslate2")
    with pytest.raises(UserError, match="onnx is not known: choose one of: auto, ctr"):
        Translator.load(folder, engine="onnx")


AUTO = [
    ({}, "ctranslate2", "it is installed"),
    ({"lacking": ["--json"]}, "torch", "ctranslate2 has no --json"),
    ({"precision": "float32"}, "ctranslate2", ""),
    ({"precision": "int8"}, "torch", "compared in float32"),
    ({"device": "cuda"}, "torch", "on a GPU"),
]


@pytest.mark.parametrize(("asked", "engine", "why"), AUTO)
def test_auto_takes_ctranslate2_where_it_gives_what_torch_gives(
    folder, asked, engine, why, tmp_path, monkeypatch
):
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path))
    given = {"device": "cpu", "precision": "auto"} | asked
    chosen, reason = choose_engine([folder.with_name("bundle")], **given)
    assert (chosen, why in reason) == (engine, True)


def test_auto_takes_torch_for_what_ctranslate2_cannot_run(folder, tmp_path, monkeypatch):
    bundle = folder.with_name("bundle")
    assert choose_engine([bundle, bundle], "cpu", "auto") == ("torch", "several models vote")
    assert choose_engine([folder], "cpu", "auto")[0] == "ctranslate2"
    tiny_bundle(qk_norm=True).save(tmp_path / "b")
    engine, why = choose_engine([tmp_path / "b"], "cpu", "auto")
    assert (engine, "qk_norm" in why) == ("torch", True)
    monkeypatch.setenv("SEQ2SEQ_CACHE", os.devnull)
    engine, why = choose_engine([bundle], "cpu", "auto")
    assert (engine, "cannot be written" in why) == ("torch", True)
    assert isinstance(Translator.load(tmp_path / "b", "cpu", engine="auto").engine, TorchEngine)


def test_auto_has_torch_search_where_a_rule_takes_words_away(folder, monkeypatch, tmp_path):
    """Whatever is asked, what comes is what torch finds."""
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path))
    bundle = folder.with_name("bundle")
    auto, torch_alone, alone = (
        Translator.load(bundle, "cpu", engine=name) for name in ("auto", "torch", "ctranslate2")
    )
    texts = ["abab", "hello world", "a b c", "xyz"]
    differs = False
    for asked in ({}, {"no_repeat_ngram": 2}, {"prefix": "q"}, {"banned": ["e", "a"]}):
        expected = [one.text for one in torch_alone.translate(texts, **asked)]
        assert [one.text for one in auto.translate(texts, **asked)] == expected
        differs |= [one.text for one in alone.translate(texts, **asked)] != expected
    assert differs  # else the exception would not be needed


def test_on_real_sentences_both_engines_write_the_same_alone_and_together():
    """The shipped model on eighty lines, as `--engine auto` promises."""
    lines = []
    for file in sorted((ROOT / "data" / "short").glob("*.tsv")):
        lines += [line.split("\t")[0] for line in file.read_text("utf-8").splitlines()[1:]]
    lines = lines[:: max(1, len(lines) // 80)][:80]
    assert len(lines) >= 80
    ours, theirs = (
        Translator.load("general", "cpu", engine=engine) for engine in ("torch", "auto")
    )
    expected = [one.text for one in ours.translate(lines)]
    assert [one.text for one in theirs.translate(lines)] == expected
    assert [theirs.translate([line])[0].text for line in lines[::4]] == expected[::4]


def test_the_script_exports_and_reports(script, folder, tmp_path, monkeypatch, capsys):
    command = ["ctranslate2", folder.with_name("bundle"), "--output", tmp_path / "out"]
    result = script("export", *command, "--quantization", "int8")
    assert result.returncode == 0, result.stderr
    assert f"exported    {tmp_path / 'out'} (" in result.stdout
    assert f"--engine ctranslate2 --model {tmp_path / 'out'}" in result.stdout
    monkeypatch.setattr(sys, "argv", ["export.py", *map(str, command)])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "error: " in (said := capsys.readouterr().err)
    assert "out exists already" in said
    assert "Traceback" not in said
