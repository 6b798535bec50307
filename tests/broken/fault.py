"""What a deliberately broken adapter is: a shipped one, wrapped at the contract or at the transport."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx2

from harness.model import ChatRequest, ChatResponse, Message, Part
from harness.protocols import Adapter, ChatClient, Endpoint
from harness.results import Blame, Finding, Severity
from harness.stages import Stages
from tests.broken.places import Place
from tests.stages import InProcess

ALL = ("anthropic", "openai-chat", "openai-responses", "gemini-3", "gemini-2.5")
WITH_IDS = ("anthropic", "openai-chat", "openai-responses", "gemini-3")
OPENAI = ("openai-chat", "openai-responses")
GEMINI = ("gemini-3", "gemini-2.5")
THINKING = ("anthropic", "openai-responses", "gemini-3", "gemini-2.5")

Wrap = Callable[[Adapter], Adapter]


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to be wrong, the scenario that shows it, and what has to be said about it.

    `pointer` is where the finding has to lead, in the request or response of exchange `exchange` (`None`: the finding
    is about the whole cell). `targets` are those on which the fault can be expressed, `stages` what it is played on.
    """

    name: str
    wrap: Wrap
    scenario: str
    rule: str
    pointer: Place | None
    exchange: int | None = 1
    targets: tuple[str, ...] = ALL
    blame: Blame = Blame.ADAPTER
    severity: Severity = Severity.ERROR
    stages: Callable[[], Stages] = InProcess

    def found_in(self, findings: Iterable[Finding], api: str) -> list[Finding]:
        """The findings that say what has to be said, with the right blame and place."""
        return [
            finding
            for finding in findings
            if (finding.rule, finding.blame, finding.severity) == (self.rule, self.blame, self.severity)
            and finding.exchange == self.exchange
            and self._leads_there(finding, api)
        ]

    def _leads_there(self, finding: Finding, api: str) -> bool:
        if self.pointer is None:
            return finding.pointer is None
        return finding.pointer is not None and re.fullmatch(self.pointer.pattern(api), finding.pointer) is not None


class Wrapped:
    """A client between the caller and the shipped one, faithful as it stands."""

    def __init__(self, client: ChatClient) -> None:
        self.client = client

    def ask(self, request: ChatRequest) -> ChatRequest:
        return request

    def answer(self, response: ChatResponse) -> ChatResponse:
        return response

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self.answer(self.client.chat(self.ask(request)))

    def close(self) -> None:
        self.client.close()


def client(make: Callable[[ChatClient], ChatClient]) -> Wrap:
    """At the contract: the shipped client is wrapped by another one."""

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            return make(cast("ChatClient", adapter.connect(endpoint, model)))

        return replace(adapter, connect=connect)

    return wrap


def asks(edit: Callable[[ChatRequest], ChatRequest]) -> Wrap:
    """At the contract: another request is encoded than the one that was given."""

    class Asking(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            return edit(request)

    return client(Asking)


def answers(edit: Callable[[ChatResponse], ChatResponse]) -> Wrap:
    """At the contract: another response is handed on than the one that was decoded."""

    class Answering(Wrapped):
        def answer(self, response: ChatResponse) -> ChatResponse:
            return edit(response)

    return client(Answering)


def sends(edit: Callable[[str, dict[str, Any]], Any], *, times: int = 1) -> Wrap:
    """At the transport: `edit(api, body)` changes the JSON body, or gives another one, and it is sent `times` times."""

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            inner = cast("httpx2.Client", endpoint.http_client)
            outer = httpx2.Client(transport=_Rewriting(inner, adapter.api, edit, times), trust_env=False)
            return cast("ChatClient", adapter.connect(replace(endpoint, http_client=outer), model))

        return replace(adapter, connect=connect)

    return wrap


class _Rewriting(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, api: str, edit: Callable[[str, dict[str, Any]], Any], times: int) -> None:
        self._inner = inner
        self._api = api
        self._edit = edit
        self._times = times

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        edited = self._edit(self._api, body)
        content = json.dumps(body if edited is None else edited, ensure_ascii=False).encode()
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        responses = [
            self._inner.request(request.method, request.url, headers=headers, content=content)
            for _ in range(self._times)
        ]
        first = responses[0]
        return httpx2.Response(first.status_code, headers=first.headers, content=first.content)


def edited_parts(request: ChatRequest, edit: Callable[[Part], Part | None]) -> ChatRequest:
    """The request with each part of its history edited; `None` drops the part, and a message that has none left."""
    messages = [edited_message(message, edit) for message in request.messages]
    return replace(request, messages=tuple(message for message in messages if message.parts))


def edited_message(message: Message, edit: Callable[[Part], Part | None]) -> Message:
    return replace(message, parts=tuple(part for old in message.parts if (part := edit(old)) is not None))


def asks_parts(edit: Callable[[Part], Part | None]) -> Wrap:
    return asks(lambda request: edited_parts(request, edit))


def asks_messages(edit: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> Wrap:
    return asks(lambda request: replace(request, messages=edit(request.messages)))


def answers_parts(edit: Callable[[Part], Part | None]) -> Wrap:
    return answers(lambda response: replace(response, message=edited_message(response.message, edit)))
