"""The server's own API, /v1, which returns all fields of a `Translation`."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import PurePath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict  # pydantic takes typing.TypedDict from Python 3.12 on

from seq2seq.decoding.forced import forced_maps
from seq2seq.documents import read
from seq2seq.errors import UserError
from seq2seq.inference.engines.torch import TorchEngine
from seq2seq.inference.text.terminology import Terminology
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.model.attention_maps import cross_attentions
from seq2seq.serving.limits import Refused
from seq2seq.serving.routes import Call, Document, Route, write_fault

Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
SETTINGS = {"split", "typography", "prefix", "terms", "banned", "align", "token_scores"}
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")  # settings of samples only


class Decode(BaseModel):
    """Settings of the search; a setting that is left out keeps the value of the model's
    validation."""

    model_config = ConfigDict(extra="forbid", strict=True)
    strategy: Literal["beam", "sample"] | None = None
    beam: Annotated[int, Field(ge=1, le=20)] | None = None
    n_best: Annotated[int, Field(ge=1, le=20)] | None = None
    length_norm: Literal["none", "average", "gnmt"] | None = None
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    temperature: Annotated[float, Field(gt=0, le=10)] | None = None
    top_k: Annotated[int, Field(ge=0, le=100_000)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, lt=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] | None = None
    repetition_penalty: Annotated[float, Field(ge=1, le=10)] | None = None


class TranslateRequest(BaseModel):
    """Texts to translate, and how to translate them."""

    model_config = ConfigDict(extra="forbid")
    text: Text | Annotated[list[str], Field(min_length=1)]
    source: str = "auto"
    target: str | None = None
    model: str | None = Field(
        None, description="name of the model, if several translate these languages"
    )
    split: bool = Field(True, description="translate sentence by sentence")
    typography: bool = Field(False, description="write French typography")
    prefix: str = Field("", max_length=1000, description="text with which each translation begins")
    terms: dict[str, str] = Field(
        {}, max_length=1000, description="source phrases and their translations"
    )
    banned: list[str] = Field(
        [], max_length=100, description="phrases that no translation may contain"
    )
    align: bool = Field(
        False, alias="alignment", description="return which words translate each other"
    )
    token_scores: bool = Field(
        False, alias="scores", description="return how likely each token and each word is"
    )
    stream: bool = Field(
        False, description="send a line of JSON for each line of text as soon as it is translated"
    )
    decode: Decode = Decode()


class Word(TypedDict):
    """A word of a translation, and how likely the model found it."""

    text: str
    confidence: Share


@dataclass(frozen=True)
class Answer(Translation):
    """A translation in an answer. Alignments number words, which spaces separate, from 0."""

    words: list[Word] = field(default_factory=list)


class Answers(TypedDict):
    model: str
    source: str
    target: str
    translations: list[Answer]


async def translate(call: Call) -> Any:
    asked: TranslateRequest = call.body
    _check_settings(asked)
    service = call.service
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    source = asked.source
    if source == "auto":
        source = service.detect(" ".join(texts))[0][0]
    model = service.choose(source, asked.target, asked.model)
    settings = asked.model_dump(include=SETTINGS, exclude_defaults=True)
    settings |= asked.decode.model_dump(exclude_none=True)
    with service.charge(call.client, texts):
        if asked.stream:
            lines = [(n, line) for n, text in enumerate(texts) for line in text.split("\n")]
            answers = service.submit(call.client, model, [line for _, line in lines], settings)
            body = _streamed([n for n, _ in lines], answers, service.limits.timeout)
            return StreamingResponse(body, media_type="application/x-ndjson")
        found = await service.translate(call.client, model, texts, settings)
    source, target = model.languages
    return {"model": model.name, "source": source, "target": target,
            "translations": [answer_of(one) for one in found]}  # fmt: skip


def _check_settings(asked: TranslateRequest) -> None:
    """Refuse settings that contradict each other, or that would change nothing."""
    if wrong := Terminology({}, asked.banned).forbidden(asked.prefix):
        raise Refused(400, f"Invalid request: the prefix contains the banned {wrong[0]!r}: leave "
                           "one of them out")  # fmt: skip
    given = [name for name in SAMPLING if getattr(asked.decode, name) is not None]
    if given and asked.decode.strategy != "sample":
        raise Refused(400, f"Invalid request: decode.{given[0]} needs decode.strategy=sample")


async def _streamed(
    numbers: Sequence[int], answers: Sequence[asyncio.Future[Translation]], seconds: float
) -> AsyncIterator[str]:
    """Yield a line of JSON for each line of the texts, in order: text number and translation.

    An error ends the stream with a line that has only `error`.
    """
    try:
        for number, answer in zip(numbers, answers, strict=True):
            found = answer_of(await asyncio.wait_for(answer, seconds))
            yield json.dumps({"number": number} | found) + "\n"
    except Exception as error:  # status 200 was sent already
        said = "The server failed: its log says where"
        if isinstance(error, TimeoutError):
            said = f"a line took more than {seconds:g} seconds"
        elif isinstance(error, UserError):
            said = str(error)
        else:
            write_fault("/v1/translate", error)
        yield json.dumps({"error": said}) + "\n"
    finally:
        for answer in answers:
            answer.cancel() or answer.exception()  # retrieved, lest asyncio log it


def answer_of(one: Translation) -> dict[str, Any]:
    """Return the fields of an `Answer` for a translation and its alternatives."""
    others = [answer_of(other) for other in one.alternatives]
    return vars(one) | {"alternatives": others, "words": words(one)}


def words(one: Translation) -> list[Word]:
    """Return the words of a translation and the probability of each.

    Empty if the tokens do not make up these words, because something was put back among them.
    """
    found, parts = one.text.split(), [len(text.split()) for _, text in one.parts]
    begins = [token[:1] == "▁" or not number for number, token in enumerate(one.tokens)]
    scored = len(one.token_scores) == len(one.tokens) + len(parts)  # each part has an end mark
    if not scored or not sum(begins) == sum(parts) == len(found):
        return []
    scores, ends = iter(one.token_scores), set(accumulate(parts))
    sums, word = [0.0] * len(found), 0
    for token_begins in begins:
        if token_begins and word in ends:
            next(scores)  # skips the score of the end mark of the part before
        word += token_begins
        sums[word - 1] += next(scores)
    return [{"text": text, "confidence": round(min(1.0, math.exp(total)), 4)}
            for text, total in zip(found, sums, strict=True)]  # fmt: skip


class DocumentRequest(BaseModel):
    """A document in a form, and how to translate it."""

    file: Document
    source: str = "auto"
    target: str | None = None
    model: str | None = None
    retranslate: bool = Field(
        False, description="also translate messages of a .po or .xliff that have translations"
    )


async def document(call: Call) -> Response:
    asked: DocumentRequest = call.body
    service, limits = call.service, call.service.limits
    name = re.split(r"[/\\]", asked.file.name)[-1]
    kind = PurePath(name).suffix.lower()
    # Reading markup takes time in proportion to its length, so it has the limit of any other
    # request. A .docx may be larger, as most of it can be pictures.
    most = limits.document if kind == ".docx" else limits.body()
    if len(asked.file.data) > most:
        raise Refused(413, f"the document has more than {most} bytes: cut it into several")
    found = await service.in_thread(partial(
        read, asked.file.data, kind, target=asked.target or service.pairs[0][1],
        again=asked.retranslate, most=most,
    ))  # fmt: skip
    source = asked.source
    if source == "auto":
        source = service.detect("\n".join(found.texts[:100]))[0][0]
    model = service.choose(source, asked.target, asked.model)
    with service.charge(call.client, ["".join(found.texts)]):  # with any number of texts
        made = await service.translate(call.client, model, found.texts, {})
        data = await service.in_thread(partial(found.write, [one.text for one in made]))
    how = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return Response(data, media_type="application/octet-stream",
                    headers={"Content-Disposition": how})  # fmt: skip


class AttentionRequest(BaseModel):
    """A sentence and its translation."""

    model_config = ConfigDict(extra="forbid")
    text: Text
    translation: Text
    model: str | None = None


class Attention(TypedDict):
    """For each layer and head, a row for each target token: its weights for the source tokens."""

    source: list[str]
    target: list[str]
    layers: list[list[list[list[Share]]]]


async def attention(call: Call) -> Attention:
    asked: AttentionRequest = call.body
    models = call.service.models
    model = models.get(asked.model or next(iter(models)))
    if model is None:
        raise Refused(400, f"there is no model {asked.model}")
    work = partial(_attention, model.exact, asked.text, asked.translation)
    with call.service.charge(call.client, [asked.text, asked.translation]):
        return await call.service.in_thread(work)


def _attention(translator: Translator, text: str, translation: str) -> Attention:
    engine, both = translator.engine, translator.vocabularies
    if not isinstance(engine, TorchEngine):
        raise Refused(400, "only the engines auto and torch show attention")
    [source] = both.source.encode([translator.as_read(text)])
    [target] = both.target.encode([translator.as_written(translation)])
    if not source or not target or max(len(source), len(target)) >= engine.max_length:
        raise Refused(400, f"attention is shown of a sentence of 1 to {engine.max_length - 1} "
                           "tokens")  # fmt: skip
    network = engine.models[0]
    [(_, maps)] = forced_maps(network, [(source, target)], cross_attentions(network))
    return {
        "source": [*both.source.tokens(source), "</s>"],
        "target": [*both.target.tokens(target), "</s>"],
        "layers": [weights_HTS.astype(float).clip(0, 1).round(4).tolist() for weights_HTS in maps],
    }


class ModelNamed(TypedDict):
    name: str
    source: str
    target: str


async def models(call: Call) -> list[ModelNamed]:
    return [{"name": one.name, "source": one.languages[0], "target": one.languages[1]}
            for one in call.service.models.values()]  # fmt: skip


ROUTES = [
    Route("POST", "/v1/translate", "Translate texts, and return all that is known of each "
          "translation", translate, TranslateRequest, Answers),
    Route("POST", "/v1/documents", "Translate a document: .docx, .html, .md, .po, .srt, .vtt, "
          ".xliff or .txt", document, DocumentRequest, bytes, file=True),
    Route("POST", "/v1/attention", "Return the attention of each layer and head", attention,
          AttentionRequest, Attention),
    Route("GET", "/v1/models", "List the models and their languages", models, None,
          list[ModelNamed]),
]  # fmt: skip
