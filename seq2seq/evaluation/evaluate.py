"""`scripts/evaluate.py`: translate a test set and score it, or score given translations."""

from __future__ import annotations

import hashlib
import logging
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq import __version__
from seq2seq.config import EvaluateConfig
from seq2seq.data.sources import find_sources
from seq2seq.errors import DataError
from seq2seq.evaluation import comet
from seq2seq.evaluation.findings import Texts, by_count, by_length, find, one_line
from seq2seq.evaluation.notes import notes_on
from seq2seq.evaluation.record import NAME, Evaluation, read_lines
from seq2seq.evaluation.results import (
    Identity,
    free_folder,
    name_files,
    require_place,
    table,
    texts_by_role,
    write,
)
from seq2seq.evaluation.training_text import (
    MANY,
    TrainingText,
    compare,
    given_text,
    text_of,
)
from seq2seq.inference.bundle import Bundle, bundle_folder, load_bundle
from seq2seq.inference.engine import TorchEngine
from seq2seq.inference.precision import prepared
from seq2seq.inference.translator import Translator, choose_device
from seq2seq.malloc import keep_freed_memory

log = logging.getLogger(__name__)

LIBRARIES = ("sacrebleu", "sacremoses", "torch")


@dataclass
class _Made:
    """An evaluation on its way.

    Attributes:
        texts: what is scored.
        language: of the translations.
        data: what the record says of the test set.
        files: those of the texts that are not to be written, with their paths.
        overlap: what is known of the training text.
        about: how the translations were made.
    """

    texts: Texts
    language: str
    data: dict[str, Any]
    overlap: dict[str, Any]
    files: Mapping[str, Path] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


def evaluate(config: EvaluateConfig) -> Evaluation:
    """Run `scripts/evaluate.py`: score, write, log a table, return what was written.

    For a model, `evaluation.json` and the texts go to `<model>/evaluation/<data>-<split>`, or to
    the folder `config.output`. Given translations are scored where they are, and `config.output`
    is the file of the record; without it, nothing is written.

    Raises:
        UserError: the model or the data cannot be used, or nothing can be written.
    """
    if config.comet is not None:
        comet.require(config.comet, config.comet_command)
    if config.hypothesis is not None:
        path = None if config.output is None else Path(config.output)
        return _finish(config, _score_files(config, path), path)
    made, folder = _translate(config)
    return _finish(config, made, folder / NAME)


def _score_files(config: EvaluateConfig, output: Path | None) -> _Made:
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
    made = _Made(texts, config.language or "fr", data, overlap, files)
    if output is not None:
        require_place(output, Identity(texts.fingerprint, hypotheses=files["hypotheses"]))
    return made


def _translate(config: EvaluateConfig) -> tuple[_Made, Path]:
    """Translations of a test set by a model, and the folder that they go to."""
    keep_freed_memory()
    bundle = load_bundle(Path(str(config.model)), choose_device(config.device))
    changes = {name: value for name, value in asdict(config.decode).items() if value is not None}
    decode = replace(bundle.decode, **changes)
    sources, references, corpora = _test_set(config)
    about: dict[str, Any] = {"model": _describe(config, bundle), "decode": asdict(decode)}
    data = {"name": _name(config), "split": config.split, "settings": asdict(config.data)}
    texts = Texts([], references, sources, {})
    folder = _output_folder(config, Identity(texts.fingerprint, **about))
    training = _training_text(config, bundle)
    groups = {"corpus": corpora} if len(set(corpora)) > 1 else {}
    texts, overlap = _with_groups(texts, groups, training)
    model = prepared(bundle.model, config.precision) if config.precision else bundle.model
    engine = TorchEngine([model], bundle.length_ratio)
    translator = Translator(engine, bundle.vocabularies, decode, bundle.normalise)
    started = time.perf_counter()
    with tqdm(total=len(sources), desc="translating", unit="sentence", disable=None) as bar:
        found = translator.translate_corpus(sources, progress=bar.update)
    about["seconds"] = round(time.perf_counter() - started, 2)
    texts = replace(texts, hypotheses=[one_line(str(translation)) for translation in found])
    languages = bundle.training.get("config", {}).get("cleaning", {}).get("languages", ["en", "fr"])
    return _Made(texts, config.language or languages[1], data, overlap, {}, about), folder


def _test_set(config: EvaluateConfig) -> tuple[list[str], list[str], list[str]]:
    """Sources, references, and of which corpus of a mixture each is."""
    rows = [
        (one_line(source), one_line(target), found.member)
        for found in find_sources(config.data, config.split)
        for source, target in found.pairs()
    ]
    _require_text([target for _, target, _ in rows], f"data={config.data.name} {config.split}")
    sources, references, corpora = (list(column) for column in zip(*rows, strict=True))
    return sources, references, corpora


def _require_text(references: Sequence[str], name: str) -> None:
    if not any(references):
        raise DataError(f"{name} holds no reference to compare with: name another file or split")


def _describe(config: EvaluateConfig, bundle: Bundle) -> dict[str, Any]:
    weights = bundle_folder(Path(str(config.model))) / "model.safetensors"
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "folder": str(config.model),
        "sha256": digest,
        "step": bundle.training.get("step"),
        "precision": config.precision or "float32",
    }


def _name(config: EvaluateConfig) -> str:
    """Of the test set."""
    if config.data.sacrebleu:
        return str(getattr(config.data, config.split)).replace("/", "-")
    return config.data.name


def _is_word(spec: Any) -> bool:
    """Whether a setting of the training text names no files."""
    return spec in ("auto", "all", "none")


def _training_text(config: EvaluateConfig, bundle: Bundle) -> TrainingText | str:
    """The text that the model was trained on; or why it is not read, in words."""
    columns = (config.data.source_column, config.data.target_column)
    if not _is_word(config.training_text):
        return given_text(config.training_text, columns)
    if config.training_text == "none":
        return "training_text=none"
    found = text_of(bundle, bundle_folder(Path(str(config.model))), config.data.cache)
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


def _output_folder(config: EvaluateConfig, identity: Identity) -> Path:
    """The folder asked for, or one of the run that holds nothing else."""
    if config.output is not None:
        require_place(Path(config.output) / NAME, identity)
        return Path(config.output)
    bundle = bundle_folder(Path(str(config.model)))
    run = bundle.parent if bundle.name == "bundle" else bundle
    return free_folder(run / "evaluation" / f"{_name(config)}-{config.split}", identity)


def _finish(config: EvaluateConfig, made: _Made, path: Path | None) -> Evaluation:
    """Score, write and show."""
    texts, comet_values = made.texts, None
    findings = find(texts, made.language)
    if config.comet is not None:
        comet_values = comet.comet_scores(texts, config.comet, config.comet_command)
        score = comet.comet_score(comet_values, f"model:{config.comet}")
        findings = replace(findings, scores=[*findings.scores, score])
    contents = texts_by_role(texts, comet_values)
    record = Evaluation(
        **vars(findings),
        overlap=made.overlap,
        notes=notes_on(texts, findings, made.overlap),
        data={**made.data, "language": made.language, "fingerprint": texts.fingerprint},
        model=made.about.get("model"),
        decode=made.about.get("decode"),
        seconds=made.about.get("seconds"),
        versions={"python": platform.python_version(), "seq2seq": __version__,
                  **{name: version(name) for name in LIBRARIES}},
        files=name_files(contents, made.files, path),
    )  # fmt: skip
    if path is not None:
        write(record, {role: contents[role] for role in contents.keys() - made.files}, path)
    log.info(table(record))
    if path is not None:
        log.info("results in  %s", path)
    return record
