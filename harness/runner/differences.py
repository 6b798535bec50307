"""Differences between targets: aspects observed on the wire, grouped by subject.

Every value is read from the exchanges of the run, without knowledge of the API's rules. An aspect that no exchange
shows has the value `NOT_OBSERVED`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import TypeVar

from harness.apis.jsonvalue import equal, parse_body, resolve
from harness.apis.response_rules import Subject
from harness.apis.view import (
    CallView,
    JsonView,
    OpaqueView,
    PartView,
    ResponseView,
    ResultView,
    TextView,
    TurnView,
    WireError,
)
from harness.model.http import endpoint
from harness.model.messages import JSON, JSON_INSTRUCTION, ArgumentsDelta, JsonMode, JsonSchema, ToolCallEnd
from harness.results import Chat, Difference
from harness.rules.chat_endings import is_retriable
from harness.rules.evidence import ChatExchange, Evidence
from harness.rules.unchanged_prefix import CONSEQUENCES, binding, caller_changes_between, continued_requests


@dataclass(frozen=True, slots=True)
class Aspect:
    """A row of the table of differences.

    `observe` reads the aspect's values from a cell. It returns no values if the cell does not show the aspect.
    """

    subject: Subject
    name: str
    observe: Callable[[Evidence], Iterable[str]]


@lru_cache(4096)
def open_pointer(pointer: str) -> str:
    """Replace the indices in a pointer by `[]`: `/messages/3/content/0` → `messages[].content[]`."""
    return re.sub(r"/\d+(?=/|$)", "[]", pointer).lstrip("/").replace("/", ".")


def body_of(exchange: ChatExchange) -> JSON:
    """Return the parsed body of a request, or `None` if it cannot be parsed."""
    try:
        return parse_body(exchange.parsed.exchange.request.body)
    except WireError:
        return None


def parts_of(evidence: Evidence) -> Iterator[tuple[ChatExchange, TurnView, PartView]]:
    """Yield every part of the conversation once, with its request and turn."""
    for exchange in evidence.chat_exchanges:
        for turn in evidence.new_turns(exchange):
            for part in turn.parts:
                yield exchange, turn, part


def results_of(evidence: Evidence) -> Iterator[ResultView]:
    """Yield every tool result once."""
    return (part for _, _, part in parts_of(evidence) if isinstance(part, ResultView))


Unit = TypeVar("Unit")

_ASPECTS: list[Aspect] = []


def _aspect(
    subject: Subject, name: str, places: Callable[[Evidence], Iterable[Unit]]
) -> Callable[[Callable[[Unit], Iterable[str]]], None]:
    """Return a decorator that adds a row.

    `places` returns the places in a cell that may show the aspect. The decorated function returns the values at one
    place.
    """

    def add(observe: Callable[[Unit], Iterable[str]]) -> None:
        _ASPECTS.append(Aspect(subject, name, lambda evidence: chain.from_iterable(map(observe, places(evidence)))))

    return add


def _whole_cell(evidence: Evidence) -> tuple[Evidence]:
    return (evidence,)


def _requests(evidence: Evidence) -> Iterable[ChatExchange]:
    return evidence.chat_exchanges


def _responses(evidence: Evidence) -> Iterator[ResponseView]:
    return (parsed.response for parsed in evidence.parsed_exchanges if parsed.response is not None)


def _issued_calls(evidence: Evidence) -> Iterator[CallView]:
    return (call for response in _responses(evidence) for call in response.calls)


def _own_parts(evidence: Evidence) -> Iterable[PartView]:
    """Return the parts of the conversation, or nothing if it continues an earlier one.

    The earlier conversation has ids of another API, which do not show where this API puts its own.
    """
    scenario = evidence.transcript.scenario
    return () if scenario is not None and scenario.history else (part for _, _, part in parts_of(evidence))


@_aspect(Subject.ID_MATCHING, "who issues a call's id", _issued_calls)
def _issuer(call: CallView) -> Iterator[str]:
    yield "the API" if call.id is not None else "nobody: no id on the wire"


@_aspect(Subject.ID_MATCHING, "format of issued ids", _issued_calls)
def _id_format(call: CallView) -> Iterator[str]:
    if call.id is not None:
        prefix = re.match(r"[a-z]+_", call.id)
        yield f"{prefix.group() if prefix else ''}… ({len(call.id)} characters)"


@_aspect(Subject.ID_MATCHING, "field of the call's id", _own_parts)
def _call_id_field(part: PartView) -> Iterator[str]:
    if isinstance(part, CallView):
        yield open_pointer(part.id_pointer) if part.id is not None else "none"


@_aspect(Subject.ID_MATCHING, "field of the result's id", _own_parts)
def _result_id_field(part: PartView) -> Iterator[str]:
    if isinstance(part, ResultView):
        yield open_pointer(part.id_pointer) if part.call_id is not None else "none: by name and order"


@_aspect(Subject.ID_MATCHING, "where results go", _whole_cell)
def _result_place(evidence: Evidence) -> Iterator[str]:
    for _, turn, part in parts_of(evidence):
        if isinstance(part, ResultView):
            yield f"{open_pointer(part.pointer)}, {turn.wire_role}"


@_aspect(Subject.ID_MATCHING, "results of parallel calls", _whole_cell)
def _parallel_results(evidence: Evidence) -> Iterator[str]:
    for exchange in evidence.chat_exchanges:
        new = evidence.new_turns(exchange)
        for position, turn in enumerate(new, len(exchange.view.turns) - len(new)):
            results = sum(isinstance(part, ResultView) for part in turn.parts)
            if results > 1:
                yield "together in one entry"
            elif results == 1:
                before = exchange.view.turns[position - 1].parts if position else ()
                if any(isinstance(part, ResultView) for part in before):
                    yield "an entry each"


@_aspect(Subject.ID_MATCHING, "how an error is marked", _whole_cell)
def _error(evidence: Evidence) -> Iterator[str]:
    failed = [execution.chat for execution in evidence.transcript.executions if execution.result.is_error]
    if not failed:
        return
    marks = [_mark(result) for result in results_of(evidence) if result.error_mark is not None]
    yield from marks
    if not marks and any(
        exchange.index > min(failed) and exchange.view.results for exchange in evidence.chat_exchanges
    ):
        yield "not at all"


def _mark(result: ResultView) -> str:
    if result.error_mark == "error-key":
        inside = any(isinstance(part, JsonView) for part in result.payload)
        return "an error key in the object" if inside else "an error key in the JSON text"
    return "a field of its own" if result.error_mark == "flag" else "words in the text"


@_aspect(Subject.SYSTEM_PROMPT, "where the system prompt sits", _whole_cell)
def _system_place(evidence: Evidence) -> Iterator[str]:
    trailing = evidence.transcript.profile.trailing_places
    for exchange in evidence.chat_exchanges:
        for part in exchange.view.system:
            if part.text != JSON_INSTRUCTION:
                in_message = part.place.startswith("message:")
                place = f"{open_pointer(part.pointer)} ({part.place})" if in_message else part.place
                yield f"{place}, after the conversation" if part.place in trailing else place


@_aspect(Subject.SYSTEM_PROMPT, "system prompt inside a message", _requests)
def _system_in_text(exchange: ChatExchange) -> Iterable[str]:
    system = exchange.chat.request.system
    if not system or any(system in message.text for message in exchange.chat.request.messages):
        return ()
    inside = [
        open_pointer(part.pointer)
        for turn in exchange.view.turns
        for part in turn.parts
        if isinstance(part, TextView) and system in part.text
    ]
    return inside or ["no"]


@_aspect(Subject.SYSTEM_PROMPT, "copies of the system prompt in a request", _requests)
def _system_count(exchange: ChatExchange) -> Iterator[str]:
    system = exchange.chat.request.system
    if system:
        yield str(sum(part.text.count(system) for part in exchange.view.system))


@_aspect(Subject.SYSTEM_PROMPT, "an empty system prompt", _requests)
def _system_empty(exchange: ChatExchange) -> Iterator[str]:
    if exchange.chat.request.system == "":
        yield "sent" if exchange.view.system else "nothing is sent"


@_aspect(Subject.SYSTEM_PROMPT, "a changed system prompt", _whole_cell)
def _system_change(evidence: Evidence) -> Iterator[str]:
    for before, exchange in pairwise(evidence.chat_exchanges):
        old, new = before.chat.request.system, exchange.chat.request.system
        if old != new:
            texts = [part.text for part in exchange.view.system]
            kept = old is not None and old in texts
            sent = not new or new in texts
            yield ("the old one stays" if kept else "the old one goes") + ("" if sent else ", the new one is not sent")


@_aspect(Subject.JSON_MODE, "JSON without a schema", _requests)
def _json_mode(exchange: ChatExchange) -> Iterator[str]:
    if isinstance(exchange.chat.request.response_format, JsonMode):
        yield _switch(exchange)


@_aspect(Subject.JSON_MODE, "instruction to answer in JSON", _requests)
def _json_instruction(exchange: ChatExchange) -> Iterable[str]:
    if not isinstance(exchange.chat.request.response_format, JsonMode):
        return ()
    return [f"added to {part.place}" for part in exchange.view.system if part.text == JSON_INSTRUCTION] or [
        "none added"
    ]


@_aspect(Subject.JSON_MODE, "JSON with a schema", _requests)
def _json_schema(exchange: ChatExchange) -> Iterator[str]:
    if isinstance(exchange.chat.request.response_format, JsonSchema):
        yield _switch(exchange)


def _switch(exchange: ChatExchange) -> str:
    """Return the wire field that requests JSON, with its value."""
    sent = exchange.view.response_format
    if sent is None:
        return "no field for it"
    if sent.pointer == sent.schema_pointer:
        return sent.mechanism  # the field holds the schema itself
    value = resolve(body_of(exchange), sent.pointer)
    word = value.get("type") if isinstance(value, dict) else value
    return f"{sent.mechanism}: {word}" if isinstance(word, str) else sent.mechanism


_STRICTNESS = {True: ", strict", False: ", not strict", None: ""}


@_aspect(Subject.JSON_MODE, "dialect of the schema", _requests)
def _json_dialect(exchange: ChatExchange) -> Iterator[str]:
    sent = exchange.view.response_format
    if sent is not None and sent.kind == "json-schema":
        yield f"{sent.dialect}{_STRICTNESS[sent.strict]}"


@_aspect(Subject.JSON_MODE, "changes to the schema", _requests)
def _json_rewrite(exchange: ChatExchange) -> Iterator[str]:
    wanted, sent = exchange.chat.request.response_format, exchange.view.response_format
    if isinstance(wanted, JsonSchema) and sent is not None and sent.kind == "json-schema":
        keywords = sorted(_changed_keywords(wanted.schema, sent.schema))
        yield f"changed: {', '.join(keywords)}" if keywords else "as given"


def _changed_keywords(given: JSON, sent: JSON) -> set[str]:
    if not isinstance(given, dict) or not isinstance(sent, dict):
        return set()
    changed: set[str] = set()
    for key in given.keys() | sent.keys():
        one, other = given.get(key), sent.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            changed |= _changed_keywords(one, other)
        elif not equal(one, other):
            changed.add(key)
    return changed


@_aspect(Subject.JSON_MODE, "JSON mode together with tools", _whole_cell)
def _json_with_tools(evidence: Evidence) -> Iterator[str]:
    for exchange in evidence.chat_exchanges:
        if exchange.chat.request.response_format is not None and exchange.chat.request.tools:
            yield "both are sent" if exchange.view.response_format and exchange.view.tools else "not both are sent"
    for chat in evidence.transcript.chats:
        if chat.error == "Unsupported" and chat.request.response_format is not None and chat.request.tools:
            yield "refused before anything is sent"


@_aspect(Subject.TOOLS, "where declarations go", _requests)
def _declarations(exchange: ChatExchange) -> Iterator[str]:
    return (open_pointer(tool.pointer) for tool in exchange.view.tools if tool.kind == "function")


@_aspect(Subject.TOOLS, "dialect of parameters", _requests)
def _tool_dialect(exchange: ChatExchange) -> Iterator[str]:
    return (tool.dialect + _STRICTNESS[tool.strict] for tool in exchange.view.tools if tool.parameters is not None)


@_aspect(Subject.TOOLS, "a tool without arguments", _requests)
def _no_arguments(exchange: ChatExchange) -> Iterator[str]:
    bare = {tool.name for tool in exchange.chat.request.tools if not tool.parameters.get("properties")}
    for tool in exchange.view.tools:
        if tool.name in bare:
            yield "no schema" if tool.parameters is None else "an empty object schema"


@_aspect(Subject.TOOLS, "arguments travel as", _whole_cell)
def _arguments(evidence: Evidence) -> Iterator[str]:
    for exchange, _, call in parts_of(evidence):
        if isinstance(call, CallView):
            sent = resolve(body_of(exchange), call.arguments_pointer)
            yield "JSON inside a string" if isinstance(sent, str) else "an object"


@_aspect(Subject.TOOLS, "results travel as", results_of)
def _payload(result: ResultView) -> Iterator[str]:
    for part in result.payload:
        yield "an object" if isinstance(part, JsonView) else "text" if isinstance(part, TextView) else "media"


@_aspect(Subject.TOOLS, "word for a forced call", _requests)
def _forced_words(exchange: ChatExchange) -> Iterator[str]:
    if exchange.chat.request.tool_choice != "required":
        return
    if exchange.view.tool_choice is None:
        yield "none is sent"
        return
    value = resolve(body_of(exchange), exchange.view.tool_choice.pointer)
    yield str(value.get("type", value.get("mode")) if isinstance(value, dict) else value)


@_aspect(Subject.HISTORY, "opaque state that goes back", _whole_cell)
def _opaque(evidence: Evidence) -> Iterator[str]:
    for _, turn, part in parts_of(evidence):
        if isinstance(part, OpaqueView):
            yield f"{part.kind} in an entry of its own" if len(turn.parts) == 1 else f"{part.kind} part"
        elif isinstance(part, CallView | TextView) and part.opaque is not None:
            yield f"signature on the {'call' if isinstance(part, CallView) else 'text'}"


@_aspect(Subject.HISTORY, "after a change of the prefix that the scenario asks for", _whole_cell)
def _asked_change(evidence: Evidence) -> Iterator[str]:
    for before, req in continued_requests(evidence):
        for change in caller_changes_between(evidence, before, req):
            bound = binding(evidence, req, change)
            effect = CONSEQUENCES[bound.treatment] if bound else "the prompt cache is lost"
            yield f"{change.section}: {effect}"


@_aspect(Subject.RESPONSES, "stop word with calls", _responses)
def _stop_word(response: ResponseView) -> Iterator[str]:
    if response.calls and response.raw_stop_reason:
        yield response.raw_stop_reason


@_aspect(Subject.RESPONSES, "stop word at the token limit", _responses)
def _limit_word(response: ResponseView) -> Iterator[str]:
    if response.stop_reason == "max_tokens":
        yield str(response.raw_stop_reason)


@_aspect(Subject.STREAMING, "how a stream is asked for", _requests)
def _stream_switch(exchange: ChatExchange) -> Iterator[str]:
    if exchange.view.stream:
        body = body_of(exchange)
        asks = isinstance(body, dict) and body.get("stream") is True
        yield "stream: true" if asks else endpoint(exchange.parsed.exchange.request.url).rpartition(":")[2]


@_aspect(Subject.STREAMING, "token count of a stream", _requests)
def _stream_usage(exchange: ChatExchange) -> Iterator[str]:
    answer, pointer = exchange.parsed.answer, exchange.view.usage_pointer
    if answer is not None and answer.streamed:
        counted = "no count" if answer.usage.output_tokens is None else "unasked"
        yield counted if pointer is None else f"asked for by {open_pointer(pointer)}"


@_aspect(Subject.STREAMING, "arguments arrive", lambda evidence: evidence.transcript.chats)
def _stream_arguments(chat: Chat) -> Iterator[str]:
    deltas = Counter(event.index for event in chat.events if isinstance(event, ArgumentsDelta))
    for event in chat.events:
        if isinstance(event, ToolCallEnd) and deltas[event.index]:
            yield "in pieces" if deltas[event.index] > 1 else "at once"


@_aspect(Subject.ERRORS, "requests for an answer that fails", _whole_cell)
def _requests_after_failure(evidence: Evidence) -> Iterator[str]:
    for chat in range(len(evidence.transcript.chats)):
        exchanges = evidence.exchanges(chat)
        if exchanges and is_retriable(exchanges[0]) and not exchanges[0].is_made_up:
            yield str(len(exchanges))


NOT_OBSERVED = "not observed"

ASPECTS = (*_ASPECTS,)

Observations = Mapping[str, frozenset[str]]
"""Maps the name of each aspect to the values that a cell shows. Aspects without values are omitted."""


def observe(evidence: Evidence) -> Observations:
    """Return the aspects that a cell shows, with their values."""
    shown = ((aspect.name, frozenset(aspect.observe(evidence))) for aspect in ASPECTS)
    return {name: values for name, values in shown if values}


class ObservedValues:
    """The values of each aspect, collected from the cells of a target."""

    def __init__(self, cells: Iterable[Observations] = ()) -> None:
        self._values: dict[str, set[str]] = {aspect.name: set() for aspect in ASPECTS}
        for each in cells:
            self.add(each)

    def add(self, cell: Mapping[str, Iterable[str]]) -> None:
        """Add the values of a cell."""
        for name, values in cell.items():
            self._values[name].update(values)

    def __getitem__(self, aspect: str) -> list[str]:
        """Return the values of an aspect, sorted."""
        return sorted(self._values[aspect])

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each observed aspect, sorted."""
        return {aspect: tuple(sorted(values)) for aspect, values in self._values.items() if values}


def difference_rows(observed: Mapping[str, ObservedValues]) -> tuple[Difference, ...]:
    """Return one row per aspect. `observed` maps targets to their values."""
    rows: list[Difference] = []
    for aspect in ASPECTS:
        values = {target: " · ".join(seen[aspect.name]) or NOT_OBSERVED for target, seen in observed.items()}
        known = {value for value in values.values() if value != NOT_OBSERVED}
        rows.append(Difference(aspect.subject.value, aspect.name, values, differs=len(known) > 1))
    return tuple(rows)
