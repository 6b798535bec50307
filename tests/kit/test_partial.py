from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kit.streamed import PartialArguments

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read(text: str) -> dict[str, Any]:
    partial = PartialArguments()
    partial.add(text)
    return partial.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("{", {}),
        ('{"path', {}),
        ('{"path": ', {}),
        ('{"path": "src/a', {"path": "src/a"}),
        ('{"path": "file12', {"path": "file12"}),
        ('{"path": "1e5', {"path": "1e5"}),
        ('{"path": "a\\', {"path": "a"}),
        ('{"path": "a\\"b', {"path": 'a"b'}),
        ('{"n": 12', {}),
        ('{"n": 1234, "m": -', {"n": 1234}),
        ('{"n": 12}', {"n": 12}),
        ('{"l": [1, 2', {"l": [1]}),
        ('{"a": {"b": "c", "d": [', {"a": {"b": "c", "d": []}}),
        ('{"ok": tru', {}),
        ("[1, 2]", {}),
        ("nonsense", {}),
    ],
)
def test_what_has_come_is_read_and_nothing_that_may_change(text: str, value: dict[str, Any]) -> None:
    assert read(text) == value


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4), st.booleans())
def test_a_whole_text_reads_as_it_is(value: dict[str, Any], ascii_only: bool) -> None:
    assert read(json.dumps(value, ensure_ascii=ascii_only)) == value


def _grows(before: Any, after: Any) -> bool:
    """What was read before is still there: strings go on, lists and objects get longer, the rest stays."""
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and _grows(each, after[key]) for key, each in before.items()
        )
    if isinstance(before, list):
        return isinstance(after, list) and len(after) >= len(before) and all(map(_grows, before, after))
    return type(before) is type(after) and before == after


@given(st.dictionaries(st.text(alphabet='abc\\"é12{}', max_size=4), VALUES, max_size=3))
def test_what_is_shown_is_never_taken_back(value: dict[str, Any]) -> None:
    partial, shown = PartialArguments(), {}
    for character in json.dumps(value, ensure_ascii=False):
        partial.add(character)
        assert _grows(shown, partial.value), (shown, partial.value)
        shown = partial.value
    assert shown == value


@given(st.lists(st.text()))
def test_no_text_breaks_it(pieces: list[str]) -> None:
    partial = PartialArguments()
    for piece in pieces:
        partial.add(piece)
        assert isinstance(partial.value, dict)
