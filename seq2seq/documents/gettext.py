"""Messages of programs (gettext, .po): untranslated messages get a translation marked fuzzy.

`fuzzy` is gettext's flag for translations that nobody has reviewed. Programs do not show them until
somebody removes the flag, or `msgfmt --use-fuzzy` compiles them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import polib

from seq2seq.documents import Document, Wanted
from seq2seq.documents.text import decoded
from seq2seq.errors import DataError

_CHARSET = re.compile(rb"Content-Type:[^\n]{0,200}?charset=([\w.:-]+)", re.IGNORECASE)
_PLURALS = re.compile(r"nplurals\s*=\s*(\d)")


def read(data: bytes, wanted: Wanted) -> Document:
    """Read the messages without a translation, in singular and plural.

    Raises:
        DataError: the document is no .po, or is damaged.
    """
    declared = _CHARSET.search(data)
    encoding = declared[1].decode("ascii") if declared else ""
    text, encode = decoded(data, "" if encoding == "CHARSET" else encoding)
    try:
        # polib could take a text of one line for the path of a file; no path ends in a line feed.
        catalog = polib.pofile(f"{text}\n")
    except (OSError, ValueError, UnicodeError, IndexError) as error:
        raise DataError(f"the document is not a readable .po ({error}): correct it") from error
    if not catalog and "msgid" not in text:
        raise DataError("the document has no msgid, so it is not a .po: is it another kind?")
    found = _PLURALS.search(catalog.metadata.get("Plural-Forms", ""))
    numbers = int(found[1]) if found else 2
    messages = [message for entry in catalog if not entry.obsolete
                for message in _messages(entry, numbers, wanted.again)]  # fmt: skip

    def write(translations: Sequence[str]) -> bytes:
        for (entry, number, _), said in zip(messages, translations, strict=True):
            if number is None:
                entry.msgstr = said
            else:
                entry.msgstr_plural[number] = said
            if not entry.fuzzy:
                entry.flags.append("fuzzy")
        if not messages:
            return encode(text)
        made = str(catalog).rstrip("\n") + "\n"
        if not catalog.header:
            made = made.removeprefix("#\n")
        if not catalog.metadata:  # polib adds an empty entry of metadata
            made = made.removeprefix('msgid ""\nmsgstr ""\n\n')
        return encode(made)

    return Document([text for _, _, text in messages], write)


def _messages(
    entry: polib.POEntry, numbers: int, again: bool
) -> Iterator[tuple[polib.POEntry, int | None, str]]:
    """Yield the texts of an entry to be translated: entry, plural form (or None), text."""
    if not entry.msgid_plural:
        if again or not entry.msgstr:
            yield entry, None, entry.msgid
    elif again or not any(entry.msgstr_plural.values()):
        for number in range(numbers):
            yield entry, number, entry.msgid_plural if number else entry.msgid
