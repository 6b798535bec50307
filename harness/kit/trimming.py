"""Trimming of old tool results: a note replaces the content, and every call keeps its result.

A conversation that reads many files outgrows any context window. APIs reject a history in which calls or results are
missing, so ids, names and error flags are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from harness.model.messages import Message, Part, Role, ToolResult

NOTE = "[trimmed: {length} characters that were read in an earlier turn]"
"""Content of a trimmed result."""

MAX_SHORT_CHARACTERS = 200
"""Length up to which results are kept. Notes are shorter, so a result is never trimmed twice."""


def trimmed(messages: Sequence[Message], tools: Collection[str]) -> tuple[Message, ...]:
    """Replace the results of `tools` by notes and return the new history. Errors are kept. Call it between two
    turns.
    """
    return tuple(
        replace(message, parts=tuple(_trimmed_part(part, tools) for part in message.parts))
        if message.role is Role.USER
        else message
        for message in messages
    )


def trimmed_result(result: ToolResult, tools: Collection[str]) -> ToolResult:
    """Return the result as it appears in a trimmed history."""
    length = len(result.text)
    if result.name not in tools or result.is_error or length <= MAX_SHORT_CHARACTERS:
        return result
    return replace(result, content=NOTE.format(length=length))


def _trimmed_part(part: Part, tools: Collection[str]) -> Part:
    return trimmed_result(part, tools) if isinstance(part, ToolResult) else part
