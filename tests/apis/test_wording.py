"""A provider's words are said of the request that is refused now, not of the one that was recorded."""

from __future__ import annotations

import pytest

from harness.apis.limits import adapt_words
from harness.model.messages import JSON

TOO_LONG = "Invalid 'messages[{}].tool_calls[{}].id': string too long, but got a string with length {} instead."


@pytest.mark.parametrize(
    ("words", "pointer", "value", "told"),
    [
        (TOO_LONG.format(4, 0, 86), "/messages/1/tool_calls/2/id", "x" * 70, TOO_LONG.format(1, 2, 70)),
        (
            "messages.92.content.0.tool_use.id: String should match pattern '^[a-z]{1,128}$'",
            "/messages/3/content/1/id",
            "a b",
            "messages.3.content.1.tool_use.id: String should match pattern '^[a-z]{1,128}$'",
        ),
        ("tools[7].type: unknown variant", "/tools/0/type", "x", "tools[0].type: unknown variant"),
        ("tools.25.custom: not supported", "/tools/2/input_schema/properties/a", {}, "tools.2.custom: not supported"),
        ("contents[1].parts[0].data: required", "/contents/2", None, "contents[2].parts[0].data: required"),
        ("messages[4]: no", "/tools/1", None, "messages[4]: no"),
        ("version 2.1.280 or newer is required.", "/model", "m", "version 2.1.280 or newer is required."),
        ("it is refused", "", None, "it is refused"),
    ],
)
def test_the_place_and_the_length_are_this_requests(words: str, pointer: str, value: JSON, told: str) -> None:
    assert adapt_words(words, pointer, value) == told
