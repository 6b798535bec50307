"""Faults of the kinds that the first three designs describe: an issue tracker's REPL, a code search, a terminal
assistant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.contract.model import (
    ChatRequest,
    ChatResponse,
    JsonMode,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from tests.broken.fault import (
    ALL,
    WITH_IDS,
    Fault,
    Wrapped,
    answers,
    asks,
    asks_messages,
    client,
    edited_message,
    sends,
)
from tests.broken.places import (
    BODY,
    MAX_TOKENS,
    RESPONSE_CALL,
    RESPONSE_CALL_ID,
    RESULT,
    RESULT_TURN,
    SYSTEM,
    TEXT,
    TURN,
)
from tests.broken.results import contents, results


def _of_last_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What the user says last, and what has come of it: every turn is a conversation of its own."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    return messages[starts[-1] :]


def _texts_only(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Of earlier turns the texts alone: what the tools said is no longer known."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]

    def text(part: Part) -> Part | None:
        return part if isinstance(part, Text) else None

    earlier = (edited_message(message, text) for message in messages[: starts[-1]])
    return (*(message for message in earlier if message.parts), *messages[starts[-1] :])


def _stamped(response: ChatResponse) -> ChatResponse:
    """Ids of the agent's own, from a clock that stands still while an answer is read."""
    stamp = f"call_{1_760_000_000_000 + len(response.text)}"

    def edit(part: Part) -> Part:
        return replace(part, id=stamp) if isinstance(part, ToolCall) else part

    return replace(response, message=edited_message(response.message, edit))


def _by_name(message: Message) -> Message:
    """Results go to the calls by the name of the tool: the last result of a name answers each call of it."""
    last = {result.name: result for result in message.tool_results}

    def edit(part: Part) -> Part:
        return replace(part, content=last[part.name].content) if isinstance(part, ToolResult) else part

    return edited_message(message, edit)


def _rolled_back(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A turn that reached its bound is taken back: its calls and results are gone when the user goes on."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    broken_off = [i for i in starts[1:] if messages[i - 1].tool_results]
    last = max(broken_off, default=0)
    return tuple(m for i, m in enumerate(messages) if i >= last or not (m.tool_calls or m.tool_results))


def _one_by_one(api: str, body: dict[str, Any]) -> None:
    """Each result in a user message of its own, as it comes."""
    key, inner = ("contents", "parts") if api == "gemini" else ("messages", "content")
    split: list[dict[str, Any]] = []
    for entry in body[key]:
        of_results = all("functionResponse" in part or part.get("type") == "tool_result" for part in entry[inner])
        split += [{**entry, inner: [part]} for part in entry[inner]] if of_results else [entry]
    body[key] = split


def _prefilled(request: ChatRequest) -> ChatRequest:
    """JSON mode by the beginning of the answer, put into the model's mouth."""
    if not isinstance(request.response_format, JsonMode):
        return request
    prefill = Message(Role.ASSISTANT, (Text("{"),))
    return replace(request, response_format=None, messages=(*request.messages, prefill))


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


def _silent_at_calls(response: ChatResponse) -> ChatResponse:
    """What the model says before it calls is not handed on."""
    if not response.tool_calls:
        return response
    return replace(response, message=edited_message(response.message, lambda p: None if isinstance(p, Text) else p))


def _last_call_first(response: ChatResponse) -> ChatResponse:
    """The calls of an answer come from a stack."""
    calls = list(response.tool_calls)
    edited = edited_message(response.message, lambda p: calls.pop() if isinstance(p, ToolCall) else p)
    return replace(response, message=edited)


def _each(edit: Callable[[Message], Message]) -> Callable[[tuple[Message, ...]], tuple[Message, ...]]:
    return lambda messages: tuple(map(edit, messages))


WITH_JSON_AND_TOOLS = ALL[:-1]

FAULTS = (
    Fault(
        "seeds-history-per-message",
        asks_messages(_of_last_turn),
        "seeds-issue-tracker-session",
        "history-append-only",
        TURN,
        2,
    ),
    Fault(
        "seeds-history-of-texts-alone",
        asks_messages(_texts_only),
        "seeds-issue-tracker-session",
        "call-missing",
        BODY,
        2,
    ),
    Fault(
        "seeds-ids-by-timestamp",
        answers(_stamped),
        "seeds-issue-tracker-parallel",
        "issued-id-lost",
        RESPONSE_CALL_ID,
        0,
        WITH_IDS,
    ),
    Fault(
        "seeds-made-ids-by-timestamp",
        answers(_stamped),
        "seeds-issue-tracker-parallel",
        "synthesised-id-unique",
        RESPONSE_CALL,
        0,
        ("gemini-2.5",),
    ),
    Fault(
        "seeds-results-by-name",
        asks_messages(_each(_by_name)),
        "seeds-issue-tracker-parallel",
        "result-swapped",
        RESULT,
    ),
    Fault(
        "seeds-results-never-errors",
        results(lambda result: replace(result, is_error=False)),
        "seeds-issue-tracker-failure",
        "error-flag",
        RESULT,
    ),
    Fault(
        "seeds-bound-rolled-back",
        asks_messages(_rolled_back),
        "seeds-issue-tracker-bound",
        "call-missing",
        BODY,
        3,
    ),
    Fault(
        "seeds-max-tokens-of-the-provider",
        asks(lambda request: replace(request, max_tokens=1024)),
        "seeds-issue-tracker-assessment",
        "setting-lost",
        MAX_TOKENS,
        0,
    ),
    Fault(
        "seeds-json-prefilled",
        asks(_prefilled),
        "seeds-code-search-planner",
        "text-changed",
        TEXT,
        0,
        ALL[1:],  # Anthropic's adapter declines it
    ),
    Fault(
        "seeds-large-results-cut",
        contents(lambda content: content[:2000] if isinstance(content, str) else content),
        "seeds-code-search-researcher",
        "result-changed",
        RESULT,
        2,
    ),
    Fault(
        "seeds-tool-mode-ignored",
        asks(lambda request: replace(request, tool_choice="auto" if request.tools else None)),
        "seeds-code-search-synthesizer",
        "tool-choice",
        BODY,
        2,
    ),
    Fault(
        "seeds-json-dropped-with-tools",
        asks(lambda request: replace(request, response_format=None) if request.tools else request),
        "seeds-code-search-pipeline",
        "json-mode-ignored",
        BODY,
        0,
        WITH_JSON_AND_TOOLS,
    ),
    Fault(
        "seeds-one-prompt-for-all-agents",
        client(_OneAgent),
        "seeds-code-search-pipeline",
        "system-stale",
        SYSTEM,
        1,
        WITH_JSON_AND_TOOLS,
    ),
    Fault(
        "seeds-system-as-user-message",
        asks(_as_message),
        "seeds-terminal-assistant-one-shot",
        "system-in-message",
        TEXT,
        0,
    ),
    Fault(
        "seeds-text-before-calls-unheard",
        answers(_silent_at_calls),
        "seeds-terminal-assistant-events",
        "expectation",
        None,
        2,
    ),
    Fault(
        "seeds-calls-from-a-stack",
        answers(_last_call_first),
        "seeds-terminal-assistant-events",
        "expectation",
        None,
        2,
    ),
    Fault(
        "seeds-user-message-per-result",
        sends(_one_by_one),
        "seeds-terminal-assistant-events",
        "results-split",
        TURN,
        targets=("anthropic",),
    ),
    Fault(
        "seeds-message-per-result",
        sends(_one_by_one),
        "seeds-terminal-assistant-events",
        "gemini-results-split",
        RESULT_TURN,
        targets=("gemini-3",),
    ),
    Fault(
        "seeds-thread-begun-anew",
        asks_messages(_of_last_turn),
        "seeds-terminal-assistant-interrupted",
        "history-append-only",
        TURN,
        2,
    ),
)
