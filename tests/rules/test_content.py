from __future__ import annotations

from typing import Any

import pytest

from harness.apis.view import JsonView, MediaView, RequestView, ResultView, TextView, TurnView
from harness.equivalence.result_meaning import contains_result, same_medium
from harness.model.messages import Image, Text, ToolResult
from harness.rules.tool_use import is_verbatim, shown_payload, shown_result

PNG = Image("image/png", b"\x89PNG")
MEDIUM = MediaView("image/png", "/x", b"\x89PNG")


def view(*payload: Any) -> ResultView:
    parts = tuple(TextView(part, "/t") if isinstance(part, str) else part for part in payload)
    return ResultView("call_1", "f", parts, "/r", "/r/id")


def value(content: Any) -> JsonView:
    return JsonView(content, "/v")


def given(content: Any, *, is_error: bool = False) -> ToolResult:
    return ToolResult("call_1", "f", content, is_error)


def request(*parts: Any) -> RequestView:
    return RequestView("openai-chat", "m", (), (TurnView("user", parts, "/messages/0", "user"),))


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (["18 °C"], "18 °C"),
        (["1", "8"], "18"),
        ([""], ""),
        ([], ""),
        ([], None),
        (["null"], None),
        (["true"], True),
        (['{"b": [1, 2.0], "a": null}'], {"a": None, "b": [1, 2]}),
        (["12345678901234567890"], 12345678901234567890),
        ([value({"a": 1})], {"a": 1}),
        ([value({"output": [1, 2]})], [1, 2]),
        ([value({"result": "18"})], "18"),
        (['{"output": [1]}'], [1]),
        (['{"name": "f", "content": "18 \u00b0C", "error": null}'], "18 \u00b0C"),
        (['{"status": "success", "result": "{\\"a\\": 1}"}'], {"a": 1}),
        ([value({"result": 18})], "18"),
        ([value({"a": [1, 2]})], '{ "a":[1,2] }'),
        ([value({})], None),
    ],
)
def test_what_the_tool_answered_is_carried(payload: list[Any], content: Any) -> None:
    assert contains_result(view(*payload), given(content), request())


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (['"18"'], "18"),
        (["18 °C "], "18 °C"),
        (["cafe\u0301"], "caf\u00e9"),
        (["True"], True),
        (["1"], True),
        (["None"], None),
        (["{'a': 1}"], {"a": 1}),
        (['{"a": 1, "b": 2}'], {"a": 1}),
        (["12345678901234567000"], 12345678901234567890),
        ([value({"a": 1, "b": 2})], {"a": 1}),
        ([value({"output": "18", "note": "x"})], "18"),
        ([value({"a": 1}), value({"a": 1})], {"a": 1}),
        ([MEDIUM], "picture"),
        (["NaN"], None),
        (['{"name": "g", "content": "18"}'], "18"),
        (['{"status": "error", "result": "18"}'], "18"),
        (['{"result": "18", "note": "stale"}'], "18"),
        ([value({"result": 1.5})], "1.50"),
        ([value({"a": 2})], '{"a": 1, "a": 2}'),
        (["null"], ""),
    ],
)
def test_anything_else_is_not(payload: list[Any], content: Any) -> None:
    assert not contains_result(view(*payload), given(content), request())


@pytest.mark.parametrize(
    ("payload", "content", "carried"),
    [
        (["station offline"], "station offline", True),
        (["Error: station offline"], "station offline", True),
        (['{"error": "station offline"}'], "station offline", True),
        (['{"error": {"code": 7}}'], {"code": 7}, True),
        ([value({"error": "station offline"})], "station offline", True),
        (["The tool failed: station offline. Try later."], "station offline", True),
        (['Error: {"code": 7} (try later)'], {"code": 7}, True),
        (["Error: {'code': 7}"], {"code": 7}, False),
        (["station offlines"], "station offline", False),
        (["error"], "station offline", False),
        (['{"error": {"code": 8}}'], {"code": 7}, False),
    ],
)
def test_an_error_may_say_that_it_is_one(payload: list[Any], content: Any, *, carried: bool) -> None:
    assert contains_result(view(*payload), given(content, is_error=True), request()) is carried


def test_parts_are_carried_with_their_media() -> None:
    content = (Text("camera top"), PNG)
    assert contains_result(view("camera top", MEDIUM), given(content), request())
    assert not contains_result(view("camera top"), given(content), request())
    assert not contains_result(view(MEDIUM), given(content), request())
    assert not contains_result(view("camera top", MediaView("image/png", "/x", b"other")), given(content), request())
    assert not contains_result(view("camera top", MediaView("image/jpeg", "/x", PNG.data)), given(content), request())


def test_media_may_have_moved_into_a_user_turn_and_leave_a_note() -> None:
    content = (Text("camera top"), PNG)
    assert contains_result(view("camera top [picture below]"), given(content), request(MEDIUM))
    assert not contains_result(view("[picture below]"), given(content), request(MEDIUM))
    assert not contains_result(view("page 1 and more"), given((Text("page 1"),)), request(MEDIUM))


def test_texts_of_an_object_that_wraps_parts_count() -> None:
    assert contains_result(
        view(value({"output": ["page 1", "page 2"]})), given((Text("page 1"), Text("page 2"))), request()
    )
    assert not contains_result(
        view(value({"output": ["page 2", "page 1"]})), given((Text("page 1"), Text("page 2"))), request()
    )


@pytest.mark.parametrize(
    ("payload", "content", "verbatim"),
    [
        (["no"], "no", True),
        (['{"error": 1}'], {"error": 1}, True),
        ([value({"error": 1})], {"error": 1}, True),
        ([value({"error": {"a": 1}})], {"a": 1}, False),
        (["Error: no"], "no", False),
        ([MEDIUM], "no", False),
        (["a", "b"], "ab", False),
    ],
)
def test_verbatim_is_what_has_nothing_around_it(payload: list[Any], content: Any, *, verbatim: bool) -> None:
    assert is_verbatim(view(*payload), given(content)) is verbatim


def test_a_medium_by_reference_is_identified_by_its_address() -> None:
    assert same_medium(
        MediaView(None, "/x", uri="https://example.org/a.png"), Image("image/png", uri="https://example.org/a.png")
    )
    assert not same_medium(
        MediaView(None, "/x", uri="https://example.org/b.png"), Image("image/png", uri="https://example.org/a.png")
    )


def test_evidence_shows_no_bytes() -> None:
    assert shown_payload(view("camera top", MEDIUM)) == ["camera top", "<image/png, 4 bytes>"]
    assert shown_payload(view(value({"a": 1}))) == {"a": 1}
    assert shown_result(given((Text("camera top"), PNG))) == ["camera top", "<image>"]
