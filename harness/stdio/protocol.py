"""The messages between the harness and an adapter in another process, as JSON. See `harness help stdio`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Annotated, Any, cast, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from harness.model import errors
from harness.model.errors import (
    ChatError,
    ConnectionFailed,
    MalformedResponse,
    ProviderError,
    Unsupported,
    UsageError,
    provider_error,
)
from harness.model.http import Completed
from harness.model.messages import (
    JSON,
    ChatRequest,
    ChatResponse,
    JsonMode,
    JsonSchema,
    NamedTool,
    Part,
    ResponseFormat,
    StreamEvent,
    ThinkingSettings,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from harness.model.protocols import FinalCall, Requirement
from harness.model.typed_json import BY_TYPE, type_name
from harness.platform.exceptions import ExceptionOrigin, RelayedException, shorten
from harness.results import InPlaceChange
from harness.stdio.adapter_process import AdapterBroke

_UNEXPECTED = re.compile(r"field_name='(\w+)', input_value=(.*), input_type=(\w+)\]")

_CONFIG = ConfigDict(extra="forbid", ser_json_bytes="base64", ser_json_inf_nan="constants")

_UNIONS: dict[Any, Any] = {
    each: union for union in (Part, StreamEvent) for each in get_args(get_args(cast("Any", union))[0])
}
"""Maps each class with a `type` field to its union."""

_TYPES = frozenset(type_name(each) for each in _UNIONS)


def to_json(value: object, place: str = "the value") -> JSON:
    """Return a message value, such as a request, a response or an event, as JSON. Fields that have their default value
    are omitted.

    Raises:
        TypeError: The value contains something that cannot be written as JSON.
    """
    kind = next(each for each in type(value).__mro__ if is_dataclass(each) and each.__module__.startswith("harness."))
    try:
        (document,) = _adapter(_UNIONS.get(kind, kind)).dump_python(
            [value], mode="json", exclude_defaults=True, warnings="error"
        )
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise TypeError(f"{place} cannot be written as JSON: {_serialization_problem(error)}") from None
    return document


def from_json(kind: Any, document: JSON, place: str) -> Any:
    """Parse a JSON document as a value of the given kind. `place` names the document in errors.

    Raises:
        ValueError: The document is not such a value; the message names the place.
    """
    try:
        (value,) = _adapter(_UNIONS.get(kind, kind)).validate_python([document])
    except ValidationError as error:
        raise ValueError(_validation_problem(error.errors(include_url=False)[0], place)) from None
    return value


def json_schemas(kinds: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the JSON Schema of each kind, and the definitions that the schemas refer to."""
    every = [(each, "validation", _adapter(_UNIONS.get(each, each))) for each in kinds]
    found, document = TypeAdapter.json_schemas(every)  # pyright: ignore[reportArgumentType]
    definitions: dict[str, Any] = document["$defs"]
    for kind in (*_UNIONS, JsonMode, JsonSchema, NamedTool):
        described = definitions[kind.__name__]
        described["properties"] = {"type": {"const": type_name(kind)}, **described.get("properties", {})}
        described["required"] = ["type", *described.get("required", ())]
        described["description"] = " ".join((kind.__doc__ or "").split())
    for each in definitions.values():
        if "properties" in each:
            each["additionalProperties"] = False
    call, result = definitions["ToolCall"], definitions["ToolResult"]
    call["required"].remove("arguments")  # a call has `arguments` or `arguments_json`
    call["properties"]["arguments_json"] = {"type": "string", "contentMediaType": "application/json"}
    result["required"].remove("content")
    content, parts = result["properties"]["content"]["anyOf"]
    result["properties"] |= {"content": content, "parts": parts, "text": {"type": "string"}}
    return [found[each, "validation"]["items"] for each in kinds], definitions


@cache
def _adapter(kind: Any) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[kind], config=_CONFIG)  # pyright: ignore[reportInvalidTypeForm]


def _serialization_problem(error: Exception) -> str:
    text = str(error)
    found: list[tuple[str, str, str]] = _UNEXPECTED.findall(text)
    if found:
        field, value, kind = min(
            found, key=lambda each: each[2] in {kind.__name__ for kind in _UNIONS}
        )  # the value itself, not its container
        return f"{field} holds {shorten(value, 300)}, a {kind}, which is not a JSON value"
    return text.rpartition("`: ")[2].splitlines()[-1].strip()


def _validation_problem(error: ErrorDetails, place: str) -> str:
    *steps, last = [step for step in error["loc"][1:] if isinstance(step, int) or step.isidentifier()] or [""]
    names = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps if step not in _TYPES]
    parent, own = place + "".join(names), f"[{last}]" if isinstance(last, int) else f".{last}" if last else ""
    shown = shorten(json.dumps(error["input"], default=str), 200)
    match error["type"]:
        case "missing":
            return f"{parent} has no {last!r}"
        case "unexpected_keyword_argument":
            return f"{parent} has {last!r}, which is not one of its fields"
        case "union_tag_invalid" | "union_tag_not_found":
            allowed = error.get("ctx", {}).get("expected_tags", "those of the schema")
            given: Any = error["input"]
            found = json.dumps(cast("dict[str, Any]", given).get("type")) if isinstance(given, dict) else shown
            return f"{parent}{own}.type is {found}. Allowed: {allowed.replace(chr(39), '')}"
        case _:
            message = error["msg"].removeprefix("Value error, ")
            return f"{parent}{own} is {shown}: {message[0].lower()}{message[1:]}"


PROTOCOL = 1
"""The version of the protocol. It is sent as a parameter of `describe`."""


@dataclass(frozen=True, slots=True)
class DescribedEmbeddings:
    """The default model and dimensions of an adapter's embeddings."""

    model: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Description:
    """The result of `describe`: an adapter's name, API and capabilities.

    `runs_commands` is set if the adapter sends no HTTP requests but runs commands through `run`. `owns_loop` is set if
    it implements `drive` instead of `chat`, and `final_call` if its turns end with a call. `requires` is the package
    that `harness providers` checks.
    """

    name: str
    api: str
    capabilities: tuple[str, ...]
    embeddings: DescribedEmbeddings | None = None
    requires: Requirement | None = None
    runs_commands: bool = False
    owns_loop: bool = False
    final_call: FinalCall | None = None


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The base URL for requests, in the form that the API's official SDK expects, and the key to send.

    `server` is the name of the compatible server behind the URL, if it is not the provider.
    """

    base_url: str
    api_key: str
    server: str | None = None


@dataclass(frozen=True, slots=True)
class ChatParams:
    """Parameters of `chat` and `stream`. `model` is used if the request does not name a model."""

    endpoint: EndpointAddress
    model: str
    request: ChatRequest


@dataclass(frozen=True, slots=True)
class EmbedParams:
    """Parameters of `embed`. Without `texts`, the result only describes the provider."""

    endpoint: EndpointAddress
    model: str
    dimensions: int
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """The result of `embed`: the provider's name, model and dimensions, and one vector per text."""

    provider: str
    model: str
    dimensions: int
    vectors: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """A tool of a conversation. The harness runs it."""

    name: str
    description: str
    parameters: dict[str, JSON]


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user message: its parts, and the text of all parts."""

    text: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConversation:
    """A conversation for an adapter that owns its tool loop. See `harness.model.protocols.Conversation`."""

    turns: tuple[UserTurn, ...]
    tools: tuple[DescribedTool, ...] = ()
    system: str | None = None
    stream: bool = False
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = None
    thinking: ThinkingSettings | None = None
    temperature: float | None = None
    max_answers: int = 10


@dataclass(frozen=True, slots=True)
class DriveParams:
    """Parameters of `drive`."""

    endpoint: EndpointAddress
    model: str
    conversation: DescribedConversation


@dataclass(frozen=True, slots=True)
class DriveResult:
    """The result of `drive`, if the adapter has the capability `answers`: the answer of each turn, or `None`."""

    answers: tuple[ChatResponse | None, ...]


@dataclass(frozen=True, slots=True)
class ChangedParams:
    """Parameters of the notification `changed`, which reports in-place changes that the adapter
    made to request `id`.
    """

    id: int
    changes: tuple[InPlaceChange, ...]


@dataclass(frozen=True, slots=True)
class ToolParams:
    """Parameters of `tool`, which the adapter requests while it handles the `drive` request `id`."""

    id: int
    call: Annotated[ToolCall, BY_TYPE]


@dataclass(frozen=True, slots=True)
class RunParams:
    """Parameters of `run`, which the adapter requests while it handles request `id`: a command and its time limit in
    seconds.
    """

    id: int
    argv: tuple[str, ...]
    timeout: float
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    inherited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorData:
    """The `data` of an error response.

    `kind` is one of the following:

    - `unsupported`: nothing was sent, and `feature` names the unsupported feature. `adapter` names the adapter that
      declined, if it is not the one that was called.
    - `connection_failed`: there was no connection.
    - `malformed_response`: the response was invalid, and `status` is its status, if any.
    - `provider_error`: `status`, the provider's `code` and `retry_after` in seconds describe the error.
    - `chat_error`: the chat failed for another reason.
    - `unusable`: the run ends with the message.
    - `crash`: an unexpected exception, with its `traceback` and the source line in `where`.

    `outside` is set if a crash happened outside of a chat. Its cell then has the verdict error. `error` is the class of
    the exception. `origin` is the exception that caused it.
    """

    kind: str
    feature: str | None = None
    adapter: str | None = None
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None
    error: str | None = None
    where: str = ""
    traceback: str = ""
    origin: ExceptionOrigin | None = None
    outside: bool = False


KINDS = (
    "unsupported",
    "connection_failed",
    "malformed_response",
    "provider_error",
    "chat_error",
    "unusable",
    "crash",
)


def exception_for(adapter: str, message: str, data: JSON) -> BaseException:
    """Return the exception for an error response. Its `__cause__` is the original exception.

    Raises:
        ValueError: The data is invalid.
    """
    details: ErrorData = from_json(ErrorData, data, "error.data")
    if details.kind == "crash" and details.outside:
        return AdapterBroke(f"{details.error}: {message}{details.where}", details.traceback)
    relayed = None
    if details.origin is not None or details.kind == "crash":
        name = details.error or "Error"
        found = details.origin or ExceptionOrigin("the adapter", name, message, details.where)
        relayed = RelayedException(name, message, details.where, details.traceback, found)
        if details.kind == "crash":
            return relayed
    error = _error(adapter, message, details)
    error.__cause__ = relayed
    return error


def _error(adapter: str, message: str, details: ErrorData) -> Exception:
    match details:
        case ErrorData("unsupported"):
            return Unsupported(details.adapter or adapter, details.feature or "this request", message)
        case ErrorData("connection_failed"):
            return ConnectionFailed(message)
        case ErrorData("malformed_response"):
            return MalformedResponse(message, details.status)
        case ErrorData("provider_error", status=int(status)):
            kind = getattr(errors, details.error or "", None)
            if isinstance(kind, type) and issubclass(kind, ProviderError):
                return kind(status, message, details.code, details.retry_after)
            return provider_error(status, message, code=details.code, retry_after=details.retry_after)
        case ErrorData("provider_error"):
            raise ValueError("error.data has no 'status', which a provider_error has")
        case ErrorData("chat_error"):
            return ChatError(message)
        case ErrorData("unusable"):
            return UsageError(message)
        case _:
            raise ValueError(f"error.data.kind is {details.kind!r}. Allowed: {', '.join(KINDS)}")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of every message."""
    kinds = (
        ChatParams,
        Description,
        ChatResponse,
        StreamEvent,
        ErrorData,
        EmbedParams,
        EmbeddingSpace,
        DriveParams,
        ChangedParams,
        DriveResult,
    )
    more = (ToolParams, RunParams, ToolResult, Completed)
    found, definitions = json_schemas([*kinds, *more])
    chat, described, response, event, failed, embedding, space, driving, changed, driven, *rest = found
    tool, command, result, completed = rest
    number: JSON = {"type": "integer"}
    own: JSON = {"type": ["integer", "string"]}
    none: JSON = {"type": "object", "maxProperties": 0}
    first: JSON = {"type": "object", "properties": {"protocol": {"const": PROTOCOL}}}
    requests = {
        "describe": first,
        "chat": chat,
        "stream": chat,
        "embed": embedding,
        "drive": driving,
        "close": none,
    }
    event_params: JSON = {"type": "object", "properties": {"id": number, "event": event}, "required": ["id", "event"]}
    error: JSON = {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": failed},
        "required": ["code", "message"],
    }
    reasons: JSON = {"errno": {"type": ["integer", "null"]}, "timed_out": {"type": "boolean"}}
    unable: JSON = {
        "type": "object",
        "properties": {
            "code": {"type": "integer"},
            "message": {"type": "string"},
            "data": {"type": "object", "properties": reasons, "additionalProperties": False},
        },
        "required": ["code", "message"],
    }
    definitions["ErrorData"]["properties"]["kind"] = {"enum": list(KINDS)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "harness adapter on standard input and output",
        "description": "JSON-RPC 2.0, one message per line. A command receives requests and returns results or "
        "errors. Before the result it may send notifications, and requests of its own: 'tool' and 'run'.",
        "anyOf": [
            *(_message({"id": number, "method": {"const": name}, "params": of}) for name, of in requests.items()),
            _message({"id": number, "result": {"anyOf": [described, response, space, driven, {"type": "null"}]}}),
            _message({"id": number, "error": error}),
            _message({"method": {"const": "event"}, "params": event_params}),
            _message({"method": {"const": "changed"}, "params": changed}),
            _message({"id": own, "method": {"const": "tool"}, "params": tool}),
            _message({"id": own, "method": {"const": "run"}, "params": command}),
            _message({"id": own, "result": {"anyOf": [result, completed]}}),
            _message({"id": own, "error": unable}),
        ],
        "$defs": definitions,
    }


def _message(properties: dict[str, JSON]) -> JSON:
    every: dict[str, JSON] = {"jsonrpc": {"const": "2.0"}, **properties}
    return {"type": "object", "properties": every, "required": list(every), "additionalProperties": False}
