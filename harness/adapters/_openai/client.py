"""The SDK as both adapters use it: a client, the events of its streams, and its failures as errors of the contract.

Bodies go out as `extra_body`, and answers are read as JSON: the SDK's walk over parameters costs a quarter of a run of
the suite, and its types a tenth, while each part has to keep the fields that they do not know anyway.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import httpx2
import openai
from openai._streaming import SSEDecoder

from harness.adapters._common import loads, retry_after, without_mark
from harness.contract.errors import ConnectionFailed, MalformedResponse, ProviderError, Unsupported, provider_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from harness.contract.model import JSON, ChatRequest, ChatResponse, Message, StreamEvent
    from harness.contract.protocols import Endpoint


DONE = "[DONE]"
"""The data of the event that ends a stream of Chat Completions."""

OMIT = openai.omit
"""Value of a required SDK parameter that leaves it out of the body."""


class Sdk(openai.OpenAI):
    """The SDK's client, without what it takes from the environment.

    Its HTTP client is that of the endpoint, or its own, which `release` closes.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._owned = httpx2.Client(follow_redirects=False, trust_env=False) if endpoint.http_client is None else None
        super().__init__(
            api_key=endpoint.api_key,
            admin_api_key="",
            organization="",  # keeps the SDK from looking; the header itself goes below
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
        """Close the HTTP client, unless it is the caller's."""
        if self._owned:
            self._owned.close()


class SdkClient(ABC):
    """A `StreamingChatClient` of one model on one endpoint. A subclass says what is sent and how it is read."""

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
        """Ask the model; see `harness.contract.protocols.ChatClient.chat`."""
        with failures_translated(self.api), self.call(request, streamed=False) as response:
            data, status = response.read(), response.status_code
        return self._decode(loads(data), status, request.messages)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient.stream`."""
        with failures_translated(self.api), self.call(request, streamed=True) as response:
            status = response.status_code
            if response.headers.get("content-type", "").startswith("application/json"):
                # an error in it says more than what is raised
                self._decode(loads(response.read()), status, request.messages)
                raise MalformedResponse("the answer is whole, although a stream was asked for", status)
            yield from self._events(_pieces(response), status, request.messages)

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self.sdk.release()

    @abstractmethod
    def call(self, request: ChatRequest, *, streamed: bool) -> AbstractContextManager[Any]:
        """The one request, which is sent when this is entered; its value is the SDK's response, not read yet."""


def _pieces(response: Any) -> Iterator[bytes]:
    """The body as it arrives. Raises `ConnectionFailed` where it breaks off."""
    try:
        yield from response.iter_bytes()
    except (httpx2.TransportError, OSError) as error:
        raise ConnectionFailed(f"the stream broke off: {error}") from error


def payloads(chunks: Iterable[bytes], status: int) -> Iterator[tuple[str | None, dict[str, JSON]]]:
    """The events of a stream, as the SDK's decoder finds them: name and JSON object.

    The SDK's `Stream` fails at an event without data, and keeps the end that `[DONE]` marks to itself
    (`test_spelling_and_cuts_make_no_difference`). Here `[DONE]` is an event of that name.

    Raises:
        MalformedResponse: an event is no JSON object.
    """
    try:
        for event in SSEDecoder().iter_bytes(without_mark(chunks)):
            if event.data.strip() == DONE:
                yield DONE, {}
            elif event.data:
                payload = loads(event.data)
                if not isinstance(payload, dict):
                    raise MalformedResponse("an event of the stream is no object", status)
                yield event.event, payload
    except UnicodeDecodeError as error:
        raise MalformedResponse(f"an event of the stream is not UTF-8: {error.reason}") from None


@contextmanager
def failures_translated(api: str) -> Generator[None]:
    """Translate the failures of the SDK and of the transport into errors of `harness.contract.errors`."""
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
    except OSError as error:  # of an injected transport: the SDK passes on what is none of its HTTP client's
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
        error.status_code,
        message,
        code=error.code or error.type,
        retry_after=retry_after(error.response.headers),
    )


_STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "bio_policy": 400,
    "misalignment_policy_violation": 400,
    "data_residency_mismatch": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "unsupported_country_region_territory": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 503,
    "server_is_overloaded": 503,
    "service_unavailable_error": 503,
}
"""The provider's word → the status that it would have come with, had nothing been sent before."""


def reported(error: JSON) -> ProviderError:
    """The error that an answer carries, by the status that it names itself (Groq, OpenRouter), else by its code.

    What says neither is a failure of the server: it had taken the request.
    """
    fields: dict[str, JSON] = error if isinstance(error, dict) else {"message": error}
    texts = [text for key in ("message", "detail") if isinstance(text := fields.get(key), str) and text]
    # an error event has its fields beside its own type, "error" (openai-responses-stream-error)
    codes = [
        said for key in ("code", "type") if isinstance(said := fields.get(key), str | int) and said not in ("", "error")
    ]
    return provider_error(
        next(filter(None, map(_status, (fields.get("status_code"), *codes))), 500),
        texts[0] if texts else "an error without a message",
        code=str(codes[0]) if codes else None,
    )


def _status(said: JSON) -> int | None:
    if isinstance(said, str):
        return _STATUSES.get(said) or (_status(int(said)) if re.fullmatch(r"[45]\d\d", said) else None)
    return said if isinstance(said, int) and 400 <= said < 600 else None


def arguments_in(text: JSON) -> dict[str, JSON] | None:
    """The arguments of a call, or `None` if the text is no JSON object."""
    try:
        arguments = loads(text) if isinstance(text, str) else None
    except MalformedResponse:
        return None
    return arguments if isinstance(arguments, dict) else None
