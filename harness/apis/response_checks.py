"""Checks of responses: fields, token counts, and the order of events.

`responses.yaml` of each API describes the fields as JSON Schemas. In these schemas, `rule` names the response rule of a
field, and `words` describes the harm that a violation does to clients. These checks apply to servers, never to
adapters.
"""

from __future__ import annotations

import pathlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast

from harness.apis.eventstream import DONE, events, serialize_event
from harness.apis.jsonvalue import join, loads, loads_or_none, resolve
from harness.apis.response_rules import (
    ARGUMENTS,
    CALL_ID,
    CONTENT_TYPE,
    END,
    ERROR_BODY,
    ERROR_STATUS,
    EVENTS,
    FIELDS,
    FRAMING,
    INDEX,
    RESPONSE_RULES,
    STOP_REASON,
    USAGE,
    ResponseRule,
    ResponseViolation,
)
from harness.apis.view import CallView, RequestView, ResponseView, WireError
from harness.documents.document import read
from harness.documents.json_schema import Path, SchemaFailure, Validator
from harness.documents.strict_models import describe
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason

_FIELD = re.compile(rb"(data|event|id|retry)?(:|\Z)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_JSON = re.compile(r"application/([^/]+\+)?json")
_INCOMPLETE_STOPS = (StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.PAUSE)
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event of a stream. `data` is `None` if its `text` is not a JSON object."""

    index: int
    name: str | None
    text: str
    data: dict[str, JSON] | None

    @property
    def kind(self) -> str:
        """The `type` field of the data, as a string."""
        return str((self.data or {}).get("type"))


def sent_events(response: HttpResponse) -> list[ReceivedEvent]:
    """Return the readable events of a stream."""
    return [
        ReceivedEvent(at, event.name, event.data, object_of(event.data))
        for at, event in enumerate(events(response.body))
    ]


def object_of(text: bytes | str) -> dict[str, JSON] | None:
    """Return the JSON object in a text, or `None`."""
    value = loads_or_none(text)
    return value if isinstance(value, dict) else None


# --- Fields ---


class FieldSchema:
    """A JSON Schema of responses or events. Each field can name its own rule; `rule` applies to all other fields."""

    def __init__(self, schema: dict[str, Any], definitions: JSON, rule: ResponseRule = FIELDS) -> None:
        self._validator = Validator({"type": "object", **schema, "$defs": definitions})
        self._definitions = cast("dict[str, Any]", definitions)
        self._rule = rule

    def violations(self, value: JSON, event: int | None = None) -> Iterator[ResponseViolation]:
        """Yield the violations in a value, at most one for each place."""
        seen: set[Path] = set()
        for failure in self._validator.failures(value):
            for path, node, message, actual, expected in _field_faults(failure):
                if path in seen:
                    continue
                seen.add(path)
                notes = self._definitions[node["$ref"].rpartition("/")[2]] | node if "$ref" in node else node
                rule = RESPONSE_RULES[f"server-{notes['rule']}"] if "rule" in notes else self._rule
                words = notes.get("words") or f"{_name(path)} {message}"
                yield rule.make_violation(words, join("", *path), event, actual, expected)


def _name(path: Path) -> str:
    last = path[-1] if path else None
    return (
        "the body" if last is None else f"the field {last!r}" if isinstance(last, str) else f"an item of {path[-2]!r}"
    )


def _field_faults(failure: SchemaFailure) -> Iterator[tuple[Path, dict[str, Any], str, JSON, JSON]]:
    """Yield place, schema, fault, actual and expected value of each field that fails."""
    path, keyword, node, given = failure
    wanted = node[keyword]
    if keyword == "required":
        members = node.get("properties", {})
        yield from (
            ((*path, name), members.get(name, {}), "is missing", None, None) for name in wanted if name not in given
        )
    elif keyword == "type":
        types = " or ".join(_TYPES[each] for each in ([wanted] if isinstance(wanted, str) else wanted))
        yield path, node, f"is {'a text' if isinstance(given, str) else describe(given)}, not {types}", given, None
    elif keyword in ("minLength", "minItems"):
        yield path, node, "is empty", given, None
    elif keyword == "minimum":
        yield path, node, f"is below {wanted}", given, wanted
    else:
        words = " or ".join(map(str, wanted)) if keyword == "enum" else wanted
        yield path, node, "has another value than the API's", given, words


# --- The order of events ---


@dataclass(frozen=True, slots=True)
class EventGrammar:
    """The order of an API's events.

    - `is_named`: the name of each event equals the type of its data.
    - `sentinel`: how to treat `[DONE]`: it is unknown in the API, skipped, or the end of the stream.
    - `first`, `last`: types of the first and the last event.
    - `before_last`: type of an event that must come between the blocks and the last event.
    - `closing`: types of events at which no block may be open.
    - `opens`, `grows`, `closes`: types of the events that open, extend and close a block.
    - `index`: field with the index of a block.
    - `holds`: field of the opening event that describes the block.
    - `stable`: fields that have the same value in all events.
    - `finish`: pointer to the stop reason.
    - `content`: pointers to content, which no event may have after the stop reason.
    - `schemas`: event type → name of its schema, where that differs.
    """

    is_named: bool = False
    sentinel: str = "unknown"
    first: str | None = None
    last: frozenset[str] = frozenset()
    before_last: str | None = None
    closing: frozenset[str] = frozenset()
    opens: str | None = None
    grows: frozenset[str] = frozenset()
    closes: str | None = None
    index: str = "index"
    holds: str = ""
    stable: tuple[str, ...] = ()
    finish: str | None = None
    content: tuple[str, ...] = ()
    schemas: Mapping[str, str] = field(default_factory=dict[str, str])


class EventOrder(ABC):
    """Checker for the order of the events in one stream."""

    grammar: ClassVar[EventGrammar]

    def __init__(self) -> None:
        self.open: dict[int, dict[str, JSON]] = {}
        self.opened = 0
        self.ended = self.failed = self.headless = False
        self.stop: JSON = None
        self._before_last = False
        self._begun = False
        self._stable: dict[str, JSON] = {}

    def violations(
        self, came: Sequence[ReceivedEvent], shapes: Mapping[str, FieldSchema]
    ) -> Iterator[ResponseViolation]:
        """Check all events. A fault that all events share is reported once."""
        grammar = self.grammar
        for event in came:
            if event.text == DONE:
                yield from self._sentinel(event, is_last=event is came[-1])
            elif event.data is not None:
                yield from self._take(event, event.data)
                if self.failed:
                    return
                shape = shapes.get(grammar.schemas.get(event.kind, event.kind)) or shapes.get("*")
                yield from shape.violations(event.data, event.index) if shape is not None else ()
                yield from self.check(event)
                yield from self._block(event, event.data)
        if not self.ended:
            end = min(grammar.last) if grammar.last else grammar.finish or ""
            end = "'data: [DONE]'" if grammar.sentinel == "end" else end.rpartition("/")[2]
            yield END.make_violation(f"the stream has no end: there is no {end}, so that a cut looks the same")

    @abstractmethod
    def check(self, event: ReceivedEvent) -> Iterator[ResponseViolation]:
        """Check the event by rules of this API, before a block is opened or closed."""

    def block_at(self, data: dict[str, JSON]) -> int | None:
        """Return the index of the block that an event belongs to, or `None` if it is unknown."""
        index = data.get(self.grammar.index)
        return index if isinstance(index, int) and not isinstance(index, bool) else None

    def _sentinel(self, event: ReceivedEvent, *, is_last: bool) -> Iterator[ResponseViolation]:
        if self.grammar.sentinel == "unknown":
            yield EVENTS.make_violation("the API has no such event", event=event.index, actual=DONE)
        elif self.grammar.sentinel == "end":
            self.ended = True
            if not is_last:
                yield EVENTS.make_violation("something follows the end of the stream", event=event.index + 1)

    def _take(self, event: ReceivedEvent, data: dict[str, JSON]) -> Iterator[ResponseViolation]:
        grammar, at, kind = self.grammar, event.index, event.kind
        if grammar.is_named and event.name != data.get("type"):
            message = "the name of an event is not the type of its data: clients that go by names lose it"
            yield EVENTS.make_violation(message, "/type", at, event.name, data.get("type"))
        if kind == "error" or data.get("error") is not None:
            self.failed = True
            message = "an error comes inside a stream with a successful status"
            yield ERROR_STATUS.make_violation(message, "/error", at, data.get("error", data.get("message")))
            return
        if grammar.first is not None and kind != "ping":
            yield from self._check_place(kind, at)
        for name in grammar.stable:
            given = data.get(name)
            known = self._stable.setdefault(name, given)
            if isinstance(given, str) and given and known != given:
                yield FIELDS.make_violation(
                    f"the {name!r} of an event is not that of the one before", f"/{name}", at, given, known
                )
        if grammar.finish is not None:
            yield from self._check_finished(grammar.finish, data, at)

    def _check_place(self, kind: str, at: int) -> Iterator[ResponseViolation]:
        """Check that an event of this type may come first, last or in between, as its position requires."""
        grammar, pointer = self.grammar, "/type"
        if self.ended:
            yield EVENTS.make_violation("an event follows the last one", pointer, at, kind)
        elif self._begun is (kind == grammar.first):
            message = f"there are two {kind}" if self._begun else f"the stream does not begin with {grammar.first}"
            yield EVENTS.make_violation(message, pointer, at, kind)
            self.headless = self.headless or not self._begun
        self._begun = True
        if kind in grammar.closing and self.open:
            yield EVENTS.make_violation(f"{kind} comes while a block is open", pointer, at, [*self.open])
        if kind in grammar.last:
            self.ended = True
            if grammar.before_last and not self._before_last:
                yield EVENTS.make_violation(f"{kind} comes without a {grammar.before_last}", pointer, at)
        self._before_last = self._before_last or kind == grammar.before_last

    def _check_finished(self, pointer: str, data: dict[str, JSON], at: int) -> Iterator[ResponseViolation]:
        if self.stop and any(resolve(data, each) for each in self.grammar.content):
            yield EVENTS.make_violation("content follows the finish reason: clients have stopped reading", event=at)
        word = resolve(data, pointer)
        if word and self.stop and word != self.stop:  # a final chunk with the usage may repeat the stop reason
            message = "the stream has two different stop reasons"
            yield STOP_REASON.make_violation(message, pointer, at, word, self.stop)
        self.stop = word or self.stop

    def _block(self, event: ReceivedEvent, data: dict[str, JSON]) -> Iterator[ResponseViolation]:
        grammar, kind, at = self.grammar, event.kind, event.index
        index, pointer = self.block_at(data), f"/{grammar.index}"
        if kind == grammar.opens:
            if self._before_last:
                yield EVENTS.make_violation(f"a block begins after {grammar.before_last}", "/type", at)
            if grammar.before_last and self.open:
                yield EVENTS.make_violation("a block begins while another is open", pointer, at, index)
            if index not in (None, self.opened):
                yield INDEX.make_violation(
                    "the blocks are not counted from 0, one by one", pointer, at, index, self.opened
                )
            block = data.get(grammar.holds)
            self.open[self.opened if index is None else index] = {**block} if isinstance(block, dict) else {}
            self.opened += 1
        elif (kind == grammar.closes or kind in grammar.grows) and index is not None and index not in self.open:
            yield INDEX.make_violation(f"{kind} is for a block that is not open", pointer, at, index, [*self.open])
        elif kind == grammar.closes and index is not None:
            del self.open[index]


# --- Whole answers ---


@dataclass(frozen=True)
class ResponseChecks:
    """The response checks of one API. Calling it checks a response; it never raises.

    - `file`: path of `responses.yaml`.
    - `read`: the API's reader.
    - `order`: the API's check of the event order.
    - `arguments`: path from a call to its arguments.
    - `is_text`: the arguments are a string that contains JSON.
    - `stop`: pointer to the stop reason, the stop reasons of a response without calls, and the one of a response with
      calls.
    - `usage`: pointer to the token counts; `total` must be the sum of `parts`.
    - `counts_on_request`: streams have token counts only on request.
    - `error_code`: the body of an error repeats the HTTP status as its code.
    - `events`: function that returns the events of a stream.
    """

    file: pathlib.Path
    read: Callable[[HttpResponse], ResponseView]
    order: type[EventOrder]
    arguments: tuple[str, ...]
    is_text: bool = False
    stop: tuple[str, frozenset[str], str] | None = None
    usage: str = "/usage"
    total: str = ""
    parts: tuple[str, ...] = ()
    counts_on_request: bool = False
    error_code: bool = False
    events: Callable[[HttpResponse, RequestView], list[ReceivedEvent]] = lambda response, _: sent_events(response)

    def __call__(self, response: HttpResponse, request: RequestView) -> Iterator[ResponseViolation]:
        """Check a response to a request."""
        whole = object_of(response.body)
        if response.status >= 400:
            yield from self._refusal(response)
        elif whole is not None and whole.get("error") is not None and not whole.get("choices"):
            yield ERROR_STATUS.make_violation(
                f"an error comes with HTTP {response.status}", "/error", actual=whole["error"]
            )
        elif request.stream:
            is_events = request.stream_format == "events"
            yield from _check_content_type(response, stream=is_events)
            yield from _framing(response) if is_events else ()
            yield from _without_duplicates(self._stream(self.events(response, request), request))
        else:
            yield from _check_content_type(response, stream=False)
            if whole is None:
                yield FIELDS.make_violation("the body is not a JSON object")
            else:
                yield from self._answer(whole, self._view(response.body, "application/json"), request)

    @cached_property
    def _schemas(self) -> Any:
        return read(self.file.read_bytes(), str(self.file)).value

    @cached_property
    def _of_answer(self) -> FieldSchema:
        return FieldSchema(self._schemas["answer"], self._schemas["definitions"])

    @cached_property
    def _of_error(self) -> FieldSchema:
        return FieldSchema(self._schemas["error"], self._schemas["definitions"], ERROR_BODY)

    @cached_property
    def _of_events(self) -> Mapping[str, FieldSchema]:
        schemas, definitions = self._schemas, self._schemas["definitions"]
        return {kind: FieldSchema(schema, definitions) for kind, schema in schemas["events"].items()}

    def _refusal(self, response: HttpResponse) -> Iterator[ResponseViolation]:
        if not response.body:
            yield ERROR_BODY.make_violation(f"HTTP {response.status} has no body, so clients cannot see what is wrong")
            return
        yield from _check_content_type(response, stream=False)
        body = loads_or_none(response.body)
        body = body[0] if isinstance(body, list) and len(body) == 1 else body
        if not isinstance(body, dict):
            shown = response.body[:200].decode("utf-8", "replace")
            yield ERROR_BODY.make_violation("the body of the error is not a JSON object", actual=shown)
            return
        yield from self._of_error.violations(body)
        code = resolve(body, "/error/code")
        if self.error_code and isinstance(body.get("error"), dict) and code != response.status:
            message = "the code of the error is not the status of the answer"
            yield ERROR_BODY.make_violation(message, "/error/code", None, code, response.status)

    def _stream(self, came: Sequence[ReceivedEvent], request: RequestView) -> Iterator[ResponseViolation]:
        """Check the events, and the response that they add up to."""
        order = self.order()
        yield from order.violations(came, self._of_events)
        if not (order.failed or order.headless) and (order.ended or order.stop):
            readable = b"".join(serialize_event(each.data, each.name) for each in came if each.data is not None)
            view = self._view(readable, "text/event-stream")
            if view is not None:
                yield from self._answer(view.body, view, request)

    def _view(self, body: bytes, content_type: str) -> ResponseView | None:
        try:
            return self.read(HttpResponse(200, {"content-type": content_type}, body))
        except WireError:
            return None

    def _answer(self, body: JSON, view: ResponseView | None, request: RequestView) -> Iterator[ResponseViolation]:
        uncounted = self.counts_on_request and request.stream and request.usage_pointer is None
        for found in (*self._of_answer.violations(body), *self._sums(resolve(body, self.usage))):
            if not (uncounted and found.rule is USAGE):
                yield found
        if view is None:
            return
        calls = [call for call in view.calls if not call.pointer.endswith("/function_call")]
        ids: set[str] = set()
        for call in calls:
            if call.id and call.id in ids:
                yield CALL_ID.make_violation(
                    "two calls of one answer have the same id", call.id_pointer, actual=call.id
                )
            ids.add(call.id or "")
            if call is not view.calls[-1] or view.stop_reason not in _INCOMPLETE_STOPS:
                yield from self._arguments(call, body, is_streamed=view.streamed)
        yield from self._stop(body, request, has_calls=bool(calls))

    def _arguments(self, call: CallView, body: JSON, *, is_streamed: bool) -> Iterator[ResponseViolation]:
        *holder, name = self.arguments
        held = resolve(body, join(call.pointer, *holder))
        if not isinstance(held, dict) or "custom" in str(resolve(body, f"{call.pointer}/type")):
            return
        given, pointer = held.get(name), join(call.pointer, *self.arguments)
        value: JSON = given
        if isinstance(given, str) and (self.is_text or is_streamed):
            try:
                value = loads(given)
            except WireError as damage:
                reason = damage.reason if given else "empty, which is not valid JSON"
                yield ARGUMENTS.make_violation(f"the arguments are {reason}", pointer, actual=given)
                return
        elif self.is_text or isinstance(given, str):
            meant = "a text" if self.is_text else "the object itself, not a text"
            yield ARGUMENTS.make_violation(f"the arguments must be {meant}", pointer, actual=given)
            return
        if not isinstance(value, dict) and not (given is None and call.arguments == {}):
            yield ARGUMENTS.make_violation("the arguments are no object", pointer, actual=given)

    def _stop(self, body: JSON, request: RequestView, *, has_calls: bool) -> Iterator[ResponseViolation]:
        """Check the stop reason. If a call is forced by name, the stop reason may be `stop`, as for an answer without
        calls (openai-chat-stop-reasons).
        """
        if self.stop is None:
            return
        pointer, without, with_calls = self.stop
        word = resolve(body, pointer)
        is_named = request.tool_choice is not None and request.tool_choice.mode == "named"
        if has_calls and word in [*without] and not (is_named and word == "stop"):
            message = "the answer has calls, and a stop reason for an answer without them"
            yield STOP_REASON.make_violation(message, pointer, None, word, with_calls)
        elif word == with_calls and not has_calls:
            yield STOP_REASON.make_violation(
                "the answer has the stop reason for calls, and has no calls", pointer, actual=word
            )

    def _sums(self, usage: JSON) -> Iterator[ResponseViolation]:
        if not isinstance(usage, dict):
            return
        total, parts = usage.get(self.total), [usage.get(part) or 0 for part in self.parts]
        numbers = [part for part in parts if isinstance(part, int)]
        if isinstance(total, int) and len(numbers) == len(parts) and total != sum(numbers):
            message = f"{self.total!r} is not the sum of {' and '.join(map(repr, self.parts))}"
            yield USAGE.make_violation(message, f"{self.usage}/{self.total}", None, total, sum(numbers))


def _without_duplicates(found: Iterable[ResponseViolation]) -> Iterator[ResponseViolation]:
    """Yield each violation once. The same fault may be found in many events, or in both an event and the response."""
    seen: set[tuple[str, str]] = set()
    for each in found:
        if (key := (each.rule.id, each.message)) not in seen:
            seen.add(key)
            yield each


def _check_content_type(response: HttpResponse, *, stream: bool) -> Iterator[ResponseViolation]:
    given = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (given == "text/event-stream" if stream else _JSON.fullmatch(given)):
        meant = "an event stream was requested" if stream else "the answer is to be JSON"
        expected = "text/event-stream" if stream else "application/json"
        yield CONTENT_TYPE.make_violation(f"{meant}, and the content type is another", "", None, given, expected)


def _framing(response: HttpResponse) -> Iterator[ResponseViolation]:
    """Check that the bytes follow the grammar of server-sent events."""
    lines = _LINE_END.split(response.body.removeprefix(_BOM))
    for line in lines:
        if line and _FIELD.match(line) is None:
            shown = line[:80].decode("utf-8", "replace")
            yield FRAMING.make_violation("a line of the stream is not a field: clients skip it or fail", actual=shown)
    if len(lines) < 2 or lines[-1] or lines[-2]:
        yield FRAMING.make_violation("no blank line follows the last event, so clients drop it")
    for event in sent_events(response):
        pieces = event.text.split("\n")
        if event.data is not None or event.text == DONE:
            continue
        message = "the data of an event is not a JSON object"
        if len(pieces) > 1 and all(piece == DONE or object_of(piece) is not None for piece in pieces):
            message = (
                f"there is no blank line between {len(pieces)} events: clients read them as one, which is not valid "
                "JSON"
            )
        yield FRAMING.make_violation(message, "", event.index, event.text[:200])
