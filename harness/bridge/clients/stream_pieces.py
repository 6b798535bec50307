"""Pieces of a client's own stream: the kind of each event, its text or call, and pieces joined into one message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from harness.adapters.anthropic import responses as anthropic_responses
from harness.adapters.gemini import responses as gemini_responses
from harness.bridge.clients.answer_fields import (
    CALL_FIELDS,
    TEXT_FIELDS,
    computed_fields,
    has_answer_fields,
    is_computed,
    names_of_call_lists,
    stop_reason_in,
)
from harness.bridge.clients.names import CALL_PARAMETERS
from harness.bridge.clients.values import (
    as_object,
    camel_case,
    items_of,
    jsonable,
    plain_fields,
    snake_case,
    without_keys,
)
from harness.model.messages import JSON, ChatRequest, Message


def join_call(calls: list[dict[str, Any]], call: dict[str, Any]) -> bool:
    """Add a call to `calls`, with the index of the call that it continues or else with a new index.

    If it only repeats one of `calls`, leave it out and return false.
    """
    function = call["function"]
    known = [each for each in calls if call["id"] is not None and each["id"] == call["id"]]
    if "index" not in call and known:
        call["index"] = known[-1]["index"]
        before, text = "".join(each["function"]["arguments"] or "" for each in known), function["arguments"] or ""
        if not text or _parsed_arguments(text) == _parsed_arguments(before):
            return False
    elif "index" not in call and calls and call["id"] is None and not function["name"]:
        call["index"] = calls[-1]["index"]
    call.setdefault("index", len({each["index"] for each in calls}))
    calls.append(call)
    return True


def repeats_calls(calls: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether calls have the same names and arguments as the calls that were joined in `calls`."""
    joined: dict[int, tuple[str, str]] = {}
    for each in calls:
        name, text = joined.get(each["index"], ("", ""))
        function = each["function"]
        joined[each["index"]] = name or function["name"] or "", text + (function["arguments"] or "")
    whole = [(each["function"]["name"] or "", each["function"]["arguments"] or "") for each in others]
    every = [[(name, _parsed_arguments(text)) for name, text in each] for each in (joined.values(), whole)]
    return every[0] == every[1]


def _parsed_arguments(text: str) -> JSON:
    """Return arguments as JSON, or their text if they are none. An empty text means no arguments."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


class JoinedText:
    """The text of a stream, joined from its items. A last item that repeats the whole text is left out.

    Such an item differs from the earlier ones. It has another class or kind, or a field that is empty in them. Without
    such a difference, a text that is equal to all text before it is the next piece, as in "ha", "ha".
    """

    __slots__ = ("_marks", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._marks = set[str]()

    def add(self, text: str | None, item: object, *, has_usage: bool) -> str:
        """Add the text of an item, and return it. Return an empty text if the item repeats the whole text."""
        if not text:
            return ""
        marks = {*_marks_of(item), *(["usage"] if has_usage else [])}
        if text == self._text and not marks <= self._marks:
            return ""
        self._text += text
        self._marks |= marks
        return text


def _marks_of(item: object) -> set[str]:
    """Return the class and the kind of an item, and the names of its fields that have a value.

    Numbers are ignored, because they may be indices.
    """
    fields = {name: each for name, each in plain_fields(item).items() if each and type(each) not in (int, float)}
    return {type(item).__name__, _tag_of(item), *fields}


class AnswerInside(dict[str, Any]):
    """Fields of a whole answer that is stored in a field of a stream's item."""


def with_answers_inside(items: Iterable[object]) -> Iterator[object]:
    """Yield the items of a stream, and each whole answer inside an item after that item. An answer without a stop
    reason may be incomplete, so it is yielded only after the last item.
    """
    last: AnswerInside | None = None
    for item in items:
        last = answer_inside(item)
        fields = plain_fields(item)
        own = {name: each for name, each in fields.items() if not _is_whole_answer(name, each)}
        if not {*TEXT_FIELDS} & (fields.keys() - own.keys()):
            yield item
        elif any(own.get(name) for name in (*TEXT_FIELDS, *CALL_FIELDS)):
            yield own
        if last is not None and stop_reason_in(last):
            yield last
            last = None
    if last is not None:
        yield last


def answer_inside(item: object) -> AnswerInside | None:
    """Return the whole answer in a field of an item. It also gets the stop reason and the token counts of the item."""
    if isinstance(item, str) or items_of(item) is not None:
        return None
    fields = plain_fields(item)
    for name, each in fields.items():
        if _is_whole_answer(name, each):
            own = {key: fields[key] for key in _ANSWER_SETTINGS if fields.get(key)}
            inner = {**computed_fields(each), **plain_fields(each)}
            return AnswerInside({**own, **{key: value for key, value in inner.items() if value or key not in own}})
    return None


_ANSWER_SETTINGS = ("finish_reason", "stop_reason", "usage", "refusal", "model")


def _is_whole_answer(name: str, value: object) -> bool:
    """Return whether the value of an item's field is a whole answer.

    It has a text, and it has calls, a stop reason or token counts.
    """
    if isinstance(value, str) or items_of(value) is not None or _PIECE_FIELDS.fullmatch(name):
        return False
    known = (*_WHOLE_TEXT_FIELDS, *CALL_FIELDS, *_ANSWER_SETTINGS)
    names = plain_fields(value).keys() | {each for each in known if is_computed(value, each)}
    has_calls = {*CALL_FIELDS} & names or names_of_call_lists(plain_fields(value))
    has_rest = has_calls or {"finish_reason", "stop_reason", "usage"} & names
    return bool({*_WHOLE_TEXT_FIELDS} & names and has_rest) and "choices" not in names


_WHOLE_TEXT_FIELDS = ("text", "content", "output_text", "message")

_PIECE_FIELDS = re.compile("message|delta|chunk|piece|part|event|data|payload|value|_?raw\\w*|native|original|choice")
"""Names of fields whose value is no whole answer, or is read in another way."""


_EVENT_KINDS = {
    "thinking": r"think|thought|reason(ing|$)|mus(e|ing)$|ponder|reflection",
    "call": r"call|tool|function",
    "end": r"finish|stop|done|end|complete|final",
    "usage": r"usage",
    "text": r"text|content|token|delta|message|chunk|answer",
}
"""Kind of an event in a client's own stream → pattern that the event's name matches."""


def read_piece(item: object) -> tuple[object, JSON]:
    """Convert an event of a client's own stream. Return an object for `as_completion`, and a part in the format of an
    API.

    Each is `None` if the event has nothing for it. Both are `None` for an event that cannot be read.
    """
    kind, fields = event_kind(item), plain_fields(item)
    value = next((fields[key] for key in ("data", "payload", "value") if fields.get(key) is not None), item)
    if (members := items_of(item)) is not None:
        value = _value_in_tuple(kind, members, item)
    if isinstance(item, str) or kind is None:
        return item if isinstance(item, str) or has_answer_fields(item) or _has_answer_inside(item) else None, None
    fields, part = plain_fields(value), jsonable(value)
    call: object = as_object(camel_case(part)).get("functionCall", cast("object", value))
    call = next((fields[key] for key in CALL_PARAMETERS["call"] if fields.get(key) is not None), call)
    match kind:
        case "thinking" if not {*CALL_FIELDS} & fields.keys():
            thought = {"thinking": _text_of_piece(value), **({"signature": fields.get("signature")} if fields else {})}
            return {"text": ""}, {"type": "thinking", **thought}
        case "call" if {"name", "tool", "tool_name", "function"} & plain_fields(call).keys():
            return {"calls": [call]}, part
        case "call" if (piece := _piece_of_arguments(fields)) is not None:
            return {"calls": [piece]}, None
        case "end" if not {"message", "response", *CALL_FIELDS} & fields.keys():
            word = (
                value if isinstance(value, str) else next((fields[key] for key in _END_FIELDS if fields.get(key)), None)
            )
            counts = {name: each for name, each in fields.items() if type(each) is int}
            reason = getattr(word, "value", word)
            return {**counts, "text": "", "finish_reason": reason, "usage": fields.get("usage")}, None
        case "usage":
            return {"text": "", "usage": fields.get("usage") or value}, None
        case "text" if isinstance(value, str):
            return {"text": value}, {"type": "text", "text": value}
        case _ if has_answer_fields(value):
            return value, {"type": "text", "text": _text_of_piece(value)}
        case _:
            return None, None


def _piece_of_arguments(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a piece of a call's arguments: the only text of an event that has the index of the call. Return `None` for
    another event.
    """
    texts = [each for name, each in fields.items() if isinstance(each, str) and name not in ("type", "kind", "event")]
    has_index = type(fields.get("index")) is int
    return {"index": fields["index"], "arguments": texts[0]} if has_index and len(texts) == 1 else None


def _value_in_tuple(kind: str | None, members: Sequence[object], item: object) -> object:
    """Return the value of an event that is a tuple of its kind and its values. Return `item` if it is none."""
    first, *values = [*members, None]
    is_tagged = isinstance(first, Enum) or (isinstance(first, str) and first.isidentifier())
    match kind, values[:-1]:
        case _, [value]:
            return value
        case "call", [name, arguments] if is_tagged:
            return {"id": None, "name": name, "arguments": arguments}
        case "call", [call_id, name, arguments] if is_tagged:
            return {"id": call_id, "name": name, "arguments": arguments}
        case "thinking", [thought, signature] if is_tagged:
            return {"thinking": thought, "signature": signature}
        case "end", [word, *others] if is_tagged:
            counts = (each for each in others if any(name.endswith("_tokens") for name in plain_fields(each)))
            return {"finish_reason": word, "usage": next(counts, None)}
        case _:
            return item


_END_FIELDS = ("finish_reason", "stop_reason", "reason", "stop", "status")


def event_kind(item: object) -> str | None:
    """Return the kind of an event, by the first item of a tuple, by a field or by the name of its class."""
    words = snake_case(_tag_of(item)).lower()
    return next((kind for kind, pattern in _EVENT_KINDS.items() if re.search(pattern, words)), None)


def _tag_of(item: object) -> str:
    fields, pair = plain_fields(item), items_of(item)
    tags = [*(pair or [])[:1], *(fields.get(key) for key in ("type", "kind", "event"))]
    tag = next((each for each in tags if isinstance(each, str | Enum)), type(item).__name__)
    value = getattr(tag, "value", tag)
    return str(value if isinstance(value, str) or not isinstance(tag, Enum) else tag.name)


def _has_answer_inside(item: object) -> bool:
    return any(has_answer_fields(each) for each in plain_fields(item).values() if not isinstance(each, str))


def _text_of_piece(value: object) -> str:
    fields = plain_fields(value)
    found = (
        value if isinstance(value, str) else next((fields[key] for key in _PIECE_TEXT_FIELDS if fields.get(key)), "")
    )
    return found if isinstance(found, str) else ""


_PIECE_TEXT_FIELDS = ("thinking", "thought", "reasoning", "text", "content", "delta")


def join_parts(parts: Iterable[JSON]) -> list[JSON]:
    """Return the parts of an answer, with pieces of a text or a thought joined."""
    found: list[JSON] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, dict) and isinstance(last, dict) and part.get("type") == last.get("type") in _JOINED_TYPES:
            name = str(part["type"])
            texts = f"{last.get(name) or ''}{part.get(name) or ''}"
            found[-1] = {**last, **{key: value for key, value in part.items() if value}, name: texts}
        elif part is not None:
            found.append(part)
    return [part for part in found if not isinstance(part, dict) or part.get("text") != ""]


_JOINED_TYPES = ("text", "thinking")


def message_of_parts(parts: list[JSON], request: ChatRequest) -> Message:
    """Return the message for parts in Anthropic's or Gemini's format."""
    if any(isinstance(part, dict) and part.get("type") == "thinking" for part in parts):
        blocks: list[JSON] = [
            {**each, "type": "tool_use"} if "input" in each else each for each in map(as_object, parts)
        ]
        return anthropic_responses.read_response({"content": blocks}).message
    content: JSON = {"role": "model", "parts": [camel_case(without_keys(as_object(each), "type")) for each in parts]}
    body: JSON = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    return gemini_responses.read_response(body, request).message
