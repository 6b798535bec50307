from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest

from harness.adapters.gemini import ADAPTER
from harness.model import errors
from harness.model.messages import (
    SYNTHESISED_ID,
    ChatRequest,
    ChatResponse,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    Opaque,
    Role,
    StopReason,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.adapters.streamed import BASE, Server
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import WEATHER, asked, said, user

WITH_IDS = "gemini-3.6-flash"
WITHOUT_IDS = "gemini-2.5-flash"
STAND_IN = base64.b64encode(b"skip_thought_signature_validator").decode()
SIGNED = {"gemini": {"thoughtSignature": "a+/b"}}
PICTURE = Image("image/png", b"\x89PNG")
WIRE = WIRES["gemini"]
sent, refused = WIRE.sends, WIRE.refuses


def answer(*parts: Any, finish: str = "STOP") -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0, "finishReason": finish}
    return {**WIRE.whole(), "candidates": [candidate]}


def received(*parts: Any, history: tuple[Message, ...] = (), finish: str = "STOP") -> ChatResponse:
    return WIRE.answers(answer(*parts, finish=finish), *history)


def responses(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        part["functionResponse"]
        for content in body["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]


# The request on the wire


@pytest.mark.parametrize("model", ["gemini-3.6-flash", "models/gemini-3.6-flash"])
def test_a_chat_is_one_post_below_the_base_url(model: str) -> None:
    server = Server(json.dumps(answer({"text": "hi"})).encode())
    WIRE.ask(server, asked(model=model))
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", f"{BASE}/v1/models/gemini-3.6-flash:generateContent")
    assert request.headers["x-goog-api-key"] == "key-1"


@pytest.mark.parametrize(
    ("base_url", "prefix"),
    [
        (f"{BASE}/v1beta", f"{BASE}/v1beta"),
        (f"{BASE}/v1alpha/", f"{BASE}/v1alpha"),
        (f"{BASE}/v2", f"{BASE}/v2"),
        (f"{BASE}/vertex", f"{BASE}/vertex/v1"),
        (f"{BASE}/v1beta/gateway", f"{BASE}/v1beta/gateway/v1"),
    ],
)
def test_a_base_url_that_ends_in_a_version_chooses_it(base_url: str, prefix: str) -> None:
    server = Server(json.dumps(answer({"text": "hi"})).encode())
    server.client(ADAPTER, WITH_IDS, base_url).chat(asked())
    assert str(server.requests[0].url) == f"{prefix}/models/gemini-3.6-flash:generateContent"


def test_settings() -> None:
    body = sent(asked(max_tokens=9, temperature=0.0, top_p=0.5, stop=("END",), cache=True))
    assert body["generationConfig"] == {"maxOutputTokens": 9, "temperature": 0.0, "topP": 0.5, "stopSequences": ["END"]}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    ],
)
def test_a_tool_without_arguments_has_no_schema(schema: dict[str, Any]) -> None:
    body = sent(asked(tools=(Tool("now", "", schema),)))
    assert body["tools"] == [{"functionDeclarations": [{"name": "now"}]}]


def test_schemas_travel_unchanged() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"snake_case": {"type": ["string", "null"]}, "camelCase": {"$ref": "#/$defs/x"}, "thought": {}},
        "additionalProperties": False,
        "$defs": {"x": {"const": None, "exclusiveMinimum": 0}},
    }
    tools = (Tool("f", "F.", schema), Tool("any", "Takes any.", {"type": "object"}))
    body = sent(asked(tools=tools, response_format=JsonSchema(schema)))
    (declarations,) = (tool["functionDeclarations"] for tool in body["tools"])
    assert declarations == [
        {"name": "f", "description": "F.", "parametersJsonSchema": schema},
        {"name": "any", "description": "Takes any.", "parametersJsonSchema": {"type": "object"}},
    ]
    assert body["generationConfig"] == {"responseMimeType": "application/json", "responseJsonSchema": schema}


def test_json_with_tools_is_refused_on_gemini_2_only() -> None:
    assert sent(asked(response_format=JsonMode()))["generationConfig"] == {"responseMimeType": "application/json"}
    assert sent(asked(model=WITHOUT_IDS, response_format=JsonMode()))["generationConfig"]
    for response_format in (JsonMode(), JsonSchema({})):
        refused(asked(model=WITHOUT_IDS, tools=(WEATHER,), response_format=response_format), "JSON together with tools")


@pytest.mark.parametrize(
    ("model", "thinking", "wire"),
    [
        (WITH_IDS, ThinkingSettings("low"), {"thinkingLevel": "LOW"}),
        (WITH_IDS, ThinkingSettings(), {}),
        (WITHOUT_IDS, ThinkingSettings(budget_tokens=0), {"thinkingBudget": 0}),
        (WITHOUT_IDS, ThinkingSettings("low"), {"thinkingBudget": 1024}),
        ("gemini-flash-latest", ThinkingSettings("high"), {"thinkingBudget": 24576}),
    ],
)
def test_thinking(model: str, thinking: ThinkingSettings, wire: dict[str, Any]) -> None:
    config = sent(asked(model=model, thinking=thinking))["generationConfig"]["thinkingConfig"]
    assert config == {"includeThoughts": True, **wire}


def test_metadata_of_tool_and_request() -> None:
    tool = Tool("f", "F.", {}, {"gemini": {"behavior": "BLOCKING"}, "anthropic": {"strict": True}})
    own = {
        "tools": [{"googleSearch": {}}],
        "generationConfig": {"seed": 7, "thinkingConfig": {"x_new": 1}},
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
        "newField": None,
    }
    body = sent(
        asked(
            tools=(tool,),
            tool_choice="auto",
            thinking=ThinkingSettings(),
            provider_metadata={"gemini": own, "anthropic": {"metadata": {}}},
        )
    )
    declaration = {"name": "f", "description": "F.", "behavior": "BLOCKING"}
    assert body["tools"] == [{"functionDeclarations": [declaration]}, {"googleSearch": {}}]
    assert body["generationConfig"] == {"seed": 7, "thinkingConfig": {"includeThoughts": True, "x_new": 1}}
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert body["newField"] is None
    assert "metadata" not in body


@pytest.mark.parametrize(
    ("request_", "feature"),
    [
        (asked(Message.user("")), "empty user message"),
        (asked(thinking=ThinkingSettings(budget_tokens=9)), "budget"),
        (
            asked(said(ToolCall("a", "f", {})), user(ToolResult("a", "f", (PICTURE,))), model=WITHOUT_IDS),
            "media in a tool result",
        ),
        (asked(model="../escape"), "the request"),
    ],
)
def test_inexpressible_requests_are_declined(request_: ChatRequest, feature: str) -> None:
    refused(request_, feature)


# The history on the wire


def test_user_media() -> None:
    message = Message(
        Role.USER,
        (
            Text("look"),
            PICTURE,
            File("application/pdf", uri="https://example.com/a.pdf"),
            File("audio/wav", b"\xfb\xff"),
        ),
    )
    assert sent(asked(message))["contents"][0]["parts"] == [
        {"text": "look"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "+/8="}},
    ]


@pytest.mark.parametrize(
    ("content", "is_error", "payload"),
    [
        ({"a": 1}, False, {"a": 1}),
        ([1], False, {"output": [1]}),
        (None, False, {"output": None}),
        ("", False, {"output": ""}),
        ("no", True, {"error": "no"}),
        ({"a": 1}, True, {"error": {"a": 1}}),
        ((Text("a"),), False, {"output": "a"}),
        ((Text("a"), Text("b")), False, {"output": ["a", "b"]}),
        ((Text("a"), Opaque("anthropic", {})), True, {"error": "a"}),
    ],
)
@pytest.mark.parametrize("model", [WITH_IDS, WITHOUT_IDS])
def test_result_payloads(model: str, content: Any, is_error: bool, payload: Any) -> None:
    body = sent(
        asked(said(ToolCall("a", "f", {})), user(ToolResult("a", "f", content, is_error=is_error)), model=model)
    )
    assert responses(body) == [{"id": "a", "name": "f", "response": payload}]


def test_media_in_a_result_are_next_to_the_payload_on_gemini_3() -> None:
    body = sent(
        asked(
            said(ToolCall("a", "f", {}), ToolCall("b", "f", {})),
            user(ToolResult("a", "f", (Text("a map"), PICTURE)), ToolResult("b", "f", (PICTURE,))),
        )
    )
    media = [{"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}]
    first, second = responses(body)
    assert first == {"id": "a", "name": "f", "response": {"output": "a map"}, "parts": media}
    assert second == {"id": "b", "name": "f", "response": {}, "parts": media}


def test_a_call_follows_no_model_turn() -> None:
    body = sent(asked(Message.user("?"), Message(Role.ASSISTANT, (Text("Let me see."),)), said(ToolCall("a", "f", {}))))
    assert [content["role"] for content in body["contents"]] == ["user", "model"]


def test_the_name_of_a_response_is_that_of_its_call() -> None:
    body = sent(asked(said(ToolCall("a", "f", {})), user(ToolResult("a", "other", "1"))))
    assert responses(body)[0]["name"] == "f"


def test_foreign_calls_get_the_placeholder_signature() -> None:
    history = (
        Message.user("?"),
        said(ToolCall("call_1", "f", {}), ToolCall("call_2", "f", {})),
        user(ToolResult("call_1", "f", "1"), ToolResult("call_2", "f", "2")),
        said(ToolCall("functions.f:0", "f", {})),
        user(ToolResult("functions.f:0", "f", "3")),
        said(ToolCall("g1", "f", {}, SIGNED)),
        user(ToolResult("g1", "f", "4")),
    )
    body = sent(asked(*history))
    signatures = [part.get("thoughtSignature") for content in body["contents"][1::2] for part in content["parts"]]
    assert signatures == [STAND_IN, None, STAND_IN, "a+/b"]
    assert [response["id"] for response in responses(body)] == ["call_1", "call_2", "functions.f:0", "g1"]
    older = sent(asked(*history, model=WITHOUT_IDS))
    assert STAND_IN not in json.dumps(older)


# Ids that the API did not issue


def test_calls_without_ids_get_some_that_stay_off_the_wire() -> None:
    first = received({"functionCall": {"name": "f", "args": {"a": 1}}}, {"functionCall": {"name": "f"}})
    ids = [call.id for call in first.tool_calls]
    assert len(set(ids)) == 2
    assert all(ids)
    assert all(call.provider_metadata["harness"] == {SYNTHESISED_ID: True} for call in first.tool_calls)
    answers = [ToolResult(ids[1], "f", "second"), ToolResult(ids[0], "f", "first")]
    history = (Message.user("?"), first.message, user(*answers))
    body = sent(asked(*history, model=WITHOUT_IDS))
    assert [part["functionCall"] for part in body["contents"][1]["parts"]] == [
        {"name": "f", "args": {"a": 1}},
        {"name": "f", "args": {}},
    ]
    # Without ids on the wire the order pairs them.
    assert responses(body) == [
        {"name": "f", "response": {"output": "first"}},
        {"name": "f", "response": {"output": "second"}},
    ]


# The answer


PARTS: list[dict[str, Any]] = [
    {"text": "", "thought": True, "thoughtSignature": "AAA="},
    {"text": "hm", "thought": True},
    {"text": "Let me see.", "thoughtSignature": "a+/b_-", "partMetadata": {"k": 1}},
    {"text": "", "thoughtSignature": "only"},
    {"thoughtSignature": "alone"},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"toolCall": {"toolType": "GOOGLE_SEARCH"}, "thoughtSignature": "c"},
    {"brandNew": {"snake_case": None}},
    {"text": "x", "functionCall": {"name": "f"}},
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw==", "displayName": "a"}, "thoughtSignature": "i"},
    {"inlineData": {"mimeType": "audio/wav", "data": "url_-safe"}},
    {"fileData": {"mimeType": "text/csv", "fileUri": "https://example.com/a.csv"}},
    {
        "functionCall": {
            "id": "c1",
            "name": "f",
            "args": {"n": 12345678901234567890123, "x": None, "snake_case": {"camelCase": []}},
            "newField": 1,
        },
        "thoughtSignature": "a+/b",
    },
    {"functionCall": {"id": "c2", "name": "f", "args": {}}},
]


def test_parts_become_parts_and_go_back_as_they_came() -> None:
    response = received(*PARTS)
    assert [type(part) for part in response.message.parts] == [
        Thinking,
        Thinking,
        Text,
        Text,
        *[Opaque] * 5,
        Image,
        Opaque,
        File,
        ToolCall,
        ToolCall,
    ]
    assert response.text == "Let me see."
    assert response.tool_calls[0].arguments["n"] == 12345678901234567890123
    answers = (ToolResult(call.id, "f", "1") for call in response.tool_calls)
    body = sent(asked(Message.user("?"), response.message, user(*answers)))
    unanswered = {"text": "x", "functionCall": {"name": "f"}}
    assert body["contents"][1]["parts"] == [part for part in PARTS if part != unanswered]


def test_a_stop_with_calls_is_tool_use() -> None:
    assert received({"text": "x"}, {"functionCall": {"name": "f"}}).stop_reason is StopReason.TOOL_USE
    odd = received({"functionCall": {"name": "f"}}, finish="UNEXPECTED_TOOL_CALL")
    assert (odd.stop_reason, len(odd.tool_calls)) == (StopReason.MALFORMED_CALL, 1)


def test_a_continuation_is_not_followed() -> None:
    body = answer({"text": "x"}, finish="CONTINUATION")
    body["candidates"][0]["continuationToken"] = "dG9rZW4="
    server = Server(json.dumps(body).encode())
    assert WIRE.ask(server, asked()).stop_reason is StopReason.PAUSE
    assert len(server.requests) == 1


def test_a_success_other_than_200_is_no_answer() -> None:
    with pytest.raises(errors.MalformedResponse):
        WIRE.ask(Server(httpx2.Response(204)), asked())


# Failures


def failing(status: int, **fields: Any) -> tuple[Exception, Server]:
    server = Server(httpx2.Response(status, **fields))
    with pytest.raises(errors.ChatError) as caught:
        WIRE.ask(server, asked())
    return caught.value, server


def test_an_error_may_stand_in_a_list() -> None:
    error, _ = failing(429, json=[{"error": {"code": 429, "message": "No.", "status": "SOME_STATUS"}}])
    assert error == errors.RateLimited(429, "No.", "SOME_STATUS")


RETRY_INFO = [
    {"@type": "type.googleapis.com/google.rpc.Help"},
    {"@type": "…/google.rpc.RetryInfo", "retryDelay": "34.5s"},
]


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"retry-after": "600"}, RETRY_INFO, 600.0),
        ({"retry-after": "soon"}, RETRY_INFO, None),
        ({}, RETRY_INFO, 34.5),
        ({}, [{"retryDelay": "soon"}], None),
        ({}, None, None),
    ],
)
def test_retry_after(headers: dict[str, str], details: Any, seconds: float | None) -> None:
    error, server = failing(429, headers=headers, json={"error": {"message": "Slow.", "details": details}})
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after == seconds
    assert len(server.requests) == 1


def test_an_error_that_is_no_text() -> None:
    error, _ = failing(502, headers={"content-type": "application/json"}, content=b"\xff\xff")
    assert isinstance(error, errors.ChatError)
