from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from harness.adapters.openai_chat import RECEIVED
from harness.model.messages import (
    JSON_INSTRUCTION,
    File,
    Image,
    JsonMode,
    Message,
    Opaque,
    Refusal,
    StopReason,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import WEATHER, asked, said, user

API = "openai-chat"
WIRE = WIRES[API]
sent, decoded, refused = WIRE.sends, WIRE.answers, WIRE.refuses
HELLO = asked(Message.user("Hello"))


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


def test_strict_of_a_tool_comes_from_metadata_only() -> None:
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


def test_json_mode_adds_an_instruction_if_required() -> None:
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


def test_images_of_results_are_sent_after_all_results() -> None:
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


def test_a_text_file_is_sent_as_text_after_a_heading() -> None:
    file = File("text/markdown", "# Ä\n".encode(), provider_metadata={API: {"file": {"filename": "a.md"}}})
    recorded = File("text/plain", b"a", provider_metadata={API: {"file": {"file_data": "data:text/plain;base64,YQ=="}}})

    assert sent(asked(user(file, recorded)))["messages"][0]["content"] == [
        {"type": "text", "text": "A file of the type text/markdown:"},
        {"type": "text", "text": "# Ä\n"},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,YQ=="}},
    ]


def test_an_opaque_with_a_role_is_a_message() -> None:
    reminder = {"role": "developer", "content": "Be kind.", "name": "house-rules"}
    foreign = Opaque("gemini", {"role": "developer", "content": "no"})
    request = asked(user(Text("One"), Opaque(API, reminder), foreign, Text("Two"), Text("Three")))
    assert sent(request)["messages"] == [
        {"role": "user", "content": "One"},
        reminder,
        {"role": "user", "content": [{"type": "text", "text": "Two"}, {"type": "text", "text": "Three"}]},
    ]


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
def test_inexpressible_requests_are_declined(message: Message) -> None:
    refused(asked(message))


def test_a_refusal_goes_back_as_one() -> None:
    request = asked(Message.user("?"), said(Text("Well."), Refusal("No.")), Message.user("!"))
    assert sent(request)["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Well."}, {"type": "refusal", "refusal": "No."}],
    }


# --- responses --------------------------------------------------------------------------------------------------------


def test_a_refusal() -> None:
    response = decoded(answer(refusal="I cannot."))
    assert response.message == said(Refusal("I cannot."))
    assert response.stop_reason is StopReason.REFUSAL


def test_fields_that_a_dialect_accepts_are_sent_back_unchanged() -> None:
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


def test_fields_of_responses_only_are_not_sent_back() -> None:
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
