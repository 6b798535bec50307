"""Conversion of a client's complete answer into a response, and its message that can be sent back unchanged."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from harness.adapters.anthropic import responses as anthropic_responses
from harness.adapters.gemini import responses as gemini_responses
from harness.adapters.openai_responses import responses as openai_responses
from harness.bridge.clients.annotations import hints_of, own_classes, subclasses_of
from harness.bridge.clients.answer_fields import (
    CALL_FIELDS,
    TEXT_FIELDS,
    as_completion,
    computed_fields,
    is_reasoning,
    own_calls,
    stop_reason_in,
    text_of_fields,
    token_counts_in,
    usual_stop_reason,
)
from harness.bridge.clients.content_blocks import own_blocks
from harness.bridge.clients.forms import ANTHROPIC, GEMINI, OPENAI, RESPONSES
from harness.bridge.clients.message_dictionaries import with_own_fields
from harness.bridge.clients.native_bodies import (
    CONTENT_BLOCKS,
    HTTP_OK,
    OUTPUT_ITEMS,
    is_anthropic_body,
    is_gemini_body,
    native_body,
)
from harness.bridge.clients.values import as_object, camel_case, items_of, jsonable, plain_fields
from harness.bridge.completions import NO_REFUSAL, NO_STOP_REASON, OWN_COUNTS, response, stop_reason
from harness.bridge.openai_messages import Memory, messages, plain
from harness.model.messages import JSON, ChatRequest, ChatResponse, JsonSchema, Message, Refusal, StopReason, Usage


def read_complete_answer(  # noqa: PLR0913 - what is known about the client and its API
    answer: object,
    request: ChatRequest,
    memory: Memory,
    api: str,
    *,
    hint: object = None,
    source: str = "",
) -> ChatResponse:
    """Convert an answer that is not an iterator to a response. See `answers.read_answer`."""
    parsed = api == ANTHROPIC.name
    fields = cast("Any", answer).model_dump() if hasattr(answer, "model_dump") else answer
    if _is_requested_json(fields, request):
        answer = json.dumps(fields, ensure_ascii=False)
    body = native_body(answer, api) or jsonable(answer)
    if is_anthropic_body(body):
        found = _read_blocks(body, answer, request)
        _keep_own_instance(found, request, memory, own_message(answer, hint, api, source))
        return found
    if is_gemini_body(body):
        found = _with_own_reason(gemini_responses.read_response(camel_case(body), request))
        found = _with_own_text_and_calls(found, answer, request)
        inner = plain_fields(plain_fields(answer).get("message"))
        is_own = bool(own_classes(hint)) or "assistant" in (plain_fields(answer).get("role"), inner.get("role"))
        _keep_own_instance(found, request, memory, own_message(answer, hint, api) if is_own else None)
        is_content = not is_gemini_body(jsonable(answer)) and found.raw_stop_reason is None
        return _with_usual_reason(found) if is_content else found
    if isinstance(body, dict) and isinstance(body.get("output"), list):
        found = _with_client_fields(openai_responses.read_response(body, HTTP_OK, request.messages), body)
        _keep_own_instance(found, request, memory, own_message(answer, hint, api, source))
        return found if items_of(answer) is None else with_missing(found, {NO_STOP_REASON: True})
    is_wire = isinstance(body, dict) and "choices" in body
    own = own_message(answer, hint, api, source)
    blocks = None if own is None else own_blocks(own)
    made = cast("dict[str, Any]", as_completion(answer if blocks is None else _with_blocks(answer, blocks)))
    choice: Mapping[str, Any] = plain(next(iter(made["choices"]), None))
    if is_wire:
        return response(made, request, memory, parsed=parsed)
    lacks = {NO_REFUSAL: not made.get("has_refusal"), NO_STOP_REASON: not choice["finish_reason"]}
    choice = {**choice, "finish_reason": choice["finish_reason"] or usual_stop_reason(choice["message"]["tool_calls"])}
    kept = None if own is None else memory
    found = response({**made, "choices": [choice]}, request, kept, own=own, parsed=parsed)
    found = with_native_message(found, answer if blocks is None else [blocks], request, api, kept)
    if kept is None and not own_classes(hint):
        _keep_with_own_fields(found, answer, request, memory, source)
    return with_missing(found, {**lacks, OWN_COUNTS: found.usage != Usage()})


def _is_requested_json(answer: object, request: ChatRequest) -> bool:
    """Return whether an answer is the JSON object for a requested schema, which the client parsed."""
    wanted = request.response_format
    if not isinstance(wanted, JsonSchema) or not isinstance(answer, dict):
        return False
    names = cast("Mapping[str, object]", answer).keys()
    properties, required = wanted.schema.get("properties"), wanted.schema.get("required")
    known = properties.keys() if isinstance(properties, dict) else set[str]()
    needed = {*map(str, required)} if isinstance(required, list) else set[str]()
    return bool(names) and names <= known and needed <= names


def _with_blocks(answer: object, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of an answer, with the blocks of its message as content.

    If the answer has a text or calls of its own, the blocks are left out, because the caller reads those fields.
    """
    found = {**plain_fields(answer), **computed_fields(answer)}
    found.pop("message", None)
    return found if {*TEXT_FIELDS, *CALL_FIELDS} & found.keys() else {**found, "content": blocks}


def _keep_own_instance(found: ChatResponse, request: ChatRequest, memory: Memory, own: object | None) -> None:
    """Keep the client's own message for the next request, if an answer has one."""
    if own is not None:
        memory.keep(request, found.message, own)


def _read_blocks(body: JSON, answer: object, request: ChatRequest) -> ChatResponse:
    """Convert an answer in Anthropic's format, given as `body`, to a response. A bare list of blocks has no stop
    reason.
    """
    found = _with_own_text_and_calls(_with_own_reason(anthropic_responses.read_response(body)), answer, request)
    has_reason = as_object(body)["stop_reason"] is not None or items_of(answer) is None
    return found if has_reason else _with_usual_reason(found)


def _keep_with_own_fields(
    found: ChatResponse, answer: object, request: ChatRequest, memory: Memory, source: str
) -> None:
    """Keep the message of a response in OpenAI's format, with the fields of the client's answer."""
    for message in messages(replace(request, system=None, messages=(found.message,))):
        calls = [own for own, *_ in own_calls(answer)] if message.get("tool_calls") else []
        own = with_own_fields(message, {} if items_of(answer) else plain_fields(answer), calls, source)
        memory.keep(request, found.message, own)


def with_native_message(
    found: ChatResponse, answer: object, request: ChatRequest, api: str, memory: Memory | None = None
) -> ChatResponse:
    """Return the response with the message in the API's own format, if the answer also contains that message.

    Both must have the same text and calls. Only the API's format has thoughts and their signatures. The client's own
    message in `memory` is then kept for the message in the API's format, which may have more parts. A refusal that only
    the API's format has is left out, unless the stop reason says that there is one: an application reads the texts.
    """
    values = items_of(answer) or [*plain_fields(answer).values()]
    inner = [items_of(each) for value in values for each in (value, *plain_fields(value).values())]
    lists = sorted(filter(None, inner), key=len, reverse=True)
    kinds = {RESPONSES.name: OUTPUT_ITEMS, ANTHROPIC.name: CONTENT_BLOCKS}.get(api, set[str]())
    contents = [each for each in lists if all(str(as_object(jsonable(item)).get("type")) in kinds for item in each)]
    for each in [answer] if api == GEMINI.name else contents:
        native = native_body(each, api)
        if native is None:
            continue
        message = read_complete_answer(native, request, Memory(), api).message
        is_known = any(isinstance(part, Refusal) for part in found.message.parts)
        if not is_known and found.stop_reason is not StopReason.REFUSAL:
            message = replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Refusal)))
        if text_and_calls(message) == text_and_calls(found.message):
            if memory is not None:
                memory.keep(request, message, memory.own(len(request.messages), found.message))
            return replace(found, message=message)
    return found


def text_and_calls(message: Message) -> tuple[str, list[tuple[str, str, object]]]:
    """Return the text and the calls of a message, for comparison with another message."""
    return message.text, _calls_of_message(message)


def _calls_of_message(message: Message) -> list[tuple[str, str, object]]:
    return [(each.id, each.name, each.arguments) for each in message.tool_calls]


def _with_usual_reason(answer: ChatResponse) -> ChatResponse:
    """Return the response with a stop reason that fits its calls, for a client that returns none."""
    reason = StopReason.TOOL_USE if answer.tool_calls else StopReason.END_TURN
    return with_missing(replace(answer, stop_reason=reason), {NO_STOP_REASON: True})


def _with_own_reason(answer: ChatResponse) -> ChatResponse:
    """Return the response with a known stop reason in place of a word that clients commonly use for it."""
    if answer.stop_reason is not StopReason.UNKNOWN:
        return answer
    reason = stop_reason(answer.raw_stop_reason)
    is_call = reason is StopReason.END_TURN and answer.tool_calls
    return replace(answer, stop_reason=StopReason.TOOL_USE if is_call else reason)


def _with_client_fields(native: ChatResponse, fields: Mapping[str, Any]) -> ChatResponse:
    """Return a response that was read from the output items of OpenAI Responses, with the client's own fields.

    These are the stop reason and the token counts, if the client returns them under other names than the API.
    """
    if native.stop_reason is StopReason.UNKNOWN and (word := stop_reason_in(fields)) is not None:
        native = replace(native, stop_reason=stop_reason(word))
    counts = token_counts_in(fields)
    if native.usage.input_tokens is not None or counts == Usage():
        return native
    return replace(native, usage=counts, reported={**native.reported, OWN_COUNTS: True})


def _with_own_text_and_calls(native: ChatResponse, answer: object, request: ChatRequest) -> ChatResponse:
    """Return a response that was read from content in the API's format.

    If the client's answer also has fields with another text or other calls, return those, because the caller reads
    them.
    """
    own = {**computed_fields(answer), **plain_fields(answer)}
    if isinstance(answer, Mapping) or not isinstance(own.get("text"), str) or not {*CALL_FIELDS} & own.keys():
        return native
    read = response(as_completion(answer), request, None).message
    is_same = [each[1:] for each in _calls_of_message(read)] == [each[1:] for each in _calls_of_message(native.message)]
    return native if is_same and read.text == native.text else replace(native, message=read)


def with_missing(answer: ChatResponse, lacks: Mapping[str, bool]) -> ChatResponse:
    """Return the response with the keys in `lacks` in its `reported`. Most of them name what the client does not
    provide.

    If the client provides no stop reason, the raw stop reason is removed.
    """
    raw = None if lacks[NO_STOP_REASON] else answer.raw_stop_reason
    missing: dict[str, JSON] = {key: True for key, is_missing in lacks.items() if is_missing}
    return replace(answer, raw_stop_reason=raw, reported={**answer.reported, **missing})


def own_message(answer: object, hint: object, api: str, source: str = "") -> object | None:
    """Return the message in an answer that can be sent back to the client unchanged, or `None`.

    It is an instance of the client's own message class, or a dictionary with the role `assistant`. Either may also be
    the result of a method such as `as_message()`. With OpenAI Chat, a dictionary with additional fields is not accepted
    if its calls are in OpenAI's format. With Anthropic, the message may also be built from the blocks in the answer, if
    the client's `source` reads no calls from messages.
    """
    classes = own_classes(hint)
    if items := items_of(answer):
        whole = answer if _has_several(classes) and all(isinstance(each, classes) for each in items) else None
        return whole or next((own for each in items if (own := own_message(each, hint, api)) is not None), None)
    fields = plain_fields(answer)
    inner = answer
    if "role" not in fields and "message" in fields:
        inner = getattr(answer, "message", fields["message"])
    if classes:
        values = chain((inner, *fields.values()), _messages_by_methods(answer, classes))
        return next((each for each in values if isinstance(each, classes)), None) or _own_items(answer, classes)
    message = cast("Mapping[str, Any]", inner if isinstance(inner, Mapping) else {})
    if message.get("role") != "assistant":
        message = next((made for _, made in message_methods(answer)), message)
    if message.get("role") != "assistant":
        has_blocks = api == ANTHROPIC.name and source and not READS_CALLS.search(source)
        return _message_of_blocks(answer) if has_blocks else None
    calls: Iterable[Any] = next((message[key] for key in CALL_FIELDS if message.get(key)), ())
    is_openai = all(isinstance(each, Mapping) and "function" in each for each in calls)
    return None if api == OPENAI.name and is_openai and message.keys() - _MESSAGE_FIELDS else message


def _own_items(answer: object, classes: tuple[type, ...]) -> list[object] | None:
    """Return the list in an answer whose items are of several of a client's own classes, as a conversation of items has
    them. Their texts and calls must be those of the answer, because a list may also be the whole conversation.
    """
    lists = [items for each in plain_fields(answer).values() if (items := items_of(each))]
    for items in lists if _has_several(classes) else ():
        if all(isinstance(each, classes) for each in items):
            spoken = (each for each in items if not is_reasoning(each))
            calls = [[each[1:] for each in own_calls(value)] for value in (items, answer)]
            if "".join(map(text_of_fields, spoken)) == text_of_fields(answer) and calls[0] == calls[1]:
                return items
    return None


def _has_several(classes: tuple[type, ...]) -> bool:
    """Return whether there are several classes of items. They may be the subclasses of one."""
    return len(classes) + sum(len(subclasses_of(each)) for each in classes) > 1


def _messages_by_methods(answer: object, classes: tuple[type, ...]) -> Iterator[object]:
    """Yield the messages that an answer's methods without arguments return. Their annotations name one of `classes`."""
    kind: type = type(answer)
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        returned = hints_of(method).get("return")
        is_converting = not name.startswith("_") and inspect.isclass(returned) and returned in classes
        if is_converting and len(inspect.signature(method).parameters) == 1:
            yield method(answer)


def _message_of_blocks(answer: object) -> Mapping[str, Any] | None:
    """Return a message of Anthropic's format with the blocks in one of an answer's fields, or `None` without blocks."""
    for items in map(items_of, plain_fields(answer).values()):
        blocks = [as_object(jsonable(each)) for each in items or []]
        if blocks and all(each.get("type") in CONTENT_BLOCKS for each in blocks):
            return {"role": "assistant", "content": items}
    return None


READS_CALLS = re.compile(r"[\"'](tool_calls|calls|function_calls|tool_uses)[\"']")
"""Code that reads calls from messages that are dictionaries."""


def message_methods(answer: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names of an answer's methods for its message, such as `to_message()`, and the dictionaries that they
    return.
    """
    for name, method in inspect.getmembers(type(answer), inspect.isfunction):
        if (
            re.search(r"^(?=[a-z]).*(message|turn|history|param)", name)
            and len(inspect.signature(method).parameters) == 1
        ):
            made = plain_fields(method(answer))
            if made.get("role") == "assistant":
                yield name, made


_MESSAGE_FIELDS = {"role", "content", "tool_calls", "refusal", "name", "reasoning_content"}
