"""Excerpts of requests and responses that are shown with findings."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property

import httpx2

from harness import plugins
from harness.apis import registry
from harness.apis.eventstream import looks_like_event_stream
from harness.apis.jsonvalue import equal, join, loads, loads_or_none, parse_body, resolve
from harness.apis.registry import Target
from harness.apis.response_rules import Subject
from harness.apis.view import ResponseView, WireError
from harness.cassettes.cassette import REFERENCE_URL
from harness.cassettes.redact import Redactor
from harness.cassettes.transport import HandlerTransport
from harness.model.errors import HarnessError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.model.protocols import Adapter, Endpoint, Route
from harness.platform.environment import is_installed
from harness.reference_server.script_session import ScriptSession
from harness.results import EmbeddingTranscript, Finding, FindingBody, Transcript
from harness.rules.evidence import ParsedExchange
from harness.runner.backends import NO_KEY
from harness.runner.tool_loop import run_scenario

_FRAME = re.compile(rb".+?(?:(?:\r\n|\n|\r){2,}|\Z)", re.DOTALL)
"""Matches an event including the blank line that ends it, or the rest of the body."""

_MAX_ALL_EVENTS = 100
_EVENTS_AROUND = 3
_MAX_LINE_CHARACTERS = 240

SUBJECTS_OF_ANSWERS = frozenset({Subject.STREAMING, Subject.RESPONSES, Subject.ERRORS})
"""Subjects whose findings are about the response, unless they have a pointer into the request."""


@dataclass(frozen=True)
class RawStream:
    """The events of a streamed response."""

    api: str
    response: HttpResponse

    @cached_property
    def frames(self) -> list[bytes]:
        """The events including their line ends, or the lines of a stream that has no events."""
        body = self.response.body
        return _FRAME.findall(body) if looks_like_event_stream(body) else body.splitlines(keepends=True)

    @cached_property
    def ending(self) -> str:
        """A note if the stream ended too early, else an empty string."""
        match self.response.delivery.ending:
            case "cut":
                return "(the connection is closed here)"
            case "reset":
                return "(the connection is reset here)"
            case _:
                view = self._read(len(self.frames))
                return "" if view is None or view.complete else "(the stream ends here, without its last event)"

    def marks(self, pointer: str) -> frozenset[int]:
        """Return the indices of the events to mark for a finding about the value at this pointer.

        - An unreadable event or an error event is marked alone.
        - Otherwise, the events are marked with which the value begins and becomes complete.
        - If there is no such value, the last event is marked. If the stream ended too early, it is the index after it.
        """
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
        """Return the lines, each with the index of its event. `-1` marks a note about omitted events."""
        number = len(self.frames)
        near = {at + step for at in (0, number - 1, *marks) for step in range(-_EVENTS_AROUND, _EVENTS_AROUND + 1)}
        shown: list[tuple[str, int]] = []
        left_out = 0
        for at, frame in enumerate(self.frames):
            if number > _MAX_ALL_EVENTS and at not in near:
                left_out += 1
                continue
            if left_out:
                shown.append((f"({left_out} events are left out)", -1))
                left_out = 0
            shown += [(_short(line), at) for line in frame.decode(errors="replace").splitlines() if line]
        return [*shown, (self.ending, number)] if self.ending else shown

    def _first(self, holds: Callable[[ResponseView | None], bool]) -> int:
        """Return the index of the event with which the condition becomes true for the stream so far.

        The condition must be true for the whole stream.
        """
        counts = range(1, len(self.frames) + 1)
        return min(bisect_left(counts, True, key=lambda count: holds(self._read(count))), len(self.frames) - 1)

    def _read(self, count: int) -> ResponseView | None:
        body = b"".join(self.frames[:count])
        try:
            return registry.api(self.api).read(replace(self.response, body=body))
        except WireError:
            return None


def raw_stream(api: str, parsed: ParsedExchange) -> RawStream | None:
    """Return the response of an exchange, if it is a stream."""
    response = parsed.exchange.response
    if response is None or not response.body:
        return None
    is_stream = parsed.response.streamed if parsed.response is not None else looks_like_event_stream(response.body)
    return RawStream(api, response) if is_stream else None


def is_about_response(finding: Finding) -> bool:
    """Return whether a finding concerns the response of its exchange."""
    return finding.of_response or (not finding.pointer and finding.subject in SUBJECTS_OF_ANSWERS)


def raw_stream_title(exchange: int) -> str:
    """Return the title under which a finding shows a raw stream."""
    return f"the raw stream of response {exchange + 1}"


def stream_body(stream: RawStream, finding: Finding) -> FindingBody:
    """Return the stream as a body, with marks at the events that the finding is about."""
    marks = stream.marks(finding.pointer or "")
    lines = [f"{'>' if at in marks else ' '} {line}" for line, at in stream.lines(marks)]
    head = f"{len(stream.frames)} events"
    text = b"".join(stream.frames).decode(errors="replace")
    return FindingBody(raw_stream_title(finding.exchange or 0), text, finding.pointer or "", (head, *lines))


def _short(line: str) -> str:
    half = (_MAX_LINE_CHARACTERS - 20) // 2
    return (
        line if len(line) <= _MAX_LINE_CHARACTERS else f"{line[:half]} ...{len(line) - 2 * half} more... {line[-half:]}"
    )


_MAX_STRING_CHARACTERS = 160
_MAX_DIFFERENT_LINES = 60
_LINES_AROUND = 4
_SAME_LINES_AROUND = 3

SENT_TITLE = "the request that was sent"
"""The title under which a finding shows how the sent request differs from the correct one."""


@dataclass(frozen=True, slots=True)
class JsonLine:
    """A line of a formatted JSON value. `pointer` is the pointer of the value that begins on it."""

    text: str
    pointer: str


def json_lines(value: JSON, width: int, pointer: str = "", opened: Collection[str] = ()) -> list[JsonLine]:
    """Format a JSON value as lines.

    A value that fits into `width` columns takes one line. The containers of the values at the pointers in `opened` are
    always split.
    """
    ways = {way for each in opened for way in _parents(each)}
    return list(_JsonLayout(width, ways).of(value, pointer))


def _parents(pointer: str) -> Iterator[str]:
    while "/" in pointer:
        pointer = pointer.rpartition("/")[0]
        yield pointer


@dataclass(frozen=True, slots=True)
class _JsonLayout:
    width: int
    ways: Collection[str]

    def of(self, value: JSON, pointer: str, before: str = "", after: str = "") -> Iterator[JsonLine]:
        """Yield the lines of a value. `before` is the indentation with the key, and `after` is the comma, if any."""
        members = _members(value)
        flat = f"{before}{json.dumps(_shorten(value), ensure_ascii=False)}{after}"
        if not members or (len(flat) <= self.width and pointer not in self.ways):
            yield JsonLine(flat, pointer)
            return
        brackets = "{}" if isinstance(value, dict) else "[]"
        margin = " " * (len(before) - len(before.lstrip()))
        yield JsonLine(f"{before}{brackets[0]}", pointer)
        for number, (key, step, member) in enumerate(members, 1):
            comma = "," if number < len(members) else ""
            yield from self.of(member, join(pointer, step), f"{margin}  {key}", comma)
        yield JsonLine(f"{margin}{brackets[1]}{after}", pointer)


def _members(value: JSON) -> list[tuple[str, str | int, JSON]]:
    """Return the members of a container. Each has the text before its value, its key or index, and its value."""
    if isinstance(value, dict):
        return [(f"{json.dumps(key, ensure_ascii=False)}: ", key, member) for key, member in value.items()]
    return [("", at, member) for at, member in enumerate(value)] if isinstance(value, list) else []


def _shorten(value: JSON) -> JSON:
    if isinstance(value, str) and len(value) > _MAX_STRING_CHARACTERS:
        half = _MAX_STRING_CHARACTERS // 2
        return f"{value[:half]} ...{len(value) - 2 * half} more... {value[-half:]}"
    if isinstance(value, dict):
        return {key: _shorten(member) for key, member in value.items()}
    return [_shorten(member) for member in value] if isinstance(value, list) else value


def marked_line(shown: list[JsonLine], pointer: str) -> int:
    """Return the index of the line that shows the value at a pointer, or else its innermost container."""
    places = [line.pointer for line in shown]
    while pointer not in places and pointer:
        pointer = pointer.rpartition("/")[0]
    return places.index(pointer) if pointer in places else 0


def excerpt(value: JSON, pointer: str, width: int = 100) -> tuple[str, ...]:
    """Return the lines around the value at a pointer, with its line marked by `>`.

    The first line names the part of the body that is shown. The result is empty if the pointer refers to the whole
    body.
    """
    while pointer and resolve(value, pointer.rpartition("/")[0]) is None:  # a missing value has no surroundings
        pointer = pointer.rpartition("/")[0]
    if not pointer:
        return ()
    root = pointer if _members(resolve(value, pointer)) else pointer.rpartition("/")[0]
    shown = json_lines(resolve(value, root), width, root, (pointer,))
    return (f"{root or '/'}:", *around([line.text for line in shown], marked_line(shown, pointer), _LINES_AROUND))


def around(lines: Sequence[str], at: int, max_lines: int) -> Iterator[str]:
    """Yield the line at index `at`, marked by `>`, with at most `max_lines` lines on each side.

    Notes give the number of omitted lines.
    """
    first, last = max(at - max_lines, 0), min(at + max_lines + 1, len(lines))
    if first:
        yield f"  ({first} lines above)"
    yield from (f"{'>' if number == at else ' '} {lines[number]}" for number in range(first, last))
    if last < len(lines):
        yield f"  ({len(lines) - last} lines below)"


def unchanged_members(value: JSON, other: JSON) -> set[str]:
    """Return the pointers of members, and of entries of list members, that are equivalent in both bodies."""
    if not isinstance(value, dict) or not isinstance(other, dict):
        return set()
    same = {f"/{key}" for key, now in value.items() if _means_same(now, other.get(key))}
    for key, now in value.items():
        then = other.get(key)
        if isinstance(now, list) and isinstance(then, list) and f"/{key}" not in same:
            same |= {
                f"/{key}/{at}" for at, (one, two) in enumerate(zip(now, then, strict=False)) if _means_same(one, two)
            }
    return same


def _means_same(one: JSON, other: JSON) -> bool:
    return equal(_meaning(one), _meaning(other))


def _meaning(value: JSON) -> JSON:
    """Return the value without `null` members, with JSON inside strings parsed and with one alphabet for base64."""
    if isinstance(value, dict):
        return {key: _meaning(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_meaning(entry) for entry in value]
    if isinstance(value, str) and _BASE64.fullmatch(value):
        return value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return loads(value.encode()) if isinstance(value, str) and value.startswith("{") else value
    except WireError:
        return value


_BASE64 = re.compile("[A-Za-z0-9+/_-]{40,}={0,2}")


def side_by_side(sent: JSON, right: JSON) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines of both bodies that differ, marked by `>`, with some lines around them.

    The keys of `right` are in the order of `sent`. Both are empty if the bodies have the same meaning.
    """
    if _means_same(sent, right):
        return (), ()
    orders = list(dict.fromkeys(_orders(sent)))
    columns = (json_lines(sent, 0), json_lines(_in_order(right, orders), 0))
    keys = [[_line_key(line, value) for line in lines] for lines, value in zip(columns, (sent, right), strict=True)]
    blocks = SequenceMatcher(None, *keys, autojunk=False).get_opcodes()
    return (
        _mark_lines(sent, columns[0], [(tag, first, last) for tag, first, last, _, _ in blocks]),
        _mark_lines(right, columns[1], [(tag, first, last) for tag, _, _, first, last in blocks]),
    )


def _mark_lines(body: JSON, lines: Sequence[JsonLine], spans: Iterable[tuple[str, int, int]]) -> tuple[str, ...]:
    """Return the marked lines of the spans that differ, with some equal lines around them."""
    shown: list[str] = []
    for tag, first, last in spans:
        if tag == "equal":
            texts = [line.text for line in lines[first:last]]
            shown += _without_middle(texts, is_first=not first, is_last=last == len(lines))
        else:
            shown += [
                f"{' ' if resolve(body, line.pointer) is None else '>'} {line.text}" for line in lines[first:last]
            ]
    more = len(shown) - _MAX_DIFFERENT_LINES
    return (*shown[:_MAX_DIFFERENT_LINES], *([f"  ... {more} more lines"] if more > 0 else []))


def _orders(value: JSON) -> Iterator[tuple[str, ...]]:
    """Yield the keys of each object in a value."""
    if isinstance(value, dict):
        yield tuple(value)
    for _, _, member in _members(value):
        yield from _orders(member)


def _in_order(value: JSON, orders: Sequence[tuple[str, ...]]) -> JSON:
    """Return the value with the keys of each object sorted like the entry of `orders` that shares the most keys with
    it.
    """
    if isinstance(value, dict):
        order = max(orders, key=lambda each: len(value.keys() & {*each}), default=())
        keys = sorted(value, key=lambda key: order.index(key) if key in order else len(order))
        return {key: _in_order(value[key], orders) for key in keys}
    return [_in_order(entry, orders) for entry in value] if isinstance(value, list) else value


def _line_key(line: JsonLine, body: JSON) -> str:
    """Return a comparison key for a line. Two lines have equal comparison keys if their JSON keys are equal and their
    values have the same meaning.
    """
    text = line.text.rstrip(",")
    if text.endswith(("{", "[")) or text.strip() in {"}", "]"}:
        return text
    margin, name = re.fullmatch(r'( *)("(?:[^"\\]|\\.)*": )?.*', text, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{margin}{name}{json.dumps(_meaning(resolve(body, line.pointer)), sort_keys=True)}"


def _without_middle(lines: Sequence[str], *, is_first: bool, is_last: bool) -> list[str]:
    """Return a block of equal lines, shortened to those next to a difference."""
    head, tail = (0 if is_first else _SAME_LINES_AROUND), (0 if is_last else _SAME_LINES_AROUND)
    skipped = len(lines) - head - tail
    if skipped <= 1:
        return [f"  {line}" for line in lines]
    note = f"  ... {skipped} lines the same"
    return [*(f"  {line}" for line in lines[:head]), note, *(f"  {line}" for line in lines[len(lines) - tail :])]


@dataclass(frozen=True, slots=True)
class ShippedRequests:
    """The requests that the shipped adapter sends in the same conversation, indexed by chat."""

    adapter: str
    requests: tuple[HttpRequest | None, ...]

    def bodies(self, finding: Finding, sent: HttpRequest, chat: int, redactor: Redactor) -> tuple[FindingBody, ...]:
        """Return the request that was sent and the correct one, both reduced to their differences. The result is empty
        if nothing differs.
        """
        right = self.requests[chat] if chat < len(self.requests) else None
        if right is None:
            return ()
        try:
            wanted, found = redactor.value(parse_body(right.body)), redactor.value(loads_or_none(sent.body))
        except WireError:
            return ()
        wrong_lines, right_lines = side_by_side(found, wanted)
        if not wrong_lines and not right_lines:
            return ()
        text, pointer = redactor.text(right.body.decode(errors="replace")), finding.pointer or ""
        return FindingBody(SENT_TITLE, "", pointer, wrong_lines), FindingBody(self.title, text, pointer, right_lines)

    @property
    def title(self) -> str:
        """The title under which a finding shows the request."""
        return f"the request of the shipped adapter {self.adapter}"


def shipped_requests(transcript: Transcript) -> ShippedRequests | None:
    """Return the shipped adapter's requests for the scenario of another adapter's transcript.

    They come from a run against the reference server, or from a recording that the shipped adapter made. Return `None`
    if the transcript is the shipped adapter's own, or if the API has no shipped adapter whose SDK is installed.
    """
    if transcript.scenario is None or isinstance(transcript, EmbeddingTranscript):
        return None
    adapter = _shipped_adapter(transcript.api)
    if adapter is None or adapter.name == transcript.adapter:
        return None
    if transcript.mode == "reference":
        return ShippedRequests(adapter.name, _requests_of(transcript, adapter))
    recorded: dict[int, HttpRequest] = {}
    for exchange in transcript.exchanges:
        if exchange.recorded is not None and exchange.chat is not None and transcript.recorded_by == adapter.name:
            recorded.setdefault(exchange.chat, exchange.recorded)
    return ShippedRequests(adapter.name, tuple(recorded.get(chat) for chat in range(max(recorded, default=-1) + 1)))


def _shipped_adapter(api: str) -> Adapter | None:
    name = next((each.adapter for each in registry.shipped_targets() if each.api == api), None)
    adapter = plugins.ADAPTERS.load(name) if name is not None else None
    if adapter is None or adapter.route is not Route.CLIENT:
        return None
    return adapter if adapter.requires is None or is_installed(adapter.requires) else None


def _requests_of(transcript: Transcript, adapter: Adapter) -> tuple[HttpRequest | None, ...]:
    """Return the first request of each chat, if the shipped adapter completes the scenario."""
    scenario, api = transcript.scenario, registry.api(transcript.api)
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
            run_scenario(scenario, target, endpoint, chats.append, transcript.variant)
        except HarnessError:
            return ()
    return tuple(sent.get(chat) for chat in range(max(sent, default=-1) + 1))
