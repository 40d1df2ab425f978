"""What runs record: offline files of W&B, read as they stand on the disk, and CSV."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from pathlib import Path

import pytest
import torch
import yaml
from conftest import TOY, run_command
from PIL import Image
from wandb_file import OfflineRun, read_offline
from wandb_server import wandb_server

from seq2seq.dashboard import SECTIONS
from seq2seq.report.run import read_samples

BLOCKS = ("source_embedding", "encoder.0", "encoder.1", "encoder_norm",
          "decoder.0", "decoder.1", "decoder_norm")  # fmt: skip
TRAINING = (
    "train/loss", "train/nll", "train/perplexity", "optim/lr", "optim/grad_norm",
    "perf/source_tokens_per_second", "perf/target_tokens_per_second", "perf/padding_share",
    "perf/step_seconds", "perf/data_wait_share", "perf/tflops", "perf/memory_gib",
    *(f"optim/grad_norm/{block}" for block in BLOCKS),
)  # fmt: skip
VALIDATION = (
    "val/nll", "val/perplexity", "val/bleu", "val/chrf", "val/length_ratio",
    "decode/sentences_per_second", "decode/tokens_per_second", "decode/log_prob_per_token",
    "decode/degenerate_share", "decode/unfinished_share", "perf/validation_seconds",
)  # fmt: skip
HISTOGRAMS = (
    "val/hypothesis_words", "val/reference_words", "decode/token_probability",
    *(f"optim/grad_norm_histogram/{block}" for block in BLOCKS),
)  # fmt: skip
SAMPLES = ("samples/fixed", "samples/worst", "samples/attention", "samples/confidence")
START, END = ("model/parameters", "data/report"), ("run/findings",)
# At the first step; a finding says it where it is much.
OVERLAP = ("data/identical_share", "data/val_in_training_share", "data/test_in_training_share")


@pytest.fixture(scope="module")
def logged(toy_run) -> OfflineRun:
    """600 steps, logged every fifth, validated at 300 and 600."""
    [run] = read_offline(toy_run)
    return run


@pytest.fixture(scope="module")
def resumed(script, toy_run, tmp_path_factory) -> Path:
    """A copy of the run that went on to step 605."""
    run_dir = tmp_path_factory.mktemp("resumed") / toy_run.name
    shutil.copytree(toy_run, run_dir, symlinks=True)
    result = script("train", f"resume={run_dir}", "trainer.max_steps=605")
    assert result.returncode == 0, result.stdout + result.stderr
    return run_dir


def curves(run_dir: Path) -> list[dict[str, str]]:
    with (run_dir / "metrics" / "version_0" / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]


# W&B


def test_every_curve_has_a_value_for_every_step_that_is_logged(logged):
    for key in TRAINING:
        assert list(logged.values(key)) == list(range(5, 601, 5)), key
    for key in VALIDATION:
        assert list(logged.values(key)) == [300, 600], key
    for key in (*TRAINING, *VALIDATION):
        assert all(math.isfinite(value) for value in logged.values(key).values()), key


def test_there_are_no_keys_that_are_not_written_down(logged, toy_run):
    own = {"_step", "_runtime", "_timestamp", "epoch", "trainer/global_step"}
    promised = {*TRAINING, *VALIDATION, *HISTOGRAMS, *SAMPLES, *START, *END, *OVERLAP}
    assert {key for row in logged.rows for key in row} - own == promised
    page = (Path(__file__).parents[2] / "docs/reference/records.md").read_text(encoding="utf-8")
    for key in promised:
        stem = key.removesuffix(f"/{key.split('/')[-1]}") if key.count("/") > 1 else key
        assert f"`{key}`" in page or f"`{stem}/<block>`" in page, key


def test_norms_of_blocks_make_up_that_of_all(logged):
    for step, norm in logged.values("optim/grad_norm").items():
        blocks = (logged.values(f"optim/grad_norm/{block}")[step] for block in BLOCKS)
        assert math.hypot(*blocks) == pytest.approx(norm, rel=1e-3)


def test_values_are_those_of_the_csv_file(logged, toy_run):
    rows = curves(toy_run)
    for key in (*TRAINING, *VALIDATION):
        theirs = {int(row["step"]) + 1: float(row[key]) for row in rows if key in row}
        assert logged.values(key) == {step: pytest.approx(v) for step, v in theirs.items()}, key


def test_the_table_of_fixed_sentences_grows(logged, toy_run):
    values = logged.values("samples/fixed")
    assert [value["nrows"] for value in values.values()] == [10, 20]
    lines = read_samples(toy_run)
    assert [line["step"] for line in lines] == list(values) == [300, 600]
    for line in lines:
        rows = logged.table(values[line["step"]])
        assert [row["attention"] for row in rows[:-10]] == [None] * (len(rows) - 10)
        rows = rows[-10:]  # those that were added
        for row, sentence in zip(rows, line["sentences"], strict=True):
            assert row["step"] == line["step"]
            for name in ("index", "source", "reference", "hypothesis", "score"):
                assert row[name] == sentence[name]
            assert row["chrF"] == sentence["chrf"]
            scores = sentence["token_log_probs"][: len(sentence["tokens"])]
            assert row["confidence"] == pytest.approx(
                math.prod(map(math.exp, scores)) ** (1 / len(scores)), abs=1e-3
            )
            assert row["attention"] == "Image"


def test_the_worst_sentences_have_a_table_of_their_own(logged, toy_run):
    values = logged.values("samples/worst")
    assert list(values) == [300, 600]
    for line in read_samples(toy_run):
        rows = logged.table(values[line["step"]])
        chrf = [row["chrF"] for row in rows]
        assert chrf == sorted(chrf)
        assert chrf[0] <= min(one["chrf"] for one in line["sentences"])
        assert [row["index"] for row in rows] == [one["index"] for one in line["worst"]]


def test_heat_maps_are_pictures_of_one_size_with_their_sources(logged, toy_run):
    for step, value in logged.values("samples/attention").items():
        sentences = next(x for x in read_samples(toy_run) if x["step"] == step)["sentences"]
        assert value["captions"] == [sentence["source"] for sentence in sentences]
        for name in value["filenames"]:
            with Image.open(logged.folder / "files" / name) as picture:
                assert picture.size == (value["width"], value["height"])
                assert picture.convert("RGB").getcolors(maxcolors=10) is None  # there are more
            assert (logged.folder / "files" / name).stat().st_size < 20_000


def test_the_page_of_confidence_has_every_token(logged, toy_run):
    for step, value in logged.values("samples/confidence").items():
        page = logged.media(value).read_text(encoding="utf-8")
        assert "http" not in page
        line = next(x for x in read_samples(toy_run) if x["step"] == step)
        spans = page.split("<span ")[1:]
        tokens = [(token, score) for one in line["sentences"]
                  for token, score in zip(one["tokens"], one["token_log_probs"], strict=False)]
        assert len(spans) == len(tokens)
        for span, (token, score) in zip(spans, tokens, strict=True):
            assert f'title="{math.exp(score):.1%}"' in span
            assert token in span


def test_histograms_count_what_they_are_of(logged, toy_corpus):
    lines = (toy_corpus / "val.tsv").read_text(encoding="utf-8").splitlines()[1:]
    words = [len(line.split("\t")[1].split()) for line in lines]
    for step, value in logged.values("val/reference_words").items():
        assert step in (300, 600)
        assert sum(value["values"]) == 40
        assert (value["bins"][0], value["bins"][-1]) == (min(words), max(words))
    for value in logged.values("optim/grad_norm_histogram/decoder.1").values():
        assert sum(value["values"]) == 60  # 300 steps, every fifth
    for value in logged.values("decode/token_probability").values():
        assert 0 <= value["bins"][0] < value["bins"][-1] <= 1


def test_settings_are_a_plain_dict_with_what_the_run_is_made_of(logged, toy_run):
    settings = yaml.safe_load((toy_run / "config.yaml").read_text())
    for part in ("model", "optim", "decode", "trainer"):
        assert logged.config[part] == settings[part]
    run, origin = logged.config["run"], json.loads((toy_run / "origin.json").read_text())
    assert run["data_fingerprint"] == origin["data"]
    assert run["revision"] == origin["starts"][0]["revision"]
    assert run["versions"]["torch"] == torch.__version__
    assert run["attention"].startswith("encoder flash, decoder flash")
    weights = logged.table(logged.values("model/parameters")[1])
    assert sum(row["numbers"] for row in weights) == run["parameters"] == origin["parameters"]
    report = logged.media(logged.values("data/report")[1]).read_text(encoding="utf-8")
    assert origin["data"] in report
    assert str(toy_run) not in json.dumps(logged.config["data"])


def test_all_is_drawn_over_the_steps_of_training(logged):
    assert logged.metrics["*"] == "trainer/global_step"


def test_at_the_end_stand_the_summary_and_the_bundle_with_its_card(logged, toy_run):
    for name, value in json.loads((toy_run / "summary.json").read_text()).items():
        assert logged.summary[f"result/{name}"] == value
    artifact = logged.artifacts[f"bundle-{logged.identity['id']}"]
    assert artifact["type"] == "model"
    assert set(artifact["aliases"]) == {"latest", "best"}
    bundle = toy_run / "bundle"
    assert artifact["description"] == (bundle / "README.md").read_text(encoding="utf-8")
    assert artifact["files"].keys() == {path.name for path in bundle.iterdir()}
    for name, copy in artifact["files"].items():
        assert copy.is_relative_to(toy_run)  # the user's home stays empty
        assert copy.read_bytes() == (bundle / name).read_bytes()


def test_the_dashboard_shows_what_runs_log_and_nothing_else(logged):
    on_a_gpu, with_an_average = "perf/utilisation", "val/bleu_of_average"
    shown = {key for panels in SECTIONS.values() for panel in panels for key in panel.keys}
    logs = {key for row in logged.rows for key in row}
    assert shown - logs == {on_a_gpu, with_an_average}
    left_out = {key for key in logs - shown if "/" in key}
    assert {key.rpartition("/")[0] for key in left_out} == {
        "optim/grad_norm", "optim/grad_norm_histogram",  # by patterns
        "data", "trainer",
    }  # fmt: skip


# Going on


def test_a_run_goes_on_under_its_id_with_all_that_was_before_in_its_table(resumed):
    before, after = read_offline(resumed)
    assert after.identity == before.identity
    assert list(after.values("train/loss")) == [605]
    assert list(after.values("val/bleu")) == [605]
    [(step, table)] = after.values("samples/fixed").items()
    assert (step, table["nrows"]) == (605, 30)
    rows = after.table(table)
    assert [row["step"] for row in rows] == [300] * 10 + [600] * 10 + [605] * 10
    assert [row["attention"] for row in rows] == [None] * 20 + ["Image"] * 10
    assert len({(row["index"], row["source"]) for row in rows}) == 10
    assert "model/parameters" not in {key for row in after.rows for key in row}
    assert after.summary["result/steps"] == 605
    for name, copy in before.artifacts[f"bundle-{before.identity['id']}"]["files"].items():
        assert copy.exists(), name  # the second did not take the place of the first


def test_all_rows_and_files_of_offline_runs_reach_a_server(resumed, tmp_path):
    """By the real client, from both starts of a run; no row takes the place of another.

    The copies of tables and bundles are still where the starts wrote them, as they must be.
    """
    run_dir = resumed
    starts = sorted((run_dir / "wandb").glob("offline-run-*"))
    with wandb_server() as server:
        result = run_command(
            Path(sys.executable).with_name("wandb"), "sync", *starts, cwd=tmp_path,
            WANDB_BASE_URL=server.url, WANDB_API_KEY="x" * 40, WANDB_MODE="online",
            HOME=str(tmp_path), HTTPS_PROXY="", HTTP_PROXY="", NO_PROXY="127.0.0.1",
        )
    assert result.returncode == 0, result.stdout + result.stderr
    rows = [row for run in read_offline(run_dir) for row in run.rows]
    assert [row["_step"] for row in server.history()] == list(range(len(rows)))
    for key in ("train/loss", "val/bleu", "trainer/global_step"):
        sent = [row.get(key) for row in server.history()]
        assert sent == [row.get(key) for row in rows], key
    media = {str(path.relative_to(start / "files")): path.stat().st_size for start in starts
             for path in (start / "files" / "media").rglob("*") if path.is_file()}
    assert len(media) > 30
    assert media.items() <= server.files.items()
    assert f"bundle-{read_offline(run_dir)[0].identity['id']}" in server.artifacts


# Other loggers, sweeps, processes


@pytest.mark.slow
def test_runs_of_a_sweep_stand_in_one_group(script, toy_corpus, tmp_path):
    result = script("train", "-m", *TOY, f"data.path={toy_corpus}", f"run_dir={tmp_path / 'two'}",
                    "seed=1,2", "logger=wandb", "decode=greedy", "trainer.max_steps=2")
    assert result.returncode == 0, result.stdout + result.stderr
    runs = [run for folder in ("0-seed_1", "1-seed_2")
            for run in read_offline(tmp_path / "two" / folder)]
    assert [run.identity["group"] for run in runs] == ["two", "two"]
    assert len({run.identity["id"] for run in runs}) == 2
    for run in runs:
        assert run.folder.parent.name == "wandb"
        assert run.summary["result/steps"] == 2
        for copy in run.artifacts[f"bundle-{run.identity['id']}"]["files"].values():
            assert copy.is_relative_to(run.folder.parent)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_log_once(strategy, toy_corpus, tmp_path):
    run_dir = tmp_path / "run"
    train = Path(__file__).parents[2] / "scripts" / "train.py"
    result = run_command(
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", train,
        *TOY, "trainer=cpu", f"trainer.strategy={strategy}", "trainer.devices=2", "logger=wandb",
        "logger.share=all",
        f"data.path={toy_corpus}", f"run_dir={run_dir}", "decode=greedy", "trainer.max_steps=10",
        "trainer.val_every_n_steps=5",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    [run] = read_offline(run_dir)
    for key in (*TRAINING, *VALIDATION, *HISTOGRAMS):
        assert list(run.values(key)) == [5, 10], key
    for step, norm in run.values("optim/grad_norm").items():
        blocks = (run.values(f"optim/grad_norm/{block}")[step] for block in BLOCKS)
        assert math.hypot(*blocks) == pytest.approx(norm, rel=1e-3)
    assert [value["nrows"] for value in run.values("samples/fixed").values()] == [10, 20]
    pictures = [row["attention"] for value in run.values("samples/fixed").values()
                for row in run.table(value)[-10:]]
    assert set(pictures) == ({"Image"} if strategy == "ddp" else {None})
    assert [line["step"] for line in read_samples(run_dir)] == [5, 10]
