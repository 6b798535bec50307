"""The client: one chat is one request through the SDK, answered by the raw body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import httpx2

from harness.adapters.anthropic import decode, encode
from harness.adapters.anthropic.failures import translated
from harness.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model import ChatRequest, ChatResponse
    from harness.protocols import Endpoint

TIMEOUT = 600.0
"""Seconds. Given with each request, since the SDK else refuses large `max_tokens` without streaming."""


class _IsolatedSdk(anthropic.Anthropic):
    """The SDK's client without ANTHROPIC_CUSTOM_HEADERS, which it reads whatever it is given."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._custom_headers = {}


class AnthropicClient:
    """A `ChatClient` of one Claude model."""

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
        """Ask the model; see `harness.protocols.ChatClient`."""
        body = encode.body(request, self._model)
        create: Callable[..., anthropic.APIResponse[Any]] = self._sdk.messages.with_raw_response.create
        try:
            # Beside the SDK's own parameters, not in them: it would walk them for keys to rename, of which a body in
            # the wire's words has none, and that takes longer than all the rest of the request.
            raw = create(
                model=body["model"], max_tokens=body["max_tokens"], messages=(), extra_body=body, timeout=TIMEOUT
            )
        except anthropic.AnthropicError as error:
            raise translated(error) from error
        except UnicodeEncodeError as error:
            raise Unsupported("anthropic", "a lone surrogate in a text", "UTF-8 has no code for it") from error
        return decode.response(raw.http_response.content)

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        if self._own_http is not None:
            self._own_http.close()
