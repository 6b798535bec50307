"""Conversion of what a class or function with its own tool loop returns to its caller into a response."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from harness.bridge.clients.answers import read_answer, read_stream
from harness.bridge.clients.values import jsonable
from harness.bridge.completions import NO_STOP_REASON
from harness.bridge.openai_messages import Memory
from harness.model.messages import JSON, ChatRequest, ChatResponse, Finish, Message, Role, StopReason, Text, Usage


@dataclass(frozen=True, slots=True)
class EventList:
    """The items that an iterator yielded, such as the events of a stream."""

    items: Sequence[object]


Returned: TypeAlias = "EventList | object"


def plain_answer(returned: Returned) -> object:
    """Return a value, with the items of an `EventList` as a list."""
    return list(returned.items) if isinstance(returned, EventList) else returned


def application_answer(
    returned: Returned,
    request: ChatRequest,
    api: str,
    source: str,
    attributes: Mapping[str, JSON] | None = None,
) -> ChatResponse | None:
    """Return what an application gets for a turn, or `None` if that is not known.

    `returned` is the value that the method for a prompt returned, and `request` has that prompt. `attributes` are those
    that the method changed in its object, as from `changed_attributes`: they add to a returned text. The text of the
    response has all texts in the value, because it is not known which of them the application shows. If there is none,
    but the code may report errors in another way, such as by an event, the answer is not known.
    """
    if attributes and (returned is None or isinstance(returned, str)):
        returned = {"text": returned or "", **attributes}
    if returned is None:
        return None
    given = {message.text for message in request.messages} | {request.system}
    value = jsonable_or_text(plain_answer(returned))
    words, flags = [each for each in _shown_texts(value) if each not in given], [*_error_fields(value)]
    read = _read_returned(returned, request, api, source)
    if isinstance(returned, EventList) and (read is None or not read.text) and words:
        return None
    texts = [returned] if isinstance(returned, str) else [read.text if read is not None else "", *words, "".join(words)]
    text = "\n".join(filter(None, [*texts, *flags]))
    if not text and _REPORTS_ERRORS_BY_EVENT.search(source):
        return None
    message = Message(Role.ASSISTANT, (Text(text),) if text else ())
    if read is None:
        return ChatResponse(message, StopReason.UNKNOWN, Usage(), reported={NO_STOP_REASON: True})
    stop_reason = StopReason.UNKNOWN if flags and read.stop_reason is StopReason.END_TURN else read.stop_reason
    return replace(read, message=message, stop_reason=stop_reason)


def answer_attributes(client: object) -> dict[str, JSON]:
    """Return the attributes of an object that describe its last answer: the stop reason, token counts, a refusal or an
    error. A prefix such as `last_` is left out of their names.
    """
    found: dict[str, JSON] = {}
    for name in dir(client):
        if (match := _ANSWER_ATTRIBUTE.fullmatch(name)) is not None:
            with contextlib.suppress(Exception):  # a property of third-party code may fail in any way
                value = getattr(client, name)
                if not callable(value):
                    found[match[1]] = jsonable(value)
    return found


def changed_attributes(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes of an object that a call changed. One that it did not change says nothing about it."""
    return {name: value for name, value in after.items() if value is not None and value != before.get(name)}


_ANSWER_ATTRIBUTE = re.compile("(?:last_|total_)?(finish_reason|stop_reason|usage|refusal|error|truncated|incomplete)")


def _read_returned(returned: Returned, request: ChatRequest, api: str, source: str) -> ChatResponse | None:
    """Return the answer as a response, or `None` if it cannot be read."""
    with contextlib.suppress(Exception):
        if isinstance(returned, EventList):
            events = [*read_stream(returned.items, request, Memory(), api)]
            return next(each.response for each in reversed(events) if isinstance(each, Finish))
        return read_answer(returned, request, Memory(), api, source=source)
    return None


def jsonable_or_text(value: object) -> JSON:
    """Return a value as JSON, or as text if it cannot be converted."""
    with contextlib.suppress(Exception):
        return jsonable(value)
    return str(value)


def _shown_texts(value: JSON, key: str = "") -> Iterator[str]:
    """Yield the texts in a value that an application may show."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[str, JSON]", value).items():
            yield from _shown_texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _shown_texts(each, key)
    elif isinstance(value, str) and value.strip() and not _HIDDEN_FIELDS.search(key):
        yield value


def _error_fields(value: JSON) -> Iterator[str]:
    """Yield the fields in a value that report an error or an incomplete answer."""
    if isinstance(value, list):
        for each in value:
            yield from _error_fields(each)
    elif isinstance(value, Mapping):
        for name, each in cast("Mapping[str, JSON]", value).items():
            if (_ERROR_FIELDS.search(name) and each) or (_SUCCESS_FIELDS.fullmatch(name) and each is False):
                yield f"{name}: {each}"
            yield from _error_fields(each)


_ERROR_FIELDS = re.compile("error|fail|problem|exception|warning|incomplete|truncated|refus|blocked", re.IGNORECASE)

_SUCCESS_FIELDS = re.compile("ok|success|succeeded|complete|completed|finished|done", re.IGNORECASE)

_HIDDEN_FIELDS = re.compile(r"(^|_)(ids?|type|kind|event|role|model|object|name|provider|status|stop|reason|created)$")
"""Names of fields whose texts are not part of an answer."""

_REPORTS_ERRORS_BY_EVENT = re.compile(
    r"on_error|(emit|publish|notify|dispatch|fire|trigger|callback|handler)\w*\([^()]*[\"']\w*error[\"']"
)
"""Code that may report an error by an event, and not only by its result or an exception."""
