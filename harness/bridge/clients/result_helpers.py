"""Functions of third-party modules by which a caller makes the messages for results of tools, for Anthropic's API."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, cast

from harness.bridge.clients.loop_methods import result_parameters, results_parameter
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import CALL_PARAMETERS, first_known
from harness.bridge.clients.sources import ClassSource, source_of
from harness.bridge.clients.submitted_results import SubmittedResults
from harness.bridge.clients.values import as_object, items_of, jsonable
from harness.model.messages import ChatRequest


def with_callers_results(messages: Sequence[Any], request: ChatRequest, module: str) -> list[Any]:
    """Return messages of Anthropic's format, with their results as the only function in `module` for results makes
    them. Without such a function, or if it makes another number of results, the messages are unchanged.
    """
    function = _helper_in(module)
    if function is None:
        return [*messages]
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    return [_with_made_results(each, names, function) for each in messages]


def _with_made_results(message: object, names: Mapping[str, str], function: Callable[..., object]) -> object:
    fields = _as_mapping(message)
    content = items_of(fields.get("content")) or []
    results = [each for each in map(_as_mapping, content) if each.get("type") == "tool_result"]
    if not results or not all(isinstance(each.get("content"), str) for each in results):
        return message
    made: list[Any] = []
    with suppress(Exception):  # third-party code may fail in any way
        made = _blocks_by(function, [_parts_of(each, names) for each in results])
    ids = [as_object(jsonable(each)).get("tool_use_id") for each in made]
    if ids != [each["tool_use_id"] for each in results]:
        return message
    return {**fields, "content": [*made, *(each for each in content if each not in results)]}


def _as_mapping(block: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", block) if isinstance(block, Mapping) else {}


def _parts_of(block: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a block with a result as the parts of the result."""
    call_id, text = block["tool_use_id"], block["content"]
    call = {"id": call_id, "name": names.get(call_id, "")}
    return {"call": call, **call, "content": text, "value": text, "is_error": bool(block.get("is_error"))}


def _blocks_by(function: Callable[..., object], results: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the blocks that a function makes of results, all at once or one by one."""
    method = _method_of_function(function)
    if named := result_parameters(method):
        made = [function(**{name: each[part] for part, name in named.items()}) for each in results]
        return [block for each in made for block in _blocks_in(each)]
    name = str(results_parameter(method))
    code = ClassSource(function, "", method.module)
    return _blocks_in(function(SubmittedResults(method, name, code, "anthropic").collect(results)))


def _blocks_in(made: object) -> list[Any]:
    """Return the blocks of a message, those of a list, or a block itself."""
    items = items_of(_as_mapping(made).get("content") if "role" in _as_mapping(made) else made)
    return [made] if items is None else items


def _method_of_function(function: Callable[..., object]) -> Method:
    return method_of((getattr(function, "__name__", ""),), function)


@lru_cache(maxsize=64)
def _helper_in(module: str) -> Callable[..., object] | None:
    """Return the only function of a module that makes results which can fail, and that the module itself does not
    call. Its parameters must be those of one result, or a parameter for all of them.
    """
    if module not in sys.modules:
        return None
    source = source_of(sys.modules[module])
    found = [
        each
        for name, each in {**vars(sys.modules[module])}.items()
        if inspect.isfunction(each) and each.__module__ == module and not name.startswith("_")
        if _MAKES_RESULT.search(source_of(each)) and len(re.findall(rf"(?<![\"'\w]){name}(?![\"'\w])", source)) == 1
    ]
    if len(found) != 1:
        return None
    method = _method_of_function(found[0])
    if named := result_parameters(method):
        return found[0] if "is_error" in named and "call" not in named else None
    can_fail = first_known(CALL_PARAMETERS["is_error"], frozenset(re.findall(r"\w+", method.source))) is not None
    return found[0] if can_fail and [*method.required] == [results_parameter(method)] else None


_MAKES_RESULT = re.compile(r"[\"']type[\"']:\s*[\"']tool_result[\"']")
"""Code that makes a block for a result in Anthropic's format."""
