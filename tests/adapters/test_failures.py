"""Failures and the environment, for every adapter that sends HTTP."""

from __future__ import annotations

import email.utils
import json
import sys
import time
from typing import Any

import httpx2
import pytest

from harness.model import errors
from harness.model.messages import ChatRequest, Message
from harness.model.protocols import Endpoint
from tests.adapters.streamed import BASE, Server
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import WEATHER, Wire, says

HI = ChatRequest(messages=(Message.user("hi"),))


def failure(wire: Wire, answer: httpx2.Response | Exception) -> Exception:
    """Return the exception of an adapter after one request with this outcome."""
    server = Server(answer)
    with pytest.raises(errors.HarnessError) as caught:
        wire.ask(server, HI)
    assert len(server.requests) == 1
    return caught.value


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest),
        (401, errors.AuthenticationFailed),
        (402, errors.BillingFailed),
        (403, errors.PermissionDenied),
        (404, errors.NotFound),
        (408, errors.TimedOut),
        (409, errors.Conflict),
        (413, errors.RequestTooLarge),
        (418, errors.InvalidRequest),
        (429, errors.RateLimited),
        (500, errors.ServerError),
        (503, errors.Overloaded),
        (504, errors.TimedOut),
        (529, errors.Overloaded),
    ],
)
def test_errors_of_the_provider_come_after_one_request(wire: Wire, status: int, kind: type[Exception]) -> None:
    headers = {"x-should-retry": "true", "retry-after": "1"}  # which the SDKs would follow
    error = failure(wire, httpx2.Response(status, headers=headers, json=wire.refusal(status)))
    assert type(error) is kind
    assert isinstance(error, errors.ProviderError)
    assert (error.status, error.code, error.message) == (status, "some_error", "No.")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("600", 600.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("nan", None),
        ("-1", None),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after(wire: Wire, header: str | None, seconds: float | None) -> None:
    headers = {} if header is None else {"retry-after": header}
    error = failure(wire, httpx2.Response(429, headers=headers, json=wire.refusal(429)))
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after == seconds


def test_a_date_to_come_is_the_seconds_until_then(wire: Wire) -> None:
    # a day: the suite may run for a while between this line and the answer
    header = email.utils.formatdate(time.time() + 86400, usegmt=True)
    error = failure(wire, httpx2.Response(429, headers={"retry-after": header}, json=wire.refusal(429)))
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after is not None
    assert 3600 <= error.retry_after <= 86400


@pytest.mark.parametrize("name", [name for name in WIRES if name != "gemini"])  # which counts in seconds only
def test_milliseconds_outrank_seconds(name: str) -> None:
    wire = WIRES[name]
    headers = {"retry-after-ms": "250", "retry-after": "9"}
    error = failure(wire, httpx2.Response(429, headers=headers, json=wire.refusal(429)))
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after == 0.25


@pytest.mark.parametrize("content", [b"<h1>Bad gateway</h1>", b"[]", b'{"error": {"message": null}}', b'{"error": {}}'])
def test_an_error_in_another_shape_is_one_all_the_same(wire: Wire, content: bytes) -> None:
    error = failure(wire, httpx2.Response(502, content=content))
    assert isinstance(error, errors.ServerError)
    assert error.code is None
    assert "gateway" in error.message or b"gateway" not in content


@pytest.mark.parametrize("broken", [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), OSError("reset")])
def test_no_answer(wire: Wire, broken: Exception) -> None:
    assert isinstance(failure(wire, broken), errors.ConnectionFailed)


def test_errors_of_our_tree_pass_from_the_transport(wire: Wire) -> None:
    ours = errors.CassetteError("c.yaml", "no exchange is left")
    assert failure(wire, ours) is ours


# --- surroundings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_nothing_of_the_environment_reaches_the_wire(
    wire: Wire, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent() -> tuple[str, list[tuple[bytes, bytes]], bytes]:
        server = Server(wire.stream(says("Ahoy")) if streamed else json.dumps(wire.whole(says("Ahoy"))).encode())
        client = server.client(wire.adapter, wire.model)
        asked = ChatRequest(messages=HI.messages, system="Be brief.", tools=(WEATHER,))
        assert list(client.stream(asked)) if streamed else client.chat(asked)
        (request,) = server.requests
        return str(request.url), request.headers.raw, request.content

    clean = sent()
    for name in (*wire.ambient, "OTEL_SERVICE_NAME", "TRACEPARENT"):
        poison = "true" if "_USE_" in name else "poison"
        if name.endswith("_URL"):
            poison = "http://poison.invalid:1"
        if name.endswith("_HEADERS"):
            poison = "x-poison: poison\nAuthorization: Bearer poison\nanthropic-version: poison"
        monkeypatch.setenv(name, poison)
    for mode in ("poison", "replay") if "GOOGLE_GENAI_CLIENT_MODE" in wire.ambient else ("",):
        if mode:
            monkeypatch.setenv("GOOGLE_GENAI_CLIENT_MODE", mode)
        assert sent() == clean
    assert clean[0] == BASE + (wire.stream_url if streamed else wire.url)
    assert "poison" not in str(clean)


def test_an_own_http_client_knows_no_proxy_and_no_redirect(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://poison.invalid:1")
    made: list[httpx2.Client] = []
    original = httpx2.Client.__init__

    def spy(self: httpx2.Client, **options: Any) -> None:
        original(self, **{**options, "transport": httpx2.MockTransport(lambda _: httpx2.Response(302))})
        assert not options["trust_env"]
        made.append(self)

    monkeypatch.setattr(httpx2.Client, "__init__", spy)
    client: Any = wire.adapter.connect(Endpoint(BASE, "key-1"), wire.model)
    with pytest.raises(errors.ConnectionFailed):
        client.chat(HI)
    client.close()
    (http,) = made
    assert http.is_closed


def test_without_the_sdk(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    package = wire.adapter.name.replace("-", "_")
    ours = (f"harness.adapters.{package}.", "harness.adapters._openai.")
    for name in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    home, _, name = wire.sdk.rpartition(".")
    if home:
        monkeypatch.delattr(sys.modules[home], name, raising=False)
    monkeypatch.setitem(sys.modules, wire.sdk, None)
    needed = wire.adapter.requires
    assert needed is not None
    assert needed.extra is not None
    with pytest.raises(errors.MissingDependency) as caught:
        wire.adapter.connect(Endpoint(BASE, "key-1"), wire.model)
    assert caught.value == errors.MissingDependency(wire.adapter.name, needed.name, needed.extra)
