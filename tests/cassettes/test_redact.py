from __future__ import annotations

import base64
import gzip
import html
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from harness.cassettes.cell_recording import CellRecording
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.player import ExchangeLog
from harness.cassettes.redact import REQUEST_HEADERS, RESPONSE_HEADERS, Redactor, mask_headers
from harness.cassettes.transport import LoggingTransport
from harness.model.errors import CassetteError
from harness.model.http import Delivery, Ending, HttpRequest, HttpResponse
from tests.cassettes.samples import METADATA

KEY = "fk-live/9Qz+WmTz_0aXr7LpV-22"
TOKEN = "ya/Tok en=" + "4f7c" * 4
SECRETS = (KEY, TOKEN)


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04X}" for character in text)


SPELLINGS = {
    "plain": KEY,
    "another token": TOKEN,
    "escaped for JSON": escaped(KEY),
    "escaped twice": escaped(KEY).replace("\\", "\\\\\\\\"),
    "escaped in part": KEY.replace("-", "\\u002d").replace("/", "\\/"),
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded throughout": percent(KEY),
    "percent-encoded twice": quote(quote(KEY, safe=""), safe=""),
    "HTML entities": "".join(f"&#{ord(character)};" for character in KEY),
    "HTML hexadecimal entities": "".join(f"&#x{ord(character):x};" for character in KEY),
    "JavaScript": "".join(f"\\x{ord(character):02x}" for character in KEY),
    "hexadecimal": KEY.encode().hex(),
    "upper case": KEY.upper(),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_is_found_in_every_spelling(spelling: str) -> None:
    body = f'{{"text": "before {spelling} after"}}'.encode()
    redactor = Redactor(SECRETS)
    assert redactor.body(body) == b'{"text": "before REDACTED after"}'
    assert redactor.finds(body)
    assert not redactor.finds(redactor.body(body))


@pytest.mark.parametrize("around", ["", "u", "us", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_emptied_and_stays_decodable(around: str, encode: object) -> None:
    assert callable(encode)
    blob = encode(f"{around}{KEY}{around}".encode()).decode()
    body = Redactor(SECRETS).body(f'{{"data": "{blob}"}}'.encode())
    kept = base64.urlsafe_b64decode(json.loads(body)["data"].replace("+", "-").replace("/", "_"))
    assert len(kept) == len(around) * 2 + len(KEY)
    longest = max(range(len(KEY) + 1), key=lambda size: size if KEY.encode()[2 : 2 + size] in kept else 0)
    assert longest <= 1


def test_utf_16_is_found() -> None:
    assert KEY.encode("utf-16-le") not in Redactor(SECRETS).body(b"\xff\xfe" + KEY.encode("utf-16-le"))


def stream(pieces: list[str]) -> bytes:
    events = [
        f"event: content_block_delta\ndata: {json.dumps({'index': index % 2, 'delta': {'text': piece}})}\n\n"
        for piece in pieces
        for index in (0, 1)
    ]
    return "".join(events).encode()


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_a_secret_cut_over_the_deltas_of_a_stream_is_found(size: int) -> None:
    text = f"your key is {KEY}, is it not, and {KEY}"
    body = stream([text[at : at + size] for at in range(0, len(text), size)])
    clean = Redactor(SECRETS).body(body)
    events = [json.loads(line[5:]) for line in clean.splitlines() if line.startswith(b"data:")]
    for index in (0, 1):
        joined = "".join(event["delta"]["text"] for event in events if event["index"] == index)
        assert joined == "your key is REDACTED, is it not, and REDACTED"


def test_lines_of_a_stream_without_a_secret_keep_their_bytes() -> None:
    odd = b'data: {"index":0,  "delta":{"text":"\\u0041"}}\r\n\r\n'
    body = odd + stream([KEY[:10], KEY[10:]]) + b"data: [DONE]\n\n"
    clean = Redactor(SECRETS).body(body)
    assert clean.startswith(odd)
    assert clean.endswith(b"data: [DONE]\n\n")
    assert Redactor(SECRETS).body(odd) == odd


B62 = "aB3dE5gH7jK9mN1pQ4rS6tU8vW0xY2zC"
"""Stands for what is random in a key."""

SHAPED = [
    "sk-ant-api03-" + (B62 * 3)[:93] + "AA",
    "sk-" + B62[:20] + "T3BlbkFJ" + B62[:20],
    "sk-proj-" + (B62 * 3)[:74] + "T3BlbkFJ" + (B62 * 3)[:74],
    "sk-svcacct-" + (B62 * 3)[:58] + "T3BlbkFJ" + (B62 * 3)[:58],
    "sk-or-v1-" + "0123456789abcdef" * 4,
    "sk-" + "0f1e2d3c4b5a6978" * 2,
    "AIzaSy" + B62 + "_",
    "AQ.Ab" + (B62 * 2)[:48],
    "ya29.a0" + B62 * 4,
    "org-" + B62[:24],
    "proj_" + B62[:24],
    "AKIA" + "Q3EGRIQ7WZ2LMN5T",
    "xai-" + (B62 * 3)[:80],
    "gsk_" + (B62 * 2)[:52],
    "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "pplx-" + (B62 * 2)[:48],
    "ghp_" + (B62 * 2)[:36],
]


@pytest.mark.parametrize("text", SHAPED)
def test_what_has_the_shape_of_a_key_or_an_account_goes_without_being_known(text: str) -> None:
    for around in ('{"message": "key %s."}', "<p>key=%s</p>", '{"%s": 1}', "?a=b%%20%s&c"):
        body = (around % text).encode()
        assert Redactor(shaped=True).body(body) == (around % "REDACTED").encode()
        assert Redactor().body(body) == body  # the run has no key, so nothing is hidden


@pytest.mark.parametrize("text", SHAPED)
@pytest.mark.parametrize("size", [1, 16])
def test_the_deltas_of_an_answer_say_what_the_whole_says(text: str, size: int) -> None:
    for said in (f"it is {text}, see", f"it is {text}x", f"it is\n{text}"):
        whole = Redactor(shaped=True).body(json.dumps({"text": said}).encode())
        body = stream([said[at : at + size] for at in range(0, len(said), size)])
        clean = Redactor(shaped=True).body(body)
        events = [json.loads(line[5:]) for line in clean.splitlines() if line.startswith(b"data:")]
        for index in (0, 1):
            joined = "".join(event["delta"]["text"] for event in events if event["index"] == index)
            assert joined == json.loads(whole)["text"]


ORDINARY = [
    "sk-learn-is-a-package-for-learning",
    "sk-rooms-2024-autumn-conference",
    "org-babelexecute4python5session",
    "org-internationalizationteam",
    "org-chart",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-ant-api03-your-key-here",
    "sk-" + "x" * 48,
    "hf_" + "x" * 34,
    "AIza",
    "call_abcdefABCDEF01234567",
    "x",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor(("x", "call"), shaped=True).body(text.encode()) == text.encode()


def test_urls_lose_user_password_and_keys_only() -> None:
    url = (
        f"https://user:pw@host.example:8/v1/models/m:stream?alt=sse&key={quote(KEY)}&api-version=1&X-Amz-Signature=ab#f"
    )
    assert Redactor().url(url) == "https://host.example:8/v1/models/m:stream?alt=sse&api-version=1"


def test_headers_are_kept_by_allow_list_and_masked_ones_stay_visible() -> None:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "openai-organization": "acme"}
    sent = HttpRequest("POST", "http://host.example/", headers)
    assert Redactor(SECRETS).request(sent).headers == {"content-type": "application/json"}
    assert mask_headers(sent.headers, REQUEST_HEADERS) == {
        "content-type": "application/json",
        "authorization": "REDACTED",
        "openai-organization": "REDACTED",
    }
    answer = HttpResponse(200, {"set-cookie": "a=b", "request-id": "req_1", "retry-after": "1", "x-org": "acme"})
    assert Redactor(SECRETS).response(answer).headers == {"request-id": "req_1", "retry-after": "1"}
    assert mask_headers(answer.headers, RESPONSE_HEADERS)["set-cookie"] == "REDACTED"


@pytest.mark.parametrize("text", ["before", f"before {KEY} after {KEY} end"])
def test_the_delivery_is_kept_with_the_cuts_that_still_fit(text: str) -> None:
    delivery = Delivery((1, 7, 8, 30), 0.5, "cut")
    kept = Redactor(SECRETS).response(HttpResponse(200, {}, text.encode(), delivery)).delivery
    assert kept == (delivery if text == "before" else Delivery((1, 7), 0.5, "cut"))


HALVES = {
    "plain": KEY[:-1],
    "the shortest": KEY[:8],
    "escaped for JSON": escaped(KEY)[:-6],
    "within an escape": escaped(KEY)[:-3],
    "percent-encoded, within an escape": percent(KEY)[:-1],
    "HTML entities, within one": SPELLINGS["HTML entities"][:-2],
    "hexadecimal": KEY.encode().hex()[:-1],
    "base64": base64.b64encode(f"user:{KEY}".encode()).decode()[:-6],
    "another token": TOKEN[:12],
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_a_secret_that_a_broken_connection_cut_in_two_is_found(half: str, ending: Ending) -> None:
    broken = HttpResponse(200, {}, f'{{"text": "key {half}'.encode(), Delivery(ending=ending))
    body = Redactor(SECRETS).response(broken).body
    assert body.startswith(b'{"text": "key ')
    assert body.endswith(b"REDACTED")
    assert len(body) <= len(b'{"text": "key ') + len("dXNlcjp") + len(b"REDACTED")
    whole = Redactor(SECRETS).response(replace(broken, delivery=Delivery())).body
    assert (whole == broken.body) is (len(half) < 16)  # what is shorter gives nothing away


def test_of_a_secret_over_deltas_the_half_before_the_end_is_found() -> None:
    body = stream([f"it is {KEY[:6]}", KEY[6:12], KEY[12:18]])
    clean = Redactor(SECRETS).response(HttpResponse(200, {}, body, Delivery(ending="reset"))).body
    events = [json.loads(line[5:]) for line in clean.splitlines() if line.startswith(b"data:")]
    assert [event["delta"]["text"] for event in events if event["index"] == 0] == ["it is REDACTED", "", ""]


def test_a_body_that_breaks_off_without_a_secret_keeps_its_bytes() -> None:
    for body in (b"", b"data: 1", f"{KEY[:7]}".encode(), f"{KEY[:12]} and more".encode(), b"100%"):
        assert Redactor(SECRETS).response(HttpResponse(200, {}, body, Delivery(ending="cut"))).body == body


PLANTED_HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-api-key": KEY,
    "x-goog-api-key": KEY,
    "cookie": f"session={TOKEN}",
    "openai-organization": "org-plantedORGANISATION1",
    "anthropic-beta": f"oops-{KEY}",
}


def test_no_planted_secret_reaches_the_disk_the_journal_or_the_output(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    redactor = Redactor(SECRETS, shaped=True)
    answer = {
        "echo": KEY,
        "spelled": list(SPELLINGS.values()),
        "basic": base64.b64encode(f"user:{KEY}".encode()).decode(),
        "account": "org-plantedORGANISATION12345",
        "html": html.escape(TOKEN),
    }

    def upstream(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("stream"):
            return httpx2.Response(
                200, content=stream([KEY[:7], KEY[7:]]), headers={"content-type": "text/event-stream"}
            )
        headers = [("content-encoding", "gzip"), ("set-cookie", f"s={TOKEN}"), ("openai-organization", "plantedORG")]
        return httpx2.Response(401, headers=headers, content=gzip.compress(json.dumps(answer).encode()))

    with CellRecording(library, METADATA, redactor) as recording:
        log = ExchangeLog("http://user:pw-planted@host.example", "https://api.example", recording)
        with httpx2.Client(transport=LoggingTransport(httpx2.MockTransport(upstream), log)) as client:
            seen = client.post(
                f"http://user:pw-planted@host.example/v1?key={quote(KEY)}&x={quote(KEY)}",
                headers=PLANTED_HEADERS,
                json={"messages": [{"content": f"remember {TOKEN}"}]},
            )
            client.post("http://user:pw-planted@host.example/stream", json={})
        journal = b"".join(path.read_bytes() for path in library.journals())
        recording.complete()
    assert seen.json()["echo"] == KEY  # the adapter gets what was sent
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"remember REDACTED" in files
    for place in (files, journal, repr(redactor.result(tuple(log.exchanges))).encode()):
        assert place
        assert not redactor.finds(place)
        for planted in (b"planted", b"session", KEY[:12].encode(), KEY[-12:].encode(), TOKEN[-12:].encode()):
            assert planted not in place, planted


def test_a_secret_that_is_left_stops_the_cassette_from_being_written(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    metadata = METADATA.from_dict(METADATA.to_dict() | {"model_requested": KEY})
    with CellRecording(library, metadata, Redactor(SECRETS)) as recording:
        recording.keep(HttpRequest("POST", "http://host.example/"), HttpResponse(200))
        with pytest.raises(CassetteError, match="a key of this run would be in it, so nothing was written") as refusal:
            recording.complete()
    assert KEY not in str(refusal.value)
    assert library.paths() == []


@pytest.mark.parametrize("field", ["event", "id", "retry", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_secret_in_another_line_of_a_stream_is_in_no_journal_and_loses_no_recording(
    tmp_path: Path, field: str, end: str
) -> None:
    line = f"{field}: {KEY}{end}"
    lines = (
        f'event: delta{end}{line}data: {{"text": "a {KEY[:12]}"}}{end}{end}{line}data: {{"text": "{KEY[12:]} b"}}{end}'
    )
    response = HttpResponse(200, {"content-type": "text/event-stream"}, f"{lines}{line}{end}".encode())
    with CellRecording(CassetteLibrary(tmp_path), METADATA, Redactor(SECRETS)) as recording:
        recording.keep(HttpRequest("POST", "https://api.example/", {}, b"{}"), response)
        assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.journal"))
        cassette = recording.complete()

    stored = cassette.interactions[0].response
    assert stored is not None
    clean = f"{field}: REDACTED{end}"
    first, second = f'data: {{"text": "a REDACTED"}}{end}{end}', f'data: {{"text": " b"}}{end}'
    assert stored.body.decode() == f"event: delta{end}{clean}{first}{clean}{second}{clean}{end}"
