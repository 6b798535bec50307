"""Messages in a client's answer that can be sent back to the client unchanged."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, cast

from harness.bridge.clients.annotations import hints_of, own_classes
from harness.bridge.clients.call_fields import CALL_FIELDS
from harness.bridge.clients.forms import ANTHROPIC, OPENAI
from harness.bridge.clients.native_bodies import CONTENT_BLOCKS
from harness.bridge.clients.values import as_object, items_of, jsonable, plain_fields


def own_message(answer: object, hint: object, api: str, source: str = "") -> object | None:
    """Return the message in an answer that can be sent back to the client unchanged, or `None`.

    This is an instance of the client's own message class, which may also be the result of a method such as
    `as_message()`, or a dictionary with the role `assistant`, or such a method's result. With OpenAI Chat, a dictionary
    with additional fields is not accepted if its calls are in OpenAI's format. With Anthropic, it may also consist of
    the blocks in the answer, if the client's `source` reads no calls from messages.
    """
    if items := items_of(answer):
        return next((own for each in items if (own := own_message(each, hint, api)) is not None), None)
    fields = plain_fields(answer)
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
    calls: Iterable[Any] = next((message[key] for key in CALL_FIELDS if message.get(key)), ())
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
        if re.search(r"^[a-z].*(message|turn|history|param)", name) and len(inspect.signature(method).parameters) == 1:
            made = plain_fields(method(answer))
            if made.get("role") == "assistant":
                yield name, made


_MESSAGE_FIELDS = {"role", "content", "tool_calls", "refusal", "name", "reasoning_content"}
