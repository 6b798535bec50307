"""The faults that the scene agent's design describes: its own workarounds, and what they became with other APIs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.contract.model import (
    ChatRequest,
    ChatResponse,
    Image,
    Message,
    Part,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness.results import Severity
from tests.broken.fault import (
    THINKING,
    WITH_IDS,
    Fault,
    Wrapped,
    answers,
    asks,
    asks_parts,
    client,
    edited_message,
    edited_parts,
    sends,
)
from tests.broken.history import PART_OR_BODY
from tests.broken.places import (
    BODY,
    CALL_ID,
    MAX_TOKENS,
    RESPONSE_CALL,
    RESPONSE_CALL_ID,
    RESULT,
    RESULT_TURN,
    SYSTEM,
    TEXT,
    TURN,
)


def _scene_in_first_text(request: ChatRequest) -> ChatRequest:
    """The system prompt with the scene in front of what the user said first."""
    first, *others = request.messages
    told = Text(f"{request.system}\n\n{first.text}")
    return replace(request, system=None, messages=(replace(first, parts=(told,)), *others))


def _scene_in_last_text(request: ChatRequest) -> ChatRequest:
    """The system prompt with the scene in front of what the user said last, and a history that has none of it."""
    place = max(at for at, message in enumerate(request.messages) if message.role is Role.USER and message.text)
    told = replace(request.messages[place], parts=(Text(f"{request.system}\n\n{request.messages[place].text}"),))
    return replace(request, system=None, messages=(*request.messages[:place], told, *request.messages[place + 1 :]))


def _scene_as_message(request: ChatRequest) -> ChatRequest:
    """The system prompt as a user message, for an API that was thought to have no place for one."""
    return replace(request, system=None, messages=(Message.user(request.system or ""), *request.messages))


class _FirstScene(Wrapped):
    """Describes for ever the scene that it saw first."""

    scene: str | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.scene = self.scene or request.system
        return replace(request, system=self.scene)


class _FirstSettings(Wrapped):
    """Bounds every answer as the first one."""

    bound: int | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.bound = self.bound or request.max_tokens
        return replace(request, max_tokens=self.bound)


class _Timestamps(Wrapped):
    """Ids of a tool's name and the time, by a clock that ticks once for each answer."""

    time = 1_700_000_000

    def answer(self, response: ChatResponse) -> ChatResponse:
        self.time += 1

        def stamped(part: Part) -> Part:
            return replace(part, id=f"{part.name}_{self.time}") if isinstance(part, ToolCall) else part

        return replace(response, message=edited_message(response.message, stamped))


def _by_name(request: ChatRequest) -> ChatRequest:
    """What a tool answered last is the answer to each of its calls."""
    last = {result.name: result for message in request.messages for result in message.tool_results}

    def edit(part: Part) -> Part:
        if not isinstance(part, ToolResult):
            return part
        return replace(part, content=last[part.name].content, is_error=last[part.name].is_error)

    return edited_parts(request, edit)


def _one_by_one(_api: str, body: dict[str, Any]) -> None:
    """Each result in a user message of its own."""
    key, inner = ("contents", "parts") if "contents" in body else ("messages", "content")
    apart: list[dict[str, Any]] = []
    for turn in body[key]:
        parts = turn[inner]
        is_answer = isinstance(parts, list) and any("functionResponse" in p or "tool_use_id" in p for p in parts)
        apart += [{**turn, inner: [part]} for part in parts] if is_answer else [turn]
    body[key] = apart


def _unflagged(part: Part) -> Part:
    return replace(part, is_error=False) if isinstance(part, ToolResult) else part


def _without_seen_images(request: ChatRequest) -> ChatRequest:
    """Pictures that the model has answered to make room."""
    if len(request.messages) == 1:
        return request
    return edited_parts(request, lambda part: None if isinstance(part, Image) else part)


def _without_reasoning(part: Part) -> Part | None:
    return None if isinstance(part, Thinking) else part


FAULTS = (
    Fault(
        "seeds-scene-in-first-user-text",
        asks(_scene_in_first_text),
        "seeds-scene-agent-context",
        "system-in-message",
        TEXT,
        0,
    ),
    Fault(
        "seeds-scene-in-last-user-text",
        asks(_scene_in_last_text),
        "seeds-scene-agent-context",
        "system-in-message",
        TEXT,
        2,
    ),
    Fault(
        "seeds-scene-lost-from-history",
        asks(_scene_in_last_text),
        "seeds-scene-agent-context",
        "history-append-only",
        TURN,
        2,
    ),
    Fault(
        "seeds-scene-as-user-message",
        asks(_scene_as_message),
        "seeds-scene-agent-context",
        "system-in-message",
        TEXT,
        0,
    ),
    Fault("seeds-scene-never-replaced", client(_FirstScene), "seeds-scene-agent-context", "system-stale", SYSTEM, 2),
    Fault(
        "seeds-ids-of-the-agent",
        client(_Timestamps),
        "seeds-scene-agent-ids",
        "issued-id-lost",
        RESPONSE_CALL_ID,
        0,
        WITH_IDS,
    ),
    Fault(
        "seeds-timestamps-collide",
        client(_Timestamps),
        "seeds-scene-agent-ids",
        "call-id-unique",
        CALL_ID,
        1,
        WITH_IDS,
    ),
    Fault(
        "seeds-timestamps-collide-without-ids",
        client(_Timestamps),
        "seeds-scene-agent-ids",
        "synthesised-id-unique",
        RESPONSE_CALL,
        0,
        ("gemini-2.5",),
    ),
    Fault("seeds-edits-by-name", asks(_by_name), "seeds-scene-agent-parallel-edits", "result-swapped", RESULT),
    Fault("seeds-failure-hidden", asks_parts(_unflagged), "seeds-scene-agent-parallel-edits", "error-flag", RESULT),
    Fault(
        "seeds-one-message-per-result",
        sends(_one_by_one),
        "seeds-scene-agent-parallel-edits",
        "results-split",
        TURN,
        targets=("anthropic",),
    ),
    Fault(
        "seeds-one-content-per-result",
        sends(_one_by_one),
        "seeds-scene-agent-parallel-edits",
        "gemini-results-split",
        RESULT_TURN,
        targets=("gemini-3",),
    ),
    Fault(
        "seeds-one-content-per-result-without-ids",
        sends(_one_by_one),
        "seeds-scene-agent-parallel-edits",
        "gemini-results-split",
        RESULT_TURN,
        targets=("gemini-2.5",),
        severity=Severity.WARNING,  # it took three recorded ones
    ),
    Fault(
        "seeds-stop-reason-dropped",
        answers(lambda response: replace(response, stop_reason=StopReason.UNKNOWN, raw_stop_reason=None)),
        "seeds-scene-agent-stop-reason",
        "stop-reason",
        BODY,
        2,
    ),
    Fault(
        "seeds-first-settings-for-ever",
        client(_FirstSettings),
        "seeds-scene-agent-settings",
        "setting-lost",
        MAX_TOKENS,
        1,
    ),
    Fault(
        "seeds-screenshot-dropped",
        asks_parts(lambda part: None if isinstance(part, Image) else part),
        "seeds-scene-agent-screenshot",
        "media-changed",
        BODY,
        0,
    ),
    Fault(
        "seeds-screenshot-dropped-once-seen",
        asks(_without_seen_images),
        "seeds-scene-agent-screenshot",
        "media-changed",
        BODY,
        1,
    ),
    Fault(
        "seeds-thinking-not-asked-for",
        asks(lambda request: replace(request, thinking=None)),
        "seeds-scene-agent-thinking",
        "setting-lost",
        BODY,
        0,
        THINKING,
    ),
    Fault(
        "seeds-reasoning-not-returned",
        asks_parts(_without_reasoning),
        "seeds-scene-agent-thinking",
        "opaque-state-lost",
        PART_OR_BODY,
        targets=("anthropic", "openai-responses"),
    ),
)
