"""Python functions that run the harness's tools, for third-party code that calls its tools."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from keyword import iskeyword
from typing import Any, TypeAlias, cast

from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import Tool, ToolCall, ToolResult
from harness.model.protocols import ConversationTool

ToolSequence: TypeAlias = Sequence[ConversationTool]


class AwaitableText(str):
    """Result of a tool. A client may await it or not."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return self
        yield


def parsed_arguments(arguments: object) -> dict[str, Any]:
    """Return the arguments of a call, which may be JSON text."""
    return cast("dict[str, Any]", json.loads(arguments) if isinstance(arguments, str) else arguments)


def make_handler(tool: ConversationTool, hint: str = "") -> Callable[..., object]:
    """Return a function that runs a tool, given its arguments by name or in a dictionary.

    It has the tool's signature if Python has parameters of these types. If `hint` is awaitable, it is asynchronous.
    """
    try:
        return make_function(tool, hint)
    except Unsupported:
        return _with_name(_function_running(tool, None), tool, hint)


@dataclass(frozen=True, slots=True)
class _AdaptedTool(ConversationTool):
    """A tool whose function fits third-party code. With `gives_values`, it returns JSON values and not their text. With
    `has_context`, its first parameter takes a context of the application, such as its dependencies. With `is_async`, it
    is asynchronous.
    """

    gives_values: bool = False
    has_context: bool = False
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class RecordedTool:
    """The tool that a function runs, for `harness reproduce`. With `gives_values`, the function returns JSON values.
    With `has_context`, it has a first parameter that it ignores.
    """

    tool: ConversationTool
    gives_values: bool
    has_context: bool = False


def with_strict_schemas(tools: ToolSequence, source: str) -> ToolSequence:
    """Return tools whose schemas fit strict tools, if source code declares each tool as strict: closed objects with
    required properties. Code that closes schemas itself gets them unchanged.

    Raises:
        Unsupported: A schema has an object whose properties are not listed.
    """
    if not _declares_strict(source) or _CLOSES_SCHEMAS.search(source):
        return tools
    return [replace(each, parameters=_closed_schema(each.parameters, each.name)) for each in tools]


@lru_cache(maxsize=64)
def _declares_strict(source: str) -> bool:
    """Return whether code has a dictionary with the keys `parameters` and `strict`, which is true.

    The format of an answer may be strict as well, but it has no parameters.
    """
    if "strict" not in source:
        return False
    try:
        dicts = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Dict)]
    except SyntaxError:
        return False
    found = (dict(zip(map(_constant, each.keys), map(_constant, each.values), strict=True)) for each in dicts)
    return any(each.get("strict") is True and "parameters" in each for each in found)


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


_CLOSES_SCHEMAS = re.compile(r"additionalProperties[\"'](\]\s*=|,\s*False)|\*\*[^\n]*[\"']additionalProperties")


def _closed_schema(schema: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return a schema with closed objects, whose properties are all required. Optional ones may be null."""
    made = {**schema}
    if isinstance(properties := schema.get("properties"), Mapping):
        required = cast("Sequence[str]", schema.get("required") or ())
        known = cast("Mapping[str, Mapping[str, Any]]", properties).items()
        closed = {name: _closed_schema(each, tool) for name, each in known}
        optional = {name: {"anyOf": [each, {"type": "null"}]} for name, each in closed.items() if name not in required}
        made |= {"properties": closed | optional, "required": [*closed], "additionalProperties": False}
    elif schema.get("type") == "object":
        raise Unsupported(RECOGNISED_CLIENT, tool, "its strict tools take no objects without known properties")
    if isinstance(items := schema.get("items"), Mapping):
        made["items"] = _closed_schema(cast("Mapping[str, Any]", items), tool)
    return made


def adapted_tools(tools: ToolSequence, module: str) -> ToolSequence:
    """Return tools whose functions fit the source of a module.

    They return JSON values if the module handles such values: it either converts them to text, or puts them into an
    object for the result, as Gemini takes it. Code that awaits every result gets texts, which can be awaited. They have
    a context as first parameter if the module leaves the first parameter out of their schemas. They are asynchronous if
    the module awaits the results of such functions, too, so that parallel calls may finish in any order.
    """
    awaits_all = "await " in module and not re.search("isawaitable|iscoroutine", module)
    takes_text = re.search(r"Callable\[[^=\n]*, (Awaitable\[)?str\]", module) is not None
    gives_values = _SENDS_VALUES.search(module) is not None or _CONVERTS_VALUES.search(module) is not None
    gives_values = gives_values and not awaits_all and not takes_text
    has_context = _LEAVES_OUT_FIRST.search(module) is not None
    flags = gives_values, has_context, _AWAITS_RESULT.search(module) is not None
    return [_AdaptedTool(each.name, each.description, each.parameters, each.run, *flags) for each in tools]


_AWAITS_RESULT = re.compile(
    r"\b(\w+) = [^\n=]*\(\*\*[^\n]*\n\s*if [^\n]*\b(?:isawaitable|iscoroutine)\(\1\)"
    r"|\biscoroutinefunction\(([\w.]+)\)[^\n]*\n[^\n]*\bawait \2\(\*\*"
)
"""Code that awaits the result of a function if the function is asynchronous."""


_LEAVES_OUT_FIRST = re.compile(r"\b(?:list|tuple)\([\w.()]*\bparameters(?:\.\w+\(\))?\)\[1:\]")
"""Code that skips the first parameter of a signature."""

_CONVERTS_VALUES = re.compile(
    r"isinstance\((\w+), str\) else (?:json\.)?dumps\(\1\b|not isinstance\((\w+), str\):\s+\2 = (?:json\.)?dumps\(\2\b"
)
"""Code that converts a result to JSON unless it is a text."""

_SENDS_VALUES = re.compile(
    r"\b(\w+) = [^\n=]*\(\*\*[^\n]*\n(?:[^\n]*\n){0,2}?[^\n]*[\"'](?:result|output)[\"']: \1\b(?![\[.(])"
)
"""Code that puts the result of a function into an object, as in `{"result": result}`."""


def _result_of_tool(tool: ConversationTool, arguments: Mapping[str, Any]) -> object:
    if not isinstance(tool, _AdaptedTool) or not tool.gives_values:
        return AwaitableText(tool.text(arguments))
    content = tool.call(arguments)
    return ToolResult("", tool.name, content).text if isinstance(content, tuple) else content


def _function_running(tool: ConversationTool, shape: inspect.Signature | None) -> Callable[..., object]:
    has_context = isinstance(tool, _AdaptedTool) and tool.has_context

    def function(*args: Any, **kwargs: Any) -> object:
        args = args[1:] if has_context else args
        dumps = [each.model_dump for each in args if callable(getattr(each, "model_dump", None))]
        if dumps and not kwargs:
            return _result_of_tool(tool, cast("Mapping[str, Any]", dumps[-1]()))  # a Pydantic model of the arguments
        # a third-party class may give its tools a context beside the arguments, such as the id of a customer
        mappings = [cast("Mapping[str, Any]", each) for each in args if isinstance(each, Mapping)]
        if mappings and not kwargs:
            named = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
            fitting = (each for each in reversed(mappings) if each.keys() <= named.keys())
            return _result_of_tool(tool, next(fitting, mappings[-1]))
        is_by_place = shape is not None and len(args) <= len(shape.parameters) and not kwargs
        found = shape.bind(*args).arguments if shape is not None and is_by_place else kwargs
        return _result_of_tool(tool, found)

    return function


def _with_name(function: Callable[..., object], tool: ConversationTool, hint: str) -> Callable[..., object]:
    async def run(*args: Any, **kwargs: Any) -> object:
        return await asyncio.to_thread(function, *args, **kwargs)

    is_async = re.search("Awaitable|Coroutine", hint) or (isinstance(tool, _AdaptedTool) and tool.is_async)
    made: Any = run if is_async else function
    flags = (tool.gives_values, tool.has_context) if isinstance(tool, _AdaptedTool) else (False, False)
    made.recorded_tool = RecordedTool(tool, *flags)
    made.__name__ = made.__qualname__ = tool.name
    made.__doc__ = tool.description
    return made


_PYTHON_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}


def _is_python_parameter(name: str, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return name.isidentifier() and not iskeyword(name) and isinstance(kind, str) and kind in _PYTHON_TYPES


def make_empty_function(tool: Tool) -> Callable[..., object]:
    """Return a Python function for a client that reads only its signature. The caller of the client runs the tool."""
    return make_function(ConversationTool(tool.name, tool.description, dict(tool.parameters), _empty_result))


def _empty_result(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, "")


def make_function(tool: ConversationTool, hint: str = "") -> Callable[..., object]:
    """Return a Python function with the name, the parameters and the description of a tool."""
    fields = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
    required = cast("Sequence[str]", tool.parameters.get("required") or ())
    if not all(_is_python_parameter(name, each) for name, each in fields.items()):
        raise Unsupported(RECOGNISED_CLIENT, tool.name, "no Python function has such a parameter")
    types = {name: _PYTHON_TYPES[each["type"]] for name, each in fields.items()}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ordered = sorted(types, key=lambda name: name not in required)
    defaults = {name: inspect.Parameter.empty if name in required else None for name in ordered}
    shape = inspect.Signature(
        [inspect.Parameter(name, kind, default=defaults[name], annotation=types[name]) for name in ordered]
    )
    made: Any = _with_name(_function_running(tool, shape), tool, hint)
    made.__annotations__ = types
    made.__signature__ = shape
    if isinstance(tool, _AdaptedTool) and tool.has_context:
        context = inspect.Parameter("context", kind)
        made.__signature__ = inspect.Signature([context, *shape.parameters.values()])
    return made


def as_method(handler: Callable[..., object]) -> Callable[..., object]:
    """Return a method that calls a function without its instance."""

    def method(_self: object, *args: Any, **kwargs: Any) -> object:
        return handler(*args, **kwargs)

    return method
