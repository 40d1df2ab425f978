"""Documents: find the texts in a file, and write the file again with translations in their places.

Start reading here: `read` returns a `Document`. Each format has a module of its own; `inline.py`
carries links, bold words and the like through the translation of a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from seq2seq.errors import DataError, RunError, install, nearest

# Kinds of documents (file extensions), and the module that reads each.
KINDS = {".txt": "text", ".html": "html", ".htm": "html", ".md": "markdown", ".srt": "subtitles",
         ".vtt": "subtitles", ".docx": "docx", ".po": "gettext", ".xliff": "xliff",
         ".xlf": "xliff"}  # fmt: skip
LIBRARIES = {"docx": "lxml", "gettext": "polib", "markdown": "markdown_it", "xliff": "lxml"}
LARGEST = 1 << 26  # bytes of a document, packed or not


@dataclass(frozen=True)
class Document:
    """A document that was read.

    Attributes:
        texts: what is to be translated, in the order of the document. Translations should keep the
            tags in them; if one is lost, `write` restores it, perhaps in another place.
        write: returns the bytes of the document with these translations of `texts`. Text equal to
            its translation stays unchanged, byte for byte in text formats.
    """

    texts: list[str]
    write: Callable[[Sequence[str]], bytes]


def read(
    data: bytes, kind: str, *, target: str = "fr", again: bool = False, most: int = LARGEST
) -> Document:
    """Read a document.

    Args:
        data: content of the file.
        kind: extension of its name, one of `KINDS`.
        target: language of the translations, for formats that record it.
        again: whether to translate also what a .po or .xliff has translated already.
        most: limit of the document's bytes, packed and unpacked.

    Raises:
        DataError: the document is too large, damaged, or not of this kind.
        RunError: the library that reads it is missing.
    """
    if len(data) > most:
        raise DataError(f"the document has more than {most:,} bytes: cut it into several")
    if kind not in KINDS:
        said = kind or "a name without an ending"
        raise DataError(f"{said} is not a known kind of document: {nearest(kind, KINDS)}")
    module = KINDS[kind]
    if (needed := LIBRARIES.get(module)) and find_spec(needed) is None:
        raise RunError(f"{kind} needs {needed}, which is missing: {install('documents')}")
    reader = import_module(f"seq2seq.documents.{module}")
    return reader.read(data, Wanted(kind, target, again, most))


@dataclass(frozen=True)
class Wanted:
    """The arguments of `read`, passed on to the module of the format."""

    kind: str
    target: str
    again: bool
    most: int
