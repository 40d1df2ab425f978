"""Average the weights of several states of a run, or of several models of the same sizes.

  seq2seq average run=runs/mine output=runs/averaged           a run with checkpoint.average=N
  seq2seq average run=runs/mine average=3 by=best output=runs/averaged
  seq2seq average inputs=[runs/a,runs/b] output=runs/averaged

Read on in docs/explanation/training.md.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2seq.cli.settings import hydra_command
from seq2seq.config import AverageConfig
from seq2seq.errors import RunError, command_line

log = logging.getLogger(__name__)


def main() -> None:
    hydra_command("average_checkpoints", AverageConfig, average, __doc__)


def average(config: AverageConfig) -> Path:
    """Average weights, write the bundle, and return its folder.

    Raises:
        UserError: the models cannot be averaged, or the output exists already.
    """
    from seq2seq.bundle.averaging import (
        average_weights,
        choose,
        copy_weights,
        read_snapshots,
        require_same_model,
    )
    from seq2seq.bundle.bundle import load_bundle
    from seq2seq.bundle.find import bundle_folder

    output = Path(str(config.output))
    if output.exists():
        raise RunError(f"output={output} exists already: choose another folder, or delete it")
    if config.run is not None:
        bundle, found = load_bundle(config.run), read_snapshots(Path(config.run))
        if len(found) < config.average:
            raise RunError(
                f"snapshots in the run {config.run}: {len(found)}, and average={config.average} "
                "were asked for. Take fewer, or train with checkpoint.average=N, which keeps the "
                "weights of N validations; or average bundles: inputs=[FOLDER,FOLDER]"
            )
        snapshots = choose(found, config.average, config.by)
        paths, steps = [one.path for one in snapshots], [one.step for one in snapshots]
        made: dict[str, Any] = {"step": steps[-1], "averaged": [f"step {n}" for n in steps]}
    else:
        folders = [bundle_folder(name) for name in config.inputs]
        require_same_model(folders)
        bundle = load_bundle(folders[0])
        paths = [folder / "model.safetensors" for folder in folders]
        made = {"averaged": list(config.inputs)}
    copy_weights(bundle.model, average_weights(paths))
    training = {**bundle.training, "scores": {}, **made}  # the average has none yet
    replace(bundle, training=training).save(output)
    log.info(
        "averaged    %s\nbundle      %s\nevaluate    %s",
        *(", ".join(made["averaged"]), output),
        command_line("evaluate", f"bundle={output}", "data=NAME"),
    )
    return output
