"""From the wire to canonical values, by the witness: what stands around a recorded answer, for an adapter to be given.

Nothing here has seen an adapter's encoder. What has no canonical place is kept as the model says: fields of a part in
its `provider_metadata`, whole parts as `Opaque`, tools that the provider runs in the request's `provider_metadata`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.jsonvalue import resolve
from harness.apis.view import (
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
from harness.contract.model import JSON, File, Image, Opaque, Text, Tool, ToolResult

Content: TypeAlias = Text | Image | File | Opaque
"""What a user says or a tool answers, part by part."""


@dataclass(frozen=True, slots=True)
class System:
    """System text: the canonical one, and what stands beside it at the start of the conversation, verbatim.

    `metadata` are fields of the request's body, `opening` entries of the conversation.
    """

    text: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    opening: tuple[JSON, ...] = ()


class Lift(ABC):
    """Reads canonical values off one request. A subclass knows where its API keeps what the view does not hold."""

    api: str

    def __init__(self, body: JSON, view: RequestView) -> None:
        self._body = body
        self.view = view

    @abstractmethod
    def system(self) -> System:
        """The system text that stands before the conversation."""

    @abstractmethod
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        """A result, as the answer to a canonical call."""

    @abstractmethod
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        """The fields of a function's declaration that have no canonical place."""

    @abstractmethod
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        """The fields of a content part that have no canonical place, `None` if the part has no canonical form."""

    def hosted_metadata(self) -> Mapping[str, JSON]:
        """The fields of a request's body that declare the hosted tools."""
        return {"tools": [self.raw(tool) for tool in self.hosted]} if self.hosted else {}

    @property
    def functions(self) -> tuple[ToolView, ...]:
        """The functions that are declared by themselves, not inside a hosted tool."""
        inside = tuple(f"{tool.pointer}/" for tool in self.hosted)
        return tuple(
            tool for tool in self.view.tools if tool.kind == "function" and not tool.pointer.startswith(inside)
        )

    @property
    def hosted(self) -> tuple[ToolView, ...]:
        """The tools that the provider runs or looks into."""
        return tuple(tool for tool in self.view.tools if tool.kind != "function")

    def tools(self) -> tuple[Tool, ...]:
        """The functions as canonical tools."""
        return tuple(map(self._tool, self.functions))

    def part(self, view: TextView | MediaView | OpaqueView | JsonView) -> Content:
        """A part of what a user says or a tool answers."""
        raw = self.raw(view)
        match view:
            case TextView():
                fields = self._bare(raw, view) if isinstance(raw, dict) else None
                return Text(view.text, self._kept(fields))
            case MediaView(media_type=str(media_type)) if isinstance(raw, dict):
                fields = self._bare(raw, view)
                if fields is not None:
                    kind = Image if media_type.startswith("image/") else File
                    return kind(media_type, view.data, view.uri, self._kept(fields))
            case _:
                pass
        return Opaque(self.api, raw)

    def raw(self, view: PartView | JsonView | SystemView | ToolView) -> JSON:
        """The wire object that a view was read from; of text the part that holds it."""
        pointer = view.pointer
        return resolve(
            self._body, pointer.removesuffix("/text") if isinstance(view, TextView | SystemView) else pointer
        )

    def entries(self, texts: Iterable[SystemView]) -> tuple[JSON, ...]:
        """The whole entries of the conversation that hold these system texts, each once."""
        places = dict.fromkeys("/".join(text.pointer.split("/")[:3]) for text in texts)
        return tuple(resolve(self._body, place) for place in places)

    def _tool(self, tool: ToolView) -> Tool:
        raw = self.raw(tool)
        parameters = _json_schema(tool.parameters) if tool.dialect == "openapi" else tool.parameters
        fields = self._function(raw) if isinstance(raw, dict) else {}
        return Tool(
            tool.name, tool.description or "", parameters if isinstance(parameters, dict) else {}, self._kept(fields)
        )

    def _kept(self, fields: Mapping[str, JSON] | None) -> dict[str, JSON]:
        return {self.api: dict(fields)} if fields else {}


def _json_schema(schema: JSON) -> JSON:
    """A schema of the OpenAPI dialect, types in lower case, as JSON Schema: `nullable` is a type
    (gemini-schema-fields)."""
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
    """An object without some of its fields."""
    return {key: value for key, value in raw.items() if key not in keys}
