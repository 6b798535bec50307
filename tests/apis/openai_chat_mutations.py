"""Faults put into accepted Chat Completions requests, each with the limit that has to catch it.

`MUTATIONS` break the format itself, whoever the server is. `OPENAI_MUTATIONS` break what only OpenAI's service asks
for: they are faults where the request goes to OpenAI.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.apis.mutation import Mutation

Body = dict[str, Any]
Apply = Callable[[Body], Iterator[Body]]
Place = Callable[[Body], Iterator[Any]]
"""The objects of a body that a fault can sit in, each in turn."""


def _messages(*roles: str) -> Place:
    return lambda body: (message for message in body["messages"] if not roles or message["role"] in roles)


def _calls(body: Body) -> Iterator[Any]:
    for message in body["messages"]:
        yield from message.get("tool_calls") or []


def _tools(body: Body) -> Iterator[Any]:
    yield from body.get("tools") or []


def _schemas(body: Body) -> Iterator[Any]:
    for tool in _tools(body):
        if tool["function"].get("parameters"):
            yield tool["function"]["parameters"]


def _whole(body: Body) -> Iterator[Any]:
    yield body


def _with_tools(body: Body) -> Iterator[Any]:
    if body.get("tools"):
        yield body


def _each(place: Place, change: Callable[[Any], object]) -> Apply:
    """One mutant for each object of a place, changed there."""

    def apply(body: Body) -> Iterator[Body]:
        for number in range(sum(1 for _ in place(body))):
            mutant = copy.deepcopy(body)
            for index, target in enumerate(place(mutant)):
                if index == number:
                    change(target)
            yield mutant

    return apply


def _put(value: Any, *path: str) -> Callable[[Any], object]:
    def change(target: Any) -> None:
        *parents, last = path
        for key in parents:
            target = target.setdefault(key, {})
        target[last] = copy.deepcopy(value)

    return change


def _drop(*path: str) -> Callable[[Any], object]:
    def change(target: Any) -> None:
        *parents, last = path
        for key in parents:
            target = target[key]
        target.pop(last, None)

    return change


def _all(*changes: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda target: [change(target) for change in changes]


def _at_results(change: Callable[[list[Any], int], bool]) -> Apply:
    """One mutant for each tool message: `change(messages, its index)` says whether there is one."""

    def apply(body: Body) -> Iterator[Body]:
        for index, message in enumerate(body["messages"]):
            if message["role"] == "tool":
                mutant = copy.deepcopy(body)
                if change(mutant["messages"], index):
                    yield mutant

    return apply


def _caller(messages: list[Any], index: int) -> int:
    """Where the assistant message stands whose call the tool message at `index` answers."""
    return next(i for i in range(index, -1, -1) if messages[i]["role"] == "assistant")


def _drop_result(messages: list[Any], index: int) -> bool:
    del messages[index]
    return True


def _drop_all_results(messages: list[Any], index: int) -> bool:
    caller = _caller(messages, index)
    end = next((i for i in range(index, len(messages)) if messages[i]["role"] != "tool"), len(messages))
    del messages[caller + 1 : end]
    return index == caller + 1


def _double_result(messages: list[Any], index: int) -> bool:
    messages.insert(index + 1, copy.deepcopy(messages[index]))
    return True


def _result_first(messages: list[Any], index: int) -> bool:
    caller = _caller(messages, index)
    messages.insert(caller, messages.pop(index))
    return True


def _result_last(messages: list[Any], index: int) -> bool:
    later = any(message["role"] != "tool" for message in messages[index:])
    messages.append(messages.pop(index))
    return later


def _words_between(messages: list[Any], index: int) -> bool:
    messages.insert(index, {"role": "user", "content": "One moment."})
    return True


def _result_of_user(messages: list[Any], index: int) -> bool:
    messages[index] = {"role": "user", "content": messages[index]["content"]}
    return True


def _orphan(messages: list[Any], index: int) -> bool:
    messages.insert(_caller(messages, index), {"role": "tool", "tool_call_id": "call_nobody", "content": "18"})
    return True


def _silent_caller(messages: list[Any], index: int) -> bool:
    caller = messages[_caller(messages, index)]
    caller["content"] = "Let me see."
    return bool(caller.pop("tool_calls", None))


def _text_for_message(body: Body) -> Iterator[Body]:
    for index in range(len(body["messages"])):
        mutant = copy.deepcopy(body)
        mutant["messages"][index] = "What is the weather?"
        yield mutant


def _flat_tool(tool: Any) -> None:
    tool |= tool.pop("function")


def _strict(change: Callable[[Any], object]) -> Apply:
    """Each tool with properties, made strict, with `change` done to its schema."""

    def place(body: Body) -> Iterator[Any]:
        for tool in _tools(body):
            if (tool["function"].get("parameters") or {}).get("properties"):
                yield tool["function"]

    def broken(function: Any) -> None:
        schema = function["parameters"]
        function["strict"] = True
        schema |= {"additionalProperties": False, "required": list(schema["properties"])}
        change(schema)

    return _each(place, broken)


def _format(schema: Any, **described: Any) -> Callable[[Any], object]:
    return _put({"type": "json_schema", "json_schema": {"schema": schema, **described}}, "response_format")


def _no_json_word(body: Body) -> Iterator[Any]:
    if "json" not in json.dumps(body["messages"]).lower():
        yield body


def _with_system(body: Body) -> Iterator[Any]:
    if any(message["role"] in ("system", "developer") for message in body["messages"]):
        yield body


def _no_stream(body: Body) -> None:
    body |= {"stream": False, "stream_options": {"include_usage": True}}


_ID = ("openai-chat-result-unknown-id", "openai-chat-result-missing")
_IMAGE = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
_BARE = {"type": "array"}
_DAYS = ("properties", "days")
_OPEN = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_CLOSED = _OPEN | {"additionalProperties": False}

MUTATIONS: list[Mutation] = [
    Mutation("a result dropped", "openai-chat-result-missing", _at_results(_drop_result)),
    Mutation("all results of a turn dropped", "openai-chat-result-missing", _at_results(_drop_all_results)),
    Mutation("a result twice", "openai-chat-result-duplicate", _at_results(_double_result)),
    Mutation(
        "a result before its call",
        ("openai-chat-result-orphan", "openai-chat-result-unknown-id"),
        _at_results(_result_first),
    ),
    Mutation("a result after other messages", "openai-chat-result-missing", _at_results(_result_last)),
    Mutation("words between call and result", "openai-chat-result-missing", _at_results(_words_between)),
    Mutation("a result as a user message", "openai-chat-result-missing", _at_results(_result_of_user)),
    Mutation(
        "a result of no call",
        ("openai-chat-result-orphan", "openai-chat-result-unknown-id"),
        _at_results(_orphan),
    ),
    Mutation("calls dropped, results kept", "openai-chat-result-orphan", _at_results(_silent_caller)),
    Mutation("another id on a result", _ID, _each(_messages("tool"), _put("call_other", "tool_call_id"))),
    Mutation("another id on a call", _ID, _each(_calls, _put("call_other", "id"))),
    Mutation("no id on a result", "openai-chat-result-id-missing", _each(_messages("tool"), _drop("tool_call_id"))),
    Mutation(
        "null id on a result", "openai-chat-result-id-missing", _each(_messages("tool"), _put(None, "tool_call_id"))
    ),
    Mutation("no id on a call", "openai-chat-call-id-missing", _each(_calls, _drop("id"))),
    Mutation("a number as a call's id", "openai-chat-call-id-missing", _each(_calls, _put(7, "id"))),
    *(
        Mutation(
            f"arguments as {kind}", "openai-chat-arguments-type", _each(_calls, _put(value, "function", "arguments"))
        )
        for kind, value in {"object": {"a": 1}, "list": [], "null": None, "number": 1, "boolean": True}.items()
    ),
    Mutation("no arguments", "openai-chat-arguments-type", _each(_calls, _drop("function", "arguments"))),
    Mutation("no name in a call", "openai-chat-call-name-missing", _each(_calls, _drop("function", "name"))),
    Mutation("no function in a call", "openai-chat-call-name-missing", _each(_calls, _drop("function"))),
    Mutation("another type of call", "openai-chat-call-type", _each(_calls, _put("tool_use", "type"))),
    Mutation("calls as an object", "openai-chat-calls-type", _each(_messages("assistant"), _put({}, "tool_calls"))),
    Mutation("calls as text", "openai-chat-calls-type", _each(_messages("assistant"), _put(["call"], "tool_calls"))),
    *(
        Mutation(f"role {role}", "openai-chat-role-unknown", _each(_messages(), _put(role, "role")))
        for role in ("model", "ai", "tool_result", None)
    ),
    Mutation("no role", "openai-chat-role-unknown", _each(_messages(), _drop("role"))),
    Mutation("content as an object", "openai-chat-content-type", _each(_messages(), _put({"text": "a"}, "content"))),
    Mutation("content as a number", "openai-chat-content-type", _each(_messages(), _put(18, "content"))),
    Mutation("text for a message", "openai-chat-message-type", _text_for_message),
    Mutation("no messages", "openai-chat-messages-missing", _each(_whole, _put([], "messages"))),
    Mutation("messages left out", "openai-chat-messages-missing", _each(_whole, _drop("messages"))),
    Mutation("messages as text", "openai-chat-messages-missing", _each(_whole, _put("hello", "messages"))),
    *(
        Mutation(f"tool name {name[:9]!r}", "openai-chat-tool-name", _each(_tools, _put(name, "function", "name")))
        for name in ("get weather", "get.weather", "wetter_für", "", "a" * 65)
    ),
    Mutation("no tool name", "openai-chat-tool-name-missing", _each(_tools, _drop("function", "name"))),
    Mutation("a flat tool", "openai-chat-tool-name-missing", _each(_tools, _flat_tool)),
    Mutation(
        "tool schema as text", "openai-chat-tool-parameters-type", _each(_tools, _put("{}", "function", "parameters"))
    ),
    Mutation(
        "tool schema as a list", "openai-chat-tool-parameters-type", _each(_tools, _put([], "function", "parameters"))
    ),
    Mutation("tools as an object", "openai-chat-tools-type", _each(_with_tools, _put({"a": {}}, "tools"))),
    Mutation("tools as names", "openai-chat-tools-type", _each(_with_tools, _put(["get_weather"], "tools"))),
    Mutation(
        "a forced choice without tools",
        "openai-chat-choice-without-tools",
        _each(_with_tools, _all(_drop("tools"), _put("required", "tool_choice"))),
    ),
    Mutation("choice as a list", "openai-chat-choice-value", _each(_with_tools, _put(["auto"], "tool_choice"))),
]

OPENAI_MUTATIONS: list[Mutation] = [
    Mutation("null content", "openai-chat-content-missing", _each(_messages("user", "tool"), _put(None, "content"))),
    Mutation("no content", "openai-chat-content-missing", _each(_messages("user", "tool"), _drop("content"))),
    Mutation(
        "an assistant message of nothing",
        "openai-chat-content-missing",
        _each(_messages("assistant"), _all(_drop("content"), _drop("tool_calls"))),
    ),
    Mutation("an image in a result", "openai-chat-content-part", _each(_messages("tool"), _put(_IMAGE, "content"))),
    Mutation(
        "an image in a system message", "openai-chat-content-part", _each(_messages("system"), _put(_IMAGE, "content"))
    ),
    Mutation(
        "a foreign part",
        "openai-chat-content-part",
        _each(_messages("user"), _put([{"type": "input_text", "text": "a"}], "content")),
    ),
    Mutation(
        "a speaker's name with a space", "openai-chat-name-pattern", _each(_messages("user"), _put("J. Doe", "name"))
    ),
    Mutation("a call's name with a dot", "openai-chat-name-pattern", _each(_calls, _put("a.b", "function", "name"))),
    Mutation("no type on a call", "openai-chat-call-type", _each(_calls, _drop("type"))),
    Mutation("no type on a tool", "openai-chat-tool-type", _each(_tools, _drop("type"))),
    Mutation("a foreign type of tool", "openai-chat-tool-type", _each(_tools, _put("web_search", "type"))),
    Mutation(
        "a schema of nothing", "openai-chat-tool-parameters-root", _each(_tools, _put({}, "function", "parameters"))
    ),
    Mutation(
        "a schema of text",
        "openai-chat-tool-parameters-root",
        _each(_tools, _put({"type": "string"}, "function", "parameters")),
    ),
    Mutation("an array of nobody knows what", "openai-chat-tool-array-items", _each(_schemas, _put(_BARE, *_DAYS))),
    Mutation("strict and open", "openai-chat-strict-additional-properties", _strict(_drop("additionalProperties"))),
    Mutation("strict and optional", "openai-chat-strict-required", _strict(_put([], "required"))),
    Mutation(
        "strict with an open object inside",
        "openai-chat-strict-additional-properties",
        _strict(lambda schema: schema["properties"].update(dict.fromkeys(schema["properties"], _OPEN))),
    ),
    *(
        Mutation(f"unknown field {field}", "openai-chat-unknown-field", _each(_whole, _put(1, field)))
        for field in ("system", "max_output_tokens", "top_k", "thinking")
    ),
    Mutation("no model", "openai-chat-model-missing", _each(_whole, _drop("model"))),
    Mutation("stream options without a stream", "openai-chat-stream-options", _each(_whole, _no_stream)),
    Mutation(
        "a choice without tools",
        "openai-chat-choice-without-tools",
        _each(_whole, _all(_drop("tools"), _put("auto", "tool_choice"))),
    ),
    Mutation(
        "parallel calls without tools",
        "openai-chat-choice-without-tools",
        _each(_whole, _all(_drop("tools"), _drop("tool_choice"), _put(False, "parallel_tool_calls"))),
    ),
    Mutation("Anthropic's choice", "openai-chat-choice-value", _each(_with_tools, _put("any", "tool_choice"))),
    Mutation(
        "a flat named choice",
        "openai-chat-choice-shape",
        _each(_with_tools, _put({"type": "function", "name": "get_weather"}, "tool_choice")),
    ),
    Mutation("an unknown format", "openai-chat-format-type", _each(_whole, _put({"type": "json"}, "response_format"))),
    Mutation("a format as text", "openai-chat-format-type", _each(_whole, _put("json_object", "response_format"))),
    Mutation("a format without a name", "openai-chat-format-name", _each(_whole, _format(_CLOSED))),
    Mutation("a format with a bad name", "openai-chat-format-name", _each(_whole, _format(_CLOSED, name="my answer"))),
    Mutation(
        "a strict format that is open",
        "openai-chat-strict-additional-properties",
        _each(_whole, _format(_OPEN, name="answer", strict=True)),
    ),
    Mutation(
        "a strict format with optional properties",
        "openai-chat-strict-required",
        _each(_whole, _format(_CLOSED | {"required": []}, name="answer", strict=True)),
    ),
    Mutation(
        "JSON mode without the word",
        "openai-chat-json-word",
        _each(_no_json_word, _put({"type": "json_object"}, "response_format")),
    ),
    Mutation(
        "tools with a model that reasons",
        "openai-chat-tools-with-reasoning",
        _each(_with_tools, _put("gpt-5.5", "model")),
    ),
    Mutation(
        "tools with reasoning switched on",
        "openai-chat-tools-with-reasoning",
        _each(_with_tools, _all(_put("gpt-5.4", "model"), _put("low", "reasoning_effort"))),
    ),
    Mutation(
        "tools where there are none", "openai-chat-tools-unsupported", _each(_with_tools, _put("gpt-6-astra", "model"))
    ),
    Mutation(
        "max_tokens with a model that reasons",
        "openai-chat-max-tokens",
        _each(_whole, _all(_put("o3", "model"), _put(100, "max_tokens"))),
    ),
    Mutation(
        "a system prompt where there is none",
        "openai-chat-system-unsupported",
        _each(_with_system, _put("o1-mini", "model")),
    ),
]
