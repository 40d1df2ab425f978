"""The callbacks of a run, in their order."""

from __future__ import annotations

from seq2seq.data.datamodule import TranslationData
from seq2seq.training.callbacks import Callback
from seq2seq.training.callbacks.findings import Findings
from seq2seq.training.callbacks.gradient_norms import GradientNorms
from seq2seq.training.callbacks.media import Media
from seq2seq.training.callbacks.profile import Profile
from seq2seq.training.callbacks.progress import Progress
from seq2seq.training.callbacks.samples import Samples
from seq2seq.training.callbacks.throughput import Throughput
from seq2seq.training.run_folder import Run
from seq2seq.training.validation import Validation


def make_callbacks(
    run: Run, data: TranslationData, validation: Validation, *, samples: int, profile: bool
) -> list[Callback]:
    """Make the callbacks of a run; each comes after those whose figures it uses.

    Args:
        samples: number of validation sentences whose translations are kept.
        profile: whether to write a trace of a few steps.
    """
    throughput, norms = Throughput(), GradientNorms()
    if run.processes.rank != 0:
        return [throughput, norms]  # these gather figures of all processes
    translations = Samples(run.folder, samples, validation)
    return [
        throughput,
        Progress(validation),
        translations,
        *([Profile(run.folder / "profile")] if profile else []),
        Media(translations, norms, data.prepared.folder / "report.html"),
        norms,  # after Media: norms forget their figures at the end of a validation
        Findings(translations, data.prepared.report),
    ]
