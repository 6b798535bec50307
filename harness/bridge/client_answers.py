"""Conversion of what clients return, in any usual form, to responses and stream events of the contract."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from types import ModuleType
from typing import Any, cast

from harness.adapters.anthropic import responses as anthropic_responses
from harness.adapters.gemini import responses as gemini_responses
from harness.adapters.openai_responses import SDK
from harness.bridge.completions import NO_STOP_REASON, completion, events, response
from harness.bridge.openai_messages import Memory, plain
from harness.model.errors import MalformedResponse
from harness.model.messages import JSON, ChatRequest, ChatResponse, Finish, StreamEvent
from harness.platform.environment import importing_sdk

_TEXTS = ("text", "content", "output_text", "message", "answer", "response", "reply", "output", "result", "delta")
_CALLS = ("tool_calls", "calls", "function_calls", "tool_uses", "tool_call", "function_call")
_REASONS = ("finish_reason", "stop_reason", "stop")
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_OK = 200
_BLOCKS = ("text", "tool_use", "thinking")
_ANTHROPIC_EVENTS = ("message_start", "content_block_start", "ping", "error")
_VALUE_KEYS = frozenset({"args", "input", "arguments", "parameters", "response"})
"""Keys whose values belong to the tool. Names inside them are left unchanged."""


def read_answer(answer: object, request: ChatRequest, memory: Memory, *, parsed: bool = False) -> ChatResponse:
    """Convert the answer of a client to a response.

    The answer may have the format of Anthropic, Gemini or OpenAI Chat, or be an object with text and calls, a tuple of
    them, or a string. The memory stores messages of OpenAI Chat only. See `harness.bridge.response` for `parsed`.

    Raises:
        MalformedResponse: the answer has neither text nor calls.
    """
    if isinstance(answer, Iterator):
        answer = _joined(cast("Iterator[object]", answer))
    body = jsonable(answer)
    if _is_anthropic(body):
        return anthropic_responses.read_response(body)
    if _is_gemini(body):
        return gemini_responses.read_response(_camel(body), request)
    if isinstance(body, dict) and isinstance(body.get("output"), list):
        return _of_responses().read_response(body, _OK, request.messages)
    is_wire = isinstance(body, dict) and "choices" in body
    made = cast("dict[str, Any]", as_completion(answer))
    choice: Mapping[str, Any] = plain(next(iter(made["choices"]), None))
    if is_wire or choice["finish_reason"]:
        return response(made, request, memory if is_wire else None, parsed=parsed)
    choice = {**choice, "finish_reason": _usual_reason(choice["message"]["tool_calls"])}
    return _without_reason(response({**made, "choices": [choice]}, request, parsed=parsed))


def read_stream(
    items: Iterable[object], request: ChatRequest, memory: Memory, *, parsed: bool = False
) -> Iterator[StreamEvent]:
    """Convert a client's stream to events.

    Items may be events of Anthropic, chunks of Gemini or OpenAI Chat, texts, or objects with text or calls.
    """
    every = iter(items)
    first = next(every, None)
    if first is None:
        raise MalformedResponse("the client returned a stream without a single item")
    items, body = chain([first], every), jsonable(first)
    if isinstance(body, dict) and body.get("type") in _ANTHROPIC_EVENTS:
        return anthropic_responses.read_events(_object(jsonable(each)) for each in items)
    if _is_gemini(body):
        return gemini_responses.read_chunks((_object(_camel(jsonable(each))) for each in items), request)
    if isinstance(body, dict) and str(body.get("type")).startswith("response."):
        lines = (f"data: {json.dumps(jsonable(each))}\n\n".encode() for each in items)
        return _of_responses().read_stream(lines, _OK, request.messages)
    if isinstance(body, dict) and "choices" in body:
        return events(items, request, memory, parsed=parsed)
    return _own_events(items, request, parsed=parsed)


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
        answer = _named(items)
    found = _plain_fields(answer)
    if "choices" in found:
        return found
    inner = found.get("message")
    if inner is not None and not isinstance(inner, str):
        return as_completion({**found, **_plain_fields(inner), "message": None})
    text = next((found[key] for key in _TEXTS if found.get(key)), "")
    several = next((found[key] for key in _CALLS if found.get(key)), ())
    calls = _items(several)
    calls = [several] if calls is None else calls
    if (parts := _items(text)) is not None:
        blocks = [_plain_fields(block) for block in parts]
        calls = calls or [dict(block) for block in blocks if block.get("type") == "tool_use"]
        text = "".join(str(block.get("text") or "") for block in blocks)
    if not text and not calls and not {*_TEXTS, *_CALLS} & found.keys():
        raise MalformedResponse(f"the client returned {type(answer).__name__}, with no text and no tool calls")
    made = [_call(each) for each in calls]
    reason = next((found[key] for key in _REASONS if found.get(key)), None)
    used = _plain_fields(found.get("usage"))
    return completion(
        text if isinstance(text, str) else json.dumps(jsonable(text), ensure_ascii=False),
        made,
        reason=str(getattr(reason, "value", reason)) if reason else None,
        model=found.get("model"),
        read=used.get("prompt_tokens", used.get("input_tokens")),
        written=used.get("completion_tokens", used.get("output_tokens")),
    )


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


def _named(answer: Sequence[object]) -> dict[str, object]:
    """Return the fields of a list of blocks or calls, or of a tuple such as `(text, calls)`."""
    found: dict[str, object] = {}
    if any(_plain_fields(each).get("type") in _BLOCKS for each in answer):
        return {"content": [*answer]}
    if answer and all("name" in _plain_fields(each) or "function" in _plain_fields(each) for each in answer):
        return {"calls": [*answer]}
    for each in answer:
        if isinstance(each, str):
            found["finish_reason" if "text" in found else "text"] = each
        elif (calls := _items(each)) is not None:
            found["calls"] = calls
        elif any(name.endswith("_tokens") for name in _plain_fields(each)):
            found["usage"] = each
        elif each is not None:
            found |= _plain_fields(each)
    return found


def _call(call: object) -> dict[str, Any]:
    if (items := _items(call)) is not None:
        *call_id, name, arguments = items
        call = {"id": next(iter(call_id), None), "name": name, "arguments": arguments}
    found = _plain_fields(call)
    function = found.get("function")
    either = {**(_plain_fields(function) if not isinstance(function, str) else {"name": function}), **found}
    arguments = next((either[key] for key in _ARGUMENTS if key in either), None)
    return {
        "id": next((either[key] for key in ("id", "call_id", "tool_call_id") if either.get(key)), None),
        "name": either.get("name") or either.get("tool"),
        "args": arguments if isinstance(arguments, str) or arguments is None else json.dumps(jsonable(arguments)),
        **({"index": either["index"]} if "index" in either else {}),
    }


def _own_events(items: Iterable[object], request: ChatRequest, *, parsed: bool) -> Iterator[StreamEvent]:
    """Convert a stream of texts and objects. An object that repeats the whole text adds none."""
    text, calls, reason = "", list[object](), None

    def chunks() -> Iterator[object]:
        nonlocal text, reason
        for item in items:
            made: dict[str, Any] = cast("dict[str, Any]", as_completion(item))
            choice = made["choices"][0]
            message = choice["message"]
            if message["content"] == text:
                message["content"] = ""
            text += message["content"]
            for call in message["tool_calls"]:
                call.setdefault("index", len(calls))
                calls.append(call)
            reason = choice["finish_reason"] or reason
            yield made
        if reason is None:
            yield completion(reason=_usual_reason(calls))

    for event in events(chunks(), request, parsed=parsed):
        yield Finish(_without_reason(event.response)) if isinstance(event, Finish) and reason is None else event


def _usual_reason(calls: Sequence[object]) -> str:
    return "tool_calls" if calls else "stop"


def _without_reason(answer: ChatResponse) -> ChatResponse:
    return replace(answer, raw_stop_reason=None, reported={**answer.reported, NO_STOP_REASON: True})


def _joined(items: Iterator[object]) -> object:
    """Return a stream that a client returned for a whole answer as one answer."""
    every = [*items]
    if every and not isinstance(every[-1], str):
        return every[-1]
    return "".join(map(str, every))
