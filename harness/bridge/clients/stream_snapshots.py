"""Streams whose items are the whole message so far, each longer than the one before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, TypeAlias, cast

from harness.bridge.clients.answer_fields import as_completion, has_answer_fields
from harness.bridge.clients.values import plain_fields, snake_case
from harness.model.errors import MalformedResponse

_State: TypeAlias = tuple[str, tuple[tuple[object, str], ...]]
"""The text and the calls of a snapshot: the id of each, and its name with its arguments."""


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The items of a stream of snapshots. `texts` are the pieces of text that each one added to that before it. The
    last item is the whole answer. `error` is the exception that ended the stream, if it broke off.
    """

    items: list[object]
    texts: list[str]
    error: Exception | None


def read_snapshots(items: Iterable[object], source: str = "") -> tuple[Snapshots | None, Iterator[object]]:
    """Return the snapshots of a stream, or `None` for other streams, and the items of the stream.

    Snapshots look like messages and not like pieces: they have a role, or their class or a field says what they are.
    Texts are snapshots only if the client's `source` says so, as Gradio takes them. Each snapshot begins with the text
    and the calls of the one before it.
    """
    every = iter(items)
    first = next(every, None)
    if first is None or not _may_be_snapshot(first, source):
        return None, every if first is None else chain([first], every)
    taken, states, error = list[object](), list[_State | None](), None
    try:
        for each in chain([first], every):
            taken.append(each)
            states.append(_state_of(each))
    except Exception as caught:  # noqa: BLE001 - third-party code may fail in any way
        error = caught
    known = [each for each in states if each is not None]
    pairs = [*pairwise(known)]
    repeats = any(text or any(call_id for call_id, _ in calls) for (text, calls), _ in pairs)
    if len(known) < len(states) or not repeats or not all(_continues(*each) for each in pairs):
        return None, _again(taken, error)
    texts = [known[0][0], *(after[0].removeprefix(before[0]) for before, after in pairs)]
    return Snapshots(taken, [*filter(None, texts)], error), iter(())


def _may_be_snapshot(item: object, source: str) -> bool:
    if isinstance(item, str):
        return _TEXT_SO_FAR.search(source) is not None
    if not has_answer_fields(item):
        return False
    fields = plain_fields(item)
    words = (type(item).__name__, *fields, *(str(fields.get(key)) for key in ("type", "kind", "event")))
    has_role = getattr(fields.get("role"), "value", fields.get("role")) in ("assistant", "model")
    return has_role or any(_SNAPSHOT.search(snake_case(each).lower()) for each in words)


_TEXT_SO_FAR = re.compile(r"\bso far\b|\bcumulative\b|\bgradio\b|\bgr\.", re.IGNORECASE)
_SNAPSHOT = re.compile("snapshot|partial|so_far|accumulat|cumulat")


def _state_of(item: object) -> _State | None:
    """Return the text and the calls of an item, or `None` if it has neither."""
    try:
        made = cast("dict[str, Any]", as_completion(item))
    except MalformedResponse:
        return None
    message = made["choices"][0]["message"]
    calls = ((each["id"] or None, each["function"]) for each in message["tool_calls"] or ())
    return message["content"] or "", tuple(
        (call_id, f"{function['name'] or ''}{function['arguments'] or ''}") for call_id, function in calls
    )


def _continues(before: _State, after: _State) -> bool:
    """Return whether one state begins with the text and the calls of another one."""
    pairs = zip(before[1], after[1], strict=False)
    is_same = all(old[0] in (None, new[0]) and new[1].startswith(old[1]) for old, new in pairs)
    return is_same and after[0].startswith(before[0]) and len(before[1]) <= len(after[1])


def _again(items: Iterable[object], error: Exception | None) -> Iterator[object]:
    yield from items
    if error is not None:
        raise error
