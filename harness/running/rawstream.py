"""The raw bytes of a streamed answer as people read them, with the events marked that a finding is about."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness import catalog
from harness.apis.eventstream import starts_as_one
from harness.apis.jsonvalue import equal, resolve
from harness.apis.view import ResponseView, WireError
from harness.contract.http import HttpResponse
from harness.results import Body, Finding
from harness.rules.reading import Reading
from harness.scenarios.schema import Subject

_FRAME = re.compile(rb".+?(?:(?:\r\n|\n|\r){2,}|\Z)", re.DOTALL)
"""An event with the blank line that ends it, or what the end of the body has left of one."""

_ALL = 100
"""Events up to which all are shown."""
_AROUND = 3
"""Events that are shown on each side of a marked one."""
_LINE = 240
"""Characters that are shown of a line."""

_OF_ANSWERS = frozenset({Subject.STREAMING, Subject.RESPONSES, Subject.ERRORS})
"""Subjects of findings that are about an answer where they point at no place of a request."""


@dataclass(frozen=True)
class RawStream:
    """A streamed answer by its events."""

    api: str
    response: HttpResponse

    @cached_property
    def frames(self) -> list[bytes]:
        """The events, each with its line ends; of a stream that is no event stream the lines."""
        body = self.response.body
        return _FRAME.findall(body) if starts_as_one(body) else body.splitlines(keepends=True)

    @cached_property
    def ending(self) -> str:
        """The way it ends in words, if it ends too early; else empty."""
        match self.response.delivery.ending:
            case "cut":
                return "(the connection is closed here)"
            case "reset":
                return "(the connection is reset here)"
            case _:
                view = self._read(len(self.frames))
                return "" if view is None or view.complete else "(the stream ends here, without its last event)"

    def marks(self, pointer: str) -> frozenset[int]:
        """The events that a finding about this place of the answer is about: those between which the value there is
        made, the one that brings an error, or the first that cannot be read. The end counts as an event behind all."""
        number = len(self.frames)
        view = self._read(number)
        if view is None:
            return frozenset({self._first(lambda each: each is None)})
        if view.error is not None:
            return frozenset({self._first(lambda each: each is not None and each.error is not None)})
        final = resolve(view.body, pointer) if pointer else None
        if final is None:
            return frozenset({number if self.ending else number - 1})
        begun = self._first(lambda each: each is not None and resolve(each.body, pointer) not in (None, "", {}, []))
        done = self._first(lambda each: each is not None and equal(resolve(each.body, pointer), final))
        return frozenset({min(begun, done), done})

    def lines(self, marks: Collection[int] = ()) -> list[tuple[str, int]]:
        """The lines, each with the number of its event; `-1` stands before what says that events are left out."""
        number = len(self.frames)
        near = {at + step for at in (0, number - 1, *marks) for step in range(-_AROUND, _AROUND + 1)}
        shown: list[tuple[str, int]] = []
        left_out = 0
        for at, frame in enumerate(self.frames):
            if number > _ALL and at not in near:
                left_out += 1
                continue
            if left_out:
                shown.append((f"({left_out} events are left out)", -1))
                left_out = 0
            shown += [(_short(line), at) for line in frame.decode(errors="replace").splitlines() if line]
        return [*shown, (self.ending, number)] if self.ending else shown

    def _first(self, holds: Callable[[ResponseView | None], bool]) -> int:
        """The first event from which on this holds of what has arrived; it holds of the whole stream."""
        counts = range(1, len(self.frames) + 1)
        return min(bisect_left(counts, True, key=lambda count: holds(self._read(count))), len(self.frames) - 1)

    def _read(self, count: int) -> ResponseView | None:
        body = b"".join(self.frames[:count])
        try:
            return catalog.api(self.api).read(replace(self.response, body=body))
        except WireError:
            return None


def raw_stream(api: str, reading: Reading) -> RawStream | None:
    """The answer of an exchange, if it is a stream."""
    response = reading.exchange.response
    if response is None or not response.body:
        return None
    is_stream = reading.response.streamed if reading.response is not None else starts_as_one(response.body)
    return RawStream(api, response) if is_stream else None


def is_of_answer(finding: Finding) -> bool:
    """Whether a finding is about the answer of its exchange."""
    return finding.of_response or (not finding.pointer and finding.subject in _OF_ANSWERS)


def title(exchange: int) -> str:
    """What a raw stream is called among the bodies of a finding."""
    return f"the raw stream of response {exchange + 1}"


def body(stream: RawStream, finding: Finding) -> Body:
    """The stream, with the events marked that the finding is about."""
    marks = stream.marks(finding.pointer or "")
    lines = [f"{'>' if at in marks else ' '} {line}" for line, at in stream.lines(marks)]
    head = f"{len(stream.frames)} events"
    return Body(title(finding.exchange or 0), _text(stream.frames), finding.pointer or "", (head, *lines))


def _text(frames: Sequence[bytes]) -> str:
    return b"".join(frames).decode(errors="replace")


def _short(line: str) -> str:
    half = (_LINE - 20) // 2
    return line if len(line) <= _LINE else f"{line[:half]} ...{len(line) - 2 * half} more... {line[-half:]}"
