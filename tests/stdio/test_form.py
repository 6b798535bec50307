"""The contract as JSON: what is written is read again and agrees with the schema that ships."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    File,
    Image,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Refusal,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolCallStart,
    ToolResult,
    Usage,
)
from harness.platform.files import shipped_folder
from harness.scenarios.canonical import history, settings_of, system_of, tools, user_message
from harness.scenarios.load import load_paths
from harness.stdio import protocol, serving
from harness.stdio.protocol import ToolParams, from_json, json_schema, to_json

LARGE = 2**60 + 1
EVENT_TYPES = (
    'x.type is "delta". Allowed: text_delta, thinking_delta, tool_call_start, arguments_delta, tool_call_end, finish'
)

REQUEST = ChatRequest(
    "m",
    [
        Message(
            "user", [Text("Hi"), Image("image/png", b"\x00\xff"), File("application/pdf", uri="https://a.invalid")]
        ),
        Message(
            Role.ASSISTANT,
            [
                Thinking("hm", {"anthropic": {"signature": "s"}}),
                ToolCall("a", "f", {"n": LARGE, "t": "\ud800"}),
                Opaque("gemini", {"x": [None]}),
                Refusal("no"),
            ],
        ),
        Message("user", [ToolResult("a", "f", (Text("x"),), is_error=True), ToolResult("b", "f", [LARGE])]),
    ],
    "system",
    [Tool("f", "does", {"type": "object"})],
    NamedTool("f"),
    JsonSchema({"type": "object"}),
    5,
    1.0,
    stop=("a",),
    thinking=ThinkingSettings("low"),
    cache=True,
)


def validator(name: str) -> jsonschema.Draft202012Validator:
    document = json_schema()
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": document["$defs"]})


def test_what_is_written_is_read_again_and_agrees_with_the_schema() -> None:
    document = json.loads(json.dumps(to_json(REQUEST)))

    assert from_json(ChatRequest, document, "the request") == REQUEST
    assert list(validator("ChatRequest").iter_errors(document)) == []


def test_requests_of_shipped_scenarios_survive_json() -> None:
    valid = validator("ChatRequest")
    for scenario in load_paths(sorted(shipped_folder("scenarios").glob("*.yaml"))[::6]):
        for at, turn in enumerate(scenario.turns):
            settings = settings_of(scenario, at)
            request = ChatRequest(
                "m",
                (*history(scenario), user_message(turn)),
                system_of(scenario, at),
                tools(scenario),
                settings.choice(),
                settings.format(),
                thinking=settings.reasoning(),
            )
            document: Any = json.loads(json.dumps(to_json(request)))
            assert from_json(ChatRequest, document, "the request") == request
            assert valid.is_valid(document)


def test_the_schema_takes_every_message_and_refuses_what_is_none() -> None:
    whole = jsonschema.Draft202012Validator(json_schema())
    answer = to_json(ChatResponse(Message("assistant", "Hi"), StopReason.END_TURN, Usage(1, 2)))
    event = to_json(ToolCallStart(0, "a", "f"))
    right = [
        {"id": 1, "method": "describe", "params": {"protocol": 1}},
        {"id": 1, "result": {"name": "a", "api": "gemini", "capabilities": ["tools"]}},
        {"id": 1, "result": answer},
        {"id": 1, "error": {"code": -1, "message": "x", "data": {"kind": "provider_error", "status": 429}}},
        {"method": "event", "params": {"id": 1, "event": event}},
    ]
    wrong = [
        {"id": 1, "result": {"text": "Hi"}},
        {"id": 1, "error": {"code": -1, "message": "x", "data": {"kind": "rate_limited"}}},
        {"method": "event", "params": {"event": event}},
    ]

    assert [each for each in right if not whole.is_valid({"jsonrpc": "2.0", **each})] == []
    assert [each for each in wrong if whole.is_valid({"jsonrpc": "2.0", **each})] == []


def test_integers_that_other_languages_round_come_as_text_too() -> None:
    document: Any = to_json(ToolCall("a", "f", {"n": LARGE}))

    assert document["arguments_json"] == f'{{"n": {LARGE}}}'
    rounded = {**document, "arguments": {"n": float(LARGE)}}
    assert from_json(ToolCall, rounded, "the call").arguments == {"n": LARGE}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], EVENT_TYPES.replace('"delta"', "[]")),
        ({"type": "text_delta"}, "x has no 'text'"),
        ({"type": "text_delta", "text": 1}, "x.text is 1: input should be a valid string"),
        ({"type": "text_delta", "text": "a", "index": 0}, "x has 'index', which is not one of its fields"),
        (
            {"type": "tool_call_end", "index": "one"},
            'x.index is "one": input should be a valid integer, unable to parse string as an integer',
        ),
        ({"type": "delta"}, EVENT_TYPES),
    ],
)
def test_what_is_none_is_refused_by_its_place(document: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared
        from_json(StreamEvent, document, "x")

    assert str(caught.value) == said


@pytest.mark.parametrize("event", [TextDelta("a"), ToolCallStart(1, "a", "f"), ArgumentsDelta(1, "{")])
def test_events_are_read_again(event: StreamEvent) -> None:
    assert from_json(StreamEvent, to_json(event), "the event") == event


def holding_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = value
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), r"provider_metadata holds .*, a datetime, which is not a JSON value"),
        ({1}, r"provider_metadata holds \{1\}, a set, which is not a JSON value"),
        (holding_itself(), r"ValueError: Circular reference detected \(id repeated\)"),
    ],
)
def test_what_is_no_json_is_named(value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=f"the response cannot be written as JSON: {said}"):
        to_json(Message("user", [Text("a", {"x": value})]), "the response")


def test_a_subclass_is_written_as_its_base() -> None:
    class MyStr(str):
        __slots__ = ()

    class MyCall(ToolCall):
        pass

    assert to_json(MyCall(MyStr("a"), MyStr("f"), {})) == to_json(ToolCall("a", "f", {}))


@pytest.mark.parametrize("type_", [{}, {"type": "tool_call"}])
@pytest.mark.parametrize("arguments", [{"arguments": {"n": LARGE}}, {"arguments_json": f'{{"n": {LARGE}}}'}])
def test_a_loop_in_another_language_calls_a_tool_by_the_text_of_its_arguments(
    type_: dict[str, str], arguments: dict[str, Any]
) -> None:
    read = from_json(ToolParams, {"id": 1, "call": {**type_, "id": "a", "name": "f", **arguments}}, "the call")

    assert read == ToolParams(1, ToolCall("a", "f", {"n": LARGE}))
    schema = json_schema()
    jsonschema.validate(to_json(read), {**schema["$defs"]["ToolParams"], "$defs": schema["$defs"]})


@pytest.mark.parametrize(("declined_by", "named"), [(RECOGNISED_CLIENT, RECOGNISED_CLIENT), ("own", "mine")])
def test_a_worker_tells_whether_the_capabilities_of_its_client_are_guessed(declined_by: str, named: str) -> None:
    response: Any = serving._adapter_error(Unsupported(declined_by, "a history", "it keeps its own"), outside=False)
    error = protocol.exception_for("mine", response["error"]["message"], response["error"]["data"])
    assert str(error) == f"{named}: a history is not supported: it keeps its own"
