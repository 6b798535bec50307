"""Outline of a request: its content in neutral terms, line by line, for comparing the requests of two APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    RequestView,
    ResultView,
    TextView,
    ToolView,
)
from harness.equivalence.request_meaning import normal_form, pair_results
from harness.equivalence.result_meaning import carries
from harness.equivalence.schema_changes import apart
from harness.model.messages import JSON, ChatRequest, JsonSchema, ToolCall, ToolResult

OutlineLine: TypeAlias = tuple[str, str, str]
"""A label, the value, and its pointer in the body. Two requests with the same meaning have equal labels and values."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Values that the caller gave. `results` are those that arrived, by their pointers in the body."""

    schemas: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    response_schema: JSON = None
    results: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of(view: RequestView, given: ChatRequest | None) -> _Given:
        if given is None:
            return _Given()
        parts = [part for message in given.messages for part in message.parts]
        numbers = {part.id: number for number, part in enumerate(each for each in parts if isinstance(each, ToolCall))}
        results = {numbers.get(part.call_id): part for part in parts if isinstance(part, ToolResult)}
        arrived = {
            part.pointer: results[number].text
            for number, found in enumerate(pair_results(view).results)
            for part in found
            if number in results and carries(part, results[number], view) and not _has_media(part)
        }
        wanted = given.response_format
        schemas: dict[str, JSON] = {tool.name: tool.parameters for tool in given.tools}
        return _Given(schemas, wanted.schema if isinstance(wanted, JsonSchema) else None, arrived)


def _has_media(result: ResultView) -> bool:
    return any(isinstance(part, MediaView) for part in result.payload)


def outline(view: RequestView, given: ChatRequest | None = None) -> Iterator[OutlineLine]:
    """Yield the lines of a request.

    Calls are numbered, because each API issues other ids. `given` is the caller's request. Schemas and results that
    are equivalent to the given ones are shown as given.
    """
    request, told = normal_form(view), _Given.of(view, given)
    pairing = pair_results(request)
    numbers = {id(call): number for number, call in enumerate(pairing.calls, 1)}
    numbers |= {id(each): number for number, found in enumerate(pairing.results, 1) for each in found}
    for part in request.system:
        place = f", before message {part.before_turn + 1}" if part.before_turn else ""
        yield f"system prompt{place}", part.text, part.pointer
    for at, turn in enumerate(request.turns, 1):
        for each in turn.parts:
            label, value = _part(each, numbers.get(id(each)))
            result = told.results.get(each.pointer) if isinstance(each, ResultView) else None
            yield f"message {at} ({turn.role}): {label}", value if result is None else result, each.pointer
    for tool in request.tools:
        yield from _tool(tool, told.schemas)
    if request.tool_choice is not None:
        yield "tool choice", _choice(request.tool_choice), request.tool_choice.pointer
    if request.response_format is not None:
        yield from _format(request.response_format, told.response_schema)
    for name, setting in sorted(request.settings.items()):
        yield name, _text(setting.value), setting.pointer
    if request.effort is not None and request.effort.pointer not in {
        each.pointer for each in request.settings.values()
    }:
        yield "reasoning effort", _text(request.effort.value), request.effort.pointer
    if request.stateful is not None:
        yield "state kept by the server", request.stateful, f"/{request.stateful}"


def _part(part: PartView | JsonView, number: int | None) -> tuple[str, str]:
    match part:
        case TextView():
            return "text", part.text
        case CallView():
            return f"call {number} of {part.name}", _text(part.arguments) if part.malformed is None else part.malformed
        case ResultView():
            mark = ", marked as an error" if part.error_mark else ""
            of = f"result of call {number}" if number is not None else "result of no call"
            return f"{of}{mark}", "\n".join(_part(each, None)[1] for each in part.payload)
        case MediaView():
            where = part.uri if part.data is None else f"{len(part.data)} bytes"
            return "media", f"{part.media_type or 'of no type'}, {where}"
        case JsonView():
            return "JSON", _text(part.value)
        case OpaqueView():
            return part.kind, "(only this API has such a part)" if part.returns else _text(part.raw)


def _tool(tool: ToolView, schemas: Mapping[str, JSON]) -> Iterator[OutlineLine]:
    if tool.kind != "function":
        yield f"tool {tool.name}", f"of the provider: {tool.kind}", tool.pointer
        return
    yield f"tool {tool.name}: description", tool.description or "", tool.pointer
    yield f"tool {tool.name}: parameters", _schema(tool, tool.parameters, schemas.get(tool.name)), tool.pointer


def _format(wanted: FormatView, given: JSON) -> Iterator[OutlineLine]:
    yield "response format", wanted.kind, wanted.pointer
    if wanted.schema is not None:
        yield "response format: schema", _schema(wanted, wanted.schema, given), wanted.schema_pointer


def _schema(owner: ToolView | FormatView, schema: JSON, given: JSON) -> str:
    same = given is not None and apart(given, schema, "json-schema", owner.dialect) is None
    return _text(given if same else schema)


def _choice(choice: ChoiceView) -> str:
    allowed = f", of {', '.join(choice.allowed)}" if choice.allowed is not None else ""
    return f"{choice.name or choice.mode}{allowed}"


def _text(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
