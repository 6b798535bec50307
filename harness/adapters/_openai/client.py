"""Client, stream decoding and error translation for both OpenAI adapters, built on the SDK.

Requests use `extra_body` and responses are read as JSON. The SDK's parameter conversion and typed models are slow, and
the adapters keep unknown fields themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import httpx2
import openai
from openai._streaming import SSEDecoder

from harness.adapters._common import loads, retry_after, without_mark
from harness.adapters._openai.answers import DONE
from harness.model.errors import ConnectionFailed, MalformedResponse, ProviderError, Unsupported, provider_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from harness.model.messages import JSON, ChatRequest, ChatResponse, Message, StreamEvent
    from harness.model.protocols import Endpoint


OMIT = openai.omit
"""Value that leaves a required SDK parameter out of the body."""


class Sdk(openai.OpenAI):
    """SDK client that ignores environment settings and uses the endpoint's HTTP client, if it has one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._owned = httpx2.Client(follow_redirects=False, trust_env=False) if endpoint.http_client is None else None
        super().__init__(
            api_key=endpoint.api_key,
            admin_api_key="",
            organization="",  # overrides the environment; the header is removed below
            project="",
            webhook_secret="",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=self._owned or cast("httpx2.Client", endpoint.http_client),
        )
        self.organization = None
        self.project = None
        self._custom_headers = {}

    def release(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        if self._owned:
            self._owned.close()


class SdkClient(ABC):
    """Base class for the chat clients of both APIs. A subclass sends the request."""

    api: ClassVar[str]

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        decode: Callable[[JSON, int, Sequence[Message]], ChatResponse],
        events: Callable[[Iterable[bytes], int, Sequence[Message]], Iterator[StreamEvent]],
    ) -> None:
        self.model = model
        self.sdk = Sdk(endpoint)
        self._decode, self._events = decode, events

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.model.protocols.ChatClient.chat`."""
        with failures_translated(self.api), self.call(request, streamed=False) as response:
            data, status = response.read(), response.status_code
        return self._decode(loads(data), status, request.messages)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.model.protocols.StreamingChatClient.stream`."""
        with failures_translated(self.api), self.call(request, streamed=True) as response:
            status = response.status_code
            if response.headers.get("content-type", "").startswith("application/json"):
                # raises the error in the body, which has more detail
                self._decode(loads(response.read()), status, request.messages)
                raise MalformedResponse("the response is not a stream, although one was requested", status)
            yield from self._events(_body(response), status, request.messages)

    def close(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        self.sdk.release()

    @abstractmethod
    def call(self, request: ChatRequest, *, streamed: bool) -> AbstractContextManager[Any]:
        """Send the request and return a context manager that yields the SDK's unread response."""


def _body(response: Any) -> Iterator[bytes]:
    """Yield the body as it arrives. Raises `ConnectionFailed` if the connection breaks."""
    try:
        yield from response.iter_bytes()
    except (httpx2.TransportError, OSError) as error:
        raise ConnectionFailed(f"the stream broke off: {error}") from error


def payloads(chunks: Iterable[bytes], status: int) -> Iterator[tuple[str | None, dict[str, JSON]]]:
    """Decode an SSE stream with the SDK's decoder and yield the name and the JSON object of each event.

    `[DONE]` is yielded with an empty object. The SDK's `Stream` fails at an event without data and hides `[DONE]`
    (`test_spelling_and_cuts_make_no_difference`).

    Raises:
        MalformedResponse: an event is not a JSON object.
    """
    try:
        for event in SSEDecoder().iter_bytes(without_mark(chunks)):
            if event.data.strip() == DONE:
                yield DONE, {}
            elif event.data:
                payload = loads(event.data)
                if not isinstance(payload, dict):
                    raise MalformedResponse("an event of the stream is not an object", status)
                yield event.event, payload
    except UnicodeDecodeError as error:
        raise MalformedResponse(f"an event of the stream is not UTF-8: {error.reason}") from None


@contextmanager
def failures_translated(api: str) -> Generator[None]:
    """Translate SDK and transport exceptions into `harness.model.errors`."""
    try:
        yield
    except openai.APIStatusError as error:
        if error.status_code < 400:
            raise ConnectionFailed(f"HTTP {error.status_code}, a redirect, which is not followed") from error
        raise _provider_error(error) from error
    except openai.APIConnectionError as error:
        raise ConnectionFailed(str(error.__cause__ or error)) from error
    except httpx2.TimeoutException as error:  # raised by the transport while the body was read
        raise ConnectionFailed(f"no end of the answer: {error}") from error
    except httpx2.RequestError as error:
        raise MalformedResponse(f"the body was cut: {error}") from error
    except OSError as error:  # the SDK passes on other exceptions of an injected transport
        raise ConnectionFailed(str(error) or type(error).__name__) from error
    except UnicodeEncodeError as error:
        raise Unsupported(api, "text", f"it cannot be written as UTF-8: {error.reason}") from error


def _provider_error(error: openai.APIStatusError) -> ProviderError:
    message = error.message
    match error.body:
        case {"message": str(text)} | str(text) if text:
            message = text
        case _:
            pass
    return provider_error(
        error.status_code, message, code=error.code or error.type, retry_after=retry_after(error.response.headers)
    )
