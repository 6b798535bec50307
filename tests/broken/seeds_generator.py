"""The faults that the code generator's design describes, and those of the way in which it worked before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from harness.contract.model import (
    ArgumentsDelta,
    ChatRequest,
    Message,
    Part,
    Role,
    StreamEvent,
    ToolCall,
    ToolResult,
)
from tests.broken.fault import (
    Fault,
    Wrapped,
    answers_parts,
    asks,
    asks_parts,
    client,
    edited_message,
    edited_parts,
    streams,
)
from tests.broken.places import ARGUMENTS, BODY, CALL, RESPONSE_ARGUMENTS, RESULT, SYSTEM, everywhere


def _reads_as_system_text(request: ChatRequest) -> ChatRequest:
    """What was read in earlier turns is told in the system prompt, and its results leave the conversation."""
    turn = max(at for at, message in enumerate(request.messages) if message.role is Role.USER and message.text)
    reads = [result for message in request.messages[:turn] for result in message.tool_results]
    reads = [result for result in reads if result.name == "read_file"]
    told = "".join(f"\n\nYou have read:\n{read.text}" for read in reads)
    without = edited_parts(request, lambda part: None if part in reads else part)
    return replace(without, system=f"{request.system}{told}")


def _by_order(request: ChatRequest) -> ChatRequest:
    """The first result is taken for the first call's, whatever its id says."""
    sent: list[Message] = []
    for message in request.messages:
        ids = [call.id for call in sent[-1].tool_calls] if sent else []

        def under_next_id(part: Part, ids: list[str] = ids) -> Part:
            return replace(part, call_id=ids.pop(0)) if isinstance(part, ToolResult) else part

        sent.append(edited_message(message, under_next_id) if message.tool_results else message)
    return replace(request, messages=tuple(sent))


def _trimmed(part: Part) -> bool:
    return isinstance(part, ToolResult) and part.text.startswith("[trimmed: ")


def _without_trimmed_pairs(request: ChatRequest) -> ChatRequest:
    """A read that was trimmed is gone, with the call that asked for it."""
    gone = {result.call_id for message in request.messages for result in message.tool_results if _trimmed(result)}

    def edit(part: Part) -> Part | None:
        is_gone = (isinstance(part, ToolCall) and part.id in gone) or _trimmed(part)
        return None if is_gone else part

    return edited_parts(request, edit)


class _MarksOnce(Wrapped):
    """Asks for a cache mark where there is no cache yet, and then never again."""

    asked = 0

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.asked += 1
        return replace(request, cache=request.cache and self.asked == 1)


def _contents(edit: Callable[[str], str]) -> Callable[[Part], Part]:
    """The content of every file that is written, edited."""

    def edited(part: Part) -> Part:
        content = part.arguments.get("content") if isinstance(part, ToolCall) else None
        if not isinstance(part, ToolCall) or not isinstance(content, str):
            return part
        return replace(part, arguments={**part.arguments, "content": edit(content)})

    return edited


def _result_texts(edit: Callable[[str], str]) -> Callable[[Part], Part]:
    return lambda part: replace(part, content=edit(part.text)) if isinstance(part, ToolResult) else part


def _unflagged(part: Part) -> Part:
    return replace(part, is_error=False) if isinstance(part, ToolResult) else part


def _as_text(events: list[StreamEvent]) -> Iterable[StreamEvent]:
    """The pieces of the arguments are shown with their escapes read, as if each were text by itself."""
    for event in events:
        yield replace(event, text=event.text.replace("\\n", "\n")) if isinstance(event, ArgumentsDelta) else event


FAULTS = (
    Fault(
        "seeds-reads-as-system-text",
        asks(_reads_as_system_text),
        "seeds-code-generator-read-then-write",
        "system-verbatim",
        SYSTEM,
        4,
    ),
    Fault(
        "seeds-reads-without-their-results",
        asks(_reads_as_system_text),
        "seeds-code-generator-read-then-write",
        "result-missing",
        CALL,
        4,
    ),
    Fault("seeds-reads-by-order", asks(_by_order), "seeds-code-generator-browser-order", "result-swapped", RESULT),
    Fault(
        "seeds-trimmed-with-the-call",
        asks(_without_trimmed_pairs),
        "seeds-code-generator-trim",
        "call-missing",
        BODY,
        3,
    ),
    Fault(
        "seeds-cached-once",
        client(_MarksOnce),
        "seeds-code-generator-cache",
        "cache-mark",
        everywhere("/tools|/system"),
        1,
        ("anthropic",),
    ),
    Fault(
        "seeds-file-ends-at-a-tag",
        answers_parts(_contents(lambda content: content.split("</file>")[0])),
        "seeds-code-generator-long-write",
        "response-calls",
        RESPONSE_ARGUMENTS,
        0,
    ),
    Fault(
        "seeds-escapes-read-twice",
        asks_parts(_contents(lambda content: re.sub(r"\\(.)", r"\1", content))),
        "seeds-code-generator-long-write",
        "arguments-changed",
        ARGUMENTS,
    ),
    Fault(
        "seeds-arguments-shown-as-text",
        streams(_as_text),
        "seeds-code-generator-long-write",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
        0,
        variant="stream",
    ),
    Fault(
        "seeds-refusal-not-flagged",
        asks_parts(_unflagged),
        "seeds-code-generator-refused-command",
        "error-flag",
        RESULT,
    ),
    Fault(
        "seeds-refusal-without-its-reason",
        asks_parts(_result_texts(lambda text: "The command failed." if "not allowed" in text else text)),
        "seeds-code-generator-refused-command",
        "result-changed",
        RESULT,
    ),
    Fault(
        "seeds-empty-listing-explained",
        asks_parts(_result_texts(lambda text: text or "(empty)")),
        "seeds-code-generator-empty-folder",
        "result-changed",
        RESULT,
    ),
)
