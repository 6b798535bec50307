from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.adapters.openai_chat import ADAPTER, RECEIVED
from harness.contract import errors
from harness.contract.model import (
    JSON_INSTRUCTION,
    SYNTHESISED_ID,
    ChatRequest,
    ChatResponse,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from harness.contract.protocols import Capability
from tests.adapters.openai_fake import Provider
from tests.traffic import Recorded, needs_traffic, recorded

API = "openai-chat"
MODEL = "gpt-5.6"
WEATHER = Tool("get_weather", "Weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}})
HELLO = ChatRequest(MODEL, (Message.user("Hello"),))


def ask(provider: Provider, request: ChatRequest) -> ChatResponse:
    return provider.client(ADAPTER, MODEL).chat(request)


def answer(finish: str | None = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5.6-2026-08-01",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
        ],
        "usage": usage,
    }


def wire_call(call_id: str = "call_a", arguments: str = '{"city":"Paris"}', **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}, **fields}


def sent(request: ChatRequest) -> dict[str, Any]:
    provider = Provider(answer(content="Hi"))
    ask(provider, request)
    return provider.body()


def decoded(body: Any, request: ChatRequest = HELLO) -> ChatResponse:
    return ask(Provider(body), request)


def refused(request: ChatRequest) -> errors.Unsupported:
    provider = Provider(answer(content="Hi"))
    with pytest.raises(errors.Unsupported) as caught:
        ask(provider, request)
    assert provider.requests == []
    return caught.value


def asked(*messages: Message, **fields: Any) -> ChatRequest:
    return ChatRequest(fields.pop("model", MODEL), messages, **fields)


def said(*parts: Any) -> Message:
    return Message(Role.ASSISTANT, parts)


def user(*parts: Any) -> Message:
    return Message(Role.USER, parts)


def call(call_id: str = "call_a", **fields: Any) -> ToolCall:
    return ToolCall(call_id, "get_weather", {"city": "Paris"}, **fields)


def result(content: Any, call_id: str = "call_a", **fields: Any) -> ToolResult:
    return ToolResult(call_id, "get_weather", content, **fields)


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "role"),
    [
        ("gpt-5.6", "developer"),
        ("gpt-6-sol", "developer"),
        ("o3", "developer"),
        ("gpt-4o", "system"),
        ("qwen3", "system"),
    ],
)
def test_system_prompt_is_the_first_message_verbatim(model: str, role: str) -> None:
    body = sent(asked(Message.user("Hello"), system="  Be brief.\n", model=model))
    assert body["messages"] == [{"role": role, "content": "  Be brief.\n"}, {"role": "user", "content": "Hello"}]


def test_tools_switch_reasoning_off_where_the_api_wants_that() -> None:
    assert sent(replace(HELLO, tools=(WEATHER,)))["reasoning_effort"] == "none"
    assert "reasoning_effort" not in sent(replace(HELLO, tools=(WEATHER,), model="gpt-4o"))
    assert "reasoning_effort" not in sent(replace(HELLO, tools=(WEATHER,), model="gpt-5.1"))


def test_thinking_alone_is_an_effort_and_with_tools_unsupported() -> None:
    assert sent(replace(HELLO, thinking=ThinkingSettings("high")))["reasoning_effort"] == "high"
    assert sent(replace(HELLO, thinking=ThinkingSettings()))["reasoning_effort"] == "medium"
    assert refused(replace(HELLO, thinking=ThinkingSettings("low"), tools=(WEATHER,))).feature == "thinking"
    assert refused(replace(HELLO, thinking=ThinkingSettings(budget_tokens=1024))).feature == "thinking"


def test_tools_are_declared_as_they_are_and_strict_comes_from_metadata_only() -> None:
    strict = replace(WEATHER, name="strict", provider_metadata={API: {"strict": True}, "gemini": {"x": 1}})
    body = sent(replace(HELLO, tools=(WEATHER, strict, Tool("now", "", {}))))
    plain = {"name": "get_weather", "description": "Weather of a city.", "parameters": WEATHER.parameters}
    assert body["tools"] == [
        {"type": "function", "function": plain},
        {"type": "function", "function": {**plain, "name": "strict", "strict": True}},
        {
            "type": "function",
            "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    ]


def test_settings() -> None:
    assert sent(replace(HELLO, max_tokens=7))["max_completion_tokens"] == 7
    assert sent(replace(HELLO, model="mistral-large-latest", max_tokens=7))["max_tokens"] == 7
    body = sent(replace(HELLO, model="gpt-4o", temperature=0.0, top_p=0.5, stop=("a", "b")))
    assert (body["temperature"], body["top_p"], body["stop"]) == (0.0, 0.5, ["a", "b"])


@pytest.mark.parametrize("setting", [{"temperature": 0.0}, {"top_p": 1.0}, {"stop": ("x",)}])
def test_reasoning_models_take_no_sampling_parameters(setting: dict[str, Any]) -> None:
    assert refused(replace(HELLO, **setting)).feature == next(iter(setting))


def test_json_mode_says_json_in_a_message_of_its_own_only_where_nobody_does() -> None:
    silent = sent(asked(Message.user("List it."), system="Be brief.", response_format=JsonMode()))
    assert silent["response_format"] == {"type": "json_object"}
    assert silent["messages"] == [
        {"role": "developer", "content": "Be brief."},
        {"role": "developer", "content": JSON_INSTRUCTION},
        {"role": "user", "content": "List it."},
    ]
    for request in (
        asked(Message.user("Give me Json."), response_format=JsonMode()),
        asked(Message.user("List it."), system="JSON only.", response_format=JsonMode()),
    ):
        assert JSON_INSTRUCTION not in [message["content"] for message in sent(request)["messages"]]


def test_the_json_instruction_stays_when_the_model_says_json() -> None:
    first = asked(Message.user("List it."), response_format=JsonMode())
    second = replace(first, messages=(*first.messages, said(Text("json")), Message.user("More.")))
    assert sent(second)["messages"][:2] == sent(first)["messages"]


def test_json_schema_is_rewritten_to_strict_form() -> None:
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
    body = sent(replace(HELLO, response_format=JsonSchema(schema, "person")))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
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
def test_a_schema_without_a_strict_form_goes_untouched(inner: Any) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"inner": inner, "other": {"type": "string", "default": ""}},
    }
    form = sent(replace(HELLO, response_format=JsonSchema(schema)))["response_format"]["json_schema"]
    assert form == {"name": "response", "strict": False, "schema": schema}


def test_a_schema_whose_root_is_no_object_goes_untouched() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    form = sent(replace(HELLO, response_format=JsonSchema(schema)))["response_format"]["json_schema"]
    assert (form["strict"], form["schema"]) == (False, schema)


def test_metadata_of_the_request_is_merged_into_the_body() -> None:
    metadata = {API: {"parallel_tool_calls": False, "seed": 3, "response_format": {"extra": 1}}, "gemini": {"bad": 1}}
    body = sent(replace(HELLO, tools=(WEATHER,), response_format=JsonMode(), provider_metadata=metadata))
    assert (body["parallel_tool_calls"], body["seed"]) == (False, 3)
    assert body["response_format"] == {"type": "json_object", "extra": 1}
    assert "bad" not in body


def test_calls_and_results_pair_up_and_results_come_first() -> None:
    request = asked(
        Message.user("?"),
        said(Text(""), call("call_a"), call("call_b")),
        user(Text("Thanks."), result("sunny", "call_b")),
        user(result({"temp": 18, "ü": None}, "call_a")),
        user(Text("Go on."), Text("Please.")),
    )
    arguments = '{"city":"Paris"}'
    assert sent(request)["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [wire_call("call_a"), wire_call("call_b", arguments)]},
        {"role": "tool", "tool_call_id": "call_b", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_a", "content": '{"temp":18,"ü":null}'},
        {"role": "user", "content": "Thanks."},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}, {"type": "text", "text": "Please."}]},
    ]


@pytest.mark.parametrize(
    ("content", "is_error", "wire"),
    [
        ("plain", False, "plain"),
        ("", False, ""),
        (None, False, "null"),
        (12345678901234567890, False, "12345678901234567890"),
        ([1, True], False, "[1,true]"),
        ("station offline", True, '{"error":"station offline"}'),
        ({"code": 7}, True, '{"error":{"code":7}}'),
        ((Text("one"),), False, "one"),
        ((Text("one"), Text("two")), False, [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]),
        ((Text("one"), Text("two")), True, '{"error":"onetwo"}'),
        ((), False, ""),
    ],
)
def test_results(content: Any, is_error: bool, wire: Any) -> None:
    request = asked(Message.user("?"), said(call()), user(result(content, is_error=is_error)))
    assert sent(request)["messages"][2] == {"role": "tool", "tool_call_id": "call_a", "content": wire}


def test_images_of_results_move_behind_all_results() -> None:
    picture = Image("image/png", b"\x89PNG")
    request = asked(
        Message.user("?"),
        said(call("call_a"), call("call_b")),
        user(result((Text("a map"), picture), "call_a"), result((picture,), "call_b"), Text("And?")),
    )
    roles = [message["role"] for message in sent(request)["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user", "user"]
    messages = sent(request)["messages"]
    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    assert messages[2]["content"][0] == {"type": "text", "text": "a map"}
    assert [part["type"] for part in messages[4]["content"]] == ["text", "image_url", "text", "image_url"]
    assert [part["image_url"] for part in messages[4]["content"][1::2]] == [{"url": url}, {"url": url}]
    assert "call_a" in messages[4]["content"][0]["text"]
    assert "call_b" in messages[4]["content"][2]["text"]
    assert messages[5]["content"] == "And?"


def test_images_files_and_audio_of_the_user() -> None:
    request = asked(
        user(
            Text("Look", {API: {"prompt_cache_breakpoint": {"mode": "explicit"}}}),
            Image(
                "image/png", uri="https://example.org/a.png", provider_metadata={API: {"image_url": {"detail": "low"}}}
            ),
            File("application/pdf", b"%PDF"),
            File("audio/wav", b"RIFF"),
            Opaque(API, {"type": "file", "file": {"file_id": "file-1"}}),
            Opaque("gemini", {"type": "foreign"}),
        )
    )
    assert sent(request)["messages"][0]["content"] == [
        {"type": "text", "text": "Look", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]


def test_a_text_file_is_text_behind_a_line_that_says_so() -> None:
    file = File("text/markdown", "# Ä\n".encode(), provider_metadata={API: {"file": {"filename": "a.md"}}})
    recorded = File("text/plain", b"a", provider_metadata={API: {"file": {"file_data": "data:text/plain;base64,YQ=="}}})

    assert sent(asked(user(file, recorded)))["messages"][0]["content"] == [
        {"type": "text", "text": "A file of the type text/markdown:"},
        {"type": "text", "text": "# Ä\n"},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,YQ=="}},
    ]


def test_an_opaque_with_a_role_is_a_message_of_its_own_in_its_place() -> None:
    reminder = {"role": "developer", "content": "Be kind.", "name": "house-rules"}
    foreign = Opaque("gemini", {"role": "developer", "content": "no"})
    request = asked(user(Text("One"), Opaque(API, reminder), foreign, Text("Two"), Text("Three")))
    assert sent(request)["messages"] == [
        {"role": "user", "content": "One"},
        reminder,
        {"role": "user", "content": [{"type": "text", "text": "Two"}, {"type": "text", "text": "Three"}]},
    ]


def test_tools_of_the_requests_metadata_stand_beside_the_functions() -> None:
    custom = {"type": "custom", "custom": {"name": "sql"}}
    request = replace(HELLO, tools=(WEATHER,), provider_metadata={API: {"tools": [custom]}})
    function, other = sent(request)["tools"]
    assert function["function"]["name"] == "get_weather"
    assert other == custom
    assert sent(replace(request, tools=()))["tools"] == [custom]


@pytest.mark.parametrize(
    "message",
    [
        user(File("application/pdf", uri="https://example.org/a.pdf")),
        user(File("text/plain", b"\xff")),
        user(Image("image/png")),
        user(call()),
        said(Image("image/png", b"x")),
        said(result("x")),
    ],
)
def test_what_the_api_cannot_hold_is_refused_before_anything_is_sent(message: Message) -> None:
    refused(asked(message))


def test_a_refusal_goes_back_as_one() -> None:
    request = asked(Message.user("?"), said(Text("Well."), Refusal("No.")), Message.user("!"))
    assert sent(request)["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Well."}, {"type": "refusal", "refusal": "No."}],
    }


# --- ids --------------------------------------------------------------------------------------------------------------


def history_with(*ids: str) -> tuple[Message, ...]:
    calls, results = [call(one) for one in ids], [result(str(n), one) for n, one in enumerate(ids)]
    return (Message.user("?"), said(*calls), user(*results))


def wire_ids(messages: tuple[Message, ...]) -> tuple[list[str], list[str]]:
    wire = sent(asked(*messages))["messages"]
    calls = [one["id"] for message in wire for one in message.get("tool_calls", ())]
    return calls, [message["tool_call_id"] for message in wire if message["role"] == "tool"]


def test_a_made_id_never_meets_one_that_is_there() -> None:
    (made,), _ = wire_ids(history_with("a" * 41))
    calls, results = wire_ids(history_with(made, "a" * 41))
    assert calls == results
    assert calls[0] == made
    assert calls[1] != made


def test_a_long_id_that_the_server_issued_returns_unchanged() -> None:
    long = "call_" + "x" * 60
    response = decoded(answer("tool_calls", tool_calls=[wire_call(long)]))
    assert response.tool_calls[0].id == long
    calls, results = wire_ids((Message.user("?"), response.message, user(result("x", long))))
    assert calls == results == [long]


@pytest.mark.parametrize("missing", [{"id": ""}, {"id": None}])
def test_a_call_without_an_id_gets_one_that_is_new_in_the_history(missing: dict[str, Any]) -> None:
    request = asked(*history_with("call_1"))
    first, second = decoded(answer("tool_calls", tool_calls=[wire_call() | missing] * 2), request).tool_calls
    assert len({"call_1", first.id, second.id}) == 3
    assert first.provider_metadata["harness"] == {SYNTHESISED_ID: True}
    again = decoded(answer("tool_calls", tool_calls=[wire_call() | missing] * 2), request).tool_calls
    assert again == (first, second)


# --- responses --------------------------------------------------------------------------------------------------------


def test_calls() -> None:
    body = answer("tool_calls", tool_calls=[wire_call(), wire_call("call_b", "", index=1)])
    response = decoded(body)
    assert response.message == said(call(), ToolCall("call_b", "get_weather", {}))
    assert response.stop_reason is StopReason.TOOL_USE


def test_a_forced_call_stops_with_stop_and_is_tool_use_all_the_same() -> None:
    response = decoded(answer("stop", tool_calls=[wire_call()]))
    assert (response.stop_reason, response.raw_stop_reason) == (StopReason.TOOL_USE, "stop")


def test_a_refusal() -> None:
    response = decoded(answer(refusal="I cannot."))
    assert response.message == said(Refusal("I cannot."))
    assert response.stop_reason is StopReason.REFUSAL


@pytest.mark.parametrize("arguments", ['{"city": "Par', ""])
def test_a_call_cut_short_is_no_call_and_goes_back_only_if_it_was_answered(arguments: Any) -> None:
    raw = wire_call(arguments=arguments)
    response = decoded(answer("length", tool_calls=[raw]))
    assert response.message.parts == (Opaque(API, raw),)
    assert response.stop_reason is StopReason.MAX_TOKENS
    unanswered = sent(asked(Message.user("?"), response.message, Message.user("Go on.")))
    assert [message["role"] for message in unanswered["messages"]] == ["user", "user"]
    answered = sent(asked(Message.user("?"), response.message, user(result("cut short", is_error=True))))
    assert answered["messages"][1] == {"role": "assistant", "content": None, "tool_calls": [raw]}


def test_what_a_dialect_takes_back_goes_back_as_it_came() -> None:
    """Each field by its evidence in `taken_back`."""
    message = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "A"},
            {"type": "thinking", "thinking": [{"n": 10**30}]},
            {"type": "refusal", "refusal": "No."},
        ],
        "reasoning_content": "Let me see.",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 0}],
        "reasoning_opaque": "opaque",
        "thinking_blocks": [{"type": "thinking", "thinking": "Let me see.", "signature": "s"}],
        "extra_content": {"google": {"thought": True}},
        "function_call": {"name": "get_weather", "arguments": "{}"},
        "tool_calls": [
            wire_call(extra_content={"google": {"thought_signature": "AB+/=="}}),
            {
                "id": "call_b",
                "type": "function",
                "function": {"name": "get_weather", "arguments": "{}", "provider_specific_fields": {"s": "t"}},
                "provider_specific_fields": {"thought_signature": "t"},
            },
            {"id": "call_c", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        ],
    }
    assert back(message) == message


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_goes_back_under_the_name_it_came_by(name: str) -> None:
    message = {"role": "assistant", "content": None, name: "Let me see.", "tool_calls": [wire_call()]}
    assert back(message) == message
    response = decoded(answer("tool_calls", **message))
    assert [part.text for part in response.message.parts if isinstance(part, Thinking)] == ["Let me see."]


def test_what_is_only_shown_stays_with_the_caller() -> None:
    """A strict server refuses a field that it does not know, and `padding`, for one, is none that Copilot takes."""
    plain = {"role": "assistant", "content": [{"type": "text", "text": "A"}], "tool_calls": [wire_call()]}
    shown = {
        "padding": "abcdef",
        "provider_metadata": {"gateway": {"cost": "0.01"}},
        "annotations": [{"type": "url_citation", "url": "https://example.org"}],
        "brand_new": {"a": "b"},
    }
    message = {
        **plain,
        **shown,
        "content": [{"type": "text", "text": "A", "provider_metadata": {"x": 1}}],
        "tool_calls": [{**wire_call(provider_metadata={"y": 2}), "index": 0}],
    }
    message["tool_calls"][0]["function"] = {**wire_call()["function"], "padding": "z"}
    response = decoded(answer("tool_calls", **message))
    assert Opaque(RECEIVED, shown) in response.message.parts
    kept = [part.provider_metadata for part in response.message.parts if isinstance(part, Text | ToolCall)]
    assert kept == [
        {RECEIVED: {"provider_metadata": {"x": 1}}},
        {RECEIVED: {"provider_metadata": {"y": 2}, "function": {"padding": "z"}}},
    ]
    assert back(message) == {**plain, "content": "A"}


def test_of_audio_only_its_id_goes_back() -> None:
    audio = {"id": "audio_1", "data": "UklGRg==", "transcript": "Hm", "expires_at": 9}
    message = {"role": "assistant", "content": None, "audio": audio, "tool_calls": [wire_call()]}
    assert back(message) == {**message, "audio": {"id": "audio_1"}}
    nameless = {**message, "audio": {**audio, "id": ""}, "function_call": {"name": "", "arguments": ""}}
    assert back(nameless) == {"role": "assistant", "content": None, "tool_calls": [wire_call()]}


def back(message: dict[str, Any]) -> Any:
    """The message as the next request has it, once its calls are answered."""
    response = decoded(answer("tool_calls", **message))
    results = [result("x", one["id"]) for one in message["tool_calls"]]
    return sent(asked(Message.user("?"), response.message, user(*results)))["messages"][1]


def test_capabilities() -> None:
    assert (ADAPTER.name, ADAPTER.api) == (API, API)
    assert set(Capability) - ADAPTER.capabilities == {
        Capability.PROVIDER_TOOLS,
        Capability.RETRIES,
        Capability.THINKING,
    }


# --- against others ---------------------------------------------------------------------------------------------------


def test_requests_fit_the_types_of_the_sdk() -> None:
    params = pytest.importorskip("openai.types.chat.completion_create_params")
    hardened = pytest.importorskip("tests.apis.hardened")
    validator = hardened.validator(params.CompletionCreateParamsNonStreaming)
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    requests = [
        asked(*history_with("a", "b" * 50), Message.user("!"), system="S", tools=(WEATHER,), tool_choice="required"),
        asked(said(Text("A"), Refusal("No.")), user(Text("?"), Image("image/png", b"x")), response_format=JsonMode()),
        asked(
            Message.user("?"),
            said(call()),
            user(result((Text("a"), Image("image/png", b"x"), File("application/pdf", b"x")))),
            tools=(WEATHER,),
            response_format=JsonSchema(schema),
            max_tokens=5,
        ),
        asked(Message.user("?"), model="gpt-4o", temperature=0.5, top_p=0.5, stop=("x",)),
        asked(Message.user("?"), thinking=ThinkingSettings("low")),
    ]
    for request in requests:
        validator.validate_python(sent(request), strict=True)


def whole_answers() -> Iterator[tuple[Recorded, dict[str, Any]]]:
    for exchange in recorded("openai-chat", "openai-compat-chat"):
        if exchange.response.status == 200 and exchange.response.body.startswith(b"{"):
            body = json.loads(exchange.response.body)
            if "choices" in body:
                yield exchange, body


@needs_traffic
def test_real_answers_go_back_as_they_came_but_for_what_is_only_shown() -> None:
    shown = {"annotations", "audio", "channel", "function_call", "thought_signature"}
    seen = 0
    for exchange, body in whole_answers():
        response = decoded(exchange.response.body)
        results = [result("x", one.id) for one in response.tool_calls]
        wire = sent(asked(Message.user("?"), response.message, user(*results)))["messages"]
        said = body["choices"][0]["message"].items()
        raw = {key: value for key, value in said if value not in (None, "", [], {}) and key not in shown}
        back = [message for message in wire if message["role"] == "assistant"]
        assert len(back) == 1, exchange.path
        expected = {**raw, "tool_calls": [_without_index(one) for one in raw.get("tool_calls", ())]}
        actual = {key: value for key, value in back[0].items() if value is not None}
        actual["tool_calls"] = [_without_index(one) for one in actual.get("tool_calls", ())]
        if all(one["id"] for one in expected["tool_calls"]):
            assert actual == expected, exchange.path
        seen += 1
    assert seen >= 100


def _without_index(one: dict[str, Any]) -> dict[str, Any]:
    function = {**one["function"], "arguments": json.loads(one["function"]["arguments"] or "{}")}
    return {**{key: value for key, value in one.items() if key != "index"}, "type": "function", "function": function}
