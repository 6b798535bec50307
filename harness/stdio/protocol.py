"""What goes to and fro: four methods, one notification, and errors that have a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from harness.contract.errors import ChatError, ConnectionFailed, MalformedResponse, Unsupported, provider_error
from harness.contract.model import JSON, ChatRequest, ChatResponse, StreamEvent
from harness.stdio import form

PROTOCOL = 1
"""The version of all this, which `describe` is asked with."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a command says of the adapter that it is: its name, the API it speaks, what it can do."""

    name: str
    api: str
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """Where the requests go: the base URL in the form that the API's official SDK takes, and what to send as a key."""

    base_url: str
    api_key: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of `chat` and of `stream`. `model` is the one to ask where the request names none."""

    endpoint: Address
    model: str
    request: ChatRequest


@dataclass(frozen=True, slots=True)
class Failure:
    """The `data` of an error that is the provider's or the API's, rather than a crash.

    `kind` is `unsupported` (with a `feature`; nothing was sent), `connection_failed`, `malformed_response` (with the
    `status`, if there was one) or `provider_error`: `status`, the provider's own `code`, and the seconds of
    `retry_after`.
    """

    kind: str
    feature: str | None = None
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None


KINDS = ("unsupported", "connection_failed", "malformed_response", "provider_error")


def failure(adapter: str, message: str, data: JSON) -> ChatError:
    """The error of the contract that an error with `data` stands for. Raises `ValueError`: it stands for none."""
    said: Failure = form.read(Failure, data, "error.data")
    match said:
        case Failure("unsupported"):
            return Unsupported(adapter, said.feature or "this request", message)
        case Failure("connection_failed"):
            return ConnectionFailed(message)
        case Failure("malformed_response"):
            return MalformedResponse(message, said.status)
        case Failure("provider_error", status=int(status)):
            return provider_error(status, message, code=said.code, retry_after=said.retry_after)
        case Failure("provider_error"):
            raise ValueError("error.data has no 'status', which a provider_error has")
        case _:
            raise ValueError(f"error.data.kind is {said.kind!r}. Allowed: {', '.join(KINDS)}")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of every message, which ships as `protocol.schema.json`."""
    asked = form.schema(Asked)
    methods: dict[str, tuple[JSON, JSON]] = {
        "describe": ({"type": "object", "properties": {"protocol": {"const": PROTOCOL}}}, form.schema(Description)),
        "chat": (asked, form.schema(ChatResponse)),
        "stream": (asked, form.schema(ChatResponse)),
        "close": ({"type": "object", "maxProperties": 0}, {"type": "null"}),
    }
    id_: JSON = {"type": "integer"}
    requests = [
        _message({"id": id_, "method": {"const": name}, "params": params}) for name, (params, _) in methods.items()
    ]
    results = [result for name, (_, result) in methods.items() if name != "stream"]
    event: JSON = {
        "type": "object",
        "properties": {"id": id_, "event": form.schema(StreamEvent)},
        "required": ["id", "event"],
    }
    error: JSON = {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": form.schema(Failure)},
        "required": ["code", "message"],
    }
    failures: dict[str, Any] = cast("Any", form.definitions(Failure)["Failure"])
    failures["properties"]["kind"] = {"enum": list(KINDS)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "harness adapter on standard input and output",
        "description": "JSON-RPC 2.0, a message a line. A command is asked requests, and answers results and errors, "
        "and before the result of 'stream' notifications 'event'.",
        "anyOf": [
            *requests,
            _message({"id": id_, "result": {"anyOf": results}}),
            _message({"id": id_, "error": error}),
            _message({"method": {"const": "event"}, "params": event}),
        ],
        "$defs": {**form.definitions(Asked, Description, ChatResponse, StreamEvent), "Failure": failures},
    }


def _message(properties: dict[str, JSON]) -> JSON:
    every: dict[str, JSON] = {"jsonrpc": {"const": "2.0"}, **properties}
    return {"type": "object", "properties": every, "required": list(every), "additionalProperties": False}
