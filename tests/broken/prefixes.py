"""Faults that change tools, system prompt or history from one request to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.model.messages import ChatRequest, Message, Part, Role, Thinking, Tool, ToolResult
from harness.model.protocols import Adapter
from tests.broken.fault import ALL, OPENAI, Expected, Fault, Table, Wrap, Wrapped, client, edited_message, sends
from tests.broken.history import moved_behind
from tests.broken.places import RESULT, SYSTEM, TEXT, TOOL

WITH_THINKING = tuple(target for target in ALL if target != "openai-chat")
OPAQUE = ("anthropic", "openai-responses")
"""The targets whose reasoning is sent back as parts of its own."""


def each_time(edit: Callable[[int, ChatRequest], ChatRequest]) -> Wrap:
    """Each request is changed by its number. The provider sees it on the wire, so each target plays it."""

    class Counting(Wrapped):
        asked = -1

        def ask(self, request: ChatRequest) -> ChatRequest:
            self.asked += 1
            return edit(self.asked, request)

    wrap = client(Counting)

    def on_each_wire(adapter: Adapter) -> Adapter:
        return wrap(adapter)

    return on_each_wire


def tools(edit: Callable[[int, tuple[Tool, ...]], tuple[Tool, ...]]) -> Wrap:
    return each_time(lambda asked, request: replace(request, tools=edit(asked, request.tools)))


def _reversed(asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return given[::-1] if asked % 2 else given


def _reversed_when_added(_asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools are collected anew once there is another one, last one first."""
    return given[::-1] if len(given) > 2 else given


def _by_completion(asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tool servers are asked at once, and another one is the first to respond each time."""
    first = asked % len(given)
    return (*given[first:], *given[:first])


def _required_rewritten(asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The schema is made anew for each request, from a set of names."""

    def written(tool: Tool) -> Tool:
        required = sorted(cast("list[str]", tool.parameters["required"]), reverse=bool(asked % 2))
        return replace(tool, parameters={**tool.parameters, "required": [*required]})

    return tuple(map(written, given))


def _described(asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    first, *others = given
    return (replace(first, description=f"{first.description} Called {asked} times so far."), *others)


def _dated(asked: int, request: ChatRequest) -> ChatRequest:
    return replace(request, system=f"{request.system}\nIt is 2026-11-26, 10:{asked:02}.")


def _without_second_thought(asked: int, request: ChatRequest) -> ChatRequest:
    """Reasoning makes room from the second one on, once there are three."""
    thoughts = [part for message in request.messages for part in message.parts if isinstance(part, Thinking)]
    if len(thoughts) < 3:
        return request
    messages = (edited_message(each, lambda part: None if part is thoughts[1] else part) for each in request.messages)
    return replace(request, messages=tuple(messages))


def _shortened(_asked: int, request: ChatRequest) -> ChatRequest:
    """Results of earlier turns are cut to their first characters."""
    starts = [at for at, each in enumerate(request.messages) if each.role is Role.USER and not each.tool_results]

    def cut(part: Part) -> Part:
        return replace(part, content=str(part.content)[:12]) if isinstance(part, ToolResult) else part

    def earlier(at: int, message: Message) -> Message:
        return edited_message(message, cut) if at < starts[-1] else message

    return replace(request, messages=tuple(earlier(at, each) for at, each in enumerate(request.messages)))


def _results_by_completion() -> Wrap:
    """The results of an answer are collected as they arrive, anew for each request."""
    asked = iter(range(1000))

    def sent(_api: str, body: dict[str, Any]) -> None:
        key = next(each for each in ("messages", "input", "contents") if each in body)
        if next(asked) % 2:
            return
        for entry in body[key]:
            parts = entry.get("content", entry.get("parts"))
            if isinstance(parts, list) and _is_result(parts[0]):
                parts.reverse()
        body[key] = _runs_reversed(body[key])

    return sends(sent)


def _is_result(entry: dict[str, Any]) -> bool:
    kinds = ("tool_result", "function_call_output")
    return entry.get("role") == "tool" or entry.get("type") in kinds or "functionResponse" in entry


def _runs_reversed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each run of results that are entries of their own, last one first."""
    found: list[dict[str, Any]] = []
    run: list[dict[str, Any]] = []
    for entry in entries:
        if _is_result(entry):
            run.append(entry)
        else:
            found += [*reversed(run), entry]
            run = []
    return [*found, *reversed(run)]


FAULTS: Table = {
    Expected("prefix-changed", TOOL, case="tool-order"): [
        Fault("tools-reversed", "prefix-with-thinking", tools(_reversed), WITH_THINKING),
        Fault("tools-reversed-without-thinking", "prefix-with-media", tools(_reversed)),
        Fault("tools-by-completion", "prefix-with-media", tools(_by_completion)),
    ],
    Expected("prefix-changed", TOOL, 3, case="tool-order"): [
        Fault("tools-reversed-by-an-addition", "tool-added", tools(_reversed_when_added)),
    ],
    Expected("prefix-changed", TOOL, case="tool-changed"): [
        Fault("required-rewritten", "prefix-with-media", tools(_required_rewritten)),
        Fault("description-that-counts", "prefix-with-media", tools(_described)),
    ],
    Expected("prefix-changed", SYSTEM, case="system"): [
        Fault("system-with-the-time", "prefix-with-media", each_time(_dated)),
    ],
    Expected("prefix-changed", TEXT, case="system"): [
        Fault("instructions-moved", "prefix-with-media", sends(moved_behind), OPENAI),
    ],
    Expected("prefix-changed", TEXT, 3, case="thinking-dropped"): [
        Fault("second-thought-dropped", "prefix-with-thinking", each_time(_without_second_thought), OPAQUE),
    ],
    Expected("prefix-changed", RESULT, 2, case="history"): [
        Fault("old-results-shortened", "prefix-with-media", each_time(_shortened)),
    ],
    Expected("prefix-changed", RESULT, 2, case="result-order"): [
        Fault("results-by-completion", "prefix-with-media", _results_by_completion()),
    ],
}
