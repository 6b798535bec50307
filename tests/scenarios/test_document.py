from __future__ import annotations

import contextlib
import gc
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.documents.document import MAX_BYTES, key_of, read
from harness.model.errors import ScenarioError

CONSTANTS = {"null": None, "~": None, "": None, "true": True, "false": False}
NUMBERS = {
    "0": 0,
    "-7": -7,
    "9007199254740993": 9007199254740993,
    "1e3": 1000.0,
    "1.5": 1.5,
    "-2.5E-3": -0.0025,
    "1E+2": 100.0,
}
TEXTS = [
    *("no", "on", "Yes", "y", "off"),
    *("012", "0o17", "0x1F", "1_000", "+1", ".5", "1.", "1:30", "0b1", "--1", "1e"),
    *("2026-11-21", "2026-11-21T10:00:00Z", "=", "<<", "nan", "inf", "Nul", "-"),
]


def value_of(scalar: str) -> object:
    value = read(f"[{{key: {scalar}\n}}]".encode(), "f.yaml").value
    assert isinstance(value, list)
    assert isinstance(value[0], dict)
    return value[0]["key"]


@pytest.mark.parametrize(("scalar", "expected"), [*CONSTANTS.items(), *NUMBERS.items()])
def test_what_json_knows_is_itself(scalar: str, expected: object) -> None:
    value = value_of(scalar)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("scalar", [text for text in TEXTS if text != "-"])
def test_everything_else_is_text(scalar: str) -> None:
    assert value_of(scalar) == scalar


def test_keys_are_texts() -> None:
    assert read(b"1: a\nno: b\nnull: c\n1e3: d\n", "f.yaml").value == {"1": "a", "no": "b", "null": "c", "1e3": "d"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f.yaml: empty. A scenario is one mapping with version, id, title, covers, turns."),
        (b"# nothing\n", "f.yaml: empty. A scenario is one mapping with version, id, title, covers, turns."),
        (b"a: \xff", "f.yaml:1:4: not UTF-8. Save the file as UTF-8."),
        ("a: ü\nb: ".encode() + b"\xfc", "f.yaml:2:4: not UTF-8. Save the file as UTF-8."),
        (
            b"\xef\xbb\xbfa: 1",
            "f.yaml:1:1: starts with a byte order mark. Save the file as UTF-8 without one.",
        ),
        (
            "a: x\r\nb: x\u2028y".encode(),
            'f.yaml:2:5: the character U+2028 must be escaped. Write "\\u2028" in double quotes.',
        ),
        (
            b"a: x\x07",
            'f.yaml:1:5: the character U+0007 must be escaped. Write "\\x07" in double quotes.',
        ),
        (b"a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document. A scenario is one file of one document."),
        (b"%YAML 1.2\n---\na: 1\n", "f.yaml:1:1: YAML directives are not allowed. Remove the line."),
        (b"a: &x 1", "f.yaml:1:4 at a: anchors are not allowed. Remove it and write repeated values out."),
        (b"a: [{b: *x}]", "f.yaml:1:9 at a[0].b: aliases are not allowed. Write the value out."),
        (b"a: !!str 1", "f.yaml:1:4 at a: tags are not allowed. Remove it; quotes make a text."),
        (b"a: !!python/object:os.system {}", "f.yaml:1:4 at a: tags are not allowed. Remove it; quotes make a text."),
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml:4:3 at b.c: duplicate key: line 3 has it already."),
        (b'1: a\n"1": b\n', "f.yaml:2:1 at 1: duplicate key: line 1 has it already."),
        (b"? [a]\n: b\n", "f.yaml:1:3: a key must be a plain or quoted text, without anchor, alias or tag."),
        (b"? \n: b\n", "f.yaml:1:2: a key is missing before the colon."),
        (b"a: True", "f.yaml:1:4 at a: write true, or quote it if the text 'True' is meant."),
        (b"a: NULL", "f.yaml:1:4 at a: write null, or quote it if the text 'NULL' is meant."),
        (b"a: .nan", "f.yaml:1:4 at a: .nan is not a JSON value. Quote it to make it a text."),
        (b"a: -.inf", "f.yaml:1:4 at a: -.inf is not a JSON value. Quote it to make it a text."),
        (b"a: NaN", "f.yaml:1:4 at a: NaN is not a JSON value. Quote it to make it a text."),
        (b"a: 1e400", "f.yaml:1:4 at a: 1e400 is too large for a double. Quote it to make it a text."),
        (b"a: " + b"9" * 5000, "f.yaml:1:4 at a: an integer with too many digits. Quote it to make it a text."),
        (b'a: "\\ud800"', "f.yaml:1:4 at a: a lone surrogate is not a character. Write both halves, or none."),
        (b'"\\udfff": 1', "f.yaml:1:1: a lone surrogate is not a character. Write both halves, or none."),
        (
            b"a: [1\n",
            (
                "f.yaml:2:1: not YAML: while parsing a flow sequence; expected ',' or ']', but got '<stream end>'. "
                "A text with punctuation may need quotes."
            ),
        ),
        (b"a: 'x", "f.yaml:1:6: not YAML: while scanning a quoted scalar; found unexpected end of stream."),
        (b"a:\n\tb: 1", "f.yaml:2:1: not YAML: a tab: YAML is indented with spaces. Replace it with spaces."),
        (b"[" * 50_000, "f.yaml:1:101: nested more than 100 levels deep."),
        (b"- " * 50_000, "f.yaml:1:201: nested more than 100 levels deep."),
        (b"{a: " * 50_000, "f.yaml:1:401: nested more than 100 levels deep."),
        (b"#" * (MAX_BYTES + 1), "f.yaml: larger than 256 KiB, the limit for a scenario."),
    ],
)
def test_what_is_not_strict_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        read(data, "f.yaml")
    assert str(error.value) == message


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    with pytest.raises(ScenarioError, match="anchors are not allowed"):
        read("\n".join(lines).encode(), "f.yaml")


def test_depth_up_to_the_bound_is_read() -> None:
    value = read(b"[" * 100 + b"]" * 100, "f.yaml").value
    assert json.dumps(value) == "[" * 100 + "]" * 100


def test_marks_lead_to_values_and_keys() -> None:
    document = read(b"turns:\n  - user: hello\n    model:\n      - {text: x}\n", "f.yaml")
    assert document.marks["turns", 0, "model", 0, "text"] == (4, 16)
    assert document.key_marks["turns", 0, "model", 0, "text"] == (4, 10)
    assert document.error(("turns", 0, "model", 7, "x"), "r").line == 4


def test_paths_are_written_as_people_write_them() -> None:
    assert key_of(("turns", 0, "model", 1, "calls")) == "turns[0].model[1].calls"
    assert key_of(("a b", "$ref", "x.y")) == "['a b'].$ref['x.y']"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_json_is_read_as_json_reads_it(value: object) -> None:
    text = json.dumps({"value": value})
    assert json.dumps(read(text.encode(), "f.yaml").value) == text


FRAGMENTS = [
    *("a", "b: ", "- ", "[", "]", "{", "}", ", ", ": ", "? ", "\n", "\n  ", "|\n", ">-\n", '"', "'", "\\u", "\\U0011"),
    *("&a ", "*a", "!!int ", "!<x> ", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "...\n", "# c\n", "<<: ", "~", "1e9", "\t"),
    *("\\x", "\\N", "@", "`", "%", "\ud7ff", "\ufeff", "😀"),
]


@given(
    st.binary(max_size=200) | st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(lambda all_: "".join(all_).encode())
)
def test_any_bytes_are_read_or_raise_a_scenario_error(data: bytes) -> None:
    with contextlib.suppress(ScenarioError):
        read(data, "f.yaml")


@pytest.mark.parametrize("text", ["a: [1, {b: c}]", "a: [1, &b c]"], ids=["read", "refused"])
def test_nothing_is_left_of_a_file_that_was_read(text: str) -> None:
    """Nor does it stay until the collector looks for cycles, which is seldom done: see `harness.cli.main`."""

    def read_all(times: int) -> int:
        for _ in range(times):
            with contextlib.suppress(ScenarioError):
                read(text.encode(), "f.yaml")
        return tracemalloc.get_traced_memory()[0]

    gc.disable()
    tracemalloc.start()
    try:
        assert read_all(100) > read_all(200) - 20_000  # each would leave some 5,000 bytes
    finally:
        tracemalloc.stop()
        gc.enable()
