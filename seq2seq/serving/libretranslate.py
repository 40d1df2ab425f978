"""The API of LibreTranslate, for its clients: Mastodon, Weblate, Zotero, libretranslatepy.

Fields, error messages and statuses are those of LibreTranslate 1.9 (`libretranslate/app.py`). But a
missing key is 403 and a text that is too long is 413, which LibreTranslate answers with 400.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict  # pydantic takes typing.TypedDict from Python 3.12 on

from seq2seq.serving.routes import Call, CompatibleRequest, Route
from seq2seq.serving.service import NAMES

Text = Annotated[str, Field(min_length=1)]
Code = Annotated[str, StringConstraints(min_length=1, to_lower=True)]
Texts = Text | Annotated[list[str], Field(min_length=1)]


class LibreRequest(CompatibleRequest):
    q: Texts
    source: Code
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(le=10)] = 0
    api_key: str | None = None


class Detected(TypedDict):
    confidence: float
    language: str


class LibreAnswer(TypedDict):
    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detected | list[Detected]]
    alternatives: NotRequired[list[str] | list[list[str]]]


async def translate(call: Call) -> dict[str, Any]:
    asked: LibreRequest = call.body
    texts, source = [asked.q] if isinstance(asked.q, str) else asked.q, asked.source
    answer: dict[str, list[Any]] = {}
    if source == "auto":
        found = _detected(call, texts)[0]
        source, answer["detectedLanguage"] = found["language"], [found] * len(texts)
    n_best = 1 + max(0, asked.alternatives)
    if source == asked.target:  # returned as it is, as LibreTranslate does
        answer |= {"translatedText": texts, "alternatives": [[] for _ in texts]}
    else:
        service, html = call.service, asked.format == "html"
        model = service.choose(source, asked.target)
        run = service.translate_html if html else service.translate
        settings = {"n_best": n_best} if n_best > 1 and not html else {}
        with service.charge(call.client, texts):
            made = await run(call.client, model, texts, settings)
        answer["translatedText"] = [one.text for one in made]
        answer["alternatives"] = [[other.text for other in one.alternatives] for one in made]
    if n_best == 1:
        del answer["alternatives"]
    several = isinstance(asked.q, list)
    return {name: each if several else each[0] for name, each in answer.items()}


class LibreText(CompatibleRequest):
    q: Texts
    api_key: str | None = None


async def detect(call: Call) -> list[Detected]:
    asked: LibreText = call.body
    return _detected(call, [asked.q] if isinstance(asked.q, str) else asked.q)


def _detected(call: Call, texts: list[str]) -> list[Detected]:
    return [{"confidence": round(100 * sure, 1), "language": language}
            for language, sure in call.service.detect(" ".join(texts))]  # fmt: skip


async def languages(call: Call) -> list[dict[str, Any]]:
    pairs = call.service.pairs
    codes = dict.fromkeys([*(source for source, _ in pairs), *(target for _, target in pairs)])
    return [{"code": code, "name": NAMES.get(code, code),
             "targets": [target for source, target in pairs if source == code]}
            for code in codes]  # fmt: skip


async def settings(call: Call) -> dict[str, Any]:
    source, target = ({"code": code, "name": NAMES.get(code, code)}
                      for code in call.service.pairs[0])  # fmt: skip
    return {
        "apiKeys": call.service.keys.required,
        "charLimit": call.service.limits.characters,
        "filesTranslation": False,
        "frontendTimeout": 300,  # milliseconds without typing before the page sends a request
        "keyRequired": call.service.keys.required,
        "language": {"source": source, "target": target},
        "suggestions": False,
        "supportedFilesFormat": [],
    }


async def health(call: Call) -> dict[str, str]:
    return {"status": "ok"}


ROUTES = [
    Route("POST", "/translate", "Translate a text or a list of texts", translate, LibreRequest,
          LibreAnswer),
    Route("POST", "/detect", "Detect the language of a text", detect, LibreText, list[Detected]),
    Route("GET", "/languages", "List the languages", languages, None, list[dict[str, Any]],
          open=True),
    Route("GET", "/frontend/settings", "Return the limits", settings, None, dict[str, Any],
          open=True),
    Route("GET", "/health", "Tell whether the server runs", health, None, dict[str, str],
          open=True),
]  # fmt: skip
