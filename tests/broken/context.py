"""Faults at what a conversation carries along: results that were trimmed, and marks of what is to be cached."""

from __future__ import annotations

from dataclasses import replace

from harness.contract.model import ChatRequest, Part, Role, ToolResult
from tests.broken.fault import Fault, Wrapped, asks, client, edited_parts
from tests.broken.places import CALL, Place


class _Forgetful(Wrapped):
    """Takes old reads out of the context as a whole, where they were to be shortened."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        said = [message for message in request.messages if message.role is Role.USER and message.text]
        return edited_parts(request, _without_reads) if len(said) > 1 else request


def _without_reads(part: Part) -> Part | None:
    return None if isinstance(part, ToolResult) and part.name == "read_file" else part


FAULTS = (
    Fault(
        "trimmed-results-dropped", client(_Forgetful), "seeds-code-generator-trim", "result-missing", CALL, exchange=3
    ),
    Fault(
        "cache-marks-lost",
        asks(lambda request: replace(request, cache=False)),
        "seeds-terminal-assistant-cache",
        "cache-mark",
        Place(r"/system|/tools", None, None, None),
        0,
        ("anthropic",),
    ),
)
