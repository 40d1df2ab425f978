"""`seq2seq evaluate`: translate a test set and score it, or score given translations."""

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
from seq2seq.data.prepared import prepared_pairs
from seq2seq.data.sources import check_chosen, find_sources, without_variants
from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import require_language
from seq2seq.evaluation.record import (
    NAME,
    ROLES,
    Evaluation,
    identity_of,
    name_files,
    read_lines,
    require_place,
)
from seq2seq.evaluation.significance import bootstrap_settings
from seq2seq.evaluation.texts import Texts, notes_on, one_line, range_of, score_texts
from seq2seq.evaluation.training_text import (
    MAX_AUTO_PAIRS,
    TrainingText,
    compare,
    text_of,
)
from seq2seq.files import checksum
from seq2seq.inference.engines.torch import TorchEngine, cast_for_inference, choose_device
from seq2seq.inference.translator import Translator

log = logging.getLogger(__name__)

LIBRARIES = ("sacrebleu", "sacremoses", "torch")
WORDS = (0, 6, 11, 16, 21, 31, 51)  # where groups of sources by their number of words begin
COUNTS = (0, 1, 10, 100)  # likewise by how often their rarest word occurs in the training text


@dataclass(frozen=True)
class Job:
    """Texts to be scored, and facts for their record."""

    texts: Texts
    path: Path | None  # None if no record is written
    given: Mapping[str, Path]  # existing files of texts, by role; they are not written again
    about: dict[str, Any]  # fields of the record on the test set, the training text and the model


def evaluate(config: EvaluateConfig) -> Evaluation:
    """Score a model or given translations, write the record, log a table; return the record.

    For a model, `evaluation.json` and the texts are written to a folder in `<model>/evaluation`,
    or to the folder `config.output`; for a shipped model, `<model>` is `runs/pretrained/<name>`.
    Given translations are not copied, and `config.output` is the file of the record; without
    `config.output`, nothing is written.

    Raises:
        UserError: the model or the data cannot be used, or nothing can be written.
    """
    bootstrap_settings()  # raises for a wrong seed before anything is translated
    if config.language is not None:
        require_language(config.language)
    job = _translate(config) if config.bundle else _read_translations(config)
    figures = score_texts(job.texts, job.about["data"]["language"])
    contents = job.texts.by_role()
    record = Evaluation(
        **vars(figures),
        **job.about,
        notes=list(notes_on(job.texts, figures, job.about["overlap"])),
        versions={
            "python": platform.python_version(),
            "seq2seq": __version__,
            **{name: version(name) for name in LIBRARIES},
        },
        files=name_files(contents, job.given, job.path),
    )
    if job.path is not None:
        own = {role: lines for role, lines in contents.items() if role not in job.given}
        record.write(job.path, own)
    log.info("\n".join(record.in_words()))
    for note in record.notes:
        log.warning("note: %s", note)
    if job.path is not None:
        log.info("results in  %s", job.path)
    return record


def _read_translations(config: EvaluateConfig) -> Job:
    """Read given translations and their references."""
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
    texts = Texts(lines["hypotheses"], lines["references"], lines.get("sources"))
    _require_text(texts.references, str(files["references"]))
    texts, overlap = _compare_training(texts, "translations were given, and no model")
    about = {
        "data": {"name": files["references"].name, "split": "", "settings": None,
                 "language": config.language or "fr", "fingerprint": texts.fingerprint},
        "overlap": overlap, "model": None, "decode": None, "seconds": None,
    }  # fmt: skip
    own = text_fingerprint(texts.hypotheses)
    path = _place(config, identity_of(texts.fingerprint, hypotheses=own))
    return Job(texts, path, files, about)


def _translate(config: EvaluateConfig) -> Job:
    """Translate a test set by a model."""
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
    groups = {"corpus": corpora} if len(set(corpora)) > 1 else {}
    texts = Texts([], references, sources, groups)
    # Raises before anything is translated.
    path = _place(config, identity_of(texts.fingerprint, model, asdict(decode)))
    texts, overlap = _compare_training(texts, _training_text(config))
    weights = bundle.model
    if config.precision:
        weights = cast_for_inference(weights, config.precision)
    engine = TorchEngine([weights], bundle.length_ratio)
    translator = Translator(engine, bundle.vocabularies, decode, bundle.normalise)
    started = time.perf_counter()
    with tqdm(total=len(sources), desc="translating", unit="sentence", disable=None) as bar:
        found = translator.translate_corpus(sources, progress=bar.update)
    seconds = round(time.perf_counter() - started, 2)
    texts = replace(texts, hypotheses=[one_line(str(translation)) for translation in found])
    languages = bundle.training.get("config", {}).get("cleaning", {}).get("languages", ["en", "fr"])
    about = {
        "data": {"name": _name(config), "split": config.split, "settings": asdict(config.data),
                 "language": config.language or languages[1], "fingerprint": texts.fingerprint},
        "overlap": overlap, "model": model, "decode": asdict(decode), "seconds": seconds,
    }  # fmt: skip
    return Job(texts, path, {}, about)


def _test_set(config: EvaluateConfig) -> tuple[list[str], list[str], list[str]]:
    """Read the test set: sources, references, and the corpus of a mixture that each is from."""
    corpus = without_variants(find_sources(config.data, config.split))
    rows = [
        (one_line(source), one_line(target), found.member)
        for found in corpus
        for source, target in found.pairs()
    ]
    if not rows:
        check_chosen(corpus, config.data)
    _require_text([target for _, target, _ in rows], f"data={config.data.name} {config.split}")
    sources, references, corpora = map(list, zip(*rows, strict=True))
    return sources, references, corpora


def _require_text(references: Sequence[str], name: str) -> None:
    if not any(references):
        raise DataError(f"{name} holds no reference to compare with: name another file or split")


def _name(config: EvaluateConfig) -> str:
    """Return the name of the test set, in a form that can name a folder."""
    data = config.data
    name = str(getattr(data, config.split)) if data.sacrebleu else data.name
    return name.replace("/", "-")


def _training_text(config: EvaluateConfig) -> TrainingText | str:
    """Find the text that the model was trained on, or say in words why it is not read."""
    if config.training_text == "none":
        return "training_text=none"
    found = text_of(bundle_folder(str(config.bundle)).parent, config.data.cache)
    if isinstance(found, str):
        return found
    if config.training_text == "auto" and found.pairs > MAX_AUTO_PAIRS:
        return f"it has {found.pairs:,} pairs; training_text=all reads them"
    return found


def _compare_training(
    texts: Texts, training: TrainingText | str
) -> tuple[Texts, dict[str, Any]]:
    """Add all groups to the texts, and return what they share with the training text, too.

    `training` says in words why there is no such text, if there is none.
    """
    if texts.sources is None:
        return texts, {"unknown": "no sources were given"}
    lengths = [range_of(len(source.split()), WORDS) for source in texts.sources]
    groups = {"source words": lengths, **texts.groups}
    if isinstance(training, str):
        return replace(texts, groups=groups), {"unknown": training}
    shared = compare(prepared_pairs(training.folder), texts.sources, texts.references)
    groups["rarest source word in training"] = [range_of(n, COUNTS) for n in shared.rarest]
    if any(shared.sources):
        groups["in training"] = ["yes" if seen else "no" for seen in shared.sources]
    return replace(texts, groups=groups), shared.record(training.name, texts.sources)


def _place(config: EvaluateConfig, identity: str) -> Path | None:
    """Return the path of the record; None if no record is wanted.

    By default, the name of the folder contains the identity, so that a folder only ever holds the
    same evaluation. Evaluations of a shipped model go to `runs/pretrained/<name>`.
    """
    if config.output is not None:
        path = Path(config.output) / NAME if config.bundle else Path(config.output)
        require_place(path, identity, ROLES if config.bundle else ())
        return path
    if config.bundle is None:
        return None
    bundle = bundle_folder(str(config.bundle))
    run = bundle.parent if bundle.name == "bundle" else bundle
    run = Path("runs", "pretrained", bundle.name) if is_shipped(bundle) else run
    path = run / "evaluation" / f"{_name(config)}-{config.split}-{identity}" / NAME
    require_place(path, None, ROLES)
    return path
