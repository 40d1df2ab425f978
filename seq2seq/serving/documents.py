"""Documents that clients upload."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import Response


@dataclass(frozen=True)
class Upload:
    """A file that a client uploaded in a form.

    Attributes:
        name: the client's name for the file; the server opens no file of this name.
    """

    name: str
    data: bytes

    @property
    def kind(self) -> str:
        """The extension of its name in lower case, such as .docx."""
        return PurePath(self.name).suffix.lower()

    def response(self) -> Response:
        """Return the document as an HTTP response that browsers save as a file."""
        name = re.split(r"[/\\]", self.name)[-1]
        how = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        return Response(self.data, media_type="application/octet-stream",
                        headers={"Content-Disposition": how})  # fmt: skip
