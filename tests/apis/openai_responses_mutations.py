"""Faults put into accepted OpenAI Responses requests, each with the limit that has to catch it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from harness import catalog
from tests.apis.mutation import Mutation

Body = dict[str, Any]
Item = dict[str, Any]
Apply = Callable[[Body], Iterator[Body]]

_UNISSUED = "call_000000000000000000000000"


def _stateless(body: Body) -> bool:
    return body.get("previous_response_id") is None and body.get("conversation") is None


def _strict(body: Body) -> bool:
    return catalog.api("openai-responses").profile_for(body["model"]).strict_requests


def _found(body: Body, kind: str) -> list[int]:
    """Where the items of a type stand; messages are named by role."""
    items = body["input"] if isinstance(body["input"], list) else []
    return [index for index, item in enumerate(items) if kind in (item.get("type"), item.get("role"))]


def _each(kind: str, change: Callable[[Body, int], object], *, when: Callable[[Body], bool] = lambda _: True) -> Apply:
    """One mutant for each item of a type, given the copy and the item's place."""

    def apply(body: Body) -> Iterator[Body]:
        for index in _found(body, kind) if when(body) else ():
            mutant = copy.deepcopy(body)
            change(mutant, index)
            yield mutant

    return apply


def _each_part(role: str, change: Callable[[Item], object]) -> Apply:
    def apply(body: Body) -> Iterator[Body]:
        for index in _found(body, role):
            content = body["input"][index].get("content")
            for part in range(len(content) if isinstance(content, list) else 0):
                mutant = copy.deepcopy(body)
                change(mutant["input"][index]["content"][part])
                yield mutant

    return apply


def _each_tool(change: Callable[[Item], object], *, when: Callable[[Item], bool] = lambda _: True) -> Apply:
    def apply(body: Body) -> Iterator[Body]:
        for index, tool in enumerate(body.get("tools") or []):
            if tool["type"] == "function" and when(tool):
                mutant = copy.deepcopy(body)
                change(mutant["tools"][index])
                yield mutant

    return apply


def _once(change: Callable[[Body], object], *, when: Callable[[Body], bool] = lambda _: True) -> Apply:
    def apply(body: Body) -> Iterator[Body]:
        if when(body):
            mutant = copy.deepcopy(body)
            change(mutant)
            yield mutant

    return apply


def _put(key: str, value: Any) -> Callable[[Body, int], object]:
    return lambda body, index: body["input"][index].update({key: value})


def _drop(key: str) -> Callable[[Body, int], object]:
    return lambda body, index: body["input"][index].pop(key)


def _call_of(body: Body, index: int) -> int | None:
    """Where the call stands that the output at `index` answers."""
    wanted = body["input"][index]["call_id"]
    calls = [place for place in _found(body, "function_call") if body["input"][place]["call_id"] == wanted]
    return calls[-1] if calls else None


def _answered(change: Callable[[Body, int, int], object], *, when: Callable[[Body], bool] = lambda _: True) -> Apply:
    """One mutant for each output whose call is in the request too, given the places of both."""

    def apply(body: Body) -> Iterator[Body]:
        for index in _found(body, "function_call_output") if when(body) else ():
            call = _call_of(body, index)
            if call is not None:
                mutant = copy.deepcopy(body)
                change(mutant, index, call)
                yield mutant

    return apply


def _drop_all_results(body: Body) -> None:
    body["input"] = [item for item in body["input"] if item.get("type") != "function_call_output"]


def _chat_result(body: Body, index: int) -> None:
    item = body["input"][index]
    body["input"][index] = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}


def _chat_call(body: Body, index: int) -> None:
    item = body["input"][index]
    function = {"name": item["name"], "arguments": item["arguments"]}
    call = {"id": item["call_id"], "type": "function", "function": function}
    body["input"][index] = {"role": "assistant", "content": None, "tool_calls": [call]}


def _rename_both(call_id: str) -> Callable[[Body, int, int], None]:
    def change(body: Body, index: int, call: int) -> None:
        body["input"][index]["call_id"] = body["input"][call]["call_id"] = call_id

    return change


def _chat_tool(tool: Item) -> None:
    function = {key: tool.pop(key) for key in ("name", "description", "parameters", "strict") if key in tool}
    tool["function"] = function


def _declares_properties(body: Body) -> bool:
    return any("properties" in (tool.get("parameters") or {}) for tool in body.get("tools") or [])


def _bare_array(body: Body) -> None:
    for tool in body["tools"]:
        if "properties" in (tool.get("parameters") or {}):
            tool["parameters"]["properties"]["days"] = {"type": "array"}


def _strict_tool(tool: Item) -> bool:
    return tool.get("strict") is True and bool(tool["parameters"].get("properties"))


def _calls(body: Body) -> bool:
    return bool(_found(body, "function_call"))


def _stored_reasoning(body: Body) -> bool:
    return body.get("store") is not False and any(
        str(body["input"][index].get("id", "")).startswith("rs_") for index in _found(body, "reasoning")
    )


def _reasoning_last(body: Body) -> None:
    body["input"].append(next(body["input"][index] for index in _found(body, "reasoning")))


def _reasoning_before_easy_message(body: Body) -> None:
    index = max(_found(body, "reasoning"))
    body["input"].insert(index + 1, {"role": "assistant", "content": "Hm."})


_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
_FORMAT = {"type": "json_schema", "name": "answer", "schema": _SCHEMA, "strict": True}


def _format(**changes: Any) -> Apply:
    """A request for JSON, with keys changed, or left out where `None`."""
    wanted = {key: value for key, value in {**_FORMAT, **changes}.items() if value is not None}
    return _once(lambda body: body.update(text={"format": wanted}))


_ORPHAN = "openai-responses-result-orphan"
_MISSING = "openai-responses-result-missing"
_CALL = "openai-responses-call-shape"
_RESULT = "openai-responses-result-shape"
_MESSAGE = "openai-responses-message-shape"
_CONTENT = "openai-responses-message-content"
_TOOL = "openai-responses-tool-shape"
_SCHEMA_RULE = "openai-responses-tool-schema"
_TYPE = "openai-responses-parameter-type"
_UNKNOWN = "openai-responses-parameter-unknown"
_FORMAT_RULE = "openai-responses-format-shape"

MUTATIONS = [
    # pairing
    Mutation("a result is dropped", _MISSING, _answered(lambda body, index, _: body["input"].pop(index))),
    Mutation("all results are dropped", _MISSING, _once(_drop_all_results, when=_calls)),
    Mutation(
        "a result is replaced by a user message",
        _MISSING,
        _answered(lambda body, index, _: body["input"].__setitem__(index, {"role": "user", "content": "18"})),
    ),
    Mutation(
        "a call is dropped",
        _ORPHAN,
        _each("function_call", lambda body, index: body["input"].pop(index), when=_stateless),
    ),
    Mutation(
        "the id of a result is one that no call has",
        _ORPHAN,
        _each("function_call_output", _put("call_id", _UNISSUED), when=_stateless),
    ),
    Mutation(
        "the id of a call is one that no result has", _MISSING, _each("function_call", _put("call_id", _UNISSUED))
    ),
    Mutation(
        "a result is given twice",
        "openai-responses-result-duplicate",
        _each(
            "function_call_output", lambda body, index: body["input"].insert(index, copy.deepcopy(body["input"][index]))
        ),
    ),
    Mutation(
        "a result stands before its call",
        (_ORPHAN, _MISSING),
        _answered(lambda body, index, call: body["input"].insert(call, body["input"].pop(index))),
    ),
    Mutation(
        "a result stands at the very start",
        (_ORPHAN, _MISSING),
        _answered(lambda body, index, _: body["input"].insert(0, body["input"].pop(index))),
    ),
    Mutation(
        "stored reasoning stands last",
        "openai-responses-reasoning-alone",
        _once(_reasoning_last, when=_stored_reasoning),
        own=True,
    ),
    Mutation(
        "stored reasoning stands before a message without its id",
        "openai-responses-reasoning-alone",
        _once(_reasoning_before_easy_message, when=_stored_reasoning),
        own=True,
    ),
    # calls
    Mutation("arguments are an object", _CALL, _each("function_call", _put("arguments", {"city": "Paris"}))),
    Mutation("arguments are a list", _CALL, _each("function_call", _put("arguments", []))),
    Mutation("arguments are null", _CALL, _each("function_call", _put("arguments", None))),
    Mutation("arguments are missing", _CALL, _each("function_call", _drop("arguments"))),
    Mutation("a call has no call_id", _CALL, _each("function_call", _drop("call_id"))),
    Mutation("a call has no name", _CALL, _each("function_call", _drop("name"))),
    Mutation("the name of a call has a dot", "openai-responses-call-name", _each("function_call", _put("name", "a.b"))),
    Mutation("a call is shaped like Chat's", (_MESSAGE, _ORPHAN), _each("function_call", _chat_call)),
    Mutation(
        "a call is shaped like Anthropic's",
        "openai-responses-item-type",
        _each("function_call", _put("type", "tool_use")),
    ),
    # results
    Mutation("a result has no call_id", _RESULT, _each("function_call_output", _drop("call_id"))),
    Mutation("a result has no output", _RESULT, _each("function_call_output", _drop("output"))),
    Mutation("output is an object", _RESULT, _each("function_call_output", _put("output", {"temp_c": 18}))),
    Mutation("output is null", _RESULT, _each("function_call_output", _put("output", None))),
    Mutation("output is a number", _RESULT, _each("function_call_output", _put("output", 18))),
    Mutation(
        "a part of an output has Chat's type",
        "openai-responses-result-content",
        _each("function_call_output", _put("output", [{"type": "text", "text": "18"}])),
    ),
    Mutation("a result is shaped like Chat's", "openai-responses-role", _each("function_call_output", _chat_result)),
    Mutation(
        "a result is shaped like Anthropic's",
        "openai-responses-item-type",
        _each("function_call_output", _put("type", "tool_result")),
    ),
    # ids
    Mutation(
        "a call_id is too long",
        "openai-responses-item-call-id",
        _answered(_rename_both("call_" + "0" * 60), when=_strict),
    ),
    Mutation("a call_id is empty", "openai-responses-item-call-id", _answered(_rename_both(""))),
    Mutation(
        "an item id is of a foreign form",
        "openai-responses-item-id",
        _each("function_call", _put("id", "item_c270d5511c7129"), when=_strict),
    ),
    Mutation(
        "an item id is too long",
        "openai-responses-item-id",
        _each("function_call", _put("id", "fc_" + "0" * 62), when=_strict),
    ),
    # messages
    Mutation("a role that there is not", "openai-responses-role", _each("user", _put("role", "model"))),
    Mutation("a message without content", _MESSAGE, _each("user", _drop("content"))),
    Mutation("content is an object", _MESSAGE, _each("user", _put("content", {"type": "input_text", "text": "x"}))),
    Mutation(
        "an assistant's part is input_text",
        _CONTENT,
        _each_part("assistant", lambda part: part.update(type="input_text")),
    ),
    Mutation(
        "a user's part is output_text", _CONTENT, _each_part("user", lambda part: part.update(type="output_text"))
    ),
    Mutation("a user's part has Chat's type", _CONTENT, _each_part("user", lambda part: part.update(type="text"))),
    Mutation("a part without its text", _CONTENT, _each_part("system", lambda part: part.pop("text"))),
    Mutation(
        "an item without type and role",
        "openai-responses-item-type",
        _each("user", lambda body, index: body["input"].__setitem__(index, {"content": "x"})),
    ),
    Mutation(
        "an item that is a string",
        "openai-responses-item-type",
        _each("user", lambda body, index: body["input"].__setitem__(index, "x")),
    ),
    Mutation("reasoning without summary", "openai-responses-reasoning-shape", _each("reasoning", _drop("summary"))),
    # tools
    Mutation("a tool is nested like Chat's", _TOOL, _each_tool(_chat_tool)),
    Mutation("a tool without name", _TOOL, _each_tool(lambda tool: tool.pop("name"))),
    Mutation("a tool without type", _TOOL, _each_tool(lambda tool: tool.pop("type"))),
    Mutation(
        "the name of a tool has a space",
        "openai-responses-tool-name",
        _each_tool(lambda tool: tool.update(name="get weather")),
    ),
    Mutation(
        "the name of a tool is empty", "openai-responses-tool-name", _each_tool(lambda tool: tool.update(name=""))
    ),
    Mutation(
        "the name of a tool is too long",
        "openai-responses-tool-name",
        _each_tool(lambda tool: tool.update(name="n" * 65)),
    ),
    Mutation(
        "parameters of another type", _SCHEMA_RULE, _each_tool(lambda tool: tool["parameters"].update(type="string"))
    ),
    Mutation("parameters without type", _SCHEMA_RULE, _each_tool(lambda tool: tool["parameters"].pop("type"))),
    Mutation(
        "parameters without properties", _SCHEMA_RULE, _each_tool(lambda tool: tool["parameters"].pop("properties"))
    ),
    Mutation("parameters are text", _SCHEMA_RULE, _each_tool(lambda tool: tool.update(parameters=json.dumps(_SCHEMA)))),
    Mutation("parameters are empty", _SCHEMA_RULE, _each_tool(lambda tool: tool.update(parameters={}))),
    Mutation(
        "an array without items",
        "openai-responses-tool-array-items",
        _once(_bare_array, when=lambda body: _strict(body) and _declares_properties(body)),
    ),
    Mutation(
        "a strict tool does not close its object",
        "openai-responses-tool-strict-schema",
        _each_tool(lambda tool: tool["parameters"].pop("additionalProperties"), when=_strict_tool),
    ),
    Mutation(
        "a strict tool does not require a property",
        "openai-responses-tool-strict-schema",
        _each_tool(lambda tool: tool["parameters"]["required"].pop(), when=_strict_tool),
    ),
    Mutation(
        "tool_choice is a word of another API",
        "openai-responses-tool-choice-shape",
        _once(lambda body: body.update(tool_choice="any")),
    ),
    Mutation(
        "tool_choice is nested like Chat's",
        "openai-responses-tool-choice-shape",
        _once(lambda body: body.update(tool_choice={"type": "function", "function": {"name": "get_weather"}})),
    ),
    Mutation(
        "a call is required and there are no tools",
        "openai-responses-tool-choice-toolless",
        _once(
            lambda body: body.update(tool_choice="required", tools=[]),
            when=lambda body: not _found(body, "additional_tools"),
        ),
    ),
    # JSON output
    Mutation("the format is nested like Chat's", _FORMAT_RULE, _format(name=None, schema=None, json_schema=_FORMAT)),
    Mutation("the format has no name", _FORMAT_RULE, _format(name=None)),
    Mutation("the format has no schema", _FORMAT_RULE, _format(schema=None)),
    Mutation("the format is of an unknown type", _FORMAT_RULE, _format(type="json")),
    Mutation("the format's schema is text", _FORMAT_RULE, _format(schema="{}")),
    Mutation("the format's name has a space", "openai-responses-format-name", _format(name="an answer")),
    Mutation(
        "the format's schema is open",
        "openai-responses-format-strict-schema",
        _format(schema={"type": "object", "properties": {}}),
    ),
    Mutation(
        "json_object without the word json",
        "openai-responses-format-word",
        _once(
            lambda body: body.update(text={"format": {"type": "json_object"}}),
            when=lambda body: _stateless(body) and "json" not in json.dumps(body["input"]).lower(),
        ),
    ),
    # the request as a whole
    Mutation("no input", "openai-responses-input-missing", _once(lambda body: body.pop("input"), when=_stateless)),
    Mutation(
        "empty input",
        "openai-responses-input-missing",
        _once(lambda body: body.update(input=[]), when=_stateless),
    ),
    Mutation("input is an object", _TYPE, _once(lambda body: body.update(input={"role": "user", "content": "x"}))),
    Mutation("messages instead of input", _UNKNOWN, _once(lambda body: body.update(messages=body.pop("input")))),
    Mutation(
        "Chat's response_format",
        _UNKNOWN,
        _once(lambda body: body.update(response_format={"type": "json_object"}), when=_strict),
    ),
    Mutation("Chat's max_tokens", _UNKNOWN, _once(lambda body: body.update(max_tokens=100), when=_strict)),
    Mutation("a parameter that there is not", _UNKNOWN, _once(lambda body: body.update(stop=["x"]), when=_strict)),
    Mutation("instructions are blocks", _TYPE, _once(lambda body: body.update(instructions=[{"text": "x"}]))),
    Mutation("tools are an object", _TYPE, _once(lambda body: body.update(tools={}))),
    Mutation("max_output_tokens is text", _TYPE, _once(lambda body: body.update(max_output_tokens="100"))),
    Mutation("stream is text", _TYPE, _once(lambda body: body.update(stream="true"))),
    Mutation(
        "temperature below zero",
        "openai-responses-parameter-range",
        _once(lambda body: body.update(temperature=-1)),
    ),
    Mutation(
        "temperature above two",
        "openai-responses-parameter-range",
        _once(lambda body: body.update(temperature=2.5)),
    ),
    Mutation(
        "stream_options without stream",
        "openai-responses-stream-options",
        _once(lambda body: body.update(stream=False, stream_options={"include_obfuscation": False})),
    ),
    Mutation(
        "two kinds of server state",
        "openai-responses-state-conflict",
        _once(lambda body: body.update(previous_response_id="resp_1", conversation="conv_1")),
    ),
]
