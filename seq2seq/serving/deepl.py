"""The API of DeepL, version 2, for DeepL's clients (`server_url` of the PyPI client `deepl`).

What is not served answers status 404 with a message: documents, rephrasing, all of version 3.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response
from typing_extensions import TypedDict  # pydantic takes typing.TypedDict from Python 3.12 on

from seq2seq.serving.glossaries import Glossary
from seq2seq.serving.limits import Refused
from seq2seq.serving.routes import Call, CompatibleRequest, Route
from seq2seq.serving.service import NAMES

Texts = Annotated[
    list[str], Field(min_length=1), BeforeValidator(lambda q: [q] if isinstance(q, str) else q)
]
# Parameters of a translation request that are not supported: a request that sets one is refused.
NOT_SERVED = ("style_id", "custom_instructions", "translation_memory_id", "glossary_ids",
              "ignore_tags", "splitting_tags", "non_splitting_tags")  # fmt: skip
FORMALITIES = ("default", "prefer_more", "prefer_less")  # that a request may set, without effect


def _code(language: str) -> str:
    """Return the code without its variant, in lower case: en for EN-GB."""
    return language.lower().partition("-")[0]


class DeepLRequest(CompatibleRequest):
    """Texts to translate. Fields that change only the quality, such as `context`, are ignored."""

    model_config = ConfigDict(extra="allow")
    text: Texts
    target_lang: str
    source_lang: str | None = None
    split_sentences: bool | Literal["nonewlines"] = True
    preserve_formatting: bool = Field(
        False, description="ignored: the server never corrects formatting"
    )
    formality: str = "default"
    tag_handling: Literal["xml", "html"] | None = None
    glossary_id: str | None = None
    show_billed_characters: bool = True


class Translated(TypedDict):
    detected_source_language: str
    text: str
    billed_characters: NotRequired[int]


async def translate(call: Call) -> dict[str, list[Translated]]:
    asked: DeepLRequest = call.body
    refused = [name for name in NOT_SERVED if (asked.model_extra or {}).get(name)]
    if asked.formality not in FORMALITIES:
        refused.append("formality")
    if refused:
        raise Refused(400, f"Value for '{refused[0]}' not supported: leave it out.")
    if asked.glossary_id and not asked.source_lang:
        raise Refused(400, "Use of a glossary requires the source_lang parameter to be specified.")
    with call.service.charge(call.client, asked.text):
        sources = await _sources(call)
        translations = await _translations(call, sources)
    answers: list[Translated] = []
    for text, source, translation in zip(asked.text, sources, translations, strict=True):
        answers.append({"detected_source_language": source.upper(), "text": translation})
        if asked.show_billed_characters:
            answers[-1]["billed_characters"] = len(text)
    return {"translations": answers}


async def _sources(call: Call) -> list[str]:
    """Return the language of each text, as the request says, or as it is detected."""
    asked: DeepLRequest = call.body
    if asked.source_lang:
        return [_code(asked.source_lang)] * len(asked.text)
    detect = call.service.detect
    return await call.service.in_thread(lambda: [detect(text)[0][0] for text in asked.text])


async def _translations(call: Call, sources: Sequence[str]) -> list[str]:
    """Translate the texts that are not in the target language yet; the others stay unchanged."""
    asked: DeepLRequest = call.body
    target, html = _code(asked.target_lang), asked.tag_handling == "html"
    models = {one: call.service.choose(one, target) for one in sources if one != target}
    settings: dict[str, Any] = {"split": asked.split_sentences is not False}
    if asked.glossary_id:
        glossary = _find(call, asked.glossary_id)
        pair = glossary.source_lang, glossary.target_lang
        if any(model.languages != pair for model in models.values()):
            raise Refused(400, "The glossary is for another language pair.")
        settings["terms"] = glossary.entries
    texts = asked.text
    if asked.split_sentences == "nonewlines" and not html:  # line feeds of HTML are spaces anyway
        texts = [" ".join(text.splitlines()) for text in texts]
    run = call.service.translate_html if html else call.service.translate
    translations = list(asked.text)
    for source, model in models.items():
        rows = [row for row, one in enumerate(sources) if one == source]
        made = await run(call.client, model, [texts[row] for row in rows], settings)
        for row, one in zip(rows, made, strict=True):
            translations[row] = one.text
    return translations


async def usage(call: Call) -> dict[str, int]:
    return {"character_count": call.client.used, "character_limit": call.client.quota}


class Side(CompatibleRequest):
    type: Literal["source", "target"] = "source"


async def languages(call: Call) -> list[dict[str, Any]]:
    target = call.body.type == "target"
    more = {"supports_formality": False} if target else {}
    codes = dict.fromkeys(pair[target] for pair in call.service.pairs)
    return [{"language": code.upper(), "name": NAMES.get(code, code), **more} for code in codes]


# Glossaries


class NewGlossary(CompatibleRequest):
    name: Annotated[str, Field(min_length=1, max_length=1024)]
    source_lang: str
    target_lang: str
    entries: Annotated[str, Field(min_length=1)]
    entries_format: Literal["tsv", "csv"]


class GlossaryInfo(TypedDict):
    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


async def make_glossary(call: Call) -> GlossaryInfo:
    asked: NewGlossary = call.body
    pair = call.service.choose(_code(asked.source_lang), _code(asked.target_lang)).languages
    made = call.service.glossaries.add(call.client.name, asked.name, pair, _entries(asked))
    if made is None:
        raise Refused(456, "There is no room for further glossaries: delete one")
    return _described(made)


def _entries(asked: NewGlossary) -> dict[str, str]:
    """Read the phrases of a new glossary.

    Raises:
        Refused: a line is no pair, a phrase comes twice, or there are no phrases.
    """
    wrong = "Invalid glossary entries provided"
    how: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    rows = csv.reader(io.StringIO(asked.entries), **how if asked.entries_format == "tsv" else {})
    found: dict[str, str] = {}
    try:
        for number, row in enumerate(rows, 1):
            if not any(row):
                continue
            source, target = [phrase.strip() for phrase in [*row, ""][:2]]
            if not source or not target or len(row) not in (2, 4):
                raise Refused(400, f"{wrong}: line {number} is not a pair")
            if source in found:
                raise Refused(400, f"{wrong}: line {number} comes twice")
            found[source] = target
    except csv.Error as error:
        raise Refused(400, f"{wrong}: {error}") from error
    if not found:
        raise Refused(400, f"{wrong}: there are none")
    return found


def _described(one: Glossary) -> GlossaryInfo:
    return {"glossary_id": one.glossary_id, "name": one.name, "ready": True,
            "source_lang": one.source_lang, "target_lang": one.target_lang,
            "creation_time": one.creation_time, "entry_count": len(one.entries)}  # fmt: skip


def _find(call: Call, glossary_id: str | None = None) -> Glossary:
    """Return the client's glossary with this id; without one, with the id in the path.

    Raises:
        Refused: the client has no such glossary.
    """
    asked = glossary_id or call.request.path_params["glossary_id"]
    for one in call.service.glossaries.of(call.client.name):
        if one.glossary_id == asked:
            return one
    raise Refused(404, "Glossary not found")


async def all_glossaries(call: Call) -> dict[str, list[GlossaryInfo]]:
    own = call.service.glossaries.of(call.client.name)
    return {"glossaries": [_described(one) for one in own]}


async def one_glossary(call: Call) -> GlossaryInfo:
    return _described(_find(call))


async def entries(call: Call) -> Response:
    lines = [f"{source}\t{target}" for source, target in _find(call).entries.items()]
    return PlainTextResponse("\n".join(lines), media_type="text/tab-separated-values")


async def delete_glossary(call: Call) -> Response:
    call.service.glossaries.remove(_find(call))
    return Response(status_code=204)


async def glossary_pairs(call: Call) -> dict[str, list[dict[str, str]]]:
    return {"supported_languages": [
        {"source_lang": source, "target_lang": target} for source, target in call.service.pairs
    ]}  # fmt: skip


_ONE = "/v2/glossaries/{glossary_id}"
ROUTES = [
    Route("POST", "/v2/translate", "Translate texts", translate, DeepLRequest,
          dict[str, list[Translated]]),
    Route("GET", "/v2/usage", "Count the characters since the server started", usage, None,
          dict[str, int]),
    Route("GET", "/v2/languages", "List the languages", languages, Side, list[dict[str, Any]]),
    Route("GET", "/v2/glossary-language-pairs", "List the pairs of languages of glossaries",
          glossary_pairs, None, dict[str, list[dict[str, str]]]),
    Route("POST", "/v2/glossaries", "Make a glossary", make_glossary, NewGlossary, GlossaryInfo,
          201),
    Route("GET", "/v2/glossaries", "List the client's glossaries", all_glossaries, None,
          dict[str, list[GlossaryInfo]]),
    Route("GET", _ONE, "Describe a glossary", one_glossary, None, GlossaryInfo),
    Route("GET", f"{_ONE}/entries", "Return the phrases of a glossary", entries, None, str),
    Route("DELETE", _ONE, "Delete a glossary", delete_glossary, status=204),
]  # fmt: skip
