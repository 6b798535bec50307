"""Calls and their results: every call is answered in the next turn, results first, one for each id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from harness.apis.anthropic.conversation import Block, Turn, dotted, is_server_work, limit
from harness.apis.anthropic.requests import is_continued
from harness.apis.jsonvalue import join
from harness.apis.limit import Limit, Violation, severity_of
from harness.apis.profile import Profile
from harness.contract.model import JSON

_EMPTY = Turn("", (), ())


def pairing_limits(body: dict[str, JSON], conversation: Sequence[Turn], profile: Profile) -> Iterator[Violation]:
    """Calls and results, and the places of system messages. Consecutive messages of a role count as one turn
    (anthropic-roles). What continues a thread begins behind calls that the server remembers
    (anthropic-thread-continue)."""
    if conversation and not is_continued(body):
        yield from _pair(_EMPTY, conversation[0])
    for turn, following in pairwise([*conversation, _EMPTY]):
        yield from _pair(turn, following)
        for kind, home in (("tool_use", "assistant"), ("tool_result", "user")):
            for block in turn.of_kind(kind) if turn.role != home else ():
                message = f"{block.path}: `{kind}` blocks can only be in `{home}` messages"
                yield limit("block-role").broken(message, block.pointer, actual=turn.role, expected=home)
    if severity_of(profile.system_in_messages) != "error":  # else the role is refused wherever it stands
        # A model that may take the role refuses it in a wrong place all the same (anthropic-sonnet-5-system-role).
        for before, turn, after in zip([None, *conversation], conversation, [*conversation[1:], None], strict=False):
            if turn.role == "system":
                yield from _placement(turn, before, after)


def _placement(turn: Turn, before: Turn | None, after: Turn | None) -> Iterator[Violation]:
    if all(entry.data.get("output_config") and not entry.blocks for entry in turn.entries):
        return  # the directive-only form stands anywhere (anthropic-system-directive)
    place = turn.entries[0].pointer
    message = None
    if before is None:
        message = (
            "use the top-level 'system' parameter for the initial system prompt; the directive-only form "
            "(content: [] with output_config) is accepted at any position"
        )
    elif not (before.role == "user" or (before.role == "assistant" and _ends_in_server_result(before))):
        message = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
    elif after is not None and after.role != "assistant":
        message = "role 'system' must precede an 'assistant' message or end the array"
    if message:
        yield limit("system-placement").broken(f"{dotted(place)}: {message}", place)


def _ends_in_server_result(turn: Turn) -> bool:
    last = turn.blocks[-1:]
    return bool(last) and last[0].kind.endswith("_tool_result") and is_server_work(last[0])


def _pair(turn: Turn, following: Turn) -> Iterator[Violation]:
    if turn.role == "assistant":
        yield from _calls(turn)
        yield from _answers(turn, following)
    if following.role == "user":
        yield from _results(following, turn)


def _calls(turn: Turn) -> Iterator[Violation]:
    seen: set[str] = set()
    for block in turn.of_kind("tool_use"):
        call_id = block.string("id")
        if call_id is None:
            continue
        if call_id in seen:
            message = f"{block.path}: `tool_use` ids must be unique"
            yield limit("call-id-duplicate").broken(message, join(block.pointer, "id"), actual=call_id)
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
        yield _unanswered(limit("result-missing"), place, unanswered)
    belated = [block for block in calls if block.string("id") in later]
    if belated:
        yield _unanswered(limit("result-order"), place, belated)
    yield from _pending(turn, reply)


def _unanswered(broken: Limit, place: str, calls: list[Block]) -> Violation:
    ids: list[JSON] = [block.string("id") for block in calls]
    message = (
        f"{dotted(place)}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(map(str, ids))}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message, before any other content."
    )
    return broken.broken(message, calls[0].pointer, expected=ids)


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
        yield limit("server-call-pending").broken(message, others[0].pointer)


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
            yield limit("result-orphan").broken(message, pointer, actual=call_id, expected=[*calls])
        elif block.data.get("toolset_name") != calls[call_id].data.get("toolset_name"):
            expected = calls[call_id].data.get("toolset_name")
            message = f"{block.path}.tool_result.toolset_name: must be that of the `tool_use` block: {expected}"
            yield limit("toolset-name").broken(message, block.pointer, expected=expected)
        if call_id in seen:
            message = (
                f"{block.path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{call_id}"
            )
            yield limit("result-duplicate").broken(message, pointer, actual=call_id)
        seen.add(call_id)


def _answered(block: Block) -> str | None:
    return block.string("tool_use_id")
