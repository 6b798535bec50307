"""Conversion of third-party clients' return values into responses and stream events."""

from __future__ import annotations

import base64
import contextlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from itertools import chain
from types import ModuleType
from typing import Any, TypeAlias, cast

from harness.adapters.anthropic import responses as anthropic_responses
from harness.adapters.gemini import responses as gemini_responses
from harness.adapters.openai_responses import SDK
from harness.bridge.client_formats import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    RESPONSES,
    hints_of,
    own_classes,
    snake,
    with_own_fields,
    without,
)
from harness.bridge.completions import (
    NO_REFUSAL,
    NO_STOP_REASON,
    NO_USAGE,
    OWN_COUNTS,
    completion,
    events,
    response,
    stop_reason,
)
from harness.bridge.openai_messages import Memory, messages, plain
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    JSON,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.platform.environment import importing_sdk

_TEXTS = ("text", "content", "output_text", "message", "answer", "response", "reply", "output", "result", "delta")
_CALLS = ("tool_calls", "calls", "function_calls", "tool_uses", "tool_call", "function_call")
_REASONS = ("finish_reason", "stop_reason", "stop")
_OTHER_REASONS = ("finish", "reason", "incomplete_reason", "status", "done_reason")
"""Names of fields that hold the stop reason if their value is a known one."""
_ARGUMENTS = ("arguments", "args", "input", "parameters", "tool_args", "tool_input", "params")
_OK = 200
_BLOCKS = ("text", "tool_use", "thinking")
_ANTHROPIC_EVENTS = ("message_start", "content_block_start", "ping", "error")
_VALUE_KEYS = frozenset({"args", "input", "arguments", "parameters", "response"})
"""Keys whose values are chosen by the tool or the model. Names inside these values are left unchanged."""


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
    parsed = api == ANTHROPIC.name
    if (items := _items_of_iterator(answer)) is not None:
        if (native := _native_body(items, api)) is not None and _is_gemini(native):
            return gemini_responses.read_response(native, request)
        *before, answer = items
        is_part = isinstance(answer, str) or _kind_of(answer) in ("end", "call")
        if is_part or not all(isinstance(each, str) for each in before):
            whole = _whole(read_stream(items, request, memory, api))
            keep_own_message(answer, whole, request, memory, api, hint)
            return whole
    body = _native_body(answer, api) or jsonable(answer)
    if _is_anthropic(body):
        found = _of_blocks(body, answer, request)
        _keep_instance(found, request, memory, _own_message(answer, hint, api, source))
        return found
    if _is_gemini(body):
        found = _with_own_reason(gemini_responses.read_response(_camel(body), request))
        found = _with_own_fields(found, answer, request)
        _keep_instance(found, request, memory, _own_message(answer, hint, api) if own_classes(hint) else None)
        is_content = not _is_gemini(jsonable(answer)) and found.raw_stop_reason is None
        return _with_usual_reason(found) if is_content else found
    if isinstance(body, dict) and isinstance(body.get("output"), list):
        found = _with_fields_of_client(_of_responses().read_response(body, _OK, request.messages), body)
        return found if _items(answer) is None else _without(found, {NO_STOP_REASON: True})
    is_wire = isinstance(body, dict) and "choices" in body
    made = cast("dict[str, Any]", as_completion(answer))
    choice: Mapping[str, Any] = plain(next(iter(made["choices"]), None))
    if is_wire:
        return response(made, request, memory, parsed=parsed)
    lacks = {NO_REFUSAL: not made.get("has_refusal"), NO_STOP_REASON: not choice["finish_reason"]}
    choice = {**choice, "finish_reason": choice["finish_reason"] or _usual_reason(choice["message"]["tool_calls"])}
    own = _own_message(answer, hint, api, source)
    kept = None if own is None else memory
    found = response({**made, "choices": [choice]}, request, kept, own=own, parsed=parsed)
    found = _with_native_message(found, answer, request, api, kept)
    if kept is None and not own_classes(hint):
        _keep_with_fields(found, answer, request, memory, source)
    return _without(found, {**lacks, OWN_COUNTS: found.usage != Usage()})


def _keep_instance(found: ChatResponse, request: ChatRequest, memory: Memory, own: object | None) -> None:
    """Keep the client's own message for the next request, if an answer has one."""
    if own is not None:
        memory.keep(request, found.message, own)


def keep_own_message(  # noqa: PLR0913, PLR0917 - what is known about the client and its API
    item: object, found: ChatResponse, request: ChatRequest, memory: Memory, api: str, hint: object
) -> None:
    """Keep the client's own message in the last item of its stream, if it is the whole answer `found`."""
    own = _own_message(item, hint, api)
    if not own_classes(hint):
        is_whole = _object(jsonable(own)).get("content") == found.message.text
        if own is not None and is_whole and "message" in _plain_fields(item):
            memory.keep(request, found.message, own)
        return
    with contextlib.suppress(Exception):  # a piece of an answer may be no answer
        if own is not None and _text_and_calls(read_answer(own, request, Memory(), api).message) == _text_and_calls(
            found.message
        ):
            memory.keep(request, found.message, own)


def _of_blocks(body: JSON, answer: object, request: ChatRequest) -> ChatResponse:
    """Convert an answer in Anthropic's format, given as `body`, to a response. A bare list of blocks has no stop
    reason.
    """
    found = _with_own_fields(_with_own_reason(anthropic_responses.read_response(body)), answer, request)
    has_reason = _object(body)["stop_reason"] is not None or _items(answer) is None
    return found if has_reason else _with_usual_reason(found)


def _keep_with_fields(found: ChatResponse, answer: object, request: ChatRequest, memory: Memory, source: str) -> None:
    """Keep the message of a response in OpenAI's format, with the fields of the client's answer."""
    for message in messages(replace(request, system=None, messages=(found.message,))):
        calls = [own for own, *_ in own_calls(answer)] if message.get("tool_calls") else []
        own = with_own_fields(message, {} if _items(answer) else _plain_fields(answer), calls, source)
        memory.keep(request, found.message, own)


def _with_native_message(
    found: ChatResponse, answer: object, request: ChatRequest, api: str, memory: Memory | None
) -> ChatResponse:
    """Return the response with the message in the API's own format that the answer also contains, if both have the same
    text and calls. Only the API's format has thoughts and their signatures.

    The client's own message in `memory` is then kept for that message, which may have more parts.
    """
    values = _items(answer) or [*_plain_fields(answer).values()]
    inner = [_items(each) for value in values for each in (value, *_plain_fields(value).values())]
    lists = sorted(filter(None, inner), key=len, reverse=True)
    kinds = {RESPONSES.name: _OUTPUT_ITEMS, ANTHROPIC.name: _CONTENT_BLOCKS}.get(api, set[str]())
    for each in lists:
        members = [_object(jsonable(item)) for item in each]
        if not all(str(member.get("type")) in kinds for member in members):
            continue
        native = _native_body(each, api)
        message = read_answer(native, request, Memory(), api).message if native is not None else found.message
        if _text_and_calls(message) == _text_and_calls(found.message):
            if memory is not None:
                memory.keep(request, message, memory.own(len(request.messages), found.message))
            return replace(found, message=message)
    return found


def _text_and_calls(message: Message) -> tuple[str, list[tuple[str, str, object]]]:
    return message.text, _calls_of(message)


def _calls_of(message: Message) -> list[tuple[str, str, object]]:
    return [(each.id, each.name, each.arguments) for each in message.tool_calls]


def _whole(stream: Iterator[StreamEvent]) -> ChatResponse:
    return next(event.response for event in reversed([*stream]) if isinstance(event, Finish))


def _own_message(answer: object, hint: object, api: str, source: str = "") -> object | None:
    """Return the message in an answer that can be sent back to the client unchanged, or `None`.

    This is an instance of the client's own message class, which may also be the result of a method such as
    `as_message()`, or a dictionary with the role `assistant`, or such a method's result. With OpenAI Chat, a dictionary
    with additional fields is not accepted if its calls are in OpenAI's format. With Anthropic, it may also consist of
    the blocks in the answer, if the client's `source` reads no calls from messages.
    """
    if items := _items(answer):
        return next((own for each in items if (own := _own_message(each, hint, api)) is not None), None)
    fields = _plain_fields(answer)
    inner = answer
    if "role" not in fields and "message" in fields:
        inner = getattr(answer, "message", fields["message"])
    if classes := own_classes(hint):
        values = chain((inner, *fields.values()), _messages_by_methods(answer, classes))
        return next((each for each in values if isinstance(each, classes)), None)
    message = cast("Mapping[str, Any]", inner if isinstance(inner, Mapping) else {})
    if message.get("role") != "assistant":
        message = next((made for _, made in message_methods(answer)), message)
    if message.get("role") != "assistant":
        has_blocks = api == ANTHROPIC.name and source and not READS_CALLS.search(source)
        return _message_of_blocks(answer) if has_blocks else None
    calls: Iterable[Any] = next((message[key] for key in _CALLS if message.get(key)), ())
    is_openai = all(isinstance(each, Mapping) and "function" in each for each in calls)
    return None if api == OPENAI.name and is_openai and message.keys() - _MESSAGE_FIELDS else message


def _messages_by_methods(answer: object, classes: tuple[type, ...]) -> Iterator[object]:
    """Yield the results of an answer's methods that take no argument and return one of these classes, by their
    annotations.
    """
    kind: type = type(answer)
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        returned = hints_of(method).get("return")
        is_converting = not name.startswith("_") and inspect.isclass(returned) and returned in classes
        if is_converting and len(inspect.signature(method).parameters) == 1:
            yield method(answer)


def _message_of_blocks(answer: object) -> Mapping[str, Any] | None:
    """Return the message of Anthropic's format whose blocks an answer has in one of its fields, or `None`."""
    for items in map(_items, _plain_fields(answer).values()):
        blocks = [_object(jsonable(each)) for each in items or []]
        if blocks and all(each.get("type") in _CONTENT_BLOCKS for each in blocks):
            return {"role": "assistant", "content": items}
    return None


READS_CALLS = re.compile(r"[\"'](tool_calls|calls|function_calls|tool_uses)[\"']")
"""Code that reads calls from messages that are dictionaries."""


def message_methods(answer: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names of an answer's methods for its message, such as `to_message()`, and the dictionaries that they
    return.
    """
    for name, method in inspect.getmembers(type(answer), inspect.isfunction):
        if re.search(r"^[a-z].*(message|turn|history|param)", name) and len(inspect.signature(method).parameters) == 1:
            made = _plain_fields(method(answer))
            if made.get("role") == "assistant":
                yield name, made


_MESSAGE_FIELDS = {"role", "content", "tool_calls", "refusal", "name", "reasoning_content"}


def read_stream(
    items: Iterable[object], request: ChatRequest, memory: Memory, api: str = "openai-chat"
) -> Iterator[StreamEvent]:
    """Convert a client's stream to events.

    Items may be events of Anthropic, chunks of Gemini or OpenAI Chat, texts, the client's own events, or tuples of a
    kind and a value. If an event has only `data`, that is the chunk.
    """
    every = iter(items)
    first = next(every, None)
    if first is None:  # the caller gets neither a text nor an error
        lacks = {NO_REFUSAL: True, NO_USAGE: True, NO_STOP_REASON: True}
        return iter([Finish(_without(read_answer("", request, memory, api), lacks))])
    items, body = chain([first], every), jsonable(first)
    if isinstance(body, dict) and len(body) == 1 and "choices" in _object(body.get("data")):
        items, body = (_plain_fields(each)["data"] for each in items), body["data"]
    if isinstance(body, dict) and body.get("type") in _ANTHROPIC_EVENTS:
        return anthropic_responses.read_events(_object(jsonable(each)) for each in items)
    if _is_gemini(body):
        return gemini_responses.read_chunks((_object(_camel(jsonable(each))) for each in items), request)
    if isinstance(body, dict) and str(body.get("type")).startswith("response."):
        lines = (f"data: {json.dumps(jsonable(each))}\n\n".encode() for each in items)
        return _of_responses().read_stream(lines, _OK, request.messages)
    if api == GEMINI.name:
        items = [*items]
        if (native := _native_body(items, api)) is not None:
            return gemini_responses.read_chunks(iter([_object(native)]), request)
    if isinstance(body, dict) and "choices" in body:
        return events(items, request, memory, parsed=api == ANTHROPIC.name)
    return _own_events(items, request, api)


def events_of(answer: ChatResponse, texts: Sequence[str]) -> Iterator[StreamEvent]:
    """Yield the events of a stream whose client returns only the whole response. `texts` are the pieces of its text
    that the client gave to a callback, if it has one.
    """
    yield from map(TextDelta, texts or filter(None, [answer.text]))
    for index, call in enumerate(answer.tool_calls):
        yield ToolCallStart(index, call.id, call.name)
        yield ArgumentsDelta(index, json.dumps(call.arguments))
        yield ToolCallEnd(index)
    yield Finish(answer)


def _of_responses() -> ModuleType:
    with importing_sdk("openai-responses", SDK, "openai"):
        from harness.adapters.openai_responses import responses  # noqa: PLC0415 - imports the SDK
    return responses


def as_completion(answer: object) -> object:
    """Return the answer of a client in the form of an OpenAI Chat completion.

    Raises:
        MalformedResponse: the answer has neither text nor calls.
    """
    if isinstance(answer, str) or answer is None:
        return completion(answer or "")
    if (items := _items(answer)) is not None:
        answer = _fields_of(items) or {"text": ""}
    found = {**_properties(answer), **_plain_fields(answer)}
    if "choices" in found:
        return found
    if _is_one_call(found):
        return completion("", [_call(answer)])
    inner = found.get("message")
    if not ({*_TEXTS, *_CALLS} - {"messages"}) & found.keys() and (history := _items(found.get("messages"))):
        return as_completion(history[-1])  # an agent returns its whole conversation
    if isinstance(inner, str | None) and not ({*_TEXTS, *_CALLS} - {"message"}) & found.keys():
        inner = next((each for each in found.values() if not isinstance(each, str) and _is_readable(each)), inner)
    if inner is not None and not isinstance(inner, str):
        return as_completion({**found, **_plain_fields(inner), "message": None})
    text = _text_in([found[key] for key in _TEXTS if key in found])
    calls = _calls_in(found)
    if (parts := _items(text)) is not None:
        blocks = [_plain_fields(block) for block in parts]
        calls = calls or [block for block in blocks if block.get("type") == "tool_use" or _is_one_call(block)]
        text = "".join(str(block.get("text") or "") for block in blocks)
    if not text and not calls and not {*_TEXTS, *_CALLS} & found.keys():
        raise MalformedResponse(f"the client returned {type(answer).__name__}, with no text and no tool calls")
    made = [_call(each) for each in calls]
    reason = _reason_in(found)
    counts = _counts_in(found)
    refusal = found.get("refusal")
    seen = completion(
        text if isinstance(text, str) else json.dumps(jsonable(text), ensure_ascii=False),
        made,
        reason=reason,
        model=found.get("model"),
        refusal=refusal if isinstance(refusal, str) else None,
        read=counts[0],
        written=counts[1],
    )
    return {**seen, "has_refusal": "refusal" in found}


def _counts_in(found: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the counts of input and output tokens in the usage of an answer or, without it, among its own fields.

    Own fields that are all 0 count as absent, because 0 is also their usual default.
    """
    used = _plain_fields(found.get("usage"))
    known = (*_INPUT_COUNTS, "input", "prompt"), (*_OUTPUT_COUNTS, "output", "completion")
    own = [next((used[name] for name in names if type(used.get(name)) is int), None) for names in known]
    if own == [None, None]:
        counts = {snake(key).lower(): each for key, each in found.items() if type(each) is int}
        own = [next(filter(None, map(counts.get, names)), None) for names in (_INPUT_COUNTS, _OUTPUT_COUNTS)]
    return own[0], own[1]


_INPUT_COUNTS = ("prompt_tokens", "input_tokens", "prompt_token_count", "input_token_count", "tokens_in", "in_tokens")
_OUTPUT_COUNTS = (
    *("completion_tokens", "output_tokens", "candidates_token_count", "output_token_count"),
    *("completion_token_count", "tokens_out", "out_tokens"),
)


def _calls_in(found: Mapping[str, Any]) -> list[object]:
    """Return the calls among the fields of an answer, as the client represents them."""
    pieces = [key for key in found if _PIECES_OF_CALLS.fullmatch(key)]  # a client may parse the same pieces, too
    several = next((found[key] for key in (*pieces, *_CALLS, *_lists_of_calls(found)) if found.get(key)), ())
    calls = _items(several)
    return [several] if calls is None else calls


_PIECES_OF_CALLS = re.compile(r"\w*calls?_(chunks|deltas|pieces)")


OwnCall: TypeAlias = tuple[object, str, str, dict[str, JSON] | None]
"""A call as the client represents it, with its id, name and arguments. Arguments that are no JSON object are `None`."""


def own_calls(answer: object) -> list[OwnCall]:
    """Return the calls in an answer or in a list."""
    items = _items(answer)
    found = _plain_fields(answer) if items is None else _fields_of(items)
    calls = [] if isinstance(answer, str) else _calls_in({key: each for key, each in found.items() if each})
    read = [(each, _call(each)) for each in calls]
    texts = [(each, made, made["args"] or "{}") for each, made in read]
    return [(each, str(made["id"] or ""), str(made["name"]), _parse_arguments(text)) for each, made, text in texts]


def _parse_arguments(arguments: str) -> dict[str, JSON] | None:
    try:
        found: JSON = json.loads(arguments)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _reason_in(found: Mapping[str, Any]) -> str | None:
    """Return the stop reason among the fields of an answer."""
    reason = next((found[key] for key in _REASONS if found.get(key)), None)
    if reason:
        return _known_stop_word(reason)
    words = [getattr(found.get(key), "value", found.get(key)) for key in _OTHER_REASONS]
    known = (each for each in words if isinstance(each, str) and stop_reason(each) is not StopReason.UNKNOWN)
    return next(known, None)


def _known_stop_word(reason: object) -> str:
    """Return the stop reason of a client as a known word. Its own word may be one such as `tools` or `truncated`."""
    value = getattr(reason, "value", reason)
    word = str(value if isinstance(value, str) else getattr(reason, "name", reason))
    if stop_reason(word) is not StopReason.UNKNOWN:
        return word
    known = (each for each, own in _OWN_STOP_WORDS.items() if re.fullmatch(own, re.sub(r"[ -]", "_", word.lower())))
    return next(known, word)


_OWN_STOP_WORDS = {
    "end_turn": "end(ed)?|done|finish(ed)?|complete|natural|normal",
    "tool_use": "tools?|tool_?calls?|calls?|functions?|function_?calls?|(needs?|requires?|call)_tools?",
    "max_tokens": "truncated|max_?length|max_?output|(token_)?limit|cut(_off)?|too_long",
    "refusal": "refused|(content_)?filtered|(content_)?filter|blocked|declined|moderat(ed|ion)",
}
"""Stop reason → words that clients use for it."""


def _text_in(values: Sequence[object]) -> object:
    """Return the text among the values of known fields: a text, a list of parts, or an object."""
    texts = [each for each in values if isinstance(each, str)]
    lists = [each for each in values if each and _items(each) is not None]
    return next((each for each in [*texts, *lists] if each), "" if texts else next(filter(None, values), ""))


def has_calls_field(value: object) -> bool:
    """Return whether an object has a field or a property for calls, so that it is the answer of a client."""
    return bool({*_CALLS} & (_plain_fields(value).keys() | _properties(value).keys()))


def _lists_of_calls(found: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that are lists of calls."""
    lists = {name: [*map(_plain_fields, items)] for name, each in found.items() if (items := _items(each))}
    return [name for name, items in lists.items() if name not in _TEXTS and all(map(_is_one_call, items))]


def _is_one_call(found: Mapping[str, Any]) -> bool:
    names = {"name", "tool", "tool_name", "function"} & found.keys()
    return bool(names) and bool({*_ARGUMENTS} & found.keys()) and not {*_CALLS} & found.keys()


def jsonable(value: object) -> JSON:
    """Return a value as JSON: objects as their fields, bytes as base64."""
    if value is None or isinstance(value, str | bool | int | float):
        return getattr(value, "value", value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in cast("Mapping[object, object]", value).items()}
    if (items := _items(value)) is not None:
        return [jsonable(each) for each in items]
    if hasattr(value, "value"):  # an enumeration
        return jsonable(cast("Any", value).value)
    return {key: jsonable(each) for key, each in _plain_fields(value).items() if not key.startswith("_")}


def _items_of_iterator(value: object) -> list[object] | None:
    """Return the items of an iterator, or `None` for other values. An iterator that yields nothing more and has
    attributes is an object that keeps the answer in them.
    """
    if not isinstance(value, Iterator):
        return None
    items = [*cast("Iterator[object]", value)]
    return items or (None if has_attributes(cast("object", value)) else [""])


def has_attributes(value: object) -> bool:
    """Return whether a value has attributes of its own, as no generator has."""
    return bool(getattr(value, "__dict__", None))


def _items(value: object) -> list[object] | None:
    """Return the items of a list or a tuple, or `None` for other values. A named tuple is an object with fields."""
    if not isinstance(value, list | tuple) or hasattr(cast("object", value), "_fields"):
        return None
    return [*cast("Sequence[object]", value)]


def _plain_fields(value: object) -> Mapping[str, Any]:
    """Return the fields of any object; `{}` for values without fields."""
    names = getattr(value, "_fields", None) or getattr(type(value), "__slots__", ())
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    if names and not hasattr(value, "model_dump") and not isinstance(value, Mapping):
        return {name: getattr(value, name, None) for name in ([names] if isinstance(names, str) else names)}
    has_fields = isinstance(value, Mapping) or hasattr(value, "model_dump") or hasattr(value, "__dict__")
    return plain(cast("object", value)) if has_fields else {}


def _properties(value: object) -> dict[str, Any]:
    """Return the text and the calls that an object computes, under the names of its properties."""
    known = {*_TEXTS, *_CALLS}
    return {name: getattr(value, name) for name in known if isinstance(getattr(type(value), name, None), property)}


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def _is_anthropic(body: JSON) -> bool:
    return isinstance(body, dict) and isinstance(body.get("content"), list) and "stop_reason" in body


def _is_gemini(body: JSON) -> bool:
    return isinstance(body, dict) and bool({"candidates", "promptFeedback", "prompt_feedback"} & body.keys())


def _camel(value: JSON) -> JSON:
    """Return JSON with camel-case names, without fields that are `None`."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = ((re.sub(r"_(\w)", lambda found: found[1].upper(), key), item) for key, item in value.items())
    return {key: item if key in _VALUE_KEYS else _camel(item) for key, item in named if item is not None}


def _fields_of(answer: Sequence[object]) -> dict[str, object]:
    """Return the fields of a list of blocks or calls, or of a tuple such as `(text, calls)`."""
    found: dict[str, object] = {}
    single: list[object] = []
    if any(_plain_fields(each).get("type") in _BLOCKS for each in answer):
        return {"content": [*answer]}
    if answer and all("name" in _plain_fields(each) or "function" in _plain_fields(each) for each in answer):
        return {"calls": [*answer]}
    for each in answer:
        if isinstance(each, str):
            found["finish_reason" if {"text", "content"} & found.keys() else "text"] = each
        elif (calls := _items(each)) is not None:
            found["calls"] = calls
        elif any(name.endswith("_tokens") for name in _plain_fields(each)):
            found["usage"] = each
        elif _is_one_call(_plain_fields(each)):
            single.append(each)
        elif each is not None:
            found |= _plain_fields(each)
    return {**found, "calls": single} if single else found


def _call(call: object) -> dict[str, Any]:
    if (items := _items(call)) is not None:
        *call_id, name, arguments = items
        call = {"id": next(iter(call_id), None), "name": name, "arguments": arguments}
    found = _plain_fields(call)
    function = found.get("function")
    either = {**(_plain_fields(function) if not isinstance(function, str) else {"name": function}), **found}
    arguments = next((either[key] for key in _ARGUMENTS if key in either), None)
    return {
        "id": next((either[key] for key in ("call_id", "id", "tool_call_id") if either.get(key)), None),
        "name": either.get("name") or either.get("tool") or either.get("tool_name"),
        "args": arguments if isinstance(arguments, str) or arguments is None else json.dumps(jsonable(arguments)),
        **({"index": either["index"]} if "index" in either else {}),
    }


def _own_events(items: Iterable[object], request: ChatRequest, api: str) -> Iterator[StreamEvent]:
    """Convert a stream of texts and objects to events. A text or a call that repeats earlier ones is skipped."""
    text, calls, reason = "", list[dict[str, Any]](), None
    has_refusal = has_usage = is_known = False
    parts: list[JSON] = []
    whole: ChatResponse | None = None

    def chunks() -> Iterator[object]:
        nonlocal text, reason, has_refusal, has_usage, is_known, whole
        for each in items:
            body, item = jsonable(each), each
            if _holds_native_answer(each, body, api):
                whole = read_answer(each, request, Memory(), api)
                item = _as_part(whole)
            piece, part = _piece(item)
            parts.append(part)
            is_known = is_known or bool(piece)
            made: dict[str, Any] = cast("dict[str, Any]", as_completion(piece or ""))
            choice = made["choices"][0]
            message = choice["message"]
            if message["content"] == text:
                message["content"] = ""
            text += message["content"]
            message["tool_calls"] = [call for call in message["tool_calls"] if _join_call(calls, call)]
            reason = choice["finish_reason"] or reason
            has_refusal, has_usage = has_refusal or bool(made.get("has_refusal")), has_usage or bool(made["usage"])
            yield made
        if not is_known:
            raise MalformedResponse("the client returned a stream of objects with no text and no tool calls")
        if reason is None:
            yield completion(reason=_usual_reason(calls))

    for event in events(chunks(), request, parsed=api == ANTHROPIC.name):
        lacks = {NO_REFUSAL: not has_refusal, NO_USAGE: not has_usage, NO_STOP_REASON: reason is None}
        lacks[OWN_COUNTS] = has_usage
        answer = whole or (_without(event.response, lacks) if isinstance(event, Finish) else None)
        if isinstance(event, Finish) and answer is not None and any(map(_is_opaque, parts)):
            answer = replace(answer, message=_message_of(_joined_texts(parts), request))
        yield Finish(answer) if isinstance(event, Finish) and answer is not None else event


def _holds_native_answer(item: object, body: JSON, api: str) -> bool:
    """Return whether an item of a stream is a whole answer that also has the content in the API's own format."""
    is_gemini = api == GEMINI.name and _native_body(item, api) is not None
    is_anthropic = api == ANTHROPIC.name and _is_anthropic(body)
    is_message = is_anthropic and _object(body).get("type") == "message"
    is_native = (is_gemini or is_anthropic) and has_calls_field(item)
    return isinstance(_object(body).get("output"), list) or is_message or is_native


def _join_call(calls: list[dict[str, Any]], call: dict[str, Any]) -> bool:
    """Add a call to `calls`, with the index of the call that it continues or else with a new index. Return false, and
    leave it out, if it only repeats a call of `calls`.
    """
    function = call["function"]
    known = [each for each in calls if call["id"] is not None and each["id"] == call["id"]]
    if "index" not in call and known:
        call["index"] = known[-1]["index"]
        if function["arguments"] in ("", None, "".join(each["function"]["arguments"] or "" for each in known)):
            return False
    elif "index" not in call and calls and call["id"] is None and not function["name"]:
        call["index"] = calls[-1]["index"]
    call.setdefault("index", len({each["index"] for each in calls}))
    calls.append(call)
    return True


_KINDS = {
    "thinking": r"think|thought|reason(ing|$)",
    "call": r"call|tool|function",
    "end": r"finish|stop|done|end|complete|final",
    "usage": r"usage",
    "text": r"text|content|token|delta|message|chunk|answer",
}
"""Kind of an event in a client's own stream → pattern that the event's name matches."""


def _piece(item: object) -> tuple[object, JSON]:
    """Convert an event of a client's own stream. Return an object for `as_completion`, and a part in the format of an
    API.

    Each is `None` if the event has nothing for it. Both are `None` for an event that cannot be read.
    """
    kind, fields = _kind_of(item), _plain_fields(item)
    value = next((fields[key] for key in ("data", "payload", "value") if fields.get(key) is not None), item)
    if (pair := _items(item)) is not None and len(pair) == _PAIR:
        value = pair[1]
    if isinstance(item, str) or kind is None:
        return item if isinstance(item, str) or _is_readable(item) or _holds_answer(item) else None, None
    fields, part = _plain_fields(value), jsonable(value)
    call: object = _object(_camel(part)).get("functionCall", cast("object", value))
    match kind:
        case "thinking" if not {*_CALLS} & fields.keys():
            thought = {"thinking": _text_of(value), **({"signature": fields.get("signature")} if fields else {})}
            return {"text": ""}, {"type": "thinking", **thought}
        case "call" if {"name", "tool", "tool_name", "function"} & _plain_fields(call).keys():
            return {"calls": [call]}, part
        case "end" if not {"message", "response", *_CALLS} & fields.keys():
            word = value if isinstance(value, str) else next((fields[key] for key in _ENDS if fields.get(key)), None)
            return {"text": "", "finish_reason": getattr(word, "value", word), "usage": fields.get("usage")}, None
        case "usage":
            return {"text": "", "usage": fields.get("usage") or value}, None
        case "text" if isinstance(value, str):
            return {"text": value}, {"type": "text", "text": value}
        case _ if _is_readable(value):
            return value, {"type": "text", "text": _text_of(value)}
        case _:
            return None, None


_PAIR = 2
_ENDS = ("finish_reason", "stop_reason", "reason", "stop", "status")


def _kind_of(item: object) -> str | None:
    """Return the kind of an event, by the first item of a tuple, by a field or by the name of its class."""
    fields, pair = _plain_fields(item), _items(item)
    tags = [*(pair or [])[:1], *(fields.get(key) for key in ("type", "kind", "event"))]
    tag = next((each for each in tags if isinstance(each, str | Enum)), type(item).__name__)
    words = snake(str(getattr(tag, "value", tag))).lower()
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, words)), None)


def _is_readable(value: object) -> bool:
    return bool({*_TEXTS, *_CALLS, "choices", "finish_reason", "stop_reason", "usage"} & _plain_fields(value).keys())


def _holds_answer(item: object) -> bool:
    return any(_is_readable(each) for each in _plain_fields(item).values() if not isinstance(each, str))


def _text_of(value: object) -> str:
    fields = _plain_fields(value)
    found = value if isinstance(value, str) else next((fields[key] for key in _WORDS if fields.get(key)), "")
    return found if isinstance(found, str) else ""


_WORDS = ("thinking", "thought", "reasoning", "text", "content", "delta")


def _is_opaque(part: JSON) -> bool:
    return isinstance(part, dict) and bool({"signature", "thoughtSignature", "thought_signature"} & part.keys())


def _joined_texts(parts: Iterable[JSON]) -> list[JSON]:
    """Return the parts of an answer, with pieces of a text or a thought joined."""
    found: list[JSON] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, dict) and isinstance(last, dict) and part.get("type") == last.get("type") in _JOINED:
            name = str(part["type"])
            texts = f"{last.get(name) or ''}{part.get(name) or ''}"
            found[-1] = {**last, **{key: value for key, value in part.items() if value}, name: texts}
        elif part is not None:
            found.append(part)
    return [part for part in found if not isinstance(part, dict) or part.get("text") != ""]


_JOINED = ("text", "thinking")


def _message_of(parts: list[JSON], request: ChatRequest) -> Message:
    """Return the message for parts in Anthropic's or Gemini's format."""
    if any(isinstance(part, dict) and part.get("type") == "thinking" for part in parts):
        blocks: list[JSON] = [{**each, "type": "tool_use"} if "input" in each else each for each in map(_object, parts)]
        return anthropic_responses.read_response({"content": blocks}).message
    content: JSON = {"role": "model", "parts": [_camel(without(_object(each), "type")) for each in parts]}
    body: JSON = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    return gemini_responses.read_response(body, request).message


def _native_body(answer: object, api: str) -> JSON:
    """Return an answer in an API's own format as a response body, or `None` if it is in another format.

    For Gemini, the answer is a content or its parts, alone or in a tuple with the stop reason. For OpenAI Responses, it
    is a list of output items.
    """
    items = _items(answer)
    words = [each for each in items or [] if isinstance(each, str)]
    if api in (RESPONSES.name, ANTHROPIC.name):  # the items may be in a tuple, with the text or the stop reason
        items = next((inner for each in items or [] if (inner := _items(each)) is not None), items)
    members: list[JSON] = [_camel(jsonable(each)) for each in ([answer] if items is None else items)]
    kinds = {str(each.get("type")) for each in members if isinstance(each, dict)}
    if api == RESPONSES.name and kinds and kinds <= _OUTPUT_ITEMS:
        return {"output": [jsonable(each) for each in items or [answer]], "status": "completed"}
    is_text_with_calls = any(each not in _STOP_WORDS for each in words) and kinds <= {"tool_use"}
    if api == ANTHROPIC.name and items is not None and kinds <= _CONTENT_BLOCKS and not is_text_with_calls:
        blocks = [jsonable(each) for each in items]
        if all(isinstance(each, dict) for each in blocks):
            return {"content": [*blocks], "stop_reason": next((each for each in words if each in _STOP_WORDS), None)}
    if api != GEMINI.name:
        return None
    fields = _object(members[0]) if items is None else {}
    members = [*members, *(each for each in fields.values() if isinstance(each, dict))]
    word = next((each for each in members if isinstance(each, str) and each.isupper()), None)
    content = next((each for each in map(_object, members) if isinstance(each.get("parts"), list)), None)
    if content is None and word is not None and any(each in ({}, {"role": "model"}) for each in members):
        content = _object({"role": "model", "parts": []})
    parts = [each for each in members if isinstance(each, dict)]
    is_part_list = items is not None and all(each == word or _object(each).keys() <= _PART_FIELDS for each in members)
    if content is None and items and all(each == word for each in members):
        content = _object({"role": "model", "parts": []})
    if content is None and parts and is_part_list and (word or any(_PARTS & each.keys() for each in parts)):
        content = _object({"role": "model", "parts": _joined_pieces(parts)})
    if content is None:
        return None
    reason = content.get("finishReason") or fields.get("finishReason") or word or _reason_in(fields)
    candidate: dict[str, JSON] = {"content": content, "finishReason": reason}
    return {"candidates": [{key: each for key, each in candidate.items() if each}]}


def _joined_pieces(parts: Sequence[JSON]) -> list[JSON]:
    """Return parts of Gemini's format, with the pieces of a text or a thought joined."""
    found: list[dict[str, JSON]] = []
    for part in map(_object, parts):
        last = found[-1] if found else {}
        if "text" in part and "text" in last and not _is_opaque(last) and part.get("thought") == last.get("thought"):
            found[-1] = {**part, "text": f"{last['text']}{part['text']}"}
        else:
            found.append(part)
    return [*found]


_OUTPUT_ITEMS = {"message", "function_call", "reasoning"}
_PARTS = {"functionCall", "thoughtSignature"}
_PART_FIELDS = {*_PARTS, "text", "thought", "inlineData"}
_STOP_WORDS = {"end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn"}
_CONTENT_BLOCKS = {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"}


def _as_part(whole: ChatResponse) -> dict[str, object]:
    """Convert the final response of an OpenAI Responses stream to an object that `as_completion` can read."""
    calls = [{"id": each.id, "name": each.name, "arguments": {**each.arguments}} for each in whole.tool_calls]
    return {"text": whole.text, "calls": calls, "finish_reason": whole.raw_stop_reason or whole.stop_reason.value}


def _usual_reason(calls: Sequence[object]) -> str:
    return "tool_calls" if calls else "stop"


def _with_usual_reason(answer: ChatResponse) -> ChatResponse:
    """Return the response of a client that returns no stop reason."""
    reason = StopReason.TOOL_USE if answer.tool_calls else StopReason.END_TURN
    return _without(replace(answer, stop_reason=reason), {NO_STOP_REASON: True})


def _with_own_reason(answer: ChatResponse) -> ChatResponse:
    """Return the response, with an unknown stop reason replaced if it is a common word of clients for a known one."""
    if answer.stop_reason is not StopReason.UNKNOWN:
        return answer
    reason = stop_reason(answer.raw_stop_reason)
    is_call = reason is StopReason.END_TURN and answer.tool_calls
    return replace(answer, stop_reason=StopReason.TOOL_USE if is_call else reason)


def _with_fields_of_client(native: ChatResponse, fields: Mapping[str, Any]) -> ChatResponse:
    """Return a response that was read from the output items of OpenAI Responses, with the client's own fields.

    These are the stop reason and the token counts, if the client returns them under other names than the API.
    """
    if native.stop_reason is StopReason.UNKNOWN and (word := _reason_in(fields)) is not None:
        native = replace(native, stop_reason=stop_reason(word))
    counts = _counts_in(fields)
    if native.usage.input_tokens is not None or counts == (None, None):
        return native
    usage = replace(native.usage, input_tokens=counts[0], output_tokens=counts[1])
    return replace(native, usage=usage, reported={**native.reported, OWN_COUNTS: True})


def _with_own_fields(native: ChatResponse, answer: object, request: ChatRequest) -> ChatResponse:
    """Return a response that was read from content in the API's format. If the client's answer also has fields with
    another text or other calls, these are what its caller reads, so they are returned.
    """
    own = {**_properties(answer), **_plain_fields(answer)}
    if isinstance(answer, Mapping) or not isinstance(own.get("text"), str) or not {*_CALLS} & own.keys():
        return native
    read = response(as_completion(answer), request, None).message
    is_same = [each[1:] for each in _calls_of(read)] == [each[1:] for each in _calls_of(native.message)]
    return native if is_same and read.text == native.text else replace(native, message=read)


def _without(answer: ChatResponse, lacks: Mapping[str, bool]) -> ChatResponse:
    """Return the response with `lacks` in `reported`: mostly what the client does not provide. A raw stop reason that
    the client did not provide is removed.
    """
    raw = None if lacks[NO_STOP_REASON] else answer.raw_stop_reason
    missing: dict[str, JSON] = {key: True for key, is_missing in lacks.items() if is_missing}
    return replace(answer, raw_stop_reason=raw, reported={**answer.reported, **missing})
