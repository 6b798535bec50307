"""A loop over plain HTTP that returns its answers rightly, unusually or wrongly, as the first word of its user says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httpx2

from harness import Capability, ChatResponse, Conversation, Endpoint, Loop, Message, StopReason, Usage
from harness.model.protocols import PLAIN_LOOP

RETRIES: dict[str, Callable[[list[dict[str, Any]]], dict[str, Any]]] = {
    "503-again": lambda _: {},
    "503-other-settings": lambda _: {"metadata": {"attempt": "2"}, "user": "second"},
    "503-noted": lambda messages: {"messages": [{"role": "system", "content": "This is the second try."}, *messages]},
    "503-doubled": lambda messages: {"messages": messages * 2},
    "503-joined": lambda messages: {"messages": [{"role": "user", "content": messages[0]["content"] * 2}]},
    "503-lost": lambda _: {"messages": [{"role": "user", "content": "Go on."}]},
}
"""What a second request of a way has instead, after a failure."""

_STOP_REASONS = {"stop": StopReason.END_TURN, "length": StopReason.MAX_TOKENS}


def drive(  # noqa: C901, PLR0912, PLR0915 - a branch for each way
    endpoint: Endpoint, model: str, conversation: Conversation
) -> list[ChatResponse | None] | int:
    turn = conversation.turns[0]
    way = turn.text.partition(":")[0]
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": turn.text}]}
    body |= {"stream": True} if way.startswith("streamed") else {}
    body |= {"max_completion_tokens": conversation.max_tokens} if conversation.max_tokens else {}
    with httpx2.Client(base_url=endpoint.base_url, headers=headers, trust_env=False) as http:
        reply = http.post("chat/completions", json=body)
        if way == "400-again":
            reply = http.post("chat/completions", json=body)
        if way.endswith("-waits"):
            time.sleep(60)
        if way in RETRIES and reply.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            reply = http.post("chat/completions", json={**body, **RETRIES[way](body["messages"])})
    if way in ("400-empty", "html-empty"):
        return [ChatResponse(Message("assistant", ""), StopReason.END_TURN, Usage())]
    if way == "400-returned":
        return [ChatResponse(Message("assistant", f"Failed: {reply.text}"), StopReason.UNKNOWN, Usage())]
    if way == "400-named":
        return [ChatResponse(Message("assistant", ""), StopReason.ERROR, Usage())]
    reply.raise_for_status()
    if way.startswith("streamed"):
        return [_streamed_answer(reply.text, way)]
    answer = reply.json()
    choice = answer["choices"][0]
    text = choice["message"]["content"] or choice["message"].get("refusal") or ""
    stop = _STOP_REASONS[choice["finish_reason"]]
    usage = Usage(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
    match way:
        case "max-raises" | "refusal-raises":
            raise RuntimeError(f"no whole answer: {text}")
        case "max-bare" | "max-noted" | "max-repeated":
            reported = {"no-stop-reason": True, "no-truncation": True}
            text *= 2 if way == "max-repeated" else 1
            text += "\n(The answer is incomplete.)" if way == "max-noted" else ""
            return [ChatResponse(Message("assistant", text), StopReason.UNKNOWN, usage, reported=reported)]
        case "max-reported" | "max-emptied":
            reported = {"no-stop-reason": True, "error-field": way == "max-reported"}
            return [ChatResponse(Message("assistant", ""), StopReason.UNKNOWN, usage, reported=reported)]
        case "max-replaced" | "max-shortened":
            text = "Ask for less." if way == "max-replaced" else text[:9]
            return [
                ChatResponse(Message("assistant", text), StopReason.UNKNOWN, usage, reported={"no-stop-reason": True})
            ]
        case "max-complete":
            stop = StopReason.END_TURN
        case "plain-framed":
            text = f"Answer:\n{text}\n(done)"
        case "plain-loses":
            text = text[:4]
        case "refusal-empty":
            text = ""
        case "refusal-named":
            text, stop = "", StopReason.REFUSAL
        case "plain-uncounted":
            usage = Usage(0, 0)
        case "plain-unknown":
            return [None]
        case "plain-returns-number":
            return 3
        case "plain-returns-text":
            return [text]  # pyright: ignore[reportReturnType]
        case _:
            pass
    return [ChatResponse(Message("assistant", text), stop, usage)]


def _streamed_answer(stream: str, way: str) -> ChatResponse:
    """Return the text of a stream that ends with an error. Only the way `streamed-hides` does not report it."""
    chunks = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: {")]
    text = "".join(each["delta"].get("content") or "" for chunk in chunks for each in chunk.get("choices", ()))
    match way:
        case "streamed-raises":
            raise RuntimeError(f"no whole answer: {text}")
        case "streamed-noted":
            text += "\n(The connection failed.)"
        case _:
            pass
    reported = {"no-stop-reason": True, "errors-apart": way == "streamed-event"}
    return ChatResponse(Message("assistant", text), StopReason.UNKNOWN, Usage(), reported=reported)


LOOP = Loop(
    "answering",
    "openai-chat",
    drive,
    PLAIN_LOOP | {Capability.ANSWERS, Capability.JSON_SCHEMA, Capability.STREAMING},
)


def drive_with_thoughts(endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
    """Ask Gemini for its thoughts, and return them in the text or leave them out."""
    turn = conversation.turns[0]
    body = {
        "contents": [{"role": "user", "parts": [{"text": turn.text}]}],
        "generationConfig": {
            "maxOutputTokens": conversation.max_tokens,
            "thinkingConfig": {"includeThoughts": True},
        },
    }
    headers = {"x-goog-api-key": endpoint.api_key}
    with httpx2.Client(base_url=endpoint.base_url, headers=headers, trust_env=False) as http:
        reply = http.post(f"models/{model}:generateContent", json=body)
    candidate = reply.raise_for_status().json()["candidates"][0]
    if turn.text.startswith("refusal"):
        reported = {"no-stop-reason": True, "no-truncation": turn.text.startswith("refusal-unseen")}
        return [ChatResponse(Message("assistant", ""), StopReason.UNKNOWN, Usage(), reported=reported)]
    parts = candidate["content"]["parts"]
    thoughts = "".join(part["text"] for part in parts if part.get("thought"))
    text = "".join(part["text"] for part in parts if not part.get("thought"))
    text = {"thoughts-joined": thoughts + text, "thoughts-apart": f"{thoughts}\n\n{text}"}.get(
        turn.text.partition(":")[0], text
    )
    return [ChatResponse(Message("assistant", text), StopReason.END_TURN, Usage())]


THINKING_LOOP = Loop("thinking", "gemini", drive_with_thoughts, PLAIN_LOOP | {Capability.ANSWERS})
