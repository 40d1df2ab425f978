"""`scripts/evaluate.py`: translate a test set and score it, or score given translations."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq import __version__
from seq2seq.bundle.bundle import load_bundle
from seq2seq.bundle.find import bundle_folder, is_shipped
from seq2seq.config import EvaluateConfig
from seq2seq.cores import keep_freed_memory
from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.data.sources import check_chosen, find_sources, without_variants
from seq2seq.errors import DataError, RunError
from seq2seq.evaluation import comet
from seq2seq.evaluation.moses import require_language
from seq2seq.evaluation.record import NAME, Evaluation, Figures, identity_of, read_lines
from seq2seq.evaluation.resampling import bootstrap_settings
from seq2seq.evaluation.results import (
    OPTIONAL,
    ROLES,
    name_files,
    require_place,
    require_writable,
    table,
    texts_by_role,
    write,
)
from seq2seq.evaluation.scores import Texts, by_count, by_length, notes_on, one_line, score_texts
from seq2seq.evaluation.training_text import (
    MANY,
    TrainingText,
    compare,
    given_text,
    text_of,
)
from seq2seq.files import checksum
from seq2seq.inference.engines.torch import TorchEngine, choose_device, prepared
from seq2seq.inference.translator import Translator

log = logging.getLogger(__name__)

LIBRARIES = ("sacrebleu", "sacremoses", "torch")


@dataclass
class _Made:
    """An evaluation on its way.

    Attributes:
        texts: what is scored.
        language: of the translations.
        path: of the record; None if it is not written.
        given: files of texts that are there, by role, and are not to be written.
        about: what the record says of the test set, the training text and the model.
    """

    texts: Texts
    language: str
    path: Path | None
    given: Mapping[str, Path]
    about: dict[str, Any]


def evaluate(config: EvaluateConfig) -> Evaluation:
    """Run `scripts/evaluate.py`: score, write, log a table, return what was written.

    For a model, `evaluation.json` and the texts go to a folder in `<model>/evaluation`, or
    to `config.output`; `<model>` is `runs/pretrained/<name>` for a shipped one. Given
    translations are scored where they are, and `config.output` is the file of the record; without
    it, nothing is written.

    Raises:
        UserError: the model or the data cannot be used, or nothing can be written.
    """
    bootstrap_settings()  # raises before anything is translated
    if config.language is not None:
        require_language(config.language)
    if config.comet is not None:
        comet.require(config.comet, config.comet_command)
    return _finish(config, _translate(config) if config.bundle else _score_files(config))


def _score_files(config: EvaluateConfig) -> _Made:
    """Translations that are there, and what they are compared with."""
    names = {"hypotheses": config.hypothesis, "references": config.reference,
             "sources": config.source}  # fmt: skip
    files = {role: Path(name) for role, name in names.items() if name is not None}
    lines = {role: read_lines(path) for role, path in files.items()}
    first, *others = files
    for role in others:
        if len(lines[role]) != len(lines[first]):
            raise DataError(
                f"{files[first]} has {len(lines[first])} lines but {files[role]} has "
                f"{len(lines[role])}: line n of one must belong to line n of the other"
            )
    texts = Texts(lines["hypotheses"], lines["references"], lines.get("sources"), {})
    _require_text(texts.references, str(files["references"]))
    columns = (config.data.source_column, config.data.target_column)
    spec = config.training_text
    training = "no training_text= was given" if _is_word(spec) else given_text(spec, columns)
    texts, overlap = _with_groups(texts, {}, training)
    data = {"name": files["references"].name, "split": "", "settings": None}
    about = {"data": data, "overlap": overlap, "model": None, "decode": None, "seconds": None}
    own = text_fingerprint(texts.hypotheses)
    path = _place(config, identity_of(texts.fingerprint, hypotheses=own))
    return _Made(texts, config.language or "fr", path, files, about)


def _translate(config: EvaluateConfig) -> _Made:
    """Translations of a test set by a model."""
    keep_freed_memory()
    bundle = load_bundle(str(config.bundle), choose_device(config.device))
    changes = {name: value for name, value in asdict(config.decode).items() if value is not None}
    decode = replace(bundle.decode, **changes)
    sources, references, corpora = _test_set(config)
    model = {
        "folder": str(config.bundle),
        "sha256": checksum(bundle_folder(str(config.bundle)) / "model.safetensors"),
        "step": bundle.training.get("step"),
        "precision": config.precision or "float32",
    }
    texts = Texts([], references, sources, {})
    # Before anything is translated.
    path = _place(config, identity_of(texts.fingerprint, model, asdict(decode)))
    training = _training_text(config)
    groups = {"corpus": corpora} if len(set(corpora)) > 1 else {}
    texts, overlap = _with_groups(texts, groups, training)
    weights = prepared(bundle.model, config.precision) if config.precision else bundle.model
    engine = TorchEngine([weights], bundle.length_ratio)
    translator = Translator(engine, bundle.vocabularies, decode, bundle.normalise)
    started = time.perf_counter()
    with tqdm(total=len(sources), desc="translating", unit="sentence", disable=None) as bar:
        found = translator.translate_corpus(sources, progress=bar.update)
    about = {
        "data": {"name": _name(config), "split": config.split, "settings": asdict(config.data)},
        "overlap": overlap,
        "model": model,
        "decode": asdict(decode),
        "seconds": round(time.perf_counter() - started, 2),
    }
    texts = replace(texts, hypotheses=[one_line(str(translation)) for translation in found])
    languages = bundle.training.get("config", {}).get("cleaning", {}).get("languages", ["en", "fr"])
    language = config.language or languages[1]
    return _Made(texts, language, path, {}, about)


def _test_set(config: EvaluateConfig) -> tuple[list[str], list[str], list[str]]:
    """Sources, references, and of which corpus of a mixture each is."""
    corpus = without_variants(find_sources(config.data, config.split))
    rows = [
        (one_line(source), one_line(target), found.member)
        for found in corpus
        for source, target in found.pairs()
    ]
    if not rows:
        check_chosen(corpus, config.data)
    _require_text([target for _, target, _ in rows], f"data={config.data.name} {config.split}")
    sources, references, corpora = (list(column) for column in zip(*rows, strict=True))
    return sources, references, corpora


def _require_text(references: Sequence[str], name: str) -> None:
    if not any(references):
        raise DataError(f"{name} holds no reference to compare with: name another file or split")


def _name(config: EvaluateConfig) -> str:
    """Of the test set, fit for a folder."""
    data = config.data
    name = str(getattr(data, config.split)) if data.sacrebleu else data.name
    return name.replace("/", "-")


def _is_word(spec: Any) -> bool:
    """Whether a setting of the training text names no files."""
    return spec in ("auto", "all", "none")


def _training_text(config: EvaluateConfig) -> TrainingText | str:
    """The text that the model was trained on; or why it is not read, in words."""
    columns = (config.data.source_column, config.data.target_column)
    if not _is_word(config.training_text):
        return given_text(config.training_text, columns)
    if config.training_text == "none":
        return "training_text=none"
    found = text_of(bundle_folder(str(config.bundle)).parent, config.data.cache)
    if isinstance(found, str):
        return f"{found}; name its files: training_text=FILES"
    if config.training_text == "auto" and (found.pairs or 0) > MANY:
        return f"it has {found.pairs:,} pairs; training_text=all reads them"
    return found


def _with_groups(
    texts: Texts, groups: dict[str, list[str]], training: TrainingText | str
) -> tuple[Texts, dict[str, Any]]:
    """The texts with the groups of their sentences, and what they share with training text."""
    if texts.sources is None:
        return texts, {"unknown": "no sources were given"}
    groups = {"source words": by_length(texts.sources), **groups}
    if isinstance(training, str):
        return replace(texts, groups=groups), {"unknown": training}
    shared = compare(training.read(), texts.sources, texts.references)
    groups["rarest source word in training"] = by_count(shared.rarest)
    if any(shared.sources):
        groups["in training"] = ["yes" if seen else "no" for seen in shared.sources]
    return replace(texts, groups=groups), shared.record(training.name, texts.sources)


def _place(config: EvaluateConfig, identity: str) -> Path | None:
    """Where the record goes; None if nobody wants it.

    By default the folder has the identity in its name, so that only the same evaluation stands
    there.

    Raises:
        RunError: something else is there, or nothing can be written.
    """
    if config.output is not None:
        path = Path(config.output) / NAME if config.bundle else Path(config.output)
        require_place(path, identity, ROLES if config.bundle else OPTIONAL)
    elif config.bundle is not None:
        path = _folder(config) / f"{_name(config)}-{config.split}-{identity}" / NAME
    else:
        return None
    require_writable(path)
    return path


def _folder(config: EvaluateConfig) -> Path:
    """The evaluations of the run; those of a shipped model stand among the runs."""
    bundle = bundle_folder(str(config.bundle))
    if is_shipped(bundle):
        return Path("runs", "pretrained", bundle.name, "evaluation")
    return (bundle.parent if bundle.name == "bundle" else bundle) / "evaluation"


def _finish(config: EvaluateConfig, made: _Made) -> Evaluation:
    """Score, write and show; what COMET adds is written last, since its command may fail."""
    figures = score_texts(made.texts, made.language)
    record = _write(made, figures)
    if config.comet is not None:
        try:
            values = comet.comet_scores(made.texts, config.comet, config.comet_command)
        except RunError as error:
            kept = "" if made.path is None else f"\nEverything but COMET is kept in {made.path}"
            raise RunError(f"{error}{kept}") from error
        model = Path(config.comet)
        score = comet.comet_score(values, f"model:{model.name}|sha256:{checksum(model)}")
        record = _write(made, replace(figures, scores=[*figures.scores, score]), values)
    log.info(table(record))
    for note in record.notes:
        log.warning("note: %s", note)
    if made.path is not None:
        log.info("results in  %s", made.path)
    return record


def _write(made: _Made, figures: Figures, comet_values: list[float] | None = None) -> Evaluation:
    """The record, written if it has a place."""
    contents = texts_by_role(made.texts, comet_values)
    own = {"language": made.language, "fingerprint": made.texts.fingerprint}
    record = Evaluation(
        **vars(figures),
        **made.about | {"data": made.about["data"] | own},
        notes=notes_on(made.texts, figures, made.about["overlap"]),
        versions={"python": platform.python_version(), "seq2seq": __version__,
                  **{name: version(name) for name in LIBRARIES}},
        files=name_files(contents, made.given, made.path),
    )  # fmt: skip
    if made.path is not None:
        write(record, {role: contents[role] for role in contents.keys() - made.given}, made.path)
    return record
