from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.model.messages import (
    JSON_INSTRUCTION,
    ChatRequest,
    ChatResponse,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
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
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import WEATHER, asked, said, user

WIRE = WIRES["anthropic"]
sent, refused = WIRE.sends, WIRE.refuses


def received(*content: Any, **fields: Any) -> ChatResponse:
    return WIRE.answers({**WIRE.whole(), "content": list(content), **fields})


# The request on the wire


def test_large_max_tokens_are_sent_without_streaming() -> None:
    assert sent(asked(max_tokens=100_000))["max_tokens"] == 100_000


def test_json_mode_is_an_own_block_after_the_system_prompt() -> None:
    body = sent(asked(system="Be brief.", response_format=JsonMode()))
    assert [block["text"] for block in body["system"]] == ["Be brief.", JSON_INSTRUCTION]
    assert body["messages"][-1]["role"] == "user"


def test_a_json_schema_is_closed_and_nothing_else_of_it_changes() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "properties": {"type": ["object", "null"], "properties": {}},
            "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "string"}]}},
        },
        "$defs": {"x": {"properties": {"a": {"enum": [{"type": "object"}]}}, "additionalProperties": False}},
    }
    before = json.dumps(schema)
    body = sent(asked(response_format=JsonSchema(schema), tools=(WEATHER,)))
    assert body["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "properties": {"type": ["object", "null"], "properties": {}, "additionalProperties": False},
                "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "string"}]}},
            },
            "$defs": {"x": {"properties": {"a": {"enum": [{"type": "object"}]}}, "additionalProperties": False}},
            "additionalProperties": False,
        },
    }
    assert json.dumps(schema) == before
    assert "tools" in body


def test_a_tool_shown_while_written_streams_at_once() -> None:
    tools = (Tool("write", "", {}, shown_while_written=True), Tool("read", "", {}))
    body = sent(asked(tools=tools))
    assert [tool.get("eager_input_streaming") for tool in body["tools"]] == [True, None]


def test_tools() -> None:
    strict = Tool("now", "", {}, {"anthropic": {"strict": True}, "openai-chat": {"strict": False}})
    body = sent(asked(tools=(WEATHER, strict), cache=True, system="Be brief.", response_format=JsonMode()))
    assert body["tools"] == [
        {"name": "get_weather", "description": "Weather of a city.", "input_schema": WEATHER.parameters},
        {
            "name": "now",
            "input_schema": {"type": "object", "properties": {}},
            "strict": True,
            "cache_control": {"type": "ephemeral"},
        },
    ]
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in body["system"][1]


def test_stop_and_metadata_of_the_request() -> None:
    own = {"tool_choice": {"disable_parallel_tool_use": True}}
    body = sent(asked(stop=("END",), tools=(WEATHER,), tool_choice="auto", provider_metadata={"anthropic": own}))
    assert body["stop_sequences"] == ["END"]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-6", "claude-opus-4-8-20260801", "claude-opus-5-5", "claude-fable-5"]
)
def test_thinking_is_adaptive_from_4_6_on(model: str) -> None:
    body = sent(
        asked(
            model=model,
            thinking=ThinkingSettings(effort="low"),
            tools=(WEATHER,),
            tool_choice="auto",
            response_format=JsonSchema({"type": "object"}),
        )
    )
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"].keys() == {"effort", "format"}
    assert body["output_config"]["effort"] == "low"
    assert body["tool_choice"] == {"type": "auto"}
    refused(asked(model=model, thinking=ThinkingSettings(budget_tokens=2000)), "budget")


FORCED = [
    {"tool_choice": "required"},
    {"tool_choice": NamedTool("get_weather")},
    {"provider_metadata": {"anthropic": {"tool_choice": {"type": "any"}}}},
]


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize(
    "model",
    ["claude-opus-5-5", "claude-opus-5-5-20260922", "claude-sonnet-5-5", "claude-fable-5-1", "claude-mythos-5-1"],
)
def test_a_forced_choice_is_refused_for_models_that_refuse_it(model: str, choice: dict[str, Any]) -> None:
    refused(asked(model=model, tools=(WEATHER,), **choice), f"a forced tool choice is not supported: {model} refuses")
    assert sent(asked(model=model, tools=(WEATHER,), tool_choice="auto"))["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-5-20260630", "claude-fable-5", "claude-haiku-5-5"])
def test_a_forced_choice_goes_out_to_the_others(model: str, choice: dict[str, Any]) -> None:
    body = sent(asked(model=model, tools=(WEATHER,), **choice))
    assert body["tool_choice"]["type"] in ("any", "tool")


def _with_thinking(model: str, kind: str) -> ChatRequest:
    more = {"budget_tokens": 1024} if kind == "enabled" else {}
    return asked(model=model, provider_metadata={"anthropic": {"thinking": {"type": kind, **more}}})


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("claude-sonnet-4-5", "adaptive"),
        ("claude-opus-4-6", ""),
        ("claude-opus-4-7", "enabled"),
        ("claude-opus-5", "enabled"),
        ("claude-haiku-5-5", "enabled"),
        ("claude-fable-5", "enabled disabled"),
        ("claude-opus-5-5", "enabled disabled"),
        ("claude-sonnet-5-5", "enabled disabled"),
        ("glm-5", ""),
    ],
)
def test_a_type_of_thinking_is_refused_for_models_that_refuse_it(model: str, kinds: str) -> None:
    for kind in ("adaptive", "enabled", "disabled"):
        request = _with_thinking(model, kind)
        if kind in kinds.split():
            refused(request, f"thinking of the type '{kind}' is not supported: {model} refuses it")
        else:
            assert sent(request)["thinking"]["type"] == kind


@pytest.mark.filterwarnings("ignore:.*is deprecated")
def test_only_older_models_accept_a_prefill() -> None:
    prefilled = (Message.user("Hi"), Message(Role.ASSISTANT, (Text("{"),)))
    assert sent(asked(*prefilled, model="claude-sonnet-4-5"))["messages"][-1]["role"] == "assistant"
    refused(asked(*prefilled, model="claude-opus-5-5"), "a conversation that ends with the assistant")
    paused = Opaque("anthropic", {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    body = sent(asked(Message.user("Hi"), Message(Role.ASSISTANT, (Text("I look."), paused)), model="claude-opus-5-5"))
    assert body["messages"][-1]["role"] == "assistant"


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5", "claude-opus-4-20250514", "claude-3-7-sonnet-20250219", "other"]
)
def test_thinking_has_a_budget_before_4_6(model: str) -> None:
    body = sent(asked(model=model, thinking=ThinkingSettings(budget_tokens=5000)))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 5000}
    assert body["max_tokens"] > 5000
    low, high = (
        sent(asked(model=model, thinking=ThinkingSettings(effort=effort)))["thinking"]["budget_tokens"]
        for effort in ("low", "high")
    )
    assert 1024 <= low < high
    refused(asked(model=model, max_tokens=2000, thinking=ThinkingSettings(budget_tokens=2000)), "budget")
    forced = asked(
        model=model, thinking=ThinkingSettings("low"), tools=(WEATHER,), tool_choice=NamedTool("get_weather")
    )
    refused(forced, "tool choice")


PICTURE = Image("image/png", b"\x89PNG")


@pytest.mark.parametrize(
    ("request_", "feature"),
    [
        (asked(temperature=0.0), "temperature"),
        (asked(top_p=1.0), "top_p"),
        (asked(response_format=JsonSchema({"type": "object", "additionalProperties": True})), "open object"),
        (asked(Message.user("")), "empty user message"),
        (asked(Message.user(" \n")), "empty user message"),
        (asked(Message(Role.ASSISTANT, (PICTURE,))), "media in an assistant message"),
        (asked(Message(Role.USER, (Image("image/tiff", b"II"),))), "image/tiff"),
        (asked(Message(Role.USER, (File("audio/wav", b"RIFF"),))), "audio/wav"),
        (asked(Message(Role.USER, (File("text/plain", b"\xff"),))), "UTF-8"),
        (asked(Message.user("\ud800")), "lone surrogate"),
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
            Image("image/png", uri="https://example.com/a.png"),
            File("application/pdf", b"%PDF"),
            File("text/plain", "naïve".encode()),
            File("application/pdf", provider_metadata={"anthropic": {"source": {"type": "file", "file_id": "f"}}}),
        ),
    )
    assert sent(asked(message))["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "naïve"}},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
    ]


def test_messages_of_white_space_are_left_out_but_not_other_texts() -> None:
    blank, call, result = Text("\n"), ToolCall("toolu_1", "clock", {}), ToolResult("toolu_1", "clock", "12:00")
    history = [Message(Role.ASSISTANT, (blank,)), Message(Role.ASSISTANT, (blank, call)), Message(Role.USER, (result,))]
    first, answer, _ = sent(asked(Message.user("Hi"), *history))["messages"]
    assert (first["role"], answer["content"][0]) == ("user", {"type": "text", "text": "\n"})


@pytest.mark.parametrize("content", ["", ()])
def test_a_failed_result_has_content(content: str | tuple[()]) -> None:
    call, result = ToolCall("toolu_1", "clock", {}), ToolResult("toolu_1", "clock", content, is_error=True)
    body = sent(asked(Message.user("Hi"), Message(Role.ASSISTANT, (call,)), Message(Role.USER, (result,))))
    assert body["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": "The tool failed without a message.",
            "is_error": True,
        }
    ]


def test_results_of_parts() -> None:
    body = sent(
        asked(
            said(ToolCall("a", "look", {}), ToolCall("b", "look", {})),
            user(
                ToolResult("a", "look", (Text("a map"), PICTURE, Opaque("gemini", {"x": 1}), Text(""))),
                ToolResult("b", "look", ()),
            ),
        )
    )
    first, second = body["messages"][1]["content"]
    assert [block["type"] for block in first["content"]] == ["text", "image"]
    assert "content" not in second


# The answer


BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "", "signature": "EqQB+/=="},
    {"type": "redacted_thinking", "data": "Eu8="},
    {"type": "text", "text": "Let me see.", "citations": None},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    {"type": "brand_new", "text": "not a text", "big": 12345678901234567890123},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "get_weather",
        "input": {"n": 12345678901234567890123, "x": None, "sep": "\u2028"},
        "caller": {"type": "direct"},
        "toolset_name": "browser",
    },
]


@pytest.mark.parametrize(
    ("model", "sent_back"), [("gpt-oss:120b", ["thinking", "text"]), ("claude-opus-5-5", ["text"])]
)
def test_reasoning_without_a_signature_goes_back_where_no_model_of_anthropic_is_served(
    model: str, sent_back: list[str]
) -> None:
    response = received({"type": "thinking", "thinking": "Look."}, {"type": "text", "text": "Hm."})
    body = sent(replace(asked(Message.user("?"), response.message, Message.user("So?")), model=model))
    assert [block["type"] for block in body["messages"][1]["content"]] == sent_back


def test_blocks_become_parts_and_go_back_as_they_came() -> None:
    response = received(*BLOCKS, stop_reason="tool_use")
    assert [type(part) for part in response.message.parts] == [Thinking, Opaque, Text, Opaque, Opaque, ToolCall]
    assert response.text == "Let me see."
    assert response.tool_calls[0].arguments["n"] == 12345678901234567890123
    assert (response.stop_reason, response.raw_stop_reason) == (StopReason.TOOL_USE, "tool_use")
    body = sent(asked(Message.user("?"), response.message, user(ToolResult("toolu_1", "get_weather", {}))))
    assert body["messages"][1]["content"] == BLOCKS
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{}", "toolset_name": "browser"}
    ]


# Surroundings


def test_an_opaque_with_a_role_is_a_message() -> None:
    reminder = {"role": "system", "content": [{"type": "text", "text": "Be kind."}]}
    foreign = Opaque("openai-chat", {"role": "developer", "content": "no"})
    said = Message(Role.USER, (Text("One"), Text("Two"), foreign, Opaque("anthropic", reminder)))
    messages = sent(asked(said, Message(Role.ASSISTANT, (Text("Yes"),)), Message.user("Three")))["messages"]
    assert [message["role"] for message in messages] == ["user", "system", "assistant", "user"]
    assert messages[0]["content"] == [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    assert messages[1] == reminder


def test_citations_go_back_without_their_file_id() -> None:
    """langchain-ai/langchain#32592: "Extra inputs are not permitted" for a field that the API itself has put there."""
    place = {"type": "char_location", "cited_text": "a", "document_index": 0, "document_title": None}
    found = {"type": "web_search_result_location", "cited_text": "b", "encrypted_index": "x", "url": "https://e.org"}
    text = {"type": "text", "text": "A", "citations": [{**place, "file_id": None}, found]}
    response = received(text)
    (part,) = response.message.parts
    assert part.provider_metadata["anthropic/received"] == {"citations": text["citations"]}
    turn = sent(asked(Message.user("?"), response.message, Message.user("!")))["messages"][1]
    assert turn["content"] == [{**text, "citations": [place, found]}]
