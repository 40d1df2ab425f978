"""From a model of the Transformers library to a fine-tuned one that it loads, by commands alone."""

import json
import operator
import re
import shlex
import sys

import pytest
from conftest import ROOT, run_command, run_program
from marian import marian, sentences

transformers = pytest.importorskip("transformers")

PLAIN = ("--no-split", "--no-protect", "--no-rescue", "--source-language", "trust")
SIZES = {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}


HUB = "Helsinki-NLP/opus-mt-en-fr"  # whose place in the cache the stand-in takes
SMALLER = {  # what the page says, and what a stand-in learns from in seconds
    "optim.lr=1e-4": "optim.lr=0.003 data.max_tokens=1024 trainer.accelerator=cpu logger=csv",
    "trainer.max_steps=2000": "trainer.max_steps=300 trainer.val_every_n_steps=300",
    "optim.warmup_steps=100": "optim.warmup_steps=20 cleaning.filters=[]",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder with the texts of the page, and the stand-in where the cache has that model."""
    root = tmp_path_factory.mktemp("huggingface")
    pairs = list(zip(sentences(0), sentences(1), strict=True))
    for name, rows in {"own": pairs[:300], "general": pairs[300:400]}.items():
        (root / name).mkdir()
        for split, some in {"train": rows, "val": rows[:20], "test": rows[:20]}.items():
            for language, texts in zip(("en", "fr"), zip(*some, strict=True), strict=True):
                text = "\n".join(texts) + "\n"
                (root / name / f"{split}.{language}").write_text(text, encoding="utf-8")
    return root


def seq2seq(*arguments):
    result = run_program(ROOT / "seq2seq/cli/main.py", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def bundle(folders):
    """A model that was imported."""
    marian(folders / "theirs", seed=3, **SIZES)
    place = folders / "cache" / "models" / HUB.replace("/", "--")
    said = seq2seq("import", folders / "theirs", "--output", place)
    assert f"imported    {place}" in said
    return place


@pytest.fixture(scope="module")
def howto(bundle, folders):
    """What the commands of the page print, from the first evaluation to the exported model."""
    page = (ROOT / "docs/how-to/fine-tune.md").read_text(encoding="utf-8")
    [section] = re.findall("^## Fine-tune one .*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    script = "".join(re.findall("^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
    for said, smaller in SMALLER.items():
        assert said in script
        script = script.replace(said, smaller)
    python = shlex.quote(sys.executable)
    script = (
        f'set -e\nseq2seq() {{ {python} -m seq2seq.cli.main "$@"; }}\n'
        f'translate() {{ {python} -m seq2seq.cli.main translate "$@"; }}\n{script}'
    )
    cache = str(folders / "cache")
    result = run_command("bash", "-c", script, cwd=folders, SEQ2SEQ_CACHE=cache)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def tuned(howto, folders):
    """The run of the page that began with the weights of the stand-in."""
    return folders / "runs" / "own"


@pytest.mark.slow
def test_the_commands_of_the_page_gain_on_its_text_and_leave_what_it_says(
    howto, bundle, folders
):
    def bleu(model, name):
        [path] = model.glob(f"evaluation/{name}-test-*/evaluation.json")
        return json.loads(path.read_text(encoding="utf-8"))["scores"][0]["value"]

    assert bleu(folders / "runs/own", "own") > bleu(bundle, "own") + 5
    assert bleu(folders / "models/averaged", "general") >= 0
    for path in ("runs/mixed/bundle", "models/averaged", "own-hf"):
        assert (folders / path / "config.json").is_file()


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
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders / "own-hf")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders / "own-hf").eval()
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
    converter = ctranslate2.converters.TransformersConverter(str(folders / "own-hf"))
    converter.convert(str(folders / "ct2"), force=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders / "own-hf")
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

    seq2seq("evaluate", f"bundle={tuned}", "data=files", f"data.path={folders / 'own'}",
            "data.name=own", "decode.beam=1")  # fmt: skip
    said = seq2seq("export", "huggingface", tuned, "--output", folders / "card", "--license",
                   "apache-2.0", "--push", "me/mine")  # fmt: skip
    assert "would send  model.safetensors" in said
    assert "https://huggingface.co/me/mine" in said
    card = huggingface_hub.ModelCard.load(folders / "card" / "README.md").data
    assert (card.language, card.license) == (["en", "fr"], "apache-2.0")
    bleu = {(one.dataset_name, one.dataset_split): one.metric_value for one in card.eval_results
            if one.metric_type == "bleu"}  # fmt: skip
    beams = [(one.metric_args or {}).get("beam") for one in card.eval_results
             if (one.dataset_name, one.dataset_split, one.metric_type) == ("own", "test", "bleu")]
    assert sorted(beams) == [1, 5]
    scores = json.loads((tuned / "bundle" / "config.json").read_text())["training"]["scores"]
    assert bleu["own", "validation"] == round(scores["BLEU"], 2)
    assert bleu.keys() == {("own", "validation"), ("own", "test"), ("general", "test")}
