"""Trimming: the weight goes, the pairs stay."""

from __future__ import annotations

from harness.kit.thread import trimmed, trimmed_result
from harness.model.messages import Message, Role, Text, ToolCall, ToolResult

LONG = "x" * 1000
READ = ToolResult("c1", "read_file", LONG, provider_metadata={"anthropic": {"cache_control": 1}})
HISTORY = (
    Message.user("Look"),
    Message(Role.ASSISTANT, (ToolCall("c1", "read_file", {"path": "a"}), ToolCall("c2", "list_directory", {}))),
    Message(Role.USER, (READ, ToolResult("c2", "list_directory", LONG))),
    Message(Role.ASSISTANT, (Text(LONG),)),
)


def test_only_the_content_of_the_named_tools_results_goes() -> None:
    made = trimmed(HISTORY, {"read_file"})
    read, listed = made[2].tool_results
    assert read.content == "[trimmed: 1000 characters that were read in an earlier turn]"
    assert (read.call_id, read.name, read.is_error, read.provider_metadata) == (
        "c1",
        "read_file",
        False,
        READ.provider_metadata,
    )
    assert listed.content == LONG
    assert [message for at, message in enumerate(made) if at != 2] == [m for at, m in enumerate(HISTORY) if at != 2]


def test_an_error_and_a_short_result_stay() -> None:
    for result in (ToolResult("c", "read_file", "short"), ToolResult("c", "read_file", LONG, is_error=True)):
        assert trimmed_result(result, {"read_file"}) == result


def test_parts_and_json_values_are_weighed_by_their_text() -> None:
    parts = ToolResult("c", "read_file", (Text(LONG), Text(LONG)))
    assert trimmed_result(parts, {"read_file"}).content == (
        "[trimmed: 2000 characters that were read in an earlier turn]"
    )
    assert str(trimmed_result(ToolResult("c", "read_file", [LONG]), {"read_file"}).content).startswith(
        "[trimmed: 1004 "
    )
