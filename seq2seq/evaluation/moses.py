"""Text in the forms that some published scores are of, by sacremoses, a port of Moses' scripts."""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import version

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from seq2seq.errors import DataError, nearest


def require_language(language: str) -> None:
    """Raise DataError if Moses does not know a language, whose text it would take for English."""
    known = set(NonbreakingPrefixes().available_langs.values())
    if language not in known:
        raise DataError(
            f"language={language} is none that Moses knows, by which text is normalised and "
            f"tokenised: {nearest(language, known)}"
        )


class Moses:
    """The forms of one language's text.

    Args:
        language: of two letters, such as fr.
    """

    def __init__(self, language: str):
        self.language = language
        self._normaliser = MosesPunctNormalizer(lang=language)

    @cached_property
    def _tokenizer(self) -> MosesTokenizer:  # slow to make
        return MosesTokenizer(lang=self.language)

    def punctuation(self, text: str) -> str:
        """Typewriter quotation marks and apostrophes, no space before high punctuation."""
        return str(self._normaliser.normalize(text))

    def tokenised(self, text: str) -> str:
        """Lower-cased, punctuation normalised, tokenised with escapes, in this order.

        What papers on Multi30k score: so its references were made (Elliott et al. 2016, 2017).
        """
        text = self.punctuation(text.lower())
        return str(self._tokenizer.tokenize(text, escape=True, return_str=True))

    def signature(self, form: str) -> str:
        """How text came into one of these forms, in the manner of sacrebleu."""
        steps = {"punctuation": "punctuation", "tokenised": "lower+punctuation+tokens"}[form]
        return f"text:{steps}|lang:{self.language}|sacremoses:{version('sacremoses')}"
