"""Parts of a scenario as canonical values: messages, tools, settings, tool results and handler events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from harness.kit.handlers import Done, HandlerEvent, TextEvent, ToolResultEvent, ToolUseEvent
from harness.model.errors import HarnessError, UnknownName
from harness.model.messages import (
    JSON,
    Message,
    Part,
    ProviderMetadata,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from harness.platform.exceptions import class_name
from harness.scenarios.match import error_name, includes
from harness.scenarios.schema import (
    HistoryMessage,
    ResultSpec,
    Scenario,
    Settings,
    StepSpec,
    ToolSpec,
    TurnSpec,
)


def history(scenario: Scenario) -> tuple[Message, ...]:
    """Return the messages of the earlier conversation."""
    names = {call.id: call.name for message in scenario.history for call in message.calls}
    return tuple(Message(Role(message.role), tuple(_parts(message, names))) for message in scenario.history)


def _parts(message: HistoryMessage, names: dict[str, str]) -> Iterator[Part]:
    for result in message.results:
        yield ToolResult(result.call_id, names[result.call_id], result.content, result.is_error)
    metadata = _metadata(message.metadata)
    if message.thinking is not None:
        yield Thinking(message.thinking, metadata)
    if message.text is not None:
        yield Text(message.text, {} if message.thinking is not None else metadata)
    for call in message.calls:
        yield ToolCall(call.id, call.name, dict(call.arguments), _metadata(call.metadata))


def _metadata(metadata: dict[str, JSON]) -> ProviderMetadata:
    return cast("ProviderMetadata", dict(metadata))


def user_message(turn: TurnSpec) -> Message:
    """Return the user message of a turn."""
    if isinstance(turn.user, str):
        return Message.user(turn.user)
    return Message(Role.USER, tuple(part.part() for part in turn.user))


def system_of(scenario: Scenario, turn_index: int) -> str | None:
    """Return the system prompt for a turn.

    The latest turn up to this one with a `system` key sets it, even if the key is null. Otherwise the scenario does.
    """
    for turn in reversed(scenario.turns[: turn_index + 1]):
        if "system" in turn.model_fields_set:
            return turn.system
    return scenario.system


def settings_of(scenario: Scenario, turn_index: int) -> Settings:
    """Return the settings of a turn: its own, or the scenario's."""
    return scenario.turns[turn_index].settings or scenario.settings


def request_fields(scenario: Scenario, turn_index: int) -> ProviderMetadata:
    """Return the tools that the provider runs and the verbatim fields of a turn, as `ChatRequest.provider_metadata`."""
    fields = settings_of(scenario, turn_index).fields
    found: dict[str, dict[str, JSON]] = {api: dict(given) for api, given in fields.items()}
    for api, offered in scenario.provider_tools.items():
        found.setdefault(api, {})["tools"] = cast("JSON", offered)
    return found


PREVIOUS = "{previous}"
"""Placeholder in verbatim fields for the id of the last response."""


def names_previous(value: JSON | Mapping[str, JSON]) -> bool:
    """Return whether a value has the placeholder of the last response."""
    return PREVIOUS in json.dumps(value)


def continued_fields(fields: ProviderMetadata, previous: str | None) -> ProviderMetadata:
    """Return verbatim fields with the id of the last response. Without one, the fields that name it are left out."""
    return {
        api: {
            key: json.loads(json.dumps(value).replace(PREVIOUS, previous or ""))
            for key, value in cast("dict[str, JSON]", given).items()
            if previous is not None or not names_previous(value)
        }
        for api, given in fields.items()
    }


def tools(scenario: Scenario, turn_index: int = -1) -> tuple[Tool, ...]:
    """Return the tools that a turn declares. By default, it is the last turn, which declares all tools."""
    turn = turn_index % max(len(scenario.turns), 1)
    return tuple(tool.tool() for tool in scenario.tools if tool.from_turn <= turn)


class ToolFailure(Exception):
    """Raised if the scenario makes the tool fail. The message is the tool's exception text."""


class UnknownTool(Exception):
    """Raised if the model called a tool that the scenario does not declare. The message may be sent to the model."""


class MissingResult(HarnessError):
    """The scenario declares the tool but has no result for these arguments."""


def calls_of(step: StepSpec) -> list[ToolCall]:
    """Return the tool calls of a response that are executed. A truncated call is not executed."""
    return [ToolCall("", name, arguments) for name, arguments in step.whole_calls]


def called_before(scenario: Scenario, answers: int) -> list[ToolCall]:
    """Return the executed calls of the first `answers` responses of the script."""
    steps = [step for turn in scenario.turns for step in turn.model][:answers]
    return [call for step in steps for call in calls_of(step)]


def matching_result(tool: ToolSpec, call: ToolCall, earlier: Iterable[ToolCall] = ()) -> ResultSpec | None:
    """Return the first result of a tool that matches a call, or `None`.

    A result matches if the arguments include its `when` and the `earlier` calls have not used it `times` times.
    """
    left = {index: result.times for index, result in enumerate(tool.results) if result.times is not None}
    for before in earlier if left else ():
        if before.name == call.name:
            index = _first_match(tool, before, left)
            if index in left:
                left[index] -= 1
    index = _first_match(tool, call, left)
    return None if index is None else tool.results[index]


def _first_match(tool: ToolSpec, call: ToolCall, left: dict[int, int]) -> int | None:
    for index, result in enumerate(tool.results):
        if left.get(index, 1) and includes(call.arguments, result.when or {}):
            return index
    return None


def answer(scenario: Scenario, call: ToolCall, earlier: Iterable[ToolCall] = ()) -> ToolResult:
    """Return the scenario's result for a call, given the `earlier` calls. See `matching_result`.

    Raises:
        ToolFailure: the result specifies that the tool raises.
        UnknownTool: the scenario does not declare the tool.
        MissingResult: no result matches the arguments.
    """
    tool = scenario.tool_named(call.name)
    if tool is None:
        raise UnknownTool(str(UnknownName("tool", call.name, [tool.name for tool in scenario.tools])))
    result = matching_result(tool, call, earlier)
    if result is None:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        raise MissingResult(
            f"scenario {scenario.id!r}: the tool {call.name!r} has no result for the arguments {arguments}. "
            "Add one to its results, or one without when, which matches all others."
        )
    if result.raise_ is not None:
        raise ToolFailure(result.raise_)
    if result.parts is not None:
        return ToolResult(call.id, call.name, tuple(part.part() for part in result.parts))
    if "error" in result.model_fields_set:
        return ToolResult(call.id, call.name, result.error, is_error=True)
    return ToolResult(call.id, call.name, result.return_)


def event_word(event: HandlerEvent) -> str:
    """Return an event as written in `expect.events`. The end of a turn is `done`, plus the error name if it failed."""
    match event:
        case TextEvent():
            return "text"
        case ToolUseEvent(call):
            return f"call {call.name}"
        case ToolResultEvent(result):
            return f"{'error' if result.is_error else 'result'} {result.name}"
        case Done(error=error):
            return _done_word(None if error is None else error_name(class_name(error)))


def _done_word(error: str | None) -> str:
    return "done" if error is None else f"done {error}"


def scripted_events(
    scenario: Scenario, steps: Sequence[StepSpec], error: str | None, earlier: Sequence[ToolCall] = ()
) -> list[str] | None:
    """Return the expected handler events of a turn with these responses.

    `earlier` are the calls before the turn; `error` is the error that ends it. Return `None` if the script does not
    determine the events, because refusals and raw parts differ between APIs.
    """
    if any(step.raw or step.refusal is not None for step in steps):
        return None
    events: list[HandlerEvent] = []
    calls = [*earlier]
    for step in steps:
        if step.text:
            events.append(TextEvent(step.text))
        for name, arguments in step.whole_calls:
            call = ToolCall("", name, arguments)
            events += [ToolUseEvent(call), ToolResultEvent(_result_or_error(scenario, call, calls))]
            calls.append(call)
    return [*map(event_word, events), _done_word(error)]


def _result_or_error(scenario: Scenario, call: ToolCall, earlier: Sequence[ToolCall]) -> ToolResult:
    try:
        return answer(scenario, call, earlier)
    except (ToolFailure, UnknownTool, MissingResult) as raised:
        return ToolResult(call.id, call.name, str(raised), is_error=True)
