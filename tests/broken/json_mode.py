"""Faults at JSON mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.contract.model import ChatRequest, ChatResponse, JsonMode, JsonSchema, Message, Part, Role, Text
from tests.broken.fault import ALL, Fault, Wrap, answers, asks, edited_message, sends
from tests.broken.places import ANSWER_SCHEMA, BODY, FORMAT, RESPONSE_TEXT, TEXT

NATIVE = ALL[1:]
"""Targets with a switch for JSON without a schema."""


def schemas(edit: Callable[[dict[str, Any]], Any]) -> Wrap:
    """Every schema inside the response schema is changed on its way."""

    def ask(request: ChatRequest) -> ChatRequest:
        wanted = request.response_format
        if not isinstance(wanted, JsonSchema):
            return request
        return replace(request, response_format=replace(wanted, schema=each_schema(wanted.schema, edit)))

    return asks(ask)


def each_schema(schema: Any, edit: Callable[[dict[str, Any]], Any]) -> Any:
    """A schema with `edit` applied to each object in it, inner ones first."""
    if isinstance(schema, dict):
        inner = {key: each_schema(item, edit) for key, item in cast("dict[str, Any]", schema).items()}
        return edit(inner)
    if isinstance(schema, list):
        return [each_schema(item, edit) for item in cast("list[Any]", schema)]
    return schema


def without(*keywords: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda schema: {key: item for key, item in schema.items() if key not in keywords}


def not_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The null is dropped from the types and from the choices."""
    types, choices = schema.get("type"), schema.get("anyOf")
    if isinstance(choices, list):
        return next(choice for choice in cast("list[dict[str, Any]]", choices) if choice != {"type": "null"})
    if isinstance(types, list):
        return {**schema, "type": next(name for name in cast("list[str]", types) if name != "null")}
    return schema


def all_required(schema: dict[str, Any]) -> dict[str, Any]:
    """Every property is required, and none is nullable for it."""
    properties = schema.get("properties")
    return {**schema, "required": list(properties)} if schema.get("type") == "object" and properties else schema


def texts(edit: Callable[[str], str]) -> Callable[[ChatResponse], ChatResponse]:
    def edited(part: Part) -> Part:
        return replace(part, text=edit(part.text)) if isinstance(part, Text) else part

    return lambda response: replace(response, message=edited_message(response.message, edited))


def _fenced(text: str) -> str:
    return f"```json\n{text}\n```" if text.startswith(("{", "[")) else text


def _asked_in_words(request: ChatRequest) -> ChatRequest:
    """The wish for JSON is appended to what the user said."""
    if request.response_format is None:
        return request
    last = request.messages[-1]
    if not last.text:
        return request
    changed = replace(last, parts=(Text(last.text + "\nAnswer in JSON."),))
    return replace(request, messages=(*request.messages[:-1], changed))


def _prefilled(request: ChatRequest) -> ChatRequest:
    """The beginning of the answer, put into the model's mouth."""
    if request.response_format is None:
        return request
    return replace(request, messages=(*request.messages, Message(Role.ASSISTANT, (Text("{"),))))


def _only_without_history(request: ChatRequest) -> ChatRequest:
    return replace(request, response_format=None) if len(request.messages) > 1 else request


def _without_instruction(_api: str, body: dict[str, Any]) -> None:
    body.pop("system", None)


FAULTS = (
    Fault(
        "json-mode-ignored", asks(lambda r: replace(r, response_format=None)), "json-mode", "json-mode-ignored", BODY, 0
    ),
    Fault(
        "json-schema-ignored",
        asks(lambda r: replace(r, response_format=None)),
        "json-schema",
        "json-mode-ignored",
        BODY,
        0,
    ),
    Fault(
        "json-schema-as-json-mode",
        asks(lambda r: replace(r, response_format=r.response_format and JsonMode())),
        "json-schema",
        "json-mode-ignored",
        FORMAT,
        0,
        NATIVE,
    ),
    Fault(
        "json-schema-as-instruction",
        asks(lambda r: replace(r, response_format=r.response_format and JsonMode())),
        "json-schema",
        "json-mode-ignored",
        BODY,
        0,
        ("anthropic",),
    ),
    Fault(
        "json-ignored-with-tools",
        asks(lambda r: replace(r, response_format=None) if r.tools else r),
        "json-with-tools",
        "json-mode-ignored",
        BODY,
        0,
        ALL[:-1],
    ),
    Fault(
        "json-ignored-after-tools",
        asks(_only_without_history),
        "json-after-tool-loop",
        "json-mode-ignored",
        BODY,
        1,
        ALL[:-1],
    ),
    Fault(
        "json-mode-without-its-word",
        sends(_without_instruction),
        "json-mode-unmentioned",
        "json-mode-ignored",
        BODY,
        0,
        ("anthropic",),
    ),
    Fault(
        "json-always",
        asks(
            lambda r: replace(
                r, response_format=JsonSchema({"type": "object", "properties": {}, "additionalProperties": False})
            )
        ),
        "json-mode-for-one-turn",
        "json-mode-uninvited",
        FORMAT,
        0,
    ),
    Fault("json-asked-in-the-users-words", asks(_asked_in_words), "json-mode-unmentioned", "text-changed", TEXT, 0),
    Fault(
        "json-schema-enums-dropped",
        schemas(without("enum")),
        "json-schema-nested",
        "json-schema-changed",
        ANSWER_SCHEMA,
        0,
    ),
    Fault(
        "json-schema-inner-required-dropped",
        schemas(lambda s: {**s, "required": s["required"][:1]} if "required" in s else s),
        "json-schema-nested",
        "json-schema-changed",
        ANSWER_SCHEMA,
        0,
    ),
    Fault(
        "json-schema-nulls-dropped",
        schemas(not_nullable),
        "json-schema-nullable",
        "json-schema-changed",
        ANSWER_SCHEMA,
        0,
    ),
    Fault(
        "json-schema-all-required",
        schemas(all_required),
        "json-schema-optional",
        "json-schema-changed",
        ANSWER_SCHEMA,
        0,
    ),
    Fault("json-prefilled", asks(_prefilled), "json-mode", "text-changed", TEXT, 0, NATIVE),
    # this adapter knows that the model does not go on writing an answer (anthropic-no-prefill), and says so before
    # anything is sent
    Fault("json-prefilled-in-vain", asks(_prefilled), "json-mode", "declared-and-declined", None, None, ("anthropic",)),
    Fault("json-fenced", answers(texts(_fenced)), "json-schema", "json-answer", RESPONSE_TEXT, 0),
    Fault("json-mode-fenced", answers(texts(_fenced)), "json-mode", "json-answer", RESPONSE_TEXT, 0),
)
