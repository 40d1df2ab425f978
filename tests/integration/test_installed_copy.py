"""An installed copy needs no clone: it carries presets and texts, trains and translates."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import ROOT, run_command

BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
SHORT = ("optim=adamw", "trainer.max_steps=4", "trainer.val_every_n_steps=4", "trainer.val_pairs=4",
         "trainer=cpu", "decode=greedy", "model=tiny")  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """What pip would copy into site-packages."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("installed")
    built = run_command(sys.executable, "-c", BUILD, folder)
    assert built.returncode == 0, built.stderr
    [wheel] = folder.glob("*.whl")
    ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def test_a_wheel_has_presets_and_texts(installed):
    resources = installed / "seq2seq" / "resources"
    for file in (ROOT / "configs").rglob("*.yaml"):
        assert (resources / file.relative_to(ROOT)).read_bytes() == file.read_bytes()
    starter = ("train.tsv.gz", "val.tsv", "test.tsv", "phrases/words.tsv")
    texts = *(f"starter/{name}" for name in starter), "short/signs.tsv", "templates/pairs.tsv.gz"
    assert all((resources / "data" / name).is_file() for name in texts)
    assert not [*resources.rglob("*.py")]
    assert not {path.name for path in installed.iterdir()} - {"seq2seq", "seq2seq-0.1.0.dist-info"}


@pytest.mark.slow
def test_it_trains_and_translates_in_an_empty_folder(installed, tmp_path):
    """Started by the file of the command, as the processes of a distributed run are."""
    command = installed / "seq2seq" / "cli" / "train.py"
    result = run_command(sys.executable, command, "experiment=demo", *SHORT, "run_dir=runs/demo",
                         cwd=tmp_path, PYTHONPATH=str(installed))  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    shown = run_command(sys.executable, "-m", "seq2seq.cli.translate", "--model", "runs/demo",
                        "hello world", cwd=tmp_path, PYTHONPATH=str(installed))  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    told = run_command(sys.executable, command, "--help", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "  seq2seq train experiment=demo  " in told.stdout
    wrong = run_command(sys.executable, command, "lr=1", cwd=tmp_path, PYTHONPATH=str(installed))
    assert wrong.stderr == "error: there is no setting 'lr': did you mean 'optim.lr'?\n"
