"""What the failures of all providers share: words for a status, how long they ask to wait, and how both are read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from harness.apis.view import ErrorView
from harness.contract.http import HttpResponse

_MESSAGES = {
    400: "The request is invalid.",
    401: "The API key is invalid.",
    402: "The account cannot pay for this request.",
    403: "The API key has no permission for this.",
    404: "The model does not exist, or you do not have access to it.",
    408: "The request took too long to arrive.",
    409: "The request conflicts with another one.",
    413: "The request is larger than is allowed.",
    422: "The request cannot be processed.",
    429: "The rate limit is exceeded. Please try again later.",
    500: "An internal error has occurred.",
    502: "An upstream server gave an invalid answer.",
    503: "The service is unavailable at the moment. Please try again later.",
    504: "The deadline was exceeded before the answer was ready.",
    529: "Overloaded",
}
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


def message(status: int) -> str:
    """A sentence for a failure with this status. Nothing matches on it."""
    return _MESSAGES.get(status, f"The request failed with HTTP {status}.")


def wait_headers(seconds: float | None) -> dict[str, str]:
    """The headers that ask to wait.

    `retry-after` has whole seconds (RFC 9110), as long as the wait or longer; `retry-after-ms`, which the SDKs of
    Anthropic and OpenAI look at first, has what that rounds away.
    """
    if seconds is None:
        return {}
    headers = {"retry-after": str(math.ceil(seconds))}
    if not float(seconds).is_integer():
        headers["retry-after-ms"] = str(round(seconds * 1000))
    return headers


def error_view(
    response: HttpResponse,
    said: str,
    code: str | None = None,
    *,
    stands_for: int | None = None,
    wait: float | None = None,
) -> ErrorView:
    """The error that a response carries. Its own status outranks what its body says.

    `stands_for`: the status that the body's words come with elsewhere, `wait`: the seconds that the body asks for.
    """
    refused = response.status >= 400
    by_header = waiting_time(response.headers) if refused else None
    in_seconds = _in_seconds(response.headers) if refused else None
    return ErrorView(
        response.status,
        said,
        code,
        meant=response.status if refused else stands_for,
        retry_after=wait if by_header is None else by_header,
        retry_after_rounded=in_seconds if in_seconds != by_header else None,
    )


def waiting_time(headers: Mapping[str, str]) -> float | None:
    """The seconds that the headers ask to wait: `retry-after-ms`, else `retry-after` as seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    return _in_seconds(headers) if milliseconds is None else milliseconds / 1000


def _in_seconds(headers: Mapping[str, str]) -> float | None:
    """What `retry-after` asks for. A date counts from the response's own `date`, so that a recording says what it said,
    else from now."""
    value = headers.get("retry-after", "")
    seconds = _number(value)
    until = _date(value)
    if seconds is not None or until is None:
        return seconds
    since = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (until - since).total_seconds())


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) and math.isfinite(float(text)) else None


def _date(text: str) -> datetime | None:
    """An HTTP date, which is always in UTC."""
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
