"""The one door through which the exceptions of SDK and transport become the harness's."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

from harness.contract.errors import (
    ChatError,
    ConnectionFailed,
    MalformedResponse,
    ProviderError,
    Unsupported,
    provider_error,
)
from harness.contract.model import JSON

if TYPE_CHECKING:
    import httpx2
    from google.genai import errors


def translated(error: errors.APIError) -> ChatError:
    """What an answer other than HTTP 200 means here."""
    if 300 <= error.code < 400:
        return ConnectionFailed(f"redirected with HTTP {error.code}, which is refused")
    if error.code < 300:
        return MalformedResponse(f"HTTP {error.code} is no answer", error.code)
    untyped = cast("Any", error)  # its annotations name optional packages
    body = _object(untyped.details)
    text = str(body.get("message") or "")[:500]
    return _provider_error(error.code, _object(body.get("error")), text, untyped.response.headers)


def in_stream(error: JSON) -> ProviderError:
    """The `error` of a chunk. It comes under HTTP 200: its code is the status that it stands for."""
    details = _object(error)
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return _provider_error(status, details, json.dumps(error)[:500], {})


def _provider_error(status: int, details: Mapping[str, Any], text: str, headers: Mapping[str, str]) -> ProviderError:
    """The error that `details` describe; `text` is its message where they have none."""
    message, code = details.get("message"), details.get("status")
    return provider_error(
        status,
        message if isinstance(message, str) else text,
        code=code if isinstance(code, str) else None,
        retry_after=_retry_after(headers, details),
    )


def connection_failed(error: httpx2.HTTPError | OSError) -> ConnectionFailed:
    """What a transport's failure means here."""
    return ConnectionFailed(str(error) or type(error).__name__)


def refused_by_sdk(error: ValueError) -> ChatError:
    """What the SDK's own refusals mean here: of an answer that is no text, or of a request before it is sent."""
    if isinstance(error, UnicodeDecodeError):
        return MalformedResponse("the body is not UTF-8")
    return Unsupported("gemini", "the request", str(error))


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Seconds to wait: from the header `retry-after`, else from a RetryInfo in the body ("34.5s")."""
    if "retry-after" in headers:
        return _seconds(headers["retry-after"])
    entries = details.get("details")
    for entry in cast("list[object]", entries) if isinstance(entries, list) else []:
        delay = _object(entry).get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


def _seconds(header: str) -> float | None:
    try:
        number = float(header)
    except ValueError:
        try:
            return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
        except (ValueError, OverflowError):  # no date, or one of a year that no clock has
            return None
    return number if math.isfinite(number) and number >= 0 else None
