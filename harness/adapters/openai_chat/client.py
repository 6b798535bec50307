"""The SDK: how a body is sent, and what its failures mean here. Imported only when a client is wanted."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

import httpx2
import openai

from harness.adapters.openai_chat.metadata import API, merged, own
from harness.adapters.openai_chat.request import encode
from harness.adapters.openai_chat.response import decode
from harness.adapters.openai_chat.stream import stream_events
from harness.contract.errors import ConnectionFailed, MalformedResponse, ProviderError, Unsupported, provider_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from contextlib import AbstractContextManager

    from harness.contract.model import JSON, ChatRequest, ChatResponse, StreamEvent
    from harness.contract.protocols import Endpoint


class _Sdk(openai.OpenAI):
    """The SDK's client, without what it takes from the environment (wire-facts 7.1)."""

    def __init__(self, endpoint: Endpoint, http_client: httpx2.Client) -> None:
        super().__init__(
            api_key=endpoint.api_key,
            admin_api_key="",
            organization="",  # keeps the SDK from looking; the header itself goes below
            project="",
            webhook_secret="",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=http_client,
        )
        self.organization = None
        self.project = None
        self._custom_headers = {}


class Client:
    """A `ChatClient` of one model on one endpoint."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._model = model
        self._max_tokens_field = endpoint.max_tokens_field or "max_completion_tokens"
        self._owned = httpx2.Client(follow_redirects=False, trust_env=False) if endpoint.http_client is None else None
        sdk = _Sdk(endpoint, self._owned or cast("httpx2.Client", endpoint.http_client))
        # the streaming variant is the one whose body can be read as it came
        self._create: Callable[..., AbstractContextManager[Any]] = sdk.chat.completions.with_streaming_response.create
        self._embed: Callable[..., AbstractContextManager[Any]] = sdk.embeddings.with_streaming_response.create

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.ChatClient.chat`."""
        with _failures(), self._sent(request, {}) as response:
            data: bytes = response.read()
            status: int = response.status_code
        return decode(data, status, request.messages)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient.stream`."""
        # without the option there are no counts of tokens at all (OC-P3)
        switches: dict[str, JSON] = {"stream": True, "stream_options": {"include_usage": True}}
        with _failures(), self._sent(request, switches) as response:
            status: int = response.status_code
            if response.headers.get("content-type", "").startswith("application/json"):
                decode(response.read(), status, request.messages)  # an error in it says more than what is raised below
                raise MalformedResponse("the answer is whole, although a stream was asked for", status)
            yield from stream_events(_received(response), status, request.messages)

    def embedded(self, body: dict[str, JSON]) -> tuple[bytes, int]:
        """The body and the status of the answer to one request for embeddings."""
        # The SDK asks for base64 unless told otherwise. Its own parameters are overridden, as in `_sent`.
        call = self._embed(model=str(body["model"]), input=(), encoding_format="float", extra_body=body)
        with _failures(), call as response:
            return response.read(), response.status_code

    def _sent(self, request: ChatRequest, switches: dict[str, JSON]) -> AbstractContextManager[Any]:
        """The response to the one request, its body not read yet."""
        body: dict[str, Any] = encode(request, request.model or self._model, self._max_tokens_field) | switches
        whole = merged(body, own(request.provider_metadata))
        # Beside the SDK's own parameters, not in them: it would walk them for keys to rename, of which a body in the
        # wire's words has none, and that takes longer than all the rest of the request.
        return self._create(model=body["model"], messages=(), extra_body=whole)

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        if self._owned:
            self._owned.close()


def _received(response: Any) -> Iterator[bytes]:
    """The body as it arrives."""
    try:
        yield from response.iter_bytes()
    except httpx2.TransportError as error:
        raise ConnectionFailed(f"the stream broke off: {error}") from error


@contextmanager
def _failures() -> Generator[None]:
    """The one door through which failures of the SDK come: as errors of `harness.contract.errors`."""
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
    except UnicodeEncodeError as error:
        raise Unsupported(API, "text", f"it cannot be written as UTF-8: {error.reason}") from error


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
        retry_after=_retry_after(error.response.headers),
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: `retry-after-ms`, else `retry-after`, which is seconds or a date."""
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        else:
            seconds = _seconds(headers.get("retry-after", ""))
    except (ValueError, OverflowError):  # neither, or a date in a year that no clock has
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
