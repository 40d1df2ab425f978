"""Load the models of a server, and choose the engine for each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2seq.bundle.find import find_model
from seq2seq.errors import ConfigError
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.serving.batcher import Progress, Settings

# Settings that the quick engine lacks or implements otherwise than torch (`choose_engine`).
EXACT = ("strategy", "token_scores", "prefix", "terms", "banned", "no_repeat_ngram",
         "repetition_penalty")  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A model with its two translators.

    Attributes:
        name: by which requests choose the model.
        quick, exact: translators of the same model; `exact` runs on torch if the engine is "auto".
    """

    name: str
    quick: Translator
    exact: Translator

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.quick.languages

    def run(
        self, texts: Sequence[str], settings: Settings, progress: Progress
    ) -> list[Translation]:
        """Translate texts, on the exact engine if a setting needs it (`EXACT`)."""
        translator = self.exact if any(settings.get(name) for name in EXACT) else self.quick
        own = {name: value for name, value in settings.items() if name != "token_scores"}
        return translator.translate(texts, progress=progress, **own)


def load(named: Sequence[str], device: str, engine: str, precision: str) -> list[Model]:
    """Load models.

    Args:
        named: NAME=FOLDER, or FOLDER alone, of each model; empty: the default model (`find_model`).

    Raises:
        BundleError: a model does not exist, or cannot be used.
        ConfigError: two models have the same name.
    """
    folders: dict[str, Path] = {}
    for text in named or [""]:
        name, _, folder = text.rpartition("=")
        found = find_model(folder or None).folder
        name = name or Path(folder).name or found.name
        if name in folders:
            raise ConfigError(f"two models are called {name}: give names, --model NAME=FOLDER")
        folders[name] = found
    models = []
    for name, found in folders.items():
        quick = exact = Translator.load(found, device, engine=engine, precision=precision)
        if engine == "auto":
            exact = Translator.load(found, device, engine="torch", precision=precision)
        models.append(Model(name, quick, exact))
    return models
