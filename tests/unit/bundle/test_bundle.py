"""A bundle comes back as it was saved, holds no pickle, and says what is wrong with it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from seq2seq.bundle import bundle as module
from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.bundle.config import FILES, bundle_digest
from seq2seq.bundle.find import bundle_folder
from seq2seq.config import DecodeConfig, RecurrentConfig, TransformerConfig
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import BundleError, RunError, UserError
from seq2seq.inference.translator import Translator
from seq2seq.model.build import build_model
from seq2seq.model.transformer import Transformer

TINY = {
    "name": "test",
    "d_model": 16,
    "n_heads": 2,
    "d_ff": 32,
    "max_length": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
TRAINING = {"step": 7, "scores": {"BLEU": 12.345}, "config": {"data": {"name": "mine"}}}


@pytest.fixture(scope="module")
def vocabularies() -> Vocabularies:
    shared = Tokenizer.train(["the house is big", "la maison est grande"] * 5, 280)
    return Vocabularies(shared, shared)


@pytest.fixture(scope="module")
def separate() -> Vocabularies:
    """Two vocabularies, the second larger than the first."""
    source = Tokenizer.train(["the house is big"] * 5, 262)
    return Vocabularies(source, Tokenizer.train(["la maison est grande"] * 5, 270))


def make(vocabularies: Vocabularies, seed: int = 0, **model) -> Bundle:
    torch.manual_seed(seed)
    network = Transformer(TransformerConfig(**{**TINY, **model}), *vocabularies.sizes).eval()
    return Bundle(network, vocabularies, DecodeConfig(beam=3, length_penalty=0.6), TRAINING)


@pytest.fixture
def folder(vocabularies, tmp_path) -> Path:
    make(vocabularies).save(tmp_path / "bundle")
    return tmp_path / "bundle"


def same_weights(a: Transformer, b: Transformer) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def change_config(folder: Path, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_a_bundle_comes_back_as_it_was_saved(tie, positions, vocabularies, tmp_path):
    saved = make(vocabularies, tie_embeddings=tie, positions=positions)
    saved.save(tmp_path / "b")
    loaded = load_bundle(tmp_path / "b")
    assert same_weights(saved.model, loaded.model)
    assert loaded.model.config == saved.model.config
    assert (loaded.decode, loaded.training) == (saved.decode, TRAINING)
    assert loaded.vocabularies.joint
    assert loaded.vocabularies.content_hash() == vocabularies.content_hash()
    assert not loaded.model.training


def test_two_vocabularies_come_back_as_they_were_saved(separate, tmp_path):
    saved = make(separate, tie_embeddings="decoder")
    saved.save(tmp_path / "b")
    loaded = load_bundle(tmp_path / "b")
    assert same_weights(saved.model, loaded.model)
    assert loaded.model.vocab_sizes == separate.sizes
    assert not loaded.vocabularies.joint
    assert loaded.vocabularies.content_hash() == separate.content_hash()
    assert "; 262 + 270 subwords." in (tmp_path / "b" / "README.md").read_text()


def test_a_missing_vocabulary_of_one_side_is_named(separate, tmp_path):
    make(separate, tie_embeddings="decoder").save(tmp_path / "b")
    (tmp_path / "b" / "tokenizer.target.json").unlink()
    with pytest.raises(BundleError, match=r"not a model bundle: tokenizer\.target\.json missing"):
        load_bundle(tmp_path / "b")


def test_swapped_vocabularies_are_refused(separate, tmp_path):
    make(separate, tie_embeddings="decoder").save(tmp_path / "b")
    Vocabularies(separate.target, separate.source).save(tmp_path / "b")
    with pytest.raises(BundleError, match=r"have 270 \+ 262 tokens .* but the model 262 \+ 270"):
        load_bundle(tmp_path / "b")


def test_normalisation_is_kept_and_older_bundles_have_none(vocabularies, folder):
    bundle = make(vocabularies)
    bundle.normalise = ["nfc", "spaces"]
    bundle.save(folder)
    assert load_bundle(folder).normalise == ["nfc", "spaces"]
    config = json.loads((folder / "config.json").read_text())
    del config["normalise"]
    (folder / "config.json").write_text(json.dumps(config))
    assert load_bundle(folder).normalise == []


def test_the_head_that_aligns_is_kept_and_older_bundles_have_the_default(vocabularies, folder):
    bundle = make(vocabularies)
    bundle.alignment = AttentionHead(0, 1)
    bundle.save(folder)
    assert load_bundle(folder).alignment == AttentionHead(0, 1)
    config = json.loads((folder / "config.json").read_text())
    del config["alignment"]
    (folder / "config.json").write_text(json.dumps(config))
    assert load_bundle(folder).alignment == AttentionHead()


@pytest.mark.parametrize("alignment", [{"layer": 9}, {"layer": 0, "head": 99}])
def test_a_head_that_the_model_lacks_is_refused(folder, alignment):
    change_config(folder, alignment=alignment)
    with pytest.raises(BundleError, match="which this model lacks: delete the entry `alignment`"):
        load_bundle(folder)


@pytest.mark.parametrize("alignment", [{"layers": 1}, 3, {"layer": "last"}])
def test_an_alignment_that_is_none_is_refused(folder, alignment):
    change_config(folder, alignment=alignment)
    with pytest.raises(BundleError, match="does not describe a model of this project"):
        load_bundle(folder)


def test_bundles_of_before_there_were_kinds_of_models_are_transformers(vocabularies, folder):
    model = json.loads((folder / "config.json").read_text())["model"]
    older = set(model) - {"architecture", "head_dim", "qk_norm", "kernel"}
    change_config(folder, model={key: model[key] for key in older})
    assert same_weights(load_bundle(folder).model, make(vocabularies).model)


def test_a_kind_of_model_that_is_not_known_is_refused(folder):
    model = json.loads((folder / "config.json").read_text())["model"]
    change_config(folder, model={**model, "architecture": "perceiver"})
    with pytest.raises(BundleError, match=r"perceiver is not known: .*rnn_attention, transformer"):
        load_bundle(folder)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_a_recurrent_model_comes_back_as_it_was_saved(tie, vocabularies, tmp_path):
    config = RecurrentConfig(d_model=16, d_attention=8, tie_embeddings=tie)
    model = build_model(config, *vocabularies.sizes)
    Bundle(model, vocabularies, DecodeConfig(), TRAINING).save(tmp_path / "b")
    loaded = load_bundle(tmp_path / "b").model
    assert loaded.config == config
    assert same_weights(model, loaded)


@pytest.mark.parametrize(("tie", "matrices"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_tied_embeddings_stay_one_matrix(tie, matrices, vocabularies, tmp_path):
    make(vocabularies, tie_embeddings=tie).save(tmp_path / "b")
    m = load_bundle(tmp_path / "b").model
    weights = (m.source_embedding.tokens.weight, m.target_embedding.tokens.weight, m.output.weight)
    assert len({weight.data_ptr() for weight in weights}) == matrices


def test_a_loaded_model_computes_the_same(vocabularies, folder):
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]])
    models = make(vocabularies).model, load_bundle(folder).model
    first, second = (m(source, source != 0, target) for m in models)
    assert torch.equal(first, second)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 11), (torch.bfloat16, 8)])
def test_weights_in_16_bits_are_half_as_large_and_read_as_32(dtype, bits, vocabularies, tmp_path):
    saved = make(vocabularies, d_model=64, d_ff=128)
    saved.save(tmp_path / "whole")
    saved.save(tmp_path / "half", dtype=dtype)
    whole, half = (tmp_path / name / "model.safetensors" for name in ("whole", "half"))
    assert half.stat().st_size == pytest.approx(whole.stat().st_size / 2, rel=0.05)
    loaded = load_bundle(tmp_path / "half").model
    for name, value in saved.model.state_dict().items():
        found = loaded.state_dict()[name]
        assert found.dtype == value.dtype == torch.float32
        # Half a unit in the last of so many binary digits; tiny numbers have fewer.
        assert ((found - value).abs() <= 2.0**-bits * value.abs() + 2.0**-25).all(), name
    source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 7, 8]])
    ours, theirs = (m(source, source != 0, target) for m in (saved.model, loaded))
    assert 0 < (ours - theirs).abs().max() < 2.0**-bits * 30
    assert same_weights(saved.model, load_bundle(tmp_path / "whole").model)


def test_a_card_may_be_given(vocabularies, folder):
    make(vocabularies).save(folder, card="# Mine\n")
    assert (folder / "README.md").read_text().startswith("# Mine\n\n## Files\n")


def test_a_bundle_holds_its_four_files_and_no_pickle(folder):
    assert sorted(f.name for f in folder.iterdir()) == sorted(
        [*FILES, "tokenizer.json", "README.md"]
    )
    for file in folder.iterdir():
        data = file.read_bytes()
        assert not data.startswith((b"\x80", b"PK")), f"{file} looks like a pickle or a torch file"
    header = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    assert json.loads((folder / "model.safetensors").read_bytes()[8 : 8 + header])


def test_the_model_card_tells_sizes_and_scores(folder):
    card = (folder / "README.md").read_text()
    for useful in (
        "1 + 1 layers of width 16",
        "`mine` for 7 steps",
        "BLEU: 12.35",
        "translate --model",
    ):
        assert useful in card


def test_saving_again_replaces_all(vocabularies, folder):
    (folder / "stray").write_text("x")
    newer = make(vocabularies, seed=1)
    newer.save(folder)
    assert same_weights(load_bundle(folder).model, newer.model)
    assert [f.name for f in folder.parent.iterdir()] == ["bundle"]
    assert not (folder / "stray").exists()


@pytest.mark.parametrize("step", ["weights", "tokenizer", "card"])
def test_a_save_that_fails_leaves_the_old_bundle_whole(step, vocabularies, folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    newer = make(vocabularies, seed=1)
    owner, name = {
        "weights": (safetensors.torch, "save_file"),
        "tokenizer": (Tokenizer, "save"),
        "card": (module, "model_card"),
    }[step]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, full)
        with pytest.raises(RunError, match=r"cannot be written: .*No space.*\. Make room or "):
            newer.save(folder)
    assert same_weights(load_bundle(folder).model, make(vocabularies).model)
    newer.save(folder)  # what the failed save left does not disturb the next one
    assert same_weights(load_bundle(folder).model, newer.model)
    assert [f.name for f in folder.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_digest_is_of_the_model_and_not_of_its_card(name, folder):
    known = bundle_digest(folder)
    (folder / "README.md").write_text("Mine.")
    assert bundle_digest(folder) == known
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    assert bundle_digest(folder) != known


def test_a_rename_that_fails_leaves_a_bundle_in_place(vocabularies, folder, monkeypatch):
    rename = Path.rename

    def fail(path, target):
        if path.name.endswith(".partial"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    newer = make(vocabularies, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(RunError, match="Input/output"):
            newer.save(folder)
    assert load_bundle(folder)


def test_a_run_stands_for_its_bundle(folder):
    assert bundle_folder(folder.parent) == folder
    assert same_weights(load_bundle(folder.parent).model, load_bundle(folder).model)


# Damage


@pytest.mark.parametrize("keep", [0, 4, 200, -1])
def test_truncated_weights_are_refused(keep, folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(BundleError, match=r"cannot read the weights .*damaged or incomplete"):
        load_bundle(folder)


def test_weights_that_are_noise_are_refused(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 5000)
    with pytest.raises(BundleError, match=r"cannot read the weights \S*model\.safetensors"):
        load_bundle(folder)


def test_weights_of_another_shape_are_refused(vocabularies, folder, tmp_path):
    make(vocabularies, d_model=32).save(tmp_path / "wide")
    shutil.copy(tmp_path / "wide" / "model.safetensors", folder)
    with pytest.raises(
        BundleError, match=r"do not fit the sizes .*: source_.* is \(280, 32\) in the file"
    ):
        load_bundle(folder)


@pytest.mark.parametrize(
    ("layers", "fault"), [(1, "and missing by these sizes"), (3, "is missing in the file")]
)
def test_weights_of_more_or_fewer_layers_are_refused(layers, fault, vocabularies, folder, tmp_path):
    make(vocabularies, encoder_layers=2).save(tmp_path / "two")
    target = tmp_path / "other"
    make(vocabularies, encoder_layers=layers).save(target)
    shutil.copy(tmp_path / "two" / "model.safetensors", target)
    with pytest.raises(BundleError, match=rf"do not fit the sizes .*: encoder.*{fault}"):
        load_bundle(target)


def test_a_foreign_config_is_refused(folder):
    (folder / "config.json").write_text('{"model_type": "marian", "d_model": 512}')
    with pytest.raises(BundleError, match=r"not written by this project \(it names no format\)"):
        load_bundle(folder)


@pytest.mark.parametrize("content", ["", "{", "[1]", '"x"', b"\xff\xfe"])
def test_a_broken_config_is_refused(content, folder):
    data = content if isinstance(content, bytes) else content.encode()
    (folder / "config.json").write_bytes(data)
    with pytest.raises(BundleError, match=r"config\.json"):
        load_bundle(folder)


def test_a_newer_format_names_the_version_that_wrote_it(folder):
    change_config(folder, format=2, seq2seq="9.9")
    with pytest.raises(BundleError, match=r"has format 2, .*reads format 1: install .*\(9\.9\)"):
        load_bundle(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {**TINY, "colour": "red"}},
        {"model": {**TINY, "n_heads": 3}},
        {"model": {**TINY, "d_model": "wide"}},
        {"model": None},
        {"decode": {"beam": 0}},
        {"vocab_size": None},
        {"vocab_size": [260, 261, 262]},
        {"normalise": ["shout"]},
    ],
)
def test_impossible_settings_in_a_config_are_refused(changes, folder):
    change_config(folder, **changes)
    with pytest.raises(BundleError, match=r"config\.json does not describe a model"):
        load_bundle(folder)


@pytest.mark.parametrize("name", [*FILES, "tokenizer.json"])
def test_a_missing_file_is_named(name, folder):
    (folder / name).unlink()
    with pytest.raises(BundleError, match=rf"is not a model bundle: {name} missing"):
        load_bundle(folder)


def test_the_tokenizer_of_another_run_is_refused(folder, vocabularies):
    other = Tokenizer.train(["a b"], 260)
    other.save(folder / "tokenizer.json")
    have, needed = other.vocab_size, vocabularies.source.vocab_size
    counts = rf"have {have} \+ {have} tokens .* but the model {needed} \+ {needed}"
    with pytest.raises(BundleError, match=rf"{counts}: the files come from different runs"):
        load_bundle(folder)


def test_a_broken_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"cannot read the tokenizer"):
        load_bundle(folder)


def test_a_missing_folder_and_an_unfinished_run_are_told_apart(tmp_path):
    with pytest.raises(BundleError, match=r"no model folder \S*nowhere"):
        load_bundle(tmp_path / "nowhere")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(BundleError, match=r"has no bundle yet.*resume=\S*run"):
        load_bundle(tmp_path / "run")


def refused(folder: Path) -> str:
    with pytest.raises(BundleError) as error:
        load_bundle(folder)
    assert error.value.exit_code == 2
    return str(error.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_finite_numbers_are_refused(value, vocabularies, tmp_path):
    bundle = make(vocabularies)
    with torch.no_grad():
        bundle.model.output.weight[3, 3] = value
    bundle.save(tmp_path / "b")
    assert "have values that are not finite (in " in refused(tmp_path / "b")


def test_a_flipped_bit_is_noticed_and_older_bundles_have_no_checksum(folder):
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(bytes(data))
    assert "is not the file that was saved with this bundle" in refused(folder)
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps(config))
    load_bundle(folder)


@pytest.mark.parametrize(
    "sizes",
    [
        {"encoder_layers": 65536},
        {"d_model": 65536, "n_heads": 2},
        {"d_ff": 65536},
        {"head_dim": 65536},
        {"d_model": 65536, "d_ff": 65536, "encoder_layers": 65536, "decoder_layers": 65536},
    ],
)
def test_absurd_sizes_are_refused_before_they_take_memory_or_time(sizes, folder):
    """Each is within its bounds; together they ask for terabytes."""
    change_config(folder, model={**TINY, **sizes})
    started = time.monotonic()
    assert "do not fit the sizes in config.json" in refused(folder)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ({"beam": 10**9}, "decode.beam=1000000000 is too large: it must be at most 1000"),
        ({"max_extra": 10**12}, "decode.max_extra=1000000000000 is too large: it must be at most"),
        ({"max_ratio": 1e300}, "decode.max_ratio=1e+300 is too large: it must be at most 1000"),
        ({"max_ratio": float("inf")}, "decode.max_ratio=inf is too large"),
        ({"beam": "five"}, "decode.beam='five' is not of type int"),
        ({"beam": 2.0}, "decode.beam=2.0 is not of type int"),
        ({"beam": True}, "decode.beam=True is not of type int"),
    ],
)
def test_absurd_search_settings_are_refused(decode, said, folder):
    change_config(folder, decode=decode)
    assert said in refused(folder)


@pytest.mark.parametrize(
    ("value", "said"), [(32.0, "is not of type int"), ("x", "is not of type int")]
)
def test_a_size_of_another_type_is_refused(value, said, folder):
    change_config(folder, model={**TINY, "d_model": value})
    assert f"model.d_model={value!r} {said}" in refused(folder)


def test_a_config_nested_without_end_is_refused(folder):
    (folder / "config.json").write_text('{"a":' * 200_000)
    assert "lie too deep inside each other" in refused(folder)


def test_reading_draws_no_numbers_and_positions_are_there(vocabularies, folder):
    """A model that is read is built without a start of its own."""
    state = torch.random.get_rng_state()
    model = load_bundle(folder).model
    assert torch.equal(torch.random.get_rng_state(), state)
    ours, theirs = dict(make(vocabularies).model.named_buffers()), dict(model.named_buffers())
    assert ours.keys() == theirs.keys() != set()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2", "auto"])
def test_no_engine_translates_with_a_damaged_bundle(engine, vocabularies, tmp_path, monkeypatch):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    monkeypatch.setenv("SEQ2SEQ_CACHE", str(tmp_path / "cache"))
    make(vocabularies).save(tmp_path / "b")
    file = tmp_path / "b" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(BundleError, match="not the file that was saved") as error:
        Translator.load(tmp_path / "b", "cpu", engine=engine)
    assert error.value.exit_code == 2
