"""Models of CTranslate2: a given folder, or a bundle that is converted once and cached.

This file does not import torch, so that translating with CTranslate2 need not wait for it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType

from seq2seq.bundle.config import bundle_digest, read_config
from seq2seq.bundle.find import bundle_folder, is_exported
from seq2seq.config import ModelConfig, TransformerConfig
from seq2seq.data.fingerprint import cache_folder, text_fingerprint
from seq2seq.errors import BundleError, RunError, UserError, command_line, install
from seq2seq.files import lock, read_json

log = logging.getLogger(__name__)

LAYOUT = 2  # version of what `ctranslate2_export` writes; other versions are not used


def require_ctranslate2() -> ModuleType:
    """Import and return CTranslate2, an optional package; raise UserError if it is missing."""
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            f"the engine ctranslate2 needs a package that cannot be loaded ({error}): "
            f"{install('ctranslate2')}"
        ) from error
    package: ModuleType = ctranslate2
    return package


def require_expressible(config: ModelConfig, folder: Path) -> None:
    """Raise BundleError if CTranslate2 lacks a part of the model."""
    reasons = []
    if not isinstance(config, TransformerConfig):
        reasons.append(f"model.architecture={config.architecture} (it runs transformers only)")
    elif config.qk_norm and config.cross_qk_norm:
        # CTranslate2 would normalise the queries of cross-attention before it splits the heads.
        reasons.append("model.qk_norm=true with model.cross_qk_norm=true")
    if reasons:
        raise BundleError(
            f"{folder} cannot be converted, since CTranslate2 does not know "
            f"{' and '.join(reasons)}: use the engine torch"
        )


def require_layout(folder: Path) -> None:
    """Raise BundleError if another version exported a model; its config can be read."""
    if read_json(folder / "config.json").get("ctranslate2", {}).get("layout") != LAYOUT:
        again = command_line("export", "ctranslate2", "BUNDLE")
        raise BundleError(
            f"{folder} was exported by another version of seq2seq: export the bundle again, {again}"
        )


def exported(path: Path) -> Path:
    """Return an exported model: `path` itself, or a cached conversion of the bundle there.

    A conversion is named by a hash of all that determines it, so a changed bundle gets a new one.

    Raises:
        BundleError: there is no bundle, or CTranslate2 cannot run its model.
        RunError: the cache cannot be written.
        UserError: the package is not installed.
    """
    package = require_ctranslate2()
    if is_exported(path):
        return path
    folder = bundle_folder(path)
    require_expressible(read_config(folder / "config.json").model, folder)
    made_of = f"{LAYOUT} {package.__version__} {bundle_digest(folder)}"
    output = cache_folder(None) / "ctranslate2" / text_fingerprint([made_of])[:16]
    if not is_exported(output):
        from seq2seq.bundle.ctranslate2_export import export  # needs torch

        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            with lock(output.parent.with_suffix(".lock")):
                if not is_exported(output):  # else another thread or process was faster
                    said = "converting %s for ctranslate2, once: it is kept in %s"
                    log.warning(said, folder, output)
                    export(folder, output)
        except OSError as error:
            raise RunError(
                f"the cache {output.parent} cannot be written: {error}. Make room or correct the "
                "folder's permissions, or choose another with $SEQ2SEQ_CACHE"
            ) from error
    return output
