"""Tools and the choice among them (openai-chat-names, openai-chat-tools-form, openai-chat-choice-needs-tools,
openai-chat-strict-schema)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.apis.openai_chat.limits import schemas
from harness.apis.openai_chat.limits.chat import Chat, param, shown, type_name
from harness.apis.openai_chat.limits.messages import NAME
from harness.contract.model import JSON

_CHOICES = ("none", "auto", "required")
_MOST_TOOLS = 128
_UNIONS = ("oneOf", "anyOf", "allOf")
_FUNCTION = ("name", "description", "parameters", "strict")
"""The fields of a function (O/types/shared_params/function_definition.py)."""
_CHOICE_TYPES = ("function", "custom", "allowed_tools")


def violations(chat: Chat) -> Iterator[Violation]:
    """What is wrong with the tools, and with the choice among them."""
    tools = chat.body.get("tools")
    if tools is not None and (not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools)):
        yield limits.TOOLS_TYPE.broken(
            "Invalid type for 'tools': expected an array of objects.", "/tools", actual=tools, code="invalid_type"
        )
    elif tools == [] and chat.openai:
        yield limits.TOOLS_EMPTY.broken(
            "Invalid 'tools': empty array. Leave the field out instead.", "/tools", code="empty_array"
        )
    elif isinstance(tools, list) and len(tools) > _MOST_TOOLS and chat.openai:
        yield limits.TOOLS_MANY.broken(
            f"Invalid 'tools': array too long. Expected an array with maximum length {_MOST_TOOLS}, but got an array "
            f"with length {len(tools)} instead.",
            "/tools",
            actual=len(tools),
            expected=_MOST_TOOLS,
            code="array_above_max_length",
        )
    names: set[str] = set()
    for index, found in enumerate(_by_itself(openai=chat.openai)(tools, "/tools")):
        yield from found
        tool = tools[index] if isinstance(tools, list) else None
        if isinstance(tool, dict):
            yield from _repeated(tool, join("/tools", index), names)
    yield from _choice(chat)


@cache
def _by_itself(*, openai: bool) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is wrong with each tool, told once though all requests of a conversation repeat it."""

    def of(tool: JSON, pointer: str) -> Sequence[Violation]:
        return [*_tool(tool, pointer, openai=openai)] if isinstance(tool, dict) else ()

    return entrywise(of)


def _tool(tool: dict[str, JSON], pointer: str, *, openai: bool) -> Iterator[Violation]:
    kind = tool.get("type")
    if openai and kind not in ("function", "custom"):
        yield limits.TOOL_TYPE.broken(
            f"Invalid value for '{param(pointer)}.type': {shown(kind)}. Supported are: function, custom.",
            join(pointer, "type") if "type" in tool else pointer,
            actual=kind,
            code="invalid_value",
        )
    if kind not in (None, "function"):
        return  # a custom tool, or one that a compatible server brings along
    function, place = tool.get("function"), join(pointer, "function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str):
        yield limits.TOOL_NAME_MISSING.broken(
            f"Missing required parameter: '{param(place)}.name'.",
            place if "function" in tool else pointer,
            actual=function,
            code="missing_required_parameter",
        )
        return
    if not NAME.fullmatch(name):
        at = join(place, "name")
        yield limits.TOOL_NAME.broken(
            f"Invalid '{param(at)}': expected at most 64 characters that match the pattern '^[a-zA-Z0-9_-]+$'.",
            at,
            actual=name,
            expected="^[a-zA-Z0-9_-]{1,64}$",
            code="invalid_value",
        )
    for field, value in function.items() if openai else ():
        if field not in _FUNCTION and value is not None:
            at = join(place, field)
            yield limits.TOOL_FIELD.broken(
                f"Unknown parameter: '{param(at)}'.", at, actual=field, code="unknown_parameter"
            )
    yield from _parameters(function, name, place, openai=openai)


def _parameters(function: dict[str, JSON], name: str, pointer: str, *, openai: bool) -> Iterator[Violation]:
    parameters, place = function.get("parameters"), join(pointer, "parameters")
    code = "invalid_function_parameters"
    if parameters is None:
        return
    if not isinstance(parameters, dict):
        yield limits.TOOL_PARAMETERS_TYPE.broken(
            f"Invalid type for '{param(place)}': expected an object, but got {type_name(parameters)} instead.",
            place,
            actual=parameters,
            code="invalid_type",
        )
    elif openai and "type" not in parameters and any(key in parameters for key in _UNIONS):
        yield limits.TOOL_PARAMETERS_UNION.broken(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'None'.",
            place,
            expected="object",
            code=code,
        )
    elif openai and parameters.get("type") != "object":
        yield limits.TOOL_PARAMETERS_ROOT.broken(
            f"Invalid schema for function '{name}': the root must be of type "
            f"'object', got {shown(parameters.get('type'))}.",
            place,
            actual=parameters.get("type"),
            expected="object",
            code=code,
        )
    elif openai:
        yield from schemas.invalid(limits.TOOL_PARAMETERS_SCHEMA, parameters, place, f"function '{name}'", code)
        yield from schemas.bare_arrays(parameters, place, f"function '{name}'", code)
        if function.get("strict") is True:
            yield from schemas.violations(parameters, place, f"function '{name}'", code)


def _name_of(tool: dict[str, JSON]) -> str | None:
    held = tool.get("function", tool.get("custom"))
    name = held.get("name") if isinstance(held, dict) else None
    return name if isinstance(name, str) else None


def _repeated(tool: dict[str, JSON], pointer: str, names: set[str]) -> Iterator[Violation]:
    name = _name_of(tool)
    if name is None:
        return
    if name in names:
        yield limits.TOOL_DUPLICATE.broken(
            f"Tool names must be unique: '{name}' is declared twice.", pointer, actual=name
        )
    names.add(name)


def _choice(chat: Chat) -> Iterator[Violation]:
    choice = chat.body.get("tool_choice")
    if choice is None:
        if chat.openai and chat.body.get("parallel_tool_calls") is not None and not chat.body.get("tools"):
            yield _without_tools("parallel_tool_calls")
        return
    forces = choice not in ("auto", "none")
    if not chat.body.get("tools") and (chat.openai or forces):
        yield _without_tools("tool_choice")
        return
    known = choice in _CHOICES if isinstance(choice, str) else isinstance(choice, dict)
    if not known and (chat.openai or not isinstance(choice, str)):
        yield limits.CHOICE_VALUE.broken(
            f"Invalid value for 'tool_choice': {shown(choice)}. Supported values "
            f"are: {', '.join(_CHOICES)}, or an object.",
            "/tool_choice",
            actual=choice,
            code="invalid_value",
        )
    elif chat.openai and isinstance(choice, dict):
        yield from _named(chat, choice)


def _named(chat: Chat, choice: dict[str, JSON]) -> Iterator[Violation]:
    kind = choice.get("type")
    held = choice.get(kind) if isinstance(kind, str) and kind in _CHOICE_TYPES else None
    if not isinstance(held, dict) or (kind != "allowed_tools" and not isinstance(held.get("name"), str)):
        yield limits.CHOICE_SHAPE.broken(
            "Missing required parameter: 'tool_choice.function.name'. A named choice is "
            '{"type": "function", "function": {"name": …}}.',
            "/tool_choice",
            actual=choice,
            code="missing_required_parameter",
        )
    elif kind != "allowed_tools" and held.get("name") not in [_name_of(tool) for _, tool in chat.tools]:
        yield limits.CHOICE_UNDECLARED.broken(
            f"Tool choice '{held.get('name')}' is not among the 'tools'.",
            f"/tool_choice/{kind}/name",
            actual=held.get("name"),
        )


def _without_tools(field: str) -> Violation:
    return limits.CHOICE_WITHOUT_TOOLS.broken(
        f"Invalid value for '{field}': '{field}' is only allowed when 'tools' are given.", f"/{field}"
    )
