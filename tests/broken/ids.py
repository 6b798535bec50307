"""Faults of ID matching at the calls: ids made, lost, confused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.contract.model import ChatRequest, ChatResponse, Message, Part, ToolCall, ToolResult
from harness.results import Severity
from tests.broken.fault import (
    WITH_IDS,
    Fault,
    Wrapped,
    answers,
    asks,
    asks_messages,
    asks_parts,
    client,
    edited_message,
    edited_parts,
    sends,
)
from tests.broken.places import BODY, CALL, CALL_ID, RESPONSE_CALL, RESPONSE_CALL_ID, RESULT


def renamed(
    request: ChatRequest, rename: Callable[[str], str], result: Callable[[str], str] | None = None
) -> ChatRequest:
    """The request with another id for each call, and its result under the same unless `result` renames that."""

    def edit(part: Part) -> Part:
        match part:
            case ToolCall():
                return replace(part, id=rename(part.id))
            case ToolResult():
                return replace(part, call_id=(result or rename)(part.call_id))
            case _:
                return part

    return edited_parts(request, edit)


def ids_of(request: ChatRequest) -> list[str]:
    return list(dict.fromkeys(call.id for message in request.messages for call in message.tool_calls))


def _numbered(response: ChatResponse) -> ChatResponse:
    """Ids that begin anew with every answer."""
    calls = iter(range(len(response.tool_calls)))

    def edit(part: Part) -> Part:
        return replace(part, id=f"call_{next(calls)}") if isinstance(part, ToolCall) else part

    return replace(response, message=edited_message(response.message, edit))


def _one_id(message: Message) -> Message:
    """All calls of a message, and all results, under the id of the first."""
    calls, results = message.tool_calls, message.tool_results

    def edit(part: Part) -> Part:
        match part:
            case ToolCall():
                return replace(part, id=calls[0].id)
            case ToolResult():
                return replace(part, call_id=results[0].call_id)
            case _:
                return part

    return edited_message(message, edit)


def _reversed_calls(message: Message) -> Message:
    """The calls of a message in reverse; what else it holds stays where it is."""
    calls = list(message.tool_calls)
    return edited_message(message, lambda part: calls.pop() if isinstance(part, ToolCall) else part)


def _without_twins(message: Message) -> Message:
    """Of identical calls only the first, and of results as many as there are calls."""
    first = {(call.name, str(call.arguments)): call.id for call in reversed(message.tool_calls)}
    seen: set[str] = set()

    def edit(part: Part) -> Part | None:
        if isinstance(part, ToolCall):
            return part if part.id in first.values() else None
        if isinstance(part, ToolResult) and part.name in seen:
            return None
        seen.add(getattr(part, "name", ""))
        return part

    return edited_message(message, edit)


def _unmarked(part: Part) -> Part:
    return replace(part, provider_metadata={}) if isinstance(part, ToolCall) else part


class _UnstableIds(Wrapped):
    """Ids that are made anew for every request."""

    requests = 0

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.requests += 1
        places = {old: place for place, old in enumerate(ids_of(request))}
        return renamed(request, lambda old: f"call_r{self.requests}n{places[old]}")


def _leaked(_api: str, body: dict[str, Any]) -> None:
    """Ids of the adapter's own making on calls and results."""
    for turn, content in enumerate(body["contents"]):
        for place, part in enumerate(content["parts"]):
            if "functionCall" in part:
                part["functionCall"]["id"] = f"call_{turn}_{place}"
            if "functionResponse" in part:
                part["functionResponse"]["id"] = f"call_{turn - 1}_{place}"


def _without_ids(body: dict[str, Any], *kinds: str) -> None:
    for content in body["contents"]:
        for part in content["parts"]:
            for kind in kinds:
                part.get(kind, {}).pop("id", None)


def _call_id_of_item(_api: str, body: dict[str, Any]) -> None:
    """The item's id in the place of the call's: `fc_…` for `call_…`."""
    items = {item["call_id"]: item["id"] for item in body["input"] if item.get("type") == "function_call"}
    for item in body["input"]:
        if "call_id" in item:
            item["call_id"] = items[item["call_id"]]


FAULTS = (
    Fault(
        "ids-made-anew-when-decoded",
        answers(_numbered),
        "call-single",
        "issued-id-lost",
        RESPONSE_CALL_ID,
        0,
        WITH_IDS,
        severity=Severity.WARNING,
    ),
    Fault(
        "one-id-for-calls-of-an-answer",
        answers(lambda response: replace(response, message=_one_id(response.message))),
        "call-parallel-same-tool",
        "issued-id-lost",
        RESPONSE_CALL_ID,
        0,
        ("openai-chat", "gemini-3"),
    ),
    Fault(
        "ids-made-anew-when-encoded",
        asks(lambda request: renamed(request, lambda old: f"call_{ids_of(request).index(old)}")),
        "call-sequential",
        "call-id-changed",
        CALL_ID,
        targets=WITH_IDS,
        severity=Severity.WARNING,
    ),
    Fault(
        "ids-made-anew-for-calls-alone",
        asks_parts(lambda part: replace(part, id=f"x{part.id}") if isinstance(part, ToolCall) else part),
        "call-single",
        "call-id-changed",
        CALL_ID,
        targets=WITH_IDS,
    ),
    Fault(
        "ids-left-out",
        sends(lambda _, body: _without_ids(body, "functionCall", "functionResponse")),
        "call-single",
        "call-id-changed",
        CALL,
        1,
        ("gemini-3",),
        severity=Severity.WARNING,
    ),
    Fault(
        "ids-of-same-tool-left-out",
        sends(lambda _, body: _without_ids(body, "functionCall", "functionResponse")),
        "call-parallel-same-tool",
        "call-id-changed",
        CALL,
        1,
        ("gemini-3",),
    ),
    Fault(
        "ids-in-small-letters",
        asks(lambda request: renamed(request, str.lower)),
        "call-parallel-same-tool",
        "call-id-changed",
        CALL_ID,
        targets=("anthropic", "openai-chat", "openai-responses"),
        severity=Severity.WARNING,
    ),
    Fault(
        "item-id-for-call-id",
        sends(_call_id_of_item),
        "call-single",
        "call-id-changed",
        CALL_ID,
        targets=("openai-responses",),
        severity=Severity.WARNING,
    ),
    Fault(
        "result-ids-of-same-tool-left-out",
        sends(lambda _, body: _without_ids(body, "functionResponse")),
        "call-parallel-same-tool",
        "result-ambiguous",
        RESULT,
        1,
        ("gemini-3",),
    ),
    Fault(
        "one-id-for-parallel-calls",
        asks_messages(lambda messages: tuple(map(_one_id, messages))),
        "call-parallel-different-tools",
        "call-id-unique",
        CALL_ID,
        targets=WITH_IDS,
    ),
    Fault(
        "calls-dropped-from-history",
        asks_parts(lambda part: None if isinstance(part, ToolCall | ToolResult) else part),
        "call-single",
        "call-missing",
        BODY,
    ),
    Fault(
        "undeclared-calls-dropped",
        asks_parts(lambda part: None if getattr(part, "name", "") == "get_tide_table" else part),
        "call-unknown-tool",
        "call-missing",
        BODY,
    ),
    Fault(
        "calls-renamed-in-history",
        asks_parts(lambda part: replace(part, name=f"x_{part.name}") if isinstance(part, ToolCall) else part),
        "call-single",
        "call-missing",
        BODY,
    ),
    Fault(
        "calls-reversed",
        asks_messages(lambda messages: tuple(map(_reversed_calls, messages))),
        "call-parallel-different-tools",
        "call-order",
        CALL,
    ),
    Fault(
        "identical-calls-merged",
        asks_messages(lambda messages: tuple(map(_without_twins, messages))),
        "call-identical-twice",
        "call-missing",
        BODY,
    ),
    Fault(
        "made-ids-leaked",
        sends(_leaked),
        "call-parallel-same-tool",
        "synthesised-id-sent",
        CALL_ID,
        targets=("gemini-2.5",),
    ),
    Fault(
        "made-ids-begin-anew",
        answers(_numbered),
        "call-parallel-twice",
        "synthesised-id-unique",
        RESPONSE_CALL,
        targets=("gemini-2.5",),
    ),
    Fault(
        "made-ids-not-marked",
        answers(lambda response: replace(response, message=edited_message(response.message, _unmarked))),
        "call-single",
        "synthesised-id-marked",
        RESPONSE_CALL,
        0,
        ("gemini-2.5",),
    ),
    Fault(
        "foreign-ids-cut-short",
        asks(lambda request: renamed(request, lambda old: old[:40])),
        "history-long-ids",
        "foreign-id-mapping",
        CALL_ID,
        0,
    ),
    Fault(
        "foreign-ids-made-legal-by-substitution",
        asks(lambda request: renamed(request, lambda old: re.sub(r"\W", "_", old))),
        "history-kimi-ids",
        "foreign-id-mapping",
        CALL_ID,
        0,
    ),
    Fault(
        "foreign-ids-numbered-from-the-end",
        asks(lambda request: renamed(request, lambda old: f"call_{ids_of(request)[::-1].index(old)}")),
        "history-openai-ids",
        "foreign-id-mapping",
        CALL_ID,
    ),
    Fault(
        "foreign-ids-unstable",
        client(_UnstableIds),
        "history-anthropic-ids",
        "foreign-id-mapping",
        CALL_ID,
    ),
)
