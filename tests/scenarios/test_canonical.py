from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.contract.model import (
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Role,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from harness.scenarios.canonical import history, settings_of, system_of, tools, user_message
from harness.scenarios.schema import Settings
from tests.scenarios.files import MINIMAL, WITH_TOOLS, scenario


def turns(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"user": "x", "model": [{"text": "y"}], **change} for change in changes]


def test_a_turns_system_prompt_holds_from_there_on(tmp_path: Path) -> None:
    each = turns({}, {"system": "B"}, {}, {"system": None}, {}, {"system": ""})
    played = scenario(tmp_path, {**MINIMAL, "system": "A", "requires": ["system-prompt", "history"], "turns": each})
    assert [system_of(played, index) for index in range(6)] == ["A", "B", "B", None, None, ""]


def test_a_turns_settings_hold_for_it_alone(tmp_path: Path) -> None:
    each = turns({}, {"settings": {"temperature": 0.5}}, {"settings": {}}, {})
    played = scenario(tmp_path, {**MINIMAL, "requires": ["history"], "settings": {"max_tokens": 9}, "turns": each})
    assert [settings_of(played, index).max_tokens for index in range(4)] == [9, None, None, 9]
    assert settings_of(played, 1).temperature == 0.5


def test_a_history_becomes_messages(tmp_path: Path) -> None:
    told = [
        {"role": "user", "text": "Rome?"},
        {
            "role": "assistant",
            "thinking": "hm",
            "text": "Looking.",
            "metadata": {"anthropic": {"signature": "c2ln"}},
            "calls": [
                {"id": "a", "name": "get_weather", "arguments": {"city": "Rome"}, "metadata": {"gemini": {"x": 1}}},
                {"id": "b", "name": "get_wind"},
            ],
        },
        {
            "role": "user",
            "results": [{"call_id": "b", "content": 3, "is_error": True}, {"call_id": "a"}],
            "text": "So?",
        },
        {"role": "assistant", "text": "21", "metadata": {"gemini": {"thoughtSignature": "eA=="}}},
    ]
    content = {**WITH_TOOLS, "requires": ["tools", "parallel-tool-calls", "history"], "history": told}
    assert history(scenario(tmp_path, content)) == (
        Message.user("Rome?"),
        Message(
            Role.ASSISTANT,
            (
                Thinking("hm", {"anthropic": {"signature": "c2ln"}}),
                Text("Looking."),
                ToolCall("a", "get_weather", {"city": "Rome"}, {"gemini": {"x": 1}}),
                ToolCall("b", "get_wind", {}),
            ),
        ),
        Message(
            Role.USER,
            (ToolResult("b", "get_wind", 3, is_error=True), ToolResult("a", "get_weather", None), Text("So?")),
        ),
        Message(Role.ASSISTANT, (Text("21", {"gemini": {"thoughtSignature": "eA=="}}),)),
    )


def test_user_parts_keep_their_order(tmp_path: Path) -> None:
    parts = [{"text": "a"}, {"image": {"media_type": "image/png", "uri": "https://example.org/x.png"}}, {"text": "b"}]
    played = scenario(tmp_path, {**MINIMAL, "requires": ["vision", "history"], "turns": turns({"user": parts}, {})})
    picture = Image("image/png", uri="https://example.org/x.png")
    assert user_message(played.turns[0]) == Message(Role.USER, (Text("a"), picture, Text("b")))
    assert user_message(played.turns[1]) == Message.user("x")


def test_tools_are_declared_as_they_stand(tmp_path: Path) -> None:
    [tool] = tools(scenario(tmp_path, WITH_TOOLS))
    assert tool == Tool("get_weather", "", WITH_TOOLS["tools"][0]["parameters"])


def test_settings_in_canonical_words() -> None:
    schema = {"type": "object"}
    told = {
        "tool_choice": {"tool": "look"},
        "response_format": {"json_schema": schema, "name": "seen"},
        "thinking": {"effort": "high"},
    }
    settings = Settings.model_validate(told)
    assert settings.choice() == NamedTool("look")
    assert settings.format() == JsonSchema({"type": "object"}, "seen")
    assert settings.reasoning() == ThinkingSettings("high", None)
    plain = Settings.model_validate({"tool_choice": "none", "response_format": "json"})
    assert (plain.choice(), plain.format(), plain.reasoning()) == ("none", JsonMode(), None)
    assert (Settings().choice(), Settings().format()) == (None, None)
