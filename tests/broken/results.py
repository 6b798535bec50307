"""Faults at tool results: answered wrongly, misplaced, changed, unmarked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.contract.model import Image, Message, ToolCall, ToolResult
from harness.results import Severity
from tests.broken.fault import (
    ALL,
    GEMINI,
    WITH_IDS,
    Fault,
    Wrap,
    asks_messages,
    asks_parts,
    edited_message,
    sends,
)
from tests.broken.places import CALL, RESULT, RESULT_ID, RESULT_TURN, TOOL_CALLS


def results(edit: Callable[[ToolResult], ToolResult | None]) -> Wrap:
    """Each result is changed on its way."""
    return asks_parts(lambda part: edit(part) if isinstance(part, ToolResult) else part)


def contents(edit: Callable[[Any], Any]) -> Wrap:
    """The content of each result is changed on its way."""
    return results(lambda result: replace(result, content=edit(result.content)))


def each_message(edit: Callable[[Message], Message]) -> Wrap:
    return asks_messages(lambda messages: tuple(map(edit, messages)))


def _with_results(message: Message, new: list[ToolResult]) -> Message:
    """The message with other results in the places of its own; those beyond stand behind."""
    left = list(new)
    kept = edited_message(
        message, lambda part: (left.pop(0) if left else None) if isinstance(part, ToolResult) else part
    )
    return replace(kept, parts=(*kept.parts, *left))


def _swapped(message: Message) -> Message:
    """The contents of the first two results, exchanged."""
    found = list(message.tool_results)
    if len(found) > 1:
        found[0], found[1] = (
            replace(found[0], content=found[1].content, is_error=found[1].is_error),
            replace(found[1], content=found[0].content, is_error=found[0].is_error),
        )
    return _with_results(message, found)


def _by_name(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results are looked up by the name of the tool: the first one of a name answers every call of it."""
    first: dict[str, ToolResult] = {}
    for message in messages:
        for result in message.tool_results:
            first.setdefault(result.name, result)
    return tuple(
        _with_results(
            m, [replace(r, content=first[r.name].content, is_error=first[r.name].is_error) for r in m.tool_results]
        )
        for m in messages
    )


def remembered(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results are looked up by the tool and its arguments: what was asked once is not asked again."""
    asked = {
        call.id: (call.name, json.dumps(call.arguments, sort_keys=True)) for m in messages for call in m.tool_calls
    }
    first: dict[tuple[str, str], ToolResult] = {}
    for message in messages:
        for result in message.tool_results:
            first.setdefault(asked[result.call_id], result)

    def told(result: ToolResult) -> ToolResult:
        kept = first[asked[result.call_id]]
        return replace(result, content=kept.content, is_error=kept.is_error)

    return tuple(_with_results(message, [*map(told, message.tool_results)]) for message in messages)


def _by_order(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results are given to the calls in the order in which they come, whatever their ids say."""
    sent: list[Message] = []
    for message in messages:
        calls = sent[-1].tool_calls if sent else ()
        found = message.tool_results
        if len(calls) == len(found):
            message = _with_results(message, [replace(r, call_id=c.id) for c, r in zip(calls, found, strict=True)])  # noqa: PLW2901
        sent.append(message)
    return tuple(sent)


def one_at_a_time(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Parallel calls become turns of one call each."""
    sent: list[Message] = []
    for message in messages:
        calls = sent[-1].tool_calls if sent else ()
        if len(calls) < 2 or not message.tool_results:
            sent.append(message)
            continue
        first = sent.pop()
        said = tuple(part for part in first.parts if not isinstance(part, ToolCall))
        for number, call in enumerate(calls):
            results = [result for result in message.tool_results if result.call_id == call.id]
            before = () if number else said
            sent += [replace(first, parts=(*before, call)), replace(message, parts=tuple(results))]
    return tuple(sent)


def _under_first_id(message: Message) -> Message:
    found = message.tool_results
    return _with_results(message, [replace(result, call_id=found[0].call_id, name=found[0].name) for result in found])


def _last_dropped(message: Message) -> Message:
    found = list(message.tool_results)
    return _with_results(message, found[:-1]) if len(found) > 1 else message


def _first_two_only(message: Message) -> Message:
    return _with_results(message, list(message.tool_results)[:2])


def _duplicated(message: Message) -> Message:
    found = list(message.tool_results)
    return _with_results(message, [*found, *found[:1]])


def _behind_next_user_text(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The results of an earlier turn stand behind what the user says next."""
    late = [message for message in messages[:-2] if message.tool_results]
    return (*(message for message in messages if message not in late), *late)


def _text_in_front(api: str, body: dict[str, Any]) -> None:
    """A text of the user's between the calls and their results."""
    entries = body.get("messages") or body.get("input") or body["contents"]
    if api in ("openai-chat", "openai-responses"):
        of_result = {"tool", "function_call_output"}
        place = next((i for i, e in enumerate(entries) if {e.get("role"), e.get("type")} & of_result), None)
        if place is not None:
            entries.insert(place, {"role": "user", "content": "Results of the tools:"})
        return
    for entry in entries:
        parts = entry.get("parts", entry.get("content"))
        if "functionResponse" in parts[0]:
            parts.insert(0, {"text": "Results of the tools:"})
        elif parts[0].get("type") == "tool_result":
            parts.insert(0, {"type": "text", "text": "Results of the tools:"})


def _split(_api: str, body: dict[str, Any]) -> None:
    """Each result in an entry of its own."""
    split: list[dict[str, Any]] = []
    for content in body["contents"]:
        of_results = all("functionResponse" in part for part in content["parts"])
        split += [{**content, "parts": [part]} for part in content["parts"]] if of_results else [content]
    body["contents"] = split


def _orphaned(_api: str, body: dict[str, Any]) -> None:
    """The id of a result loses its last letter."""
    for holder, key in _result_ids(body):
        holder[key] = holder[key][:-1]


def _result_ids(body: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    found: list[tuple[dict[str, Any], str]] = []
    for turn in body.get("messages") or body.get("input") or body.get("contents") or []:
        content = turn.get("content")
        inner = turn.get("parts") or (content if isinstance(content, list) else [])
        for holder in (turn, *inner, *(part.get("functionResponse", {}) for part in inner)):
            key = next((k for k in ("tool_use_id", "tool_call_id", "call_id") if k in holder), None)
            if key and holder.get("type") != "function_call":
                found.append((holder, key))
            elif "response" in holder and "id" in holder:
                found.append((holder, "id"))
    return found


def _renamed(_api: str, body: dict[str, Any]) -> None:
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                part["functionResponse"]["name"] = "result"


def _media_dropped(content: Any) -> Any:
    return tuple(p for p in content if not isinstance(p, Image)) if isinstance(content, tuple) else content


def _first_part_only(content: Any) -> Any:
    return content[:1] if isinstance(content, tuple) else content


def _reparsed(content: Any) -> Any:
    """A text that happens to be JSON is parsed and written anew."""
    try:
        return json.loads(content) if isinstance(content, str) else content
    except ValueError:
        return content


def mapped(edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same for every scalar inside a JSON value."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [walk(item) for item in cast("list[Any]", value)]
        return edit(value)

    return walk


def shallow(value: Any, depth: int = 3) -> Any:
    """Whatever lies deeper than three levels becomes text."""
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return str(value)
    if isinstance(value, dict):
        return {key: shallow(item, depth - 1) for key, item in value.items()}
    return [shallow(item, depth - 1) for item in value]


def ascii_only(value: Any) -> Any:
    return value.encode("ascii", "replace").decode() if isinstance(value, str) else value


def as_double(value: Any) -> Any:
    return int(float(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def rounded(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value


def without_control_characters(value: Any) -> Any:
    return "".join(letter for letter in value if letter >= " ") if isinstance(value, str) else value


def _first_unflagged(message: Message) -> Message:
    """The error flag of a message's results is that of the first."""
    found = message.tool_results
    return _with_results(message, [replace(result, is_error=found[0].is_error) for result in found])


def _described(result: ToolResult) -> ToolResult:
    return replace(result, content="The tool failed.") if result.is_error else result


FAULTS = (
    Fault("results-swapped", each_message(_swapped), "call-parallel-same-tool", "result-swapped", RESULT),
    Fault("calls-split", asks_messages(one_at_a_time), "call-parallel-same-tool", "calls-split", CALL),
    Fault("results-by-name", asks_messages(_by_name), "call-again-next-turn", "result-swapped", RESULT, 3),
    Fault("results-by-order", asks_messages(_by_order), "call-results-reordered", "result-swapped", RESULT),
    Fault("history-results-by-order", asks_messages(_by_order), "history-identical-calls", "result-swapped", RESULT, 0),
    Fault(
        "results-under-first-id",
        each_message(_under_first_id),
        "call-parallel-twice",
        "result-missing",
        CALL,
        targets=WITH_IDS,
    ),
    Fault("one-result-dropped", each_message(_last_dropped), "call-parallel-same-tool", "result-missing", CALL),
    Fault("two-results-at-most", each_message(_first_two_only), "call-parallel-many", "result-missing", CALL),
    Fault(
        "result-duplicated", each_message(_duplicated), "call-single", "result-duplicate", RESULT_ID, targets=WITH_IDS
    ),
    Fault("result-id-cut", sends(_orphaned), "call-single", "result-orphan", RESULT_ID, targets=WITH_IDS),
    Fault(
        "results-behind-user-text",
        asks_messages(_behind_next_user_text),
        "history-two-turns",
        "result-misplaced",
        RESULT,
        2,
        ("anthropic", *GEMINI),
    ),
    Fault(
        "results-behind-the-answer",
        asks_messages(_behind_next_user_text),
        "history-two-turns",
        "openai-chat-result-missing",
        TOOL_CALLS,
        2,
        ("openai-chat",),
    ),
    Fault(
        "results-behind-later-text",
        asks_messages(_behind_next_user_text),
        "history-two-turns",
        "result-misplaced",
        RESULT,
        3,
        ("openai-responses",),
    ),
    Fault(
        "results-split",
        sends(_split),
        "call-parallel-same-tool",
        "gemini-results-split",
        RESULT_TURN,
        targets=("gemini-3",),
    ),
    Fault("text-before-results", sends(_text_in_front), "call-single", "result-misplaced", RESULT),
    Fault("result-renamed", sends(_renamed), "call-single", "result-renamed", RESULT, targets=("gemini-3",)),
    Fault(
        "result-renamed-without-ids", sends(_renamed), "call-single", "result-orphan", RESULT, targets=("gemini-2.5",)
    ),
    Fault(
        "results-remembered",
        asks_messages(remembered),
        "call-fails-then-answers",
        "result-swapped",
        RESULT,
        3,
    ),
    Fault("result-as-python-text", contents(str), "result-object", "result-changed", RESULT),
    Fault(
        "result-none-as-text", contents(lambda c: "None" if c is None else c), "result-null", "result-changed", RESULT
    ),
    Fault(
        "result-boolean-as-text",
        contents(lambda c: str(c) if isinstance(c, bool) else c),
        "result-boolean",
        "result-changed",
        RESULT,
    ),
    Fault(
        "result-empty-replaced", contents(lambda c: c or "(no output)"), "result-empty-text", "result-changed", RESULT
    ),
    Fault(
        "result-cut",
        contents(lambda c: c[:8] if isinstance(c, str) else c),
        "result-json-text",
        "result-changed",
        RESULT,
    ),
    Fault(
        "result-cut-where-it-is-long",
        contents(lambda c: c[:4000] if isinstance(c, str) else c),
        "result-long",
        "result-changed",
        RESULT,
    ),
    Fault("result-text-reparsed", contents(_reparsed), "result-json-text", "result-changed", RESULT),
    Fault(
        "result-first-of-list",
        contents(lambda c: c[0] if isinstance(c, list) else c),
        "result-list",
        "result-changed",
        RESULT,
    ),
    Fault("result-first-part-only", contents(_first_part_only), "result-parts", "result-changed", RESULT),
    Fault(
        "result-number-shortened",
        contents(lambda c: round(c, -1) if isinstance(c, int) else c),
        "result-number",
        "result-changed",
        RESULT,
    ),
    Fault("result-deep-as-text", contents(shallow), "results-deep", "result-changed", RESULT),
    Fault("result-ascii", contents(mapped(ascii_only)), "results-unicode", "result-changed", RESULT),
    Fault(
        "result-integers-as-doubles", contents(mapped(as_double)), "results-large-integers", "result-changed", RESULT
    ),
    Fault("result-floats-rounded", contents(mapped(rounded)), "results-floats", "result-changed", RESULT),
    Fault(
        "result-control-characters-lost",
        contents(mapped(without_control_characters)),
        "results-escapes",
        "result-changed",
        RESULT,
    ),
    Fault("result-image-dropped", contents(_media_dropped), "result-image", "result-changed", RESULT, targets=ALL[:-1]),
    Fault("error-text-replaced", results(_described), "result-tool-raises", "result-changed", RESULT),
    Fault(
        "error-object-emptied",
        results(lambda r: replace(r, content=None) if r.is_error else r),
        "result-error-object",
        "result-changed",
        RESULT,
    ),
    Fault("error-flag-dropped", results(lambda r: replace(r, is_error=False)), "result-error", "error-flag", RESULT),
    Fault(
        "error-flag-dropped-in-history",
        results(lambda r: replace(r, is_error=False)),
        "history-error-results",
        "error-flag",
        RESULT,
        0,
    ),
    Fault(
        "error-flag-of-first-for-all", each_message(_first_unflagged), "result-error-in-parallel", "error-flag", RESULT
    ),
    Fault(
        "error-in-words-beside-a-flag",  # where the API has one, a text that says so is no mark
        results(lambda r: replace(r, is_error=False, content=f"Error: {r.text}") if r.is_error else r),
        "result-error",
        "error-flag",
        RESULT,
        targets=("anthropic",),
        severity=Severity.WARNING,
    ),
    Fault("error-flag-always", results(lambda r: replace(r, is_error=True)), "call-single", "error-flag", RESULT),
)
