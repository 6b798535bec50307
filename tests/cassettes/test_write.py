from __future__ import annotations

import json
import stat
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import vcr
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import dumps, loads, write_file
from harness.model.errors import CassetteError
from harness.model.http import Delivery, HttpRequest, HttpResponse
from tests.cassettes.samples import METADATA, STREAM, cassette, request, response

GOLDEN = """\
version: 1
metadata:
  format: harness 2
  origin: reference
  note: Recorded from the reference server that comes with harness, not from a provider.
  scenario: weather
  target: openai-chat
  api: openai-chat
  adapter: openai-chat
  variant: whole
  model_requested: gpt-5.4
  scenario_digest: sha256:00
  model_served: gpt-5.4-2026-03-05
  versions:
    openai: 3.52.0
  interactions: 1
  checksum: sha256:4d219ce101e1011114f4090999adfab2a88e28d77e809590d08498a130ea910c
interactions:
- request:
    method: POST
    uri: http://reference-server.invalid/v1/chat/completions
    body: |-
      {
        "model": "gpt-5.4",
        "messages": [
          {
            "role": "user",
            "content": "Paris?"
          }
        ]
      }
    headers:
      content-type:
      - application/json
  response:
    status:
      code: 200
      message: OK
    headers:
      content-type:
      - application/json
    body:
      string: |-
        {
          "choices": [
            {
              "message": {
                "role": "assistant",
                "content": "re: Paris?"
              }
            }
          ]
        }
  spelling:
    request: spaced
"""


def test_a_cassette_is_laid_out_for_readers_with_its_origin_first() -> None:
    assert dumps(cassette("Paris?"), "x.yaml").decode() == GOLDEN


def test_a_stream_is_a_block_with_a_line_for_a_line() -> None:
    body = b'data: {"text": "18 \xc2\xb0C"}\n\ndata: [DONE]\n\n'
    streamed = Cassette((Interaction(request("Paris?"), HttpResponse(200, {}, body)),), METADATA)
    text = dumps(streamed, "x.yaml").decode()
    assert '      string: |+\n        data: {"text": "18 °C"}\n\n        data: [DONE]\n' in text


SPELLED = {
    "compact": '{"a":[1,2.5,-0.0,1e+22,true,null],"b":{"c":"18 °C\\n"},"":{}}',
    "spaced": '{"a": [1, 2.5, {}], "b": "18 °C", "c": "two: {[\\", \\\\"}',
    "compact-ascii": '{"a":"18 \\u00b0C","b":[[]]}',
    "spaced-ascii": '[{"a": "\\ud83d\\ude00 18 \\u00b0C"}, "\\ud800"]',
    "indented": '{\n  "a": "18 °C \U0001f600",\n  "b": [\n    {}\n  ]\n}',
}
"""JSON that YAML would write in one line, by its spelling."""


def written(request_body: str, response_body: str) -> tuple[Cassette, str]:
    sent = replace(request("x"), body=request_body.encode())
    answered = HttpResponse(200, {"content-type": "application/json"}, response_body.encode())
    recorded = Cassette((Interaction(sent, answered),), METADATA)
    return recorded, dumps(recorded, "x.yaml").decode()


@pytest.mark.parametrize("name", SPELLED)
def test_json_stands_in_lines_and_comes_back_to_the_byte(name: str) -> None:
    recorded, text = written(SPELLED[name], SPELLED[name])
    (entry,) = yaml.safe_load(text)["interactions"]
    assert entry["spelling"] == {"request": name, "response": name}
    assert "\\u00b0" not in text or name in {"spaced-ascii", "indented"}
    for body in (entry["request"]["body"], entry["response"]["body"]["string"]):
        assert len(body.splitlines()) > 5
        assert json.loads(body) == json.loads(SPELLED[name])
    assert loads(text.encode(), "x.yaml") == recorded


@pytest.mark.parametrize(
    "body",
    [
        '{"a":1.50}',
        '{"a": 1,"b":2}',
        '{"a":1,"a":2}',
        '{"a":"\\/"}',
        '{"a":"\\u00B0"}',
        '{"a":1e400}',
        "{}",
        '{\n "a": 1\n}',
        "[" * 2000,
        '"text"',
        '{"a": 1',
    ],
)
def test_what_no_spelling_gives_back_stands_as_it_was(body: str) -> None:
    recorded, text = written(body, body)
    (entry,) = yaml.safe_load(text)["interactions"]
    assert (entry["request"]["body"], entry["response"]["body"]["string"]) == (body, body)
    assert "spelling" not in entry
    assert loads(text.encode(), "x.yaml") == recorded


def test_a_request_that_vcrpy_does_not_match_as_json_stands_as_it_was() -> None:
    sent = HttpRequest("POST", "http://reference-server.invalid/", {"content-type": "text/plain"}, b'{"a":1}')
    text = dumps(Cassette((Interaction(sent, response("x")),), METADATA), "x.yaml").decode()
    assert """body: '{"a":1}'""" in text


headers = st.dictionaries(
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1).filter(lambda name: name != "content-encoding"),
    st.text(st.characters(codec="utf-8")),
    max_size=3,
) | st.just({"content-type": "application/json"})
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
json_bodies = st.builds(
    lambda value, blank, ascii_: json.dumps(value, separators=(f",{blank}", f":{blank}"), ensure_ascii=ascii_),
    json_values,
    st.sampled_from(["", " ", "  "]),
    st.booleans(),
).map(lambda text: text.encode(errors="replace"))
bodies = st.binary() | st.text(st.characters(codec="utf-8")).map(str.encode) | st.just(STREAM) | json_bodies
deliveries = st.builds(
    Delivery,
    st.lists(st.integers(0, 60)).map(lambda cuts: tuple(sorted(cuts))),
    st.floats(0, 3600),
    st.sampled_from(["complete", "cut", "reset"]),
)
interactions = st.builds(
    Interaction,
    st.builds(HttpRequest, st.sampled_from(["GET", "POST"]), st.text(st.characters(codec="utf-8")), headers, bodies),
    st.builds(HttpResponse, st.integers(100, 599), headers, bodies, deliveries),
)


@given(st.lists(interactions, max_size=3))
@settings(deadline=None)
def test_what_is_written_is_read_back(recorded: list[Interaction]) -> None:
    written = Cassette(tuple(recorded), METADATA)
    data = dumps(written, "x.yaml")
    assert loads(data, "x.yaml") == written
    assert dumps(written, "x.yaml") == data


def test_an_exchange_without_an_answer_and_a_cassette_without_an_origin_are_not_written() -> None:
    with pytest.raises(CassetteError, match=r"x\.yaml \(interaction 0\): no answer came"):
        dumps(Cassette((Interaction(request("Paris?"), None),), METADATA), "x.yaml")
    with pytest.raises(CassetteError, match="with its origin"):
        dumps(Cassette(()), "x.yaml")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    streamed = Interaction(request("Oslo?"), HttpResponse(200, {"content-type": "text/event-stream"}, STREAM))
    path = tmp_path / "cell.yaml"
    write_file(path, dumps(Cassette((*cassette("Paris?", "Tokyo?").interactions, streamed), METADATA), "cell.yaml"))
    return path


def _replay(path: Path) -> Any:
    match_on = ("method", "scheme", "host", "port", "path", "query", "body")
    return vcr.VCR(record_mode="none", match_on=match_on).use_cassette(str(path))


def test_plain_vcrpy_replays_it_for_httpx2(stored: Path) -> None:
    with _replay(stored) as replaying, httpx2.Client() as client:
        for question, body in (("Tokyo?", response("re: Tokyo?").body), ("Oslo?", STREAM)):
            sent = request(question)
            answer = client.request(sent.method, sent.url, headers=dict(sent.headers), content=sent.body)
            assert (answer.status_code, answer.content) == (200, body)
        assert replaying.play_count == 2


def test_plain_vcrpy_replays_it_for_urllib_with_any_spelling_of_the_json(stored: Path) -> None:
    sent = request("Paris?")
    spelled = json.dumps(json.loads(sent.body), indent=3, sort_keys=True).encode()
    call = urllib.request.Request(sent.url, spelled, dict(sent.headers), method="POST")  # noqa: S310 - played back
    with _replay(stored), urllib.request.urlopen(call) as answer:  # noqa: S310
        assert answer.read() == response("re: Paris?").body


def test_replacing_leaves_nothing_else_behind_and_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cell.yaml"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert [each.name for each in path.parent.iterdir()] == ["cell.yaml"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_full_disk_keeps_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cell.yaml"
    write_file(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CassetteError) as refusal:
        write_file(path, b"new")
    assert str(refusal.value) == f"{path}: cannot be written: No space left on device. What was there is unchanged."
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
