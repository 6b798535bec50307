"""OpenAI Responses: what is refused, each limit with a request that keeps it and one that breaks it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.limits import Violation
from harness.apis.openai_common import open_objects, schema_nodes
from harness.apis.openai_responses import API
from harness.model.http import HttpRequest
from tests.apis import lawful
from tests.apis.hardened import validator
from tests.apis.pointers import resolve

Body = dict[str, Any]

SCHEMA: Body = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Body = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather.",
    "parameters": SCHEMA,
    "strict": True,
}
USER: Body = {"role": "user", "content": "Weather in Paris and Tokyo?"}
REASONING: Body = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def call(call_id: str, **fields: Any) -> Body:
    item = {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": '{"city":"Paris"}'}
    return {**item, **fields}


def output(call_id: str, **fields: Any) -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": "18", **fields}


GOOD: Body = {
    "model": "gpt-6-sol",
    "instructions": "Be brief.",
    "input": [
        USER,
        REASONING,
        call("call_a", id="fc_a"),
        call("call_b", id="fc_b"),
        output("call_b"),
        output("call_a", output=[{"type": "input_text", "text": "18"}]),
    ],
    "tools": [TOOL],
}


def send(body: Any, model: str | None = None) -> list[Violation]:
    request = HttpRequest("POST", "https://api.openai.com/v1/responses", {}, json.dumps(body).encode())
    return lawful.violations(
        API, request, registry.api("openai-responses").profile_for(model or API.model_of(request) or "")
    )


def changed(**fields: Any) -> Body:
    return {**copy.deepcopy(GOOD), **fields}


def with_input(*items: Any, **fields: Any) -> Body:
    return changed(input=list(items), **fields)


def rules(body: Any, model: str | None = None) -> list[str]:
    found = send(body, model)
    for violation in found:
        resolve(body, violation.pointer)  # leads somewhere
        assert violation.message
        assert violation.source
        assert violation.status == 400
    return [violation.rule.removeprefix("openai-responses-") for violation in found]


def only(body: Any, rule: str, model: str | None = None) -> Violation:
    assert rules(body, model) == [rule]
    return send(body, model)[0]


GOOD_REQUESTS: dict[str, Body] = {
    "a follow-up": GOOD,
    "text": {"model": "gpt-6-sol", "input": "Hello"},
    "a tool without arguments": changed(
        tools=[{"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}, "strict": False}]
    ),
    "JSON by schema, with tools": changed(
        text={"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
    ),
    "JSON mode": {"model": "gpt-6-sol", "input": "Answer as JSON.", "text": {"format": {"type": "json_object"}}},
    "a named tool": changed(tool_choice={"type": "function", "name": "get_weather"}),
    "a choice of tools": changed(
        tool_choice={
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "get_weather"}],
        }
    ),
    "system messages": with_input({"role": "developer", "content": "Be brief."}, USER),
    "an assistant's message": with_input(USER, {"role": "assistant", "content": ""}, USER),
    "one id in two turns": with_input(
        USER, call("call_0"), output("call_0"), USER, call("call_0"), output("call_0"), tools=[TOOL]
    ),
    "a message between call and output": with_input(USER, call("call_a"), USER, output("call_a")),
    "an output of a call that the server keeps": with_input(output("call_a"), previous_response_id="resp_1"),
    "a stream": changed(stream=True, stream_options={"include_obfuscation": False}),
}


@pytest.mark.parametrize("body", GOOD_REQUESTS.values(), ids=GOOD_REQUESTS)
def test_a_good_request_has_no_violation_at_all(body: Body) -> None:
    assert send(body) == []


@pytest.mark.parametrize("body", GOOD_REQUESTS.values(), ids=GOOD_REQUESTS)
def test_a_good_request_is_one_to_the_sdk(body: Body) -> None:
    types = pytest.importorskip("openai.types.responses.response_create_params")
    kind = types.ResponseCreateParamsStreaming if body.get("stream") else types.ResponseCreateParamsNonStreaming
    validator(kind).validate_python(body, strict=True)


# the request as a whole


@pytest.mark.parametrize("data", [b"no json", b"[]", b'{"input": NaN}', b"\xff", b"[" * 100_000])
def test_a_body_that_cannot_be_read_is_a_violation(data: bytes) -> None:
    request = HttpRequest("POST", "https://api.openai.com/v1/responses", {}, data)
    (violation,) = lawful.violations(API, request, registry.api("openai-responses").profile_for(""))
    assert violation.rule == "openai-responses-body"


# calls and results


def test_an_output_without_call_is_an_orphan_unless_the_server_may_know_the_call() -> None:
    assert only(with_input(USER, output("call_a")), "result-orphan").pointer == "/input/1/call_id"
    for state in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):
        assert rules(with_input(output("call_a"), **state)) == []
    assert rules(with_input({"type": "item_reference", "id": "fc_1"}, output("call_a"))) == []


@pytest.mark.parametrize(
    ("after", "alone"),
    [
        ([call("call_a"), output("call_a")], False),
        ([{"type": "reasoning", "id": "rs_2", "summary": []}, call("call_a"), output("call_a")], False),
        ([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}], False),
        ([{"role": "assistant", "content": "Hi"}], True),
        ([USER], True),
        ([], True),
    ],
)
def test_stored_reasoning_stands_before_what_it_led_to(after: list[Body], *, alone: bool) -> None:
    assert rules(with_input(USER, REASONING, *after)) == (["reasoning-alone"] if alone else [])
    assert rules(with_input(USER, REASONING, *after, store=False)) == []
    assert rules(with_input(USER, {**REASONING, "id": None}, *after)) == []


# single items


# tools


def tool(**fields: Any) -> Body:
    return {key: value for key, value in {**TOOL, **fields}.items() if value != "absent"}


def test_strict_holds_all_the_way_down() -> None:
    inner = {"type": "object", "properties": {"a/b": {"type": "object", "properties": {}}}, "required": ["a/b"]}
    parameters = {
        **SCHEMA,
        "properties": {"city": {"anyOf": [{"type": "array", "items": inner}, {"$ref": "#/$defs/p"}, {"type": "null"}]}},
        "$defs": {"p": {"type": ["object", "null"], "additionalProperties": False}},
    }
    body = {"model": "gpt-6-sol", "input": "Hi", "tools": [tool(parameters=parameters)]}
    assert rules(body) == ["tool-strict-schema", "tool-strict-schema"]
    inside = "/tools/0/parameters/properties/city/anyOf/0/items"
    assert [found.pointer for found in send(body)] == [inside, inside + "/properties/a~1b"]
    assert rules({**body, "tools": [tool(parameters=parameters, strict=False)]}) == []


def test_a_schema_nested_more_deeply_than_the_stack() -> None:
    schema: Body = {"type": "object"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    ((pointer, _, _),) = open_objects(schema_nodes(schema, "", ["items"]))
    assert pointer == "/items" * 3000


# JSON output


def asking(**fields: Any) -> Body:
    wanted = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True, **fields}
    return changed(text={"format": {key: value for key, value in wanted.items() if value != "absent"}})


@pytest.mark.parametrize(
    "body", [{"input": {"a": 1}}, {"input": [[], None]}, {"tools": [None]}, {"text": []}, {"tool_choice": 7}]
)
def test_nothing_makes_the_limits_raise(body: Body) -> None:
    assert any(violation.severity == "error" for violation in send(changed(**body)))
