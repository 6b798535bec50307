"""Old reads out of the context: what a tool once answered is replaced by a note, and the pair of call and result stays.

A conversation that reads many files outgrows every context window. Dropping messages would break the pairs that each
API insists on; this keeps every id, name and error flag, and takes only the weight.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from harness.contract.model import Message, Part, Role, ToolResult

NOTE = "[trimmed: {length} characters that were read in an earlier turn]"
"""What stands for a trimmed result."""

SHORT = 200
"""Results of up to so many characters stay: nothing would be won, and what is trimmed is not trimmed again."""


def trimmed(messages: Sequence[Message], tools: Collection[str]) -> tuple[Message, ...]:
    """The history with the results of `tools` replaced by notes, errors excepted. To be called between two turns."""
    return tuple(
        replace(message, parts=tuple(_trimmed_part(part, tools) for part in message.parts))
        if message.role is Role.USER
        else message
        for message in messages
    )


def trimmed_result(result: ToolResult, tools: Collection[str]) -> ToolResult:
    """The result as it stands in a trimmed history."""
    length = len(result.text)
    if result.name not in tools or result.is_error or length <= SHORT:
        return result
    return replace(result, content=NOTE.format(length=length))


def _trimmed_part(part: Part, tools: Collection[str]) -> Part:
    return trimmed_result(part, tools) if isinstance(part, ToolResult) else part
