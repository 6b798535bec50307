"""Faults that lose what only one API has: verbatim fields of a request or a tool, and parts of a message."""

from __future__ import annotations

from dataclasses import replace

from harness.model.messages import ChatRequest, Message, Opaque, Role
from tests.broken.fault import OPENAI, Expected, Fault, Table, asks, edited_message
from tests.broken.places import BODY, everywhere

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
    "fields-for-one-turn": (*CLAUDE, *BOTH_OPENAI, *GEMINI),
    "fields-system-blocks": (*CLAUDE, *GEMINI),
}
TOOL_FIELDS = {
    "fields-strict-tool": (*CLAUDE, *BOTH_OPENAI),
    "fields-deferred-tool": (*CLAUDE, *RESPONSES),
    "fields-called-by-program": CLAUDE,
}


def _without_fields(request: ChatRequest) -> ChatRequest:
    kept = {
        api: {key: value for key, value in fields.items() if key == "tools"}
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


FAULTS: Table = {
    Expected("provider-field-lost", everywhere("/[a-zA-Z_]+"), 0): [
        Fault(f"{scenario}-dropped", scenario, asks(_without_fields), targets)
        for scenario, targets in REQUEST_FIELDS.items()
    ],
    Expected("provider-field-lost", everywhere(r"/tools/\d+(/.*)?/[a-z_]+"), 0): [
        Fault(f"{scenario}-dropped", scenario, asks(_without_tool_fields), targets)
        for scenario, targets in TOOL_FIELDS.items()
    ],
    Expected("provider-part-lost", BODY): [
        Fault(f"{scenario}-dropped", scenario, asks(lambda request: _without_parts_of(Role.USER, request)), on)
        for scenario, on in (
            ("approval-of-a-call", RESPONSES),
            ("free-form-tool", RESPONSES),
            ("system-in-conversation", ("anthropic-opus-5", *BOTH_OPENAI)),
        )
    ],
    Expected("opaque-state-lost", everywhere(".*")): [
        Fault(
            f"{scenario}-part-dropped", scenario, asks(lambda request: _without_parts_of(Role.ASSISTANT, request)), on
        )
        for scenario, on in (("compaction-item", (*CLAUDE, *RESPONSES)), ("citations-sent-back", (*CLAUDE, *RESPONSES)))
    ],
}
