"""Views are alike when they state the same facts, wherever those stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis.view import CallView, RequestView, SettingView, SystemView, TextView, ToolView, TurnView
from harness.equivalence.view_differences import alike
from harness.model.messages import JSON

CALL = CallView("call_1", "get", {"a": 1, "b": [2]}, "/m/0", "/m/0/id", "/m/0/input")
REQUEST = RequestView(
    "anthropic",
    "m",
    (SystemView("Be brief.", "system", "/system"),),
    (
        TurnView("user", (TextView("Hi", "/messages/0/content"),), "/messages/0", "user"),
        TurnView("assistant", (CALL,), "/messages/1", "assistant"),
    ),
    (ToolView("get", "Gets.", {"type": "object"}, "/tools/0"),),
    settings={"max_tokens": SettingView(10, "/max_tokens"), "stop": SettingView(["x"], "/stop_sequences")},
)


def test_pointers_do_not_count() -> None:
    moved = replace(CALL, pointer="/x", id_pointer="/y", arguments_pointer="/z")
    assert alike(moved, CALL)
    elsewhere = replace(REQUEST, turns=(replace(REQUEST.turns[0], pointer="/contents/0"), REQUEST.turns[1]))
    assert alike(elsewhere, REQUEST)


def test_the_order_of_keys_and_of_settings_does_not_count() -> None:
    assert alike(replace(CALL, arguments={"b": [2], "a": 1}), CALL)
    assert alike(replace(REQUEST, settings=dict(reversed(REQUEST.settings.items()))), REQUEST)


@pytest.mark.parametrize(
    "arguments", [{"a": True, "b": [2]}, {"a": "1", "b": [2]}, {"a": 1}, {"a": 1, "b": [2, 2]}, None]
)
def test_other_arguments_are_other_calls(arguments: JSON) -> None:
    assert not alike(replace(CALL, arguments=arguments), CALL)


def test_whole_numbers_are_the_same_as_integers_and_doubles() -> None:
    assert alike(replace(CALL, arguments={"a": 1.0, "b": [2]}), CALL)


@pytest.mark.parametrize(
    "other",
    [
        replace(CALL, id="call_2"),
        replace(CALL, name="got"),
        replace(CALL, item_id="fc_1"),
        replace(CALL, opaque="signature"),
        replace(CALL, malformed="{"),
        TextView("get", "/m/0"),
    ],
)
def test_every_other_field_counts(other: object) -> None:
    assert not alike(other, CALL)


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, turns=REQUEST.turns[::-1]),
        replace(REQUEST, settings={"max_tokens": SettingView(11, "/max_tokens")}),
        replace(REQUEST, system=()),
        replace(REQUEST, tools=(replace(REQUEST.tools[0], parameters={"type": "string"}),)),
        replace(REQUEST, stream=True),
    ],
)
def test_nested_fields_count(other: RequestView) -> None:
    assert not alike(other, REQUEST)
