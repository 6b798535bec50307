"""Conversion of response bodies and event streams to neutral views, and the rules that servers must follow."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness.apis.anthropic.requests import content_parts
from harness.apis.eventstream import decode_frames, events_of, is_event_stream, is_framed
from harness.apis.jsonvalue import as_list, as_object, body_of, count, join, loads, loads_or_none, resolve, string
from harness.apis.response_checks import EventGrammar, EventOrder, ReceivedEvent, ResponseChecks
from harness.apis.response_rules import EVENTS, ResponseViolation
from harness.apis.server import error_view
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ProviderReport, ResponseView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason, Usage

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
}
"""Maps the API's stop reasons to canonical stop reasons."""

_ENDED = (StopReason.TOOL_USE, StopReason.END_TURN, StopReason.STOP_SEQUENCE)


def read(response: HttpResponse) -> ResponseView:
    """Return the neutral view of a response. An event stream is folded first.

    See anthropic-response-blocks, anthropic-stream-order, anthropic-stream-arguments, anthropic-stream-signature,
    anthropic-broken-arguments and anthropic-stream-usage.

    Raises:
        WireError: the body of an HTTP 200 response is neither a message nor an error. An error status with an
            unreadable body, such as a proxy's page, returns an error whose message is that body.
    """
    if response.status >= 400:
        return _refusal(response)
    content_type = response.headers.get("content-type", "")
    if is_framed(content_type) or is_event_stream(content_type, response.body):
        folded = fold(decode_frames(response.body) if is_framed(content_type) else response.body)
        error = read_error(folded.error, response)
        return _message(folded.message, streamed=True, complete=folded.complete, error=error)
    body = body_of(response)
    error = read_error(body, response)
    return _message({} if error else body, error=error, body=body)


def _refusal(response: HttpResponse) -> ResponseView:
    text = response.body.decode("utf-8", errors="replace")
    body = loads_or_none(response.body)
    error = read_error(body, response) or error_view(response, text)
    return _message({}, error=error, body=body)


def _message(
    message: JSON, *, streamed: bool = False, complete: bool = True, error: ErrorView | None = None, body: JSON = None
) -> ResponseView:
    if not isinstance(message, dict):
        raise WireError("not an object")
    if error is None and not isinstance(message.get("content"), list):
        raise WireError("a message has a list of content blocks", "/content")
    raw, model, usage, details = (message.get(key) for key in ("stop_reason", "model", "usage", "stop_details"))
    parts: tuple[PartView, ...] = content_parts(message.get("content"), "/content")
    stop_reason = _stop_reason(raw, parts, error)
    if stop_reason is StopReason.MAX_TOKENS and parts and isinstance(parts[-1], CallView):
        parts = (*parts[:-1], _cut_short(parts[-1]))
    if raw == "refusal" and isinstance(details, dict):
        parts = (*parts, OpaqueView("refusal", details, "/stop_details"))
    return ResponseView(
        api="anthropic",
        parts=parts,
        stop_reason=stop_reason,
        raw_stop_reason=string(raw),
        usage=_usage(as_object(usage)),
        model=string(model),
        body=message if body is None else body,
        streamed=streamed,
        complete=complete,
        error=error,
        reports=tuple(_reports(message)),
    )


_EFFECTS: Mapping[str, Literal["dropped", "tolerated"]] = {
    "thinking_dropped": "dropped",
    "thinking_mismatch_allowed": "tolerated",
}


def _reports(message: dict[str, JSON]) -> Iterator[ProviderReport]:
    """Yield a report for each input part that failed the provider's check, and for a cache miss
    (anthropic-input-transformations, anthropic-cache-diagnostics).
    """
    for index, each in enumerate(as_list(message.get("input_transformations"))):
        report = as_object(each)
        effect = _EFFECTS.get(string(report.get("type")) or "")
        if effect is not None:
            part, reason = string(report.get("path")), string(report.get("reason")) or ""
            place = None if part is None else join("", *part.split("."))
            yield ProviderReport(effect, reason, join("/input_transformations", index), place)
    missed = as_object(as_object(message.get("diagnostics")).get("cache_miss_reason"))
    reason = string(missed.get("type")) or ""
    if reason.endswith("_changed"):  # other values mean that there is nothing to compare
        tokens = count(missed.get("cache_missed_input_tokens"))
        yield ProviderReport("cache-missed", reason, "/diagnostics/cache_miss_reason", tokens=tokens)


def _stop_reason(raw: JSON, parts: tuple[PartView, ...], error: ErrorView | None) -> StopReason:
    """Return the stop reason. The API has no stop reason for a malformed call (anthropic-broken-arguments)."""
    if error:
        return StopReason.ERROR
    reason = STOP_REASONS.get(raw, StopReason.UNKNOWN) if isinstance(raw, str) else StopReason.UNKNOWN
    if reason in _ENDED and any(isinstance(part, CallView) and not isinstance(part.arguments, dict) for part in parts):
        return StopReason.MALFORMED_CALL
    return reason


def _cut_short(call: CallView) -> CallView:
    """Mark the last call of a truncated response as malformed.

    The call may or may not be complete: the API either closes the JSON of a truncated call
    (anthropics/anthropic-sdk-python#794) or leaves it unfinished (anthropic-broken-arguments).
    """
    text = json.dumps(call.arguments, ensure_ascii=False) if call.malformed is None else call.malformed
    return replace(call, arguments=None, malformed=text)


def _usage(usage: dict[str, JSON]) -> Usage:
    fresh, written, read_ = (
        count(usage.get(key)) for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    return Usage(
        input_tokens=None if fresh is None else fresh + (written or 0) + (read_ or 0),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=read_,
        cache_write_tokens=written,
        reasoning_tokens=count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


_DONE = "[DONE]"
"""Last event of OpenAI's streams. Some compatible servers send it at the end of Anthropic streams, too. The SDKs ignore
it there.
"""


@dataclass(slots=True)
class _Block:
    """A block under construction. `fragments` are the pieces of its input; `None` until the first one arrives."""

    data: dict[str, JSON]
    fragments: list[str] | None = None

    def extend(self, delta: dict[str, JSON]) -> None:
        """Apply one `content_block_delta` (anthropic-stream-arguments, anthropic-stream-signature)."""
        kind = delta.get("type")
        if kind == "input_json_delta":
            fragment = delta.get("partial_json")
            self.fragments = [*(self.fragments or ()), fragment if isinstance(fragment, str) else ""]
        elif kind == "citations_delta":
            self._append("citations", [delta.get("citation")])
        elif kind == "signature_delta":
            self.data["signature"] = delta.get("signature")  # replaces the previous value
        else:  # text_delta, thinking_delta, and future delta types
            for key, value in delta.items():
                if key != "type":
                    self._append(key, value)

    def to_json(self) -> dict[str, JSON]:
        """Return the block as in a non-streamed response. Input that is not JSON is kept as text."""
        text = "".join(self.fragments or ())
        if text:
            try:
                return {**self.data, "input": loads(text)}
            except WireError:
                return {**self.data, "input": text}
        return self.data

    def _append(self, key: str, value: JSON) -> None:
        before = self.data.get(key)
        if isinstance(before, str) and isinstance(value, str):
            self.data[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            self.data[key] = [*before, *value]
        else:
            self.data[key] = value


@dataclass(slots=True)
class FoldedMessage:
    """Result of folding a stream. `complete` is set once `message_stop` arrives. `error` is the body of an `error`
    event."""

    message: dict[str, JSON] = field(default_factory=dict[str, JSON])
    complete: bool = False
    error: JSON = None


@dataclass(slots=True)
class _Fold:
    result: FoldedMessage = field(default_factory=FoldedMessage)
    blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])

    def take(self, event: dict[str, JSON]) -> None:
        match event.get("type"):
            case "message_start":
                self.result.message = _member(event, "message")
            case "content_block_start":
                self.blocks[_index(event)] = _Block(_member(event, "content_block"))
            case "content_block_delta":
                self._block(event).extend(_member(event, "delta"))
            case "message_delta":
                self._finish(event)
            case "message_stop":
                self.result.complete = True
            case "error":
                self.result.error = event
            case None if "error" in event:  # an error inserted by a proxy or a compatible server
                self.result.error = event
            case _:  # content_block_stop and ping add no information; future event types are ignored
                pass

    def _block(self, event: dict[str, JSON]) -> _Block:
        try:
            return self.blocks[_index(event)]
        except KeyError:
            raise WireError("a delta for a block that has not started", "/index") from None

    def _finish(self, event: dict[str, JSON]) -> None:
        """Apply a `message_delta`. Its counts are cumulative, and absent fields keep their values
        (anthropic-stream-usage).

        In the beta API, these events have further fields of the message, such as `context_management`.
        """
        message = self.result.message
        known, counted = message.get("usage"), event.get("usage")
        changes = {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}
        self.result.message = _update(_update(message, _member(event, "delta")), changes)
        if isinstance(counted, dict):
            self.result.message["usage"] = _update(as_object(known), counted)


def _update(known: dict[str, JSON], changes: dict[str, JSON]) -> dict[str, JSON]:
    """Return `known` updated with the new values. A null changes nothing."""
    return {**known, **{key: value for key, value in changes.items() if value is not None or key not in known}}


def fold(body: bytes) -> FoldedMessage:
    """Fold an event stream into the message of a non-streamed response. A stream without events results in an empty
    message.

    Raises:
        WireError: the body is not an event stream, an event is not a JSON object, a delta has no block, or the stream
            has neither a message nor an error.
    """
    fold_ = _Fold()
    silent = True
    for event in events_of(body):
        if event.data == _DONE:
            continue
        data = loads(event.data)
        if not isinstance(data, dict):
            raise WireError("an event is not an object")
        fold_.take(data)
        silent = silent and data == {"type": "ping"}
    result = fold_.result
    if not result.message and result.error is None and not silent:
        raise WireError("a stream without message_start")
    if result.message or silent:
        result.message["content"] = [fold_.blocks[index].to_json() for index in sorted(fold_.blocks)]
    return result


def _member(event: dict[str, JSON], key: str) -> dict[str, JSON]:
    value = event.get(key)
    if not isinstance(value, dict):
        raise WireError("not an object", join("", key))
    return copy.deepcopy(value)


def _index(event: dict[str, JSON]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise WireError("not an index", "/index")
    return index


_DELTAS = {
    "text_delta": ("text",),
    "citations_delta": ("text",),
    "input_json_delta": ("tool_use", "server_tool_use", "mcp_tool_use"),
    "thinking_delta": ("thinking",),
    "signature_delta": ("thinking",),
}
"""Maps delta types to the block types that they extend."""


class _MessageEventOrder(EventOrder):
    grammar = EventGrammar(
        is_named=True,
        first="message_start",
        last=frozenset({"message_stop"}),
        before_last="message_delta",
        closing=frozenset({"message_delta"}),
        opens="content_block_start",
        grows=frozenset({"content_block_delta"}),
        closes="content_block_stop",
        holds="content_block",
    )

    def check(self, event: ReceivedEvent) -> Iterator[ResponseViolation]:
        data = event.data or {}
        of, index = resolve(data, "/delta/type"), self.block_at(data)
        block = None if index is None else self.open.get(index)
        if block is not None and isinstance(of, str) and of in _DELTAS and block.get("type") not in _DELTAS[of]:
            message = f"a {of} is for a block of type {block.get('type')!r}"
            yield EVENTS.make_violation(message, "/delta/type", event.index, of)


check_response = ResponseChecks(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_MessageEventOrder,
    arguments=("input",),
    stop=("/stop_reason", frozenset({"end_turn", "stop_sequence"}), "tool_use"),
)


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Error types by status. See anthropic-error-body. Other 4xx statuses use `invalid_request_error`. The use of
`api_error` for other 5xx statuses is unconfirmed."""


_STATUSES = {kind: status for status, kind in ERROR_TYPES.items()}


def read_error(body: JSON, response: HttpResponse) -> ErrorView | None:
    """Return the error in a body or an event.

    If the HTTP status is 200, the error type determines the status (anthropic-stream-error). Bedrock only has a
    `message`.
    """
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict):
        kind, message = error.get("type"), error.get("message")
        code = string(kind)
        return error_view(
            response, message if isinstance(message, str) else "", code, stands_for=_STATUSES.get(code or "")
        )
    message = body.get("message")
    return error_view(response, message) if isinstance(message, str) and response.status >= 400 else None
