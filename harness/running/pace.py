"""How fast requests go to the provider of a target: at most so many in a time, and none while it asks to wait."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TypeVar

import httpx2

from harness.apis.failure import waiting_time
from harness.contract.errors import UsageError
from harness.stdio.workers import Halted

V = TypeVar("V")

TRIES = 5
"""How often a request is sent that a provider asks to send later, before the refusal counts as its answer."""

LONGEST = 600.0
"""Seconds that a provider may ask to wait; who asks for more has refused."""

_LATER = frozenset({429, 503, 529})
"""The statuses by which a provider asks to wait, if it says how long."""

_RATE = re.compile(r"([0-9]{1,6})/(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Tempo:
    """What was asked for, by target; `None` is any other target. `apart` are seconds from one request to the next, and
    `at_once` how many cells are under way."""

    apart: Mapping[str | None, float] = field(default_factory=dict[str | None, float])
    at_once: Mapping[str | None, int] = field(default_factory=dict[str | None, int])

    @staticmethod
    def parsed(rates: Sequence[str], concurrency: Sequence[str], known: Sequence[str]) -> Tempo:
        """The values of `--rate` and `--concurrency`: `60/min` or `TARGET=60/min`, `4` or `TARGET=4`.

        Raises:
            UsageError: one has another form, or names no target of the run.
        """
        return Tempo(
            _by_target("--rate", rates, _apart, known, "60/min, 5/s or 1000/h"),
            _by_target("--concurrency", concurrency, _number, known, "4"),
        )


def _by_target(
    option: str, given: Sequence[str], read: Callable[[str], V | None], known: Sequence[str], examples: str
) -> dict[str | None, V]:
    found: dict[str | None, V] = {}
    for each in given:
        target, equals, value = each.rpartition("=")
        name, read_value = target if equals else None, read(value)
        if read_value is None:
            raise UsageError(f"{option} {each!r}: it has to be {examples}, or TARGET= and that.")
        if name is not None and name not in known:
            raise UsageError(f"{option} {each!r}: {name} is no target of this run: {', '.join(known)}.")
        if name in found:
            raise UsageError(f"{option} {each!r}: it is given twice for {name or 'all targets'}.")
        found[name] = read_value
    return found


def _apart(value: str) -> float | None:
    rate = _RATE.fullmatch(value)
    return _SECONDS[rate[2]] / int(rate[1]) if rate and int(rate[1]) else None


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"[1-9][0-9]{0,3}", value) else None


class Pace:
    """The lanes of a run: one for each target."""

    def __init__(self, tempo: Tempo | None = None) -> None:
        self.tempo = tempo or Tempo()
        self._lanes: dict[str, Lane] = {}
        self._ended = Event()
        self._lock = Lock()

    def lane(self, target: str) -> Lane:
        """The one of a target."""
        apart = self.tempo.apart
        with self._lock:
            return self._lanes.setdefault(target, Lane(apart.get(target, apart.get(None, 0.0)), self._ended))

    def end(self) -> None:
        """The run has ended: nobody waits any more, and nothing more is sent."""
        self._ended.set()


class Lane:
    """The requests of one target, `apart` seconds from one to the next."""

    def __init__(self, apart: float, ended: Event) -> None:
        self._apart = apart
        self._ended = ended
        self._next = self._open = 0.0
        self._lock = Lock()

    def enter(self) -> None:
        """Wait until a request may be sent. Raises `Halted`: the run has ended meanwhile."""
        with self._lock:
            at = max(time.monotonic(), self._next)
            self._next = at + self._apart
        while (left := max(at, self._open) - time.monotonic()) > 0:
            if self._ended.wait(left):
                raise Halted

    def pause(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        with self._lock:
            self._open = max(self._open, time.monotonic() + seconds)


class Paced(httpx2.BaseTransport):
    """Sends requests through another transport as a lane allows. What a provider asks to send later is sent later, and
    only its answer is handed on: to be asked for patience is no fault of an adapter."""

    def __init__(self, inner: httpx2.BaseTransport, lane: Lane) -> None:
        self._inner = inner
        self._lane = lane

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises what the other one raises, and `Halted`: the run has ended meanwhile."""
        for attempt in range(1, TRIES + 1):
            self._lane.enter()
            response = self._inner.handle_request(request)
            wait = waiting_time(response.headers) if response.status_code in _LATER else None
            if wait is None or wait > LONGEST or attempt == TRIES:
                return response
            response.close()
            self._lane.pause(wait)
        raise AssertionError  # the last attempt returns

    def close(self) -> None:
        """Close the other one."""
        self._inner.close()
