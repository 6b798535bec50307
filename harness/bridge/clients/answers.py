"""Conversion of what a client returns, a complete answer or a stream, into a response or stream events."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from harness.adapters.anthropic import responses as anthropic_responses
from harness.adapters.gemini import responses as gemini_responses
from harness.adapters.openai_responses import streams as openai_responses_streams
from harness.bridge.clients.annotations import own_classes
from harness.bridge.clients.answer_fields import (
    TEXT_FIELDS,
    as_completion,
    computed_fields,
    has_calls_field,
    usual_stop_reason,
)
from harness.bridge.clients.complete_answers import (
    own_message,
    read_complete_answer,
    text_and_calls,
    with_missing,
    with_native_message,
)
from harness.bridge.clients.forms import ANTHROPIC, GEMINI
from harness.bridge.clients.native_bodies import (
    HTTP_OK,
    has_signature,
    is_anthropic_body,
    is_gemini_body,
    native_body,
)
from harness.bridge.clients.stream_pieces import (
    AnswerInside,
    JoinedText,
    answer_inside,
    event_kind,
    join_call,
    join_parts,
    message_of_parts,
    read_piece,
    repeats_calls,
    with_answers_inside,
)
from harness.bridge.clients.stream_snapshots import Snapshots, read_snapshots
from harness.bridge.clients.values import as_object, camel_case, items_of_iterator, jsonable, plain_fields
from harness.bridge.completions import (
    EMPTY_ARGUMENTS,
    EMPTY_COUNTS,
    NO_REFUSAL,
    NO_STOP_REASON,
    NO_USAGE,
    OWN_COUNTS,
    completion,
    events,
)
from harness.bridge.openai_messages import Memory
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    JSON,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    StreamEvent,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)


def read_answer(  # noqa: PLR0913 - what is known about the client and its API
    answer: object,
    request: ChatRequest,
    memory: Memory,
    api: str = "openai-chat",
    *,
    hint: object = None,
    source: str = "",
) -> ChatResponse:
    """Convert the answer of a client to a response.

    The answer may have the format of Anthropic, Gemini, OpenAI Responses or OpenAI Chat. It may also be an object with
    text and calls, a tuple of these, a string, or an iterator of parts. `memory` keeps the messages that can be sent
    back to the client unchanged. These are messages of OpenAI Chat, dictionaries with a role, and instances of the
    class in `hint`, the annotation of the client's messages. Other messages of OpenAI Chat also get the fields of the
    answer, because the client may read them. `source` is the client's code.

    Raises:
        MalformedResponse: the answer has neither text nor calls.
    """
    if (items := items_of_iterator(answer)) is not None:
        if (native := native_body(items, api)) is not None and is_gemini_body(native):
            return gemini_responses.read_response(native, request)
        *before, answer = items
        is_part = isinstance(answer, str) or event_kind(answer) in ("end", "call") or (before and _lacks_text(answer))
        if is_part or not all(isinstance(each, str) for each in before):
            whole = _final_response(read_stream(items, request, memory, api, source))
            keep_own_message(answer, whole, request, memory, api, hint, source)
            return whole
    whole = read_complete_answer(answer, request, memory, api, hint=hint, source=source)
    is_empty = whole.usage == Usage() and "usage" in plain_fields(answer)
    return replace(whole, reported={**whole.reported, EMPTY_COUNTS: True}) if is_empty else whole


def _lacks_text(answer: object) -> bool:
    """Return whether the whole answer at the end of a stream of texts has fields for calls, but none for its text."""
    return has_calls_field(answer) and not {*TEXT_FIELDS} & (
        plain_fields(answer).keys() | computed_fields(answer).keys()
    )


def keep_own_message(  # noqa: PLR0913, PLR0917 - what is known about the client and its API
    item: object, found: ChatResponse, request: ChatRequest, memory: Memory, api: str, hint: object, source: str = ""
) -> None:
    """Keep the client's own message if the last item of its stream has the whole answer `found`."""
    own = own_message(item, hint, api, source)
    if own is None and (inner := answer_inside(item)) is not None:
        item, own = inner, own_message(inner, hint, api, source)
    if own is item and not own_classes(hint):  # a piece of the stream may have a role, too
        return
    with contextlib.suppress(Exception):  # a piece of an answer may be no answer
        if own is not None and text_and_calls(read_answer(own, request, Memory(), api).message) == text_and_calls(
            found.message
        ):
            memory.keep(request, found.message, own)


def _final_response(stream: Iterator[StreamEvent]) -> ChatResponse:
    return next(event.response for event in reversed([*stream]) if isinstance(event, Finish))


_ANTHROPIC_EVENTS = ("message_start", "content_block_start", "ping", "error")


def read_stream(
    items: Iterable[object], request: ChatRequest, memory: Memory, api: str = "openai-chat", source: str = ""
) -> Iterator[StreamEvent]:
    """Convert a client's stream to events.

    Items may be events of Anthropic, chunks of Gemini or OpenAI Chat, texts, the client's own events, or tuples of a
    kind and a value. If an event has only a field `data`, its value is the chunk. `source` is the client's code.
    """
    every = iter(items)
    first = next(every, None)
    if first is None:  # the caller gets neither a text nor an error
        lacks = {NO_REFUSAL: True, NO_USAGE: True, NO_STOP_REASON: True}
        return iter([Finish(with_missing(read_answer("", request, memory, api), lacks))])
    items, body = chain([first], every), jsonable(first)
    if isinstance(body, dict) and len(body) == 1 and "choices" in as_object(body.get("data")):
        items, body = (plain_fields(each)["data"] for each in items), body["data"]
    if isinstance(body, dict) and body.get("type") in _ANTHROPIC_EVENTS:
        return anthropic_responses.read_events(as_object(jsonable(each)) for each in items)
    if is_gemini_body(body):
        return gemini_responses.read_chunks((as_object(camel_case(jsonable(each))) for each in items), request)
    if isinstance(body, dict) and str(body.get("type")).startswith("response."):
        sent = ((None, as_object(jsonable(each))) for each in items)
        return openai_responses_streams.read_events(sent, HTTP_OK, request.messages)
    if api == GEMINI.name:
        items = [*items]
        if (native := native_body(items, api)) is not None:
            return gemini_responses.read_chunks(iter([as_object(native)]), request)
    if isinstance(body, dict) and "choices" in body:
        return events(items, request, memory, parsed=api == ANTHROPIC.name)
    snapshots, items = read_snapshots(items, source)
    if snapshots is not None:
        return _events_of_snapshots(snapshots, request, memory, api)
    return _with_calls_in_order(_own_events(items, request, api))


def _events_of_snapshots(snapshots: Snapshots, request: ChatRequest, memory: Memory, api: str) -> Iterator[StreamEvent]:
    """Yield the events of a stream whose items are the whole message so far."""
    if snapshots.error is not None:
        yield from map(TextDelta, snapshots.texts)
        raise snapshots.error
    yield from events_of(read_answer(snapshots.items[-1], request, memory, api), snapshots.texts)


def events_of(answer: ChatResponse, texts: Sequence[str]) -> Iterator[StreamEvent]:
    """Yield the events of a stream whose client returns only the whole response.

    `texts` are the pieces of its text that the client passed to a callback, if it has one.
    """
    yield from map(TextDelta, texts or filter(None, [answer.text]))
    for index, call in enumerate(answer.tool_calls):
        yield ToolCallStart(index, call.id, call.name)
        yield ArgumentsDelta(index, json.dumps(call.arguments))
        yield ToolCallEnd(index)
    yield Finish(answer)


def _own_events(items: Iterable[object], request: ChatRequest, api: str) -> Iterator[StreamEvent]:
    """Convert a stream of texts and objects to events. A text or a call that repeats earlier ones is skipped."""
    texts, calls, reason = {"content": JoinedText(), "refusal": JoinedText()}, list[dict[str, Any]](), None
    has_refusal = has_usage = has_usage_field = is_known = False
    parts: list[JSON] = []
    whole: ChatResponse | None = None
    ends = deque[object](maxlen=_MAX_ENDS)

    def chunks() -> Iterator[object]:
        nonlocal reason, has_refusal, has_usage, has_usage_field, is_known, whole
        for each in with_answers_inside(items):
            body, item = jsonable(each), each
            ends.appendleft(each)
            if _holds_native_answer(each, body, api):
                whole = read_answer(each, request, Memory(), api)
                item = _as_readable_answer(whole)
            piece, part = read_piece(item)
            parts.append(part)
            is_known = is_known or bool(piece)
            made: dict[str, Any] = cast("dict[str, Any]", as_completion(piece or ""))
            choice = made["choices"][0]
            message = choice["message"]
            for name, text in texts.items():
                message[name] = text.add(message[name], each, has_usage=bool(made["usage"]))
            if isinstance(each, AnswerInside) and repeats_calls(calls, message["tool_calls"]):
                message["tool_calls"] = []
            message["tool_calls"] = [call for call in message["tool_calls"] if join_call(calls, call)]
            reason = choice["finish_reason"] or reason
            has_refusal, has_usage = has_refusal or bool(made.get("has_refusal")), has_usage or bool(made["usage"])
            has_usage_field = has_usage_field or "usage" in plain_fields(each)
            yield made
        if not is_known:
            raise MalformedResponse("the client returned a stream of objects with no text and no tool calls")
        if reason is None:
            yield completion(reason=usual_stop_reason(calls))

    for event in events(chunks(), request, parsed=api == ANTHROPIC.name):
        if isinstance(event, Finish):
            lacks = {NO_REFUSAL: not has_refusal, NO_USAGE: not has_usage, NO_STOP_REASON: reason is None}
            lacks |= {OWN_COUNTS: has_usage, EMPTY_COUNTS: has_usage_field and not has_usage}
            answer = whole or with_missing(event.response, lacks)
            yield Finish(_with_native_parts(answer, parts, ends, request, api))
        else:
            yield event


def _with_calls_in_order(stream: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    """Yield the events of a stream, with those of calls at its end, in the order of the calls in the answer. A client
    may yield each call as soon as it is complete.
    """
    of_calls = list[ToolCallStart | ArgumentsDelta | ToolCallEnd]()
    for event in stream:
        if isinstance(event, ToolCallStart | ArgumentsDelta | ToolCallEnd):
            of_calls.append(event)
            continue
        if isinstance(event, Finish):
            started = [each.id for each in of_calls if isinstance(each, ToolCallStart)]
            ids = [each.id for each in event.response.tool_calls]
            is_permuted = len({*ids}) == len(ids) and sorted(started) == sorted(ids)
            places = {index: ids.index(each) for index, each in enumerate(started)} if is_permuted else {}
            moved = [replace(each, index=places.get(each.index, each.index)) for each in of_calls]
            yield from sorted(moved, key=lambda each: each.index) if places else moved
        yield event


def _with_native_parts(
    answer: ChatResponse, parts: Iterable[JSON], ends: Iterable[object], request: ChatRequest, api: str
) -> ChatResponse:
    """Return the response of a stream with its thoughts and signatures.

    They are in the parts of its events, or in a whole answer in the API's own format among its last items `ends`.
    """
    if any(map(has_signature, parts)):
        return replace(answer, message=message_of_parts(join_parts(parts), request))
    made = (with_native_message(answer, each, request, api) for each in ends if not isinstance(each, str))
    found = next((each for each in made if each is not answer), None)
    if found is None:
        return answer
    return replace(found, reported={key: each for key, each in found.reported.items() if key != EMPTY_ARGUMENTS})


_MAX_ENDS = 4
"""Number of the last items of a stream that may have the whole answer. Others may have its usage and stop reason."""


def _holds_native_answer(item: object, body: JSON, api: str) -> bool:
    """Return whether an item of a stream is a whole answer that also has the content in the API's own format."""
    is_gemini = api == GEMINI.name and native_body(item, api) is not None
    is_anthropic = api == ANTHROPIC.name and is_anthropic_body(body)
    is_message = is_anthropic and as_object(body).get("type") == "message"
    is_native = (is_gemini or is_anthropic) and has_calls_field(item)
    return isinstance(as_object(body).get("output"), list) or is_message or is_native


def _as_readable_answer(whole: ChatResponse) -> dict[str, object]:
    """Convert the final response of an OpenAI Responses stream to an object that `as_completion` can read."""
    calls = [{"id": each.id, "name": each.name, "arguments": {**each.arguments}} for each in whole.tool_calls]
    return {"text": whole.text, "calls": calls, "finish_reason": whole.raw_stop_reason or whole.stop_reason.value}
