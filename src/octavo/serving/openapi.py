"""The OpenAPI document, from the same classes that requests are checked with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from octavo import __version__
from octavo.serving import llama_server_schemas as llama
from octavo.serving import schemas as of

REFUSED: dict[str, str] = {
    "400": "The request cannot be used.",
    "401": "The key is missing or wrong.",
    "403": "Another host name, or a page of another origin.",
    "404": "There is no such model, or no such path.",
    "405": "The path takes another method.",
    "408": "The body did not come in time.",
    "413": "The body is too long.",
    "415": "The body is not JSON.",
    "429": "Too many texts wait.",
    "500": "The server failed.",
    "503": "The model cannot be loaded now, or the server is stopping.",
    "504": "It took too long.",
}
"""Answers with an `error` object, by status."""


@dataclass(frozen=True)
class Told:
    """What an endpoint takes and gives."""

    method: str
    what: str
    asked: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    chunk: type[BaseModel] | None = None
    query: str | None = None
    """What may stand behind a question mark."""


PATHS: dict[str, Told] = {
    "/v1/completions": Told(
        "POST", "Go on from prompts.", of.CompletionRequest, of.Completion, chunk=of.Completion
    ),
    "/v1/chat/completions": Told(
        "POST", "Answer a conversation.", of.ChatRequest, of.ChatCompletion, chunk=of.ChatChunk
    ),
    "/v1/chat/completions/input_tokens": Told(
        "POST", "How long a conversation is.", llama.TemplateRequest, llama.InputTokens
    ),
    "/v1/translate": Told("POST", "Translate sentences.", of.TranslateRequest, of.TranslateAnswer),
    "/v1/forecast": Told("POST", "Forecast what follows a table.", of.ForecastRequest, of.ForecastAnswer),
    "/tokenize": Told("POST", "A text as ids.", of.TokenizeRequest, of.Tokens),
    "/detokenize": Told("POST", "Ids as a text.", of.DetokenizeRequest, of.Content),
    "/tokenizer_info": Told("GET", "Special tokens.", answer=of.TokenizerInfo, query="model"),
    "/completion": Told(
        "POST",
        "Go on from prompts, as llama.cpp's server does.",
        llama.LlamaRequest,
        llama.LlamaAnswers,
        chunk=llama.LlamaEvent,
    ),
    "/apply-template": Told(
        "POST", "A conversation as the model reads it.", llama.TemplateRequest, llama.Rendered
    ),
    "/props": Told("GET", "What a model is.", answer=llama.Props, query="model"),
    "/slots": Told("GET", "Places for texts under way.", answer=llama.SlotStates, query="model"),
    "/v1/models": Told("GET", "All models.", answer=of.ModelList),
    "/v1/models/{name:path}": Told("GET", "A model, or RUN@STEP.", answer=of.ModelCard),
    "/health": Told("GET", "Whether the server is there.", answer=of.Health),
    "/metrics": Told("GET", "What the server did, as Prometheus reads it."),
    "/openapi.json": Told("GET", "This document."),
}
"""All endpoints."""


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.2, which knows event streams."""
    kinds = {kind for told in PATHS.values() for kind in (told.asked, told.answer, told.chunk) if kind} | {
        of.ErrorAnswer
    }
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, schemas = models_json_schema(
        [(kind, "validation") for kind in ordered], ref_template="#/components/schemas/{model}"
    )
    return {
        "openapi": "3.2.0",
        "info": {
            "title": "Octavo",
            "version": __version__,
            "summary": "A server of small models.",
        },
        "paths": {
            path.replace(":path", ""): {told.method.lower(): _operation(path, told)}
            for path, told in PATHS.items()
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(path: str, told: Told) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": told.what,
        "operationId": path.strip("/").split("{")[0].strip("/").replace("/", "_"),
    }
    if "{" in path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        found |= {"operationId": "v1_models_one", "parameters": [name]}
    if told.query is not None:
        found["parameters"] = [{"name": told.query, "in": "query", "schema": {"type": "string"}}]
    if told.asked is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _of(told.asked)}},
        }
    media: dict[str, Any] = {
        "application/json": {"schema": {"type": "object"} if told.answer is None else _of(told.answer)}
    }
    if path == "/metrics":
        media = {"text/plain": {"schema": {"type": "string"}}}
    if told.chunk is not None:
        event = {"contentMediaType": "application/json", "contentSchema": _of(told.chunk)}
        data = {"type": "string", "anyOf": [{"const": "[DONE]"}, event]}
        media["text/event-stream"] = {
            "itemSchema": {"type": "object", "properties": {"data": data}, "required": ["data"]}
        }
    found["responses"] = {"200": {"description": told.what, "content": media}} | {
        status: {"description": what, "content": {"application/json": {"schema": _of(of.ErrorAnswer)}}}
        for status, what in REFUSED.items()
    }
    if path == "/health":
        found["responses"]["503"]["content"] = media
    return found


def _of(kind: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
