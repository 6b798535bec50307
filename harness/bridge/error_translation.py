"""Translation of library exceptions to the errors of `harness.model.errors`, by status or by class name."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from harness.model.errors import ChatError, ConnectionFailed, MalformedResponse, provider_error

_CONNECTION_ERRORS = (
    *("APIConnectionError", "APITimeoutError", "TransportError", "ConnectionError"),
    *("ConnectError", "ReadError", "TimeoutException", "TimeoutError"),
)
_CODES = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
"""Error code inside a stream (where there is no HTTP status) → HTTP status."""


@contextmanager
def failures() -> Generator[None, None, None]:
    """Translate exceptions of a library into the errors of `harness.model.errors`.

    The whole chain of causes is searched:

    - A connection error without a status becomes `ConnectionFailed`.
    - An exception with a status becomes the provider's error. The status is read from the exception or its response,
      from `provider_status_code`, `status_code`, `status`, `http_status` or `code`.
    - A `ValueError` in the code that parsed the response becomes `MalformedResponse`.
    - Any other exception passes unchanged. It is a crash, which reports show with its traceback.
    """
    try:
        yield
    except ChatError:
        raise
    except Exception as error:
        known = _translate(error)
        if known is None:
            raise
        raise known from error


def _translate(error: BaseException) -> ChatError | None:
    chain = list(_chain(error))
    if any(_is_connection_error(each) and _status(each) is None for each in chain):
        return ConnectionFailed(str(error))
    for each in chain:
        status = _status(each)
        if status is not None and status < 400:
            return ConnectionFailed(f"redirected with HTTP {status}, which is refused")
        if status is not None:
            wait = next((found for other in chain if (found := _retry_after(other)) is not None), None)
            message = next((own for other in chain if (own := _message(other)) is not None), str(error))
            return provider_error(status, message, code=_code(each), retry_after=wait)
    return MalformedResponse(str(error)) if any(isinstance(each, ValueError) for each in chain) else None


def _is_connection_error(error: BaseException) -> bool:
    return any(kind.__name__ in _CONNECTION_ERRORS for kind in type(error).__mro__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    for name in ("provider_status_code", "status_code", "status", "http_status", "code"):
        for holder in (error, getattr(error, "response", None)):
            value = getattr(holder, name, None)
            if type(value) is int and 300 <= value < 600:
                return value
    return _CODES.get(_code(error) or "")


def _code(error: BaseException) -> str | None:
    body = getattr(error, "body", None) or _body(getattr(error, "response", None))
    details = _object(_object(body).get("error")) or _object(body)
    for found in (getattr(error, "code", None), details.get("code"), details.get("type"), details.get("status")):
        if isinstance(found, str) and found:
            return found
    return None


def _message(error: BaseException) -> str | None:
    """Return the provider's message if the library's text does not contain it."""
    message = _object(_object(_body(getattr(error, "response", None))).get("error")).get("message")
    return message if isinstance(message, str) and message and message not in str(error) else None


def _body(response: Any) -> object:
    try:
        return response.json()
    except Exception:  # noqa: BLE001 - no response, no JSON, an unread stream, or an SDK that fails on its own response
        return None


def _retry_after(error: BaseException) -> float | None:
    """Return the seconds to wait, from the headers of the exception or its response, from `retry_after`, or from
    Google's `RetryInfo`.
    """
    for headers in (getattr(error, "headers", None), getattr(getattr(error, "response", None), "headers", None)):
        found = _object(headers)
        milliseconds, seconds = _number(found.get("retry-after-ms")), _number(found.get("retry-after"))
        if milliseconds is not None or seconds is not None:
            return seconds if milliseconds is None else milliseconds / 1000
    own = _number(getattr(error, "retry_after", None))
    return _retry_info(error) if own is None else own


def _retry_info(error: BaseException) -> float | None:
    """Return the delay in seconds from a `google.rpc.RetryInfo` in the body, where it has the form "7s"
    (gemini-errors).
    """
    body = _object(getattr(error, "details", None)) or _object(_body(getattr(error, "response", None)))
    details = _object(body.get("error")).get("details")
    for detail in cast("list[object]", details) if isinstance(details, list) else ():
        delay = _object(detail).get("retryDelay")
        found = _number(delay.removesuffix("s")) if isinstance(delay, str) else None
        if found is not None:
            return found
    return None


def _number(value: object) -> float | None:
    try:
        number = float(cast("str", value))
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
