from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cassettes.cassette_files import dumps, loads, read
from harness.model.errors import CassetteError, CassetteMissing
from tests.cassettes.samples import cassette
from tests.traffic import ROOT, needs_traffic, recorded

OURS = dumps(cassette("Paris?", "Tokyo?"), "weather.yaml").decode()


def foreign(request: dict[str, Any] | None = None, response: dict[str, Any] | None = None) -> bytes:
    entry = {
        "request": {"method": "POST", "uri": "https://api.example/v1", "headers": {}, "body": ""} | (request or {}),
        "response": {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": ""}}
        | (response or {}),
    }
    return yaml.safe_dump({"version": 1, "interactions": [entry]}).encode()


def body_of(data: bytes) -> bytes:
    response = loads(data, "x.yaml").interactions[0].response
    assert response is not None
    return response.body


@needs_traffic
def test_real_traffic_is_read_as_another_reader_reads_it() -> None:
    theirs = recorded("openai-chat", "gemini-generateContent", "anthropic-messages")
    assert len(theirs) > 100
    for each in theirs:
        interaction = read(ROOT / each.path).interactions[each.index]
        assert (interaction.request, interaction.response) == (each.request, each.response), each.path


def test_vcrpys_json_form_is_read() -> None:
    document = yaml.safe_load(foreign({"body": '{"n": 1}'}))
    assert loads(json.dumps(document).encode(), "x.json").interactions[0].request.body == b'{"n": 1}'


@pytest.mark.parametrize(
    ("stored", "headers"),
    [
        ({"body": {"string": b"\xffplain"}}, {}),
        ({"body": {"base64_string": base64.b64encode(b"\xffplain").decode()}}, {}),
        ({"body": {"encoding": "base64", "string": base64.encodebytes(b"\xffplain").decode()}}, {}),
        ({"body": {"string": gzip.compress(b"\xffplain")}}, {"Content-Encoding": ["gzip"]}),
        ({"body": {"string": zlib.compress(b"\xffplain")}}, {"content-encoding": "deflate"}),
        ({"body": {"string": zlib.compress(b"\xffplain", wbits=-15)}}, {"content-encoding": "deflate"}),
        ({"body": {"string": b"\xffplain"}}, {"content-encoding": ["gzip"]}),
    ],
)
def test_bodies_come_out_decoded(stored: dict[str, Any], headers: dict[str, Any]) -> None:
    data = foreign(response={**stored, "headers": headers})
    assert body_of(data) == b"\xffplain"
    response = loads(data, "x.yaml").interactions[0].response
    assert response is not None
    assert "content-encoding" not in response.headers


def test_a_parsed_body_is_put_back_into_json() -> None:
    data = yaml.safe_load(foreign())
    del data["interactions"][0]["response"]["body"]
    data["interactions"][0]["response"]["parsed_body"] = {"n": 1.5, "t": "18 °C", "none": None}
    assert json.loads(body_of(yaml.safe_dump(data).encode())) == {"n": 1.5, "t": "18 °C", "none": None}


def test_a_cassette_from_before_bodies_were_indented_is_read() -> None:
    recorded = cassette("Paris?", "Tokyo?")
    document = yaml.safe_load(OURS)
    document["metadata"]["format"] = "harness 1"
    for stored, each in zip(document["interactions"], recorded.interactions, strict=True):
        stored["request"]["body"] = each.request.body.decode()
        del stored["spelling"]
    assert loads(yaml.safe_dump(document).encode(), "x.yaml") == recorded


def test_early_httpx_recordings_are_read() -> None:
    data = yaml.safe_load(foreign())
    data["interactions"][0]["response"] = {"status_code": 429, "headers": {"A": "1"}, "content": "slow down"}
    response = loads(yaml.safe_dump(data).encode(), "x.yaml").interactions[0].response
    assert response is not None
    assert (response.status, response.headers, response.body) == (429, {"a": "1"}, b"slow down")


def test_header_values_may_be_lists_and_numbers_and_repeat() -> None:
    data = foreign({"headers": {"A": ["x", "y"], "a": "z", "Retry-After": 5}})
    assert loads(data, "x.yaml").interactions[0].request.headers == {"a": "x, y, z", "retry-after": "5"}


def test_an_interaction_may_lack_its_response() -> None:
    data = yaml.safe_load(foreign())
    del data["interactions"][0]["response"]
    assert loads(yaml.safe_dump(data).encode(), "x.yaml").interactions[0].response is None


def test_a_date_stays_text() -> None:
    text = (
        "version: 1\ninteractions:\n- request: {method: GET, uri: u, headers: {date: 2026-01-02}, body: 2026-01-02}\n"
    )
    request = loads(text.encode(), "x.yaml").interactions[0].request
    assert (request.headers["date"], request.body) == ("2026-01-02", b"2026-01-02")


REFUSED = {
    "nothing in it": (b"\n", "x.yaml: the file is empty: whatever wrote it was cut short. {restore}"),
    "not text": (b"version: \xff", "x.yaml (byte 9): not UTF-8 text. {restore}"),
    "not a cassette": (
        b"a: 1",
        "x.yaml: not a cassette: vcrpy's format has `version` and `interactions` at its top.",
    ),
    "another version": (
        b"version: 2\ninteractions: []",
        "x.yaml: `version` is 2, not 1: another format, or a truncated file. {restore}",
    ),
    "cut before the version": (
        b"interactions: []\nversi:",
        "x.yaml: `version` is missing: another format, or a truncated file. {restore}",
    ),
    "cut YAML": (
        b'version: 1\ninteractions:\n- request: {method: "PO',
        (
            "x.yaml (line 3, column 24): not complete YAML: found unexpected end of stream. "
            "The file was cut or edited. {restore}"
        ),
    ),
    "cut JSON": (
        b'{"version": 1,\n "interactions": [',
        "x.yaml (line 2, column 19): not complete JSON: Expecting value. The file was cut or edited. {restore}",
    ),
    "alias bomb": (
        b"a: &a [x]\nb: [*a, *a]",
        (
            "x.yaml (line 2, column 5): YAML aliases are not read: they can unfold without bound. "
            "Write the value out in full."
        ),
    ),
    "deep nesting": (
        b"[" * 900,
        "x.yaml (line 1, column 101): nested more than 100 levels deep, as no cassette is. {restore}",
    ),
    "an object": (
        b"version: !!python/object/apply:os.system [true]",
        (
            "x.yaml (line 1, column 10): the YAML tag 'tag:yaml.org,2002:python/object/apply:os.system' is not read: "
            "it can build objects. Only text and !!binary may be tagged."
        ),
    ),
    "no list": (
        b"version: 1\ninteractions: 3",
        "x.yaml (interactions): `interactions` is a number and not a list. {restore}",
    ),
    "no request": (
        b"version: 1\ninteractions: [{}]",
        "x.yaml (interaction 0): no request in it. The file was cut or edited. {restore}",
    ),
    "no method": (
        b"version: 1\ninteractions: [{request: {uri: u}}]",
        "x.yaml (interaction 0, request.method): nothing where text belongs. {restore}",
    ),
    "no status": (
        b"version: 1\ninteractions: [{request: {method: GET, uri: u}, response: {status: fine}}]",
        "x.yaml (interaction 0, response): the status is 'fine' and no HTTP status. {restore}",
    ),
    "damaged gzip": (
        (
            b"version: 1\ninteractions: [{request: {method: GET, uri: u, headers: {content-encoding: gzip}, "
            b"body: !!binary H4sIAAAA}}]"
        ),
        "x.yaml (interaction 0, request.body): the compressed body is cut short. {restore}",
    ),
    "unknown encoding": (
        (
            b"version: 1\ninteractions: [{request: {method: GET, uri: u, headers: {content-encoding: compress}, "
            b"body: !!binary /w==}}]"
        ),
        "x.yaml (interaction 0, request.body): the content encoding 'compress' cannot be undone here. {restore}",
    ),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_cassette_is_refused_with_file_place_and_way_out(data: bytes, message: str) -> None:
    with pytest.raises(CassetteError) as refusal:
        loads(data, "x.yaml")
    assert str(refusal.value) == message.format(restore="Restore the file from version control or record it again.")


def test_unbounded_nesting_is_reported_by_every_parser() -> None:
    """libyaml does itself since 0.2.6, at the place where it stops."""
    with pytest.raises(CassetteError, match=r"column 10?01\): nested more than 100 levels deep, as no cassette is"):
        loads(b"[" * 30_000, "x.yaml")


EDITS = {
    "a response": (
        ("re: Tokyo?", "re: Kyoto?"),
        "x.yaml (metadata.checksum): the content does not match its checksum: the file was cut or edited.",
    ),
    "the origin": (
        ("origin: reference", "origin: provider"),
        "x.yaml (metadata.checksum): the content does not match its checksum: the file was cut or edited.",
    ),
    "the note": (
        ("not from a provider", "and from a provider"),
        "x.yaml (metadata.checksum): the content does not match its checksum: the file was cut or edited.",
    ),
    "a key": (
        ("  scenario: weather\n", ""),
        "x.yaml (metadata.scenario): Field required. The file was edited.",
    ),
    "the format": (
        ("format: harness 2", "format: harness 3"),
        "x.yaml (metadata.format): written in the format 'harness 3'; this version reads 'harness 1' and 'harness 2'.",
    ),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
def test_an_edit_by_hand_is_noticed(edit: tuple[str, str], message: str) -> None:
    assert edit[0] in OURS
    with pytest.raises(CassetteError) as refusal:
        loads(OURS.replace(*edit).encode(), "x.yaml")
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("spelling", "place", "reason"),
    [
        ("compact", "", "text and not a mapping."),
        (
            {"request": "wide"},
            ".request",
            "a spelling is one of compact, compact-ascii, spaced, spaced-ascii, indented.",
        ),
        (
            {"request": ["compact"]},
            ".request",
            "a spelling is one of compact, compact-ascii, spaced, spaced-ascii, indented.",
        ),
        ({"response": "spaced"}, ".response", "this is not the JSON that its spelling says it is."),
        ({"answer": "spaced"}, "", "no body is called 'answer'."),
    ],
)
def test_a_spelling_that_there_cannot_be_is_refused(spelling: Any, place: str, reason: str) -> None:
    document = yaml.safe_load(foreign({"body": "{}"}, {"body": {"string": "[" * 100_000}}))
    document["interactions"][0]["spelling"] = spelling
    with pytest.raises(CassetteError) as refusal:
        loads(yaml.safe_dump(document).encode(), "x.yaml")
    assert str(refusal.value).startswith(f"x.yaml (interaction 0.spelling{place}): {reason} ")


def test_no_cut_of_a_cassette_is_read_as_whole() -> None:
    whole = loads(OURS.encode(), "x.yaml")
    for end in range(len(OURS.encode()) - 1):  # the last byte is a line end
        try:
            cut = loads(OURS.encode()[:end], "x.yaml")
        except CassetteError:
            continue
        assert cut == whole or cut.metadata is None, f"cut at byte {end}"


def test_a_cut_between_interactions_says_how_many_are_missing() -> None:
    cut = OURS[: OURS.rindex("- request:")]
    with pytest.raises(
        CassetteError, match=r"\(metadata.interactions\): 1 of 2 interactions are there: the file was cut"
    ):
        loads(cut.encode(), "x.yaml")


def test_a_missing_file_is_missing_and_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CassetteMissing):
        read(tmp_path / "none.yaml")
    with pytest.raises(CassetteError, match="cannot be opened"):
        read(tmp_path)


def test_a_huge_file_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cassettes.cassette_text.MAX_BYTES", 10)
    with pytest.raises(CassetteError, match=r"x\.yaml: 11 bytes are more than the 10"):
        loads(b"version: 1\n", "x.yaml")


def test_a_compression_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cassettes.content_encoding.MAX_BYTES", 1000)
    data = foreign({"headers": {"content-encoding": "gzip"}, "body": gzip.compress(b"0" * 100_000)})
    with pytest.raises(CassetteError, match="unpacks to more than 1000 bytes"):
        loads(data, "x.yaml")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)


def only_a_cassette_or_a_cassette_error(data: bytes) -> None:
    try:
        read_back = loads(data, "x.yaml")
    except CassetteError as error:
        message = str(error)
    else:
        message = "x.yaml" if isinstance(read_back.interactions, tuple) else ""
    assert message.startswith("x.yaml")


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_cassette_with_one_value_replaced(data: st.DataObject) -> None:
    document = yaml.safe_load(OURS) if data.draw(st.booleans()) else yaml.safe_load(foreign())
    node: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(JSON_VALUES)
    only_a_cassette_or_a_cassette_error(yaml.dump(document, Dumper=yaml.SafeDumper).encode("utf-8", "ignore"))


@given(position=st.integers(0, len(OURS.encode()) - 1), byte=st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_cassette_with_one_byte_replaced(position: int, byte: int) -> None:
    data = bytearray(OURS.encode())
    data[position] = byte
    only_a_cassette_or_a_cassette_error(bytes(data))


@given(st.text(alphabet="[]{}:,-?!&*|>'\"%@`# \n\t0x_b1eE+.=<~yn", max_size=60))
@settings(max_examples=300, deadline=None)
def test_scraps_of_yaml(text: str) -> None:
    only_a_cassette_or_a_cassette_error(text.encode())
    only_a_cassette_or_a_cassette_error(
        b"version: 1\ninteractions:\n- request: {method: GET, uri: u}\n  x: " + text.encode()
    )
