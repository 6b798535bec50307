"""The one door through which the SDK's exceptions become the harness's."""

from __future__ import annotations

import json
import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

import anthropic
import httpx2

from harness.contract.errors import (
    ChatError,
    ConnectionFailed,
    HarnessError,
    MalformedResponse,
    ProviderError,
    provider_error,
)
from harness.contract.model import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses that the API's error types come with."""


def translated(error: anthropic.AnthropicError | httpx2.HTTPError | OSError) -> HarnessError:
    """What an exception of the SDK means here, or one of the transport behind the first bytes of an answer."""
    if isinstance(error, anthropic.APIStatusError):
        return _status_error(error)
    if isinstance(error, anthropic.APIConnectionError):
        # The SDK wraps whatever the transport raises; an injected transport may raise errors of our own tree.
        cause = error.__cause__
        return cause if isinstance(cause, HarnessError) else ConnectionFailed(str(cause or error))
    if isinstance(error, (httpx2.HTTPError, OSError)):
        return ConnectionFailed(str(error) or type(error).__name__)
    return MalformedResponse(str(error))


def in_stream(event: dict[str, JSON]) -> ProviderError:
    """The error that an event carries. It comes under HTTP 200 (anthropic-stream-error): its type says which status it
    stands for."""
    details = _error_details(event)
    message, code = details.get("message"), details.get("type")
    return provider_error(
        _STATUSES.get(code, 500) if isinstance(code, str) else 500,
        message if isinstance(message, str) else json.dumps(event)[:500],
        code=code if isinstance(code, str) else None,
    )


def _status_error(error: anthropic.APIStatusError) -> ChatError:
    if 300 <= error.status_code < 400:
        return ConnectionFailed(f"redirected with HTTP {error.status_code}, which is refused")
    details = _error_details(error.body)
    message, code = details.get("message"), details.get("type")
    return provider_error(
        error.status_code,
        message if isinstance(message, str) else error.response.text[:500],
        code=code if isinstance(code, str) else None,
        retry_after=_retry_after(error.response.headers),
    )


def _error_details(body: object) -> dict[str, Any]:
    """The inner object of `{"type": "error", "error": {"type", "message"}}`, or nothing."""
    details = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms`, or `retry-after` as seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):  # no date, or one of a year that no clock has
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
