"""COMET (Rei et al. 2020, 2022), a learned metric, computed by its own command `comet-score`.

COMET's package needs older versions of numpy and other packages than this project. So the package
is in a virtual environment of its own, and its model in a folder: see docs/how-to/evaluate.md.
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
from seq2seq.evaluation.significance import resamples
from seq2seq.evaluation.texts import Texts

LINES = 15  # the last lines of the command's output that an error message shows
MALFORMED = (ValueError, KeyError, TypeError, AttributeError)  # what reading such output raises


def require(model: str, command: str) -> None:
    """Raise RunError if the command or the model is missing; call this before translating."""
    if shutil.which(command) is None:
        raise RunError(
            f"comet={model} needs the command {command}, which is missing: python -m venv comet "
            "&& comet/bin/pip install unbabel-comet, then comet_command=comet/bin/comet-score"
        )
    if not (model.endswith(".ckpt") and Path(model).is_file()):
        raise RunError(
            f"comet={model} is not a model file: download one where there is a network (for "
            "example Unbabel/wmt22-comet-da of the Hugging Face hub) and name its checkpoint, "
            "comet=FOLDER/checkpoints/model.ckpt"
        )


def comet_scores(texts: Texts, model: str, command: str) -> list[float]:
    """Score each sentence by COMET; scores are about 0 to 1. The texts must have sources.

    Raises:
        RunError: the command cannot be run, fails, or writes no valid scores.
    """
    assert texts.sources is not None
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "scores.json"
        arguments = ["--model", model, "--to_json", str(output), "--quiet"]
        files = {"-s": texts.sources, "-t": texts.hypotheses, "-r": texts.references}
        for option, lines in files.items():
            path = Path(folder) / f"text{option}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            arguments += [option, str(path)]
        try:
            subprocess.run(
                [command, *arguments], check=True, text=True, errors="replace",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},  # download nothing: fail if files lack
            )  # fmt: skip
            (rows,) = json.loads(output.read_text(encoding="utf-8")).values()
            values = [float(row["COMET"]) for row in rows]
            if len(values) != len(texts.hypotheses) or not all(map(math.isfinite, values)):
                raise ValueError("there is not one finite score for each sentence")
        except (OSError, subprocess.CalledProcessError, *MALFORMED) as error:
            printed = (getattr(error, "stdout", None) or "").splitlines()[-LINES:]
            raise RunError(
                f"{command} gave no scores ({error!r}); leave comet= out, or correct this fault:\n"
                + "\n".join(printed)
            ) from error
    return values


def comet_score(values: Sequence[float], signature: str) -> Score:
    """Return the mean of the sentences' scores, and its interval, computed as for other scores."""
    each = np.array(values)
    middle, half = estimate_ci(np.array([each[rows].mean() for rows in resamples(len(each))]))
    return Score("COMET", float(each.mean()), signature, float(middle - half), float(middle + half))
