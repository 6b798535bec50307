"""How the providers fail, by status and inside a stream, and how the witness reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, get_args

import pytest

from harness.apis import registry
from harness.apis.server import wait_headers, waiting_time
from harness.apis.view import ErrorView, ModelStep
from harness.model.http import HttpResponse
from harness.model.messages import StopReason
from harness.scenarios.schema import FaultStatus
from tests.apis.samples import MODELS, STREAMS, streamed
from tests.traffic import needs_traffic, recorded

STATUSES: tuple[int, ...] = get_args(FaultStatus)
WITH_WORDS = {
    "anthropic": {400, 401, 402, 403, 404, 409, 413, 429, 500, 504, 529},
    "openai-chat": {400, 401, 403, 404, 429, 500, 503},
    "openai-responses": {400, 401, 403, 404, 429, 500, 503},
    "gemini": set(STATUSES),
}
"""The statuses that the words of an API tell apart; all others become 400 or 500."""

STEP = ModelStep(text="It is 18 °C in Paris, and raining in Tokyo.", calls=(("get_weather", {"city": "Paris"}),))


def error_of(api: str, response: HttpResponse) -> ErrorView:
    view = registry.api(api).read(response)
    assert view.stop_reason is StopReason.ERROR
    assert view.error is not None
    return view.error


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("api", MODELS)
def test_a_failure_is_read_as_what_it_is(api: str, status: int) -> None:
    for wait in (None, 0, 7, 0.25, 48.939935):
        response = registry.api(api).fail(status, wait, "seed")
        error = error_of(api, response)
        assert (response.status, error.status, error.meant) == (status, status, status)
        assert error.retry_after == (None if wait is None else pytest.approx(wait, abs=0.001))
        assert error.message
    assert (
        registry.api(api).fail(status, 1, "seed")
        == registry.api(api).fail(status, 1, "seed")
        != registry.api(api).fail(status, 1, "other")
    )


@pytest.mark.parametrize(
    ("api", "status", "headers", "body"),
    [
        ("anthropic", 529, {"retry-after": "3"}, {"type": "overloaded_error", "message": "Overloaded"}),
        ("anthropic", 408, {"retry-after": "3"}, {"type": "invalid_request_error"}),
        ("anthropic", 503, {"retry-after": "3"}, {"type": "api_error"}),
        ("openai-chat", 429, {"retry-after": "3"}, {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
        ("openai-chat", 422, {"retry-after": "3"}, {"type": "invalid_request_error", "param": None, "code": None}),
        ("openai-responses", 503, {"retry-after": "3"}, {"code": "server_is_overloaded"}),
        ("openai-responses", 502, {"retry-after": "3"}, {"type": "server_error", "code": None}),
        ("gemini", 503, {}, {"code": 503, "status": "UNAVAILABLE"}),
        ("gemini", 422, {}, {"code": 422, "status": "FAILED_PRECONDITION"}),
        ("gemini", 529, {}, {"code": 529, "status": "INTERNAL"}),
    ],
)
def test_a_failure_has_the_words_and_headers_of_its_api(
    api: str, status: int, headers: dict[str, str], body: dict[str, Any]
) -> None:
    response = registry.api(api).fail(status, 3, "seed")
    error = json.loads(response.body)["error"]
    assert error.items() >= body.items()
    assert {name: text for name, text in response.headers.items() if "retry" in name} == headers
    identity = {"anthropic": "request-id", "gemini": "x-goog-request-id"}.get(api, "x-request-id")
    assert response.headers[identity]
    if api == "anthropic":
        assert json.loads(response.body)["request_id"] == response.headers["request-id"]
    if api == "gemini":
        assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}]


def test_gemini_writes_a_wait_as_protobuf_does() -> None:
    body = json.loads(registry.api("gemini").fail(429, 0.5, "seed").body)
    assert body["error"]["details"][0]["retryDelay"] == "0.5s"
    assert "details" not in json.loads(registry.api("gemini").fail(429, None, "seed").body)["error"]


@pytest.mark.parametrize("status", [418, 599])
@pytest.mark.parametrize("api", MODELS)
def test_a_status_that_no_table_has_is_a_failure_too(api: str, status: int) -> None:
    error = error_of(api, registry.api(api).fail(status, None, "seed"))
    assert (error.meant, error.message) == (status, f"The request failed with HTTP {status}.")


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("form", STREAMS)
def test_the_status_of_an_error_in_a_stream_follows_from_its_code(form: str, status: int) -> None:
    request = STREAMS[form]
    wire = registry.api(request.api)
    nearest = status if status in WITH_WORDS[request.api] else status // 100 * 100
    response = streamed(request, STEP)
    end = b"}\n," if form == "gemini as array" else b"\r\n\r\n" if form == "gemini" else b"\n\n"
    begun = response.body[: response.body.index(end, len(response.body) // 2) + len(end.rstrip(b"\n,") or end)]
    for seed in map(str, range(9)):
        body = begun + wire.stream_error(status, seed, request)
        view = wire.read(HttpResponse(200, response.headers, body))
        assert (view.streamed, view.stop_reason) == (True, StopReason.ERROR)
        assert view.error is not None
        assert (view.error.status, view.error.meant, view.error.retry_after) == (200, nearest, None)
        if form == "gemini as array":
            assert json.loads(body)[-1]["error"]["code"] == status


def test_responses_fails_in_the_three_ways_that_are_seen() -> None:
    ways: set[tuple[str, ...]] = set()
    for seed in map(str, range(20)):
        sent = registry.api("openai-responses").stream_error(503, seed, STREAMS["openai-responses"])
        events = [json.loads(event.partition(b"data: ")[2]) for event in sent.split(b"\n\n") if event]
        ways.add(tuple(f"{event['type']} {'nested' if 'error' in event else ''}".strip() for event in events))
        assert events[-1]["response"]["error"]["code"] == "server_is_overloaded"
        assert (events[-1]["response"]["status"], events[-1]["response"]["model"]) == ("failed", "gpt-6-sol")
    assert ways == {("error", "response.failed"), ("error nested", "response.failed"), ("response.failed",)}


@pytest.mark.parametrize(
    ("api", "error", "meant"),
    [
        ("anthropic", {"type": "rate_limit_error"}, 429),
        ("anthropic", {"type": "of_another_day"}, None),
        ("anthropic", {"type": 7}, None),
        ("openai-chat", {"type": "invalid_request_error", "code": "invalid_api_key"}, 401),
        ("openai-chat", {"type": "invalid_request_error", "code": "tool_use_failed", "status_code": 400}, 400),
        ("openai-chat", {"code": 429}, 429),
        ("openai-chat", {"code": "503"}, 503),
        ("openai-chat", {"code": 200, "type": "server_error"}, 500),
        ("openai-chat", {"code": "of_another_day", "type": "service_unavailable_error"}, 503),
        ("openai-chat", {"code": "of_another_day"}, None),
        ("openai-responses", {"code": "context_length_exceeded"}, 400),
        ("openai-responses", {"code": "insufficient_quota"}, 429),
        ("openai-responses", {"code": "invalid_image"}, None),
        ("openai-responses", {"code": None, "type": "error"}, None),
        ("openai-responses", {"code": 404}, 404),
        ("gemini", {"code": 503, "status": "UNAVAILABLE"}, 503),
        ("gemini", {"code": 14, "status": "UNAVAILABLE"}, 503),
        ("gemini", {"status": "OF_ANOTHER_DAY"}, None),
    ],
)
def test_the_status_of_an_error_inside_http_200(api: str, error: dict[str, Any], meant: int | None) -> None:
    said = {"error": {"message": "no", **error}}
    for content_type, body in (
        ("application/json", json.dumps(said)),
        ("text/event-stream", f"data: {json.dumps(said)}\n\n"),
    ):
        response = HttpResponse(200, {"content-type": content_type, "retry-after": "5"}, body.encode())
        found = error_of(api, response)
        assert (found.status, found.meant, found.retry_after, found.message) == (200, meant, None, "no")


def test_retry_info_of_gemini_is_read_in_a_stream() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48.5s"}
    for details, wait in (
        ([{"@type": "x"}, info], 48.5),
        ([{**info, "retryDelay": "soon"}, {**info, "retryDelay": "2s"}], 2),
        (["x"], None),
        ("x", None),
    ):
        said = {"error": {"code": 429, "message": "no", "details": details}}
        body = f"data: {json.dumps(said)}\r\n\r\n".encode()
        assert error_of("gemini", HttpResponse(200, {"content-type": "text/event-stream"}, body)).retry_after == wait


def test_a_retry_header_outranks_the_body() -> None:
    response = registry.api("gemini").fail(429, 48, "seed")
    hurried = HttpResponse(429, {**response.headers, "retry-after": "2"}, response.body)
    assert error_of("gemini", hurried).retry_after == 2


@pytest.mark.parametrize("api", MODELS)
def test_a_proxy_s_page_may_have_a_retry_header(api: str) -> None:
    page = HttpResponse(503, {"content-type": "text/html", "retry-after": "9"}, b"<h1>Down</h1>")
    error = error_of(api, page)
    assert (error.meant, error.message, error.retry_after) == (503, "<h1>Down</h1>", 9)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": " 2 "}, 2),
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "2", "retry-after-ms": "soon"}, 2),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1" * 400}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 22:00:09 GMT", "date": "Sat, 21 Nov 2026 22:00:00 GMT"}, 9),
        ({"retry-after": "Sat, 21 Nov 2026 22:00:09 -0000", "date": "Sat, 21 Nov 2026 22:00:00 GMT"}, 9),
        ({"retry-after": "Sat, 21 Nov 2026 22:00:09 GMT", "date": "Sat, 21 Nov 2026 23:00:00 GMT"}, 0),
        ({"retry-after": f"Sat, 21 Nov {'9' * 30} 22:00:09 GMT"}, None),
    ],
)
def test_retry_headers(headers: dict[str, str], wait: float | None) -> None:
    assert waiting_time(headers) == wait


def test_a_date_without_a_date_of_the_response_counts_from_now() -> None:
    tomorrow = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    assert waiting_time({"retry-after": tomorrow}) == pytest.approx(86400, abs=3600)


def test_whole_seconds_need_one_header_and_parts_of_them_two() -> None:
    assert wait_headers(None) == {}
    assert wait_headers(7) == wait_headers(7.0) == {"retry-after": "7"}
    assert wait_headers(0.25) == {"retry-after": "1", "retry-after-ms": "250"}


@needs_traffic
def test_recorded_refusals_mean_their_status_and_gemini_s_says_how_long_to_wait() -> None:
    waits: dict[str, float] = {}
    folders = ("anthropic-messages", "openai-chat", "openai-responses", "openai-compat-chat", "gemini-generateContent")
    found = recorded(*(f"errors/{folder}" for folder in folders))
    for exchange in found:
        error = error_of(exchange.api, exchange.response)
        refused = exchange.response.status >= 400
        assert error.meant == (exchange.response.status if refused else 400)  # all those inside HTTP 200 are refusals
        if error.retry_after is not None:
            waits[exchange.api] = error.retry_after
    assert len(found) > 30
    assert waits == {"gemini": 48}


@pytest.mark.parametrize("api", MODELS)
def test_a_refusal_is_read_under_any_content_type(api: str) -> None:
    refusal = registry.api(api).fail(429, None, "seed")
    for content_type in ("text/plain", "application/octet-stream"):
        error = registry.api(api).read(replace(refusal, headers={"content-type": content_type})).error
        assert error is not None
        assert (error.meant, error.message) == (429, "The rate limit is exceeded. Please try again later.")
        assert json.loads(refusal.body)
