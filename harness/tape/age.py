"""How old a recording may be, and how old it is."""

from __future__ import annotations

import datetime as dt
import re

from harness.contract.errors import UsageError
from harness.tape.cassette import Metadata

_FORM = re.compile(r"([1-9][0-9]{0,4})([dw])")
_DAYS = {"d": 1, "w": 7}


def longest(text: str, place: str) -> dt.timedelta:
    """The age that was given: a number of days or weeks, `90d` or `12w`. Raises `UsageError`: `place` has another."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"{place} {text}: it has to be a number of days or weeks, as in 90d or 12w.")
    return dt.timedelta(days=int(found[1]) * _DAYS[found[2]])


def age(recorded_at: str | None, now: dt.datetime) -> dt.timedelta | None:
    """How long ago something was recorded, by an ISO 8601 time; `None` where there is none, as in what repeats."""
    if recorded_at is None:
        return None
    try:
        at = dt.datetime.fromisoformat(recorded_at)
    except ValueError:
        return None
    return now - (at if at.tzinfo else at.replace(tzinfo=dt.UTC))


class Outdated:
    """What is to be recorded again: what was asked otherwise, or is older than `most` (`None`: of any age)."""

    def __init__(self, most: dt.timedelta | None, now: dt.datetime) -> None:
        self._most = most
        self._now = now

    @staticmethod
    def by(text: str | None, place: str) -> Outdated:
        """What is so today, by the age that was given at a place. Raises `UsageError`: it is none."""
        return Outdated(None if text is None else longest(text, place), dt.datetime.now(dt.UTC))

    def holds(self, present: Metadata, wanted: Metadata) -> bool:
        """Whether it is so of a cassette, where this recording is wanted. One of another model is another's."""
        if present.model_requested != wanted.model_requested:
            return False
        too_old = self.too_old(present.recorded_at) is not None
        return too_old or not present.is_of(wanted.scenario_digest, wanted.sent_digest)

    def too_old(self, recorded_at: str | None) -> str | None:
        """What is to be said of a recording that is older than it may be."""
        known = age(recorded_at, self._now)
        if self._most is None or known is None or known <= self._most:
            return None
        day = (recorded_at or "")[:10]
        return f"recorded on {day}, {known.days} days ago: older than the {self._most.days} days that it may be"

    @property
    def words(self) -> tuple[str, ...]:
        """The options that ask for it."""
        return ("--stale",) if self._most is None else ("--stale", "--max-age", f"{self._most.days}d")
