"""The API of DeepL, version 2, as its clients speak it; `server_url` of the PyPI client `deepl`.

What is not served answers status 404 and says so: documents, rephrasing, and all of version 3.
"""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import PlainTextResponse

from seq2seq.serving.glossaries import MOST, Glossary
from seq2seq.serving.models import NAMES, Model, NoModel, UnknownLanguage
from seq2seq.serving.routes import Call, Route, detected
from seq2seq.serving.service import Refused

Flag = Literal["0", "1"] | bool
Texts = Annotated[
    list[str], Field(min_length=1), BeforeValidator(lambda q: [q] if isinstance(q, str) else q)
]
# Of a request for a translation; asking for one of them is refused.
NOT_SERVED = ("style_id", "custom_instructions", "translation_memory_id", "glossary_ids",
              "ignore_tags", "splitting_tags", "non_splitting_tags")  # fmt: skip


class Asked(BaseModel):
    """`context`, `model_type` and others that change no more than the quality are left unread."""

    model_config = ConfigDict(extra="allow")
    text: Texts
    target_lang: str
    source_lang: str | None = None
    split_sentences: Literal["0", "1", "nonewlines"] | bool = "1"
    preserve_formatting: Flag = Field(False, description="is always true: nothing is corrected")
    formality: Literal["default", "prefer_more", "prefer_less", "more", "less"] = "default"
    tag_handling: Literal["xml", "html"] | None = None
    glossary_id: str | None = None
    show_billed_characters: Flag = True


class Translated(BaseModel):
    detected_source_language: str
    text: str
    billed_characters: int | None = None


class Translations(BaseModel):
    translations: list[Translated]


async def translate(call: Call) -> Translations:
    asked: Asked = call.body
    for name in NOT_SERVED:
        if (asked.model_extra or {}).get(name):
            raise Refused(400, f"Value for '{name}' not supported: leave it out.")
    if asked.formality in ("more", "less"):
        raise Refused(400, "'formality' is not supported for given 'target_lang'.")
    if asked.glossary_id and not asked.source_lang:
        raise Refused(400, "Use of a glossary requires the source_lang parameter to be specified.")
    if asked.source_lang:
        source = _code(asked.source_lang)
    else:
        source = (await detected(call.service, " ".join(asked.text))).pop(0).language
    model = _choose(call, source, asked.target_lang)
    settings: dict[str, Any] = {"split": asked.split_sentences not in ("0", False)}
    if asked.glossary_id:
        settings["terms"] = _terms(call, asked.glossary_id, model)
    texts = asked.text
    if asked.split_sentences == "nonewlines":
        texts = [" ".join(text.splitlines()) for text in texts]
    found = await call.service.translate(call.client, model, texts, settings)
    shown = asked.show_billed_characters in ("1", True)
    return Translations(translations=[
        Translated(detected_source_language=source.upper(), text=one.text,
                   billed_characters=len(text) if shown else None)
        for text, one in zip(asked.text, found, strict=True)
    ])  # fmt: skip


def _code(language: str) -> str:
    """en for EN-GB: variants of a language are the language."""
    return language.lower().partition("-")[0]


def _choose(call: Call, source: str, target: str) -> Model:
    """The model, or what DeepL says where there is none."""
    try:
        return call.service.models.choose(source, _code(target))
    except UnknownLanguage as error:
        name = "source_lang" if error.code == source else "target_lang"
        raise Refused(400, f"Value for '{name}' not supported.") from error
    except NoModel as error:
        raise Refused(400, f"Value for 'target_lang' not supported: no model translates "
                           f"{source.upper()} to {target.upper()}.") from error  # fmt: skip


class Used(BaseModel):
    character_count: int
    character_limit: int


async def usage(call: Call) -> Used:
    return Used(character_count=call.client.used, character_limit=call.client.quota)


# Languages


class Kind(BaseModel):
    type: Literal["source", "target"] = "source"


class Language(BaseModel):
    language: str
    name: str
    supports_formality: bool | None = None


async def languages(call: Call) -> list[Language]:
    target = call.body.type == "target"
    codes = dict.fromkeys(pair[target] for pair in call.service.models.pairs)
    return [Language(language=code.upper(), name=NAMES.get(code, code),
                     supports_formality=False if target else None) for code in codes]  # fmt: skip


# Glossaries


class NewGlossary(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=1024)]
    source_lang: str
    target_lang: str
    entries: Annotated[str, Field(min_length=1)]
    entries_format: Literal["tsv", "csv"]


class Described(BaseModel):
    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class AllDescribed(BaseModel):
    glossaries: list[Described]


class LanguagePair(BaseModel):
    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    supported_languages: list[LanguagePair]


async def make_glossary(call: Call) -> Described:
    asked: NewGlossary = call.body
    model = _choose(call, _code(asked.source_lang), asked.target_lang)
    entries = _entries(asked)
    pair = (model.source, model.target)
    made = call.service.glossaries.add(call.client.name, asked.name, pair, entries)
    if made is None:
        raise Refused(456, f"A client has at most {MOST} glossaries: delete one")
    return _described(made)


def _entries(asked: NewGlossary) -> dict[str, str]:
    """The phrases of a new glossary.

    Raises:
        Refused: a line of it is no pair of phrases, or one comes twice.
    """
    text = io.StringIO(asked.entries)
    try:
        if asked.entries_format == "tsv":
            rows = list(csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE))
        else:
            rows = list(csv.reader(text))
    except csv.Error as error:
        raise Refused(400, f"Invalid glossary entries provided: {error}") from error
    found: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        if not any(row):
            continue
        phrases = [phrase.strip() for phrase in row[:2]]
        if len(phrases) < 2 or not all(phrases) or len(row) not in (2, 4):
            raise Refused(400, f"Invalid glossary entries provided: line {number} is no pair")
        if phrases[0] in found:
            raise Refused(400, f"Invalid glossary entries provided: line {number} comes twice")
        found[phrases[0]] = phrases[1]
    if not found:
        raise Refused(400, "Invalid glossary entries provided: there are none")
    return found


def _described(one: Glossary) -> Described:
    return Described(
        glossary_id=one.glossary_id, name=one.name, ready=True, source_lang=one.source_lang,
        target_lang=one.target_lang, creation_time=one.creation_time,
        entry_count=len(one.entries),
    )  # fmt: skip


def _find(call: Call, glossary_id: str) -> Glossary:
    found = call.service.glossaries.find(call.client.name, glossary_id)
    if found is None:
        raise Refused(404, "Glossary not found")
    return found


def _terms(call: Call, glossary_id: str, model: Model) -> dict[str, str]:
    found = _find(call, glossary_id)
    if (found.source_lang, found.target_lang) != (model.source, model.target):
        raise Refused(400, "The glossary is of another language pair.")
    return found.entries


async def all_glossaries(call: Call) -> AllDescribed:
    own = call.service.glossaries.of(call.client.name)
    return AllDescribed(glossaries=[_described(one) for one in own])


async def one_glossary(call: Call) -> Described:
    return _described(_find(call, call.request.path_params["glossary_id"]))


async def entries(call: Call) -> PlainTextResponse:
    found = _find(call, call.request.path_params["glossary_id"])
    lines = [f"{source}\t{target}" for source, target in found.entries.items()]
    return PlainTextResponse("\n".join(lines), media_type="text/tab-separated-values")


async def delete_glossary(call: Call) -> None:
    call.service.glossaries.remove(_find(call, call.request.path_params["glossary_id"]))


async def glossary_pairs(call: Call) -> LanguagePairs:
    return LanguagePairs(supported_languages=[
        LanguagePair(source_lang=source, target_lang=target)
        for source, target in call.service.models.pairs
    ])  # fmt: skip


async def not_served(call: Call) -> None:
    raise Refused(404, f"{call.request.url.path} is not served here: see docs/serving.md")


_ONE = "/v2/glossaries/{glossary_id}"
ROUTES = [
    Route("POST", "/v2/translate", "Translate texts", translate, Asked, Translations),
    Route("GET", "/v2/usage", "Characters since the start", usage, None, Used),
    Route("POST", "/v2/usage", "The same", usage, None, Used),
    Route("GET", "/v2/languages", "The languages", languages, Kind, list[Language]),
    Route("POST", "/v2/languages", "The same", languages, Kind, list[Language]),
    Route("GET", "/v2/glossary-language-pairs", "Those glossaries are for", glossary_pairs, None,
          LanguagePairs),
    Route("POST", "/v2/glossaries", "Make a glossary", make_glossary, NewGlossary, Described, 201),
    Route("GET", "/v2/glossaries", "All of them", all_glossaries, None, AllDescribed),
    Route("GET", _ONE, "One of them", one_glossary, None, Described),
    Route("GET", f"{_ONE}/entries", "Its phrases", entries, None, str),
    Route("DELETE", _ONE, "Delete it", delete_glossary, status=204),
    *(Route(method, path, "Not served", not_served, open=True, listed=False)
      for path in ("/v2/document{rest:path}", "/v2/write/{rest:path}", "/v3/{rest:path}")
      for method in ("GET", "POST", "PUT", "PATCH", "DELETE")),
]  # fmt: skip
