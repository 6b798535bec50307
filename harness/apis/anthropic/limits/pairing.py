"""Calls and their results: every call is answered in the next turn, results first, one for each id."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import Block, Entry, Turn, dotted, is_server_work
from harness.apis.anthropic.requests import is_continued
from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.limit import Limit, Violation
from harness.contract.model import JSON

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_EMPTY = Turn("", (), ())
_HOMES = {"tool_use": "assistant", "tool_result": "user"}


def pairing_limits(body: dict[str, JSON], entries: list[Entry], conversation: Sequence[Turn]) -> Iterator[Violation]:
    """anthropic-call-fields, anthropic-call-answered-next, anthropic-results-first, anthropic-result-has-call,
    anthropic-one-result-a-call, anthropic-server-call-alone, anthropic-toolset-echoed. Consecutive messages of a role
    count as one turn (anthropic-roles). What continues a thread begins behind calls that the server remembers
    (anthropic-thread-continue)."""
    if conversation and not is_continued(body):
        yield from _pair(_EMPTY, conversation[0])
    for turn, following in pairwise([*conversation, _EMPTY]):
        known = turn.wrong[:1]
        if not known or known[0][0] is not following:  # else the request before had the two as well
            turn.wrong[:] = known = [(following, [*_pair(turn, following)])]
        yield from known[0][1]
    for misplaced in _misplaced(entries, ""):
        yield from misplaced


def _pair(turn: Turn, following: Turn) -> Iterator[Violation]:
    if turn.role == "assistant":
        yield from _calls(turn)
        yield from _answers(turn, following)
    if following.role == "user":
        yield from _results(following, turn)


@entrywise
def _misplaced(entry: Entry, _pointer: str) -> list[Violation]:
    found: list[Violation] = []
    for block in entry.blocks:
        home = _HOMES.get(block.kind, entry.role)
        if home != entry.role:
            message = f"{block.path}: `{block.kind}` blocks can only be in `{home}` messages"
            found.append(limits.BLOCK_ROLE.broken(message, block.pointer, actual=entry.role, expected=home))
    return found


def _calls(turn: Turn) -> Iterator[Violation]:
    seen: set[str] = set()
    for block in turn.of_kind("tool_use"):
        call_id = block.string("id")
        if call_id is None:
            continue
        pointer = join(block.pointer, "id")
        if not _ID.fullmatch(call_id):
            message = f"{block.path}.tool_use.id: String should match pattern '^{_ID.pattern}$'"
            yield limits.CALL_ID_PATTERN.broken(message, pointer, actual=call_id)
        if call_id in seen:
            message = f"{block.path}: `tool_use` ids must be unique"
            yield limits.CALL_ID_DUPLICATE.broken(message, pointer, actual=call_id)
        seen.add(call_id)


def _answers(turn: Turn, following: Turn) -> Iterator[Violation]:
    calls = [block for block in turn.of_kind("tool_use") if block.string("id") is not None]
    if not calls:
        return
    reply = following if following.role == "user" else _EMPTY
    leading = {_answered(block) for block in takewhile(lambda block: block.kind == "tool_result", reply.blocks)}
    later = {_answered(block) for block in reply.of_kind("tool_result")} - leading
    place = turn.entries[-1].pointer
    unanswered = [block for block in calls if block.string("id") not in leading | later]
    if unanswered:
        yield _unanswered(limits.RESULT_MISSING, place, unanswered)
    belated = [block for block in calls if block.string("id") in later]
    if belated:
        yield _unanswered(limits.RESULT_ORDER, place, belated)
    yield from _pending(turn, reply)


def _unanswered(limit: Limit, place: str, calls: list[Block]) -> Violation:
    ids: list[JSON] = [block.string("id") for block in calls]
    message = (
        f"{dotted(place)}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(map(str, ids))}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message, before any other content."
    )
    return limit.broken(message, calls[0].pointer, expected=ids)


def _pending(turn: Turn, reply: Turn) -> Iterator[Violation]:
    """anthropic-server-call-alone: while one of the provider's tools is still at work, only results may come."""
    done = {block.string("tool_use_id") for block in turn.blocks if is_server_work(block)}
    waiting = [block for block in turn.of_kind("server_tool_use") if block.string("id") not in done]
    others = [block for entry in reply.entries[:1] for block in entry.blocks if block.kind != "tool_result"]
    if waiting and others:
        message = (
            f"{others[0].path}: while the `server_tool_use` {waiting[0].string('id')} has no result, the next message "
            "may contain only `tool_result` blocks"
        )
        yield limits.SERVER_CALL_PENDING.broken(message, others[0].pointer)


def _results(turn: Turn, previous: Turn) -> Iterator[Violation]:
    calls: dict[str | None, Block] = {}
    if previous.role == "assistant":
        calls = {block.string("id"): block for block in previous.of_kind("tool_use")}
    seen: set[str] = set()
    for block in turn.of_kind("tool_result"):
        call_id = _answered(block)
        if call_id is None:
            continue
        pointer = join(block.pointer, "tool_use_id")
        if call_id not in calls:
            message = (
                f"{block.path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
            yield limits.RESULT_ORPHAN.broken(message, pointer, actual=call_id, expected=[*calls])
        elif block.data.get("toolset_name") != calls[call_id].data.get("toolset_name"):
            expected = calls[call_id].data.get("toolset_name")
            message = f"{block.path}.tool_result.toolset_name: must be that of the `tool_use` block: {expected}"
            yield limits.TOOLSET_NAME.broken(message, block.pointer, expected=expected)
        if call_id in seen:
            message = (
                f"{block.path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{call_id}"
            )
            yield limits.RESULT_DUPLICATE.broken(message, pointer, actual=call_id)
        seen.add(call_id)


def _answered(block: Block) -> str | None:
    return block.string("tool_use_id")
