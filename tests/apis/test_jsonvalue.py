"""JSON values: strict reading, equality, canonical text, pointers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.apis.jsonvalue import MAX_DEPTH, canonical, equal, join, loads, resolve
from harness.apis.view import WireError
from harness.model.messages import JSON

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CLOSE = st.sampled_from(
    [0, 0.0, -0.0, False, None, "", "0", [], {}, 1, 1.0, True, 2**53, 2.0**53, 2**53 + 1, [1], [1.0]]
)


def nested(levels: int, inner: JSON = 0) -> JSON:
    for level in range(levels):
        inner = [inner] if level % 2 else {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, True, False),
        (0, False, False),
        (0.0, False, False),
        (True, True, True),
        (None, False, False),
        (None, None, True),
        (2**53 + 1, 2**53 + 1, True),
        (2**53 + 1, float(2**53 + 1), False),  # the double has lost the last digit
        (2**53, float(2**53), True),
        (10**400, 10**400, True),
        (10**400, 1e308, False),
        (0.1 + 0.2, 0.3, False),
        (1e2, 100, True),
        ("1", 1, False),
        ("é", "e\u0301", False),  # equal to the code point, not to the eye
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
        ([1, 2], [1], False),
        ([], {}, False),
        ([], None, False),
        ([{"a": [1]}], [{"a": [1.0]}], True),
    ],
)
def test_equality(one: JSON, other: JSON, same: bool) -> None:
    assert equal(one, other) is same
    assert equal(other, one) is same
    assert (canonical(one) == canonical(other)) is same


@given(VALUES | CLOSE, VALUES | CLOSE)
def test_the_canonical_text_is_the_same_for_equal_values_only(one: JSON, other: JSON) -> None:
    assert (canonical(one) == canonical(other)) is equal(one, other)


@given(VALUES)
def test_a_value_is_equal_to_itself_through_its_texts(value: JSON) -> None:
    assert equal(value, loads(json.dumps(value)))
    assert equal(value, loads(canonical(value)))
    assert canonical(loads(canonical(value))) == canonical(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("1e400", "the number 1e400 is beyond the doubles"),
        ("[-1.5E+999]", "the number -1.5E+999 is beyond the doubles"),
        ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("{'a': 1}", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[1,]", "not JSON: Expecting value: line 1 column 4 (char 3)"),
        ("1 2", "not JSON: Extra data: line 1 column 3 (char 2)"),
        ('"\t"', "not JSON: Invalid control character at: line 1 column 2 (char 1)"),
    ],
)
def test_invalid_json_is_refused(text: str, reason: str) -> None:
    for data in (text, text.encode()):
        with pytest.raises(WireError) as raised:
            loads(data)
        assert raised.value.reason == reason


@pytest.mark.parametrize("data", [b'"\xff"', b'"\xed\xa0\x80"', '{"a": 1}'.encode("utf-16"), b"\x80"])
def test_only_utf_8_is_read(data: bytes) -> None:
    with pytest.raises(WireError, match=r"^/: not JSON: "):
        loads(data)


def test_integers_are_exact_and_beyond_what_python_reads_an_error() -> None:
    assert loads("12345678901234567890123") == 12345678901234567890123
    with pytest.raises(WireError, match="not JSON: Exceeds the limit"):
        loads("1" * 5000)


def test_the_last_of_two_equal_keys_counts() -> None:
    assert loads('{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert loads(b"\xef\xbb\xbf[1]") == [1]


def test_half_of_a_surrogate_pair_is_kept_and_can_be_compared() -> None:
    half = loads(r'{"\ud83d": "\udc00"}')
    assert half == {"\ud83d": "\udc00"}
    assert equal(half, loads(r'{"\uD83D": "\uDC00"}'))
    assert loads(r'"\ud83d\ude00"') == "😀"
    assert loads(json.dumps(half)) == half


@pytest.mark.parametrize("inner", [0, "x", [], {}])
def test_depth_is_bounded(inner: JSON) -> None:
    levels = MAX_DEPTH - isinstance(inner, list | dict)
    assert loads(json.dumps(nested(levels, inner))) == nested(levels, inner)
    with pytest.raises(WireError, match="nested too deeply: more than 500 levels"):
        loads(json.dumps(nested(levels + 1, inner)))
    with pytest.raises(WireError, match="nested too deeply: more than 500 levels"):
        loads("[" * 100_000 + "]" * 100_000)


def places(value: Any, pointer: str = "") -> list[tuple[str, JSON]]:
    found = [(pointer, value)]
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        found += places(item, join(pointer, key))
    return found


@given(VALUES)
def test_a_pointer_leads_where_it_was_joined_from(value: JSON) -> None:
    for pointer, item in places(value):
        assert resolve(value, pointer) is item


def test_pointers_escape_what_they_have_to() -> None:
    assert join("", "a/b", "m~n", 0, "") == "/a~1b/m~0n/0/"
    assert resolve({"a/b": {"m~n": [{"": 7}]}}, "/a~1b/m~0n/0/") == 7
    assert resolve({"~1": 1, "/": 2}, "/~01") == 1


@pytest.mark.parametrize("pointer", ["/b", "/a/3", "/a/-1", "/a/-", "/a/00", "/a/²", "/a/1/x", "/c/x"])
def test_a_pointer_that_leads_nowhere_gives_none(pointer: str) -> None:
    assert resolve({"a": [1, 2, 3], "c": "text"}, pointer) is None
