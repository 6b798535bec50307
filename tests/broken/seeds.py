"""Faults that the five designs describe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Image,
    Message,
    Part,
    Role,
    StopReason,
    StreamEvent,
    Text,
    ToolCall,
    ToolResult,
)
from tests.broken.calls import contents, results
from tests.broken.fault import (
    ALL,
    THINKING,
    WITH_IDS,
    Expected,
    Fault,
    Table,
    Wrapped,
    answers,
    answers_parts,
    asks,
    asks_messages,
    asks_parts,
    client,
    edited_message,
    edited_parts,
    sends,
    streamed,
    streams,
)
from tests.broken.places import (
    BODY,
    MAX_TOKENS,
    RESPONSE_ARGUMENTS,
    RESPONSE_CALL_ID,
    RESULT,
    SYSTEM,
    TEXT,
    TURN,
    everywhere,
)


def _of_last_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What the user says last, and what has come of it: every turn is a conversation of its own."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    return messages[starts[-1] :]


def _stamped(response: ChatResponse) -> ChatResponse:
    """Ids of the agent's own, from a clock that stands still while an answer is read."""
    stamp = f"call_{1_760_000_000_000 + len(response.text)}"

    def edit(part: Part) -> Part:
        return replace(part, id=stamp) if isinstance(part, ToolCall) else part

    return replace(response, message=edited_message(response.message, edit))


def _rolled_back(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A turn that reached its bound is taken back: its calls and results are gone when the user goes on."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    broken_off = [i for i in starts[1:] if messages[i - 1].tool_results]
    last = max(broken_off, default=0)
    return tuple(m for i, m in enumerate(messages) if i >= last or not (m.tool_calls or m.tool_results))


def _as_message(request: ChatRequest) -> ChatRequest:
    """The system prompt as the first message of the user's, which Gemini once had no other place for."""
    if not request.system:
        return request
    return replace(request, system=None, messages=(Message.user(request.system), *request.messages))


class _OneAgent(Wrapped):
    """All agents share the client of the first, and its system prompt."""

    prompt: str | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.prompt = self.prompt or request.system
        return replace(request, system=self.prompt)


def _last_call_first(response: ChatResponse) -> ChatResponse:
    """The calls of an answer come from a stack."""
    calls = list(response.tool_calls)
    edited = edited_message(response.message, lambda p: calls.pop() if isinstance(p, ToolCall) else p)
    return replace(response, message=edited)


WITH_JSON_AND_TOOLS = ALL[:-1]


def _scene_in_first_text(request: ChatRequest) -> ChatRequest:
    """The system prompt with the scene in front of what the user said first."""
    first, *others = request.messages
    told = Text(f"{request.system}\n\n{first.text}")
    return replace(request, system=None, messages=(replace(first, parts=(told,)), *others))


class _FirstSettings(Wrapped):
    """Bounds every answer as the first one."""

    bound: int | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.bound = self.bound or request.max_tokens
        return replace(request, max_tokens=self.bound)


class _Timestamps(Wrapped):
    """Ids of a tool's name and the time, by a clock that ticks once for each answer."""

    time = 1_700_000_000

    def answer(self, response: ChatResponse) -> ChatResponse:
        self.time += 1

        def stamped(part: Part) -> Part:
            return replace(part, id=f"{part.name}_{self.time}") if isinstance(part, ToolCall) else part

        return replace(response, message=edited_message(response.message, stamped))


def _turn_per_result(_api: str, body: dict[str, Any]) -> None:
    """Each result in a user message of its own."""
    key, inner = ("contents", "parts") if "contents" in body else ("messages", "content")
    apart: list[dict[str, Any]] = []
    for turn in body[key]:
        parts = turn[inner]
        is_answer = isinstance(parts, list) and any("functionResponse" in p or "tool_use_id" in p for p in parts)
        apart += [{**turn, inner: [part]} for part in parts] if is_answer else [turn]
    body[key] = apart


def _unflagged(part: Part) -> Part:
    return replace(part, is_error=False) if isinstance(part, ToolResult) else part


def _without_seen_images(request: ChatRequest) -> ChatRequest:
    """Pictures that the model has answered to make room."""
    if len(request.messages) == 1:
        return request
    return edited_parts(request, lambda part: None if isinstance(part, Image) else part)


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


def _as_text(events: list[StreamEvent]) -> Iterator[StreamEvent]:
    """The pieces of the arguments are shown with their escapes read, as if each were text by itself."""
    for event in events:
        yield replace(event, text=event.text.replace("\\n", "\n")) if isinstance(event, ArgumentsDelta) else event


FAULTS: Table = {
    Expected("stream-arguments", RESPONSE_ARGUMENTS, 0): [
        streamed("seeds-arguments-shown-as-text", "seeds-code-generator-long-write", streams(_as_text))
    ],
    Expected("cache-mark", everywhere("/tools|/system")): [
        Fault("seeds-cached-once", "seeds-code-generator-cache", client(_MarksOnce), ("anthropic",))
    ],
    Expected("call-missing", BODY, 3): [
        Fault("seeds-bound-rolled-back", "seeds-issue-tracker-bound", asks_messages(_rolled_back))
    ],
    Expected("error-flag", RESULT): [
        Fault(
            "seeds-results-never-errors",
            "seeds-issue-tracker-failure",
            results(lambda result: replace(result, is_error=False)),
        )
    ],
    Expected("expectation", None, 2): [
        Fault("seeds-calls-from-a-stack", "seeds-terminal-assistant-events", answers(_last_call_first))
    ],
    Expected("history-append-only", TURN, 2): [
        Fault("seeds-history-per-message", "seeds-issue-tracker-session", asks_messages(_of_last_turn)),
        Fault("seeds-thread-begun-anew", "seeds-terminal-assistant-interrupted", asks_messages(_of_last_turn)),
    ],
    Expected("issued-id-lost", RESPONSE_CALL_ID, 0): [
        Fault("seeds-ids-by-timestamp", "seeds-issue-tracker-parallel", answers(_stamped), WITH_IDS),
        Fault("seeds-ids-of-the-agent", "seeds-scene-agent-ids", client(_Timestamps), WITH_IDS),
    ],
    Expected("media-changed", BODY): [
        Fault("seeds-screenshot-dropped-once-seen", "seeds-scene-agent-screenshot", asks(_without_seen_images))
    ],
    Expected("response-calls", RESPONSE_ARGUMENTS, 0): [
        Fault(
            "seeds-file-ends-at-a-tag",
            "seeds-code-generator-long-write",
            answers_parts(_contents(lambda content: content.split("</file>")[0])),
        )
    ],
    Expected("result-changed", RESULT, 2): [
        Fault(
            "seeds-large-results-cut",
            "seeds-code-search-researcher",
            contents(lambda content: content[:2000] if isinstance(content, str) else content),
        )
    ],
    Expected("result-changed", RESULT): [
        Fault(
            "seeds-refusal-without-its-reason",
            "seeds-code-generator-refused-command",
            asks_parts(_result_texts(lambda text: "The command failed." if "not allowed" in text else text)),
        ),
        Fault(
            "seeds-empty-listing-explained",
            "seeds-code-generator-empty-folder",
            asks_parts(_result_texts(lambda text: text or "(empty)")),
        ),
    ],
    Expected("result-swapped", RESULT): [
        Fault("seeds-reads-by-order", "seeds-code-generator-browser-order", asks(_by_order))
    ],
    Expected("results-split", TURN): [
        Fault(
            "seeds-one-message-per-result", "seeds-scene-agent-parallel-edits", sends(_turn_per_result), ("anthropic",)
        )
    ],
    Expected("setting-lost", BODY, 0): [
        Fault(
            "seeds-thinking-not-asked-for",
            "seeds-scene-agent-thinking",
            asks(lambda request: replace(request, thinking=None)),
            THINKING,
        )
    ],
    Expected("setting-lost", MAX_TOKENS, 0): [
        Fault(
            "seeds-max-tokens-of-the-provider",
            "seeds-issue-tracker-assessment",
            asks(lambda request: replace(request, max_tokens=1024)),
        )
    ],
    Expected("setting-lost", MAX_TOKENS): [
        Fault("seeds-first-settings-for-ever", "seeds-scene-agent-settings", client(_FirstSettings))
    ],
    Expected("stop-reason", BODY, 2): [
        Fault(
            "seeds-stop-reason-dropped",
            "seeds-scene-agent-stop-reason",
            answers(lambda response: replace(response, stop_reason=StopReason.UNKNOWN, raw_stop_reason=None)),
        )
    ],
    Expected("system-in-message", TEXT, 0): [
        Fault("seeds-system-as-user-message", "seeds-terminal-assistant-one-shot", asks(_as_message)),
        Fault("seeds-scene-in-first-user-text", "seeds-scene-agent-context", asks(_scene_in_first_text)),
    ],
    Expected("system-stale", SYSTEM): [
        Fault("seeds-one-prompt-for-all-agents", "seeds-code-search-pipeline", client(_OneAgent), WITH_JSON_AND_TOOLS)
    ],
    Expected("system-verbatim", SYSTEM, 4): [
        Fault("seeds-reads-as-system-text", "seeds-code-generator-read-then-write", asks(_reads_as_system_text))
    ],
    Expected("tool-choice", BODY, 2): [
        Fault(
            "seeds-tool-mode-ignored",
            "seeds-code-search-synthesizer",
            asks(lambda request: replace(request, tool_choice="auto" if request.tools else None)),
        )
    ],
}
