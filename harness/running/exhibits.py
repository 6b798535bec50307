"""Excerpts of requests and responses that findings show."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import httpx2

from harness import catalog
from harness.apis.eventstream import starts_as_one
from harness.apis.jsonvalue import equal, join, loads, parsed, resolve
from harness.apis.targets import Target
from harness.apis.view import ResponseView, WireError
from harness.contract.errors import HarnessError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.contract.protocols import Adapter, Endpoint, Route
from harness.host.environment import is_there
from harness.reference.script_session import ScriptSession
from harness.results import Body, EmbeddingTranscript, Finding, Transcript
from harness.rules.reading import Reading
from harness.running.backends import NO_KEY
from harness.running.tool_loop import play
from harness.scenarios.schema import Subject
from harness.tape.cassette import REFERENCE_URL
from harness.tape.redact import Redactor
from harness.tape.transport import HandlerTransport

_FRAME = re.compile(rb".+?(?:(?:\r\n|\n|\r){2,}|\Z)", re.DOTALL)
"""An event with the blank line that ends it, or what the end of the body has left of one."""

_ALL = 100
"""Events up to which all are shown."""
_EVENTS_AROUND = 3
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
        near = {at + step for at in (0, number - 1, *marks) for step in range(-_EVENTS_AROUND, _EVENTS_AROUND + 1)}
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


_STRING = 160
"""Characters that are shown of a text."""
_DIFFERENT = 60
"""Lines that are shown of what differs between two bodies."""
_AROUND = 4
"""Lines that a piece shows on each side of the marked one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `pointer` leads to the value that it shows or begins."""

    text: str
    pointer: str


def lines(value: JSON, width: int, pointer: str = "", opened: Collection[str] = ()) -> list[Line]:
    """A value over several lines: what fits into `width` columns stands on one, but for the containers on the way to
    the pointers `opened`, whose members get lines of their own."""
    ways = {way for each in opened for way in _way(each)}
    return list(_Layout(width, ways).of(value, pointer))


def _way(pointer: str) -> Iterator[str]:
    """The containers on the way to a place."""
    while "/" in pointer:
        pointer = pointer.rpartition("/")[0]
        yield pointer


@dataclass(frozen=True, slots=True)
class _Layout:
    width: int
    ways: Collection[str]

    def of(self, value: JSON, pointer: str, before: str = "", behind: str = "") -> Iterator[Line]:
        """`before` is the margin with the key, `behind` the comma."""
        members = _members(value)
        flat = f"{before}{_flat(value)}{behind}"
        if not members or (len(flat) <= self.width and pointer not in self.ways):
            yield Line(flat, pointer)
            return
        brackets = "{}" if isinstance(value, dict) else "[]"
        margin = " " * (len(before) - len(before.lstrip()))
        yield Line(f"{before}{brackets[0]}", pointer)
        for number, (key, step, member) in enumerate(members, 1):
            comma = "," if number < len(members) else ""
            yield from self.of(member, join(pointer, step), f"{margin}  {key}", comma)
        yield Line(f"{margin}{brackets[1]}{behind}", pointer)


def _members(value: JSON) -> list[tuple[str, str | int, JSON]]:
    """What a container holds: how the line of each member begins, its key or index, the member."""
    if isinstance(value, dict):
        return [(f"{json.dumps(key, ensure_ascii=False)}: ", key, member) for key, member in value.items()]
    return [("", at, member) for at, member in enumerate(value)] if isinstance(value, list) else []


def _flat(value: JSON) -> str:
    return json.dumps(_shortened(value), ensure_ascii=False)


def _shortened(value: JSON) -> JSON:
    if isinstance(value, str) and len(value) > _STRING:
        half = _STRING // 2
        return f"{value[:half]} ...{len(value) - 2 * half} more... {value[-half:]}"
    if isinstance(value, dict):
        return {key: _shortened(member) for key, member in value.items()}
    return [_shortened(member) for member in value] if isinstance(value, list) else value


def marked(shown: list[Line], pointer: str) -> int:
    """The index of the line that shows a place: its own, or that of the innermost value around it."""
    places = [line.pointer for line in shown]
    while pointer not in places and pointer:
        pointer = pointer.rpartition("/")[0]
    return places.index(pointer) if pointer in places else 0


def piece(value: JSON, pointer: str, width: int = 100) -> tuple[str, ...]:
    """The piece of a body around a place, the line of the place marked by `>`; the first line says where the piece
    lies. Of the whole body there is no piece: nothing in it is pointed at."""
    while pointer and resolve(value, pointer.rpartition("/")[0]) is None:  # what is missing has nothing around it
        pointer = pointer.rpartition("/")[0]
    if not pointer:
        return ()
    root = pointer if _members(resolve(value, pointer)) else pointer.rpartition("/")[0]
    shown = lines(resolve(value, root), width, root, (pointer,))
    at = marked(shown, pointer)
    first, last = max(at - _AROUND, 0), min(at + _AROUND + 1, len(shown))
    kept = [f"{'>' if number == at else ' '} {shown[number].text}" for number in range(first, last)]
    above = [f"  ({first} lines above)"] if first else []
    below = [f"  ({len(shown) - last} lines below)"] if last < len(shown) else []
    return (f"{root or '/'}:", *above, *kept, *below)


def unchanged(value: JSON, other: JSON) -> set[str]:
    """The pointers of members, and of entries of lists in a member, that mean the same in both bodies."""
    if not isinstance(value, dict) or not isinstance(other, dict):
        return set()
    same = {f"/{key}" for key, now in value.items() if _same(now, other.get(key))}
    for key, now in value.items():
        then = other.get(key)
        if isinstance(now, list) and isinstance(then, list) and f"/{key}" not in same:
            same |= {f"/{key}/{at}" for at, (one, two) in enumerate(zip(now, then, strict=False)) if _same(one, two)}
    return same


def _same(one: JSON, other: JSON) -> bool:
    return equal(_meaning(one), _meaning(other))


def _meaning(value: JSON) -> JSON:
    """A value without what is `null`, and with what JSON in a text says in place of how it is spelled."""
    if isinstance(value, dict):
        return {key: _meaning(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_meaning(entry) for entry in value]
    try:
        return loads(value.encode()) if isinstance(value, str) and value.startswith("{") else value
    except WireError:
        return value


def differing(value: JSON, other: JSON, width: int = 100) -> tuple[str, ...]:
    """The lines of a body, without what is the same in another one; none, if all is."""
    if _same(value, other):
        return ()
    same = unchanged(value, other)
    opened = [each.rpartition("/")[0] + "/0" for each in same if each.count("/") > 1]
    made: list[str] = []
    skipped = 0
    for line in lines(value, width, "", ["/", *opened]):
        if any(line.pointer == at or line.pointer.startswith(f"{at}/") for at in same):
            skipped += 1
            continue
        made += [_left_out(skipped)] if skipped else []
        skipped = 0
        made.append(line.text)
    return tuple(made[:_DIFFERENT]) + (
        (f"  ... {len(made) - _DIFFERENT} more lines",) if len(made) > _DIFFERENT else ()
    )


def _left_out(number: int) -> str:
    return f"  ... {number} {'line' if number == 1 else 'lines'} the same"


@dataclass(frozen=True, slots=True)
class Exemplar:
    """The requests of the shipped adapter in the same conversation, by the index of their chat."""

    adapter: str
    requests: tuple[HttpRequest | None, ...]

    def body(self, finding: Finding, sent: HttpRequest, chat: int, redactor: Redactor) -> Body | None:
        """The request in the place of the one that was sent: of it is shown what differs. `None`: nothing does."""
        right = self.requests[chat] if chat < len(self.requests) else None
        if right is None:
            return None
        try:
            wanted, found = redactor.value(parsed(right.body)), redactor.value(_parsed(sent))
        except WireError:
            return None
        lines = differing(wanted, found)
        if not lines:
            return None
        text = redactor.text(right.body.decode(errors="replace"))
        return Body(self.title, text, finding.pointer or "", ("what differs from the one that was sent:", *lines))

    @property
    def title(self) -> str:
        """The name of the request among the bodies of a finding."""
        return f"the request of the shipped adapter {self.adapter}"


def _parsed(request: HttpRequest) -> JSON:
    try:
        return parsed(request.body)
    except WireError:
        return None


def exemplar(transcript: Transcript) -> Exemplar | None:
    """The requests of the shipped adapter, where another one has played against the reference server or a recording of
    the shipped one. `None`: there is none of this API, its SDK is not installed, or it cannot play the scenario."""
    if transcript.scenario is None or isinstance(transcript, EmbeddingTranscript):
        return None
    adapter = _shipped(transcript.api)
    if adapter is None or adapter.name == transcript.adapter:
        return None
    if transcript.mode == "reference":
        return Exemplar(adapter.name, _played(transcript, adapter))
    recorded: dict[int, HttpRequest] = {}
    for exchange in transcript.exchanges:
        if exchange.recorded is not None and exchange.chat is not None and transcript.recorded_by == adapter.name:
            recorded.setdefault(exchange.chat, exchange.recorded)
    return Exemplar(adapter.name, tuple(recorded.get(chat) for chat in range(max(recorded, default=-1) + 1)))


def _shipped(api: str) -> Adapter | None:
    name = next((each.adapter for each in catalog.shipped_targets() if each.api == api), None)
    adapter = catalog.ADAPTERS.load(name) if name is not None else None
    if adapter is None or adapter.route is not Route.CLIENT:
        return None
    return adapter if adapter.requires is None or is_there(adapter.requires) else None


def _played(transcript: Transcript, adapter: Adapter) -> tuple[HttpRequest | None, ...]:
    """The first request of each chat, if the shipped adapter comes to its end."""
    scenario, api = transcript.scenario, catalog.api(transcript.api)
    if scenario is None:
        return ()
    session = ScriptSession(scenario, api, transcript.model, transcript.profile, origin=REFERENCE_URL)
    sent: dict[int, HttpRequest] = {}
    chats: list[int] = []

    def answer(request: HttpRequest) -> HttpResponse:
        if chats:
            sent.setdefault(chats[-1], request)
        return session(request)

    target = Target(adapter.name, adapter, transcript.model, transcript.profile, adapter.name)
    with httpx2.Client(transport=HandlerTransport(answer), trust_env=False) as client:
        endpoint = Endpoint(REFERENCE_URL + api.base_path, NO_KEY, client)
        try:
            play(scenario, target, endpoint, chats.append, transcript.variant)
        except HarnessError:
            return ()
    return tuple(sent.get(chat) for chat in range(max(sent, default=-1) + 1))
