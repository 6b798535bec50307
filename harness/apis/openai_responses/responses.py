"""Conversion of responses to neutral views, the dialects of servers, and the rules that servers must follow.

An event stream is first converted to the body that the same response has without streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.apis.eventstream import events_of, is_event_stream
from harness.apis.jsonvalue import as_list, as_object, body_of, count, equal, join, loads, resolve, string
from harness.apis.openai_common import meant_status, read_usage
from harness.apis.openai_responses.requests import NAME, item_kind, item_parts
from harness.apis.profiles import Profile, servers_of
from harness.apis.response_checks import EventGrammar, EventOrder, ReceivedEvent, ResponseChecks
from harness.apis.response_rules import EVENTS, ResponseViolation
from harness.apis.server import error_view
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ProviderReport, ResponseView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason, Usage

TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
STRING_FIELDS = {
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""Maps the common prefix of event types to the string field of the output item that their deltas extend."""

TEXTS = {
    "response.output_text": ("content", "output_text", "text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.reasoning_text": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary", "summary_text", "text"),
}
"""Maps the common prefix of event types to the list, the part type and the string field that their deltas extend."""

_PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}
"""Maps event families to the list that they add a part to."""


@dataclass(slots=True)
class _Item:
    """An item under construction. `index` is its `output_index`. `done` is set once its last event has arrived."""

    index: int
    item: dict[str, JSON]
    done: bool = False


@dataclass(slots=True)
class FoldedResponse:
    """Result of folding a stream. `error` is the payload of its error event. `complete` is set if the stream ended
    properly."""

    response: dict[str, JSON] = field(default_factory=dict[str, JSON])
    items: list[_Item] = field(default_factory=list[_Item])
    error: dict[str, JSON] | None = None
    complete: bool = False

    @property
    def body(self) -> dict[str, JSON]:
        """The complete body.

        The last event repeats the items, but some streams omit them. An item from its own `done` event takes precedence
        (openai-responses-stream-order), because the last event has newly encrypted reasoning state
        (openai-responses-reasoning-back).
        """
        if not self.items:
            return self.response
        repeated = self.response.get("output")
        if not isinstance(repeated, list) or not repeated:
            in_order = sorted(self.items, key=lambda one: one.index)
            return {**self.response, "output": [one.item for one in in_order]}
        done = {identity: one.item for one in self.items if one.done and (identity := string(one.item.get("id")))}
        output = [done.get(string(item.get("id")) or "", item) if isinstance(item, dict) else item for item in repeated]
        return {**self.response, "output": [*output]}


def fold(stream: bytes) -> FoldedResponse:
    """Fold a stream. A stream without events results in an empty response.

    Items are found by `output_index` or `item_id`, since several may be open (openai-responses-stream-order).

    Raises:
        WireError: the body is not an event stream, an event is not a JSON object, or no event belongs to a response.
    """
    folded = FoldedResponse()
    sent = events_of(stream)
    for event in sent:
        if event.data == "[DONE]":  # compatible servers end with the sentinel of Chat Completions
            continue
        payload = loads(event.data)
        if not isinstance(payload, dict):
            raise WireError("an event that is not an object")
        _take(folded, string(payload.get("type")) or "", payload)
    if sent and not folded.response and not folded.items and folded.error is None:
        raise WireError("no event of a response")
    return folded


def _take(folded: FoldedResponse, kind: str, payload: dict[str, JSON]) -> None:
    response, item = payload.get("response"), payload.get("item")
    family, _, step = kind.rpartition(".")
    if kind == "error" or (not kind and "error" in payload):
        inner = payload.get("error")
        folded.error = inner if isinstance(inner, dict) else payload
    elif isinstance(response, dict):
        folded.response = response
        folded.complete = folded.complete or kind in TERMINAL
    elif isinstance(item, dict):
        _open(folded, payload, deepcopy(item), done=step == "done")
    else:
        opened = _find(folded.items, payload)
        if opened is not None:
            _extend(opened.item, family, step, payload)


def _open(folded: FoldedResponse, payload: dict[str, JSON], item: dict[str, JSON], *, done: bool) -> None:
    """Add a new item, or replace an item with its final version."""
    known = _find(folded.items, payload) if done else None
    if known is None or known.done:
        index = payload.get("output_index")
        folded.items.append(_Item(index if isinstance(index, int) else 0, item, done))
    else:
        known.item, known.done = item, done


def _find(items: list[_Item], payload: dict[str, JSON]) -> _Item | None:
    """Return the item of an event. If several items have the event's index, use the id, else the last one."""
    index, item = payload.get("output_index"), payload.get("item")
    identity = item.get("id") if isinstance(item, dict) else payload.get("item_id")
    near = [one for one in reversed(items) if not isinstance(index, int) or one.index == index]
    return next((one for one in near if one.item.get("id") == identity), near[0] if near else None)


def _extend(item: dict[str, JSON], family: str, step: str, payload: dict[str, JSON]) -> None:
    if family in STRING_FIELDS:
        _write(item, STRING_FIELDS[family], step, payload)
    elif family in _PARTS:
        part = payload.get("part")
        if isinstance(part, dict):
            _place(item, _PARTS[family], payload, deepcopy(part))
    elif family in TEXTS:
        where, kind, key = TEXTS[family]
        part = _place(item, where, payload, None) or _place(item, where, payload, {"type": kind, key: ""})
        if part is not None:
            _write(part, key, step, payload)


def _write(target: dict[str, JSON], key: str, step: str, payload: dict[str, JSON]) -> None:
    if step == "delta":
        target[key] = (string(target.get(key)) or "") + (string(payload.get("delta")) or "")
    elif step == "done" and isinstance(payload.get(key), str):
        target[key] = payload[key]


def _place(
    item: dict[str, JSON], where: str, payload: dict[str, JSON], part: dict[str, JSON] | None
) -> dict[str, JSON] | None:
    """Return the part that an event refers to. If `part` is given, store it at that position first."""
    parts = item.setdefault(where, [])
    index = payload.get("summary_index" if where == "summary" else "content_index")
    if not isinstance(parts, list) or not isinstance(index, int) or index < 0:
        return None
    if part is not None:
        parts[index : index + 1] = [part]
    there = parts[index] if index < len(parts) else None
    return there if isinstance(there, dict) else None


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """A dialect of servers. The defaults are OpenAI's behaviour.

    `unique_ids`: call ids are unique; if not set, they count from `call_0` in every response. `numbered`: events have a
    `sequence_number`. `repeats`: the last event repeats the items. `sentinel`: the stream ends with `[DONE]`.
    """

    unique_ids: bool = True
    numbered: bool = True
    repeats: bool = True
    sentinel: bool = False


OPENAI = ResponsesDialect()

DIALECTS: Mapping[str, ResponsesDialect] = {
    "reused-ids": ResponsesDialect(unique_ids=False),
    "no-numbers": ResponsesDialect(numbered=False),  # observed in recorded traffic
    "bare-end": ResponsesDialect(repeats=False),
    "sentinel": ResponsesDialect(sentinel=True),
    **{server.service: ResponsesDialect(**server.dialect) for server in servers_of("openai-responses")},
}


def dialect_of(profile: Profile) -> ResponsesDialect:
    """Return the dialect of a profile."""
    return OPENAI if profile.dialect is None else DIALECTS[profile.dialect]


_CALLS = ("function_call", "custom_tool_call")
_UNFINISHED = ("in_progress", "incomplete")
INCOMPLETE_REASONS = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "steered": StopReason.PAUSE,
}
"""The stop reasons by the `reason` of an incomplete response."""

_STATUS = {
    "in_progress": StopReason.PAUSE,
    "queued": StopReason.PAUSE,
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ERROR,
}


def read(response: HttpResponse) -> ResponseView:
    """Return the neutral view of a response. An event stream is folded first.

    Raises:
        WireError: the status is successful, but the body is not a response of this API.
    """
    if response.status >= 400:
        return _refusal(response)
    if not is_event_stream(response.headers.get("content-type", ""), response.body):
        whole = body_of(response)
        if not isinstance(whole, dict) or ("output" not in whole and whole.get("error") is None):
            raise WireError("not a response")
        return _view(whole, whole.get("error"), response, streamed=False, complete=True)
    folded = fold(response.body)
    error = folded.error or folded.body.get("error")
    return _view(folded.body or {"error": error}, error, response, streamed=True, complete=folded.complete)


def _refusal(response: HttpResponse) -> ResponseView:
    """Return the view of an error response. A proxy's error may not be JSON."""
    try:
        body: JSON = loads(response.body)
    except WireError:
        body = response.body.decode(errors="replace")
    error = as_object(body).get("error")
    return ResponseView(
        api=NAME,
        parts=(),
        stop_reason=StopReason.ERROR,
        raw_stop_reason=None,
        usage=Usage(),
        model=None,
        body=body,
        error=read_error(error if error is not None else body, response),
    )


def _view(
    body: dict[str, JSON], error: JSON, response: HttpResponse, *, streamed: bool, complete: bool
) -> ResponseView:
    items = _items(body)
    parts = tuple(
        _unless_cut_short(part, item, last=index == len(items) - 1) if body.get("status") == "incomplete" else part
        for index, (pointer, item) in enumerate(items)
        for part in item_parts(item, pointer)
    )
    kinds = tuple(item_kind(item) for _, item in items)
    stop, word = _stop(body, kinds, parts)
    if error is not None:
        stop = StopReason.ERROR
    elif not complete:
        stop, word = StopReason.UNKNOWN, None
    return ResponseView(
        api=NAME,
        parts=parts,
        stop_reason=stop,
        raw_stop_reason=word,
        usage=read_usage(body.get("usage"), "input_tokens", "output_tokens"),
        model=string(body.get("model")),
        body=body,
        streamed=streamed,
        complete=complete,
        error=None if error is None else read_error(error, response),
        reports=tuple(_reports(body)),
    )


def _reports(body: dict[str, JSON]) -> Iterator[ProviderReport]:
    """Yield the dropped reasoning items and the cache miss (openai-responses-input-transformations,
    openai-responses-cache-diagnostics).

    Items removed with the reason `turn_boundary` are not reported, because the request or the model's default asks for
    that.
    """
    for index, each in enumerate(as_list(body.get("input_transformations"))):
        report, reason = as_object(each), string(as_object(each).get("reason"))
        if report.get("action") == "removed" and reason and reason != "turn_boundary":
            pointer = join("/input_transformations", index)
            yield ProviderReport("dropped", reason, pointer, item_id=string(report.get("id")))
    diagnosis = as_object(body.get("prompt_cache_diagnostics"))
    if diagnosis.get("type") == "cache_miss":
        reason, tokens = string(diagnosis.get("reason")) or "", count(diagnosis.get("cache_missed_tokens"))
        yield ProviderReport("cache-missed", reason, "/prompt_cache_diagnostics", tokens=tokens)


def _unless_cut_short(part: PartView, item: dict[str, JSON], *, last: bool) -> PartView:
    """Return a part of an incomplete response. If it is a truncated call, mark it as malformed.

    A call is truncated if its item's status says so. Some servers mark every item as completed; there, a call is
    truncated if it is the last item and has no arguments.
    """
    raw = item.get("arguments")
    if not isinstance(part, CallView) or not isinstance(raw, str):
        return part
    if item.get("status") in _UNFINISHED or (last and not raw):
        return replace(part, arguments=None, malformed=raw)
    return part


def _items(body: dict[str, JSON]) -> list[tuple[str, dict[str, JSON]]]:
    output = body.get("output")
    items: list[tuple[str, dict[str, JSON]]] = []
    for index, item in enumerate(as_list(output)):
        pointer = join("/output", index)
        if not isinstance(item, dict):
            raise WireError("not an object", pointer)
        items.append((pointer, item))
    return items


def _stop(body: dict[str, JSON], kinds: tuple[str, ...], parts: tuple[PartView, ...]) -> tuple[StopReason, str | None]:
    """Return the stop reason, derived from status and items. The API has no finish reason
    (openai-responses-stop-reasons)."""
    status, details = string(body.get("status")), body.get("incomplete_details")
    if status == "completed":
        if any(isinstance(part, CallView) and not isinstance(part.arguments, dict) for part in parts):
            return StopReason.MALFORMED_CALL, status
        if any(kind in _CALLS for kind in kinds):
            return StopReason.TOOL_USE, status
        refused = any(isinstance(part, OpaqueView) and part.kind == "refusal" for part in parts)
        return (StopReason.REFUSAL if refused else StopReason.END_TURN), status
    if status == "incomplete":
        reason = string(details.get("reason")) if isinstance(details, dict) else None
        return INCOMPLETE_REASONS.get(reason or "", StopReason.UNKNOWN), reason or status
    return _STATUS.get(status or "", StopReason.UNKNOWN), status


_FAMILIES = {**STRING_FIELDS, **{family: key for family, (_, _, key) in TEXTS.items()}}
"""Maps event families to the field whose string their deltas build. The `done` event has the complete string."""

_PIECES = frozenset(f"{family}.{step}" for family in _FAMILIES for step in ("delta", "done"))
_ARGUMENTS = "response.function_call_arguments"


class _ResponseEventOrder(EventOrder):
    """Event order checks.

    Some servers end with the sentinel of Chat Completions. This is harmless, because the official SDK stops reading
    there, too.
    """

    grammar = EventGrammar(
        is_named=True,
        sentinel="skipped",
        first="response.created",
        last=frozenset(TERMINAL),
        closing=frozenset({"response.completed"}),
        opens="response.output_item.added",
        grows=_PIECES,
        closes="response.output_item.done",
        schemas={
            "response.output_item.added": "item",
            "response.output_item.done": "item",
            **dict.fromkeys(_PIECES, "piece"),
            **dict.fromkeys(TERMINAL, "end"),
        },
        index="output_index",
        holds="item",
    )

    def __init__(self) -> None:
        super().__init__()
        self._number: int | None = None
        self._done: dict[int, dict[str, JSON]] = {}
        self._texts: dict[tuple[int, str, JSON], str] = {}

    def block_at(self, data: dict[str, JSON]) -> int | None:
        index, item = super().block_at(data), data.get("item")
        if index is not None or data.get("type") == self.grammar.opens:
            return index
        name = item.get("id") if isinstance(item, dict) else data.get("item_id")
        return next((at for at, block in self.open.items() if block.get("id") == name), None)

    def check(self, event: ReceivedEvent) -> Iterator[ResponseViolation]:
        data = event.data or {}
        number, at, index = data.get("sequence_number"), event.index, self.block_at(data)
        if isinstance(number, int):
            if self._number is not None and number <= self._number:
                yield EVENTS.make_violation("the sequence numbers do not grow", "/sequence_number", at, number)
            self._number = number
        if event.kind in TERMINAL:
            yield from self._check_repeat(data, at)
        elif index in self.open and event.kind == self.grammar.closes:
            yield from self._check_closed(index, as_object(data.get("item")), at)
        elif index in self.open and event.kind in _PIECES:
            yield from self._piece(index, event.kind, data, at)

    def _check_repeat(self, data: dict[str, JSON], at: int) -> Iterator[ResponseViolation]:
        output, done = resolve(data, "/response/output"), [_bare(item) for _, item in sorted(self._done.items())]
        if done and isinstance(output, list) and not self.open and not equal([*map(_bare, output)], done):
            message = "the output of the last event differs from the items of the stream"
            yield EVENTS.make_violation(message, "/response/output", at, output, done)

    def _piece(self, index: int, kind: str, data: dict[str, JSON], at: int) -> Iterator[ResponseViolation]:
        family, _, step = kind.rpartition(".")
        if data.get("item_id") != self.open[index].get("id"):
            message = "the item_id is not the id of the item with this output_index"
            yield EVENTS.make_violation(message, "/item_id", at, data.get("item_id"), self.open[index].get("id"))
        part = data.get("content_index", data.get("summary_index"))
        where = (index, family, part if isinstance(part, int) else None)
        so_far, delta, key = self._texts.get(where, ""), data.get("delta"), _FAMILIES[family]
        if step == "delta":
            self._texts[where] = so_far + (delta if isinstance(delta, str) else "")
        elif data.get(key) != so_far:
            yield EVENTS.make_violation("the pieces do not add up to the whole", f"/{key}", at, so_far, data.get(key))

    def _check_closed(self, index: int, item: dict[str, JSON], at: int) -> Iterator[ResponseViolation]:
        self._done[index], begun = item, self.open[index]
        for name in ("id", "call_id", "name"):
            if begun.get(name) != item.get(name):
                message = f"the {name!r} of an item changes while it is streamed"
                yield EVENTS.make_violation(message, f"/item/{name}", at, item.get(name), begun.get(name))
        pieces, whole = self._texts.get((index, _ARGUMENTS, None), ""), item.get("arguments")
        if isinstance(whole, str) and item.get("type") == "function_call" and pieces != whole:
            message = "the pieces of the arguments do not add up to the arguments of the item"
            yield EVENTS.make_violation(message, "/item/arguments", at, pieces, whole)


def _bare(item: JSON) -> JSON:
    """Return an item without its encrypted state, which differs each time (openai-responses-reasoning-back)."""
    if not isinstance(item, dict):
        return item
    return {key: value for key, value in item.items() if key != "encrypted_content"}


check_response = ResponseChecks(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_ResponseEventOrder,
    arguments=("arguments",),
    is_text=True,
    total="total_tokens",
    parts=("input_tokens", "output_tokens"),
)


def read_error(error: JSON, response: HttpResponse) -> ErrorView:
    """Return the error of a response. In an `error` event, the error's fields are at the top level, next to the event's
    `type`.
    """
    if not isinstance(error, dict):
        return error_view(response, string(error) or "")
    code = error.get("code")
    return error_view(
        response,
        string(error.get("message")) or "",
        None if code is None else str(code),
        stands_for=meant_status(error),
    )
