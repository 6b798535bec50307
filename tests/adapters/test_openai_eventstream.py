from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters._openai.eventstream import events
from harness.contract import errors
from tests.adapters.streamed import cut

BYTES = st.lists(
    st.sampled_from(
        [
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"data",
            b"event",
            b":",
            b": ",
            b"x",
            "é😀\u2028\x85".encode(),
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=30,
).map(b"".join)


def parsed(*chunks: bytes) -> list[tuple[str | None, str]]:
    return [(event.name, event.data) for event in events(chunks)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_the_grammar_in_every_cut(end: bytes) -> None:
    lines = [
        "\ufeffdata: first",
        "",
        ": comment",
        "event: named",
        "data: one\u2028\u2029\x85\x0b\x0c",
        "data:two😀",
        "data",
        "data:  spaced",
        "",
        "event: without data",
        "",
        "data",
        "",
        "id: 1",
        "retry: 2",
        "data: last",
        "",
        "data: cut off",
    ]
    body = end.join(line.encode() for line in lines) + end
    wanted = [(None, "first"), ("named", "one\u2028\u2029\x85\x0b\x0c\ntwo😀\n\n spaced"), (None, "last")]
    assert parsed(body) == wanted
    for place in range(len(body) + 1):
        assert parsed(*cut(body, [place])) == wanted
        assert parsed(body[:place], b"", body[place:]) == wanted
    assert parsed(*cut(body, range(len(body)))) == wanted


def test_an_event_comes_with_its_last_byte() -> None:
    taken: list[int] = []

    def chunks() -> Any:
        for number, chunk in enumerate((b"data: a\n", b"\n", b"data: b\n\n")):
            taken.append(number)
            yield chunk

    assert next(events(chunks())).data == "a"
    assert taken == [0, 1]


@given(BYTES | st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_no_cut_changes_what_any_bytes_are(body: bytes, places: list[int]) -> None:
    chunks = cut(body, [min(place, len(body)) for place in places])
    assert _outcome(*chunks) == _outcome(body)


def _outcome(*chunks: bytes) -> Any:
    try:
        return parsed(*chunks)
    except errors.MalformedResponse as error:
        return error
