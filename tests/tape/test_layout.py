from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.tape import layout
from harness.tape.document import _LOADER

RESOLVERS = _LOADER.yaml_implicit_resolvers

SHIPPED = sorted((Path(__file__).parent.parent.parent / "cassettes").glob("*/*.yaml"))


def by_libyaml(text: str) -> Any:
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader


def spelled(value: Any) -> str:
    """Tells 1 from True and from "1"."""
    return repr(value)


@pytest.mark.skipif(not SHIPPED, reason="no cassettes are shipped yet")
def test_shipped_cassettes_are_read_as_libyaml_reads_them_and_hardly_any_is_left_to_it() -> None:
    left = 0
    for path in SHIPPED:
        text = path.read_text()
        try:
            value = layout.read(text, RESOLVERS)
        except layout.Unknown:
            left += 1
        else:
            assert spelled(value) == spelled(by_libyaml(text)), path

    assert left < len(SHIPPED) / 10


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n",
        "a: '1'\nb: b\n",
        "a: 'it''s'\nb: ''\n",
        "a:\n- b\n- c\nd: e\n",
        "a:\n  - b\n  - 'c'\n",
        "- a: b\n  c: 3\n- a: d\n",
        "a: |-\n  one\n\n    two\n  three\nb: c\n",
        "a: |\n  one\nb:\n  c: http://x.invalid/v1?q=1\n",
        "a: |+\n  one\n\n  two\n\n\nb: c\n",
        "a: |+\n  one\n",
        "- a: |+\n    data: one\n\n    data: two\n\n  b:\n  - 3\n- c: |+\n    one\n\n...\n",
        "a: b\n...\n",
        'a: "b"\nc: ""\n',
        r'''a: "data: {\"b\": \"\\n\"}\r\n\r\n"''' + "\n",
        r'''a: "\0\a\b\t\n\v\f\r\e\ \"\/\\\N\_\L\P"''' + "\n",
        r'''a: "\x41\xE9\u00E9\u2028\uFEFF\U0001F600"''' + "\n",
        r'''a: "\x410\u00E9A\U0001F6000"''' + "\n",
        "a: 2026-11-21\n",
        "a: 2.11.0\n",
        "a: on the way\nb: note\n",
    ],
)
def test_what_is_read_is_what_libyaml_reads(text: str) -> None:
    try:
        value = layout.read(text, RESOLVERS)
    except layout.Unknown:
        pytest.fail("left to libyaml")

    assert spelled(value) == spelled(by_libyaml(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1",
        "a: b\n  c\n",
        "a: 'b\n  c'\n",
        "a: 'b' # c\n",
        "a: b # c\n",
        "# a\nb: c\n",
        "a: &b c\nd: *b\n",
        "a: *b\n",
        "a: !!binary eA==\n",
        'a: "b\n  c"\n',
        'a: "b\\\n  c"\n',
        'a: "b" # c\n',
        'a: "b" "c"\n',
        'a: "\\q"\n',
        'a: "\\x4"\n',
        'a: "\\uD83D"\n',
        'a: "\\U00110000"\n',
        'a: "\n',
        "a: {b: c}\n",
        "a: [b]\n",
        "a: >-\n  b\n",
        "a: |2-\n   b\n",
        "a: |-\n   b\n  c\n",
        "a: |-\n\n  b\n",
        "a: |-\nb: c\n",
        "a: yes\n",
        "on: a\n",
        "a: ~\n",
        "a: null\n",
        "a:\n",
        "a:\nb: c\n",
        "a: 1.5\n",
        "a: 012\n",
        "a: 1_000\n",
        "a: 1:30\n",
        "a: 99999999999999999999\n",
        "a: b: c\n",
        "a: b \n",
        "a:  b\n",
        "a: 'b' c'\n",
        "a: '\n",
        "a: b\na: c\n",
        "a: b\n c: d\n",
        "a:\n    b: c\n",
        "a:\n  b: c\n   d: e\n",
        "a:\n  b: c\n d: e\n",
        "- - a\n",
        "- a\n  b\n",
        "a: b\n- c\n",
        "---\na: b\n",
        "a: b\n...\nc: d\n",
        "...\n",
        "a: |+\n\n  b\n",
        "a: |+\n",
        "a: |+2\n   b\n",
        "a: b\x85c\n",
        "a: 'b\u2028c'\n",
        "a: b\tc\n",
        "a: b\r\n",
        "<<: a\n",
        "? a\n: b\n",
        "a" + ":\n".join(" " * (2 * depth) + "a" for depth in range(40)) + ": b\n",
    ],
)
def test_what_it_does_not_know_for_certain_is_left_to_libyaml(text: str) -> None:
    with pytest.raises(layout.Unknown):
        layout.read(text, RESOLVERS)


PIECES = st.sampled_from(
    [
        "a",
        "b:",
        "c: d",
        "- e",
        "- f: g",
        "|-",
        "|",
        "|+",
        "\n...",
        "'h'",
        "''",
        "'",
        '"h"',
        '"',
        '"\\n\\x41"',
        '"\\x410\\U0001F6000"',
        "\\",
        "1",
        "0",
        "no",
        "  ",
        " ",
        "\n",
        "\n",
        "\n  ",
        ":",
    ]
)


@given(st.lists(PIECES, max_size=14).map(lambda pieces: "".join([*pieces, "\n"])))
def test_nothing_is_read_otherwise_than_by_libyaml(text: str) -> None:
    try:
        value = layout.read(text, RESOLVERS)
    except layout.Unknown:
        return

    assert spelled(value) == spelled(by_libyaml(text))
