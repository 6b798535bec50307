"""The client, and the translation of the SDK's exceptions. Importing this module imports the SDK."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from harness.adapters._common import loads, retry_after, string
from harness.adapters.anthropic.requests import encode
from harness.adapters.anthropic.responses import error_details, read_response, read_stream
from harness.model.errors import (
    ChatError,
    ConnectionFailed,
    HarnessError,
    MalformedResponse,
    Unsupported,
    provider_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from harness.model.messages import ChatRequest, ChatResponse, StreamEvent
    from harness.model.protocols import Endpoint

TIMEOUT_SECONDS = 600.0
"""Timeout of each request. Without an explicit timeout, the SDK rejects a large `max_tokens` unless the request is
streamed.
"""

_PARAMETERS = MessageCreateParamsNonStreaming.__annotations__.keys()
"""Names of the SDK's parameters. All other fields, from the caller's `provider_metadata`, are sent as `extra_body`."""


class _IsolatedSdk(anthropic.Anthropic):
    """SDK client that ignores the headers in ANTHROPIC_CUSTOM_HEADERS."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._custom_headers = {}


class AnthropicClient:
    """A `StreamingChatClient` of one Claude model."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._model = model
        self._own_http = None if endpoint.http_client else httpx2.Client(follow_redirects=False, trust_env=False)
        self._sdk = _IsolatedSdk(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            http_client=endpoint.http_client or self._own_http,
            max_retries=0,
            open_telemetry=False,
        )

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.model.protocols.ChatClient.chat`."""
        create: Callable[..., anthropic.APIResponse[Any]] = self._sdk.messages.with_raw_response.create
        with _failures_translated():
            raw = create(**self._parameters(request))
        return read_response(loads(raw.http_response.content))

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.model.protocols.StreamingChatClient.stream`."""
        create: Callable[..., AbstractContextManager[anthropic.APIResponse[Any]]]
        create = self._sdk.messages.with_streaming_response.create
        with _failures_translated(), create(**self._parameters(request), stream=True) as raw:
            yield from read_stream(raw.iter_bytes())

    def _parameters(self, request: ChatRequest) -> dict[str, Any]:
        body = encode(request, self._model)
        headers = body.pop("extra_headers", None)
        unknown = {name: body.pop(name) for name in body.keys() - _PARAMETERS}
        return {**body, "extra_body": unknown, "extra_headers": headers, "timeout": TIMEOUT_SECONDS}

    def close(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        if self._own_http is not None:
            self._own_http.close()


@contextmanager
def _failures_translated() -> Generator[None]:
    try:
        yield
    except (anthropic.AnthropicError, httpx2.HTTPError, OSError) as error:
        raise translate_error(error) from error
    except UnicodeEncodeError as error:
        raise Unsupported("anthropic", "a lone surrogate in a text", "UTF-8 has no code for it") from error


def translate_error(error: anthropic.AnthropicError | httpx2.HTTPError | OSError) -> HarnessError:
    """Translate an exception of the SDK or the transport to a `HarnessError`.

    The transport's own exceptions occur only while a body is being streamed.
    """
    if isinstance(error, anthropic.APIStatusError):
        return _status_error(error)
    if isinstance(error, anthropic.APIConnectionError):
        # the SDK wraps all exceptions of the transport, including those that the harness's own transport raises
        cause = error.__cause__
        return cause if isinstance(cause, HarnessError) else ConnectionFailed(str(cause or error))
    if isinstance(error, (httpx2.HTTPError, OSError)):
        return ConnectionFailed(str(error) or type(error).__name__)
    return MalformedResponse(str(error))


def _status_error(error: anthropic.APIStatusError) -> ChatError:
    if 300 <= error.status_code < 400:
        return ConnectionFailed(f"redirected with HTTP {error.status_code}, which is refused")
    details = error_details(error.body)
    message, code = details.get("message"), details.get("type")
    return provider_error(
        error.status_code,
        message if isinstance(message, str) else error.response.text[:500],
        code=string(code),
        retry_after=retry_after(error.response.headers),
    )
