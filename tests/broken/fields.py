"""Faults that lose what only one API has: verbatim fields of a request or a tool, and parts of a message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.apis.jsonvalue import as_object
from harness.model.messages import ChatRequest, ChatResponse, Message, Opaque, Part, Role, Text, ToolCall, ToolResult
from harness.model.protocols import StreamingChatClient
from harness.results import Severity
from tests.broken.fault import (
    OPENAI,
    Expected,
    Fault,
    Table,
    Wrap,
    Wrapped,
    asks,
    asks_messages,
    client,
    edited_message,
    edited_parts,
    sends,
)
from tests.broken.places import BODY, CALL, everywhere
from tests.hardness.body_edits import NOTHING, Edit, apply

CLAUDE, BOTH_OPENAI, GEMINI = ("anthropic",), OPENAI, ("gemini-3",)
RESPONSES = ("openai-responses",)

REQUEST_FIELDS = {
    "fields-parallel-calls-off": (*CLAUDE, *BOTH_OPENAI),
    "fields-choice-among-some": (*BOTH_OPENAI, *GEMINI),
    "fields-service-tier": (*CLAUDE, *BOTH_OPENAI, *GEMINI),
    "fields-request-metadata": (*CLAUDE, *BOTH_OPENAI),
    "fields-seed": ("openai-chat", *GEMINI),
    "fields-safety-settings": GEMINI,
    "fields-not-stored": (*BOTH_OPENAI, *GEMINI),
    "fields-context-editing": (*CLAUDE, *RESPONSES),
    "compaction-item": (*CLAUDE, *RESPONSES),
    "conversation-kept": RESPONSES,
    "conversation-continued": RESPONSES,
    "fields-for-one-turn": (*CLAUDE, *BOTH_OPENAI, *GEMINI),
    "fields-system-blocks": (*CLAUDE, *GEMINI),
}
TOOL_FIELDS = {
    "fields-strict-tool": (*CLAUDE, *BOTH_OPENAI),
    "fields-deferred-tool": (*CLAUDE, *RESPONSES),
    "fields-called-by-program": (*CLAUDE, *RESPONSES),
    "tool-asynchronous": RESPONSES,
}


def _without_fields(request: ChatRequest) -> ChatRequest:
    kept = {
        api: {key: value for key, value in as_object(fields).items() if key == "tools"}
        for api, fields in request.provider_metadata.items()
    }
    return replace(request, provider_metadata=kept)


def _without_tool_fields(request: ChatRequest) -> ChatRequest:
    return replace(request, tools=tuple(replace(tool, provider_metadata={}) for tool in request.tools))


def _without_parts_of(role: Role, request: ChatRequest) -> ChatRequest:
    def kept(message: Message) -> Message:
        if message.role is not role:
            return message
        return edited_message(message, lambda part: None if isinstance(part, Opaque) else part)

    return replace(request, messages=tuple(map(kept, request.messages)))


def _bare(part: Part) -> Part:
    return replace(part, provider_metadata={}) if isinstance(part, ToolCall) else part


def _without_pending_calls(request: ChatRequest) -> ChatRequest:
    answered = {result.call_id for message in request.messages for result in message.tool_results}
    return edited_parts(request, lambda part: None if isinstance(part, ToolCall) and part.id not in answered else part)


def _without_results(request: ChatRequest) -> ChatRequest:
    return edited_parts(request, lambda part: None if isinstance(part, ToolResult) else part)


def _first_result_only(request: ChatRequest) -> ChatRequest:
    later = [result for message in request.messages for result in message.tool_results][1:]
    return edited_parts(request, lambda part: None if part in later else part)


def _without_new_text(request: ChatRequest) -> ChatRequest:
    return edited_parts(request, lambda part: Text("?") if part == Text("Is that early?") else part)


def _cut_tool_fields(version: str) -> Wrap:
    """Of a tool that the provider runs, only the type is sent, in some version."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        body["tools"] = [{"type": version} if tool["type"].startswith("web_search") else tool for tool in body["tools"]]

    return sends(edit)


def edited(operator: str, path: str) -> Wrap:
    """One of the mutants of bodies."""

    def edit(_api: str, body: dict[str, Any]) -> Any:
        changed = apply(Edit(path, operator), body)
        return None if changed is NOTHING else changed

    return sends(edit)


def _other_blocks_first(_api: str, body: dict[str, Any]) -> None:
    system = body.get("system") or body["systemInstruction"]["parts"]
    system.reverse()


def _twice(message: Message) -> Message:
    parts = [each for part in message.parts for each in ((part, part) if isinstance(part, Opaque) else (part,))]
    return Message(message.role, parts)


class _RepeatsHistory(Wrapped):
    """The id of the last response is sent, and the whole history, too."""

    def __init__(self, client: StreamingChatClient) -> None:
        super().__init__(client)
        self.said: tuple[Message, ...] = ()

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.said = (*self.said, *request.messages)
        return replace(request, messages=self.said)

    def answer(self, response: ChatResponse) -> ChatResponse:
        self.said = (*self.said, response.message)
        return response


class _RepeatsQuestion(_RepeatsHistory):
    """The id of the last response is sent, and the user's first question, too."""

    def answer(self, response: ChatResponse) -> ChatResponse:
        self.said = self.said[:1]
        return response


FAULTS: Table = {
    Expected("kept-history-repeated", CALL, 1): [
        Fault("history-and-id", "conversation-continued", client(_RepeatsHistory), RESPONSES)
    ],
    Expected("kept-history-repeated", everywhere("/input/0/content"), 2): [
        Fault("question-and-id", "conversation-continued", client(_RepeatsQuestion), RESPONSES)
    ],
    Expected("provider-field-lost", everywhere(r"/tools/\d+"), 0): [
        Fault(f"{name}-cut", "history-opaque-parts", _cut_tool_fields(version), CLAUDE)
        for name, version in (
            ("provider-tool", "web_search_20250305"),
            ("provider-tool-of-another-version", "web_search_20260209"),
        )
    ],
    Expected("anthropic-tool-tag", everywhere(r"/tools/\d+"), 0): [
        Fault(
            "provider-tool-type-exchanged",
            "citations-sent-back",
            edited("exchange", "/tools/*{web_search_20250305}/type"),
            CLAUDE,
        )
    ],
    Expected("opaque-state-lost", everywhere(".+"), case="repeated"): [
        Fault("opaque-parts-twice", "citations-sent-back", asks_messages(lambda ms: tuple(map(_twice, ms))), CLAUDE)
    ],
    Expected("provider-field-lost", everywhere("/[a-zA-Z_]+"), 0): [
        Fault(f"{scenario}-dropped", scenario, asks(_without_fields), targets)
        for scenario, targets in REQUEST_FIELDS.items()
    ]
    + [
        Fault("system-blocks-swapped", "fields-system-blocks", sends(_other_blocks_first), (*CLAUDE, *GEMINI)),
        Fault("include-of-caller-lost", "fields-include", edited("cut", "/include"), RESPONSES),
    ],
    Expected("provider-field-lost", everywhere(r"/tools/\d+(/.*)?/[a-z_]+"), 0): [
        Fault(f"{scenario}-dropped", scenario, asks(_without_tool_fields), targets)
        for scenario, targets in TOOL_FIELDS.items()
    ],
    Expected("provider-part-lost", BODY): [
        Fault(f"{scenario}-dropped", scenario, asks(lambda request: _without_parts_of(Role.USER, request)), on)
        for scenario, on in (
            ("approval-of-a-call", RESPONSES),
            ("free-form-tool", BOTH_OPENAI),
            ("computer-use", RESPONSES),
            ("system-in-conversation", ("anthropic-opus-5", *BOTH_OPENAI)),
        )
    ]
    + [Fault("user-part-twice", "free-form-tool", asks_messages(lambda ms: tuple(map(_twice, ms))), RESPONSES)],
    Expected("openai-responses-nested-field", everywhere("/input/1/statu")): [
        Fault("call-field-misnamed", "call-single", edited("rename", "/input/*{function_call}/status"), RESPONSES)
    ],
    Expected("openai-responses-tool-field", everywhere("/tools/0/server_urls"), 0): [
        Fault("tool-field-misnamed", "approval-of-a-call", edited("rename", "/tools/*{mcp}/server_url"), RESPONSES)
    ],
    Expected("openai-responses-nested-value", everywhere("/include/0"), 0): [
        Fault("include-cut", "call-single", edited("cut", "/include/*"), RESPONSES)
    ],
    Expected("openai-responses-file-name-missing", everywhere(".+"), 0, severity=Severity.WARNING): [
        Fault(
            "file-name-lost",
            "file-from-user",
            edited("drop", "/input/*{user}/content/*{input_file}/filename"),
            RESPONSES,
        )
    ],
    Expected("openai-responses-part-value", everywhere(".+/detail"), 0, severity=Severity.WARNING): [
        Fault("detail-cut", "image-from-user", edited("cut", "/input/*{user}/content/*{input_image}/detail"), RESPONSES)
    ],
    Expected("setting-lost", everywhere(".*/thinkingBudget"), 0): [
        Fault(
            "budget-changed",
            "thinking-budget",
            edited("other", "/generationConfig/thinkingConfig/thinkingBudget"),
            ("gemini-2.5",),
        )
    ],
    Expected("openai-chat-file-name-missing", everywhere(".+"), 0): [
        Fault(
            "file-name-lost-in-chat",
            "file-from-user",
            edited("drop", "/messages/*{user}/content/*{file}/file/filename"),
            ("openai-chat",),
        )
    ],
    Expected("openai-chat-nested-field", everywhere("/response_format/strict"), 0): [
        Fault(
            "strict-in-another-place", "json-schema", edited("hoist", "/response_format/json_schema/strict"), OPENAI[:1]
        )
    ],
    Expected("opaque-state-lost", everywhere(".+"), severity=Severity.WARNING, case="thought"): [
        Fault(
            "thought-in-small-letters",
            "thinking-parallel-calls",
            edited("lower", "/contents/*{model}/parts/*{thought}/text"),
            ("gemini-2.5",),
        )
    ],
    Expected("call-missing", BODY): [
        Fault("pending-call-dropped", "tool-asynchronous", asks(_without_pending_calls), RESPONSES)
    ],
    Expected("result-missing", CALL, 2): [
        Fault("late-result-dropped", "tool-asynchronous", asks(_without_results), RESPONSES)
    ],
    Expected("new-result-lost", BODY, 1): [
        Fault("kept-result-dropped", "conversation-kept", asks(_without_results), RESPONSES)
    ],
    Expected("result-missing", BODY, 1): [
        Fault("continued-result-dropped", "conversation-continued", asks(_first_result_only), RESPONSES)
    ],
    Expected("new-result-lost", BODY, 2): [
        Fault("kept-text-changed", "conversation-kept", asks(_without_new_text), RESPONSES)
    ],
    Expected("opaque-state-lost", everywhere(".*")): [
        Fault(f"{scenario}-call-fields-dropped", scenario, asks(lambda request: edited_parts(request, _bare)), on)
        for scenario, on in (
            ("fields-called-by-program", (*CLAUDE, *RESPONSES)),
            ("fields-deferred-tool", RESPONSES),
            ("tool-asynchronous", RESPONSES),
        )
    ]
    + [
        Fault(name, scenario, edited(operator, path), RESPONSES)
        for name, scenario, operator, path in (
            ("compaction-cut", "compaction-item", "cut", "/input/*{compaction}/encrypted_content"),
            ("reasoning-id-cut", "thinking-tool-loop", "trim", "/input/*{reasoning}/id"),
        )
    ]
    + [
        Fault(
            f"{scenario}-part-dropped", scenario, asks(lambda request: _without_parts_of(Role.ASSISTANT, request)), on
        )
        for scenario, on in (("compaction-item", (*CLAUDE, *RESPONSES)), ("citations-sent-back", (*CLAUDE, *RESPONSES)))
    ],
}
