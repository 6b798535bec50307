"""Bodies: read as any JSON is, and what is repeated of one before is the same object."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from harness.apis.bodies import Bodies
from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.contract.model import JSON

TOOLS: list[JSON] = [{"name": "f", "schema": {"type": "object"}}]
ENTRIES: list[JSON] = [{"role": "user", "n": [1, {}]}, {"role": "assistant", "é\\": "]}"}, {"role": "user", "n": 1}]


def body(*entries: JSON, **more: JSON) -> bytes:
    return json.dumps({"model": "m", "messages": [*entries], "tools": TOOLS, **more}).encode()


def listed(read: JSON, key: str = "messages") -> list[JSON]:
    assert isinstance(read, dict)
    found = read[key]
    assert isinstance(found, list)
    return found


def test_the_head_of_a_list_that_comes_again_is_the_same_objects() -> None:
    bodies = Bodies()
    one = bodies.read(body(*ENTRIES[:2]))
    other = bodies.read(body(*ENTRIES, stream=True))
    assert [entry is same for entry, same in zip(listed(other), listed(one), strict=False)] == [True, True]
    assert listed(other, "tools")[0] is listed(one, "tools")[0]
    assert other == loads(body(*ENTRIES, stream=True))


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_from_where_it_differs_all_is_read_anew(changed: int) -> None:
    bodies = Bodies()
    one = bodies.read(body(*ENTRIES))
    entries = [*ENTRIES[:changed], {"role": "user", "n": 12}, *ENTRIES[changed + 1 :]]
    other = listed(bodies.read(body(*entries)))
    assert other == entries
    assert [entry is same for entry, same in zip(other, listed(one), strict=True)][:changed] == [True] * changed
    assert other[changed] is not listed(one)[changed]


def test_one_that_goes_on_where_the_other_ended_is_another() -> None:
    bodies = Bodies()
    listed(bodies.read(b'{"messages": [{"n": 1}, 1]}'))
    assert bodies.read(b'{"messages": [{"n": 1}, 12, {"n": 1}]}') == {"messages": [{"n": 1}, 12, {"n": 1}]}


def test_a_body_is_read_once() -> None:
    bodies = Bodies()
    assert bodies.read(body(*ENTRIES)) is bodies.read(body(*ENTRIES))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'\xef\xbb\xbf{"messages": [{"a": 1}]}',
        b' {"messages" : [{"a": 1} , {"a": [2]}\n] , "b":\t"c"} ',
        b'{"messages": [{"a": 1}], "messages": [{"a": 2}]}',
        b'{"a": "\\ud800"}',
        b'{"messages": [{"a": 1},]}',
        b'{"messages": [{"a": 1}',
        b'{"messages": [{"a": 1}]} {}',
        b'{"messages": [{"a": NaN}]}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"messages": [{"a": 1}] "b": 2}',
        b"{1: 2}",
        b'{"messages": [' + b'{"a":' * 499 + b"1" + b"}" * 499 + b"]}",
        b'{"messages": [' + b'{"a":' * 498 + b"1" + b"}" * 498 + b"]}",
        b'{"messages": [' + b'{"a":' * 9999 + b"1" + b"}" * 9999 + b"]}",
        b'{"a":' + b"[" * 499 + b"]" * 499 + b"}",
        b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_it_is_what_reading_it_by_itself_gives_or_says(data: bytes) -> None:
    bodies = Bodies()
    bodies.read(b'{"messages": [{"a": 1}]}')

    def told(read: Callable[[bytes], JSON]) -> str:
        try:
            return json.dumps(read(data))
        except WireError as error:
            return f"refused: {error}"

    assert told(bodies.read) == told(loads)


def test_what_is_kept_is_bounded() -> None:
    bodies = Bodies()
    for number in range(1000):
        bodies.read(body({"role": "user", "content": f"{number}" * 1000}))
    first = bodies.read(body({"role": "user", "content": "0" * 1000}))
    assert bodies.read(body({"role": "user", "content": "0" * 1000})) is first
    assert bodies.kept < 300
