"""The wire format of an API, for tests of all adapters."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from harness.model.errors import ProviderError, Unsupported
from harness.model.messages import JSON, ChatRequest, ChatResponse, Message, NamedTool, Role, StopReason, Tool, Usage
from harness.model.protocols import Adapter
from tests.adapters.streamed import Server

WEATHER = Tool("get_weather", "Weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}})
CHOICES = ("auto", "none", "required", NamedTool("get_weather"))


@dataclass(frozen=True)
class Says:
    """A text, in the pieces in which a stream brings it."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Calls:
    """A call, with the text of its arguments in the pieces in which a stream brings it."""

    id: str
    name: str
    pieces: tuple[str, ...] = ("{}",)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def arguments(self) -> Any:
        """The arguments where the wire has them as JSON; what is no JSON as the text that it is."""
        try:
            return json.loads(self.text or "{}")
        except ValueError:
            return self.text


def says(*pieces: str) -> Says:
    return Says(pieces)


def calls(call_id: str, name: str, *pieces: str) -> Calls:
    return Calls(call_id, name, pieces or ("{}",))


Said = Says | Calls


def asked(*messages: Message, model: str = "", **fields: Any) -> ChatRequest:
    """A request, of the client's model and with "hi" unless it says otherwise."""
    return ChatRequest(model, messages or (Message.user("hi"),), **fields)


def said(*parts: Any) -> Message:
    return Message(Role.ASSISTANT, parts)


def user(*parts: Any) -> Message:
    return Message(Role.USER, parts)


class Wire(ABC):
    """An API in the tests: responses of its server, and readings of its requests."""

    adapter: ClassVar[Adapter]
    model: ClassVar[str]
    sdk: ClassVar[str]
    """The module that the SDK is."""
    url: ClassVar[str]
    stream_url: ClassVar[str]
    """Path of requests after the base URL."""
    headers: ClassVar[dict[str, Any]]
    """Headers of every request."""
    smallest: ClassVar[dict[str, Any]]
    """The body of a request with the message "hi" only."""
    streamed: ClassVar[dict[str, Any]]
    """Additional fields of a streamed request."""
    ambient: ClassVar[Sequence[str]]
    """Variables of the environment that the SDK would read."""
    choices: ClassVar[Sequence[JSON]]
    """`CHOICES` as the wire has them."""
    stops: ClassVar[dict[str | None, StopReason]]
    """The API's words for why the model stopped."""
    counted: ClassVar[tuple[dict[str, Any], Usage]]
    """Counts of tokens, all that the API has, and what they are."""
    malformed: ClassVar[Sequence[bytes]]
    """Bodies that are no response of this API."""
    broken_arguments: ClassVar[Sequence[str]] = ("[]", '"text"')
    """Arguments that are no JSON object."""
    foreign_ids: ClassVar[Sequence[str]] = ()
    """Ids that the API refuses."""
    uploaded: ClassVar[dict[str, Any]]
    """Metadata of a file that the provider already has."""
    uploaded_part: ClassVar[dict[str, Any]]
    """The part that names it."""
    traffic: ClassVar[Sequence[str]]
    """Folders of recorded traffic."""
    failures: ClassVar[Sequence[tuple[bytes, ProviderError]]]
    """Events of a stream that carry an error, and the error."""
    no_streams: ClassVar[Sequence[bytes]]
    """Bodies that are no stream of this API."""
    twistable: ClassVar[Sequence[dict[str, Any]]] = ()
    """Further events that a stream may hold."""

    # Responses.

    @abstractmethod
    def whole(self, *said: Said, stop: str | None = "", usage: Any = None) -> dict[str, Any]:
        """Return the body of a response. `stop` is the API's stop reason; "" means the one that fits the content."""

    @abstractmethod
    def payloads(self, *said: Said, stop: str | None = "", usage: Any = None) -> list[dict[str, Any]]:
        """The events of the same answer in a stream."""

    @abstractmethod
    def refusal(self, status: int) -> dict[str, Any]:
        """The body of a refusal that says "No." by the code `some_error`."""

    def event(self, payload: dict[str, Any]) -> bytes:
        """Return an event of a stream."""
        return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()

    def stream(self, *said: Said, stop: str | None = "", usage: Any = None) -> bytes:
        """The body of a streamed answer."""
        return b"".join(map(self.event, self.payloads(*said, stop=stop, usage=usage)))

    # Requests.

    @abstractmethod
    def instructed(self, text: str) -> dict[str, Any]:
        """The smallest body with this system prompt."""

    @abstractmethod
    def choice(self, body: dict[str, Any]) -> JSON:
        """The choice of tools, `None` without one."""

    @abstractmethod
    def roles(self, body: dict[str, Any]) -> list[str]:
        """Return the role of each message."""

    @abstractmethod
    def called(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        """Id and arguments of each call."""

    @abstractmethod
    def answered(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        """Return id and content of each result, with JSON texts parsed."""

    # Requests through the adapter.

    def sends(self, request: ChatRequest) -> dict[str, Any]:
        """The body of this request."""
        server = Server(json.dumps(self.whole(says("Ahoy"))).encode())
        self.ask(server, request)
        return server.body

    def refuses(self, request: ChatRequest, match: str | None = None) -> Unsupported:
        """The refusal of a request, of which nothing is sent."""
        server = Server(json.dumps(self.whole(says("Ahoy"))).encode())
        with pytest.raises(Unsupported, match=match) as caught:
            self.ask(server, request)
        assert server.requests == []
        return caught.value

    def answers(self, body: Any, *history: Message) -> ChatResponse:
        """Return the adapter's reading of a body, the response to a message after this history."""
        server = Server(body if isinstance(body, bytes) else json.dumps(body).encode())
        return self.ask(server, asked(*history, Message.user("hi")))

    def ask(self, server: Server, request: ChatRequest) -> ChatResponse:
        return server.client(self.adapter, self.model).chat(request)

    def sent(self, *messages: Message, **fields: Any) -> dict[str, Any]:
        """The body of a request."""
        return self.sends(asked(*messages, **fields))

    def received(self, *said: Said, history: Sequence[Message] = (), **options: Any) -> ChatResponse:
        """Return the adapter's reading of a response."""
        return self.ask(Server(json.dumps(self.whole(*said, **options)).encode()), asked(Message.user("hi"), *history))


def parsed(text: Any) -> Any:
    """JSON out of a text; what is none as it is."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text
