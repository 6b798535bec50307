"""System text: the `system` field, and system messages in mid-conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import Turn, blocks, dotted, is_server_work
from harness.apis.anthropic.limits.shapes import member_limits
from harness.apis.anthropic.limits.terms import Terms
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation, severity_of
from harness.contract.model import JSON

_MESSAGE_BLOCKS = ("text", "tool_addition", "tool_removal")


def system_limits(body: dict[str, JSON], conversation: Sequence[Turn], terms: Terms) -> Iterator[Violation]:
    """anthropic-no-empty-text, anthropic-system-field, anthropic-system-in-messages, anthropic-system-not-first,
    anthropic-system-directive, anthropic-sonnet-5-system-role, anthropic-system-role-unknown."""
    yield from _field(body.get("system"))
    for index, turn in enumerate(conversation):
        if turn.role != "system":
            continue
        severity = severity_of(terms.profile.system_in_messages)
        if severity:
            message = (
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not '
                '"system" as an input message role.'
            )
            pointer = join(turn.entries[0].pointer, "role")
            yield limits.SYSTEM_ROLE.broken(message, pointer, actual="system", severity=severity)
            if severity == "error":
                # else the model may take the role, and refuses it in a wrong place all the same
                # (anthropic-sonnet-5-system-role)
                continue
        before = conversation[index - 1] if index else None
        after = conversation[index + 1] if index + 1 < len(conversation) else None
        yield from _placement(turn, before, after)
        yield from _content(turn)


def _field(system: JSON) -> Iterator[Violation]:
    yield from member_limits(system, "/system")
    for block in blocks(system, "/system"):
        if block.kind != "text":
            message = f"{block.path}.type: Input should be 'text'"
            yield limits.SYSTEM_BLOCK.broken(message, block.pointer, actual=block.kind, expected="text")
        elif not (block.string("text") or "").strip():
            message = f"{block.path}: text content blocks must contain non-whitespace text"
            severity = "warning" if system == "" else None  # recorded with 200 (anthropic-system-field)
            yield limits.SYSTEM_EMPTY.broken(message, block.pointer, severity=severity)


def _placement(turn: Turn, before: Turn | None, after: Turn | None) -> Iterator[Violation]:
    if all(entry.data.get("output_config") and not entry.blocks for entry in turn.entries):
        return  # the directive-only form stands anywhere (anthropic-system-directive)
    place = turn.entries[0].pointer
    path = dotted(place)
    message = None
    if before is None:
        message = (
            f"{path}: use the top-level 'system' parameter for the initial system prompt; the directive-only form "
            "(content: [] with output_config) is accepted at any position"
        )
    elif not (before.role == "user" or (before.role == "assistant" and _ends_in_server_result(before))):
        message = (
            f"{path}: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool "
            "result"
        )
    elif after is not None and after.role != "assistant":
        message = f"{path}: role 'system' must precede an 'assistant' message or end the array"
    if message:
        yield limits.SYSTEM_PLACEMENT.broken(message, place)


def _ends_in_server_result(turn: Turn) -> bool:
    last = turn.blocks[-1:]
    return bool(last) and last[0].kind.endswith("_tool_result") and is_server_work(last[0])


def _content(turn: Turn) -> Iterator[Violation]:
    for entry in turn.entries:
        said = any(block.kind != "text" or block.string("text") for block in entry.blocks)
        if not said and not entry.data.get("output_config"):
            message = f"{dotted(entry.pointer)}: system content must contain at least one block"
            yield limits.SYSTEM_EMPTY.broken(message, entry.pointer)
        for block in entry.blocks:
            if block.kind not in _MESSAGE_BLOCKS:
                message = f"{block.path}: a 'system' message may contain only {', '.join(_MESSAGE_BLOCKS)} blocks"
                yield limits.SYSTEM_BLOCK.broken(message, block.pointer, actual=block.kind)
