"""The report of runs has their figures and texts, whatever they are, and needs nothing else."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from example_run import (
    NASTY,
    STEPS,
    data_report,
    evaluation,
    origin,
    sentence,
    validation,
    write,
    write_run,
)
from html_elements import Page
from tiny_bundle import tiny_bundle

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.decoding.attention_head import AttentionHead
from seq2seq.errors import RunError
from seq2seq.evaluation.record import Score, TextFile
from seq2seq.model.attention_maps import attention_maps
from seq2seq.report.attention import attention, attention_data
from seq2seq.report.comparison import settings_table
from seq2seq.report.curves import CHARTS, curves, hours, tokens
from seq2seq.report.facts import facts
from seq2seq.report.page import report_page, write_report
from seq2seq.report.run import Run, read_runs
from seq2seq.report.translations import compared, evaluated, marked, samples

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "first")


@pytest.fixture(scope="module")
def text(run_dir) -> str:
    return report_page(read_runs([run_dir]))


@pytest.fixture(scope="module")
def page(text) -> Page:
    return Page(text)


@pytest.fixture
def own_dir(run_dir, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(run_dir, tmp_path / "own"))


@pytest.fixture(scope="module")
def both(run_dir, tmp_path_factory) -> str:
    """The report of two runs."""
    other = write_run(tmp_path_factory.mktemp("runs") / "second", optim={"lr": 0.2, "ema": 0.9})
    better = evaluation(58.0)
    better.write(other / "evaluation/starter-test/evaluation.json")
    return report_page(read_runs([run_dir, other]))


# The page as a whole


@pytest.mark.parametrize("which", ["text", "both"])
def test_nothing_is_fetched_and_links_lead_to_one_place(which, request):
    text = request.getfixturevalue(which)
    page = Page(text)
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert not page.values("src")
    ids, links = page.values("id"), page.values("href") + page.values("xlink:href")
    assert len(ids) == len(set(ids))
    links += [f"#{part}" for part in re.findall(r"url\(#([^)]+)\)", text)]  # of drawings
    assert set(links) <= {f"#{one}" for one in ids}
    assert not re.search(r"url\([^#]|@import|fetch\(", text)
    assert not [at for at in re.findall(r"https?:[^\"' <]*", text) if "www.w3.org" not in at]
    assert len(text.encode()) < 400_000


def test_texts_cannot_become_code(text, page):
    assert "alert('x')</script>" not in text
    assert "\u202e" not in text
    assert page.text.count(NASTY.replace("\u202e", "‹U+202E›")) >= 3  # reference, source, note
    scripts = page.tags["script"]
    assert scripts == text.count("</script>")


def test_numbers_of_the_head(page):
    for number in ("56.4", "54.9 to 58.1", "72.8", "1,234,567", "20.0 s", "1,025", "CPU (2 thr"):
        assert number in page.text, number


def test_a_best_score_of_nothing_is_a_score(run_dir):
    """Of a run whose validations got nothing right."""
    [run] = read_runs([run_dir])
    run = replace(run, evaluations={}, curves={"val/bleu": [(10.0, 0.0)]})
    assert facts(run)["BLEU"] == ("0.0", "validation, best")


def test_pictures_are_described(text, page):
    pictures = [tag for tag in re.findall(r"<[a-z][^>]*>", text) if 'role="img"' in tag]
    assert len(pictures) > 7
    assert all(re.search('aria-label="[^"]{15,}"', tag) for tag in pictures)
    assert "56.4, 54.9 to 58.1" in page.values("aria-label")


def test_the_page_is_the_same_each_time(text, run_dir):
    assert report_page(read_runs([run_dir])) == text


# Its parts


def test_curves_have_their_values_at_the_updates_they_belong_to(run_dir, text):
    [run] = read_runs([run_dir])
    assert run.curves["train/nll"] == [(step, 8 - step / 10) for step in STEPS]
    assert run.curves["val/bleu"] == [(20, 10), (40, 20)]
    assert [step for step, _ in run.curves["optim/grad_norm"]] == [10, 30, 40]  # one is no number
    titles = re.findall(r"<figcaption><b>(.*?)</b>", text)
    assert titles[0] == "Loss"
    assert {"Loss", "Validation BLEU", "Learning rate", "Speed", "decode/new"} <= set(titles)


def test_an_average_that_was_logged_after_the_end_belongs_to_the_last_update(own_dir):
    file = own_dir / "metrics/version_0/metrics.csv"
    lines = file.read_text().splitlines()
    extra = [f"{lines[0]},val/bleu_of_average", *(f"{line}," for line in lines[1:]),
             "0,40" + "," * (len(lines[0].split(",")) - 2) + ",33.5"]  # fmt: skip
    file.write_text("\n".join(extra) + "\n")
    assert read_runs([own_dir])[0].curves["val/bleu_of_average"] == [(40, 33.5)]


def test_all_runs_are_in_one_chart(both):
    loss = both.split("<figure")[1]
    drawn, legend = loss.split("</svg>", 1)
    assert re.findall(r'style="stroke: var\((--\w+)', legend) == ["--c0"] * 2 + ["--c1"] * 2
    assert {"--c0", "--c1"} <= set(re.findall(r"stroke: var\((--\w+)", drawn))
    assert "first val" in legend
    assert "second train" in legend


def test_quality_stands_over_tokens_and_hours_too(run_dir, both):
    """Ten updates of half a second each at 1,010, 1,020, ... tokens per second."""
    [run] = read_runs([run_dir])
    assert hours(run) == [(step, pytest.approx(step / 2 / 3600)) for step in STEPS]
    read = np.cumsum([5 * (1000 + step) / 1e6 for step in STEPS])
    np.testing.assert_allclose(tokens(run), list(zip(STEPS, read, strict=True)))
    assert both.count("<b>Validation BLEU</b>") == 3
    other = replace(run, name="b")
    over = [chart.lines[0].points for chart in curves([run, other])["main"]
            if chart.title == "Validation BLEU"]  # fmt: skip
    assert [[y for _, y in points] for points in over] == [[10, 20]] * 3
    np.testing.assert_allclose([x for x, _ in over[2]], [10 / 3600, 20 / 3600])


def test_intervals_stand_where_they_are(both):
    """Of both runs on one axis, which reaches a little beyond them."""
    ends = [54.9, 58.1, 56.5, 59.7]
    low, high = min(ends) - 0.5, max(ends) + 0.5
    found = re.findall(r'left:([\d.]+)%;width:([\d.]+)%"></i><b style="left:([\d.]+)%', both)
    for (left, width, dot), (a, b, value) in zip(
        found, [(54.9, 58.1, 56.4), (56.5, 59.7, 58.0)], strict=True
    ):
        places = np.array([a, value, b])
        expected = 100 * (places - low) / (high - low)
        drawn = [float(left), float(dot), float(left) + float(width)]
        np.testing.assert_allclose(drawn, expected, atol=0.11)


def test_scores_of_other_texts_are_kept_apart(own_dir, run_dir):
    evaluation(fingerprint="other").write(own_dir / "evaluation/starter-test/evaluation.json")
    text = report_page(read_runs([run_dir, own_dir]))
    assert text.count("<h3>starter test</h3>") == 2


def test_an_interval_may_begin_at_zero(own_dir):
    one = evaluation()
    one.scores[0] = Score("BLEU", 1.0, "s", 0.0, 2.0)
    one.write(own_dir / "evaluation/starter-test/evaluation.json")
    assert "The picture goes from 0.0 to 2.5" in report_page(read_runs([own_dir]))


def test_breakdowns_and_signatures_are_there(page):
    assert "By source words" in page.text
    assert "0-560061.2" in page.text
    assert "signature of BLEU" in page.text
    assert "degenerate: repetition 4" in page.text


@pytest.mark.parametrize("version", [{}, {"format": 99}])
def test_evaluations_of_other_versions_are_left_out_and_named(own_dir, caplog, version):
    file = own_dir / "evaluation/starter-test/evaluation.json"
    write(file, {"scores": {"BLEU": 41.25}, "data": {"name": "old"}, "split": "test"} | version)
    page = Page(report_page(read_runs([own_dir])))
    assert "41.25" not in page.text
    assert f"left out: {file} is not a record of this version" in caplog.text
    assert "evaluate again" in caplog.text


def test_doubtful_tokens_are_marked_by_their_probability(text):
    found = marked(sentence(1))["pieces"]
    assert "".join(piece for piece, _ in found) == "un homme lit"
    doubted = [(piece, round(p, 2)) for piece, p in found if p is not None]
    assert doubted == [("hom", 0.25), ("lit", 0.5)]
    assert marked(sentence(1, token_log_probs=[]))["pieces"] == []
    assert '<mark style="--p:0.75" title="25%">hom</mark>' in text


def test_samples_are_there_for_each_validation(text, page):
    assert page.text.count("un homme lit") == 2 + 2  # one fixed sentence and one worst, twice
    assert "worst of 20" in page.text
    assert "worst of 40" in page.text
    assert re.search(r'data-labels="20 \(BLEU 10.0\)\|40 \(BLEU 20.0\)"', text)


def test_translations_stand_at_the_steps_they_were_made_at(own_dir):
    """Though the first validation had fewer sentences, and the second other ones."""
    few, other, last = validation(10), validation(20), validation(30)
    del few["sentences"][1]
    other["sentences"][0]["source"] = "something else"
    lines = [json.dumps(one) + "\n" for one in (few, other, last)]
    (own_dir / "samples.jsonl").write_text("".join(lines))
    [part] = samples(read_runs([own_dir]))
    found = [[(at, step, one["chrf"]) for at, step, one in each["found"]]
             for each in part["fixed"]]  # fmt: skip
    assert found == [[(0, "10", 10.0), (2, "30", 30.0)], [(1, "20", 20.0), (2, "30", 30.0)]]


def test_differences_of_two_texts_are_those_of_their_words():
    """What is left without a mark is a common subsequence of both."""
    reference, hypothesis = compared("le chat noir dort ici", "le grand chat dort")
    assert reference == [("le", False), ("chat", False), ("noir", True), ("dort", False),
                         ("ici", True)]  # fmt: skip
    assert hypothesis == [("le", False), ("grand", True), ("chat", False), ("dort", False)]


def with_texts(folder: Path, count: int = 3) -> Path:
    """Texts for the record in this folder of an evaluation."""
    lines = {
        "hypotheses": [f"un homme {NASTY.splitlines()[0]} {row}" for row in range(count)],
        "references": [f"un chat {row}" for row in range(count)],
        "sources": [f"a cat {row}" for row in range(count)],
    }
    files = {}
    for role, own in lines.items():
        (folder / f"{role}.txt").write_text("".join(f"{one}\n" for one in own), encoding="utf-8")
        files[role] = TextFile(f"{role}.txt", text_fingerprint(own))
    replace(evaluation(), files=files).write(folder / "evaluation.json")
    return folder


def test_what_was_scored_stands_side_by_side(own_dir):
    with_texts(own_dir / "evaluation/starter-test")
    text = report_page(read_runs([own_dir]))
    assert text.count("<tr data-chrf=") == 3
    assert "<del>chat</del>" in text
    assert "<ins>homme</ins>" in text
    assert "a cat 2" in Page(text).text
    assert "alert('x')</script>" not in text


def test_of_a_large_test_set_the_ends_and_some_between_are_shown(own_dir):
    with_texts(own_dir / "evaluation/starter-test", 1000)
    [part] = evaluated(read_runs([own_dir]))
    chrf = [one["chrf"] for one in part["sentences"]]
    assert part["of"] == 1000
    assert chrf == sorted(chrf)
    assert 200 < len(chrf) <= 240
    assert len(report_page(read_runs([own_dir])).encode()) < 2_000_000


def test_texts_that_were_changed_since_are_not_shown(own_dir):
    folder = with_texts(own_dir / "evaluation/starter-test")
    (folder / "references.txt").write_text("other\nlines\nhere\n")
    assert evaluated(read_runs([own_dir])) == []


def test_of_many_validations_some_are_shown_and_the_last(own_dir):
    lines = [json.dumps(validation(step)) + "\n" for step in range(1, 101)]
    (own_dir / "samples.jsonl").write_text("".join(lines))
    [part] = samples(read_runs([own_dir]))
    steps = [int(label.split()[0]) for label in part["labels"]]
    assert (len(steps), steps[-1], part["left_out"]) == (24, 100, 76)
    assert {later - earlier for earlier, later in pairwise(steps)} <= {3, 4, 5}


def test_the_viewer_has_the_weights_of_the_model():
    bundle = tiny_bundle()
    bundle.alignment = AttentionHead(1, 0)
    data = attention_data(bundle, [("a man reads", "un homme"), ("", "x")], 10**6)
    [one] = data["sentences"]
    assert (data["layers"], data["heads"], data["aligns"]) == (2, 2, [1, 0])
    encode = bundle.vocabularies.source.encode
    source, target = encode(["a man reads"])[0], encode(["un homme"])[0]
    shape = 2, 2, len(target) + 1, len(source) + 1
    weights = np.frombuffer(base64.b64decode(one["weights"]), np.uint8).reshape(shape)
    ids = torch.tensor([[*source, EOS]])
    maps = attention_maps(bundle.model, ids, torch.ones_like(ids).bool(),
                          torch.tensor([[BOS, *target]]))  # fmt: skip
    for layer in range(2):
        expected = maps[f"decoder.{layer}.cross_attention"][0].numpy()
        np.testing.assert_allclose(weights[layer] / 255, expected, atol=0.5 / 255 + 1e-6)
    assert (len(one["source"]), len(one["target"])) == (shape[3], shape[2])
    assert "".join(one["source"][:-1]).replace("·", "") == "amanreads"
    assert one["source"][-1] == "(end)"


def test_the_caption_says_which_weights_read_which_translation(own_dir, page):
    assert "translation at step 40, read by the weights of step 1." in page.text
    bundle = tiny_bundle()
    bundle.training |= {"step": 4000, "averaged": ["step 3000", "step 4000"]}
    bundle.save(own_dir / "bundle")
    text = Page(report_page(read_runs([own_dir]))).text
    assert "read by an average of weights up to step 4,000." in text


def test_the_weights_of_a_page_are_bounded():
    pairs = [("a man reads", "un homme")] * 3
    [one, *_] = attention_data(tiny_bundle(), pairs, 10**6)["sentences"]
    size = len(base64.b64decode(one["weights"]))
    assert len(attention_data(tiny_bundle(), pairs, 2 * size)["sentences"]) == 2
    assert attention_data(tiny_bundle(), pairs, size - 1)["sentences"] == []


def test_differences_of_settings():
    settings = [
        {"model": {"d": 1, "same": [1, 2]}, "seed": 1, "run_dir": "a"},
        {"model": {"d": 2, "same": [1, 2], "heads": 4}, "seed": 1, "run_dir": "b"},
    ]
    runs = [Run(one, folder=Path("x"), name=one["run_dir"]) for one in settings]
    assert settings_table(runs) == [
        ["", "a", "b"], ["model.d", "1", "2"], ["model.heads", "–", "4"]
    ]  # fmt: skip


def test_how_to_make_it_again(page):
    for part in ("git checkout abc123\npython scripts/train.py model=tiny",
                 "files of the code differed from this commit", "torch 2.13",
                 "fingerprint of the data: data-fingerprint"):  # fmt: skip
        assert part in page.text, part


def test_starts_that_went_on_are_listed(own_dir):
    first = origin()
    again = replace(first.starts[0], command="python scripts/train.py resume=x", revision="def")
    write(own_dir / "origin.json", asdict(replace(first, starts=[first.starts[0], again])))
    page = Page(report_page(read_runs([own_dir])))
    assert "resume=x" in page.text
    assert "continued 1 times" in page.text
    assert "the code changed before the run continued" in page.text


# What is missing or damaged

MISSING = {
    "metrics": "No curves:",
    "evaluation": "No test set has been scored yet: own",
    "samples.jsonl": "No samples: own",
    "bundle": "No attention: ",
    "data_report.json": "Nothing is known of the data of own",
    "origin.json": "Command, code and machine are not known",
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_left_out_and_said(own_dir, name):
    path = own_dir / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    page = Page(report_page(read_runs([own_dir])))
    assert MISSING[name] in page.text
    same = {"samples.jsonl": "bundle"}.get(name)  # the sentences are those of the samples
    others = {line for key, line in MISSING.items() if key not in (name, same)}
    assert not [line for line in others if line in page.text]


def test_a_run_that_has_just_begun_has_a_page(tmp_path):
    (tmp_path / "config.yaml").write_text("model: {name: x}\ndata: {name: y}\ntrainer: {}\n")
    page = Page(report_page(read_runs([tmp_path])))
    assert all(line.removesuffix("own") in page.text for line in MISSING.values())
    assert facts(read_runs([tmp_path])[0]) == {}


def test_a_line_of_samples_that_was_torn_is_left_out(own_dir):
    with (own_dir / "samples.jsonl").open("a") as file:
        file.write(json.dumps(validation(50))[:40])
    assert [one["step"] for one in read_runs([own_dir])[0].samples] == [20, 40]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "model: ["),
        ("config.yaml", "model: {}"),
        ("summary.json", "{"),
        ("data_report.json", "{}"),
        ("origin.json", '{"starts": [{}]}'),
        ("evaluation/starter-test/evaluation.json", "{"),
    ],
)
def test_what_is_damaged_is_one_message_with_the_file(own_dir, name, content):
    (own_dir / name).write_text(content)
    with pytest.raises(RunError) as caught:
        write_report([own_dir], own_dir / "report.html")
    assert str(own_dir / name) in str(caught.value)
    assert re.search("restore it|evaluate again|delete it", str(caught.value))
    assert not (own_dir / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", '{"steps": null}'),
        ("data_report.json", json.dumps(asdict(data_report()) | {"read": "x"})),
        ("data_report.json", json.dumps(asdict(data_report()) | {"vocabulary": [{"name": "x"}]})),
        ("samples.jsonl", '{"step": 1, "bleu": 1, "sentences": [{}], "worst": []}\n'),
    ],
)
def test_a_value_that_cannot_be_shown_is_one_message_with_the_run(own_dir, name, content):
    (own_dir / name).write_text(content)
    with pytest.raises(RunError, match=f"a file of {own_dir} is damaged .* restore it"):
        write_report([own_dir], own_dir / "report.html")
    assert not (own_dir / "report.html").exists()


def test_a_damaged_bundle_leaves_the_attention_out(own_dir):
    (own_dir / "bundle/model.safetensors").write_bytes(b"damaged")
    [found] = attention(read_runs([own_dir]))
    assert "cannot read the weights" in found["why_not"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: [p / "none"], "is not a run"),
        (lambda p: [p], "has no config.yaml"),
        (lambda p: [p / "run", p / "x/../run"], "is given twice"),
    ],
)
def test_what_is_no_run_is_one_message(tmp_path, run_dir, make, message):
    shutil.copytree(run_dir, tmp_path / "run")
    (tmp_path / "x").mkdir()
    with pytest.raises(RunError, match=message):
        write_report(make(tmp_path), tmp_path / "report.html")


def test_runs_of_one_name_get_longer_names(run_dir, tmp_path):
    for place in ("a/run", "b/run"):
        shutil.copytree(run_dir, tmp_path / place)
    found = read_runs([tmp_path / "a/run", tmp_path / "b/run"])
    assert [run.name for run in found] == ["a/run", "b/run"]


# The file


def test_an_earlier_report_is_replaced_and_nothing_else(run_dir, tmp_path):
    output = tmp_path / "page.html"
    write_report([run_dir], output)
    first = output.read_bytes()
    write_report([run_dir], output)
    assert output.read_bytes() == first
    output.write_text("<html>mine</html>")
    with pytest.raises(RunError, match="is not a report of runs: name another file"):
        write_report([run_dir], output)
    assert output.read_text() == "<html>mine</html>"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_a_pipe_is_refused_and_not_waited_for(run_dir, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="it is not a regular file"):
        write_report([run_dir], tmp_path / "pipe")


@pytest.mark.parametrize(
    ("name", "message"),
    [(".", "it is not a regular file"), ("none/a.html", "No such file or directory")],
)
def test_a_file_that_cannot_be_written_is_one_message(run_dir, tmp_path, name, message):
    with pytest.raises(RunError, match=f"cannot be written: {message}. Name "):
        write_report([run_dir], tmp_path / name)


def test_the_command_needs_no_display_and_says_where_the_page_is(run_dir, tmp_path):
    output = tmp_path / "a.html"
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    result = subprocess.run(
        [sys.executable, "scripts/report.py", run_dir, "--output", output],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=environment | {"MPLBACKEND": "TkAgg"},
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    size = output.stat().st_size
    assert result.stdout == f"{output} ({size / 1000:,.0f} kB): open it in a browser\n"
    Page(output.read_text(encoding="utf-8"))


def test_the_page_stays_small_whatever_the_run_is(own_dir):
    rng = np.random.default_rng(0)
    names = ["step", "train/nll", "val/nll", "optim/lr", *(f"other/{i}" for i in range(60))]
    rows = [",".join(names)]
    rows += [f"{10 * i}," + ",".join(map(str, rng.normal(size=len(names) - 1)))
             for i in range(3000)]  # fmt: skip
    (own_dir / "metrics/version_0/metrics.csv").write_text("\n".join(rows))
    long = sentence(1, source='"' * 5000, hypothesis="é" * 5000, reference="<" * 5000,
                    tokens=["▁\"<&'é"] * 200, token_log_probs=[-1.0] * 200)  # fmt: skip
    one = {"step": 1, "bleu": 1.0, "sentences": [long] * 10, "worst": [long] * 10}
    lines = [json.dumps(one | {"step": i + 1}) + "\n" for i in range(100)]
    (own_dir / "samples.jsonl").write_text("".join(lines))
    with_texts(own_dir / "evaluation/starter-test", 1000)
    assert 500_000 < len(report_page(read_runs([own_dir])).encode()) < 2_000_000


@pytest.mark.slow
def test_the_page_of_many_runs_stays_small_too(run_dir):
    """Though each of them has long curves, of many names, and all else."""
    [run] = read_runs([run_dir])
    curve = [(float(step), step % 7 + 0.123456) for step in range(300)]
    names = [*(name for each in CHARTS for name in each.names), "perf/step_seconds",
             *(f"other/{i}" for i in range(60))]  # fmt: skip
    settings = run.settings | {"more": ["x" * 1000] * 20}
    run = replace(run, curves=dict.fromkeys(names, curve), samples=run.samples * 20,
                  settings=settings)  # fmt: skip
    text = report_page([replace(run, name=f"run {i}") for i in range(20)])
    assert len(text.encode()) < 2_000_000
    assert text.count("<b>Loss</b>") == 3
    assert re.search(r"\d+ charts have no room", text)
