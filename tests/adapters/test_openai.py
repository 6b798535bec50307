"""Behaviour that OpenAI's two adapters share: strict schemas, JSON mode, ids and failures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from harness.model import errors
from harness.model.messages import JSON_INSTRUCTION, JsonMode, JsonSchema, Message, Text, ToolResult
from tests.adapters.streamed import Pieces, Player, Server
from tests.adapters.test_requests import loop
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import Wire, asked, calls, said, says, user

APIS = ("openai-chat", "openai-responses")


@pytest.fixture(params=APIS)
def openai(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


def form(openai: Wire, schema: dict[str, Any]) -> dict[str, Any]:
    """Return name, schema and strictness of a response schema in a request."""
    body = openai.sent(response_format=JsonSchema(schema, "person"))
    sent = body["text"]["format"] if "text" in body else {"type": None, **body["response_format"]["json_schema"]}
    return {key: value for key, value in sent.items() if key != "type"}


def test_json_schema_is_rewritten_to_strict_form(openai: Wire) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "x"},
            "age": {"type": "integer"},
            "kind": {"enum": ["a", "b"]},
            "size": {
                "anyOf": [{"type": "integer"}, {"type": "object", "properties": {}, "additionalProperties": False}]
            },
            "default": {"type": ["string", "null"]},
            "where": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        },
        "required": ["name", "where", "size"],
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    assert form(openai, schema) == {
        "name": "person",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "age": {"type": ["integer", "null"]},
                "kind": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
                "size": {
                    "anyOf": [
                        {"type": "integer"},
                        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
                    ]
                },
                "default": {"type": ["string", "null"]},
                "where": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            },
            "required": ["name", "age", "kind", "size", "default", "where"],
            "additionalProperties": False,
            "$defs": {
                "place": {
                    "type": "object",
                    "properties": {"city": {"type": ["string", "null"]}},
                    "required": ["city"],
                    "additionalProperties": False,
                }
            },
        },
    }


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "object"},
        {"type": "array"},
        {},
        True,
        {"oneOf": [{"type": "string"}]},
        {"$ref": "#", "description": "a sibling"},
    ],
)
def test_a_schema_without_a_strict_form_goes_untouched(openai: Wire, inner: Any) -> None:
    schema = {"type": "object", "properties": {"inner": inner, "other": {"type": "string", "default": ""}}}
    assert form(openai, schema) == {"name": "person", "strict": False, "schema": schema}


def test_a_schema_whose_root_is_no_object_goes_untouched(openai: Wire) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    assert form(openai, schema) == {"name": "person", "strict": False, "schema": schema}


def test_the_json_instruction_stays_when_the_model_says_json(openai: Wire) -> None:
    first = asked(Message.user("List it."), response_format=JsonMode())
    second = replace(first, messages=(*first.messages, said(Text("json")), Message.user("More.")))
    short, long = (body.get("messages") or body["input"] for body in map(openai.sends, (first, second)))
    assert JSON_INSTRUCTION in str(short)
    assert long[:2] == short


def test_a_made_id_never_meets_one_that_is_there(openai: Wire) -> None:
    ((made, _),) = openai.called(openai.sent(*loop("a" * 65)))
    body = openai.sent(*loop(made, "a" * 65))
    one, other = (call_id for call_id, _ in openai.called(body))
    assert [call_id for call_id, _ in openai.answered(body)] == [one, other]
    assert one == made
    assert other != made


def test_a_long_issued_id_goes_back_unchanged(openai: Wire) -> None:
    long = "call_" + "x" * 80
    response = openai.received(calls(long, "f"))
    body = openai.sent(Message.user("?"), response.message, user(ToolResult(long, "f", "ok")))
    assert [call_id for call_id, _ in (*openai.called(body), *openai.answered(body))] == [long, long]


# --- failures ---------------------------------------------------------------------------------------------------------


def raised(openai: Wire, answer: httpx2.Response) -> Any:
    with pytest.raises(errors.ChatError) as caught:
        openai.ask(Server(answer), asked())
    return caught.value


def test_the_type_replaces_a_missing_error_code(openai: Wire) -> None:
    error = {"message": "No.", "type": "invalid_request_error", "code": None}
    typed = raised(openai, httpx2.Response(400, json={"error": error}))
    assert (type(typed), typed.code) == (errors.InvalidRequest, "invalid_request_error")
    page = raised(openai, httpx2.Response(502, content=b"<html>bad gateway</html>"))
    assert (type(page), page.message) == (errors.ServerError, "<html>bad gateway</html>")
    assert "500" in raised(openai, httpx2.Response(500, json={"error": {"message": None}})).message


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        ({"message": "Bad.", "code": "tool_use_failed", "status_code": 400}, errors.InvalidRequest, "tool_use_failed"),
        ({"message": "Bad.", "code": "invalid_api_key"}, errors.AuthenticationFailed, "invalid_api_key"),
        ({"message": "Bad.", "code": "model_not_found"}, errors.NotFound, "model_not_found"),
        ({"message": "Bad.", "code": "503"}, errors.Overloaded, "503"),
        ({"message": "Bad."}, errors.ServerError, None),
        ("Bad.", errors.ServerError, None),
    ],
)
def test_an_error_in_place_of_the_answer_is_what_it_says(
    openai: Wire, error: Any, kind: type[errors.ProviderError], code: str | None
) -> None:
    """In a whole response, and as JSON in place of a stream."""
    body = json.dumps({"error": error}).encode()
    whole = raised(openai, httpx2.Response(200, json={"error": error}))
    with pytest.raises(errors.ChatError) as streamed:
        Player(openai.adapter, openai.model).stream(body, content_type="application/json; charset=utf-8")
    assert (type(whole), whole.message, whole.code) == (kind, "Bad.", code)
    assert streamed.value == whole


def test_a_whole_answer_in_place_of_a_stream_is_malformed(openai: Wire) -> None:
    body = json.dumps(openai.whole(says("Hi"))).encode()
    with pytest.raises(errors.MalformedResponse):
        Player(openai.adapter, openai.model).stream(body, content_type="application/json")


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx2.ReadTimeout("late"), errors.ConnectionFailed),
        (httpx2.RemoteProtocolError("incomplete"), errors.MalformedResponse),
    ],
)
def test_a_body_that_does_not_end(openai: Wire, failure: Exception, kind: type[Exception]) -> None:
    assert isinstance(raised(openai, httpx2.Response(200, stream=Pieces([b"{"], failure))), kind)
