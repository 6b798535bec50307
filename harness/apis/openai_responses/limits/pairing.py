"""What the provider refuses in the order of items: calls and their outputs, reasoning and what it led to."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.openai_responses import limits
from harness.apis.openai_responses.requests import state
from harness.apis.openai_responses.requests.items import item_kind
from harness.contract.model import JSON

_ANSWERS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_CALLS = tuple(_ANSWERS.values())
_FOLLOWERS = ("mcp_list_tools", "mcp_approval_request", "program", "item_reference", "compaction")


def pairing_limits(body: dict[str, JSON], law: Law) -> Iterator[Violation]:
    """What is refused in the items of `input` as a sequence."""
    entries = body.get("input")
    if not isinstance(entries, list):
        return
    items = [item if isinstance(item, dict) else {} for item in entries]
    yield from _results(items, stateful=state(body) is not None, adjacent=law.profile.results_adjacent)
    # without a store there is no reasoning to compare with (openai-responses-reasoning-back)
    if law.is_own and body.get("store") is not False:
        yield from _reasoning(items)


def _results(items: list[dict[str, JSON]], *, stateful: bool, adjacent: bool) -> Iterator[Violation]:
    """openai-responses-result-has-call: a sequential scan that pairs one to one. An id may serve again once it is
    answered (openai-responses-recorded-ids)."""
    waiting: dict[tuple[str, str], list[int]] = {}
    answered: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        kind, call_id = item_kind(item), item.get("call_id")
        if not isinstance(call_id, str) or item.get("async") is True:
            continue  # an asynchronous function may answer later
        if kind in _CALLS:
            waiting.setdefault((kind, call_id), []).append(index)
        elif kind in _ANSWERS:
            key = (_ANSWERS[kind], call_id)
            calls = waiting.get(key)
            if calls:
                call = calls.pop(0)
                yield from _detached(items, call, index) if adjacent else ()
            elif key in answered or not stateful:
                yield _unasked(call_id, index, again=key in answered)
            answered.add(key)
    for (_, call_id), calls in waiting.items():
        for index in calls:
            text = f"No tool output was found for the function call {call_id}."
            yield limits.RESULT_MISSING.broken(text, join("/input", index), actual=call_id)


def _unasked(call_id: str, index: int, *, again: bool) -> Violation:
    pointer = join("/input", index, "call_id")
    if again:
        text = f"No tool call is left for this function call output: call_id {call_id} has been answered before."
        return limits.RESULT_DUPLICATE.broken(text, pointer, actual=call_id)
    text = f"No tool call before this item was found for the function call output with call_id {call_id}."
    return limits.RESULT_ORPHAN.broken(text, pointer, actual=call_id)


def _detached(items: list[dict[str, JSON]], call: int, index: int) -> Iterator[Violation]:
    if any(item_kind(between) == "message" for between in items[call:index]):
        call_id = items[call]["call_id"]
        text = f"No tool output found for tool call {call_id}: a message stands between the call and its output."
        yield limits.RESULT_DETACHED.broken(text, join("/input", index), actual=call_id)


def _reasoning(items: list[dict[str, JSON]]) -> Iterator[Violation]:
    """openai-responses-reasoning-back: reasoning that is sent by its id must stand before the output item it was stored
    with."""
    for index, item in enumerate(items):
        identity = item.get("id")
        if item_kind(item) != "reasoning" or not isinstance(identity, str) or not identity.startswith("rs_"):
            continue
        after = next((follower for follower in items[index + 1 :] if item_kind(follower) != "reasoning"), None)
        if after is None or not _is_output(after):
            text = f"The reasoning item '{identity}' was provided without the item that has to follow it."
            yield limits.REASONING_ALONE.broken(text, join("/input", index), actual=identity)


def _is_output(item: dict[str, JSON]) -> bool:
    kind = item_kind(item)
    if kind == "message":
        return item.get("role") == "assistant" and item.get("id") is not None
    return kind.endswith("_call") or kind in _FOLLOWERS
