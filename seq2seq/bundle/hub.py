"""Bundles from models of Hugging Face's Transformers library, and to them; by folder or by name.

A model of the hub is downloaded once, made into a bundle, and kept.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import EvalResult
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # of HTTPError
    GatedRepoError,
    HFValidationError,
    HTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.bundle.card import model_card
from seq2seq.bundle.export import export_folder, export_place
from seq2seq.bundle.find import bundle_folder
from seq2seq.data.fingerprint import cache_folder
from seq2seq.errors import BundleError, UserError
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
PATIENCE = 10.0  # seconds that the hub has to say what a model consists of


def hub_bundle(name: str, revision: str | None = None) -> Path:
    """The bundle of a model of the hub; downloaded and converted when it is named first.

    From then on nothing is asked of the hub, so that the model stays the same and no network is
    needed; `seq2seq import` asks again.

    Raises:
        BundleError: the hub has no such model, gives it to others only, or cannot be reached; or
            the model is of a kind that cannot be read.
    """
    folder = _kept(name, revision)
    if not (folder / "config.json").is_file():
        import_from_hub(name, revision)
    return folder


def import_from_hub(name: str, revision: str | None = None, output: Path | None = None) -> Path:
    """Download a model, make it a bundle, and return the bundle's folder.

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
    """Make a bundle of a model of the Transformers library.

    Args:
        source: the folder of the model.
        output: the folder of the bundle.
        imported: name of the model; that of its folder if empty.
        about: what else is known of its making.
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
    """The folder of all files of a model, in the cache of the hub's library."""
    said = f"{name}@{revision}" if revision else name
    try:
        about = huggingface_hub.HfApi().model_info(name, revision=revision, timeout=PATIENCE)
        there = {file.rfilename for file in about.siblings or ()}
        weights = next((file for file in WEIGHTS if file in there), None)
        if weights is None:
            raise BundleError(
                f"{said} holds none of {' and '.join(WEIGHTS)}: choose a model of PyTorch, such as "
                "Helsinki-NLP/opus-mt-en-fr"
            )
        wanted = [*FILES, weights]
        found = huggingface_hub.snapshot_download(name, revision=revision, allow_patterns=wanted)
    except GatedRepoError as error:
        raise BundleError(
            f"{said} is gated: accept its terms at https://huggingface.co/{name} and log in "
            "(hf auth login, or the variable HF_TOKEN)"
        ) from error
    except RevisionNotFoundError as error:
        said = f"{name} has no revision {revision}: leave it out, or correct it"
        raise BundleError(said) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise BundleError(
            f"{said} is no model of the Hugging Face hub, or a private one, and no folder here: "
            "correct it (OWNER/NAME), or log in (hf auth login, or the variable HF_TOKEN)"
        ) from error
    except (OSError, HTTPError) as error:  # of the network, or of the disk
        return _copy(said, name, revision, error)
    return Path(found)


def _copy(said: str, name: str, revision: str | None, reason: Exception) -> Path:
    """What was downloaded before, since the hub cannot be used."""
    offline = isinstance(reason, OfflineModeIsEnabled)
    why = "HF_HUB_OFFLINE is set" if offline else f"{type(reason).__name__}: {reason}"
    try:
        found = Path(
            huggingface_hub.snapshot_download(name, revision=revision, local_files_only=True)
        )
        if not any((found / weights).is_file() for weights in WEIGHTS):
            raise FileNotFoundError("the download broke off")
    except (OSError, HTTPError) as error:
        raise BundleError(
            f"the hub cannot be used ({why.splitlines()[0]}), and {said} was not downloaded as a "
            "whole before, which would be used: connect this machine and try again, or copy the "
            "model's files by hand and name their folder: seq2seq import FOLDER"
        ) from error
    log.warning("The hub cannot be used (%s): taking the copy that was downloaded before", why)
    return found


def export_huggingface(
    path: str | Path,
    output: Path | None = None,
    license: str | None = None,
    results: Sequence[EvalResult] = (),
    force: bool = False,
) -> Path:
    """Write the bundle in `path`, or of the run `path`, for the library; returns the folder.

    Args:
        path: a bundle or a run.
        output: the new folder; None = beside the bundle.
        license, results: as for `hub_card`.
        force: replace an exported model that is there.

    Raises:
        BundleError: there is no bundle, or the library has no such model.
        RunError: the output exists, or cannot be written.
    """
    found = bundle_folder(path)
    bundle = load_bundle(found)
    output = export_place(found, output, "huggingface")
    with export_folder(output, force) as partial:
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
    """Scores of a model as the hub has them.

    Args:
        data, split: name of the data set and its part.
        scores: by name; None where one was not computed.
        revision: which texts of that name they were.
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


def hub_card(
    bundle: Bundle, license: str | None = None, results: Sequence[EvalResult] = ()
) -> str:
    """The card of a bundle with what the hub reads: languages, licence, scores.

    Args:
        bundle: that is exported.
        license: of its weights, as the hub calls it, such as apache-2.0; None = not said.
        results: of evaluations, beside those of the last validation.
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
    """Send a folder to the hub as a model; returns its address.

    Raises:
        UserError: the hub refuses it, or cannot be reached.
    """
    api = huggingface_hub.HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Model of seq2seq")
    except (OSError, HTTPError, HFValidationError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise UserError(
            f"{name} was not sent: {why}. Log in with a token that may "
            "write (hf auth login, or the variable HF_TOKEN), and see that OWNER is yours"
        ) from error
    return f"https://huggingface.co/{name}"
