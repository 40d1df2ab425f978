"""COMET (Rei et al. 2020, 2022), a learned metric, by its own command `comet-score`.

Its package wants older versions of numpy and others than this project, so it stands in a virtual
environment of its own, and its model in a folder: see docs/how-to/evaluate.md.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sacrebleu.significance import estimate_ci

from seq2seq.errors import RunError
from seq2seq.evaluation.record import Score
from seq2seq.evaluation.resampling import resamples
from seq2seq.evaluation.scores import Texts

LINES = 15  # of what the command printed last that an error shows


def require(model: str, command: str) -> None:
    """Raise RunError if the command or the model is not there; before anything is translated."""
    if shutil.which(command) is None:
        raise RunError(
            f"comet={model} needs the command {command}, which is not there: python -m venv comet "
            "&& comet/bin/pip install unbabel-comet, then comet_command=comet/bin/comet-score"
        )
    if not (model.endswith(".ckpt") and Path(model).is_file()):
        raise RunError(
            f"comet={model} is no model file: download one where there is a network (for example "
            "Unbabel/wmt22-comet-da of the Hugging Face hub) and name its checkpoint, "
            "comet=FOLDER/checkpoints/model.ckpt"
        )


def comet_scores(texts: Texts, model: str, command: str) -> list[float]:
    """The score of each sentence; about 0 to 1.

    Raises:
        RunError: the command cannot be run, or fails.
    """
    assert texts.sources is not None
    with tempfile.TemporaryDirectory() as folder:
        files = {"-s": texts.sources, "-t": texts.hypotheses, "-r": texts.references}
        arguments = []
        for option, lines in files.items():
            path = Path(folder) / f"text{option}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            arguments += [option, str(path)]
        output = Path(folder) / "scores.json"
        ended, said = "was not started", ""
        try:
            result = subprocess.run(
                [command, *arguments, "--model", model, "--to_json", str(output), "--quiet"],
                capture_output=True, text=True, errors="replace", check=False,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},  # what it needs is here, or it says so
            )  # fmt: skip
            ended, said = f"ended with {result.returncode}", f"{result.stdout}{result.stderr}"
            values = _scores_in(output)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            printed = "\n".join(said.splitlines()[-LINES:])
            raise RunError(
                f"{command} gave no scores (it {ended}); leave comet= out, or mend what it says:\n"
                f"{printed or repr(error)}"
            ) from error
    if len(values) != len(texts.hypotheses):
        raise RunError(f"{command} gave {len(values)} scores for {len(texts.hypotheses)} sentences")
    return values


def _scores_in(output: Path) -> list[float]:
    """The scores in the file that the command wrote; raises whatever if they are not there."""
    (rows,) = json.loads(output.read_text(encoding="utf-8")).values()
    values = [float(row["COMET"]) for row in rows]
    if not all(map(math.isfinite, values)):  # JSON has no such numbers
        raise ValueError("a score is not finite")
    return values


def comet_score(values: Sequence[float], signature: str) -> Score:
    """The mean of sentences and its interval, as the other scores have it."""
    each = np.array(values)
    middle, half = estimate_ci(np.array([each[rows].mean() for rows in resamples(len(each))]))
    return Score("COMET", float(each.mean()), signature, float(middle - half), float(middle + half))
