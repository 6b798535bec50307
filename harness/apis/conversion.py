"""Conversion of requests to and from canonical values: minimal requests, request builders, canonical readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.jsonvalue import as_list, as_object, resolve
from harness.apis.view import (
    CallView,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    RequestView,
    ResultView,
    SystemView,
    TextView,
    ToolView,
)
from harness.model.http import HttpRequest
from harness.model.messages import JSON, ChatRequest, File, Image, Opaque, Text, Tool, ToolResult


@dataclass(frozen=True, slots=True)
class MinimalRequest:
    """A cheap, non-streamed chat that the provider accepts.

    `path` is appended to the SDK's base URL; `{}` in it is replaced by the model. `body` has the required fields and
    limits the length of the response. The key is sent in `key_header`, with the prefix `scheme`; `headers` are
    additional headers. `model` is the model for examples whose fact names none; few facts apply to it.
    """

    path: str
    body: Mapping[str, JSON]
    key_header: str
    scheme: str = ""
    model: str = "a-model"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def with_key(self, request: HttpRequest, key: str) -> HttpRequest:
        """Return the request with this API key in its header."""
        headers = {**request.headers, self.key_header: self.scheme + key}
        return HttpRequest(request.method, request.url, headers, request.body)


WireBody: TypeAlias = dict[str, JSON]

AnsweredCall: TypeAlias = tuple[CallView, Mapping[str, JSON]]
"""A call of a response, and the value that its tool returned."""


@dataclass(frozen=True, slots=True)
class RequestBuilder:
    """Builds the wire requests of an API.

    - `path` and `stream_path`: paths below the SDK's base URL; `{}` in them is replaced by the model.
    - `write(request, bound)`: the body of a non-streamed request; the field `bound` limits the length of the response.
    - `bounds`: names of the fields that can be `bound`, in order of preference.
    - `streaming`: fields that request a stream.
    - `conversation`: the field that contains the conversation.
    - `continuation(answer, results)`: conversation entries for an unchanged response and the results of its calls.
    - `user_entry(text)`: the conversation entry for a user message.
    - `one_call(body)`: the request with at most one call per response (`None`: the API has no setting for it).
    - `parted(body)`: the request with each user text wrapped in a list of parts (`None`: `write` always does this).
    - `plain(body)`: the request with each single-text message as a string (`None`: `write` never produces lists, or the
      API does not accept strings).
    - `developer(body)`: the request with the system prompt as a developer message (`None`: the API has none).
    - `takes_entries`: set if API-specific parts are entries of the conversation. Otherwise they are parts of a message.
    - `keeps_schemas`: the calls whose arguments are guaranteed to match the schema, `strict` (calls of strict tools) or
      `forced` (forced calls).
    - `stop_sequences`: set if a request can list strings at which the response stops.
    - `exact_integers`: set if integers beyond the range of a double arrive unchanged.
    """

    path: str
    stream_path: str
    bounds: tuple[str, ...]
    write: Callable[[ChatRequest, str], WireBody]
    continuation: Callable[[JSON, Sequence[AnsweredCall]], Sequence[JSON]]
    conversation: str = "messages"
    user_entry: Callable[[str], JSON] = lambda text: {"role": "user", "content": text}
    streaming: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    one_call: Callable[[WireBody], WireBody] | None = None
    parted: Callable[[WireBody], WireBody] | None = None
    plain: Callable[[WireBody], WireBody] | None = None
    developer: Callable[[WireBody], WireBody] | None = None
    takes_entries: bool = False
    keeps_schemas: str = "strict"
    stop_sequences: bool = True
    exact_integers: bool = True

    def append_answer(self, body: WireBody, answer: JSON, results: Sequence[AnsweredCall]) -> WireBody:
        """Return the request with an unchanged response and the results of its calls appended to the conversation."""
        return {**body, self.conversation: [*as_list(body[self.conversation]), *self.continuation(answer, results)]}

    def append_text(self, body: WireBody, text: str) -> WireBody:
        """Return the request with another user message appended to the conversation."""
        return {**body, self.conversation: [*as_list(body[self.conversation]), self.user_entry(text)]}


ContentPart: TypeAlias = Text | Image | File | Opaque
"""A part of a user message or a tool result."""


@dataclass(frozen=True, slots=True)
class SystemText:
    """System text at the start of a request.

    `text` is the first text in canonical form. Further texts are kept unchanged in wire format: in `metadata` as fields
    of the request body, or in `opening` as conversation entries.
    """

    text: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    opening: tuple[JSON, ...] = ()


class CanonicalReader(ABC):
    """Reads canonical values from one request. A subclass reads the fields that the view does not contain.

    Fields without a canonical equivalent go into the `provider_metadata` of their part. Parts without one become
    `Opaque`, and hosted tools go into the `provider_metadata` of the request.
    """

    api: str

    def __init__(self, body: JSON, view: RequestView) -> None:
        self._body = body
        self.view = view

    @abstractmethod
    def system(self) -> SystemText:
        """Return the system text before the conversation."""

    @abstractmethod
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        """Return a canonical result for the call with this id and tool name."""

    @abstractmethod
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        """Return the fields of a function declaration that have no canonical equivalent."""

    @abstractmethod
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        """Return the fields of a content part that have no canonical equivalent. Return `None` if the part as a whole
        has no canonical equivalent.
        """

    def hosted_metadata(self) -> Mapping[str, JSON]:
        """Return the fields of a request's body that declare the hosted tools."""
        return {"tools": [self.raw(tool) for tool in self.hosted]} if self.hosted else {}

    @property
    def functions(self) -> tuple[ToolView, ...]:
        """The function tools, without hosted tools."""
        inside = tuple(f"{tool.pointer}/" for tool in self.hosted)
        return tuple(
            tool for tool in self.view.tools if tool.kind == "function" and not tool.pointer.startswith(inside)
        )

    @property
    def hosted(self) -> tuple[ToolView, ...]:
        """The tools that the provider runs."""
        return tuple(tool for tool in self.view.tools if tool.kind != "function")

    def tools(self) -> tuple[Tool, ...]:
        """Return the functions as canonical tools."""
        return tuple(map(self._tool, self.functions))

    def part(self, view: TextView | MediaView | OpaqueView | JsonView) -> ContentPart:
        """Convert the view of a part of a user message or a tool result to a canonical part."""
        raw = self.raw(view)
        match view:
            case TextView():
                fields = self._bare(raw, view) if isinstance(raw, dict) else None
                return Text(view.text, self._metadata(fields))
            case MediaView(media_type=str(media_type)) if isinstance(raw, dict):
                fields = self._bare(raw, view)
                if fields is not None:
                    kind = Image if media_type.startswith("image/") else File
                    return kind(media_type, view.data, view.uri, self._metadata(fields))
            case _:
                pass
        return Opaque(self.api, raw)

    def raw(self, view: PartView | JsonView | SystemView | ToolView) -> JSON:
        """Return the wire object of a view. For text, this is the part that contains it."""
        pointer = view.pointer
        return resolve(
            self._body, pointer.removesuffix("/text") if isinstance(view, TextView | SystemView) else pointer
        )

    def entries(self, texts: Iterable[SystemView]) -> tuple[JSON, ...]:
        """Return the conversation entries that contain these system texts, each entry once."""
        places = dict.fromkeys("/".join(text.pointer.split("/")[:3]) for text in texts)
        return tuple(resolve(self._body, place) for place in places)

    def _result(  # noqa: PLR0913 - the parts of a result
        self, view: ResultView, call_id: str, name: str, field: str, taken: Sequence[str], *, is_error: bool = False
    ) -> ToolResult:
        """Return a result whose content is in `field`. The fields in `taken` have a canonical equivalent, so they are
        not kept as metadata.
        """
        raw = as_object(self.raw(view))
        content = raw.get(field)
        parts = tuple(self.part(part) for part in view.payload)
        kept = self._metadata(without(raw, field, *taken))
        value = content if isinstance(content, str) else parts
        return ToolResult(call_id, name, value, is_error=is_error, provider_metadata=kept)

    def _tool(self, tool: ToolView) -> Tool:
        raw = self.raw(tool)
        parameters = _json_schema(tool.parameters) if tool.dialect == "openapi" else tool.parameters
        fields = self._function(raw) if isinstance(raw, dict) else {}
        return Tool(tool.name, tool.description or "", as_object(parameters), self._metadata(fields))

    def _metadata(self, fields: Mapping[str, JSON] | None) -> dict[str, JSON]:
        return {self.api: dict(fields)} if fields else {}


def _json_schema(schema: JSON) -> JSON:
    """Convert a schema of the OpenAPI dialect to JSON Schema: `nullable` becomes a type (gemini-schema-fields)."""
    if not isinstance(schema, dict):
        return schema
    plain = {key: _keyword(key, value) for key, value in schema.items() if key != "nullable"}
    if schema.get("nullable") is True and "type" in plain:
        plain["type"] = [plain["type"], "null"]
    return plain


def _keyword(key: str, value: JSON) -> JSON:
    match key, value:
        case "properties", dict():
            return {name: _json_schema(member) for name, member in value.items()}
        case "anyOf", list():
            return [_json_schema(option) for option in value]
        case "items", _:
            return _json_schema(value)
        case _:
            return value


def without(raw: Mapping[str, JSON], *keys: str) -> dict[str, JSON]:
    """Return an object without these fields."""
    return {key: value for key, value in raw.items() if key not in keys}
