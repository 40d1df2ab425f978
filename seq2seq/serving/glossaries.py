"""Glossaries that clients made: phrases and their translations, by an id that the server gave."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.files import replace_text

MOST = 1000  # glossaries of a client
ROOM = 20_000_000  # characters of the glossaries of all clients, which memory holds


@dataclass(frozen=True)
class Glossary:
    """Terms of one client.

    Attributes:
        owner: name of the client.
        creation_time: as ISO 8601 writes it.
    """

    glossary_id: str
    owner: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entries: dict[str, str]

    @property
    def size(self) -> int:
        """Characters."""
        return sum(map(len, [self.name, *self.entries, *self.entries.values()]))


class Glossaries:
    """All glossaries; a client sees its own.

    Args:
        folder: keeps each as a file, whose name is the id; None: they end with the server.

    Raises:
        DataError: the folder cannot be made, or a file in it is no glossary.
    """

    def __init__(self, folder: Path | None = None):
        self._folder = folder
        self._all: dict[str, Glossary] = {}
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in sorted(folder.glob("*.json")):
                one = Glossary(**json.loads(file.read_text(encoding="utf-8")))
                self._all[one.glossary_id] = one
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"the glossaries in {folder} cannot be read ({error}): mend or move the file, or "
                "give another folder, --glossaries"
            ) from error

    def of(self, owner: str) -> list[Glossary]:
        """Those of a client, the oldest first."""
        return [one for one in self._all.values() if one.owner == owner]

    def add(
        self, owner: str, name: str, pair: tuple[str, str], entries: dict[str, str]
    ) -> Glossary | None:
        """A new glossary; None if there is no room for it."""
        made = datetime.now(UTC).isoformat()
        one = Glossary(str(uuid.uuid4()), owner, name, *pair, made, entries)
        held = sum(other.size for other in self._all.values())
        if len(self.of(owner)) >= MOST or held + one.size > ROOM:
            return None
        if self._folder is not None:
            text = json.dumps(asdict(one), ensure_ascii=False, indent=1)
            replace_text(self._folder / f"{one.glossary_id}.json", f"{text}\n")
        self._all[one.glossary_id] = one
        return one

    def remove(self, one: Glossary) -> None:
        """Forget a glossary."""
        del self._all[one.glossary_id]
        if self._folder is not None:
            (self._folder / f"{one.glossary_id}.json").unlink(missing_ok=True)
