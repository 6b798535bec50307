"""What holds for every adapter that sends HTTP, played by all: failures, surroundings, what is refused alike."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import httpx2
import pytest

from harness.contract import errors
from harness.contract.model import ChatRequest, File, Image, Message, Part, Role, ToolCall, ToolResult
from harness.contract.protocols import Endpoint
from tests.adapters.streamed import Pieces
from tests.adapters.wires import BASE, WIRES, Server, Wire

HI = ChatRequest(messages=(Message.user("hi"),))


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


def failure(wire: Wire, answer: httpx2.Response | Exception) -> Exception:
    """What an adapter raises after one request that ends like this."""
    server = Server(answer)
    with pytest.raises(errors.HarnessError) as caught:
        wire.ask(server, HI)
    assert len(server.requests) == 1
    return caught.value


# --- requests ---------------------------------------------------------------------------------------------------------


def test_the_model_of_the_client_serves_where_the_request_names_none(wire: Wire) -> None:
    for named in ("", "another-model"):
        server = Server(httpx2.Response(200, json=wire.answer))
        assert wire.ask(server, ChatRequest(named, (Message.user("hi"),))).text == "Ahoy"
        (request,) = server.requests
        assert (named or wire.model) in f"{request.url} {request.content.decode()}"
        assert named == "" or wire.model not in f"{request.url} {request.content.decode()}"


@pytest.mark.parametrize("nothing", [{"system": ""}, {"stop": ()}, {"cache": False}, {"tools": []}])
def test_what_is_not_asked_for_is_no_field(wire: Wire, nothing: dict[str, Any]) -> None:
    assert wire.sent(**nothing) == wire.sent()


@pytest.mark.parametrize("place", ["user", "result"])
@pytest.mark.parametrize("part", [Image("image/png"), File("application/pdf")])
def test_media_that_are_nowhere_are_refused_before_anything_is_sent(wire: Wire, part: Part, place: str) -> None:
    call = ToolCall("call_1", "look", {})
    history = (Message.user("?"), Message(Role.ASSISTANT, (call,)))
    in_result = (*history, Message(Role.USER, (ToolResult("call_1", "look", (part,)),)))  # type: ignore[arg-type]
    server = Server(httpx2.Response(200, json=wire.answer))
    with pytest.raises(errors.Unsupported, match=r"(Image|File) is not supported: "):
        wire.ask(server, ChatRequest(messages=in_result if place == "result" else (Message(Role.USER, (part,)),)))
    assert server.requests == []


def test_media_that_are_here_and_elsewhere_are_sent_as_they_are_here(wire: Wire) -> None:
    here = Image("image/png", b"\x89PNG")
    both = Image("image/png", b"\x89PNG", "https://example.com/a.png")
    assert wire.sent(Message(Role.USER, (both,))) == wire.sent(Message(Role.USER, (here,)))


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


def test_a_redirect_is_refused(wire: Wire) -> None:
    error = failure(wire, httpx2.Response(307, headers={"location": "http://elsewhere.invalid/"}))
    assert isinstance(error, errors.ConnectionFailed)


@pytest.mark.parametrize("broken", [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), OSError("reset")])
def test_no_answer(wire: Wire, broken: Exception) -> None:
    assert isinstance(failure(wire, broken), errors.ConnectionFailed)


@pytest.mark.parametrize("broken", [httpx2.ReadError("reset"), OSError("reset")])
def test_a_stream_that_breaks_off(wire: Wire, broken: Exception) -> None:
    pieces = Pieces([b": nothing yet\n\n"], broken)
    server = Server(httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=pieces))
    client: Any = wire.adapter.connect(Endpoint(BASE, "key-1", server.http), wire.model)
    with pytest.raises(errors.ConnectionFailed):
        list(client.stream(HI))
    assert pieces.closed


def test_errors_of_our_tree_pass_from_the_transport(wire: Wire) -> None:
    ours = errors.CassetteError("c.yaml", "no exchange is left")
    assert failure(wire, ours) is ours


# --- surroundings -----------------------------------------------------------------------------------------------------


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


def test_closing_leaves_the_callers_http_client_open(wire: Wire) -> None:
    server = Server(httpx2.Response(200, json=wire.answer))
    client: Any = wire.adapter.connect(Endpoint(BASE, "key-1", server.http), wire.model)
    client.close()
    assert not server.http.is_closed


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


def test_importing_the_adapters_imports_no_sdk() -> None:
    sdks = sorted({wire.sdk for wire in WIRES.values()})
    packages = ", ".join(f"harness.adapters.{name.replace('-', '_')}" for name in WIRES)
    code = f"import sys, {packages}; sys.exit(', '.join({{*{sdks}}} & sys.modules.keys()) or 0)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
