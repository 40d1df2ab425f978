"""The dashboard of a W&B project: its sections and panels, and how they become a W&B workspace.

`make_workspace` needs the package wandb-workspaces, and sends nothing: only `save` of the
workspace that it returns does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from seq2seq.errors import UserError, install

NAME = "Translation"
STEP = "trainer/global_step"  # the x axis of curves; W&B's own step counts rows


@dataclass(frozen=True)
class Panel:
    """One panel."""

    title: str
    keys: tuple[str, ...] = ()  # curves, tables or media that it shows, as runs name them
    kind: str = "curves"  # or table, or media
    pattern: str | None = None  # regular expression for the names of further curves
    text: bool = False  # shows sentences, which leave the run's machine with `logger.share=text`


SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Quality": (
        Panel("BLEU", ("val/bleu", "val/bleu_of_average")),
        Panel("chrF2", ("val/chrf",)),
        Panel("Length of translations / references", ("val/length_ratio",)),
        Panel("Share of what cannot be right", ("decode/degenerate_share",)),
        Panel("Share cut off by the output limit", ("decode/unfinished_share",)),
        Panel("How sure: log probability per token", ("decode/log_prob_per_token",)),
    ),
    "Loss": (
        Panel("Nats per token", ("train/nll", "val/nll")),
        Panel("Perplexity", ("train/perplexity", "val/perplexity")),
        Panel("What is minimised", ("train/loss",)),
    ),
    "Optimisation": (
        Panel("Learning rate", ("optim/lr",)),
        Panel("Gradient norm before clipping", ("optim/grad_norm",)),
        Panel("Gradient norm of each block", pattern="optim/grad_norm/.*"),
        Panel("Histograms of these", pattern="optim/grad_norm_histogram/.*"),
    ),
    "Throughput": (
        Panel(
            "Tokens per second in training",
            ("perf/source_tokens_per_second", "perf/target_tokens_per_second"),
        ),
        Panel("Seconds of a step", ("perf/step_seconds",)),
        Panel("Share of padding", ("perf/padding_share",)),
        Panel("Share of waiting for data", ("perf/data_wait_share",)),
        Panel("TFLOP/s", ("perf/tflops",)),
        Panel("Utilisation of the GPUs", ("perf/utilisation",)),
        Panel("Memory, GiB", ("perf/memory_gib",)),
        Panel("Seconds of a validation", ("perf/validation_seconds",)),
        Panel("Sentences translated per second", ("decode/sentences_per_second",)),
        Panel("Tokens translated per second", ("decode/tokens_per_second",)),
    ),
    "Samples": (
        Panel("The same sentences over time", ("samples/fixed",), "table", text=True),
        Panel("The worst sentences by chrF2", ("samples/worst",), "table", text=True),
        Panel("What the best head looked at", ("samples/attention",), "media", text=True),
        Panel("How sure the model was of each token", ("samples/confidence",), "media", text=True),
        Panel("Words of translations", ("val/hypothesis_words",)),
        Panel("Words of references", ("val/reference_words",)),
        Panel("Probabilities of tokens", ("decode/token_probability",)),
    ),
    "Run": (
        Panel("Findings", ("run/findings",), "table"),
        Panel("Parameters", ("model/parameters",), "table"),
        Panel("Data", ("data/report",), "media", text=True),
    ),
}


def outline() -> Iterator[str]:
    """Yield lines that list the sections and their panels."""
    for name, panels in SECTIONS.items():
        yield name
        for panel in panels:
            keys = ", ".join(filter(None, (*panel.keys, panel.pattern)))
            yield f"  {panel.title}: {keys}{' (with logger.share=text)' * panel.text}"


def make_workspace(entity: str, project: str) -> Any:
    """Make a view of the project's page in W&B, with a foldable section for each of `SECTIONS`.

    Raises:
        UserError: the package wandb-workspaces is missing.
    """
    try:
        # Its type hints do not list what it has.
        reports: Any = import_module("wandb_workspaces.reports.v2")
        from wandb_workspaces import workspaces
    except ImportError as error:
        raise UserError(
            "a dashboard is built by the package wandb-workspaces, which is not there: "
            f"{install('dashboard')}"
        ) from error

    def shown(panel: Panel) -> Any:
        if panel.kind == "table":
            [key] = panel.keys
            return reports.WeavePanelSummaryTable(table_name=key)
        if panel.kind == "media":
            return reports.MediaBrowser(title=panel.title, media_keys=list(panel.keys))
        return reports.LinePlot(
            title=panel.title, x=STEP, y=list(panel.keys), metric_regex=panel.pattern
        )

    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=NAME,
        sections=[
            workspaces.Section(name=name, panels=list(map(shown, panels)), is_open=True)
            for name, panels in SECTIONS.items()
        ],
        settings=workspaces.WorkspaceSettings(x_axis=STEP),
    )
