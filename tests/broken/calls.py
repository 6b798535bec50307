"""Faults at calls, arguments and results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.model.messages import ChatRequest, ChatResponse, Image, Message, Part, ToolCall, ToolResult
from harness.results import Severity
from tests.broken.fault import (
    ALL,
    OPENAI,
    WITH_IDS,
    Expected,
    Fault,
    Table,
    Wrap,
    Wrapped,
    answers,
    answers_parts,
    asks,
    asks_messages,
    asks_parts,
    client,
    edited_message,
    edited_parts,
    sends,
)
from tests.broken.places import (
    ARGUMENTS,
    BODY,
    CALL,
    CALL_ID,
    RESPONSE_CALL,
    RESULT,
    RESULT_ID,
    RESULT_TURN,
    TOOL_CALLS,
)


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


def _arguments(edit: Callable[[Any], Any]) -> Callable[[Part], Part]:
    return lambda part: replace(part, arguments=edit(part.arguments)) if isinstance(part, ToolCall) else part


def sent_arguments(edit: Callable[[Any], Any]) -> Wrap:
    """The arguments of each call are changed on their way back."""
    return asks_parts(_arguments(edit))


def _wire_calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What holds `arguments` on OpenAI's wires."""
    of_chat = [call["function"] for message in body.get("messages", []) for call in message.get("tool_calls", [])]
    return of_chat + [item for item in body.get("input", []) if item.get("type") == "function_call"]


def on_the_wire(edit: Callable[[str], str]) -> Wrap:
    """The JSON text of the arguments is changed."""

    def rewrite(_api: str, body: dict[str, Any]) -> None:
        for call in _wire_calls(body):
            call["arguments"] = edit(call["arguments"])

    return sends(rewrite)


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

    def with_first_content(result: ToolResult) -> ToolResult:
        kept = first[asked[result.call_id]]
        return replace(result, content=kept.content, is_error=kept.is_error)

    return tuple(_with_results(message, [*map(with_first_content, message.tool_results)]) for message in messages)


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


def _named_last(_api: str, body: dict[str, Any]) -> None:
    """The name of a result is that of the last call with its id, though ids may come again in a later turn."""
    parts = [part for content in body["contents"] for part in content["parts"]]
    names = {part["functionCall"]["id"]: part["functionCall"]["name"] for part in parts if "functionCall" in part}
    for part in parts:
        if "functionResponse" in part:
            part["functionResponse"]["name"] = names[part["functionResponse"]["id"]]


def _result_renamed(_api: str, body: dict[str, Any]) -> None:
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                part["functionResponse"]["name"] = "result"


def _media_dropped(content: Any) -> Any:
    return tuple(p for p in content if not isinstance(p, Image)) if isinstance(content, tuple) else content


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


def as_double(value: Any) -> Any:
    return int(float(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def rounded(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value


FAULTS: Table = {
    Expected("arguments-changed", ARGUMENTS): [
        Fault("arguments-as-texts", "schema-references", sent_arguments(mapped(str))),
        Fault("arguments-encoded-twice", "call-single", on_the_wire(json.dumps), OPENAI),
        Fault("arguments-floats-rounded", "arguments-floats", sent_arguments(mapped(rounded))),
        Fault("arguments-integers-as-doubles", "arguments-large-integers", sent_arguments(mapped(as_double))),
    ],
    Expected("call-id-changed", CALL): [
        Fault(
            "ids-of-same-tool-left-out",
            "call-parallel-same-tool",
            sends(lambda _, body: _without_ids(body, "functionCall", "functionResponse")),
            ("gemini-3",),
        )
    ],
    Expected("call-id-changed", CALL, severity=Severity.WARNING): [
        Fault(
            "ids-left-out",
            "call-single",
            sends(lambda _, body: _without_ids(body, "functionCall", "functionResponse")),
            ("gemini-3",),
        )
    ],
    Expected("call-id-changed", CALL_ID): [
        Fault(
            "ids-made-anew-for-calls-alone",
            "call-single",
            asks_parts(lambda part: replace(part, id=f"x{part.id}") if isinstance(part, ToolCall) else part),
            WITH_IDS,
        )
    ],
    Expected("call-id-unique", CALL_ID): [
        Fault(
            "one-id-for-parallel-calls",
            "call-parallel-different-tools",
            asks_messages(lambda messages: tuple(map(_one_id, messages))),
            WITH_IDS,
        )
    ],
    Expected("call-missing", BODY): [
        Fault(
            "identical-calls-merged",
            "call-identical-twice",
            asks_messages(lambda messages: tuple(map(_without_twins, messages))),
        ),
    ],
    Expected("call-order", CALL): [
        Fault(
            "calls-reversed",
            "call-parallel-different-tools",
            asks_messages(lambda messages: tuple(map(_reversed_calls, messages))),
        )
    ],
    Expected("calls-split", CALL): [Fault("calls-split", "call-parallel-same-tool", asks_messages(one_at_a_time))],
    Expected("error-flag", RESULT, 0): [
        Fault("error-flag-dropped-in-history", "history-error-results", results(lambda r: replace(r, is_error=False)))
    ],
    Expected("error-flag", RESULT, severity=Severity.WARNING): [
        # where the API has one, a text that says so is no mark
        Fault(
            "error-in-words-beside-a-flag",
            "result-error",
            results(lambda r: replace(r, is_error=False, content=f"Error: {r.text}") if r.is_error else r),
            ("anthropic",),
        )
    ],
    Expected("foreign-id-mapping", CALL_ID, 0): [
        Fault(
            "foreign-ids-cut-short", "history-long-ids", asks(lambda request: renamed(request, lambda old: old[:40]))
        ),
    ],
    Expected("foreign-id-mapping", CALL_ID): [
        Fault(
            "foreign-ids-numbered-from-the-end",
            "history-openai-ids",
            asks(lambda request: renamed(request, lambda old: f"call_{ids_of(request)[::-1].index(old)}")),
        ),
        Fault("foreign-ids-unstable", "history-anthropic-ids", client(_UnstableIds)),
    ],
    Expected("gemini-results-split", RESULT_TURN): [
        Fault("results-split", "call-parallel-same-tool", sends(_split), ("gemini-3",))
    ],
    Expected("openai-chat-result-missing", TOOL_CALLS, 2): [
        Fault("results-behind-the-answer", "history-two-turns", asks_messages(_behind_next_user_text), ("openai-chat",))
    ],
    Expected("response-calls", RESPONSE_CALL, 0): [
        Fault(
            "empty-arguments-unread",
            "call-provoked-empty-arguments",
            answers_parts(lambda part: None if isinstance(part, ToolCall) and not part.arguments else part),
            ("openai-chat",),
        )
    ],
    Expected("result-ambiguous", RESULT): [
        Fault(
            "result-ids-of-same-tool-left-out",
            "call-parallel-same-tool",
            sends(lambda _, body: _without_ids(body, "functionResponse")),
            ("gemini-3",),
        )
    ],
    Expected("result-changed", RESULT): [
        Fault("result-as-python-text", "result-object", contents(str)),
        Fault("result-text-reparsed", "result-json-text", contents(_reparsed)),
        Fault("result-image-dropped", "result-image", contents(_media_dropped), ALL[:-1]),
    ],
    Expected("result-duplicate", RESULT_ID): [
        Fault("result-duplicated", "call-single", each_message(_duplicated), WITH_IDS)
    ],
    Expected("result-misplaced", RESULT): [Fault("text-before-results", "call-single", sends(_text_in_front))],
    Expected("result-orphan", RESULT_ID): [Fault("result-id-cut", "call-single", sends(_orphaned), WITH_IDS)],
    Expected("result-renamed", RESULT): [Fault("result-renamed", "call-single", sends(_result_renamed), ("gemini-3",))],
    Expected("result-renamed", RESULT, 3): [
        Fault("names-by-id-in-the-whole-history", "call-provoked-repeated-ids", sends(_named_last), ("gemini-3",))
    ],
    Expected("result-swapped", RESULT, 0): [
        Fault("history-results-by-order", "history-identical-calls", asks_messages(_by_order))
    ],
    Expected("result-swapped", RESULT, 3): [
        Fault("results-by-name", "call-again-next-turn", asks_messages(_by_name)),
    ],
    Expected("result-swapped", RESULT): [
        Fault("results-swapped", "call-parallel-same-tool", each_message(_swapped)),
    ],
    Expected("synthesised-id-marked", RESPONSE_CALL, 0): [
        Fault(
            "made-ids-not-marked",
            "call-single",
            answers(lambda response: replace(response, message=edited_message(response.message, _unmarked))),
            ("gemini-2.5",),
        )
    ],
    Expected("synthesised-id-sent", CALL_ID): [
        Fault("made-ids-leaked", "call-parallel-same-tool", sends(_leaked), ("gemini-2.5",))
    ],
    Expected("synthesised-id-unique", RESPONSE_CALL): [
        Fault("made-ids-begin-anew", "call-parallel-twice", answers(_numbered), ("gemini-2.5",))
    ],
}

AUDITED: Table = {
    Expected("arguments-no-object", ARGUMENTS): [
        Fault("arguments-encoded-twice", "call-single", on_the_wire(json.dumps), OPENAI)
    ]
}
