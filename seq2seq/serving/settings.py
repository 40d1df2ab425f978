"""What one request, one client and the queue of a server may hold."""

from __future__ import annotations

from seq2seq.config.checked import Checked, setting

JSON_CHARACTER = 12  # bytes of a character as JSON may write it: two escapes of six


class Limits(Checked, section="option"):
    """what the server takes on"""

    characters: int = setting(20_000, "characters of the texts of a request", at_least=1)
    texts: int = setting(500, "texts of a request", at_least=1)
    queue: int = setting(
        400_000, "characters that may wait; requests beyond them get status 503", at_least=1
    )
    timeout: float = setting(60.0, "seconds that a request may take", above=0, at_most=3600)
    batch: int = setting(64, "texts that are translated together", at_least=1)
    wait: float = setting(
        5.0, "milliseconds that a text waits for others to join it", at_least=0, at_most=1000
    )
    rate: int = setting(0, "requests of a client in a minute; 0 = any number", at_least=0)

    @property
    def body(self) -> int:
        """Bytes of the body of a request."""
        return JSON_CHARACTER * self.characters + 2**16
