"""A model of CTranslate2 in its folder: given, or made of a bundle once and kept in the cache."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from seq2seq.data.fingerprint import cache_folder
from seq2seq.data.vocabularies import JOINT, SEPARATE
from seq2seq.errors import RunError, UserError
from seq2seq.inference.bundle_folder import bundle_folder

log = logging.getLogger(__name__)

LAYOUT = 1  # of what `ctranslate2_export` writes; when it is raised, older caches are not used


def require_ctranslate2() -> ModuleType:
    """The package, which is optional and loaded only when it is used.

    Raises:
        UserError: it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            f"the engine ctranslate2 needs a package that cannot be loaded ({error}): "
            "pip install -e '.[ctranslate2]'"
        ) from error
    package: ModuleType = ctranslate2
    return package


def is_exported(folder: Path) -> bool:
    """Whether a folder holds a model of CTranslate2."""
    return (folder / "model.bin").is_file()


def exported(path: Path) -> Path:
    """What `export` wrote: `path` itself, or made of the bundle there and kept in the cache.

    The cache names it by a hash of all that makes it, so that a changed bundle gets a new one.

    Raises:
        UserError: as `export`.
    """
    package = require_ctranslate2()
    if is_exported(path):
        return path
    folder = bundle_folder(path)
    digest = hashlib.sha256(f"{LAYOUT} {package.__version__}".encode())
    for name in ("config.json", "model.safetensors", JOINT, *SEPARATE):
        with suppress(FileNotFoundError), open(folder / name, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    output = cache_folder(None) / "ctranslate2" / digest.hexdigest()[:16]
    if not is_exported(output):
        log.warning("converting %s for ctranslate2, once: it is kept in %s", folder, output)
        from seq2seq.inference.ctranslate2_export import export  # needs torch

        try:
            export(folder, output)
        except RunError:
            if not is_exported(output):  # else another process was faster
                raise
    return output
