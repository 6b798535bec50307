"""Calls and their results: every call of a message is answered, once, right behind it (openai-chat-calls-answered,
openai-chat-result-has-call)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.apis.openai_chat.limits.chat import Chat, calls_of
from harness.contract.model import JSON


@dataclass(slots=True)
class _Batch:
    """The calls of one assistant message. `waiting`: ids without a result; `answered`: id → where its result is."""

    pointer: str
    waiting: list[str] = field(default_factory=list[str])
    answered: dict[str, str] = field(default_factory=dict[str, str])


def violations(chat: Chat) -> Iterator[Violation]:
    """Calls without a result, results without a call, and results that come twice."""
    batch: _Batch | None = None
    for pointer, message in chat.messages:
        if message.get("role") == "tool":
            yield from _result(batch, message.get("tool_call_id"), pointer)
            continue
        yield from _unanswered(batch)
        ids = [call["id"] for _, call in calls_of(message, pointer) if "id" in call]
        waiting = [call_id for call_id in ids if isinstance(call_id, str)]
        batch = _Batch(join(pointer, "tool_calls"), waiting) if waiting else None
    yield from _unanswered(batch)


def _unanswered(batch: _Batch | None) -> Iterator[Violation]:
    if batch is not None and batch.waiting:
        missing = ", ".join(batch.waiting)
        yield limits.RESULT_MISSING.broken(
            "An assistant message with 'tool_calls' must be followed by tool messages that respond to each "
            f"'tool_call_id'. No response message was found for: {missing}",
            batch.pointer,
            actual=list(batch.waiting),
        )


def _result(batch: _Batch | None, call_id: JSON, pointer: str) -> Iterator[Violation]:
    if batch is None:
        yield limits.RESULT_ORPHAN.broken(
            "Invalid parameter: a message with role 'tool' must respond to a preceding message with 'tool_calls'.",
            join(pointer, "role"),
            actual=call_id,
        )
    elif not isinstance(call_id, str):
        return  # `messages` says so
    elif call_id in batch.waiting:
        batch.waiting.remove(call_id)
        batch.answered[call_id] = pointer
    elif call_id in batch.answered:
        # Wire-facts has this as not confirmed; refusals with this text were captured since then from OpenAI
        # (agno-agi/agno#5116, neuron-core/neuron-ai#46) and DeepSeek (HKUDS/nanobot#3945).
        yield limits.RESULT_DUPLICATE.broken(
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', "
            f"also answered by {batch.answered[call_id]}.",
            join(pointer, "tool_call_id"),
            actual=call_id,
        )
    else:
        yield limits.RESULT_UNKNOWN_ID.broken(
            f"Invalid parameter: 'tool_call_id' of '{call_id}' is not among the 'tool_calls' of the previous message.",
            join(pointer, "tool_call_id"),
            actual=call_id,
            expected=[*batch.waiting, *batch.answered],
        )
