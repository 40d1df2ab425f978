"""The OpenAPI document of the routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter

from seq2seq import __version__
from seq2seq.serving.routes import Route

PLACE = "#/components/schemas/{model}"
KEYS = {  # the same key, as each API sends it
    "bearer": {"type": "http", "scheme": "bearer"},
    "deepl": {"type": "apiKey", "in": "header", "name": "Authorization",
              "description": "DeepL-Auth-Key KEY"},
}  # fmt: skip


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Version 3.1 of what these routes take and give."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in (one for one in routes if one.listed):
        prefix = re.sub(r"\W+", " ", route.answer.__module__.rpartition(".")[2]).title()
        operation: dict[str, Any] = {
            "summary": route.says,
            "tags": [prefix],
            "responses": {str(route.status): _answer(route, prefix, schemas),
                          "default": _error(route)},
            "security": [{}] if route.open else [{}, *({name: []} for name in KEYS)],
        }  # fmt: skip
        names = re.findall(r"{(\w+)}", route.path)
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
        if route.takes and route.method == "GET":
            operation["parameters"] += _query(route.takes)
        elif route.takes:
            schema = _schema(route.takes, prefix, schemas)
            content = {"application/json": {"schema": schema}}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2seq", "version": __version__,
                 "description": "Translation by the APIs of LibreTranslate and DeepL, and by /v1. "
                                "Bodies may also be forms."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": KEYS},
    }  # fmt: skip


def _schema(kind: Any, prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; what it is made of goes to `schemas`, under the name of its API."""
    found = TypeAdapter(kind).json_schema(ref_template=f"{PLACE[:-7]}{prefix}{PLACE[-7:]}")
    schemas.update({prefix + name: one for name, one in found.pop("$defs", {}).items()})
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        schemas[prefix + kind.__name__] = found
        return {"$ref": PLACE.format(model=prefix + kind.__name__)}
    return found


def _query(kind: type[BaseModel]) -> list[dict[str, Any]]:
    properties = kind.model_json_schema()["properties"]
    return [{"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in properties.items()]  # fmt: skip


def _answer(route: Route, prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.gives is None:
        return {"description": "No content"}
    if route.gives is str:
        return {"description": "Text", "content": {"text/tab-separated-values": {
            "schema": {"type": "string"}}}}  # fmt: skip
    content = {"application/json": {"schema": _schema(route.gives, prefix, schemas)}}
    if route.takes and "stream" in route.takes.model_fields:
        content["application/x-ndjson"] = {"schema": {"type": "string"}}
    return {"description": "The answer", "content": content}


def _error(route: Route) -> dict[str, Any]:
    name = "message" if route.path.startswith("/v2/") else "error"
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string"}}}
    return {"description": "Why there is no answer",
            "content": {"application/json": {"schema": schema}}}  # fmt: skip
