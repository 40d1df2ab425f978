"""Models of the Transformers library in, and ours out, beside that library itself."""

import json
import pickle
from dataclasses import asdict

import pytest
import torch
from conftest import ROOT
from marian import SIZES, marian, sentences
from odd_strings import odd_strings
from tiny import tiny_transformer

from seq2seq import Translator
from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.bundle.hub import import_folder
from seq2seq.config import DecodeConfig
from seq2seq.data.collate import collate
from seq2seq.data.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import search
from seq2seq.decoding.step import ModelStep
from seq2seq.errors import BundleError
from seq2seq.interop.huggingface import read_huggingface, write_huggingface
from seq2seq.training.loss import translation_loss

transformers = pytest.importorskip("transformers")

SHAPES = {
    "as OPUS-MT": {},
    "relu": {"activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
    "wide and shallow": {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1},
    "deep encoder": {"encoder_layers": 5, "decoder_layers": 1},
    "deep decoder": {"encoder_layers": 1, "decoder_layers": 5},
    "wide inside": {"encoder_ffn_dim": 160, "decoder_ffn_dim": 160},
    "base size": {
        "d_model": 512,
        **dict.fromkeys(("encoder_layers", "decoder_layers"), 6),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 8),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 2048),
        "max_position_embeddings": 512,
    },
    "one head": {"encoder_attention_heads": 1, "decoder_attention_heads": 1},
    "untied output": {"tie_word_embeddings": False},
    "two vocabularies": {"separate": True},
    "two vocabularies, untied": {"separate": True, "tie_word_embeddings": False},
}


def batch(model, seed=0):
    """Padded sources and targets by the ids of a model of theirs."""
    rng = torch.Generator().manual_seed(seed)
    config = model.config
    source = torch.randint(2, config.vocab_size - 1, (4, 11), generator=rng)
    real = torch.arange(11) < torch.tensor([11, 7, 4, 1])[:, None]
    target = torch.randint(2, config.decoder_vocab_size - 1, (4, 9), generator=rng)
    target[:, 0] = config.decoder_start_token_id
    return source.where(real, torch.tensor(config.pad_token_id)), real, target


def our_ids(ids, names, vocabulary):
    """Ids of theirs as ours, by the names of the tokens."""
    ours = {name: i for i, name in enumerate(vocabulary.names())}
    return torch.tensor([[ours[names[i]] for i in row] for row in ids.tolist()])


def unicode_texts():
    """Odd texts of every kind but lone surrogates, which their library cannot take."""
    found = [text for _, text in odd_strings(3000)]
    return [text for text in found if not any("\ud800" <= c <= "\udfff" for c in text)]


def their_names(folder, side):
    files = {"source": "vocab.json", "target": "target_vocab.json"}
    path = folder / files[side]
    ids = json.loads((path if path.is_file() else folder / "vocab.json").read_text())
    return {i: name for name, i in ids.items()}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "apart"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_an_imported_model_has_the_logits_of_the_original(dtype, apart, shape, tmp_path):
    theirs = marian(tmp_path, **SHAPES[shape]).to(dtype)
    ours = read_huggingface(tmp_path)
    ours.model.to(dtype)
    source, real, target = batch(theirs)
    names = their_names(tmp_path, "target")
    with torch.no_grad():
        expected = theirs(
            input_ids=source, attention_mask=real.long(), decoder_input_ids=target
        ).logits
        source_ids = our_ids(source, their_names(tmp_path, "source"), ours.vocabularies.source)
        target_ids = our_ids(target, names, ours.vocabularies.target)
        target_ids[:, 0] = BOS
        found = ours.model.project(ours.model(source_ids, real, target_ids))
    columns = our_ids(torch.arange(len(names))[None], names, ours.vocabularies.target)[0]
    torch.testing.assert_close(found[..., columns], expected, atol=apart, rtol=0)
    assert torch.equal(found[..., columns].argmax(dim=-1), expected.argmax(dim=-1))
    # A start mark of ours alone is no output: softmax is over the same tokens.
    assert found[..., BOS].max() < found[..., BOS + 1 :].min() - 15


def test_vocabularies_encode_and_decode_as_the_original_on_text_of_all_kinds(tmp_path):
    marian(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = read_huggingface(tmp_path).vocabularies
    names = {i: token for token, i in theirs.get_vocab().items()}
    # A special token that is written out is text here, and a mark there.
    texts = [text for text in unicode_texts() if "</s>" not in text]
    for side, vocabulary in enumerate((ours.source, ours.target)):
        all_texts = [*sentences(side), *texts]
        own = vocabulary.encode(all_texts)
        key = "text_target" if side else "text"
        expected = [theirs(**{key: text})["input_ids"] for text in all_texts]
        assert all(ids[-1] == 0 for ids in expected)
        as_names = [vocabulary.names()[i] for ids in own for i in ids]
        assert as_names == [names[i] for ids in expected for i in ids[:-1]]
        decoded = theirs.batch_decode(expected, skip_special_tokens=True)
        assert vocabulary.decode(own) == [text.replace("<unk>", "") for text in decoded]


def test_imported_vocabularies_survive_saving_and_worker_processes(tmp_path):
    marian(tmp_path)
    words, folder = read_huggingface(tmp_path).vocabularies, tmp_path / "saved"
    folder.mkdir()
    words.save(folder)
    for copy in (Vocabularies.load(folder), pickle.loads(pickle.dumps(words))):
        assert copy.content_hash() == words.content_hash()
        assert copy.source.encode(sentences(0)[:50]) == words.source.encode(sentences(0)[:50])


def test_the_ends_of_tokens_lie_in_the_decoded_text(tmp_path):
    marian(tmp_path)
    words = read_huggingface(tmp_path).vocabularies.target
    for text in sentences(1)[:200]:
        [ids] = words.encode([text])
        ends = words.ends(ids)
        assert ends == sorted(ends)
        assert ends[-1] == len(words.decode([ids])[0])


@pytest.mark.parametrize(("said", "expected"), [({}, 1.0), ({"length_penalty": 0.6}, 0.6)])
def test_a_search_that_says_nothing_of_length_is_as_the_library_has_it(said, expected, tmp_path):
    marian(tmp_path)
    for name in ("config.json", "generation_config.json"):
        path = tmp_path / name
        content = json.loads(path.read_text()) if path.is_file() else {}
        content.pop("length_penalty", None)
        path.write_text(json.dumps(content | said))
    assert transformers.GenerationConfig().length_penalty in (1.0, None)
    assert read_huggingface(tmp_path).decode.length_penalty == expected


def translated(bundle, texts, beam):
    """By our search, within the limits of `generated`."""
    requests = [Request(ids) for ids in bundle.vocabularies.source.encode(texts)]
    config = DecodeConfig(beam=beam, max_ratio=0, max_extra=45, min_length=0)
    found = search(ModelStep(bundle.model), requests, config, max_length=48)
    return bundle.vocabularies.target.decode([one[0].tokens for one in found])


def generated(folder, texts, beam):
    """By theirs; told to stop when as many hypotheses as beams have ended, as ours does."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    inputs = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    early = beam > 1
    outputs = model.generate(**inputs, num_beams=beam, max_new_tokens=45, early_stopping=early)
    return tokenizer.batch_decode(outputs, skip_special_tokens=True)


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory):
    """An imported model that was trained on some sentences until it says different things."""
    folder = tmp_path_factory.mktemp("marian")
    marian(folder, seed=3, d_model=64, encoder_ffn_dim=128, decoder_ffn_dim=128)
    bundle = read_huggingface(folder)
    model, words = bundle.model.requires_grad_(True).train(), bundle.vocabularies
    sources, targets = (
        words.source.encode(sentences(0)[:256]), words.target.encode(sentences(1)[:256])
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(150):
        rows = range(32 * step % 256, 32 * step % 256 + 32)
        one = collate([sources[i] for i in rows], [targets[i] for i in rows])
        hidden = model(one.source, one.source_real, one.target_in)
        loss = translation_loss(model, hidden, one.labels).smoothed / one.target_tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval().requires_grad_(False)
    return bundle


@pytest.mark.parametrize("beam", [1, 4])
def test_import_fine_tuning_and_export_give_the_same_outputs_there(beam, fine_tuned, tmp_path):
    texts = sentences(0)[:100]
    found = translated(fine_tuned, texts, beam)
    assert len(set(found)) > 30
    write_huggingface(fine_tuned, tmp_path)
    assert type(transformers.AutoTokenizer.from_pretrained(tmp_path)).__name__ == "MarianTokenizer"
    assert generated(tmp_path, texts, beam) == found
    assert translated(read_huggingface(tmp_path), texts, beam) == found


# Out

OUT = {
    "Marian": {"norm": "post"},
    "Marian, gelu, untied": {"norm": "post", "activation": "gelu", "tie_embeddings": "none"},
    "Marian, decoder tied": {"norm": "post", "tie_embeddings": "decoder"},
    "Marian, bias": {"norm": "post", "output_bias": True, "activation": "silu"},
    "Pegasus": {"norm": "pre"},
    "Pegasus, bias": {"norm": "pre", "output_bias": True, "activation": "gelu"},
}


def own_bundle(seed=0, **changes):
    words = Tokenizer.train(sentences(0) + sentences(1), 500)
    model = tiny_transformer(seed, words.vocab_size, positions="sinusoidal", **changes)
    training = {"step": 1, "scores": {}, "config": {"cleaning": {"languages": ["en", "fr"]}}}
    decode = DecodeConfig(beam=4, max_ratio=0, max_extra=20, min_length=0)
    return Bundle(model, Vocabularies(words, words), decode, training)


@pytest.mark.parametrize("kind", OUT)
def test_an_exported_model_has_our_logits_and_comes_back_with_its_own(kind, tmp_path):
    bundle = own_bundle(**OUT[kind])
    write_huggingface(bundle, tmp_path)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert type(theirs).__name__.startswith(kind.split(",")[0])
    rng = torch.Generator().manual_seed(1)
    source, target = (torch.randint(3, 400, (4, n), generator=rng) for n in (11, 9))
    real = torch.arange(11) < torch.tensor([11, 7, 4, 1])[:, None]
    source, target[:, 0] = source.where(real, torch.tensor(PAD)), BOS
    with torch.no_grad():
        expected = bundle.model.project(bundle.model(source, real, target))
        found = theirs(
            input_ids=source, attention_mask=real.long(), decoder_input_ids=target
        ).logits
        back = read_huggingface(tmp_path).model
        again = back.project(back(source, real, target))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(again, found, atol=1e-5, rtol=0)


def test_what_was_imported_is_exported_with_the_same_weights(tmp_path):
    theirs = marian(tmp_path / "theirs")
    write_huggingface(read_huggingface(tmp_path / "theirs"), tmp_path)
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).state_dict()
    for name, value in theirs.state_dict().items():
        assert torch.equal(again[name], value), name


def test_an_exported_vocabulary_encodes_and_decodes_as_ours(tmp_path):
    bundle = own_bundle(norm="post")
    write_huggingface(bundle, tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [
        text for _, text in odd_strings(3000) if not any("\ud800" <= c <= "\udfff" for c in text)
    ]
    texts += [*sentences(0), *sentences(1), "a </s> b <pad>", "  two  spaces "]
    ids = bundle.vocabularies.source.encode(texts)
    assert theirs(texts)["input_ids"] == [[*own, EOS] for own in ids]
    assert theirs.batch_decode(ids, skip_special_tokens=True) == bundle.vocabularies.source.decode(
        ids
    )


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_exported_model_generates_what_we_translate(beam, norm, tmp_path):
    bundle, texts = own_bundle(2, norm=norm), sentences(0)[:40]
    write_huggingface(bundle, tmp_path)
    assert generated(tmp_path, texts, beam) == translated(bundle, texts, beam)


def test_what_the_library_lacks_is_named():
    bundle = own_bundle(norm="post", activation="swiglu", n_kv_heads=2)
    with pytest.raises(
        BundleError, match=r"activation=swiglu and model\.n_kv_heads=2.*base_marian"
    ):
        write_huggingface(bundle, ROOT)


# Mistakes


def test_what_cannot_be_read_is_named(tmp_path):
    marian(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())

    def refused(message, **changes):
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(BundleError, match=message):
            read_huggingface(tmp_path)

    refused("model_type=m2m_100", model_type="m2m_100")
    refused("scale_embedding=False", scale_embedding=False)
    refused("activation_function=tanh", activation_function="tanh")
    refused("do not fit|not those of its config.json", d_model=64)
    refused("not those of its config.json", encoder_layers=3)
    refused("does not describe", d_model="wide")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match=r"seq2seq import .* --output models/"):
        load_bundle(tmp_path)
    ids = (tmp_path / "vocab.json").read_text()
    for changed in ({"one more": len(json.loads(ids))}, {"<pad>": 10**6}):
        (tmp_path / "vocab.json").write_text(json.dumps(json.loads(ids) | changed))
        with pytest.raises(BundleError, match=r"vocab\.json does not fit config\.json"):
            read_huggingface(tmp_path)
    (tmp_path / "vocab.json").write_text(ids)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(BundleError, match=r"with model\.safetensors or pytorch_model\.bin"):
        read_huggingface(tmp_path)
    (tmp_path / "source.spm").write_bytes(b"no model")
    with pytest.raises(BundleError, match=r"source\.spm"):
        read_huggingface(tmp_path)


class Harm:
    def __reduce__(self):
        return print, ("run",)


def test_old_weights_are_read_without_running_code(tmp_path, capsys):
    theirs = marian(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    assert read_huggingface(tmp_path).model.config.d_model == SIZES["d_model"]
    torch.save({"model.shared.weight": Harm()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(BundleError, match="could run what somebody wrote"):
        read_huggingface(tmp_path)
    assert "run" not in capsys.readouterr().out


def test_a_translator_follows_the_languages_of_its_model(tmp_path):
    marian(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    described = json.loads(path.read_text()) | {"source_lang": "fr", "target_lang": "en"}
    path.write_text(json.dumps(described))
    import_folder(tmp_path, tmp_path / "bundle")
    assert Translator.load(tmp_path / "bundle").languages == ("fr", "en")


def test_an_imported_model_is_a_bundle_like_any_other(tmp_path):
    marian(tmp_path)
    bundle = read_huggingface(tmp_path, "Helsinki-NLP/opus-mt-en-fr")
    import_folder(tmp_path, tmp_path / "bundle", "Helsinki-NLP/opus-mt-en-fr")
    again = load_bundle(tmp_path / "bundle")
    assert again.training["imported"] == "Helsinki-NLP/opus-mt-en-fr"
    assert asdict(again.model.config) == asdict(bundle.model.config)
    for name, value in bundle.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value)
