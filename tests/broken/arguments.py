"""Faults at the arguments of calls, on their way back and on their way in."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.contract.model import Part, ToolCall
from tests.broken.fault import ALL, OPENAI, Fault, Wrap, answers_parts, asks_parts, sends
from tests.broken.places import ARGUMENTS, RESPONSE_ARGUMENTS, RESPONSE_CALL
from tests.broken.results import as_double, ascii_only, mapped, rounded, shallow, without_control_characters


def _arguments(edit: Callable[[Any], Any]) -> Callable[[Part], Part]:
    return lambda part: replace(part, arguments=edit(part.arguments)) if isinstance(part, ToolCall) else part


def sent(edit: Callable[[Any], Any]) -> Wrap:
    """The arguments of each call are changed on their way back."""
    return asks_parts(_arguments(edit))


def received(edit: Callable[[Any], Any]) -> Wrap:
    """The arguments of each call are handed on changed."""
    return answers_parts(_arguments(edit))


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


def _composed(value: Any) -> Any:
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item not in ("", None, [], {})}


FAULTS = (
    Fault("arguments-as-texts", sent(mapped(str)), "schema-references", "arguments-changed", ARGUMENTS),
    Fault(
        "arguments-encoded-twice",
        on_the_wire(json.dumps),
        "call-single",
        "arguments-changed",
        ARGUMENTS,
        targets=OPENAI,
    ),
    Fault(
        "arguments-as-python-text",
        on_the_wire(lambda text: str(json.loads(text))),
        "call-single",
        "arguments-changed",
        ARGUMENTS,
        targets=OPENAI,
    ),
    Fault(
        "empty-arguments-as-null",
        on_the_wire(lambda text: "null" if text == "{}" else text),
        "call-without-parameters",
        "arguments-changed",
        ARGUMENTS,
        targets=OPENAI,
    ),
    Fault(
        "empty-arguments-unread",
        answers_parts(lambda part: None if isinstance(part, ToolCall) and not part.arguments else part),
        "call-provoked-empty-arguments",
        "response-calls",
        RESPONSE_CALL,
        0,
        ("openai-chat",),
    ),
    Fault(
        "empty-arguments-filled-in",
        sent(lambda arguments: arguments or {"limit": 10}),
        "call-empty-arguments",
        "arguments-changed",
        ARGUMENTS,
    ),
    Fault(
        "arguments-escaped-twice",
        on_the_wire(lambda text: text.replace("\\", "\\\\")),
        "arguments-escapes",
        "arguments-changed",
        ARGUMENTS,
        targets=OPENAI,
    ),
    Fault("arguments-floats-rounded", sent(mapped(rounded)), "arguments-floats", "arguments-changed", ARGUMENTS),
    Fault(
        "arguments-integers-as-doubles",
        sent(mapped(as_double)),
        "arguments-large-integers",
        "arguments-changed",
        ARGUMENTS,
    ),
    Fault("arguments-composed", sent(mapped(_composed)), "arguments-normalisation", "arguments-changed", ARGUMENTS),
    Fault("arguments-ascii", sent(mapped(ascii_only)), "arguments-unicode", "arguments-changed", ARGUMENTS),
    Fault(
        "arguments-control-characters-lost",
        sent(mapped(without_control_characters)),
        "arguments-escapes",
        "arguments-changed",
        ARGUMENTS,
    ),
    Fault(
        "arguments-empty-values-dropped", sent(_without_empty), "arguments-empty-values", "arguments-changed", ARGUMENTS
    ),
    Fault("arguments-deep-as-text", sent(shallow), "arguments-deep", "arguments-changed", ARGUMENTS),
    Fault(
        "received-integers-as-doubles",
        received(mapped(as_double)),
        "arguments-large-integers",
        "response-calls",
        RESPONSE_ARGUMENTS,
        0,
    ),
    Fault(
        "received-empty-values-dropped",
        received(_without_empty),
        "arguments-empty-values",
        "response-calls",
        RESPONSE_ARGUMENTS,
        0,
        ALL,
    ),
)

AUDITED = (
    Fault(
        "arguments-encoded-twice",
        on_the_wire(json.dumps),
        "call-single",
        "arguments-no-object",
        ARGUMENTS,
        targets=OPENAI,
    ),
)
"""Faults that have a rule of their own where nobody knows what the arguments were."""
