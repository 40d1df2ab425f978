"""From a model of the Transformers library to a fine-tuned one that it loads, by commands alone."""

import json
import operator
import sys

import pytest
from conftest import ROOT, run_command
from marian import marian, sentences

transformers = pytest.importorskip("transformers")

PLAIN = ("--no-split", "--no-protect", "--no-rescue", "--source-language", "trust")
SIZES = {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("huggingface")


def seq2seq(*arguments):
    result = run_command(sys.executable, "-m", "seq2seq.cli.main", *arguments, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def bundle(folders):
    """A model that was imported."""
    marian(folders / "theirs", seed=3, **SIZES)
    said = seq2seq("import", folders / "theirs", "--output", folders / "bundle")
    assert f"imported    {folders / 'bundle'}" in said
    return folders / "bundle"


@pytest.fixture(scope="module")
def tuned(bundle, folders):
    """A run that began with its weights."""
    corpus = folders / "corpus"
    corpus.mkdir()
    pairs = list(zip(sentences(0), sentences(1), strict=True))
    for split, rows in {"train": pairs[:300], "val": pairs[:20], "test": pairs[:20]}.items():
        lines = ["en\tfr", *("\t".join(pair) for pair in rows)]
        (corpus / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    seq2seq(
        "train", f"init_from={bundle}", "data=files", f"data.path={corpus}", "cleaning=none",
        f"run_dir={folders / 'run'}", "logger=csv", "trainer.accelerator=cpu",
        "optim.lr=0.003", "optim.warmup_steps=20", "optim.schedule=cosine",
        "trainer.max_steps=300", "trainer.val_every_n_steps=300", "data.max_tokens=1024",
    )  # fmt: skip
    return folders / "run"


def test_an_imported_model_translates(bundle):
    found = json.loads(seq2seq("translate", "--model", bundle, "--json", "The cat is here."))
    assert isinstance(found["translation"], str)
    card = (bundle / "README.md").read_text(encoding="utf-8")
    assert "# English to French, theirs (transformer)" in card
    assert "Made of the model `theirs` of Hugging Face" in card


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_a_fine_tuned_model_says_the_same_there_and_here(beam, tuned, folders):
    texts = [text for text in sentences(0)[:60] if not any(map(str.isdigit, text))]
    (folders / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
    ours = seq2seq(
        "translate", "--model", tuned, "--beam", beam, *PLAIN, "--engine", "torch",
        "--file", folders / "texts",
    ).splitlines()  # fmt: skip
    seq2seq("export", "huggingface", tuned, "--output", folders / "hf", "--force")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders / "hf")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders / "hf").eval()
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    outputs = model.generate(**inputs, num_beams=beam, early_stopping=beam > 1)
    theirs = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    # Where an output does not end, each side has its own limit.
    ended = (outputs[:, 1:] == tokenizer.eos_token_id).any(dim=1).tolist()
    assert len({text for text, end in zip(ours, ended, strict=True) if end}) > 20
    for own, their, end in zip(ours, theirs, ended, strict=True):
        assert own == their or not end


@pytest.mark.slow
def test_ctranslate2_converts_what_was_exported(tuned, folders):
    ctranslate2 = pytest.importorskip("ctranslate2")
    seq2seq("export", "huggingface", tuned, "--output", folders / "hf", "--force")
    converter = ctranslate2.converters.TransformersConverter(str(folders / "hf"))
    converter.convert(str(folders / "ct2"), force=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders / "hf")
    texts = [text for text in sentences(0)[:60] if not any(map(str.isdigit, text))]
    batch = [tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for text in texts]
    found = ctranslate2.Translator(str(folders / "ct2")).translate_batch(batch, beam_size=1)
    (folders / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
    ids = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
    theirs = tokenizer.batch_decode(ids, skip_special_tokens=True)
    for engine in ("torch", "ctranslate2"):
        ours = seq2seq("translate", "--model", tuned, "--beam", 1, *PLAIN, "--engine", engine,
                       "--file", folders / "texts").splitlines()  # fmt: skip
        same = [own == their for own, their in zip(ours, theirs, strict=True)]
        cut = [len(one) > 60 for one in ids]  # each side has its own limit
        assert all(map(operator.or_, same, cut))
        assert sum(same) > 20


@pytest.mark.slow
def test_a_card_has_what_the_hub_reads_and_a_push_is_told_first(tuned, folders):
    import huggingface_hub

    said = seq2seq("export", "huggingface", tuned, "--output", folders / "card", "--license",
                   "apache-2.0", "--push", "me/mine")  # fmt: skip
    assert "would send  model.safetensors" in said
    assert "https://huggingface.co/me/mine" in said
    card = huggingface_hub.ModelCard.load(folders / "card" / "README.md").data
    assert (card.language, card.license) == (["en", "fr"], "apache-2.0")
    [bleu] = [one.metric_value for one in card.eval_results if one.metric_type == "bleu"]
    scores = json.loads((tuned / "bundle" / "config.json").read_text())["training"]["scores"]
    assert bleu == round(scores["BLEU"], 2)
