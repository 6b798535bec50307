"""Helpers for all adapters: strict JSON, verbatim wire fields, retry delays and vectors."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NoReturn

from harness.model.errors import MalformedResponse, Unsupported
from harness.model.messages import Opaque

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.messages import JSON, Message, Part, ProviderMetadata

_MARK = b"\xef\xbb\xbf"


def tool_name(name: str, allowed: str, adapter: str) -> str:
    """Return the name of a tool if it matches the API's pattern.

    Raises:
        Unsupported: the API would refuse the name.
    """
    if re.fullmatch(allowed, name) is None:
        raise Unsupported(adapter, f"the tool name {name!r}", f"the API requires names that match {allowed}")
    return name


def loads(text: str | bytes) -> JSON:
    """Parse strict JSON. Unlike the SDKs, reject NaN and numbers outside the range of a double
    (`test_a_body_that_is_no_answer`).

    Raises:
        MalformedResponse: the text is not JSON, or nested too deeply for Python.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text)))
    except RecursionError:
        raise MalformedResponse("JSON that is nested too deeply") from None
    except ValueError as error:
        raise MalformedResponse(f"not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def compact(value: JSON) -> str:
    """Return compact JSON without escaping non-ASCII characters."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def string(value: JSON) -> str | None:
    """Return the value if it is a string, else `None`."""
    return value if isinstance(value, str) else None


def as_object(value: JSON) -> dict[str, JSON]:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: JSON) -> list[JSON]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def count(fields: JSON, key: str) -> int | None:
    """Return a token count, or `None` if it is missing."""
    value = fields.get(key) if isinstance(fields, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def sendable(history: Sequence[Message], api: str) -> tuple[Message, ...]:
    """Return the history without calls that have no result, and without earlier messages that have only opaque parts of
    other APIs.
    """
    own_messages = (
        message
        for place, message in enumerate(history, 1)
        if place == len(history) or not message.parts or not all(_is_foreign(part, api) for part in message.parts)
    )
    return _without_unanswered_calls(tuple(own_messages), api)


def _is_foreign(part: Part, api: str) -> bool:
    return isinstance(part, Opaque) and part.api != api


def _without_unanswered_calls(history: Sequence[Message], api: str) -> tuple[Message, ...]:
    """Return the history without calls that have no result, because every API rejects them.

    The calls of the last message and asynchronous calls of this API are kept. If the id of a result matches no call,
    all calls are kept, because the result may belong to any of them. A message that loses all its calls and has no text
    is removed, because its reasoning belongs to the calls.
    """
    answered = Counter(result.call_id for message in history for result in message.tool_results)
    if answered.keys() - {call.id for message in history for call in message.tool_calls}:
        return tuple(history)
    kept: list[Message] = []
    for place, message in enumerate(history):
        calls = message.tool_calls
        gone: list[Part] = []
        for call in calls:
            answered[call.id] -= 1
            is_pending = own(call.provider_metadata, api).get("async") is True
            if answered[call.id] < 0 and place < len(history) - 1 and not is_pending:
                gone.append(call)
        parts = tuple(part for part in message.parts if not any(part is each for each in gone))
        if not gone or len(gone) < len(calls) or message.text:
            kept.append(replace(message, parts=parts) if gone else message)
    return tuple(kept)


def own(metadata: ProviderMetadata, api: str) -> dict[str, JSON]:
    """Return the wire fields of this API in the metadata."""
    fields = metadata.get(api)
    return fields if isinstance(fields, dict) else {}


def merge_fields(wire: dict[str, JSON], fields: Mapping[str, JSON]) -> dict[str, JSON]:
    """Merge verbatim fields into a wire object: objects merge, lists grow, other values replace."""
    result = dict(wire)
    for key, value in fields.items():
        mine = result.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            result[key] = merge_fields(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            result[key] = [*mine, *value]
        else:
            result[key] = value
    return result


def without_mark(body: Iterable[bytes]) -> Iterator[bytes]:
    """Remove the byte order mark at the start of a stream. After a mark, the SDKs' decoders lose the first event
    (`test_an_event_without_a_json_object_is_malformed`).
    """
    begun, pieces = b"", iter(body)
    while _MARK.startswith(begun) and (piece := next(pieces, None)) is not None:
        begun += piece
    yield begun.removeprefix(_MARK)
    yield from pieces


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from `retry-after-ms`, or from `retry-after` as seconds or as a date."""
    milliseconds = _waiting(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _waiting(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):  # no date, or a year out of range
        return None


def _waiting(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def vector(numbers: list[JSON], place: int, dimensions: int, status: int | None = None) -> list[float]:
    """Return the vector of an embedding in a response.

    Raises:
        MalformedResponse: an entry is not a number, or the length is wrong.
    """
    result = [number for number in map(_number, numbers) if number is not None]
    if len(result) != len(numbers):
        raise MalformedResponse(f"embedding {place} contains something that is not a number", status)
    if len(result) != dimensions:
        raise MalformedResponse(f"embedding {place} has {len(result)} dimensions, and not {dimensions}", status)
    return result


def _number(value: JSON) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
