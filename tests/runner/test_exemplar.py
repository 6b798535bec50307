"""The right request of the shipped adapter, beside the wrong one of another adapter."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.model.errors import MalformedResponse
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, Text
from harness.model.protocols import Adapter
from harness.results import Body, CellResult
from harness.runner.exhibits import differing_lines, raw_stream_title
from tests.broken.fault import Wrap, answers, asks
from tests.broken.playing import played


def named(wrap: Wrap, name: str = "mine") -> Wrap:
    """An adapter of its own name: one that is called as the shipped adapter is the shipped adapter."""

    def wrapped(adapter: Adapter) -> Adapter:
        return replace(wrap(adapter), name=name)

    return wrapped


def says_it_as_the_user(request: ChatRequest) -> ChatRequest:
    said = Message(Role.USER, (Text(request.system or ""),))
    return replace(request, system=None, messages=(said, *request.messages))


def without_text(response: ChatResponse) -> ChatResponse:
    return replace(response, message=replace(response.message, parts=(Text("something else"),)))


def right(cell: CellResult) -> list[Body]:
    """The right requests among what the findings show."""
    return [
        body for each in cell.findings for body in each.exhibits if body.end.startswith("the request of the shipped")
    ]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ("anthropic", '"system": ['),
        ("openai-chat", '{"role": "developer", '),
        ("openai-responses", '"instructions": "'),
        ("gemini-4", '"systemInstruction": {'),
    ],
)
def test_the_right_request_has_what_is_missing_in_the_wrong_one(target: str, field: str) -> None:
    cell = played("system-plain", target, named(asks(says_it_as_the_user)))

    shown = right(cell)

    assert any(field in line for line in shown[0].piece), shown[0].piece
    assert "the same" in "".join(shown[0].piece)
    assert json.loads(shown[0].text)
    assert all(each.follows is None for each in cell.findings if right(replace(cell, findings=(each,))))


def test_findings_about_an_answer_show_the_stream_and_no_request() -> None:
    cell = played("stream-empty-text", "anthropic", named(answers(without_text)), variant="stream")

    assert cell.findings
    assert right(cell) == []
    assert {body.end for each in cell.findings for body in each.exhibits} == {raw_stream_title(0), raw_stream_title(1)}


def test_the_shipped_adapter_is_not_shown_beside_itself() -> None:
    cell = played("system-plain", "anthropic", named(asks(says_it_as_the_user), "anthropic"))

    assert cell.findings
    assert right(cell) == []


def test_where_the_shipped_adapter_sends_nothing_there_is_nothing_to_show() -> None:
    def declines(_: object) -> Any:
        raise MalformedResponse("never")

    cell = played("system-plain", "anthropic", named(asks(declines)))

    assert cell.findings
    assert right(cell) == []


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"model": "m", "content": None, "arguments": '{"a": 1}'}, False),
        ({"model": "m", "arguments": '{"a":1}'}, False),
        ({"model": "m", "arguments": '{"a":2}'}, True),
        ({"model": "m", "arguments": '{"a":1}', "system": "s"}, True),
    ],
)
def test_what_means_the_same_is_no_difference(other: dict[str, Any], differs: bool) -> None:
    assert bool(differing_lines({"model": "m", "arguments": '{"a":1}'}, other)) is differs


def test_only_what_differs_is_shown() -> None:
    shown = differing_lines({"a": 1, "b": [{"c": 1}, {"c": 2}]}, {"a": 1, "b": [{"c": 1}, {"c": 3}]})

    same = "  ... 1 line the same"
    assert shown == ("{", same, '  "b": [', same, '    {"c": 2}', "  ]", "}")
