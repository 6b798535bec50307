"""On which day a recorded request was made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON
from harness.tape.cassette import Cassette, Interaction

_STAMPS = ("created", "created_at", "createTime")
"""Fields of a response that say when it was made: seconds since 1970, or an ISO 8601 time."""

_FIRST = dt.date(2022, 1, 1)
"""No chat is older: a stamp before it is none."""


def made_on(cassette: Cassette, interaction: Interaction) -> dt.date | None:
    """The day by the metadata of the cassette, by the response's `date`, or by what its body says; `None` if none does.

    A recording of the reference server has no day of its own.
    """
    metadata, response = cassette.metadata, interaction.response
    recorded = metadata.recorded_at if metadata is not None else None
    found = _of_text(recorded) if recorded else None
    if found is None and response is not None:
        found = _of_header(response.headers) or _of_body(response)
    return found if found and found >= _FIRST else None


def _of_header(headers: Mapping[str, str]) -> dt.date | None:
    text = next((value for name, value in headers.items() if name.lower() == "date"), None)
    try:
        return parsedate_to_datetime(text).date() if text else None
    except ValueError:
        return None


def _of_body(response: HttpResponse) -> dt.date | None:
    try:
        body = loads(response.body)
    except WireError:
        return None
    stamps = (body.get(name) for name in _STAMPS) if isinstance(body, dict) else ()
    return next((day for day in map(_of_stamp, stamps) if day), None)


def _of_stamp(stamp: JSON) -> dt.date | None:
    if isinstance(stamp, str):
        return _of_text(stamp)
    if isinstance(stamp, bool) or not isinstance(stamp, int | float):
        return None
    try:
        return dt.datetime.fromtimestamp(stamp, dt.UTC).date()
    except (OverflowError, ValueError, OSError):
        return None


def _of_text(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text[:10])
    except ValueError:
        return None
