"""Consistency checks between parts of a scenario, which the types of `harness.scenarios.schema` cannot express."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from harness.apis import registry
from harness.apis.view import Provocation
from harness.documents.document import Path
from harness.documents.json_schema import misfits
from harness.model.errors import UnknownName, provider_error
from harness.model.messages import StopReason, ToolCall
from harness.model.protocols import Capability
from harness.scenarios.canonical import called_before, calls_of, matching_result, names_previous, scripted_events
from harness.scenarios.match import TurnError, TurnOutcome, error_name, includes, mismatches
from harness.scenarios.schema import (
    Expectation,
    FaultSpec,
    HistoryMessage,
    NamedToolSpec,
    PartSpec,
    Scenario,
    Settings,
    StepSpec,
    ToolSpec,
    TurnSpec,
)

if TYPE_CHECKING:
    from harness.apis.api import Api


@dataclass(frozen=True, slots=True)
class Problem:
    """An inconsistency at a path of the file; `reason` is a sentence."""

    path: Path
    reason: str


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield each inconsistency."""
    yield from _tools(scenario)
    yield from _unknown_apis(scenario.provider_tools, ("provider_tools",))
    yield from _unknown_apis(scenario.settings.fields, ("settings", "fields"))
    for index, tool in enumerate(scenario.tools):
        yield from _unknown_apis(tool.fields, ("tools", index, "fields"))
    for index, turn in enumerate(scenario.turns):
        yield from _unknown_apis(turn.settings.fields if turn.settings else {}, ("turns", index, "settings", "fields"))
    yield from _history(scenario)
    yield from _settings(scenario, ("settings",), scenario.settings)
    for index, turn in enumerate(scenario.turns):
        yield from _turn(scenario, ("turns", index), turn)
    yield from _faults(scenario)
    yield from _failures(scenario)
    yield from _repeated_problems(("variants",), scenario.variants or ())
    yield from _provocations(scenario)
    yield from _trim(scenario)
    yield from _embeddings(scenario)
    yield from _capabilities(scenario)
    known = [profile.name for api in registry.apis() for profile in api.profiles]
    yield from _unknown("profile", scenario.profiles or (), known, ("profiles",))


def _unknown(kind: str, given: Iterable[str], known: list[str], path: Path) -> Iterator[Problem]:
    for index, name in enumerate(given):
        if name not in known:
            yield Problem((*path, index), str(UnknownName(kind, name, known)))


def _unknown_apis(by_api: Iterable[str], path: Path) -> Iterator[Problem]:
    for name in by_api:
        if all(name != api.name for api in registry.apis()):
            yield Problem((*path, name), str(UnknownName("API", name, registry.APIS.names())))


def _repeated_problems(path: Path, given: Sequence[str]) -> Iterator[Problem]:
    for index, each in enumerate(given):
        if each in given[:index]:
            yield Problem((*path, index), f"{str(each)!r} is listed twice.")


def _script(scenario: Scenario) -> list[StepSpec]:
    """Return the model's responses of all turns, in order."""
    return [step for turn in scenario.turns for step in turn.model]


_OPEN_KEYWORDS = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""Schema keywords that may allow arguments outside the schema's own `properties`."""


def _tools(scenario: Scenario) -> Iterator[Problem]:
    declared: set[str] = set()
    for index, tool in enumerate(scenario.tools):
        if tool.name in declared:
            yield Problem(("tools", index, "name"), f"a second tool with the name {tool.name!r}.")
        declared.add(tool.name)
        yield from _results(tool, ("tools", index, "results"))
        yield from _first_turn(scenario, tool, ("tools", index, "from_turn"))
    called = {name for step in _script(scenario) for name, _ in step.named_calls}
    for index, name in enumerate(scenario.undeclared_tools):
        if name in declared:
            yield Problem(("undeclared_tools", index), f"the tool {name!r} is declared.")
        elif name not in called:
            yield Problem(("undeclared_tools", index), f"the model never calls {name!r}.")


def _first_turn(scenario: Scenario, tool: ToolSpec, path: Path) -> Iterator[Problem]:
    count = len(scenario.turns)
    if tool.from_turn and tool.from_turn >= count:
        yield Problem(path, f"there is no turn {tool.from_turn}: the scenario has {count}, counted from 0.")
    for number, turn in enumerate(scenario.turns[: tool.from_turn]):
        if any(name == tool.name for step in turn.model for name, _ in step.named_calls):
            yield Problem(path, f"the model calls {tool.name!r} in turn {number}, before it is declared.")


def _results(tool: ToolSpec, path: Path) -> Iterator[Problem]:
    if tool.results and tool.answered_by == "client":
        yield Problem(path, f"the client runs {tool.name!r}. Remove its results, or answered_by.")
    properties = tool.parameters.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    is_closed = not _OPEN_KEYWORDS & tool.parameters.keys()
    for index, result in enumerate(tool.results):
        for name in result.when or ():
            if is_closed and name not in known:
                yield Problem((*path, index, "when", name), str(UnknownName(f"argument of {tool.name}", name, known)))
        for earlier in (at for at in range(index) if tool.results[at].times is None):
            if includes(result.when or {}, tool.results[earlier].when or {}):
                yield Problem((*path, index), f"never reached, since results[{earlier}] matches first.")
                break


def _history(scenario: Scenario) -> Iterator[Problem]:
    unanswered: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(scenario.history):
        path = ("history", index)
        yield from _message(message, path)
        yield from _pairs(message, unanswered, path)
        unanswered = [call.id for call in message.calls]
        for position, call_id in enumerate(unanswered):
            if call_id in seen:
                yield Problem((*path, "calls", position, "id"), f"an earlier call has the id {call_id!r} already.")
            seen.add(call_id)
    if scenario.history and (scenario.history[-1].role != "assistant" or unanswered):
        last = ("history", len(scenario.history) - 1)
        yield Problem(last, "a history must end with an assistant message without calls.")


def _pairs(message: HistoryMessage, unanswered: list[str], path: Path) -> Iterator[Problem]:
    results = [result.call_id for result in message.results]
    for index, call_id in enumerate(results):
        at = (*path, "results", index, "call_id")
        if call_id not in unanswered:
            yield Problem(at, f"the message before has no call with the id {call_id!r}.")
        elif call_id in results[:index]:
            yield Problem(at, f"a second result for the call {call_id!r}.")
    for call_id in unanswered:
        if call_id not in results:
            yield Problem(path, f"this message has no result for the call {call_id!r} of the message before.")


def _message(message: HistoryMessage, path: Path) -> Iterator[Problem]:
    foreign = ("results",) if message.role == "assistant" else ("calls", "thinking")
    for key in foreign:
        if getattr(message, key):
            yield Problem((*path, key), f"a message of the {message.role} has no {key}.")
    if not (message.text or message.thinking or message.calls or message.results):
        yield Problem(path, "an empty message.")


def _settings(scenario: Scenario, path: Path, settings: Settings) -> Iterator[Problem]:
    choice = settings.tool_choice
    if choice is not None and not scenario.tools:
        yield Problem((*path, "tool_choice"), "a tool choice in a scenario without tools.")
    elif isinstance(choice, NamedToolSpec):
        for problem in _unknown("tool", [choice.tool], [tool.name for tool in scenario.tools], ()):
            yield Problem((*path, "tool_choice", "tool"), problem.reason)


def _turn(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    if turn.settings is not None:
        yield from _settings(scenario, (*path, "settings"), turn.settings)
    yield from _choice_is_followed(scenario, path, turn)
    yield from _turn_ends(scenario, path, turn)
    first = sum(len(each.model) for each in takewhile(lambda each: each is not turn, scenario.turns))
    earlier = called_before(scenario, first)
    yield from _expectation_fits(scenario, path, turn, earlier)
    for index, step in enumerate(turn.model):
        yield from _step(scenario, (*path, "model", index), step, earlier)
        earlier = [*earlier, *calls_of(step)]


def _choice_is_followed(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
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
        yield Problem(first, f"tool_choice forces {choice.tool!r}: the first answer must call it and nothing else.")


def _has_answered_calls(scenario: Scenario, step: StepSpec) -> bool:
    """Return whether calls of a response have results in its turn, so that a request with them follows."""
    tools = [tool for name, _ in step.whole_calls if (tool := scenario.tool_named(name)) is not None]
    late = tools and all(result.turns_later for tool in tools for result in tool.results)
    return bool(step.whole_calls) and not late


def _turn_ends(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    limit = scenario.max_iterations
    model = (*path, "model")
    errors = expected_errors(turn)
    endless = errors == ENDLESS
    for index, step in enumerate(turn.model):
        last = index == len(turn.model) - 1
        pauses = step.stop is StopReason.PAUSE and not step.calls
        if pauses and last and not errors:
            yield Problem((*model, index), "the turn ends in a pause. Add the model's answer to the next request.")
        elif not step.whole_calls and not pauses and (endless or not last):
            why = "expect.error is iteration-limit" if endless else "more answers follow"
            yield Problem((*model, index), f"an answer without calls ends the turn, and {why}.")
        elif last and not errors and not turn.ends_with_call and _has_answered_calls(scenario, step):
            reason = "the turn ends in a call. Add the model's answer to the results, or ends_with_call: true."
            yield Problem((*model, index), reason)
    if turn.ends_with_call and (errors or not turn.model[-1].whole_calls):
        yield Problem((*path, "ends_with_call"), "the last answer of the turn must call a tool.")
    count = len(turn.model)
    if endless and count != limit:
        yield Problem(model, f"{count} answers; the iteration limit is reached after max_iterations ({limit}).")
    elif count > limit:
        yield Problem(model, f"{count} answers in a turn, more than max_iterations ({limit}).")


def _expectation_fits(scenario: Scenario, path: Path, turn: TurnSpec, earlier: Sequence[ToolCall]) -> Iterator[Problem]:
    """Check an expectation against the script.

    The reference server sends the script, so an expectation that contradicts it would be reported as a fault of the
    adapter.
    """
    if turn.expect is None:
        return
    fails = bool(possible_failures(scenario, turn))
    given = turn.model[:-1] if fails else turn.model
    outcome = TurnOutcome(
        text="" if fails else turn.model[-1].text or "",
        calls=[ToolCall("", name, arguments) for step in given for name, arguments in step.whole_calls],
    )
    of_content = turn.expect.model_copy(update={"stop_reason": None, "error": None, "events": None})
    for mismatch in mismatches(of_content, outcome):
        yield Problem((*path, "expect"), f"the script itself does not meet {mismatch.path}: {mismatch.message}")
    yield from _counted_tools(scenario, (*path, "expect"), turn.expect)
    yield from _events_fit(scenario, (*path, "expect", "events"), turn, earlier)


def _counted_tools(scenario: Scenario, path: Path, expectation: Expectation) -> Iterator[Problem]:
    """Find misspelt tool names: such a tool is never called, so `not_called` could never fail."""
    known = [*(tool.name for tool in scenario.tools), *scenario.undeclared_tools]
    yield from _unknown("tool", expectation.not_called or (), known, (*path, "not_called"))
    for name in expectation.counts:
        if name not in known:
            yield Problem((*path, "called", name), str(UnknownName("tool", name, known)))


def _events_fit(scenario: Scenario, path: Path, turn: TurnSpec, earlier: Sequence[ToolCall]) -> Iterator[Problem]:
    if turn.expect is None:
        return
    failures = [failure.name for failure in possible_failures(scenario, turn)]
    given = turn.model[:-1] if failures else turn.model
    endings = failures or [*expected_errors(turn)] or [None]
    found = [
        mismatches(Expectation(events=turn.expect.events), TurnOutcome(events=events))
        for ending in endings
        if (events := scripted_events(scenario, given, ending, earlier)) is not None
    ]
    if found and all(found):
        yield Problem(path, f"the script itself does not meet it: {found[0][0].message}")


def _step(scenario: Scenario, path: Path, step: StepSpec, earlier: Sequence[ToolCall]) -> Iterator[Problem]:
    """Check one response of the script; `earlier` are the calls of the responses before it."""
    yield from _unknown_apis(step.raw, (*path, "raw"))
    for api in registry.apis():
        if step.stop is not None and step.stop in api.own_stops:
            yield from _stop_of_one_api(scenario, (*path, "stop"), api, *api.own_stops[step.stop])
    for index, (name, arguments) in enumerate(step.named_calls):
        tool = scenario.tool_named(name)
        inner = (*path, "calls", index, name)
        if tool is not None:
            before = earlier if index < len(step.whole_calls) else None
            yield from _call(tool, ToolCall("", name, arguments), inner, before)
        elif name not in scenario.undeclared_tools:
            reason = str(UnknownName("tool", name, [tool.name for tool in scenario.tools]))
            yield Problem(inner, f"{reason} If the model is meant to call it anyway, add it to undeclared_tools.")
    yield from _limited_results(scenario, path, step)


def _stop_of_one_api(scenario: Scenario, path: Path, api: Api, only: str, does: str) -> Iterator[Problem]:
    profiles = [profile.name for profile in api.profiles]
    if not scenario.profiles or not set(scenario.profiles) <= set(profiles):
        yield Problem(path, f"{only}. Add profiles: some of {', '.join(profiles)}.")
    if not scenario.scripted:
        yield Problem(path, f"no model {does} on request. Add scripted: true.")


def _call(tool: ToolSpec, call: ToolCall, path: Path, earlier: Sequence[ToolCall] | None) -> Iterator[Problem]:
    """Check a call; `earlier` is `None` for a truncated call, which is never executed."""
    for at, message in misfits(tool.parameters or {"maxProperties": 0}, call.arguments):
        yield Problem((*path, *at), f"does not fit the parameters of {tool.name!r}: {message}.")
    if earlier is not None and tool.answered_by == "scenario" and matching_result(tool, call, earlier) is None:
        left = " that is not used up" if any(result.times for result in tool.results) else ""
        reason = f"{tool.name!r} has no result for these arguments{left}. Add one, or one without when."
        yield Problem(path, reason)


def _limited_results(scenario: Scenario, path: Path, step: StepSpec) -> Iterator[Problem]:
    """Reject a result with `times` that matches two calls of one response. An application may execute these in any
    order.
    """
    for tool in scenario.tools:
        calls = [(at, arguments) for at, (name, arguments) in enumerate(step.whole_calls) if name == tool.name]
        for number, result in enumerate(tool.results):
            fit = [at for at, arguments in calls if result.times and includes(arguments, result.when or {})]
            if len(fit) > 1:
                reason = f"results[{number}] of {tool.name!r} has times and matches an earlier call of this answer too."
                yield Problem((*path, "calls", fit[1], tool.name), f"{reason} Put them into two answers.")


def _faults(scenario: Scenario) -> Iterator[Problem]:
    count = len(_script(scenario))
    faulty: set[int] = set()
    for index, fault in enumerate(scenario.faults):
        path = ("faults", index)
        if fault.answer >= count:
            yield Problem(
                (*path, "answer"), f"there is no answer {fault.answer}: the script has {count}, counted from 0."
            )
        elif fault.answer in faulty:
            yield Problem((*path, "answer"), f"a second fault of answer {fault.answer}.")
        elif fault.fails and fault.answer < count - 1:
            reason = f"no answer follows a failed one: this fault can affect answer {count - 1} only."
            yield Problem((*path, "answer"), reason)
        faulty.add(fault.answer)
        if fault.is_of_streams and scenario.variants != ["stream"]:
            what = "stream_error" if fault.stream_error is not None else "at: end"
            yield Problem(path, f"{what} exists in streams only. Add variants: [stream].")
    if scenario.faults and not scenario.scripted:
        yield Problem(("faults",), "a provider does not fail on request. Add scripted: true.")


ENDLESS = ("iteration-limit",)
"""Expected errors of a turn that has no final response."""


def _failures(scenario: Scenario) -> Iterator[Problem]:
    """Check that the last turn expects the error that its fault causes, and that no other turn expects one."""
    for index, turn in enumerate(scenario.turns):
        path = ("turns", index, "expect", "error")
        outcomes = possible_failures(scenario, turn)
        names = expected_errors(turn)
        if outcomes and not names:
            yield Problem(("turns", index), f"its last answer fails. Add expect: {{error: {outcomes[0].name}}}.")
        if names not in ((), ENDLESS) and turn is not scenario.turns[-1]:
            yield Problem(path, "no turn can follow a failed one, and more turns follow.")
        possible = [TurnError("iteration-limit")] if names == ENDLESS else [*outcomes, TurnError("unsupported")]
        unexplained = [name for name in names if name not in {failure.name for failure in possible}]
        for name in unexplained:
            yield Problem(path, f"nothing ends the turn in {name}. Add a fault that does.")
        if turn.expect is not None and names and not unexplained:
            alone = Expectation(error=turn.expect.error)
            named = [failure for failure in possible if failure.name in names]
            found = [mismatches(alone, TurnOutcome(error=failure)) for failure in named]
            if all(found):
                yield Problem(path, f"the script itself does not meet {found[0][0].path}: {found[0][0].message}")


def expected_errors(turn: TurnSpec) -> tuple[str, ...]:
    """Return the accepted errors of a turn; empty if it must succeed."""
    return turn.expect.errors if turn.expect else ()


def possible_failures(scenario: Scenario, turn: TurnSpec) -> list[TurnError]:
    """Return the errors that may end a turn. Only the last response of a scenario can fail."""
    last = len(_script(scenario)) - 1
    if turn is not scenario.turns[-1]:
        return []
    return [failure for fault in scenario.faults if fault.answer == last for failure in _errors_of(fault)]


def _errors_of(fault: FaultSpec) -> list[TurnError]:
    if not fault.fails:
        return []
    if fault.status is not None:
        return [_error_of_status(fault.status, fault.retry_after)]
    if fault.stream_error is not None:  # an error event has a type, and APIs have no type for some statuses
        return [_error_of_status(fault.stream_error), _error_of_status(500 if fault.stream_error >= 500 else 400)]
    # A client cannot distinguish a stream that ends early from a lost connection.
    return [TurnError("connection-failed"), TurnError("malformed-response")]


def _error_of_status(status: int, retry_after: float | None = None) -> TurnError:
    return TurnError(error_name(type(provider_error(status, "")).__name__), status, retry_after)


def _provocations(scenario: Scenario) -> Iterator[Problem]:
    yield from _repeated_problems(("provocations",), [each.value for each in scenario.provocations])
    if not scenario.provocations:
        return
    if scenario.variants != ["stream"] and any(each.is_of_streams for each in scenario.provocations):
        yield Problem(("provocations",), "they exist in streams only. Add variants: [stream].")
    if not scenario.scripted:
        yield Problem(("provocations",), "no provider does this on request. Add scripted: true.")
    parallel = any(len(step.calls) > 1 and not step.truncated for step in _script(scenario))
    if Provocation.INTERLEAVED_CALLS in scenario.provocations and not parallel:
        yield Problem(("provocations",), "no answer has two whole calls to interleave. Add one.")
    if Provocation.SIGNED_CALLS in scenario.provocations and not parallel:
        yield Problem(("provocations",), "no answer has two whole calls to sign. Add one.")
    bare = any(not arguments for step in _script(scenario) for _, arguments in step.named_calls)
    if Provocation.EMPTY_ARGUMENTS in scenario.provocations and not bare:
        yield Problem(("provocations",), "no answer has a call without arguments. Add one.")


def _trim(scenario: Scenario) -> Iterator[Problem]:
    if scenario.trim is None:
        return
    if len(scenario.turns) == 1:
        yield Problem(("trim",), "a history of one turn is never trimmed. Add a turn, or remove this.")
    yield from _unknown("tool", scenario.trim.tools, [tool.name for tool in scenario.tools], ("trim", "tools"))


_KEYS_WITH_EMBEDDINGS = frozenset(
    {"version", "id", "title", "covers", "requires", "embeddings", "variants", "scripted", "provocations"}
)


def _embeddings(scenario: Scenario) -> Iterator[Problem]:
    if scenario.embeddings is None:
        return
    for key in sorted(scenario.model_fields_set - _KEYS_WITH_EMBEDDINGS):
        yield Problem((key,), "this key is for conversations, not for embeddings. Remove it.")
    if scenario.variants != ["whole"]:
        yield Problem(("embeddings",), "vectors are not streamed. Add variants: [whole].")
    for index, text in enumerate(scenario.embeddings.texts):
        if not text:
            yield Problem(("embeddings", "texts", index), "an empty text, which not every API embeds.")
    for index, query in enumerate(scenario.embeddings.queries):
        if not query.text:
            yield Problem(("embeddings", "queries", index, "text"), "an empty text, which not every API embeds.")
        if query.indexed_with is not None and query.indexed_with.dimensions == scenario.embeddings.dimensions:
            path = ("embeddings", "queries", index, "indexed_with", "dimensions")
            yield Problem(path, f"the query has {scenario.embeddings.dimensions} dimensions too. Use another length.")


def _capabilities(scenario: Scenario) -> Iterator[Problem]:
    used = used_capabilities(scenario)
    for capability in sorted(used - set(scenario.requires)):
        yield Problem(("requires",), f"the scenario uses {capability.value!r}. Add it here.")
    for index, capability in enumerate(scenario.requires):
        if capability not in used:
            yield Problem(("requires", index), f"nothing in the scenario uses {capability.value!r}. Remove it.")
        elif capability in scenario.requires[:index]:
            yield Problem(("requires", index), f"{capability.value!r} is listed twice.")


def used_capabilities(scenario: Scenario) -> frozenset[Capability]:
    """Return the capabilities that the scenario uses."""
    settings = [scenario.settings, *(turn.settings for turn in scenario.turns if turn.settings)]
    formats = {type(each.format()).__name__ for each in settings} - {"NoneType"}
    steps = _script(scenario)
    parts = [part for turn in scenario.turns if not isinstance(turn.user, str) for part in turn.user]
    uses = {
        Capability.SYSTEM_PROMPT: any([scenario.system, *(turn.system for turn in scenario.turns)]),
        Capability.TOOLS: bool(scenario.tools or any(message.calls for message in scenario.history)),
        Capability.PARALLEL_TOOL_CALLS: any(len(message.calls) > 1 for message in (*steps, *scenario.history)),
        Capability.TOOL_CHOICE: any(each.tool_choice is not None for each in settings),
        Capability.FORCED_TOOL_CHOICE: any(each.tool_choice == "required" for each in settings),
        Capability.NAMED_TOOL_CHOICE: any(isinstance(each.tool_choice, NamedToolSpec) for each in settings),
        Capability.JSON_MODE: "JsonMode" in formats,
        Capability.JSON_SCHEMA: "JsonSchema" in formats,
        Capability.JSON_WITH_TOOLS: bool(formats and scenario.tools),
        Capability.VISION: any(part.image for part in parts),
        Capability.IMAGE_RESULTS: any(_has_image(result.parts) for tool in scenario.tools for result in tool.results),
        Capability.FILES: any(part.file for part in parts),
        Capability.AUDIO: any(part.audio for part in parts),
        Capability.THINKING: any(each.thinking is not None for each in settings),
        Capability.CACHE_MARKS: any(each.cache for each in settings),
        Capability.HISTORY: bool(len(scenario.turns) > 1 or scenario.history),
        Capability.PROVIDER_TOOLS: bool(scenario.provider_tools),
        Capability.PROVIDER_FIELDS: bool(scenario.apis_with_fields),
        Capability.PREVIOUS_RESPONSE: any(names_previous(each.fields) for each in settings),
        Capability.ASYNC_TOOLS: any(result.turns_later for tool in scenario.tools for result in tool.results),
        Capability.EMBEDDINGS: scenario.embeddings is not None,
        Capability.TRUNCATION: any(step.truncated or step.stop is StopReason.MAX_TOKENS for step in steps),
    }
    return frozenset(capability for capability, is_used in uses.items() if is_used)


def _has_image(parts: Iterable[PartSpec] | None) -> bool:
    return any(part.image is not None for part in parts or ())
