"""Convert models of Hugging Face's Transformers library to bundles, and bundles to such models.

A model of the hub is downloaded once, converted to a bundle, and kept.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import EvalResult
from huggingface_hub.errors import HFValidationError, HTTPError  # type: ignore[attr-defined]

from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.bundle.card import model_card
from seq2seq.bundle.export import export_place
from seq2seq.bundle.find import bundle_folder
from seq2seq.data.fingerprint import cache_folder
from seq2seq.errors import BundleError, UserError
from seq2seq.files import atomic_folder
from seq2seq.interop.huggingface import HubModel, read_huggingface, write_huggingface

log = logging.getLogger(__name__)

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
FILES = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"),
    *("vocab.json", "target_vocab.json", "source.spm", "target.spm"),
)
THERE = """\
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(THIS_FOLDER)
    model = AutoModelForSeq2SeqLM.from_pretrained(THIS_FOLDER)
    inputs = tokenizer(["hello world"], return_tensors="pt", padding=True)
    print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""
TIMEOUT_SECONDS = 10.0  # for the hub's answer
ERRORS = (OSError, HTTPError, HFValidationError)  # of the network, the hub, the disk; a wrong name


def hub_bundle(name: str, revision: str | None = None) -> Path:
    """Return the bundle of a hub model; download and convert the model at its first use.

    Later calls do not contact the hub, so the model stays the same and needs no network;
    `seq2seq import` contacts the hub again.

    Raises:
        BundleError: the hub has no such model, refuses access to it, or cannot be reached; or the
            model is of a kind that cannot be read.
    """
    folder = _kept(name, revision)
    if not (folder / "config.json").is_file():
        import_from_hub(name, revision)
    return folder


def import_from_hub(name: str, revision: str | None = None, output: Path | None = None) -> Path:
    """Download a model, convert it to a bundle, and return the bundle's folder.

    Args:
        name: OWNER/NAME.
        revision: a branch, tag or commit; None = the newest.
        output: the folder; None = the cache, where `hub_bundle` finds it.
    """
    folder = output or _kept(name, revision)
    downloaded = _download(name, revision)
    log.info("importing   %s, commit %s", name, downloaded.name)
    import_folder(downloaded, folder, imported=name, revision=downloaded.name)
    return folder


def import_folder(source: Path, output: Path, imported: str = "", **about: str) -> None:
    """Convert a model of the Transformers library to a bundle.

    Args:
        source, output: folders of the model and of the bundle.
        imported: name of the model; empty = the name of its folder.
        about: further entries of the bundle's training record.
    """
    imported = imported or source.name
    found = read_huggingface(source, imported)
    cleaning: dict[str, list[str]] = {"normalise": []}
    if found.languages:
        cleaning["languages"] = found.languages
    made = {"step": 0, "scores": {}, "imported": imported, "config": {"cleaning": cleaning}}
    Bundle(found.model, found.vocabularies, found.decode, {**made, **about}).save(output)


def _kept(name: str, revision: str | None) -> Path:
    place = f"{name}@{revision}" if revision else name
    return cache_folder(None) / "models" / place.replace("/", "--")


def _download(name: str, revision: str | None) -> Path:
    """Download a model into the cache of the hub's library (offline: use an earlier copy there)."""
    said, unreachable = f"{name}@{revision}" if revision else name, ""
    try:  # `snapshot_download` checks the same, but may wait for ever
        huggingface_hub.HfApi().model_info(name, revision=revision, timeout=TIMEOUT_SECONDS)
    except ERRORS as error:
        unreachable = _reason(error)
    try:
        for weights in WEIGHTS:
            found = huggingface_hub.snapshot_download(
                name,
                revision=revision,
                allow_patterns=[*FILES, weights],
                local_files_only=bool(unreachable),
            )
            if (Path(found) / weights).is_file():
                if unreachable:
                    log.warning("taking the copy of %s that is here: %s", said, unreachable)
                return Path(found)
    except ERRORS as error:
        here = "" if Path(name).exists() else f"there is no folder {name} here, and "
        raise BundleError(
            f"{here}the model {said} cannot be downloaded: {unreachable or _reason(error)}. "
            "Correct its name (OWNER/NAME or OWNER/NAME@REVISION), log in if it is not public (hf "
            "auth login, or the variable HF_TOKEN), or copy its files by hand and name their "
            "folder: seq2seq import FOLDER"
        ) from error
    raise BundleError(
        f"{said} holds none of {' and '.join(WEIGHTS)}: choose a model of PyTorch, such as "
        "Helsinki-NLP/opus-mt-en-fr"
    )


def _reason(error: Exception) -> str:
    """Shorten a library's error to one line."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 300).rstrip(".")


def export_huggingface(
    path: str | Path,
    output: Path | None = None,
    license: str | None = None,
    results: Sequence[EvalResult] = (),
    force: bool = False,
) -> Path:
    """Export the bundle `path`, or that of the run `path`, for the library; return the folder.

    Args:
        path: a bundle or a run.
        output, force: as for `export_place`.
        license, results: as for `hub_card`.

    Raises:
        BundleError: there is no bundle, or the library has no such model.
        RunError: the output exists.
        OSError: the output cannot be written.
    """
    found = bundle_folder(path)
    bundle = load_bundle(found)
    output = export_place(found, output, "huggingface", force)
    with atomic_folder(output) as partial:
        model, words, decode = bundle.model, bundle.vocabularies, bundle.decode
        write_huggingface(HubModel(model, words, decode, list(bundle.languages)), partial)
        (partial / "README.md").write_text(hub_card(bundle, license, results), encoding="utf-8")
    return output


def eval_results(
    data: str,
    split: str,
    scores: Mapping[str, float | None],
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[EvalResult]:
    """Convert scores of a model to the hub's format.

    Args:
        scores: by name; None if a score was not computed.
        revision: tells which texts of that name they were.
        settings: what distinguishes this evaluation from others of the same texts.
    """
    how = "".join(f", {name}={value}" for name, value in (settings or {}).items())
    return [
        EvalResult(
            task_type="translation",
            dataset_type=data,
            dataset_name=data,
            dataset_split=split,
            dataset_revision=revision,
            metric_type=metric.lower().rstrip("2"),  # of chrF2
            metric_name=metric + how,
            metric_args=dict(settings) if settings else None,
            metric_value=round(value, 2),
        )
        for metric, value in scores.items()
        if value is not None
    ]


def hub_card(bundle: Bundle, license: str | None = None, results: Sequence[EvalResult] = ()) -> str:
    """Return the card of a bundle with the metadata of the hub: languages, licence, scores.

    Args:
        license: of its weights, by the hub's name, such as apache-2.0; None = not stated.
        results: results of evaluations, besides those of the last validation.
    """
    made = bundle.training
    data = made.get("config", {}).get("data", {}).get("name", "unknown")
    results = [*eval_results(data, "validation", made["scores"]), *results]
    metadata = huggingface_hub.ModelCardData(
        language=list(bundle.languages),
        license=license,
        library_name="transformers",
        pipeline_tag="translation",
        model_name=bundle.model.config.name,
        eval_results=results or None,
    )
    card = model_card(bundle, THERE)
    if bundle.normalise:
        card += (
            f"\nSources were normalised in training ({', '.join(bundle.normalise)}), which "
            "`seq2seq.text.normaliser` does; the Transformers library reads texts as they are.\n"
        )
    return f"---\n{metadata.to_yaml()}\n---\n\n{card}"


def push(folder: Path, name: str, private: bool = True) -> str:
    """Upload a folder to the hub as a model; return its address, or raise UserError."""
    api = huggingface_hub.HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Model of seq2seq")
    except ERRORS as error:
        raise UserError(
            f"{name} was not sent: {_reason(error)}. Log in with a token that may "
            "write (hf auth login, or the variable HF_TOKEN), and see that OWNER is yours"
        ) from error
    return f"https://huggingface.co/{name}"
