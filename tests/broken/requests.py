"""Faults at the request as a whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from harness.contract.model import ChatRequest, ChatResponse
from tests.broken.fault import GEMINI, OPENAI, Fault, Wrapped, asks, client, posts, sends
from tests.broken.places import ANSWERS, BODY, EFFORT, MAX_TOKENS, ONE_CALL, STOP


class ChangingTools(Wrapped):
    """What it is given is changed in place: of each tool all properties become required, once it was sent."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        response = super().chat(request)
        for tool in request.tools:
            tool.parameters["required"] = [*cast("dict[str, Any]", tool.parameters["properties"]), "reason"]
        return response


class ChangingHistory(Wrapped):
    """What it is given is changed in place: calls and results of the history lose their content."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        for message in request.messages:
            for call in message.tool_calls:
                call.arguments.clear()
            for result in message.tool_results:
                cast("dict[str, Any]", result.content).clear()
        return request


def twice_versioned(path: str) -> str:
    """`/v1/v1/messages`: the client adds the version to a base URL that ends in it."""
    return f"/{path.split('/')[1]}{path}"


def _as_text(_api: str, body: dict[str, Any]) -> Any:
    return json.dumps(body)


def _all_tokens(_api: str, body: dict[str, Any]) -> None:
    for key in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        body.pop(key, None)
    body.get("generationConfig", {}).pop("maxOutputTokens", None)


_EFFORTS = {
    "anthropic": ("output_config", "effort"),
    "openai-responses": ("reasoning", "effort"),
    "gemini": ("generationConfig", "thinkingConfig", "thinkingLevel"),
}


def _without_effort(api: str, body: dict[str, Any]) -> None:
    """The model is to reason, and nobody says how much."""
    *holders, last = _EFFORTS[api]
    for each in holders:
        body = body[each]
    del body[last]


def _with_effort(api: str, body: dict[str, Any]) -> None:
    *holders, last = _EFFORTS[api]
    for each in holders:
        body = body[each]
    body[last] = "high"


def _twofold(api: str, body: dict[str, Any]) -> None:
    """Two answers are paid for, and one is thrown away."""
    if api == "gemini":
        body.setdefault("generationConfig", {})["candidateCount"] = 2
    else:
        body["n"] = 2


def _one_call(api: str, body: dict[str, Any]) -> None:
    """The model may not call several tools in a turn, although the adapter declares parallel calls."""
    if api == "anthropic":
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    else:
        body["parallel_tool_calls"] = False


FAULTS = (
    Fault("tools-in-place", client(ChangingTools), "call-single", "request-changed-in-place", None, 0),
    Fault("history-in-place", client(ChangingHistory), "call-single", "request-changed-in-place", None, 1),
    Fault("version-twice", posts(twice_versioned), "call-not-needed", "path-unknown", BODY, 0),
    Fault(
        "version-missing",
        posts(lambda path: path.removeprefix("/v1")),
        "call-not-needed",
        "path-unknown",
        BODY,
        0,
        targets=OPENAI,
    ),
    Fault("every-request-twice", sends(lambda *_: None, times=2), "system-plain", "one-request-per-chat", BODY, 1),
    Fault(
        "request-beyond-the-script", sends(lambda *_: None, times=2), "call-not-needed", "request-unexpected", BODY, 1
    ),
    Fault("body-encoded-twice", sends(_as_text), "system-plain", "exchange-unreadable", BODY, 0),
    Fault(
        "max-tokens-raised",
        asks(lambda r: replace(r, max_tokens=4096)),
        "stop-max-tokens",
        "setting-lost",
        MAX_TOKENS,
        0,
    ),
    Fault(
        "effort-dropped",
        sends(_without_effort),
        "thinking-tool-loop",
        "setting-lost",
        BODY,
        0,
        ("anthropic", "openai-responses", "gemini-3"),
    ),
    Fault(
        "effort-raised",
        sends(_with_effort),
        "thinking-tool-loop",
        "setting-lost",
        EFFORT,
        0,
        ("anthropic", "openai-responses", "gemini-3"),
    ),
    Fault("max-tokens-dropped", sends(_all_tokens), "stop-max-tokens-set", "setting-lost", BODY, 0),
    Fault(
        "temperature-of-zero-dropped",
        asks(lambda r: replace(r, temperature=r.temperature or None)),
        "settings-sampling",
        "setting-lost",
        BODY,
        2,
        GEMINI,
    ),
    Fault(
        "top-p-dropped-where-there-are-tools",
        asks(lambda r: replace(r, top_p=None)),
        "settings-sampling",
        "setting-lost",
        BODY,
        0,
        GEMINI,
    ),
    Fault(
        "all-but-one-stop-sequence-dropped",
        asks(lambda r: replace(r, stop=r.stop[:1])),
        "settings-stop",
        "setting-lost",
        STOP,
        0,
        ("anthropic", *GEMINI),
    ),
    Fault(
        "stop-sequence-hard-wired",
        asks(lambda r: replace(r, stop=("User:",))),
        "call-not-needed",
        "setting-uninvited",
        STOP,
        0,
        ("anthropic", "gemini-3", "gemini-2.5"),
    ),
    Fault(
        "several-answers-asked-for",
        sends(_twofold),
        "call-not-needed",
        "setting-uninvited",
        ANSWERS,
        0,
        ("openai-chat", "gemini-3", "gemini-2.5"),
    ),
    Fault(
        "parallel-calls-switched-off",
        sends(_one_call),
        "call-parallel-same-tool",
        "setting-uninvited",
        ONE_CALL,
        0,
        ("anthropic", "openai-chat", "openai-responses"),
    ),
    Fault(
        "thinking-dropped",
        asks(lambda r: replace(r, thinking=None)),
        "thinking-tool-loop",
        "setting-lost",
        BODY,
        0,
        ("anthropic", "openai-responses", "gemini-3", "gemini-2.5"),
    ),
    Fault(
        "another-model", asks(lambda r: replace(r, model=f"{r.model}-latest")), "system-plain", "model-named", BODY, 0
    ),
)
