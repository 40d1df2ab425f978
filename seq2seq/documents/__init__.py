"""Documents: what of a file is text, and the file again with translations in its place.

Start reading here: `read` gives a `Document`, whose kind has a file of its own; `inline.py` carries
what stands inside of sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from seq2seq.errors import DataError, RunError, install, nearest

# Kinds of documents by the ends of their names, and the file that reads each.
KINDS = {".txt": "text", ".html": "html", ".htm": "html", ".md": "markdown", ".srt": "subtitles",
         ".vtt": "subtitles", ".docx": "docx", ".po": "gettext", ".xliff": "xliff",
         ".xlf": "xliff"}  # fmt: skip
LIBRARIES = {"docx": "lxml", "gettext": "polib", "markdown": "markdown_it", "xliff": "lxml"}
LARGEST = 1 << 26  # bytes of a document, packed or not


@dataclass(frozen=True)
class Document:
    """A document that was read.

    Attributes:
        texts: what is to be translated, in the order of the document. Tags in them are to stand in
            the translations, too; what has lost one gets it back, if need be in another place.
        write: the bytes of the document with these translations of its texts. A text that is its
            own translation stays as it was, to the byte in formats of text.
    """

    texts: list[str]
    write: Callable[[Sequence[str]], bytes]


def is_readable(kind: str) -> bool:
    """Whether the library that reads a kind is here."""
    library = LIBRARIES.get(KINDS[kind])
    return library is None or find_spec(library) is not None


def read(
    data: bytes, kind: str, *, target: str = "fr", again: bool = False, most: int = LARGEST
) -> Document:
    """Read a document.

    Args:
        data: of the file.
        kind: the end of its name, of `KINDS`.
        target: language of the translations, for documents that name it.
        again: whether what a .po or .xliff has translated already is translated, too.
        most: bytes that are read, packed or not.

    Raises:
        DataError: it is too large, damaged, or of no such kind.
        RunError: a library that reads it is missing.
    """
    if len(data) > most:
        raise DataError(f"the document has more than {most:,} bytes: cut it into several")
    if kind not in KINDS:
        said = kind or "a name without an end"
        raise DataError(f"{said} is no document that is read: {nearest(kind, KINDS)}")
    if not is_readable(kind):
        needed = LIBRARIES[KINDS[kind]]
        raise RunError(f"{kind} needs {needed}, which is missing: {install('documents')}")
    reader = import_module(f"seq2seq.documents.{KINDS[kind]}")
    return reader.read(data, Wanted(kind, target, again, most))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Wanted:
    """How a document is to be read: the arguments of `read`."""

    kind: str
    target: str = "fr"
    again: bool = False
    most: int = LARGEST
