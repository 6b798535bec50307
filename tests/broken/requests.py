"""Faults at the request as a whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.broken.fault import Fault, asks, sends
from tests.broken.places import BODY, MAX_TOKENS, STOP


def _as_text(_api: str, body: dict[str, Any]) -> Any:
    return json.dumps(body)


def _all_tokens(_api: str, body: dict[str, Any]) -> None:
    for key in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        body.pop(key, None)
    body.get("generationConfig", {}).pop("maxOutputTokens", None)


FAULTS = (
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
    Fault("max-tokens-dropped", sends(_all_tokens), "stop-max-tokens-set", "setting-lost", BODY, 0),
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
