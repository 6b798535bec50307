"""A cassette of ours is read by its layout, or as YAML: nobody can tell by what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contract.errors import CassetteError
from harness.contract.http import Delivery, HttpRequest, HttpResponse
from harness.scenarios.suite import shipped
from harness.tape import layout
from harness.tape.cassette import Cassette, Interaction
from harness.tape.document import parse
from harness.tape.read import as_yaml, by_layout, loads
from harness.tape.write import dumps
from tests.tape.samples import METADATA, STREAM, cassette, request

HTML = b"<html>\n  <p>18 \xc2\xb0C\n\n</html>\n"


def answered(body: bytes, delivery: Delivery | None = None) -> Interaction:
    return Interaction(request("Paris?"), HttpResponse(200, {}, body, *[delivery] if delivery else []))


SAMPLES = {
    "json": dumps(cassette("Paris?", "Tokyo?"), "x"),
    "events": dumps(
        Cassette((answered(STREAM.replace(b"\xe2\x80\xa8", b"")), answered(b"data: 1\n\n")), METADATA), "x"
    ),
    "quoted": dumps(Cassette((answered(b'data: {"a": "\\u00b0 \xf0\x9f\x98\x80"}\r\n\r\n'),), METADATA), "x"),
    "html, in pieces": dumps(Cassette((answered(HTML, Delivery((3, 17, 30), 0.002, "cut")),), METADATA), "x"),
    "on a line": dumps(
        Cassette((answered(b"slow down"), answered(b"- 'slow'"), answered(b"1:30"), answered(b"")), METADATA), "x"
    ),
    "of a provider": dumps(
        replace(cassette("Paris?"), metadata=replace(METADATA, origin="provider", recorded_at="2026-10-21T10:00:00Z")),
        "x",
    ),
}


def told(read: Callable[[bytes, str], Cassette], data: bytes) -> Cassette | str:
    try:
        return read(data, "x.yaml")
    except CassetteError as error:
        return str(error)


def check_alike(data: bytes) -> None:
    """Whether both ways agree, even in what the checksum does not look at: as if it were right, whatever was read."""
    assert told(loads, data) == told(as_yaml, data)
    found = layout.parse([data])
    if found is not None:
        assert parse(data, "x.yaml")["metadata"] == found[0]
        unchecked = data.replace(b"\n  format: harness 2\n", b"\n  format: nobody's\n")
        assert as_yaml(unchecked, "x.yaml").interactions == found[1]


def test_every_shipped_cassette_has_the_same_value_and_nearly_all_are_read_by_their_layout() -> None:
    paths = sorted(shipped("cassettes").glob("*/*.yaml"))
    slow: list[Path] = []
    for path in paths:
        data = path.read_bytes()
        found = by_layout([data])
        if found is None:
            slow.append(path)
        else:
            assert found == as_yaml(data, path.name), path
    assert len(slow) < len(paths) / 100, slow


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_sample_is_read_by_its_layout(sample: str) -> None:
    assert by_layout([SAMPLES[sample]]) == as_yaml(SAMPLES[sample], "x")


TEXTS = st.text(max_size=40) | st.text(alphabet="ab:#-'\"\\ \n\t%~01\u00b0\u2028\U0001f600", max_size=40)
BODIES = TEXTS.map(str.encode) | st.binary(max_size=20)
VALUES = st.text(alphabet="ab:#-'\"\\ ,;=/*01~", max_size=12) | st.sampled_from(
    ["yes", "012", "1:30", "null", "~", "1.5"]
)
HEADERS = st.dictionaries(st.sampled_from(["accept", "x-a", "content-type", "on", "null", "x_b"]), VALUES, max_size=3)
DELIVERIES = st.builds(
    Delivery,
    st.lists(st.integers(0, 50), max_size=3).map(lambda cuts: tuple(sorted(cuts))),
    st.floats(0, 10),
    st.sampled_from(["complete", "cut", "reset"]),
)
EXCHANGES = st.builds(
    Interaction,
    st.builds(HttpRequest, st.sampled_from(["POST", "GET", "NO"]), VALUES, HEADERS, BODIES),
    st.builds(HttpResponse, st.sampled_from([200, 418, 529]), HEADERS, BODIES, DELIVERIES),
)


@given(st.lists(EXCHANGES, max_size=3))
@settings(deadline=None)
def test_whatever_is_written_is_read_alike(exchanges: list[Interaction]) -> None:
    try:
        data = dumps(Cassette(tuple(exchanges), METADATA), "x.yaml")
    except CassetteError:  # it does not survive YAML
        return
    check_alike(data)


ODD = [
    *(
        "012",
        "1:30",
        "yes",
        "No",
        "~",
        "null",
        "",
        "0x1f",
        "1e3",
        ".5",
        "1.5",
        "+1",
        "1_0",
        "2026-01-02",
        "<<",
        "=",
        "-",
    ),
    *(
        "'a'",
        "'a''b'",
        "'",
        '"a"',
        '"\\x41"',
        '"\\uD83D\\uDE00"',
        '"\\U0001F600"',
        '"a\\\n        b"',
        '"',
        "a b ",
        "a: b",
        "a #b",
    ),
    *(
        "a:",
        "#a",
        "a#b",
        "&a b",
        "*a",
        "!!str 1",
        "!!binary YQ==",
        "!a b",
        "|-",
        "|",
        "|2-",
        ">-",
        "[a]",
        "{}",
        "@a",
        "`a",
    ),
    *(
        "%a",
        "- a",
        "? a",
        "a\tb",
        "\ta",
        "a\t",
        "\u00e9",
        "a\u2028b",
        "a\x85b",
        "a\x7fb",
        "\ufeffa",
        "\U0001f600",
        "a\n        b",
    ),
    *("post", "a\rb", "a\r", "...", "---", "''", "\x00"),
]
SCRAPS = [
    each.encode() for each in (*ODD, "\n", "\r\n", "\n\n", "  ", " ", "\t", ":", "- ", "\n---\n", "\n...\n", "\n# a\n")
]


@st.composite
def edits(draw: st.DrawFn) -> bytes:
    """A sample with a few changes that somebody, or some tool, may make."""
    data = SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))]
    for _ in range(draw(st.integers(1, 2))):
        data = draw(st.sampled_from(CHANGES))(draw, data)
    return data


def _byte(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    return data[:at] + draw(st.binary(min_size=1, max_size=1) | st.sampled_from(SCRAPS)) + data[at + 1 :]


def _scrap(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    return data[:at] + draw(st.sampled_from(SCRAPS)) + data[at:]


def _cut(draw: st.DrawFn, data: bytes) -> bytes:
    begin = draw(st.integers(0, len(data)))
    return data[:begin] + data[begin + draw(st.integers(1, 8) | st.just(len(data))) :]


def _value(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = draw(st.sampled_from([at for at, line in enumerate(lines) if b": " in line or b"- " in line] or [0]))
    key, mark, _ = lines[at].partition(b": ") if b": " in lines[at] else lines[at].partition(b"- ")
    lines[at] = key + mark + draw(st.sampled_from(ODD)).encode()
    return b"\n".join(lines)


def _line(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    one, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    lines[one:one] = draw(st.sampled_from([[lines[one]], [lines[other]], [b""], [b" " * 6], [b" " * 9], [b"# a"]]))
    return b"\n".join(lines)


def _all(draw: st.DrawFn, data: bytes) -> bytes:
    return draw(
        st.sampled_from(
            [
                data.replace(b"\n", b"\r\n"),
                b"\xef\xbb\xbf" + data,
                data + data,
                data + b"---\n" + data,
                data + b"...\n",
                data + b"\n",
                data.removesuffix(b"\n"),
                data.replace(b"  ", b"\t"),
                data.replace(b"    request: spaced\n", b""),
                b"---\n" + data,
            ]
        )
    )


CHANGES = [_byte, _scrap, _cut, _value, _line, _all]


@given(edits())
@settings(max_examples=500, deadline=None)
def test_whatever_is_edited_is_read_or_refused_alike(data: bytes) -> None:
    check_alike(data)


@pytest.mark.parametrize(("bound", "fits"), [("MAX_VALUES", 60), ("MAX_BYTES", len(SAMPLES["of a provider"]))])
def test_a_cassette_beyond_the_bounds_is_refused_by_its_layout_too(
    bound: str, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"harness.tape.layout.{bound}", fits)
    assert layout.parse([SAMPLES["of a provider"]]) is not None
    assert layout.parse([SAMPLES["json"]]) is None


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_file_is_read_alike_in_whatever_pieces_it_comes(sample: str) -> None:
    data = SAMPLES[sample]
    whole = layout.parse([data])
    for size in (1, 7, 100):
        assert layout.parse(data[at : at + size] for at in range(0, len(data), size)) == whole
