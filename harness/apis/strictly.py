"""What the strict readers of all APIs share: content types, the framing of streams, typed fields, counts, errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from harness.apis.departure import (
    ARGUMENTS,
    CALL_ID,
    CONTENT_TYPE,
    ERROR_BODY,
    FIELDS,
    FRAMING,
    USAGE,
    Departure,
)
from harness.apis.eventstream import events
from harness.apis.jsonvalue import join, loads
from harness.apis.view import WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

DONE = "[DONE]"
"""The data of an event that is no JSON: the end of OpenAI's streams."""

_FIELD = re.compile(rb"(data|event|id|retry)?(:|\Z)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_JSON = re.compile(r"application/([^/]+\+)?json")


@dataclass(frozen=True, slots=True)
class Sent:
    """One event of a stream: its index, its name, and its JSON object; without one, its `text` is no object."""

    index: int
    name: str | None
    text: str
    data: dict[str, JSON] | None


def sent(response: HttpResponse) -> list[Sent]:
    """The events of a stream, as far as they can be read."""
    return [Sent(at, event.name, event.data, _object(event.data)) for at, event in enumerate(events(response.body))]


def body_of(response: HttpResponse) -> dict[str, JSON] | None:
    """The JSON object that a body is, whatever its content type; `None`: it is none."""
    return _object(response.body)


def _object(text: bytes | str) -> dict[str, JSON] | None:
    try:
        value = loads(text)
    except WireError:
        return None
    return value if isinstance(value, dict) else None


def media_type(response: HttpResponse) -> str:
    """The media type of a body, without its parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def typed_content(response: HttpResponse, *, stream: bool) -> Iterator[Departure]:
    """Whether the content type is that of what was asked for."""
    given = media_type(response)
    fits = given == "text/event-stream" if stream else _JSON.fullmatch(given) is not None
    if not fits:
        meant = "an event stream was asked for" if stream else "the answer is to be JSON"
        expected = "text/event-stream" if stream else "application/json"
        yield CONTENT_TYPE.broken(f"{meant}, and the content type says otherwise", actual=given, expected=expected)


def framing(response: HttpResponse) -> Iterator[Departure]:
    """Whether the bytes are server-sent events as the grammar has them."""
    lines = _LINE_END.split(response.body.removeprefix(_BOM))
    for line in lines:
        if line and _FIELD.match(line) is None:
            shown = line[:80].decode("utf-8", "replace")
            yield FRAMING.broken("a line of the stream is no field: clients skip it, or break", actual=shown)
    if len(lines) < 2 or lines[-1] or (lines[-2] and len(lines) > 1):
        yield FRAMING.broken("the last event has no blank line behind it, so that clients drop it")
    for event in sent(response):
        if event.data is None and event.text != DONE:
            yield _unreadable(event)


def _unreadable(event: Sent) -> Departure:
    pieces = event.text.split("\n")
    if len(pieces) > 1 and all(piece == DONE or _object(piece) is not None for piece in pieces):
        said = f"there is no blank line between {len(pieces)} events: clients read them as one, which is no JSON"
    else:
        said = "the data of an event is no JSON object"
    return FRAMING.broken(said, event=event.index, actual=event.text[:200])


def text_at(
    value: Mapping[str, JSON], key: str, pointer: str = "", *, event: int | None = None, among: Collection[str] = ()
) -> Iterator[Departure]:
    """Whether a field is a text that says something, one of these if there are any."""
    given = value.get(key)
    if not isinstance(given, str) or not given:
        said = "is missing" if key not in value else "is empty" if given == "" else "is no text"
        yield FIELDS.broken(f"the field {key!r} {said}", join(pointer, key), event=event, actual=given)
    elif among and given not in among:
        words = " or ".join(sorted(among))
        yield FIELDS.broken(
            f"the field {key!r} has another value than the API's",
            join(pointer, key),
            event=event,
            actual=given,
            expected=words,
        )


def whole_number(value: JSON) -> bool:
    """Whether a value is an integer; `true` is none, and a float is none either."""
    return isinstance(value, int) and not isinstance(value, bool)


def number_at(
    value: Mapping[str, JSON], key: str, pointer: str = "", *, event: int | None = None, real: bool = False
) -> Iterator[Departure]:
    """Whether a field is a whole number, or where it may be `real`, any."""
    given = value.get(key)
    if not (whole_number(given) or (real and isinstance(given, float))):
        said = "is missing" if key not in value else "is no number"
        yield FIELDS.broken(f"the field {key!r} {said}", join(pointer, key), event=event, actual=given)


def identified(
    identity: JSON, ids: list[JSON], pointer: str, name: str = "id", *, event: int | None = None
) -> Iterator[Departure]:
    """Whether a call has an id, and none of those of the answer's calls so far, which it joins."""
    if not isinstance(identity, str) or not identity:
        yield CALL_ID.broken(f"a call has no {name}", pointer, event=event, actual=identity)
    elif identity in ids:
        yield CALL_ID.broken(f"two calls of one answer have the same {name}", pointer, event=event, actual=identity)
    ids.append(identity)


def object_in(given: JSON, pointer: str) -> Iterator[Departure]:
    """Whether arguments that travel as a text are the JSON of an object."""
    if not isinstance(given, str):
        said = "the arguments are missing" if given is None else "the arguments are to be a text, and are a value"
        yield ARGUMENTS.broken(said, pointer, actual=given)
        return
    try:
        value = loads(given)
    except WireError as damage:
        said = f"the arguments are {damage.reason}" if given else "the arguments are empty, which is no JSON"
        yield ARGUMENTS.broken(said, pointer, actual=given)
        return
    if not isinstance(value, dict):
        yield ARGUMENTS.broken("the arguments are JSON, and no object", pointer, actual=given)


def object_itself(given: JSON, pointer: str, *, event: int | None = None) -> Iterator[Departure]:
    """Whether arguments that travel as what they are are an object."""
    if not isinstance(given, dict):
        is_text = isinstance(given, str)
        said = "the arguments are a text, and are to be the object itself" if is_text else "the arguments are no object"
        yield ARGUMENTS.broken(said, pointer, event=event, actual=given)


def counts(
    usage: JSON,
    names: tuple[str, ...],
    pointer: str,
    *,
    event: int | None = None,
    least: Mapping[str, int] | None = None,
) -> Iterator[Departure]:
    """Whether these counts are there, whole, and not below their least (0, unless something else is said)."""
    if not isinstance(usage, dict):
        yield USAGE.broken("the answer counts no tokens", pointer, event=event, actual=usage)
        return
    for name in names:
        given = usage.get(name)
        if not isinstance(given, int) or isinstance(given, bool):
            said = "is missing" if name not in usage else "is no whole number"
            yield USAGE.broken(f"the count {name!r} {said}", join(pointer, name), event=event, actual=given)
        elif given < (least or {}).get(name, 0):
            bound = (least or {}).get(name, 0)
            said = f"the count {name!r} is below {bound}"
            yield USAGE.broken(said, join(pointer, name), event=event, actual=given, expected=bound)


def sums(
    usage: JSON, total: str, parts: tuple[str, ...], pointer: str, *, event: int | None = None
) -> Iterator[Departure]:
    """Whether a total is the sum of its parts. A part that is not there counts as none."""
    if not isinstance(usage, dict):
        return
    said = usage.get(total)
    values = [usage.get(part) or 0 for part in parts]
    numbers = [value for value in values if isinstance(value, int)]
    if isinstance(said, int) and len(numbers) == len(values) and said != sum(numbers):
        yield USAGE.broken(
            f"{total!r} is not the sum of {' and '.join(map(repr, parts))}",
            join(pointer, total),
            event=event,
            actual=said,
            expected=sum(numbers),
        )


def error_in(response: HttpResponse) -> dict[str, JSON] | None:
    """The JSON of an error's body, an array of one opened; `None`: it is none."""
    try:
        value = loads(response.body)
    except WireError:
        return None
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value if isinstance(value, dict) else None


def worded(response: HttpResponse) -> Iterator[Departure]:
    """Whether an error is JSON with an object `error` that has a message."""
    if not response.body:
        yield ERROR_BODY.broken(f"HTTP {response.status} comes without a body: nobody learns what is wrong")
        return
    yield from typed_content(response, stream=False)
    body = error_in(response)
    if body is None:
        shown = response.body[:200].decode("utf-8", "replace")
        yield ERROR_BODY.broken("the body of the error is no JSON object", actual=shown)
        return
    error = body.get("error")
    if not isinstance(error, dict):
        yield ERROR_BODY.broken("the body has no object 'error'", "/error", actual=error)
    elif not isinstance(error.get("message"), str) or not error["message"]:
        yield ERROR_BODY.broken("the error has no message", "/error/message", actual=error.get("message"))
