"""Faults at what is handed on of an answer."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    ChatRequest,
    ChatResponse,
    Message,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from harness.running.cells import VARIANTS
from tests.broken.fault import GEMINI, OPENAI, THINKING, Fault, Wrapped, answers, asks_messages, client, edited_message
from tests.broken.json_mode import texts
from tests.broken.places import BODY, RESPONSE_CALL, RESPONSE_TEXT, TEXT


def first_call_only(response: ChatResponse) -> ChatResponse:
    first = response.tool_calls[:1]
    kept = edited_message(response.message, lambda p: None if isinstance(p, ToolCall) and p not in first else p)
    return replace(response, message=kept)


def without_calls(response: ChatResponse) -> ChatResponse:
    kept = edited_message(response.message, lambda part: None if isinstance(part, ToolCall) else part)
    return replace(response, message=kept)


def _refusal_as_text(response: ChatResponse) -> ChatResponse:
    kept = edited_message(response.message, lambda p: Text(p.text) if isinstance(p, Refusal) else p)
    return replace(response, message=kept, stop_reason=StopReason.END_TURN)


def _doubled(usage: Usage) -> Usage:
    return replace(usage, input_tokens=(usage.input_tokens or 0) * 2, output_tokens=(usage.output_tokens or 0) * 2)


def _fresh_tokens_only(usage: Usage) -> Usage:
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return replace(
        usage, input_tokens=(usage.input_tokens or 0) - cached, cache_read_tokens=None, cache_write_tokens=None
    )


def _cached_tokens_twice(usage: Usage) -> Usage:
    return replace(usage, input_tokens=(usage.input_tokens or 0) + (usage.cache_read_tokens or 0))


def _ended(response: ChatResponse) -> ChatResponse:
    paused = response.stop_reason is StopReason.PAUSE
    return replace(response, stop_reason=StopReason.END_TURN) if paused else response


def _without_the_last_answer(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """An answer counts as one only if the user has said something to it."""
    return messages[:-1] if messages[-1].role is Role.ASSISTANT else messages


def _with_a_word(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return (*messages, Message.user("Continue.")) if messages[-1].role is Role.ASSISTANT else messages


def call_of_text(response: ChatResponse) -> ChatResponse:
    """A text that has the shape of a call becomes one, as wrappers of small models do it."""
    try:
        found = json.loads(response.text)
        call = ToolCall("call_of_text", found["name"], found["arguments"])
    except (ValueError, KeyError, TypeError):
        return response
    return replace(response, message=Message(Role.ASSISTANT, (call,)), stop_reason=StopReason.TOOL_USE)


def reasoning_in_text(response: ChatResponse) -> ChatResponse:
    kept = edited_message(response.message, lambda p: Text(f"{p.text}\n") if isinstance(p, Thinking) else p)
    return replace(response, message=kept)


def _twice(response: ChatResponse) -> ChatResponse:
    """A call that is handed on again under another id."""
    again = [ToolCall(f"{call.id}_again", call.name, call.arguments) for call in response.tool_calls]
    return replace(response, message=replace(response.message, parts=(*response.message.parts, *again)))


class _Repeating(Wrapped):
    """Gives its first answer for ever."""

    first: ChatResponse | None = None

    def chat(self, request: ChatRequest) -> ChatResponse:
        self.first = self.first or self.client.chat(request)
        return self.first


class _NamesWhatWasAsked(Wrapped):
    """Tells the model that the request names, whichever has answered."""

    asked = ""

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.asked = request.model
        return request

    def answer(self, response: ChatResponse) -> ChatResponse:
        return replace(response, model=self.asked)


class _Crashing(Wrapped):
    """Trips over its own answer."""

    def answer(self, response: ChatResponse) -> ChatResponse:
        raise KeyError("content")


class _Giving(Wrapped):
    """Takes a good answer for a bad one."""

    def answer(self, response: ChatResponse) -> ChatResponse:
        raise MalformedResponse("no text")


FAULTS = (
    Fault(
        "text-stripped",
        answers(texts(lambda text: text.rstrip("."))),
        "call-not-needed",
        "response-text",
        RESPONSE_TEXT,
        0,
    ),
    Fault(
        "expected-word-lost",
        answers(texts(lambda text: text.replace("°C", "°F").replace("18", "64"))),
        "call-parallel-same-tool",
        "expectation",
        None,
        1,
    ),
    Fault("call-made-of-text", answers(call_of_text), "call-in-text", "expectation", None, 1),
    Fault(
        "reasoning-in-text",
        answers(reasoning_in_text),
        "thinking-not-in-text",
        "expectation",
        None,
        0,
        THINKING,
    ),
    Fault("calls-handed-on-twice", answers(_twice), "call-fails-then-answers", "expectation", None, 3),
    Fault("first-call-only", answers(first_call_only), "call-parallel-many", "response-calls", RESPONSE_CALL, 0),
    Fault("calls-lost", answers(without_calls), "call-single", "response-calls", RESPONSE_CALL, 0),
    Fault(
        "stop-reason-always-end-turn",
        answers(lambda r: replace(r, stop_reason=StopReason.END_TURN)),
        "stop-max-tokens",
        "stop-reason",
        BODY,
        0,
    ),
    Fault(
        "stop-reason-tool-use-lost",
        answers(lambda r: replace(r, stop_reason=StopReason.END_TURN)),
        "call-single",
        "stop-reason",
        BODY,
        0,
    ),
    *(
        Fault(f"{name}-{variant}", wrap, "stop-pause", rule, place, at, ("anthropic",), variant=variant)
        for variant in VARIANTS
        for name, wrap, rule, place, at in (
            ("takes-a-pause-for-the-end", answers(_ended), "stop-reason", BODY, 0),
            ("goes-on-without-what-was-paused", asks_messages(_without_the_last_answer), "opaque-state-lost", BODY, 1),
            ("asks-a-paused-model-in-words", asks_messages(_with_a_word), "text-changed", TEXT, 1),
        )
    ),
    Fault("refusal-as-answer", answers(_refusal_as_text), "stop-refusal", "stop-reason", BODY, 0),
    Fault(
        "usage-doubled", answers(lambda r: replace(r, usage=_doubled(r.usage))), "stop-max-tokens-set", "usage", BODY, 0
    ),
    Fault(
        "usage-without-cache",
        answers(lambda r: replace(r, usage=_fresh_tokens_only(r.usage))),
        "usage-cached-prompt",
        "usage",
        BODY,
        1,
        ("anthropic", "openai-chat", "openai-responses"),
    ),
    Fault(
        "usage-with-cache-twice",
        answers(lambda r: replace(r, usage=_cached_tokens_twice(r.usage))),
        "usage-cached-unasked",
        "usage",
        BODY,
        1,
        (*OPENAI, *GEMINI),
    ),
    Fault("usage-lost", answers(lambda r: replace(r, usage=Usage())), "system-plain", "usage-offered", BODY, 0),
    *(
        Fault(f"{name}-{variant}", wrap, "model-served", "response-model", BODY, at, variant=variant)
        for variant in VARIANTS
        for name, wrap, at in (
            ("model-made-up", answers(lambda r: replace(r, model="some-model")), 0),
            ("model-of-the-request", client(_NamesWhatWasAsked), 1),
        )
    ),
    *(
        Fault(
            f"stop-sequence-taken-for-the-end-{variant}",
            answers(lambda r: replace(r, stop_reason=StopReason.END_TURN)),
            "stop-sequence",
            "stop-reason",
            BODY,
            0,
            ("anthropic",),
            variant=variant,
        )
        for variant in VARIANTS
    ),
    Fault("answer-repeated", client(_Repeating), "call-single", "iteration-bound", None, None),
    Fault("limit-never-reached", answers(without_calls), "iteration-limit", "expectation", None, 0),
    Fault("crashes-on-the-answer", client(_Crashing), "system-plain", "chat-failure", BODY, 0),
    Fault("refuses-a-good-answer", client(_Giving), "call-single", "chat-failure", BODY, 0),
)
