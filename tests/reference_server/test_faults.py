"""What the reference server makes of the faults that a scenario declares, in all four wire formats."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.apis import eventstream, registry
from harness.apis.view import ResponseView, WireError
from harness.model.http import AT_ONCE, EXHAUSTED, HttpRequest, HttpResponse
from harness.reference_server.script_session import MAX_PIECES, PAUSE_SECONDS, ScriptSession
from harness.scenarios.load import load_file
from harness.scenarios.schema import Scenario
from tests.reference_server.test_session import FIRST, HEADERS, MODELS, PATHS, STREAM_PATHS, answered
from tests.scenarios.files import WITH_TOOLS, changed, scenario

APIS = tuple(MODELS)
STREAMS = (*APIS, "gemini-array")
"""The streams that there are: Gemini's comes as events or as an array."""

LINES = "".join(f'{n}: é\u2028\u0085 ✓\\"\n' for n in range(40))


def failing(folder: Path, fault: dict[str, Any], **more: Any) -> Scenario:
    """The model calls with long arguments, and the fault befalls that answer."""
    content = changed(WITH_TOOLS, "turns.0.model", [{"calls": [{"get_weather": {"city": LINES}}]}])
    content = content | {"faults": [fault], "scripted": True, "variants": ["stream"], **more}
    content["turns"][0]["expect"] = {"error": "unsupported"}  # which no fault brings about, nor has to
    return Scenario.model_validate_json(json.dumps(content))


def request(stream: str, *, streamed: bool = True, body: dict[str, Any] | None = None) -> HttpRequest:
    api = stream.removesuffix("-array")
    path = STREAM_PATHS[api] if streamed else PATHS[api]
    if stream.endswith("-array"):
        path = path.partition("?")[0]
    asked = (body or FIRST[api]) | ({"stream": True} if streamed and api != "gemini" else {})
    headers = HEADERS | {"content-type": "application/json"}
    return HttpRequest("POST", f"http://127.0.0.1{path}", headers, json.dumps(asked).encode())


def session(stream: str, scenario: Scenario) -> ScriptSession:
    api = stream.removesuffix("-array")
    return ScriptSession(scenario, registry.api(api), MODELS[api], registry.api(api).profile_for(MODELS[api]))


def both(stream: str, scenario: Scenario, *, streamed: bool = True) -> tuple[HttpResponse, HttpResponse]:
    """What comes with the fault, and what comes when the same is asked again."""
    handle = session(stream, scenario)
    asked = request(stream, streamed=streamed)
    return handle(asked), handle(asked)


def read(stream: str, response: HttpResponse) -> ResponseView:
    return registry.api(stream.removesuffix("-array")).read(response)


def is_intact(response: HttpResponse, stream: str) -> bool:
    view = read(stream, response)
    return (
        response.delivery == AT_ONCE
        and (view.complete, view.error) == (True, None)
        and [call.arguments for call in view.calls] == [{"city": LINES}]
    )


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("stream", STREAMS)
def test_failed_answer_is_given_on_retry(tmp_path: Path, stream: str, *, streamed: bool) -> None:
    failed, good = both(stream, failing(tmp_path, {"status": 429, "retry_after": 7}), streamed=streamed)
    assert failed.status == 429
    error = read(stream, failed).error
    assert error is not None
    assert (error.meant, error.retry_after) == (429, 7)
    unspecified = read(stream, both(stream, failing(tmp_path, {"status": 429}), streamed=streamed)[0]).error
    assert unspecified is not None
    assert unspecified.retry_after is None
    assert is_intact(good, stream)


@pytest.mark.parametrize("at", [0, 0.3, 0.7, "end"])
@pytest.mark.parametrize("stream", STREAMS)
def test_an_error_in_a_stream_stands_behind_whole_events(tmp_path: Path, stream: str, at: float | str) -> None:
    failed, good = both(stream, failing(tmp_path, {"stream_error": 500, "at": at}))
    assert (failed.status, failed.headers, failed.delivery) == (200, good.headers, AT_ONCE)
    error = read(stream, failed).error
    assert error is not None
    assert error.meant == 500
    said, whole = events(failed.body, stream), events(good.body, stream)
    begun = next(i for i, (one, other) in enumerate(zip(said, [*whole, ""], strict=False)) if one != other)
    assert [is_error(event) for event in said] == [False] * begun + [True] * (len(said) - begun)
    if at == "end":
        ends = {"openai-chat": 2}  # a reason and [DONE]
        assert begun == len(whole) - ends.get(stream, 1)
    else:
        assert sum(len(event.encode()) for event in whole[:begun]) <= len(good.body) * float(at)
    assert is_intact(good, stream)


def events(body: bytes, stream: str) -> list[str]:
    """The events of a stream, each as the text of its data."""
    if stream == "gemini-array":
        return [json.dumps(element) for element in json.loads(body)]
    return [event.data for event in eventstream.events(body)]


def is_error(event: str) -> bool:
    data = json.loads(event)
    return data.get("type") in ("error", "response.failed") or "error" in data


@pytest.mark.parametrize("stream", APIS)
def test_a_whole_body_that_is_no_json_lacks_its_last_brace(tmp_path: Path, stream: str) -> None:
    failed, good = both(stream, failing(tmp_path, {"body": "invalid-json"}), streamed=False)
    assert json.loads(failed.body + b"}") == json.loads(good.body)
    with pytest.raises(WireError):
        read(stream, failed)


@pytest.mark.parametrize("stream", STREAMS)
def test_no_event_of_a_stream_that_is_no_json_can_be_read(tmp_path: Path, stream: str) -> None:
    failed, good = both(stream, failing(tmp_path, {"body": "invalid-json"}))
    assert failed.headers == good.headers
    if stream == "gemini-array":
        assert json.loads(failed.body + b"}]") == json.loads(good.body)
        return
    spoilt, whole = (list(filter(None, body.replace(b"\r", b"").split(b"\n"))) for body in (failed.body, good.body))
    assert len(spoilt) == len(whole)
    for broken, line in zip(spoilt, whole, strict=True):
        assert broken == (line.removesuffix(b"}") if line.startswith(b"data: {") else line)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("stream", STREAMS)
def test_an_empty_body_and_a_page_of_html(tmp_path: Path, stream: str, *, streamed: bool) -> None:
    empty, good = both(stream, failing(tmp_path, {"body": "empty"}), streamed=streamed)
    assert (empty.status, empty.headers, empty.body) == (200, good.headers, b"")
    assert is_intact(good, stream)
    failed, good = both(stream, failing(tmp_path, {"body": "html"}), streamed=streamed)
    assert (failed.status, failed.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert failed.body.startswith(b"<!DOCTYPE html>")
    assert is_intact(good, stream)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("stream", STREAMS)
def test_the_right_body_under_another_content_type_is_the_answer(
    tmp_path: Path, stream: str, *, streamed: bool
) -> None:
    odd, exhausted = both(stream, failing(tmp_path, {"body": "wrong-type"}), streamed=streamed)
    _, plain = both(stream, failing(tmp_path, {"status": 500}), streamed=streamed)
    assert odd.headers == {**plain.headers} | {"content-type": "text/plain; charset=utf-8"}
    assert odd.body == plain.body
    assert exhausted.status == 500


@pytest.mark.parametrize("at", [0, 0.001, 0.5, 0.999])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("connection", "ending"), [("cut", "cut"), ("cut-clean", "complete"), ("reset", "reset")])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_broken_connection_delivers_a_share_of_the_bytes(
    tmp_path: Path, stream: str, connection: str, ending: str, at: float, *, streamed: bool
) -> None:
    failed, good = both(stream, failing(tmp_path, {"connection": connection, "at": at}), streamed=streamed)
    assert (failed.status, failed.headers, failed.delivery.ending) == (200, good.headers, ending)
    assert failed.body == good.body[: int(len(good.body) * at)]
    assert is_intact(good, stream)


@pytest.mark.parametrize("connection", ["cut", "cut-clean", "reset"])
@pytest.mark.parametrize("stream", STREAMS)
def test_cut_at_end_leaves_the_stream_incomplete(tmp_path: Path, stream: str, connection: str) -> None:
    failed, good = both(stream, failing(tmp_path, {"connection": connection, "at": "end"}))
    assert good.body.startswith(failed.body)
    view = read(stream, failed)
    assert not view.complete
    if stream.startswith("gemini"):  # whose last chunk has its share of the content, and the reason
        assert view.raw_stop_reason is None
    else:
        assert [call.arguments for call in view.calls] == [{"city": LINES}]
    rest = good.body[len(failed.body) :]
    next_event = rest if stream == "gemini-array" else re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", rest)[0]
    more = HttpResponse(200, failed.headers, failed.body + next_event)
    assert read(stream, more).complete


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("stream", STREAMS)
def test_slow_bytes_are_the_answer_in_many_pieces(tmp_path: Path, stream: str, *, streamed: bool) -> None:
    slow, exhausted = both(stream, failing(tmp_path, {"connection": "slow"}), streamed=streamed)
    pieces = slow.delivery.pieces(slow.body)
    assert MAX_PIECES - 2 <= len(pieces) <= MAX_PIECES
    assert b"".join(pieces) == slow.body
    assert (slow.delivery.pause, slow.delivery.ending) == (PAUSE_SECONDS, "complete")
    assert [call.arguments for call in read(stream, slow).calls] == [{"city": LINES}]
    assert exhausted.status == 500


@pytest.mark.parametrize("stream", APIS)
def test_a_request_for_no_stream_gets_what_comes_nearest(tmp_path: Path, stream: str) -> None:
    failed, good = both(stream, failing(tmp_path, {"stream_error": 429}), streamed=False)
    assert (failed.status, good.status) == (429, 200)
    cut, whole = both(stream, failing(tmp_path, {"connection": "cut-clean", "at": "end"}), streamed=False)
    assert cut.body == whole.body[:-1]


@pytest.mark.parametrize("stream", APIS)
def test_a_fault_befalls_the_answer_that_it_names(tmp_path: Path, stream: str) -> None:
    content = WITH_TOOLS | {"scripted": True, "faults": [{"answer": 1, "status": 503}]}
    content = changed(content, "turns.0.expect", {"error": "overloaded"})
    handle = session(stream, scenario(tmp_path, content))
    first = handle(request(stream, streamed=False))
    second = request(stream, streamed=False, body=answered(stream, json.loads(first.body)))
    assert [handle(second).status for _ in range(3)] == [503, 200, 500]


@pytest.mark.parametrize("stream", APIS)
def test_a_refused_request_does_not_meet_the_fault(tmp_path: Path, stream: str) -> None:
    handle = session(stream, failing(tmp_path, {"status": 529}))
    refused = HttpRequest("POST", request(stream).url, HEADERS, b"{}")
    assert [handle(refused).status, handle(request(stream)).status] == [400, 529]


def test_requests_that_overlap_meet_a_fault_once(tmp_path: Path) -> None:
    handle = session("anthropic", failing(tmp_path, {"status": 529}))
    with ThreadPoolExecutor(8) as pool:
        statuses = [response.status for response in pool.map(handle, [request("anthropic")] * 8)]
    assert sorted(statuses) == [200, *[500] * 6, 529]


SHIPPED = Path(__file__).resolve().parents[2] / "scenarios"


def shipped(stream: str, name: str) -> tuple[bytes, ResponseView]:
    """What arrives in a shipped scenario, and how far it has come."""
    response = session(stream, load_file(SHIPPED / f"{name}.yaml"))(request(stream))
    return response.body, read(stream, response)


@pytest.mark.parametrize("stream", APIS)
def test_the_shipped_scenarios_break_streams_where_they_say(stream: str) -> None:
    _, behind_call = shipped(stream, "stream-ends-behind-call")
    assert [(call.name, call.malformed) for call in behind_call.calls] == [("post_notice", None)]
    assert not behind_call.complete
    for name in ("stream-cut-in-arguments", "stream-error-in-arguments"):
        body, begun = shipped(stream, name)
        assert not begun.complete or begun.error is not None
        if stream != "gemini":
            assert [call.malformed is not None for call in begun.calls] == [True]
        else:  # whose calls are no pieces: what is cut is the chunk, and an error comes in its place
            assert begun.calls == ()
            assert (b"post_notice" in body) is (begun.error is None)
    for name in ("stream-error-behind-text", "stream-cut-before-end", "connection-cut-at-end"):
        _, spoken = shipped(stream, name)
        assert "The old station stands where three valleys meet." in spoken.text
        assert not spoken.complete or spoken.error is not None
        assert stream == "gemini" or spoken.text.endswith("the time of the last shift.")
    _, silent = shipped(stream, "stream-error-at-start")
    assert (silent.text, silent.error is None) == ("", False)


@pytest.mark.parametrize("stream", APIS)
def test_cut_answer_is_repeated_only_on_retry(tmp_path: Path, stream: str) -> None:
    scenario = failing(tmp_path, {"connection": "cut-clean", "at": "end"})
    whole = json.loads(session(stream, failing(tmp_path, {"connection": "slow"}))(request(stream, streamed=False)).body)
    went_on, asked_again = session(stream, scenario), session(stream, scenario)
    for handle in (went_on, asked_again):
        assert not read(stream, handle(request(stream))).complete

    assert EXHAUSTED in went_on(request(stream, body=answered(stream, whole))).headers
    assert is_intact(asked_again(request(stream)), stream)
