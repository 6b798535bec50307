"""Faults put into accepted Anthropic requests, each with the limit that has to catch it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.apis.mutation import Mutation

Body = dict[str, Any]
Block = dict[str, Any]


def _blocks(body: Body, kind: str) -> list[tuple[int, int]]:
    return [
        (number, index)
        for number, message in enumerate(body["messages"])
        if isinstance(message["content"], list)
        for index, block in enumerate(message["content"])
        if block["type"] == kind
    ]


def _each(kind: str, change: Callable[[Block], None]) -> Callable[[Body], Iterator[Body]]:
    """One mutant for each block of a type, changed in place."""

    def apply(body: Body) -> Iterator[Body]:
        for number, index in _blocks(body, kind):
            mutant = copy.deepcopy(body)
            change(mutant["messages"][number]["content"][index])
            yield mutant

    return apply


def _once(change: Callable[[Body], None], *, needs: str | None = None) -> Callable[[Body], Iterator[Body]]:
    """One mutant of the whole body, where it has the key `needs` with something in it."""

    def apply(body: Body) -> Iterator[Body]:
        if needs is None or body.get(needs):
            mutant = copy.deepcopy(body)
            change(mutant)
            yield mutant

    return apply


def _each_tool(change: Callable[[Block], None]) -> Callable[[Body], Iterator[Body]]:
    def apply(body: Body) -> Iterator[Body]:
        for index, tool in enumerate(body.get("tools") or []):
            if "input_schema" in tool:
                mutant = copy.deepcopy(body)
                change(mutant["tools"][index])
                yield mutant

    return apply


def _put(key: str, value: Any) -> Callable[[Block], None]:
    return lambda block: block.__setitem__(key, value)


def _drop(key: str) -> Callable[[Block], None]:
    return lambda block: block.pop(key)


def _result_dropped(body: Body) -> Iterator[Body]:
    for number, index in _blocks(body, "tool_result"):
        mutant = copy.deepcopy(body)
        content = mutant["messages"][number]["content"]
        content[index] = {"type": "text", "text": "instead of a result"}
        content.append(content.pop(index))
        yield mutant


def _result_repeated(body: Body) -> Iterator[Body]:
    for number, index in _blocks(body, "tool_result"):
        mutant = copy.deepcopy(body)
        content = mutant["messages"][number]["content"]
        content.insert(index, copy.deepcopy(content[index]))
        yield mutant


def _text_before_results(body: Body) -> Iterator[Body]:
    for number in sorted({number for number, _ in _blocks(body, "tool_result")}):
        mutant = copy.deepcopy(body)
        mutant["messages"][number]["content"].insert(0, {"type": "text", "text": "Here you are."})
        yield mutant


def _text_message_before_results(body: Body) -> Iterator[Body]:
    for number in sorted({number for number, _ in _blocks(body, "tool_result")}):
        mutant = copy.deepcopy(body)
        mutant["messages"].insert(number, {"role": "user", "content": "Here you are."})
        yield mutant


def _assistant_between(body: Body) -> Iterator[Body]:
    """The merged assistant turn stays, so that an assistant and a user message part the call from its result."""
    for number in sorted({number for number, _ in _blocks(body, "tool_result")}):
        mutant = copy.deepcopy(body)
        mutant["messages"][number:number] = [
            {"role": "user", "content": "Wait."},
            {"role": "assistant", "content": "I wait."},
        ]
        yield mutant


def _results_first(body: Body) -> Iterator[Body]:
    for number in sorted({number for number, _ in _blocks(body, "tool_result")}):
        mutant = copy.deepcopy(body)
        mutant["messages"].insert(0, mutant["messages"].pop(number))
        yield mutant


def _result_by_assistant(body: Body) -> Iterator[Body]:
    for number in sorted({number for number, _ in _blocks(body, "tool_result")}):
        mutant = copy.deepcopy(body)
        mutant["messages"][number]["role"] = "assistant"
        yield mutant


def _call_by_user(body: Body) -> Iterator[Body]:
    for number in sorted({number for number, _ in _blocks(body, "tool_use")}):
        mutant = copy.deepcopy(body)
        mutant["messages"][number]["role"] = "user"
        yield mutant


def _call_repeated(body: Body) -> Iterator[Body]:
    for number, index in _blocks(body, "tool_use"):
        mutant = copy.deepcopy(body)
        content = mutant["messages"][number]["content"]
        content.append(copy.deepcopy(content[index]))
        yield mutant


def _answers_gone(body: Body) -> Iterator[Body]:
    """The conversation ends with the calls."""
    for number in sorted({number for number, _ in _blocks(body, "tool_use")}):
        mutant = copy.deepcopy(body)
        del mutant["messages"][number + 1 :]
        yield mutant


def _roles(role: str) -> Callable[[Body], Iterator[Body]]:
    def apply(body: Body) -> Iterator[Body]:
        for number in range(len(body["messages"])):
            mutant = copy.deepcopy(body)
            mutant["messages"][number]["role"] = role
            yield mutant

    return apply


def _each_message(change: Callable[[Body], None]) -> Callable[[Body], Iterator[Body]]:
    def apply(body: Body) -> Iterator[Body]:
        for number in range(len(body["messages"])):
            mutant = copy.deepcopy(body)
            change(mutant["messages"][number])
            yield mutant

    return apply


def _leading_system(body: Body) -> None:
    body["messages"].insert(0, {"role": "system", "content": "Be brief."})


def _system_between(body: Body) -> Iterator[Body]:
    for number in sorted({number for number, _ in _blocks(body, "tool_result")}):
        mutant = copy.deepcopy(body)
        mutant["messages"].insert(number, {"role": "system", "content": "Be brief."})
        yield mutant


def _tool_twice(body: Body) -> None:
    body["tools"].append(copy.deepcopy(body["tools"][0]))


def _five_marks(body: Body) -> None:
    body["system"] = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}} for _ in range(5)]


def _empty_text(body: Body) -> Iterator[Body]:
    for number in range(len(body["messages"])):
        mutant = copy.deepcopy(body)
        content = mutant["messages"][number]["content"]
        if isinstance(content, list) and mutant["messages"][number]["role"] != "system":
            content.append({"type": "text", "text": ""})
            yield mutant


def _forced_while_thinking(body: Body) -> None:
    body["tool_choice"] = {"type": "any"}
    body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    body["max_tokens"] = 4096


def _prefill(body: Body) -> Iterator[Body]:
    """JSON mode by prefill, which only its oldest models take, together with a format that none of them takes."""
    mutant = copy.deepcopy(body)
    mutant["messages"].append({"role": "assistant", "content": "{"})
    mutant["output_config"] = _format({"type": "object", "additionalProperties": False})
    yield mutant


def _format(schema: Any, kind: str = "json_schema") -> Body:
    return {"format": {"type": kind, "schema": schema}}


_OPEN = {"type": "object", "properties": {"inner": {"type": "object", "properties": {}}}, "additionalProperties": False}
_MISSING = "anthropic-field-missing"
_TYPE = "anthropic-field-type"
_EXTRA = "anthropic-extra-input"
_UNANSWERED = ("anthropic-result-missing", "anthropic-result-order")
_BY_SYSTEM = ("anthropic-system-placement", "anthropic-system-role", "anthropic-system-block")

MUTATIONS: list[Mutation] = [
    Mutation("a result is dropped", "anthropic-result-missing", _result_dropped),
    Mutation(
        "a result is for an id of nobody",
        "anthropic-result-orphan",
        _each("tool_result", _put("tool_use_id", "toolu_0")),
    ),
    Mutation("the id of a call is changed", "anthropic-result-missing", _each("tool_use", _put("id", "toolu_0"))),
    Mutation("a result is there twice", "anthropic-result-duplicate", _result_repeated),
    Mutation("text stands before the results", "anthropic-result-order", _text_before_results),
    Mutation("a message stands before the results", "anthropic-result-order", _text_message_before_results),
    Mutation("turns stand before the results", "anthropic-result-missing", _assistant_between),
    Mutation("results stand before their calls", "anthropic-result-orphan", _results_first),
    Mutation("results are the assistant's", "anthropic-block-role", _result_by_assistant),
    Mutation("calls are the user's", "anthropic-block-role", _call_by_user),
    Mutation("the conversation ends with calls", "anthropic-result-missing", _answers_gone),
    Mutation("a call is there twice", "anthropic-call-id-duplicate", _call_repeated),
    Mutation(
        "an id has characters of its own", "anthropic-call-id-pattern", _each("tool_use", _put("id", "call:0|fc"))
    ),
    Mutation("an id is empty", "anthropic-call-id-pattern", _each("tool_use", _put("id", ""))),
    Mutation("an id is null", _TYPE, _each("tool_use", _put("id", None))),
    Mutation("arguments are a string", _TYPE, _each("tool_use", _put("input", "{}"))),
    Mutation("arguments are a list", _TYPE, _each("tool_use", _put("input", []))),
    Mutation("arguments are null", _TYPE, _each("tool_use", _put("input", None))),
    Mutation("arguments are missing", _MISSING, _each("tool_use", _drop("input"))),
    Mutation("a call has no name", _MISSING, _each("tool_use", _drop("name"))),
    Mutation("a call has no id", _MISSING, _each("tool_use", _drop("id"))),
    Mutation("a call has an OpenAI key", _EXTRA, _each("tool_use", _put("arguments", "{}"))),
    Mutation("a result has no id", _MISSING, _each("tool_result", _drop("tool_use_id"))),
    Mutation("a result has a name", _EXTRA, _each("tool_result", _put("name", "get_weather"))),
    Mutation("a result is an object", _TYPE, _each("tool_result", _put("content", {"temp_c": 18}))),
    Mutation("a result is a number", _TYPE, _each("tool_result", _put("content", 18))),
    Mutation(
        "a result holds a block of OpenAI's",
        "anthropic-block-type",
        _each("tool_result", _put("content", [{"type": "input_text", "text": "x"}])),
    ),
    Mutation("an error flag is a word", _TYPE, _each("tool_result", _put("is_error", "true"))),
    Mutation("thinking lost its signature", _MISSING, _each("thinking", _drop("signature"))),
    Mutation("a block has no type", _MISSING, _each("text", _drop("type"))),
    Mutation("a block is of OpenAI's", "anthropic-block-type", _each("text", _put("type", "output_text"))),
    Mutation("text is null", _TYPE, _each("text", _put("text", None))),
    Mutation("an empty text is added", "anthropic-text-empty", _empty_text),
    Mutation("the role is tool", "anthropic-role", _roles("tool")),
    Mutation("the role is developer", "anthropic-role", _roles("developer")),
    Mutation("the role is model", "anthropic-role", _roles("model")),
    Mutation("a message has no role", _MISSING, _each_message(_drop("role"))),
    Mutation("a message has content null", (_TYPE, "anthropic-system-empty"), _each_message(_put("content", None))),
    Mutation("a message has a name", _EXTRA, _each_message(_put("name", "alice"))),
    Mutation("a message has tool_calls", _EXTRA, _each_message(_put("tool_calls", []))),
    Mutation("a system message leads", _BY_SYSTEM, _once(_leading_system)),
    Mutation("a system message parts calls and results", _BY_SYSTEM, _system_between),
    Mutation(
        "the system prompt is empty", "anthropic-system-empty", _once(_put("system", [{"type": "text", "text": ""}]))
    ),
    Mutation(
        "the system prompt is blank", "anthropic-system-empty", _once(_put("system", [{"type": "text", "text": " \n"}]))
    ),
    Mutation("the system prompt is an object", _TYPE, _once(_put("system", {"parts": [{"text": "x"}]}))),
    Mutation("the model is missing", _MISSING, _once(_drop("model"))),
    Mutation("max_tokens is missing", _MISSING, _once(_drop("max_tokens"))),
    Mutation("max_tokens is text", _TYPE, _once(_put("max_tokens", "1024"))),
    Mutation("max_tokens is below zero", "anthropic-max-tokens", _once(_put("max_tokens", -1))),
    Mutation("there are no messages", "anthropic-messages-empty", _once(_put("messages", []))),
    Mutation("messages are missing", _MISSING, _once(_drop("messages"))),
    Mutation("parallel_tool_calls is OpenAI's", _EXTRA, _once(_put("parallel_tool_calls", False))),
    Mutation("response_format is OpenAI's", _EXTRA, _once(_put("response_format", {"type": "json_object"}))),
    Mutation("stop is OpenAI's", _EXTRA, _once(_put("stop", ["x"]))),
    Mutation("a tool has no name", "anthropic-tool-name", _each_tool(_drop("name"))),
    Mutation("a tool's name is empty", "anthropic-tool-name", _each_tool(_put("name", ""))),
    Mutation("a tool's name has a dot", "anthropic-tool-name", _each_tool(_put("name", "weather.get"))),
    Mutation("a tool's name ends a line", "anthropic-tool-name", _each_tool(_put("name", "weather\n"))),
    Mutation("a tool's name is too long", "anthropic-tool-name", _each_tool(_put("name", "x" * 129))),
    Mutation("a tool is there twice", "anthropic-tool-name-duplicate", _once(_tool_twice, needs="tools")),
    Mutation("a tool has no schema", "anthropic-tool-schema", _each_tool(_drop("input_schema"))),
    Mutation(
        "a tool's schema is of a string", "anthropic-tool-schema", _each_tool(_put("input_schema", {"type": "string"}))
    ),
    Mutation("a tool's schema has no type", "anthropic-tool-schema", _each_tool(_put("input_schema", {}))),
    Mutation(
        "a tool's schema is Gemini's",
        "anthropic-tool-schema",
        _each_tool(_put("input_schema", {"type": "OBJECT", "properties": {}})),
    ),
    Mutation(
        "a tool's schema is broken",
        "anthropic-tool-schema",
        _each_tool(_put("input_schema", {"type": "object", "required": "city"})),
    ),
    Mutation("a tool is wrapped as OpenAI's", _EXTRA, _each_tool(_put("function", {"name": "x"}))),
    Mutation("a tool has parameters", _EXTRA, _each_tool(_put("parameters", {"type": "object"}))),
    Mutation(
        "a strict tool is open",
        "anthropic-strict-schema",
        _each_tool(lambda tool: tool.update(strict=True, input_schema=_OPEN)),
    ),
    Mutation(
        "an example does not match",
        "anthropic-tool-examples",
        _each_tool(
            lambda tool: tool.update(
                input_schema={"type": "object", "properties": {"n": {"type": "integer"}}}, input_examples=[{"n": "x"}]
            )
        ),
    ),
    Mutation("tool_choice is a word", _TYPE, _once(_put("tool_choice", "required"), needs="tools")),
    Mutation(
        "tool_choice is OpenAI's",
        "anthropic-choice-type",
        _once(_put("tool_choice", {"type": "function", "name": "x"})),
    ),
    Mutation("tool_choice names no tool", _MISSING, _once(_put("tool_choice", {"type": "tool"}))),
    Mutation("a forced choice while thinking", "anthropic-choice-thinking", _once(_forced_while_thinking)),
    Mutation("thinking without a budget", _MISSING, _once(_put("thinking", {"type": "enabled"}))),
    Mutation(
        "a thinking budget too small",
        "anthropic-thinking-budget",
        _once(_put("thinking", {"type": "enabled", "budget_tokens": 512})),
    ),
    Mutation("five cache marks", "anthropic-cache-marks", _once(_five_marks)),
    Mutation(
        "a cache mark of its own", "anthropic-cache-mark", _each("text", _put("cache_control", {"type": "eternal"}))
    ),
    Mutation("a format with an open object", "anthropic-strict-schema", _once(_put("output_config", _format(_OPEN)))),
    Mutation("a format of OpenAI's", "anthropic-format-type", _once(_put("output_config", _format({}, "json_object")))),
    Mutation("a format without a schema", _MISSING, _once(_put("output_config", {"format": {"type": "json_schema"}}))),
    Mutation("a format with a prefill", "anthropic-format-prefill", _prefill),
]
