"""Bodies that are none, and streams that end early."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.eventstream import events_of
from harness.apis.view import ModelStep, WireError
from harness.model.http import HttpResponse
from harness.model.messages import StopReason
from tests.apis.providers import MODELS, STREAMS, streamed, whole
from tests.apis.steps import steps

STEP = ModelStep(text="It is 18 °C in 東京.", thinking="Hm.", calls=(("get_weather", {"city": "Zürich"}), ("now", {})))
ANSWERS = steps([None], [StopReason.END_TURN]).map(lambda step: replace(step, raw=(), stop=None))
PAGE = b"<!DOCTYPE html>\n<html><body>It works: 502</body></html>\n"


def end_of(form: str, body: bytes) -> int:
    """How much of a stream has to arrive for it to be complete.

    Chat has said all with the finish reason: `[DONE]` and a count of the tokens follow, which some servers leave out
    (openai-chat-stream-usage, openai-chat-stream-cut-unnoticed). Gemini's events end with CRLF twice, of which the last
    byte adds nothing.
    """
    if form == "openai-chat":
        return body.index(b"\n\n", body.index(b'"finish_reason":"')) + 2
    return len(body) - (form == "gemini")


@pytest.mark.parametrize("form", STREAMS)
def test_no_part_of_a_stream_is_complete(form: str) -> None:
    response = streamed(STREAMS[form], STEP)
    end = end_of(form, response.body)
    first = 1 if form == "gemini as array" else 0  # nothing at all is no array either
    for kept in range(first, len(response.body) + 1):
        view = registry.api(STREAMS[form].api).read(replace(response, body=response.body[:kept]))
        assert (view.streamed, view.complete, view.error) == (True, kept >= end, None), kept


@settings(deadline=None)
@given(ANSWERS, st.text(max_size=3), st.data())
@pytest.mark.parametrize("form", STREAMS)
def test_no_part_of_any_stream_is_complete(form: str, step: ModelStep, seed: str, data: st.DataObject) -> None:
    response = streamed(STREAMS[form], step, seed)
    end = end_of(form, response.body)
    kept = data.draw(st.integers(1, end - 1))
    view = registry.api(STREAMS[form].api).read(replace(response, body=response.body[:kept]))
    assert (view.streamed, view.complete, view.error) == (True, False, None)
    assert registry.api(STREAMS[form].api).read(replace(response, body=response.body[:end])).complete


@pytest.mark.parametrize("form", STREAMS)
def test_an_event_that_is_no_json_is_said_so(form: str) -> None:
    response = streamed(STREAMS[form], STEP)
    broken = response.body.replace(b"}\n\n", b"\n\n").replace(b"}\r\n\r\n", b"\r\n\r\n")
    if form == "gemini as array":
        assert not registry.api("gemini").read(replace(response, body=broken.removesuffix(b"}\n]"))).complete
        return
    with pytest.raises(WireError, match="not JSON"):
        registry.api(STREAMS[form].api).read(replace(response, body=broken))


@pytest.mark.parametrize("api", MODELS)
def test_a_whole_answer_without_its_last_byte_is_no_answer(api: str) -> None:
    response = whole(api, STEP)
    with pytest.raises(WireError, match="not JSON"):
        registry.api(api).read(replace(response, body=response.body[:-1]))


@pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream", "json"])
@pytest.mark.parametrize("api", MODELS)
def test_the_right_body_under_another_content_type_is_no_answer(api: str, content_type: str) -> None:
    headers = {"content-type": content_type}
    bodies = [whole(api, STEP), *(streamed(request, STEP) for request in STREAMS.values() if request.api == api)]
    for body in bodies:
        with pytest.raises(WireError, match=r"the content type of the body is '"):
            registry.api(api).read(replace(body, headers=headers))


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON; charset=UTF-8", "application/problem+json", "text/json"],
)
@pytest.mark.parametrize("api", MODELS)
def test_json_goes_by_several_names(api: str, content_type: str) -> None:
    response = replace(whole(api, STEP), headers={"content-type": content_type})
    assert registry.api(api).read(response).text == STEP.text
    with pytest.raises(WireError, match="not JSON"):
        registry.api(api).read(replace(streamed(STREAMS[api], STEP), headers={"content-type": content_type}))


@pytest.mark.parametrize("body", [PAGE, b"\n\n<html>", b'{"choices": []}', b"[]", b"Bad gateway"])
@pytest.mark.parametrize("api", MODELS)
def test_what_is_no_stream_is_said_so(api: str, body: bytes) -> None:
    with pytest.raises(WireError, match=r"no event stream|not a GenerateContentResponse|a chunk of a stream is no"):
        registry.api(api).read(HttpResponse(200, {"content-type": "text/event-stream"}, body))


@pytest.mark.parametrize("api", MODELS)
def test_a_refusal_is_read_under_any_content_type(api: str) -> None:
    refusal = registry.api(api).fail(429, None, "seed")
    for content_type in ("text/plain", "application/octet-stream"):
        error = registry.api(api).read(replace(refusal, headers={"content-type": content_type})).error
        assert error is not None
        assert (error.meant, error.message) == (429, "The rate limit is exceeded. Please try again later.")
        assert json.loads(refusal.body)


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        (b"", True),
        (b"\xef\xbb", True),
        (b"\xef\xbb\xbfdata: 1\n", True),
        (b"\n\r\ndata: 1\n", True),
        (b": comment", True),
        (b"ev", True),
        (b"event\n", True),
        (b"id: 7\n", True),
        (b"retry: 7", True),
        (b"ev\n", False),
        (b"evil", False),
        (b"data1: 1\n", False),
        (b"{", False),
        (b"\xff", False),
    ],
)
def test_how_an_event_stream_begins(body: bytes, begins: bool) -> None:
    if begins:
        events_of(body)
    else:
        with pytest.raises(WireError):
            events_of(body)
