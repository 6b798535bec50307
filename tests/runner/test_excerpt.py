"""The piece of a body that a finding points at."""

from __future__ import annotations

from harness.runner.exhibits import excerpt, json_lines, marked_line

BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}],
}


def test_a_value_is_marked_in_what_stands_around_it() -> None:
    assert excerpt(BODY, "/messages/1/tool_calls/1/id") == (
        "/messages/1/tool_calls/1:",
        "  {",
        '>   "id": "b"',
        "  }",
    )


def test_a_container_is_shown_itself_and_what_fits_stands_on_one_line() -> None:
    assert excerpt(BODY, "/messages/0") == (
        "/messages/0:",
        '> {"role": "user", "content": "hi"}',
    )


def test_what_is_missing_is_marked_where_it_would_stand() -> None:
    shown = excerpt(BODY, "/messages/0/name")

    assert shown[0] == "/messages/0:"
    assert [line for line in shown if line.startswith(">")] == ["> {"]


def test_of_the_whole_body_there_is_no_piece() -> None:
    assert excerpt(BODY, "") == ()
    assert excerpt(BODY, "/nowhere") == excerpt(BODY, "/nowhere")


def test_lines_far_from_the_place_are_counted() -> None:
    shown = excerpt({"list": {f"key-{number}": "x" * 40 for number in range(30)}}, "/list/key-20")

    assert [line for line in shown if line.startswith("> ")] == ['>   "key-20": "' + "x" * 40 + '",']
    assert shown[1] == "  (17 lines above)"
    assert shown[-1] == "  (6 lines below)"


def test_long_texts_lose_their_middle() -> None:
    (line,) = (each for each in excerpt({"a": {"text": "b" * 500}}, "/a/text") if each.startswith(">"))

    assert "...340 more..." in line


def test_the_innermost_value_around_a_place_is_marked_where_the_place_has_no_line() -> None:
    shown = json_lines({"a": {"b": {"c": 1}}}, 80)

    assert shown[marked_line(shown, "/a/b/c")].pointer == ""
