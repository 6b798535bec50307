"""What a handler is told of a turn, in the words of `expect.events`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.contract.model import ToolCall, ToolResult
from harness.host.exceptions import class_of
from harness.kit.handlers import Answered, Called, Done, HandlerEvent, Said
from harness.scenarios.match import error_name
from harness.scenarios.schema import Scenario, StepSpec
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer


def told(event: HandlerEvent) -> str:
    """The word for an event; the end of a turn is `done`, with the name of the error that ended it."""
    match event:
        case Said():
            return "text"
        case Called(call):
            return f"call {call.name}"
        case Answered(result):
            return f"{'error' if result.is_error else 'result'} {result.name}"
        case Done(error=error):
            return _done(None if error is None else error_name(class_of(error)))


def _done(error: str | None) -> str:
    return "done" if error is None else f"done {error}"


def scripted(
    scenario: Scenario, steps: Sequence[StepSpec], error: str | None, earlier: Sequence[ToolCall] = ()
) -> list[str] | None:
    """What a handler is told of a turn with these answers that ends in `error`, behind the `earlier` calls of the
    conversation. `None` where the script does not say it: what each API makes of a refusal or of raw parts is its own
    affair."""
    if any(step.raw or step.refusal is not None for step in steps):
        return None
    events: list[HandlerEvent] = []
    calls = [*earlier]
    for step in steps:
        if step.text:
            events.append(Said(step.text))
        for name, arguments in step.whole_calls:
            call = ToolCall("", name, arguments)
            events += [Called(call), Answered(_result(scenario, call, calls))]
            calls.append(call)
    return [*map(told, events), _done(error)]


def _result(scenario: Scenario, call: ToolCall, earlier: Sequence[ToolCall]) -> ToolResult:
    try:
        return answer(scenario, call, earlier)
    except (ToolFailure, UnknownTool, Unanswered) as raised:
        return ToolResult(call.id, call.name, str(raised), is_error=True)
