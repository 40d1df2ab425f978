"""The models that a server has: each with its name, its languages and its batcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.bundle.find import find_model
from seq2seq.data.cleaning import language_detector
from seq2seq.errors import ConfigError
from seq2seq.inference.text.language import LANGUAGES, foreign
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.serving.batcher import Batcher, Progress, Settings

NAMES = {"en": "English", **LANGUAGES}
READ = 2000  # characters of a text that are looked at to tell its language
# Settings that the quick engine does not have, or not as torch has them (`choose_engine`).
EXACT = ("strategy", "token_scores", "prefix", "terms", "banned", "no_repeat_ngram",
         "repetition_penalty")  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A model that answers.

    Attributes:
        name: as requests call it.
        quick, exact: the same model; `exact` on torch if there is a choice, loaded when needed.
    """

    name: str
    quick: Translator
    exact: Callable[[], Translator]

    @property
    def source(self) -> str:
        return self.quick.languages[0]

    @property
    def target(self) -> str:
        return self.quick.languages[1]

    def run(self, texts: Sequence[str], settings: Settings, progress: Progress) -> (
        list[Translation]
    ):
        """The translations of texts; the setting `token_scores` asks for these."""
        translator = self.exact() if any(settings.get(name) for name in EXACT) else self.quick
        own = {name: value for name, value in settings.items() if name != "token_scores"}
        return translator.translate(texts, progress=progress, **own)


def load(named: Sequence[str], device: str, engine: str, precision: str) -> list[Model]:
    """The models that are named NAME=FOLDER, or FOLDER alone; none: the one that others take.

    Raises:
        BundleError: one is not there, or cannot be used.
        ConfigError: two have one name.
    """
    folders: dict[str, Path] = {}
    for text in named or [""]:
        name, _, folder = text.rpartition("=")
        found = find_model(folder or None).folder
        name = name or Path(folder).name or found.name
        if name in folders:
            raise ConfigError([f"two models are called {name}: give names, --model NAME=FOLDER"])
        folders[name] = found
    models = []
    for name, found in folders.items():
        quick = Translator.load(found, device, engine=engine, precision=precision)
        exact = _exact(found, device, precision) if engine == "auto" else (lambda own=quick: own)
        models.append(Model(name, quick, exact))
    return models


def _exact(folder: Path, device: str, precision: str) -> Callable[[], Translator]:
    return cache(lambda: Translator.load(folder, device, engine="torch", precision=precision))


class Detected(NamedTuple):
    """A language, and how sure that is, from 0 to 1."""

    language: str
    confidence: float


class UnknownLanguage(Exception):
    """A code that no model knows; `code` is it."""

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


class NoModel(Exception):
    """Languages that are known, but not as this pair, or not of the model that is named."""

    def __init__(self, source: str, target: str):
        super().__init__(source, target)
        self.source, self.target = source, target


class Models:
    """The models of a server, each with its batcher; made within the event loop that runs them."""

    def __init__(self, models: Sequence[Model], **batching: Any):
        self.all = {one.name: one for one in models}
        self.batchers = {one.name: Batcher(one.run, **batching) for one in models}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The languages of the models, each pair once."""
        return list(dict.fromkeys((one.source, one.target) for one in self.all.values()))

    def choose(self, source: str, target: str | None, name: str | None = None) -> Model:
        """The first model of these languages, or the one that is named, if it has them.

        Raises:
            UnknownLanguage: no model knows one of them.
            NoModel: no model goes from one to the other.
        """
        known = {language for pair in self.pairs for language in pair}
        for language in (source, target):
            if language is not None and language not in known:
                raise UnknownLanguage(language)
        for one in self.all.values():
            if one.source == source and target in (None, one.target) and name in (None, one.name):
                return one
        raise NoModel(source, target or "")

    def detect(self, text: str) -> list[Detected]:
        """Languages a text may be in, the likeliest first; one of a model unless that is wrong."""
        text = text[:READ]
        ranks = [(code, share) for code, share in language_detector().rank(text) if code in NAMES]
        whole = sum(share for _, share in ranks)
        found = [Detected(code, float(share / whole)) for code, share in ranks]
        own = next((source for source, _ in self.pairs if not foreign(text, source)), None)
        return sorted(found, key=lambda one: one.language != own)[:3]
