"""The client: one chat, whole or streamed, is one request through the SDK, answered by the raw body."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2

from harness.adapters.anthropic import decode, encode
from harness.adapters.anthropic.failures import translated
from harness.adapters.anthropic.stream import answer
from harness.contract.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from harness.contract.model import ChatRequest, ChatResponse, StreamEvent
    from harness.contract.protocols import Endpoint

TIMEOUT = 600.0
"""Seconds. Given with each request, since the SDK else refuses large `max_tokens` without streaming."""


class _IsolatedSdk(anthropic.Anthropic):
    """The SDK's client without ANTHROPIC_CUSTOM_HEADERS, which it reads whatever it is given."""

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
        """Ask the model; see `harness.contract.protocols.ChatClient`."""
        create: Callable[..., anthropic.APIResponse[Any]] = self._sdk.messages.with_raw_response.create
        with _failures_translated():
            raw = create(**self._parameters(request))
        return decode.response(raw.http_response.content)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient`."""
        # The bytes, not the SDK's events: those take a cut stream for whole and lose what they do not know
        # (anthropic-stream-cut-unnoticed).
        create: Callable[..., AbstractContextManager[anthropic.APIResponse[Any]]]
        create = self._sdk.messages.with_streaming_response.create
        with _failures_translated(), create(**self._parameters(request), stream=True) as raw:
            yield from answer(raw.iter_bytes())

    def _parameters(self, request: ChatRequest) -> dict[str, Any]:
        body = encode.body(request, self._model)
        # Beside the SDK's own parameters, not in them: it would walk them for keys to rename, of which a body in the
        # wire's words has none, and that takes longer than all the rest of the request.
        required = {"model": body["model"], "max_tokens": body["max_tokens"], "messages": ()}
        return {**required, "extra_body": body, "timeout": TIMEOUT}

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        if self._own_http is not None:
            self._own_http.close()


@contextmanager
def _failures_translated() -> Generator[None]:
    try:
        yield
    except (anthropic.AnthropicError, httpx2.HTTPError, OSError) as error:
        raise translated(error) from error
    except UnicodeEncodeError as error:
        raise Unsupported("anthropic", "a lone surrogate in a text", "UTF-8 has no code for it") from error
