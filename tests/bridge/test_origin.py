"""Findings about an exception: its origin and line, before and after a request."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from harness import bridge
from harness.model.messages import ChatRequest, ChatResponse
from harness.model.protocols import Adapter, Endpoint
from harness.results import Finding
from tests.broken.running import run_cell

LIBRARY = """
import json

def complete(post, model):
    if model.startswith("gpt"):
        raise ValueError(f"unknown model {model}")
    return json.loads(post("{}"))

def chunks():
    yield from []
    raise ValueError("no chunks")
"""

HERE = re.escape("tests/bridge/test_origin.py")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A library that is installed, as far as a traceback shows."""
    path = tmp_path / "site-packages" / "acme_llm" / "main.py"
    path.parent.mkdir(parents=True)
    path.write_text(LIBRARY)
    names: dict[str, Any] = {}
    exec(compile(LIBRARY, str(path), "exec"), names)  # noqa: S102 - the text above
    return SimpleNamespace(**names)


@dataclass
class Client:
    """A wrapper: it has the library answer, and the bridge translate what that raises."""

    library: Any
    http: httpx2.Client
    url: str
    asked: str

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            match self.asked:
                case "wrapper":
                    return cast("ChatResponse", {}["model"])
                case "bridge":
                    return bridge.response({"choices": []}, request)
                case "chunks":
                    return cast("ChatResponse", list(bridge.events(self.library.chunks(), request))[-1])
                case model:
                    return bridge.response(self.library.complete(self.post, model), request)

    def post(self, _: str) -> str:
        response = self.http.post(f"{self.url}/chat/completions", json=json.loads(BODY))
        assert response.is_success
        return "<html>"

    def close(self) -> None: ...


BODY = '{"model": "gpt-5.1", "messages": [{"role": "user", "content": "How cold is it in Reykjavik? Use the tool."}]}'


def message(library: Any, asked: str) -> str:
    """Return the message of `chat-failure` for a chat of the wrapper."""
    return failure(library, asked).message


def failure(library: Any, asked: str) -> Finding:
    """Return the finding of `chat-failure` for a chat of the wrapper."""

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, _model: str) -> Client:
            return Client(library, cast("httpx2.Client", endpoint.http_client), endpoint.base_url, asked)

        return replace(adapter, connect=connect)

    (found,) = [each for each in run_cell("call-single", "openai-chat", wrap).findings if each.rule == "chat-failure"]
    return found


def test_an_early_exception_keeps_its_class_and_line(library: Any) -> None:
    said = message(library, "gpt-5.1")

    at = rf"acme_llm/main\.py, line 6, called in {HERE}, line \d+"
    assert re.fullmatch(
        rf"the library acme_llm raises ValueError before anything is sent \({at}\): unknown model gpt-5\.1", said
    )


def test_the_line_in_the_wrapper_is_named_through_the_bridge(library: Any) -> None:
    said = message(library, "chunks")

    assert re.fullmatch(
        rf"the library acme_llm raises ValueError before anything is sent \(acme_llm/main\.py, line 11, "
        rf"called in {HERE}, line \d+\): no chunks",
        said,
    )


def test_what_a_library_cannot_read_is_a_malformed_response(library: Any) -> None:
    said = message(library, "other")

    assert said.startswith(
        "the library acme_llm raises JSONDecodeError (as MalformedResponse), although the answer is valid "
        "(acme_llm/main.py, line 7, called in tests/bridge/test_origin.py, line "
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("wrapper", r"the wrapper raises KeyError before anything is sent \({}, line \d+\): 'model'"),
        (
            "bridge",
            r"the bridge \(harness\.bridge\) raises MalformedResponse before .* \(harness/bridge/completions\.py, .*",
        ),
    ],
)
def test_what_a_wrapper_and_the_bridge_raise_is_said_of_them(library: Any, asked: str, said: str) -> None:
    text = message(library, asked)

    assert re.fullmatch(said.replace("{}", HERE), text)
    assert "library" not in text


def test_a_connection_that_fails_says_that_nothing_came_in() -> None:
    def elsewhere(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> Any:
            return adapter.connect(replace(endpoint, base_url="http://127.0.0.1:9", http_client=None), model)

        return replace(adapter, connect=connect)

    (found,) = [
        each for each in run_cell("call-single", "openai-chat", elsewhere).findings if each.rule == "chat-failure"
    ]

    assert " before anything is sent" in found.message
    assert found.message.endswith("no request arrived at `endpoint.base_url`: does the client use it?")


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [("wrapper", "fix the line that the message names"), ("bridge", "harness cannot call the client")],
)
def test_the_user_is_not_asked_to_correct_the_bridge(library: Any, asked: str, remedy: str) -> None:
    assert str(failure(library, asked).remedy).startswith(remedy)
