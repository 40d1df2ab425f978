"""What `scripts/maintain/ship.py` makes of a run: a bundle in 16 bits, its card, small files."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import ship as shipping
import torch
import yaml
from example_run import evaluation, origin, write, write_run
from tiny_bundle import TEXTS, tiny_bundle

from seq2seq.bundle.bundle import load_bundle
from seq2seq.cli.exits import run_command
from seq2seq.evaluation.record import Breakdown, Evaluation, Group
from seq2seq.inference.translator import Translator
from seq2seq.report.run import read_run

ROOT = Path(__file__).resolve().parents[3]
NOTES = "## Training data\n\nMine, CC0.\n\n## Known weaknesses\n\n`two` becomes *trois*.\n"


def of_bundle(one: Evaluation, run: Path) -> Evaluation:
    """As if the weights of the run had been scored."""
    weights = (run / "bundle" / "model.safetensors").read_bytes()
    return replace(one, model={"folder": str(run), "step": 40, "precision": "float32",
                               "sha256": hashlib.sha256(weights).hexdigest()})  # fmt: skip


@pytest.fixture
def run(tmp_path) -> Path:
    """A finished run whose files name places of this machine, with scores of two test sets."""
    made, corpus = tmp_path / "runs" / "best", str(tmp_path / "corpus")
    data = {"name": "mixed", "path": corpus, "cache": str(tmp_path / "cache"),
            "members": {"a": {"path": corpus}}}  # fmt: skip
    write_run(made, data=data, run_dir=str(made))
    bundle = tiny_bundle()
    bundle.training = {"step": 40, "scores": {"BLEU": 20.0},
                       "config": {"data": data, "run_dir": str(made)}}  # fmt: skip
    bundle.save(made / "bundle")
    [start] = origin().starts
    command = f"python {tmp_path}/clone/scripts/train.py data.path={corpus} run_dir={made}"
    start = replace(start, command=command, folder=str(tmp_path / "elsewhere"),
                    versions={"seq2seq": "0.0.9"})  # fmt: skip
    starts = [vars(start)]
    write(made / "origin.json", {**vars(origin()), "starts": starts})
    test = of_bundle(evaluation(), made)
    test.data["settings"] = {"path": str(tmp_path / "tests")}
    test.write(made / "evaluation/starter-test/evaluation.json")
    groups = [Group("laws", 7, {"BLEU": 31.25, "chrF2": 50.5}), Group("tales", 3, {"BLEU": 9.0})]
    val = replace(test, breakdowns=[Breakdown("corpus", groups)], sentences=10)
    val = replace(val, data={**val.data, "name": "mixed", "split": "val"})
    (made / "evaluation/mixed-val").mkdir()
    val.write(made / "evaluation/mixed-val/evaluation.json")
    return made


@pytest.fixture
def clone(tmp_path) -> Path:
    """What the command needs of a clone of this project."""
    made = tmp_path / "shown"
    for name in ("docs/explanation/results.md", "results/published.yaml"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name)
    (made / "results" / "general").mkdir()
    (made / "results" / "general" / "notes.md").write_text(NOTES)
    return made


@pytest.fixture
def ship(clone, monkeypatch, capsys):
    """The command: its exit code, what it says, what it says of errors."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ship.py", *map(str, arguments)])
        monkeypatch.setattr(shipping, "ROOT", clone)
        code = 0
        try:
            run_command(shipping.main)
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def texts_of(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_the_bundle_of_the_run_in_16_bits_is_shipped(run, clone, ship):
    code, out, err = ship(run)
    assert (code, err) == (0, "")
    folder = clone / "seq2seq" / "pretrained" / "general"
    assert f"shipped     {folder} (" in out
    assert sorted(f.name for f in folder.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "tokenizer.json"
    ]  # fmt: skip
    whole = (run / "bundle" / "model.safetensors").stat().st_size
    assert (folder / "model.safetensors").stat().st_size < 0.6 * whole
    weights = load_bundle(folder).model.state_dict()
    for name, value in tiny_bundle().model.state_dict().items():
        assert weights[name].equal(value.to(torch.float16).float())
    expected = [one.text for one in Translator.load(run, "cpu").translate(TEXTS)]
    assert [one.text for one in Translator.load(folder, "cpu").translate(TEXTS)] == expected


def test_no_place_of_this_machine_is_told(run, clone, ship, tmp_path):
    before = texts_of(clone)
    ship(run)
    made = {name: data for name, data in texts_of(clone).items() if before.get(name) != data}
    assert len(made) > 8
    for name, data in made.items():
        assert str(tmp_path).encode() not in data, name
    config = json.loads(made["seq2seq/pretrained/general/config.json"])["training"]["config"]
    assert config["data"]["members"] == {"a": {"path": "PATH/corpus"}}
    assert (config["data"]["cache"], config["run_dir"]) == ("PATH/cache", "runs/general")
    [start] = json.loads(made["results/general/origin.json"])["starts"]
    assert start["command"] == "python PATH/train.py data.path=PATH/corpus run_dir=runs/general"


def test_the_card_tells_scores_cost_and_what_was_written_by_hand(run, clone, ship):
    ship(run)
    folder = clone / "seq2seq" / "pretrained" / "general"
    card = (folder / "README.md").read_text()
    for said in (
        "# English to French, base (transformer)",
        "for 40 steps with seq2seq 0.0.9; the settings",
        "| hardware | CPU (2 threads), 32-true |",
        "| updates | 40, best at 40 |",
        "| time of updates | 20.0 s, without validation |",
        "| starter test | 1,000 | beam 5 | 56.4 (54.9 to 58.1) | 72.8 |",
        "| mixed val | 10 | beam 5 | 56.4 (54.9 to 58.1) | 72.8 |",
        "Of these, mixed val by corpus:",
        "| laws | 7 | 31.2 | 50.5 |",
        "| tales | 3 | 9.0 |  |",
        "- BLEU: `signature of BLEU`\n- chrF2: `signature of chrF2`\n\n## Training data",
        NOTES,
    ):
        assert said in card, card
    assert "unknown" not in card
    kept = read_run(clone / "results" / "general", "general")
    again = shipping.shipped_card(kept, load_bundle(folder), NOTES.strip())
    assert card.startswith(f"{again}\n## Files\n")


def test_the_small_files_and_the_table_are_those_of_the_run_and_of_a_later_one(
    run, clone, ship, tmp_path
):
    ship(run)
    kept, page = clone / "results" / "general", clone / "docs/explanation/results.md"
    assert "| starter test | general, 1.2 M parameters" in page.read_text()
    shutil.copytree(run, tmp_path / "later")
    settings = yaml.safe_load((run / "config.yaml").read_text())
    (tmp_path / "later/config.yaml").write_text(yaml.safe_dump({**settings, "seed": 7}))
    (tmp_path / "later/origin.json").unlink()
    shutil.rmtree(tmp_path / "later/evaluation/starter-test")
    assert ship(tmp_path / "later")[0] == 0
    assert read_run(kept, "general").settings["seed"] == 7
    assert not (kept / "origin.json").exists()
    assert [f.name for f in read_run(kept, "general").evaluations] == ["mixed-val"]
    assert (kept / "notes.md").read_text() == NOTES
    assert "starter test | general" not in page.read_text()


def not_scored(run: Path) -> None:
    shutil.rmtree(run / "evaluation")


def scored_with_others(run: Path) -> None:
    tiny_bundle(seed=1).save(run / "bundle")


def not_finished(run: Path) -> None:
    (run / "summary.json").unlink()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (not_scored, r"was not evaluated: python scripts/evaluate\.py bundle=\S+best data=NAME"),
        (scored_with_others, r"mixed-val has scores of other weights than those of the bundle: "),
        (not_finished, r"best is not finished: python scripts/train\.py resume=\S+best first"),
        (shutil.rmtree, r"\S+best is not a run, since it has no config.yaml"),
    ],
)
def test_what_cannot_be_shipped_is_refused_and_nothing_changes(damage, text, run, clone, ship):
    ship(run)
    before = texts_of(clone)
    damage(run)
    code, _, err = ship(run)
    assert code == 1
    assert re.search(text, err), err
    assert "Traceback" not in err
    assert texts_of(clone) == before


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        (NOTES.partition("## Known")[0], "nothing under `## Known weaknesses`"),
        (NOTES.replace("`two` becomes *trois*.", ""), "nothing under `## Known weaknesses`"),
        (NOTES.replace("Mine, CC0.", ""), "nothing under `## Training data`"),
        (None, "notes.md cannot be read"),
    ],
)
def test_notes_that_say_too_little_are_refused(notes, text, run, clone, ship):
    file = clone / "results" / "general" / "notes.md"
    file.unlink() if notes is None else file.write_text(notes)
    before = texts_of(clone)
    code, _, err = ship(run)
    assert (code, text in err) == (1, True), err
    assert texts_of(clone) == before


def test_a_bundle_that_is_too_large_is_refused_with_its_size(run, clone, ship, monkeypatch):
    before = texts_of(clone)
    monkeypatch.setattr(shipping, "LIMIT", 2**14)
    code, _, err = ship(run)
    size = float(re.search(r"best have ([\d.]+) MiB in 16 bits, and at most 0\.015625 MiB", err)[1])
    assert code == 1
    assert "train a smaller model (model.d_model=" in err
    assert texts_of(clone) == before
    monkeypatch.undo()
    assert shipping.ship(run, clone / "made", clone / "results/general") / 2**20 == pytest.approx(
        size, abs=0.06
    )


def test_at_most_32_mib_are_shipped():
    assert shipping.LIMIT == 32 * 1024 * 1024


def test_the_notes_name_each_corpus_that_the_model_is_trained_on():
    notes = (ROOT / "results/general/notes.md").read_text(encoding="utf-8")
    data = notes.partition("## Known weaknesses")[0]
    named = re.findall(r"^\| ([\w-]+) \|", data, re.MULTILINE)
    settings = yaml.safe_load((ROOT / "results/general/config.yaml").read_text(encoding="utf-8"))
    trained = [name for name, member in settings["data"]["members"].items() if member["train"]]
    assert sorted(named) == sorted(["name", "---", *trained])
