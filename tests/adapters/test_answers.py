"""Whole responses, for every adapter that sends HTTP."""

from __future__ import annotations

import json
from typing import Any, get_args

import anthropic.types
import google.genai.types
import httpx2
import openai.types.chat.chat_completion
import openai.types.responses.response
import pytest

from harness.model import errors
from harness.model.messages import ChatRequest, Message, Opaque, Role, StopReason, Text, ToolCall, ToolResult, Usage
from tests.adapters.streamed import Server
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import Calls, Wire, calls, says

HI = ChatRequest(messages=(Message.user("hi"),))
STOPS = [(name, raw) for name, wire in WIRES.items() for raw in wire.stops]
BROKEN = [(name, text) for name, wire in WIRES.items() for text in wire.broken_arguments]
MALFORMED = [
    (name, body)
    for name, wire in WIRES.items()
    for body in (*wire.malformed, b"", b"<html>", b"not json", b"[]", b"[" * 99_999, b"\xff\xfe\x00")
]


def test_text_usage_model_and_reason(wire: Wire) -> None:
    usage, counted = wire.counted
    response = wire.received(says("Ahoy"), usage=usage)
    assert (response.text, response.usage) == ("Ahoy", counted)
    assert response.model is not None
    assert response.model.startswith(wire.model)
    assert (response.stop_reason, response.raw_stop_reason) == (StopReason.END_TURN, next(iter(wire.stops)))


def test_no_counts_are_none(wire: Wire) -> None:
    body = {key: value for key, value in wire.whole(says("Ahoy")).items() if not key.startswith("usage")}
    assert wire.ask(Server(json.dumps(body).encode()), HI).usage == Usage()


@pytest.mark.parametrize(("name", "raw"), STOPS)
def test_stop_reasons(name: str, raw: str | None) -> None:
    wire = WIRES[name]
    response = wire.received(says("Hi"), stop=raw)
    assert (response.stop_reason, response.raw_stop_reason) == (wire.stops[raw], raw)


WORDS: dict[str, tuple[str, ...]] = {
    "anthropic": get_args(anthropic.types.StopReason),
    "gemini": tuple(word.value for word in google.genai.types.FinishReason if "UNSPECIFIED" not in word.value),
    "openai-chat": get_args(openai.types.chat.chat_completion.Choice.model_fields["finish_reason"].annotation),
    "openai-responses": get_args(
        get_args(openai.types.responses.response.IncompleteDetails.model_fields["reason"].annotation)[0]
    ),
}
"""The words that the SDKs know: a table that lacks one is wrong, even if the wire reader has the same table."""


def test_every_word_of_the_sdk_has_a_meaning(wire: Wire) -> None:
    words = WORDS[wire.adapter.name]
    assert len(words) >= 4
    unknown = [word for word in words if wire.received(says("Hi"), stop=word).stop_reason is StopReason.UNKNOWN]
    assert unknown == []


def test_calls(wire: Wire) -> None:
    text = '{"n":123456789012345678901234567890,"t":"\\u2028\\ud83d\\ude00 é","f":1.5e3,"x":null}'
    response = wire.received(says("So"), calls("call_a", "f", text), calls("call_b", "g", "{}"))
    assert response.text == "So"
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("call_a", "f", {"n": 123456789012345678901234567890, "t": "\u2028😀 é", "f": 1500.0, "x": None}),
        ("call_b", "g", {}),
    ]
    assert response.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(("name", "text"), BROKEN)
def test_arguments_that_are_no_object_are_no_call(name: str, text: str) -> None:
    """It goes back unchanged, and only with a result: all APIs refuse a call without one."""
    wire = WIRES[name]
    response = wire.received(calls("call_a", "f", text), calls("call_b", "f", "{}"))
    assert response.stop_reason is StopReason.MALFORMED_CALL
    (broken, whole) = response.message.parts
    assert isinstance(broken, Opaque)
    assert broken.api == wire.adapter.api
    assert isinstance(whole, ToolCall)
    unanswered = wire.sent(Message.user("?"), response.message, answer("call_b"))
    assert [call_id for call_id, _ in wire.called(unanswered)] == ["call_b"]
    answered = wire.sent(Message.user("?"), response.message, answer("call_a", "call_b"))
    (back,) = (arguments for call_id, arguments in wire.called(answered) if call_id == "call_a")
    assert back in (text, Calls("", "", (text,)).arguments) or back != back  # noqa: PLR0124 - NaN is not itself
    assert [call_id for call_id, _ in wire.answered(answered)] == ["call_a", "call_b"]


@pytest.mark.parametrize("name", [name for name in WIRES if name != "gemini"])  # whose calls come whole or not at all
@pytest.mark.parametrize("text", ['{"city": "Par"}', "{}"])
def test_a_call_cut_short_is_no_call_and_does_not_go_back(name: str, text: str) -> None:
    """The JSON of one may be closed by the provider (Anthropic), so that it parses and is not what was meant."""
    wire = WIRES[name]
    raw = next(raw for raw, reason in wire.stops.items() if reason is StopReason.MAX_TOKENS)
    cut = text if name in {"anthropic", "openai-responses"} else text[:-1]
    response = wire.received(says("So"), calls("call_a", "f"), calls("call_b", "f", cut), stop=raw)
    assert response.stop_reason is StopReason.MAX_TOKENS
    assert [call.id for call in response.tool_calls] == ["call_a"]
    assert isinstance(response.message.parts[-1], Opaque)
    body = wire.sent(Message.user("?"), response.message, answer("call_a"), Message.user("Go on."))
    assert wire.called(body) == [("call_a", {})]


def answer(*ids: str) -> Message:
    return Message(Role.USER, tuple(ToolResult(call_id, "f", "ok") for call_id in ids))


@pytest.mark.parametrize(("name", "body"), MALFORMED)
def test_a_body_that_is_no_answer(name: str, body: bytes) -> None:
    server = Server(httpx2.Response(200, headers={"content-type": "application/json"}, content=body))
    with pytest.raises(errors.MalformedResponse):
        WIRES[name].ask(server, HI)


def test_an_answer_goes_back_in_its_place(wire: Wire) -> None:
    response = wire.received(says("So"), calls("call_a", "f", '{"a":1}'))
    body = wire.sent(Message.user("?"), response.message, answer("call_a"))
    assert wire.called(body) == [("call_a", {"a": 1})]
    assert response.message.parts[0] == Text("So", response.message.parts[0].provider_metadata)
    text: Any = json.dumps(body)
    assert text.index('"So"') < text.index("call_a")
