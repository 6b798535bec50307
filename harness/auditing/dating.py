"""The day on which a recorded request was made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from itertools import islice

from harness.apis.eventstream import events, starts_as_one
from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON
from harness.tape.cassette import Cassette, Interaction

_STAMPS = ("created", "created_at", "createTime", "create_time")
"""Fields that hold the time of a response: seconds since 1970, or an ISO 8601 time."""

_FIRST = dt.date(2022, 1, 1)
"""The first chat API is younger than this day. An earlier time stamp is a placeholder."""

_MAX_EVENTS = 16
"""Events of a stream that are searched for a time stamp: each chunk of a stream repeats it."""


def made_on(cassette: Cassette, interaction: Interaction) -> dt.date | None:
    """Return the day on which a request was made, or `None` if the recording does not hold one.

    In this order: the metadata of the cassette, a time stamp of the answer or of a chunk, the header `date`, the
    response inside an event (`response.created`). A recording of the reference server has no day of its own.
    """
    metadata, response = cassette.metadata, interaction.response
    recorded = metadata.recorded_at if metadata is not None else None
    found = _of_text(recorded) if recorded else None
    if found is None and response is not None:
        found = next(filter(None, _days(response)), None)
    return found


def _days(response: HttpResponse) -> Iterator[dt.date | None]:
    bodies = [*_objects(response.body)]
    yield from map(_of_object, bodies)
    yield _of_header(response.headers)
    yield from (_of_object(inner) for body in bodies if isinstance(inner := body.get("response"), dict))


def _objects(body: bytes) -> Iterator[dict[str, JSON]]:
    """The JSON objects that a body holds: itself, the elements of a list, or the data of its first events."""
    is_stream = starts_as_one(body)
    for text in (event.data for event in islice(events(body), _MAX_EVENTS)) if is_stream else (body,):
        try:
            value = loads(text)
        except WireError:
            continue
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict))


def _of_header(headers: Mapping[str, str]) -> dt.date | None:
    text = next((value for name, value in headers.items() if name.lower() == "date"), None)
    try:
        return _plausible(parsedate_to_datetime(text).date()) if text else None
    except ValueError:
        return None


def _of_object(body: dict[str, JSON]) -> dt.date | None:
    return next((day for name in _STAMPS if (day := _of_stamp(body.get(name)))), None)


def _of_stamp(stamp: JSON) -> dt.date | None:
    if isinstance(stamp, str):
        return _of_text(stamp)
    if isinstance(stamp, bool) or not isinstance(stamp, int | float):
        return None
    try:
        return _plausible(dt.datetime.fromtimestamp(stamp, dt.UTC).date())
    except (OverflowError, ValueError, OSError):
        return None


def _of_text(text: str) -> dt.date | None:
    try:
        return _plausible(dt.date.fromisoformat(text[:10]))
    except ValueError:
        return None


def _plausible(day: dt.date) -> dt.date | None:
    return day if day >= _FIRST else None
