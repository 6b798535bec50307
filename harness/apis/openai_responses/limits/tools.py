"""What the provider refuses in `tools` and `tool_choice`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.openai_responses import limits
from harness.apis.openai_responses.limits.refusals import MISSING, WRONG_TYPE, WRONG_VALUE, parameter
from harness.apis.openai_responses.limits.schemas import array_faults, invalid, strict_faults
from harness.apis.openai_responses.limits.shapes import name_limits
from harness.apis.openai_responses.requests.items import string
from harness.contract.model import JSON

_UNIONS = ("oneOf", "anyOf", "allOf")
_MODES = ("auto", "none", "required")
_SCHEMA_CODE = "invalid_function_parameters"
_FUNCTION = (
    *("type", "name", "description", "parameters", "strict"),
    *("allowed_callers", "async", "defer_loading", "output_schema"),
)
"""The fields of a function (O/types/responses/function_tool_param.py)."""


def tool_limits(body: dict[str, JSON], law: Law) -> Iterator[Violation]:
    """What is refused in the tools that a request declares, and in the choice among them."""
    declared = list(_declared(body))
    by_itself = _by_itself(own=law.is_own)
    for tools, pointer in _lists(body):
        for found in by_itself(tools, pointer):
            yield from found
    yield from _duplicates([(pointer, tool) for pointer, tool in declared if pointer.count("/") == 2])
    yield from _choice(body.get("tool_choice"), declared)


def _declared(body: dict[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Every declaration with its pointer: those of the request, of namespaces, and of `additional_tools` items."""
    for tools, pointer in _lists(body):
        for place, tool in _listed(tools, pointer):
            yield from _members(tool, place)


def _lists(body: dict[str, JSON]) -> Iterator[tuple[JSON, str]]:
    yield body.get("tools"), "/tools"
    entries = body.get("input")
    for index, item in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(item, dict) and item.get("type") == "additional_tools":
            yield item.get("tools"), join("/input", index, "tools")


def _members(tool: JSON, pointer: str) -> Iterator[tuple[str, JSON]]:
    yield pointer, tool
    if isinstance(tool, dict) and tool.get("type") == "namespace":
        yield from _listed(tool.get("tools"), join(pointer, "tools"))


def _listed(tools: JSON, pointer: str) -> Iterator[tuple[str, JSON]]:
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield join(pointer, index), tool


@cache
def _by_itself(*, own: bool) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is refused in each tool, and in those of a namespace, told once though all requests of a conversation repeat
    it."""

    def of(tool: JSON, pointer: str) -> Sequence[Violation]:
        return [found for place, member in _members(tool, pointer) for found in _tool(member, place, own=own)]

    return entrywise(of)


def _tool(tool: JSON, pointer: str, *, own: bool) -> Iterator[Violation]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(kind, str):
        text = f"Missing required parameter: '{parameter(pointer)}.type'."
        yield limits.TOOL_SHAPE.broken(text, pointer, code=MISSING, actual=tool)
    elif kind in ("function", "custom"):
        name, place = tool.get("name"), join(pointer, "name")
        if not isinstance(name, str):
            text = f"Missing required parameter: '{parameter(place)}'."
            yield limits.TOOL_SHAPE.broken(text, pointer, code=MISSING, actual=tool)
        yield from name_limits(name, place, limits.TOOL_NAME)
        if kind == "function":
            yield from _function(tool, pointer, own=own)


def _function(tool: dict[str, JSON], pointer: str, *, own: bool) -> Iterator[Violation]:
    name, schema, place = string(tool.get("name")) or "", tool.get("parameters"), join(pointer, "parameters")
    description, strict = tool.get("description"), tool.get("strict")
    for key, value, kind in (("description", description, str), ("strict", strict, bool)):
        if value is not None and not isinstance(value, kind):
            text = f"Invalid type for '{parameter(pointer)}.{key}'."
            yield limits.TOOL_SHAPE.broken(text, join(pointer, key), code=WRONG_TYPE, actual=value)
    if "strict" not in tool and isinstance(tool.get("name"), str) and _is_made_strict(schema, place):
        text = f"Without 'strict' the API makes the schema of '{name}' strict where it can: say whether it is."
        yield limits.TOOL_STRICT_UNSAID.broken(text, pointer)
    yield from _unknown_fields(tool, pointer) if own and name else ()
    if schema is not None:
        yield from _parameters(schema, name, place, own=own, strict=strict is True)


def _unknown_fields(tool: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    for key, value in tool.items():
        if key not in _FUNCTION and value is not None:
            at = join(pointer, key)
            text = f"Unknown parameter: '{parameter(at)}'."
            yield limits.TOOL_FIELD.broken(text, at, code="unknown_parameter", actual=key)


def _parameters(schema: JSON, name: str, place: str, *, own: bool, strict: bool) -> Iterator[Violation]:
    fault = _root_fault(schema)
    if _is_untyped_union(schema):
        text = f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'None'."
        yield limits.TOOL_SCHEMA_UNION.broken(text, place, code=_SCHEMA_CODE, actual=schema)
    elif fault is not None:
        text = f"Invalid schema for function '{name}': {fault}"
        yield limits.TOOL_SCHEMA.broken(text, place, code=_SCHEMA_CODE, actual=schema)
    else:
        for where, reason in invalid(schema, place) if own else ():
            text = f"Invalid schema for function '{name}': {reason}."
            yield limits.TOOL_SCHEMA.broken(text, where, code=_SCHEMA_CODE, source="openai-responses-schema-valid")
        for where, sentence in array_faults(schema, place) if own else ():
            text = f"Invalid schema for function '{name}': {sentence}"
            yield limits.TOOL_ARRAY_ITEMS.broken(text, where, code=_SCHEMA_CODE)
        for where, sentence in strict_faults(schema, place) if strict else ():
            text = f"Invalid schema for function '{name}': {sentence}"
            yield limits.TOOL_STRICT_SCHEMA.broken(text, where, code=_SCHEMA_CODE)


def _is_made_strict(schema: JSON, place: str) -> bool:
    """The schema is not yet what a strict one is, so that the default changes it (openai-responses-strict-default)."""
    return schema is None or next(iter(strict_faults(schema, place)), None) is not None


def _is_untyped_union(schema: JSON) -> bool:
    return isinstance(schema, dict) and "type" not in schema and any(key in schema for key in _UNIONS)


def _root_fault(schema: JSON) -> str | None:
    if not isinstance(schema, dict):
        return f"it has to be an object, not {type(schema).__name__}."
    if schema.get("type") != "object":
        return f"its type has to be 'object', not {schema.get('type')!r}."
    if not isinstance(schema.get("properties"), dict):
        return "In context=(), the object schema lacks properties."
    return None


def _duplicates(declared: list[tuple[str, JSON]]) -> Iterator[Violation]:
    seen: set[str] = set()
    for pointer, tool in declared:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            text = f"The name '{name}' is declared twice, so that a call of it does not say which tool is meant."
            yield limits.TOOL_DUPLICATE.broken(text, join(pointer, "name"), actual=name)
        seen.add(name)


def _choice(choice: JSON, declared: list[tuple[str, JSON]]) -> Iterator[Violation]:
    pointer = "/tool_choice"
    if isinstance(choice, str) and choice not in _MODES:
        text = f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."
        yield limits.TOOL_CHOICE_SHAPE.broken(text, pointer, code=WRONG_VALUE, actual=choice)
    elif isinstance(choice, dict):
        yield from _choice_object(choice, {_name(tool) for _, tool in declared})
    if not declared and (choice == "required" or isinstance(choice, dict)):
        text = "A tool choice that asks for a call must be specified together with 'tools'."
        yield limits.TOOL_CHOICE_TOOLLESS.broken(text, pointer, actual=choice)


def _choice_object(choice: dict[str, JSON], names: set[str]) -> Iterator[Violation]:
    pointer, kind, name = "/tool_choice", choice.get("type"), choice.get("name")
    needed = {"function": ("name",), "custom": ("name",), "allowed_tools": ("mode", "tools")}
    if not isinstance(kind, str):
        text = "Missing required parameter: 'tool_choice.type'."
        yield limits.TOOL_CHOICE_SHAPE.broken(text, pointer, code=MISSING, actual=choice)
        return
    for key in needed.get(kind, ()):
        if choice.get(key) is None:
            text = f"Missing required parameter: 'tool_choice.{key}'."
            yield limits.TOOL_CHOICE_SHAPE.broken(text, pointer, code=MISSING, actual=choice)
    if kind == "function" and isinstance(name, str) and names and name not in names:
        text = f"The tool choice '{name}' is not among the tools."
        yield limits.TOOL_CHOICE_UNKNOWN.broken(text, join(pointer, "name"), actual=name)


def _name(tool: JSON) -> str:
    return (string(tool.get("name")) or "") if isinstance(tool, dict) else ""
