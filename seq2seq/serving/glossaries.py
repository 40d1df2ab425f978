"""Glossaries that clients created: phrases and their translations."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from seq2seq.errors import DataError
from seq2seq.files import replace_text

MAX_GLOSSARIES = 1000  # per client
ROOM = 20_000_000  # characters of all glossaries together, as they are held in memory


@dataclass(frozen=True)
class Glossary:
    """A glossary of one client.

    Attributes:
        owner: name of the client.
        creation_time: in the format of ISO 8601.
        entries: phrases and their translations.
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
        """Characters of the name and the entries."""
        return sum(map(len, [self.name, *self.entries, *self.entries.values()]))


class Glossaries:
    """The glossaries of all clients. Each client sees only its own.

    Args:
        folder: stores each glossary as ID.json; None: glossaries are lost when the server stops.

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
                one = _read(file)
                self._all[one.glossary_id] = one
        except (OSError, ValueError) as error:
            raise DataError(
                f"the glossaries in {folder} cannot be read ({error}): correct or move the file, "
                "or give another folder, --glossaries"
            ) from error

    def of(self, owner: str) -> list[Glossary]:
        """Return the glossaries of a client, in the order in which they were added or read."""
        return [one for one in self._all.values() if one.owner == owner]

    def add(
        self, owner: str, name: str, pair: tuple[str, str], entries: dict[str, str]
    ) -> Glossary | None:
        """Create a glossary; None if the client has too many, or the server has no room."""
        made = datetime.now(UTC).isoformat()
        one = Glossary(str(uuid.uuid4()), owner, name, *pair, made, entries)
        held = sum(other.size for other in self._all.values())
        if len(self.of(owner)) >= MAX_GLOSSARIES or held + one.size > ROOM:
            return None
        if self._folder is not None:
            text = json.dumps(asdict(one), ensure_ascii=False, indent=1)
            replace_text(self._folder / f"{one.glossary_id}.json", f"{text}\n")
        self._all[one.glossary_id] = one
        return one

    def remove(self, one: Glossary) -> None:
        """Delete a glossary and its file."""
        del self._all[one.glossary_id]
        if self._folder is not None:
            (self._folder / f"{one.glossary_id}.json").unlink(missing_ok=True)


def _read(file: Path) -> Glossary:
    try:
        return TypeAdapter(Glossary).validate_json(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file.name} is not a glossary") from error
