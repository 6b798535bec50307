"""What has to hold between the parts of a scenario: the types of schema.py cannot say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.errors import UnknownName
from harness.model import JSON, ToolCall
from harness.profiles import PROFILES
from harness.protocols import Capability
from harness.scenarios.document import Path
from harness.scenarios.match import includes, misfits, mismatches
from harness.scenarios.schema import (
    HistoryMessage,
    NamedToolSpec,
    PartSpec,
    Scenario,
    Settings,
    StepSpec,
    ToolSpec,
    TurnSpec,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a path of the file; `reason` is a sentence."""

    path: Path
    reason: str


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Everything that contradicts itself."""
    yield from _tools(scenario)
    yield from _history(scenario)
    yield from _settings(scenario, ("settings",), scenario.settings)
    for index, turn in enumerate(scenario.turns):
        yield from _turn(scenario, ("turns", index), turn)
    yield from _requirements(scenario)
    yield from _names("profile", scenario.profiles or (), [profile.name for profile in PROFILES], ("profiles",))


def needs(scenario: Scenario) -> frozenset[Capability]:
    """The capabilities that the scenario makes use of."""
    every = [scenario.settings, *(turn.settings for turn in scenario.turns if turn.settings)]
    formats = {type(settings.format()).__name__ for settings in every} - {"NoneType"}
    steps = [step for turn in scenario.turns for step in turn.model]
    uses = {
        Capability.SYSTEM_PROMPT: any([scenario.system, *(turn.system for turn in scenario.turns)]),
        Capability.TOOLS: bool(scenario.tools or any(message.calls for message in scenario.history)),
        Capability.PARALLEL_TOOL_CALLS: any(len(message.calls) > 1 for message in (*steps, *scenario.history)),
        Capability.TOOL_CHOICE: any(settings.tool_choice is not None for settings in every),
        Capability.JSON_MODE: "JsonMode" in formats,
        Capability.JSON_SCHEMA: "JsonSchema" in formats,
        Capability.JSON_WITH_TOOLS: bool(formats and scenario.tools),
        Capability.VISION: any(_has_image(turn.user) for turn in scenario.turns),
        Capability.IMAGE_RESULTS: any(_has_image(result.parts) for tool in scenario.tools for result in tool.results),
        Capability.THINKING: any(settings.thinking is not None for settings in every),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _has_image(parts: str | Iterable[PartSpec] | None) -> bool:
    return not isinstance(parts, str) and any(part.image is not None for part in parts or ())


def _requirements(scenario: Scenario) -> Iterator[Problem]:
    needed = needs(scenario)
    for capability in sorted(needed - set(scenario.requires)):
        yield Problem(("requires",), f"the scenario uses {capability.value!r}. Add it here.")
    for index, capability in enumerate(scenario.requires):
        if capability not in needed:
            yield Problem(("requires", index), f"nothing in the scenario uses {capability.value!r}. Remove it.")
        elif capability in scenario.requires[:index]:
            yield Problem(("requires", index), f"{capability.value!r} stands here twice.")


def _names(kind: str, given: Iterable[str], known: list[str], path: Path) -> Iterator[Problem]:
    for index, name in enumerate(given):
        if name not in known:
            yield Problem((*path, index), str(UnknownName(kind, name, known)))


def _tools(scenario: Scenario) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, tool in enumerate(scenario.tools):
        if tool.name in seen:
            yield Problem(("tools", index, "name"), f"a second tool of the name {tool.name!r}.")
        seen.add(tool.name)
        yield from _results(tool, ("tools", index, "results"))
    called = {name for turn in scenario.turns for step in turn.model for name, _ in step.named_calls}
    for index, name in enumerate(scenario.undeclared_tools):
        if name in seen:
            yield Problem(("undeclared_tools", index), f"the tool {name!r} is declared.")
        elif name not in called:
            yield Problem(("undeclared_tools", index), f"the model never calls {name!r}.")


_OPEN = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""Keywords by which a schema may take arguments that its own `properties` do not name."""


def _results(tool: ToolSpec, path: Path) -> Iterator[Problem]:
    schema = tool.parameters
    properties = schema.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    is_closed = not _OPEN & schema.keys()
    for index, result in enumerate(tool.results):
        for name in result.when or ():
            if is_closed and name not in known:
                yield Problem((*path, index, "when", name), str(UnknownName(f"argument of {tool.name}", name, known)))
        for earlier in range(index):
            if includes(result.when or {}, tool.results[earlier].when or {}):
                yield Problem((*path, index), f"never reached, since results[{earlier}] answers first.")
                break


def _settings(scenario: Scenario, path: Path, settings: Settings) -> Iterator[Problem]:
    choice = settings.tool_choice
    if choice is not None and not scenario.tools:
        yield Problem((*path, "tool_choice"), "a tool choice in a scenario without tools.")
    elif isinstance(choice, NamedToolSpec):
        for problem in _names("tool", [choice.tool], [tool.name for tool in scenario.tools], ()):
            yield Problem((*path, "tool_choice", "tool"), problem.reason)


def _turn(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    if turn.settings is not None:
        yield from _settings(scenario, (*path, "settings"), turn.settings)
    yield from _choice_is_kept(scenario, path, turn)
    yield from _turn_ends(scenario, path, turn)
    yield from _expectation_fits(path, turn)
    for index, step in enumerate(turn.model):
        yield from _step(scenario, (*path, "model", index), step)


def _choice_is_kept(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    choice = (turn.settings or scenario.settings).tool_choice
    called = [name for name, _ in turn.model[0].named_calls]
    first = (*path, "model", 0)
    if choice == "none":
        for index, step in enumerate(turn.model):
            if step.calls:
                yield Problem((*path, "model", index, "calls"), "a call though tool_choice is none.")
    elif choice == "required" and not called:
        yield Problem(first, "no call though tool_choice is required.")
    elif isinstance(choice, NamedToolSpec) and set(called) != {choice.tool}:
        yield Problem(first, f"tool_choice forces {choice.tool!r}: the first answer calls it, and nothing else.")


def _turn_ends(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    bound = scenario.max_iterations
    model = (*path, "model")
    endless = turn.expect is not None and turn.expect.error == "iteration-limit"
    for index, step in enumerate(turn.model):
        last = index == len(turn.model) - 1
        if not step.calls and (endless or not last):
            why = "expect.error is iteration-limit" if endless else "more answers follow"
            yield Problem((*model, index), f"an answer without calls ends the turn, and {why}.")
        elif step.calls and last and not endless:
            yield Problem((*model, index), "the turn ends in a call. Add the model's answer to the results.")
    if endless and len(turn.model) != bound:
        yield Problem(
            model, f"{len(turn.model)} answers; the iteration limit is reached after max_iterations ({bound})."
        )
    elif len(turn.model) > bound:
        yield Problem(model, f"{len(turn.model)} answers in a turn, more than max_iterations ({bound}).")


def _expectation_fits(path: Path, turn: TurnSpec) -> Iterator[Problem]:
    """The script is the answer that the reference server plays: an expectation that it misses would blame adapters."""
    if turn.expect is None:
        return
    found = mismatches(
        turn.expect.model_copy(update={"stop_reason": None, "error": None}),
        text=turn.model[-1].text or "",
        calls=[ToolCall("", name, arguments) for step in turn.model for name, arguments in step.named_calls],
        stop_reason=None,
        error=None,
    )
    for mismatch in found:
        yield Problem((*path, "expect"), f"the script itself does not meet {mismatch.path}: {mismatch.message}")


def _step(scenario: Scenario, path: Path, step: StepSpec) -> Iterator[Problem]:
    apis = sorted({profile.api for profile in PROFILES})
    for api in step.raw:
        if api not in apis:
            yield Problem((*path, "raw", api), str(UnknownName("API", api, apis)))
    for index, (name, arguments) in enumerate(step.named_calls):
        tool = scenario.tool_named(name)
        inner = (*path, "calls", index, name)
        if tool is not None:
            yield from _call(tool, arguments, inner)
        elif name not in scenario.undeclared_tools:
            reason = str(UnknownName("tool", name, [tool.name for tool in scenario.tools]))
            yield Problem(inner, f"{reason} If the model is meant to call it all the same, add it to undeclared_tools.")


def _call(tool: ToolSpec, arguments: dict[str, JSON], path: Path) -> Iterator[Problem]:
    for at, message in misfits(tool.parameters or {"maxProperties": 0}, arguments):
        yield Problem((*path, *at), f"does not fit the parameters of {tool.name!r}: {message}.")
    if not any(includes(arguments, result.when or {}) for result in tool.results):
        yield Problem(path, f"{tool.name!r} has no result for these arguments. Add one, or one without when.")


def _history(scenario: Scenario) -> Iterator[Problem]:
    unanswered: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(scenario.history):
        path = ("history", index)
        yield from _message(message, path)
        yield from _pairs(message, unanswered, path)
        unanswered = [call.id for call in message.calls]
        for place, call_id in enumerate(unanswered):
            if call_id in seen:
                yield Problem((*path, "calls", place, "id"), f"the id {call_id!r} is taken by an earlier call.")
            seen.add(call_id)
    if scenario.history and (scenario.history[-1].role != "assistant" or unanswered):
        last = ("history", len(scenario.history) - 1)
        yield Problem(last, "a history ends with an answer of the assistant that calls nothing.")


def _pairs(message: HistoryMessage, unanswered: list[str], path: Path) -> Iterator[Problem]:
    results = [result.call_id for result in message.results]
    for index, call_id in enumerate(results):
        at = (*path, "results", index, "call_id")
        if call_id not in unanswered:
            yield Problem(at, f"{call_id!r} is not the id of a call in the message before.")
        elif call_id in results[:index]:
            yield Problem(at, f"a second result for the call {call_id!r}.")
    for call_id in unanswered:
        if call_id not in results:
            yield Problem(path, f"the call {call_id!r} of the message before is not answered here.")


def _message(message: HistoryMessage, path: Path) -> Iterator[Problem]:
    foreign = ("results",) if message.role == "assistant" else ("calls", "thinking")
    for key in foreign:
        if getattr(message, key):
            yield Problem((*path, key), f"a message of the {message.role} has no {key}.")
    if not (message.text or message.thinking or message.calls or message.results):
        yield Problem(path, "an empty message.")
