"""Unusual forms of call ids and results."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

from harness.model.messages import ChatRequest, ChatResponse, Message, Part, Text, ToolCall, ToolResult
from harness.results import Verdict
from tests.broken.calls import contents, one_at_a_time, remembered, renamed, results
from tests.broken.fault import (
    ALL,
    GEMINI,
    OPENAI,
    WITH_IDS,
    Wrap,
    Wrapped,
    answers_parts,
    asks_messages,
    asks_parts,
    client,
    edited_message,
    sends,
)
from tests.unusual.form import Form

_PREFIX = "mylib|"


class _Decorating(Wrapped):
    """Ids carry a prefix for the caller, and none on the wire."""

    def answer(self, response: ChatResponse) -> ChatResponse:
        return replace(response, message=edited_message(response.message, _decorated))

    def ask(self, request: ChatRequest) -> ChatRequest:
        return renamed(request, lambda old: old.removeprefix(_PREFIX))


class _Leaking(_Decorating):
    """The prefix stays on the calls, and is gone from their results."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        return renamed(request, lambda old: old.replace("|", "_"), lambda old: old.removeprefix(_PREFIX))


def _decorated(part: Part) -> Part:
    return replace(part, id=_PREFIX + part.id) if isinstance(part, ToolCall) else part


def _naming(name: str, sent: str) -> Wrap:
    """Calls of the tool `name` are sent under another name."""

    def edit(part: Part) -> Part:
        return replace(part, name=sent) if isinstance(part, ToolCall | ToolResult) and part.name == name else part

    return asks_parts(edit)


def _random_on_wire(*, pairs: bool) -> Wrap:
    """Gemini without ids: the library makes some, at random, for calls and results."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        ids: list[str] = []
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionCall" in part:
                    ids.append(f"call_{uuid4().hex}")
                    part["functionCall"]["id"] = ids[-1]
                if "functionResponse" in part:
                    part["functionResponse"]["id"] = ids.pop(0) if pairs else f"call_{uuid4().hex}"

    return sends(edit)


def _random_for_caller(part: Part) -> Part:
    return replace(part, id=uuid4().hex, provider_metadata={}) if isinstance(part, ToolCall) else part


class _Remapping(Wrapped):
    """Ids of another API become random ones, for each conversation anew."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.names: dict[str, str] = {}

    def ask(self, request: ChatRequest) -> ChatRequest:
        foreign = {old for old in _first_ids(request) if old.startswith("toolu_01")}
        return renamed(request, lambda old: self.name(old) if old in foreign else old)

    def name(self, old: str) -> str:
        return self.names.setdefault(old, f"call_{uuid4().hex[:24]}")


class _Merging(_Remapping):
    def name(self, old: str) -> str:
        return self.names.setdefault("any", f"call_{uuid4().hex[:24]}")


def _first_ids(request: ChatRequest) -> list[str]:
    return [call.id for message in request.messages[:3] for call in message.tool_calls]


def _as_text(content: Any) -> Any:
    """JSON as text, spaced and ordered in a way of its own."""
    return content if isinstance(content, str) else json.dumps(content, indent=4, sort_keys=True)


def _in_two_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Calls of one answer in messages of their own, before all results: the provider joins these."""
    sent: list[Message] = []
    for message in messages:
        calls = message.tool_calls
        if len(calls) < 2:
            sent.append(message)
        else:
            sent += [replace(message, parts=tuple(p for p in message.parts if p not in calls[1:]))]
            sent += [replace(message, parts=(call,)) for call in calls[1:]]
    return tuple(sent)


def _joined(joint: str, *, backwards: bool = False) -> Wrap:
    """Several text parts as one text."""

    def edit(content: Any) -> Any:
        if not isinstance(content, tuple):
            return content
        texts = [part.text for part in content if isinstance(part, Text)]
        return joint.join(reversed(texts) if backwards else texts)

    return contents(edit)


def _blocks(content: Any) -> Any:
    """Text parts as a list of blocks, in the way of MCP, whose classes write the fields that are not there as null."""
    if not isinstance(content, tuple):
        return content
    return [{"type": "text", "text": part.text, "annotations": None} for part in content]


def _as_media(*, drops: bool) -> Wrap:
    """Text parts of a result as media of plain text, in the way of a released library; or one of them is gone."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for result in (part.get("functionResponse", {}) for turn in body["contents"] for part in turn["parts"]):
            texts = result.get("response", {}).get("output", [])[drops:]
            data = (base64.b64encode(text.encode()).decode() for text in texts)
            if result:
                result["response"] = {"result": ""}
                result["parts"] = [{"inlineData": {"mimeType": "text/plain", "data": each}} for each in data]

    return sends(edit)


def _by_item(content: Any) -> Any:
    """A list as a text part for each of its items."""
    return tuple(Text(_as_text(item)) for item in content) if isinstance(content, list) else content


def _failed(say: str) -> Wrap:
    """An error in the library's own words, without a mark."""

    def edit(result: ToolResult) -> ToolResult:
        if not result.is_error:
            return result
        return replace(result, is_error=False, content=say.format(result.content))

    return results(edit)


def _empty_blocks(*, everywhere: bool) -> Wrap:
    """A result of nothing as a list with an empty text in it; or there is one beside each result as well."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            for block in [*message["content"]] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_result" and not block.get("content"):
                    block["content"] = [{"type": "text", "text": ""}]
                    message["content"] += block["content"] if everywhere else []

    return sends(edit)


def _pictures_first(*, asks: bool) -> Wrap:
    """The pictures of a result stand in front of it, in its turn; or a text of somebody's stands there as well."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for turn in body["contents"]:
            inner = [each for part in turn["parts"] for each in part.get("functionResponse", {}).pop("parts", ())]
            if inner:
                turn["parts"] = [*inner, *([{"text": "Look at this."}] if asks else []), *turn["parts"]]

    return sends(edit)


FORMS = (
    Form(
        "ids-decorated", "call-parallel-same-tool", WITH_IDS, client(_Decorating), client(_Leaking), "call-id-changed"
    ),
    Form(
        "ids-random-on-wire",
        "call-parallel-same-tool",
        ("gemini-2.5",),
        _random_on_wire(pairs=True),
        _random_on_wire(pairs=False),
        "result-orphan",
        verdict=Verdict.NOTE,
        notes={"synthesised-id-sent"},
    ),
    Form(
        "ids-random-for-caller",
        "call-single",
        ("gemini-2.5",),
        answers_parts(_random_for_caller),
        answers_parts(lambda part: replace(part, id="") if isinstance(part, ToolCall) else part),
        "synthesised-id-unique",
        verdict=Verdict.NOTE,
        notes={"synthesised-id-marked", "synthesised-id-sent"},
    ),
    Form(
        "foreign-ids-random",
        "history-anthropic-ids",
        OPENAI,
        client(_Remapping),
        client(_Merging),
        "foreign-id-mapping",
    ),
    Form(
        "calls-in-two-messages",
        "call-parallel-same-tool",
        ("anthropic",),
        asks_messages(_in_two_messages),
        asks_messages(one_at_a_time),
        "calls-split",
    ),
    Form(
        "illegal-name-replaced",
        "call-name-of-no-tool",
        (*OPENAI, "anthropic", "gemini-3"),
        _naming("browser.tabs.open", "browser_open"),
        _naming("get_tide", "get_tides"),
        "call-missing",
    ),
    Form(
        "empty-text-said",
        "result-empty-text",
        ALL,
        contents(lambda c: c or "(no output)"),
        contents(lambda c: c or "18 degrees"),
        "result-changed",
    ),
    Form("json-as-text", "result-object", ALL, contents(_as_text), contents(str), "result-changed"),
    Form(
        "json-in-a-block",
        "result-object",
        ALL,
        contents(lambda c: [{"json": c}] if isinstance(c, dict) else c),
        contents(lambda c: [{"json": {**c, "retries": 4}}] if isinstance(c, dict) else c),
        "result-changed",
    ),
    Form(
        "failures-as-text",
        "call-fails-then-answers",
        ALL,
        contents(_as_text),
        asks_messages(remembered),
        "result-swapped",
    ),
    Form(
        "list-by-item",
        "result-list",
        ("anthropic", *OPENAI),
        contents(_by_item),
        contents(lambda c: _by_item(c[1:] if isinstance(c, list) else c)),
        "result-changed",
        verdict=Verdict.NOTE,
        notes={"result-changed"},
    ),
    Form("parts-in-lines", "result-parts", ALL, _joined("\n"), _joined("\n", backwards=True), "result-changed"),
    Form(
        "parts-as-blocks",
        "result-parts",
        ALL,
        contents(_blocks),
        contents(lambda c: _blocks(c)[:1] if isinstance(c, tuple) else c),
        "result-changed",
    ),
    Form(
        "parts-as-media", "result-parts", ("gemini-3",), _as_media(drops=False), _as_media(drops=True), "result-changed"
    ),
    Form(
        "error-under-a-key",
        "result-error",
        ("anthropic",),
        _failed('{{"error": "{}"}}'),
        _failed('{{"result": "{}"}}'),
        "error-flag",
        verdict=Verdict.WARN,
        notes={"error-flag"},
    ),
    Form(
        "error-bare",
        "result-error",
        (*OPENAI, *GEMINI),
        _failed("{}"),
        _failed("opened"),
        "result-changed",
        verdict=Verdict.NOTE,
        notes={"error-flag"},
    ),
    Form(
        "empty-text-inside",
        "result-empty-text",
        ("anthropic",),
        _empty_blocks(everywhere=False),
        _empty_blocks(everywhere=True),
        "anthropic-text-empty",
        verdict=Verdict.WARN,
        notes={"anthropic-result-text-empty"},
    ),
    Form(
        "picture-in-front-of-its-result",
        "result-image",
        ("gemini-3",),
        _pictures_first(asks=False),
        _pictures_first(asks=True),
        "result-misplaced",
    ),
)
