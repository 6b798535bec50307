"""Unusual forms of tool choices, settings and declarations."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from harness.model.messages import ChatRequest, Part, Tool, ToolCall, ToolChoice
from harness.model.protocols import Capability
from harness.results import Verdict
from tests.broken.fault import ALL, GEMINI, OPENAI, Wrap, Wrapped, asks, client, edited_parts, sends
from tests.broken.fields import edited
from tests.broken.prefixes import tools
from tests.broken.requests import schemas
from tests.unusual.form import Form


def chosen(choice: ToolChoice) -> Wrap:
    """Another tool choice is encoded, where a call is forced."""

    def edit(request: ChatRequest) -> ChatRequest:
        return request if request.tool_choice in (None, "auto") else replace(request, tool_choice=choice)

    return asks(edit)


def calling(mode: str, *, named: int | None = None) -> Wrap:
    """Gemini's function calling config: with the names of the first `named` tools, where it is for some tools only."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        chosen = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
        if named is not None and chosen != "ANY":
            return
        names = [each["name"] for tool in body["tools"] for each in tool["functionDeclarations"]]
        config = {"mode": mode} | ({} if named is None else {"allowedFunctionNames": names[:named]})
        body["toolConfig"] = {"functionCallingConfig": config}

    return sends(edit)


def among(mode: str, count: int) -> Wrap:
    """OpenAI's choice among the first `count` tools, where one is required or `mode` is none that requires one."""

    def edit(api: str, body: dict[str, Any]) -> None:
        if mode == "required" and body.get("tool_choice") != "required":
            return
        names = [tool.get("function", tool)["name"] for tool in body["tools"]][:count]
        if api == "openai-chat":
            tools = [{"type": "function", "function": {"name": name}} for name in names]
            body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
        else:
            tools = [{"type": "function", "name": name} for name in names]
            body["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": tools}

    return sends(edit)


def _of_calls(entries: str, **fields: Any) -> Wrap:
    """Fields in each entry of the history that calls a tool."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for entry in body[entries]:
            if entry.get("tool_calls") or entry.get("type") == "function_call":
                entry.update(fields)

    return sends(edit)


def _renamed_field(old: str, new: str) -> Wrap:
    return sends(lambda _api, body: {new if key == old else key: value for key, value in body.items()})


def _with(**fields: Any) -> Wrap:
    return sends(lambda _api, body: body | fields)


class _Reordering(Wrapped):
    """Arguments are read and written anew, in another order of keys."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        return edited_parts(request, lambda part: self.edit(part) if isinstance(part, ToolCall) else part)

    def edit(self, call: ToolCall) -> Part:
        return replace(call, arguments=dict(reversed(call.arguments.items())))


class _Stringifying(_Reordering):
    """Arguments become strings on the way."""

    def edit(self, call: ToolCall) -> Part:
        return replace(call, arguments={key: json.dumps(value) for key, value in call.arguments.items()})


def _provider_tools(names: dict[str, dict[str, Any]]) -> Wrap:
    """The tools that the provider runs are these, by the API."""

    def sent(api: str, body: dict[str, Any]) -> None:
        body["tools"] = [names[api], *body["tools"][1:]]

    return sends(sent)


def _level(word: str) -> Wrap:
    def sent(_api: str, body: dict[str, Any]) -> None:
        body["generationConfig"]["thinkingConfig"]["thinkingLevel"] = word

    return sends(sent)


def _file_named(name: str) -> Wrap:
    """A file by its data alone, whose name tells what it is."""

    def sent(api: str, body: dict[str, Any]) -> None:
        entry = body["messages"][-1] if api == "openai-chat" else body["input"][-1]
        for part in entry["content"]:
            held = part.get("file") if part["type"] == "file" else part if part["type"] == "input_file" else None
            if held is not None:
                held |= {"filename": name, "file_data": held["file_data"].partition(",")[2]}

    return sends(sent)


def _titled(*, drop: bool) -> Wrap:
    """Documents have a title; or the last line of what stands in them is not there."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        for block in body["messages"][0]["content"]:
            if block["type"] == "document":
                block["title"] = "boiler.txt"
                if drop:
                    block["source"]["data"] = block["source"]["data"].rpartition("\n2026")[0]

    return sends(sent)


def _sent_in_a_frame(*, cut: bool, merged: bool) -> Wrap:
    """The text of a file stands in one text part with the words that frame it, or in one string with all that the user
    says; or its last line is not there."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        _, file, *rest = (part["text"] for part in body["messages"][0]["content"])
        content = file.rpartition("2026")[0] if cut else file
        framed = f'<file type="text/plain">\n{content}\n</file>'
        texts = [{"type": "text", "text": text} for text in (framed, *rest)]
        body["messages"][0]["content"] = "\n\n".join((framed, *rest)) if merged else texts

    return sends(sent)


def _texts_in_parts(*, drop: bool) -> Wrap:
    """Texts are lists of parts; or the last word of each is not there."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        for item in body["input"]:
            if item.get("role") == "user":
                text = item["content"].rpartition(" ")[0] if drop else item["content"]
                item |= {"type": "message", "content": [{"type": "input_text", "text": text}]}

    return sends(sent)


def _last_output(*, drop: bool) -> Wrap:
    """The result of an asynchronous call comes after the user's text; or it is not there."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        items = body["input"]
        at = next((at for at, item in enumerate(items) if item.get("type") == "function_call_output"), None)
        if at is not None:
            output = items.pop(at)
            items[at + 1 : at + 1] = [] if drop else [output]

    return sends(sent)


def _required_reversed(*, in_place: bool) -> Wrap:
    """The required properties are sent in another order, by changing a copy of the tools or the tools themselves."""

    def asked(request: ChatRequest) -> ChatRequest:
        own = request if in_place else replace(request, tools=deepcopy(request.tools))
        for tool in own.tools:
            cast("list[str]", tool.parameters["required"]).reverse()
        return own

    return asks(asked)


def _keys_turned(asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Schemas have their keys in another order each time, as a map without order gives them."""
    if asked % 2:
        return given
    return tuple(replace(tool, parameters=dict(reversed(tool.parameters.items()))) for tool in given)


def _sorted(_asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools are sorted by name, so that an added one stands between the others."""
    return tuple(sorted(given, key=lambda tool: tool.name))


def _first_two(_asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools are those of the first turn, for the whole conversation."""
    return given[:2]


def _required_lost(asked: int, given: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Schemas lose their list of required properties every second time."""
    if asked % 2:
        return given
    kept = ({key: value for key, value in tool.parameters.items() if key != "required"} for tool in given)
    return tuple(replace(tool, parameters=each) for tool, each in zip(given, kept, strict=True))


def _empty_arguments_as(text: str) -> Wrap:
    """A call without arguments goes back with another text for them."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = text

    return sends(sent)


FORMS = (
    Form("validated-unasked", "call-single", GEMINI, calling("VALIDATED"), calling("NONE"), "tool-choice"),
    Form(
        "named-as-required",
        "choice-for-one-turn",
        (*OPENAI, *GEMINI),
        chosen("required"),
        chosen("auto"),
        "tool-choice",
    ),
    Form("allowed-all", "choice-required", OPENAI, among("required", 2), among("required", 1), "tool-choice"),
    Form(
        "auto-told",
        "call-single",
        ("anthropic", *OPENAI),
        asks(lambda request: replace(request, tool_choice="auto")),
        asks(lambda request: replace(request, tool_choice="none")),
        "tool-choice",
    ),
    Form(
        "empty-arguments-as-an-object",
        "call-provoked-empty-arguments",
        ("openai-chat",),
        _empty_arguments_as("{ }"),
        _empty_arguments_as("[]"),
        "arguments-changed",
    ),
    Form(
        "tools-changed-in-a-copy",
        "arguments-normalisation",
        ALL,
        _required_reversed(in_place=False),
        _required_reversed(in_place=True),
        "request-changed-in-place",
    ),
    Form(
        "file-named", "file-from-user", OPENAI, _file_named("invoice.pdf"), _file_named("invoice.txt"), "media-changed"
    ),
    *(
        Form(
            name,
            "file-of-text",
            ("openai-chat",),
            _sent_in_a_frame(cut=False, merged=merged),
            _sent_in_a_frame(cut=True, merged=merged),
            "media-changed",
        )
        for name, merged in (("text-file-framed", False), ("text-file-in-one-string", True))
    ),
    Form("text-file-titled", "file-of-text", ("anthropic",), _titled(drop=False), _titled(drop=True), "media-changed"),
    Form("effort-in-capitals", "thinking-tool-loop", ("gemini-3",), _level("LOW"), _level("HIGH"), "setting-lost"),
    Form(
        "budget-as-text",
        "thinking-budget",
        ("gemini-2.5",),
        edited("retype", "/generationConfig/thinkingConfig/thinkingBudget"),
        edited("other", "/generationConfig/thinkingConfig/thinkingBudget"),
        "setting-lost",
        replayed={"recorded-request"},
    ),
    Form(
        "budget-on-top-of-the-limit",
        "thinking-budget",
        ("gemini-2.5",),
        asks(lambda request: replace(request, max_tokens=(request.max_tokens or 0) + 2000)),
        asks(lambda request: replace(request, max_tokens=(request.max_tokens or 0) + 1000)),
        "setting-lost",
        replayed={"recorded-request"},
    ),
    Form(
        "provider-tool-of-another-version",
        "history-opaque-parts",
        ("anthropic", "openai-responses", *GEMINI),
        _provider_tools(
            {
                "anthropic": {"type": "web_search_20260209", "name": "web_search"},
                "openai-responses": {"type": "web_search_preview_2025_03_11"},
                "gemini": {"code_execution": {}},
            }
        ),
        _provider_tools(
            {
                "anthropic": {"type": "web_fetch_20250910", "name": "web_fetch"},
                "openai-responses": {"type": "file_search", "vector_store_ids": ["vs_1"]},
                "gemini": {"googleSearch": {}},
            }
        ),
        "tools-declared",
    ),
    Form(
        "kept-conversation-in-parts",
        "conversation-kept",
        ("openai-responses",),
        _texts_in_parts(drop=False),
        _texts_in_parts(drop=True),
        "new-result-lost",
    ),
    Form(
        "continued-conversation-in-parts",
        "conversation-continued",
        ("openai-responses",),
        _texts_in_parts(drop=False),
        _texts_in_parts(drop=True),
        "new-result-lost",
    ),
    Form(
        "late-result-behind-the-text",
        "tool-asynchronous",
        ("openai-responses",),
        _last_output(drop=False),
        _last_output(drop=True),
        "result-missing",
    ),
    Form(
        "fields-in-snake-case",
        "fields-choice-among-some",
        GEMINI,
        _renamed_field("toolConfig", "tool_config"),
        _renamed_field("toolConfig", "toolSettings"),
        "provider-field-lost",
    ),
    Form(
        "defaults-of-the-api",
        "call-single",
        OPENAI,
        _with(parallel_tool_calls=True, store=False),
        _with(parallel_tool_calls=True, tools=[]),
        "tools-declared",
    ),
    Form(
        "one-call-at-a-time",
        "call-single",
        OPENAI,
        _with(parallel_tool_calls=False),
        _with(parallel_tool_calls=False),
        "setting-uninvited",
        verdict=Verdict.NOTE,
        notes={"setting-uninvited"},
        lacks=Capability.PARALLEL_TOOL_CALLS,
    ),
    Form(
        "model-dated",
        "unusual-settings",
        OPENAI,
        asks(lambda request: replace(request, model=f"{request.model}-2026-08-07")),
        asks(lambda request: replace(request, model=f"{request.model}-mini")),
        "model-named",
    ),
    Form(
        "fields-of-an-answer",
        "call-single",
        ("openai-chat",),
        _of_calls("messages", annotations=[], refusal=None, audio=None),
        _of_calls("messages", parsed={}),
        "openai-chat-nested-field",
    ),
    Form(
        "fields-of-an-item",
        "call-single",
        ("openai-responses",),
        _of_calls("input", created_by="agent", parsed_arguments=None),
        _of_calls("input", parsed_arguments={}),
        "openai-responses-nested-field",
    ),
    Form(
        "items-without-ids",
        "thinking-tool-loop",
        ("openai-responses",),
        edited("drop", "/input/*{reasoning}/id"),
        edited("trim", "/input/*{reasoning}/id"),
        "opaque-state-lost",
    ),
    Form(
        "file-with-another-name",
        "file-from-user",
        ("openai-chat",),
        edited("double", "/messages/*{user}/content/*{file}/file/filename"),
        edited("drop", "/messages/*{user}/content/*{file}/file/filename"),
        "openai-chat-file-name-missing",
    ),
    Form(
        "schema-keywords-in-another-order",
        "json-schema",
        ALL,
        schemas(lambda schema: dict(reversed(schema.items())) if "type" in schema else schema),
        schemas(lambda schema: {key: value for key, value in schema.items() if key != "type"}),
        "json-schema-changed",
    ),
    Form(
        "tool-keys-in-another-order-each-time",
        "prefix-with-media",
        ALL,
        tools(_keys_turned),
        tools(_required_lost),
        "tool-declaration-changed",
        verdict=Verdict.NOTE,
        notes={"prefix-changed"},
    ),
    Form(
        "tools-sorted",
        "tool-added",
        ALL,
        tools(_sorted),
        tools(_first_two),
        "tools-declared",
    ),
    Form(
        "arguments-rewritten", "arguments-floats", ALL, client(_Reordering), client(_Stringifying), "arguments-changed"
    ),
)
