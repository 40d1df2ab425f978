"""The OpenAPI document that describes the routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from seq2seq import __version__
from seq2seq.serving.routes import Route

KEYS = {  # the two headers in which clients send the same key
    "bearer": {"type": "http", "scheme": "bearer"},
    "deepl": {"type": "apiKey", "in": "header", "name": "Authorization",
              "description": "DeepL-Auth-Key KEY"},
}  # fmt: skip


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Make the OpenAPI 3.1 document of these routes."""
    schemas: dict[str, Any] = {}

    def schema(kind: Any) -> dict[str, Any]:
        found = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(found.pop("$defs", {}))
        return found

    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        error = "message" if route.path.startswith("/v2/") else "error"
        module = route.answer.__module__.rpartition(".")[2]
        operation: dict[str, Any] = {
            "operationId": f"{module}_{route.answer.__name__}",
            "summary": route.says,
            "tags": [module],
            "responses": {str(route.status): _answer(route, schema), "default": _content(
                "The reason why there is no answer", {"application/json": {
                    "type": "object", "required": [error], "properties": {
                        error: {"type": "string"}}}})},
            "security": [{}] if route.open else [{}, *({name: []} for name in KEYS)],
        }  # fmt: skip
        inputs = [("path", name, {"type": "string"}) for name in re.findall(r"{(\w+)}", route.path)]
        if route.takes and route.method == "GET":
            inputs += [("query", *one) for one in schema(route.takes)["properties"].items()]
        elif route.takes:
            kind = "multipart/form-data" if route.file else "application/json"
            asked = _content("JSON, or a form", {kind: schema(route.takes)})
            operation["requestBody"] = {"required": True} | asked
        operation["parameters"] = [
            {"name": name, "in": place, "required": place == "path", "schema": kind}
            for place, name, kind in inputs
        ]
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    about = "Translation by the APIs of LibreTranslate and DeepL, and by /v1."
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2seq", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": KEYS},
    }


def _content(description: str, schemas: dict[str, Any]) -> dict[str, Any]:
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {"description": description, "content": content}


def _answer(route: Route, schema: Any) -> dict[str, Any]:
    text = {"type": "string"}
    if route.gives is None:
        return {"description": "No content"}
    if route.gives is str:
        return _content("Text", {"text/tab-separated-values": text})
    if route.gives is bytes:
        return _content("The document", {"application/octet-stream": text | {"format": "binary"}})
    lines = {"application/x-ndjson": text} if route.path == "/v1/translate" else {}
    return _content("The answer", {"application/json": schema(route.gives), **lines})
