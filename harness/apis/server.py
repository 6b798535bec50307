"""Building blocks of provider servers: errors, endpoints other than chat, and deterministic values.

A run needs only the chat endpoints. The reference server offers the others to third-party clients
(`harness.reference_server.conversation_server`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias, TypeVar

from harness.apis.jsonvalue import as_object, loads
from harness.apis.view import ErrorView, ModelStep, Provocation, ResponseView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason

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
    """Return a message for a failure with this status. No code depends on its wording."""
    return _MESSAGES.get(status, f"The request failed with HTTP {status}.")


def wait_headers(seconds: float | None) -> dict[str, str]:
    """Return the retry headers for a wait of `seconds`.

    `retry-after` has whole seconds (RFC 9110), rounded up. `retry-after-ms`, which the SDKs of Anthropic and OpenAI
    prefer, has the exact time.
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
    """Return the error in a response. An error status has precedence over the body.

    `stands_for` is the status that the error in the body corresponds to; it is used if the HTTP status is not an error.
    `wait` is the waiting time in seconds from the body; a retry header has precedence over it.
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
    """Return the requested wait in seconds, from `retry-after-ms` or else from `retry-after`, which has seconds or a
    date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    return _in_seconds(headers) if milliseconds is None else milliseconds / 1000


def _in_seconds(headers: Mapping[str, str]) -> float | None:
    """Return `retry-after` in seconds. A date is relative to the response's `date`, or else to the current time."""
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
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


StoredAnswers: TypeAlias = Mapping[str, JSON]
"""Conversations that a server stores: id of the last response → conversation."""


class StateNotFound(Exception):
    """A request uses state that the server does not have. `response` is the provider's refusal."""

    def __init__(self, reason: str, response: HttpResponse) -> None:
        super().__init__(reason)
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEndpoints:
    """Endpoints of a server in addition to chat.

    `variables`: environment variables that point SDKs to another server. `headers(seed, model)`: additional headers of
    every response. `has_key(request)`: whether the request carries a key. `status_without_key`: the status of the
    response to a request without a key. `respond(request, models)`: the response to a request for models or token
    counts, `None` for other requests. `restore(request, stored)`: the request, completed with the stored state that it
    names. Raises `StateNotFound`. `store(request, response)`: the id and the value of the conversation to store, or
    `None`. `echo(body, request)`: the response, with the request fields that the API repeats in it.
    `combine(responses)`: one response that has several responses as its choices. `compared`: pointer to the request
    field that names an earlier response, for cache diagnostics. They compare the request with the one that led to that
    response. Empty if the API has no cache diagnostics.
    """

    variables: tuple[str, ...] = ()
    headers: Callable[[str, str], Mapping[str, str]] = lambda _seed, _model: {}
    has_key: Callable[[HttpRequest], bool] = lambda _request: True
    status_without_key: int = 401
    respond: Callable[[HttpRequest, Sequence[str]], HttpResponse | None] = lambda _request, _models: None
    restore: Callable[[HttpRequest, StoredAnswers], HttpRequest] = lambda request, _kept: request
    store: Callable[[HttpRequest, ResponseView], tuple[str, JSON] | None] = lambda _request, _answer: None
    echo: Callable[[dict[str, JSON], HttpRequest], dict[str, JSON]] | None = None
    combine: Callable[[Sequence[HttpResponse]], HttpResponse] | None = None
    compared: str = ""


def request_fields(request: HttpRequest) -> dict[str, JSON]:
    """Return the fields of a request's body. They are empty if it is not a JSON object."""
    try:
        body = loads(request.body)
    except WireError:
        return {}
    return as_object(body)


def json_response(body: Mapping[str, JSON], status: int = 200) -> HttpResponse:
    """Return a response with a JSON body."""
    encoded = json.dumps(body, ensure_ascii=False).encode()
    return HttpResponse(status, {"content-type": "application/json"}, encoded)


def event_stream(body: bytes) -> HttpResponse:
    """Return a response with an event stream."""
    return HttpResponse(200, {"content-type": "text/event-stream; charset=utf-8"}, body)


T = TypeVar("T")


def interleave(lanes: Sequence[Iterator[T]], seed: str) -> Iterator[T]:
    """Yield the pieces of several calls that are open at the same time: the first piece of each call, then the others
    in pseudo-random order.
    """
    for lane in lanes:
        yield next(lane)
    waiting, turn = list(lanes), 0
    while waiting:
        lane = waiting[number(seed, f"turn {turn}", 0, len(waiting) - 1)]
        try:
            yield next(lane)
        except StopIteration:
            waiting.remove(lane)
        turn += 1


def estimate_tokens(body: bytes) -> int:
    """Return a plausible token count for a body."""
    return max(1, len(body) // 4)


ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def random_text(seed: str, label: str, length: int, alphabet: str = ALPHANUMERIC) -> str:
    """Return `length` pseudo-random characters of `alphabet`."""
    digits = int.from_bytes(_digest(seed, label, length), "big")
    characters: list[str] = []
    for _ in range(length):
        digits, index = divmod(digits, len(alphabet))
        characters.append(alphabet[index])
    return "".join(characters)


def signature(seed: str, label: str, length: int = 96) -> str:
    """Return standard base64 of `length` pseudo-random bytes, as an opaque signature."""
    return base64.b64encode(_digest(seed, label, length)).decode()


def number(seed: str, label: str, low: int, high: int) -> int:
    """Return a pseudo-random integer from `low` to `high`, inclusive."""
    return low + int.from_bytes(_digest(seed, label, 8), "big") % (high - low + 1)


def stop_word(step: ModelStep, word: str, known: Mapping[str, StopReason], seed: str) -> str:
    """Return `word`, the usual name of a stop reason. If the step provokes rare stop words, return another name with
    the same meaning, if there is one.
    """
    others = [each for each, reason in known.items() if reason is known.get(word) and each != word]
    if Provocation.RARE_STOP_WORDS not in step.provocations or not others:
        return word
    return others[number(seed, "stop word", 0, len(others) - 1)]


def fragments(text: str, seed: str, label: str, max_piece_characters: int = 7) -> list[str]:
    """Split `text` into pieces of 1 to `max_piece_characters` code points, as models stream it. An empty text has no
    pieces.

    A piece may end inside a visible character or inside an escape of JSON text. `long_fragments` makes pieces longer.
    """
    least = 1 + _added
    pieces: list[str] = []
    start = 0
    for byte in _digest(seed, label, len(text)):
        if start >= len(text):
            break
        end = start + least + byte % max_piece_characters
        pieces.append(text[start:end])
        start = end
    return pieces


_added = 0


@contextmanager
def long_fragments(added: int = 40) -> Generator[None]:
    """Make the pieces of all streams longer by this number of code points, so that people can read the streams."""
    global _added  # noqa: PLW0603 - a setting of the process, like the seeds of the servers in it
    _added, before = added, _added
    try:
        yield
    finally:
        _added = before


def _digest(seed: str, label: str, length: int) -> bytes:
    return hashlib.shake_256(f"{seed}\0{label}".encode("utf-8", "surrogatepass")).digest(max(length, 8))
