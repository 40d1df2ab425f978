"""The API of LibreTranslate, as its clients speak it: Mastodon, Weblate, Zotero, libretranslatepy.

Statuses, fields and texts of errors are those of LibreTranslate 1.9 (`libretranslate/app.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from seq2seq.serving.models import NAMES, Detected
from seq2seq.serving.routes import Call, Route, detected
from seq2seq.serving.service import Refused

Texts = Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
MOST = 10  # alternatives
FORMATS = ("text", "html")


class Asked(BaseModel):
    q: Texts
    source: Annotated[str, Field(min_length=1)]
    target: Annotated[str, Field(min_length=1)]
    format: str = "text"
    alternatives: int = 0
    api_key: str | None = None


class Found(BaseModel):
    confidence: float
    language: str


class Answer(BaseModel):
    translatedText: str | list[str]
    detectedLanguage: Found | list[Found] | None = None
    alternatives: list[str] | list[list[str]] | None = None


async def translate(call: Call) -> Answer:
    asked: Asked = call.body
    if asked.alternatives > MOST:
        raise Refused(400, f"Invalid request: alternatives parameter must be <= {MOST}")
    if asked.format not in FORMATS:
        raise Refused(400, f"{asked.format} format is not supported")
    several = isinstance(asked.q, list)
    texts = asked.q if isinstance(asked.q, list) else [asked.q]
    source, first = asked.source, None
    if asked.source == "auto":
        first, *_ = await detected(call.service, " ".join(texts))
        source = first.language
    n_best = 1 + max(0, asked.alternatives)
    if source == asked.target:  # as LibreTranslate does: there is nothing to do
        written, others = texts, [list[str]() for _ in texts]
    else:
        model = call.service.models.choose(source, asked.target)
        settings = {"n_best": n_best} if n_best > 1 else {}
        found = await call.service.translate(call.client, model, texts, settings)
        written = [one.text for one in found]
        others = [[other.text for other in one.alternatives] for one in found]
    answer: dict[str, Any] = {"translatedText": written if several else written[0]}
    if first is not None:
        one = _told(first)
        answer["detectedLanguage"] = [one] * len(texts) if several else one
    if n_best > 1:
        answer["alternatives"] = others if several else others[0]
    return Answer(**answer)


class Text(BaseModel):
    q: Texts
    api_key: str | None = None


async def detect(call: Call) -> list[Found]:
    asked: Text = call.body
    text = asked.q if isinstance(asked.q, str) else " ".join(asked.q)
    return [_told(one) for one in await detected(call.service, text)]


def _told(one: Detected) -> Found:
    return Found(confidence=round(100 * one.confidence, 1), language=one.language)


class Language(BaseModel):
    code: str
    name: str
    targets: list[str] = []


def _language(code: str, targets: list[str] | None = None) -> Language:
    return Language(code=code, name=NAMES.get(code, code), targets=targets or [])


async def languages(call: Call) -> list[Language]:
    pairs = call.service.models.pairs
    codes = dict.fromkeys([*(source for source, _ in pairs), *(target for _, target in pairs)])
    return [_language(code, [t for source, t in pairs if source == code]) for code in codes]


async def settings(call: Call) -> dict[str, Any]:
    (source, target), *_ = call.service.models.pairs
    return {
        "apiKeys": call.service.keys.required,
        "charLimit": call.service.limits.characters,
        "filesTranslation": False,
        "frontendTimeout": 300,  # milliseconds of silence before the page asks
        "keyRequired": call.service.keys.required,
        "language": {"source": _language(source).model_dump(include={"code", "name"}),
                     "target": _language(target).model_dump(include={"code", "name"})},
        "suggestions": False,
        "supportedFilesFormat": [],
    }  # fmt: skip


async def health(call: Call) -> dict[str, str]:
    return {"status": "ok"}


async def no_files(call: Call) -> None:
    raise Refused(403, "Files translation are disabled on this server.")


async def no_suggestions(call: Call) -> None:
    raise Refused(403, "Suggestions are disabled on this server.")


ROUTES = [
    Route("POST", "/translate", "Translate a text or a list", translate, Asked, Answer),
    Route("POST", "/detect", "Tell the language of a text", detect, Text, list[Found]),
    Route("GET", "/languages", "The languages", languages, None, list[Language], open=True),
    Route("GET", "/frontend/settings", "Limits", settings, None, dict[str, Any], open=True),
    Route("GET", "/health", "Whether the server runs", health, None, dict[str, str], open=True),
    Route("POST", "/translate_file", "Not served", no_files, open=True),
    Route("POST", "/suggest", "Not served", no_suggestions, open=True),
]
