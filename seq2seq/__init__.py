"""seq2seq: train, evaluate and run English-French translation models.

    >>> from seq2seq import Translator
    >>> Translator.load("runs/demo/bundle").translate(["hello world"])[0].text
    'bonjour le monde'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Translation", "Translator", "__version__"]

if TYPE_CHECKING:
    from seq2seq.inference.translation import Translation
    from seq2seq.inference.translator import Translator


def __getattr__(name: str) -> Any:
    """Import the translator on first use."""
    if name in ("Translation", "Translator"):
        from seq2seq.inference import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'seq2seq' has no attribute {name!r}")
