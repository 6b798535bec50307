"""What has to hold between the parts of a scenario: the types of schema.py cannot say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import catalog
from harness.contract.errors import UnknownName, provider_error
from harness.contract.model import JSON, StopReason, ToolCall
from harness.contract.protocols import Capability
from harness.scenarios.document import Path
from harness.scenarios.events import scripted
from harness.scenarios.match import Failure, Outcome, error_name, includes, misfits, mismatches
from harness.scenarios.schema import (
    Expectation,
    FaultSpec,
    HistoryMessage,
    NamedToolSpec,
    PartSpec,
    Provocation,
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
    """Something wrong at a path of the file; `reason` is a sentence."""

    path: Path
    reason: str


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Everything that contradicts itself."""
    yield from _tools(scenario)
    yield from _apis(scenario.provider_tools, ("provider_tools",))
    yield from _history(scenario)
    yield from _settings(scenario, ("settings",), scenario.settings)
    for index, turn in enumerate(scenario.turns):
        yield from _turn(scenario, ("turns", index), turn)
    yield from _faults(scenario)
    yield from _errors(scenario)
    yield from _variants(scenario)
    yield from _provocations(scenario)
    yield from _trim(scenario)
    yield from _embeddings(scenario)
    yield from _requirements(scenario)
    yield from _names(
        "profile",
        scenario.profiles or (),
        [profile.name for api in catalog.apis() for profile in api.profiles],
        ("profiles",),
    )


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
        Capability.FORCED_TOOL_CHOICE: any(settings.tool_choice not in (None, "auto", "none") for settings in every),
        Capability.JSON_MODE: "JsonMode" in formats,
        Capability.JSON_SCHEMA: "JsonSchema" in formats,
        Capability.JSON_WITH_TOOLS: bool(formats and scenario.tools),
        Capability.VISION: any(_has_image(turn.user) for turn in scenario.turns),
        Capability.IMAGE_RESULTS: any(_has_image(result.parts) for tool in scenario.tools for result in tool.results),
        Capability.THINKING: any(settings.thinking is not None for settings in every),
        Capability.CACHE_MARKS: any(settings.cache for settings in every),
        Capability.HISTORY: bool(len(scenario.turns) > 1 or scenario.history),
        Capability.PROVIDER_TOOLS: bool(scenario.provider_tools),
        Capability.EMBEDDINGS: scenario.embeddings is not None,
        Capability.TRUNCATION: any(step.truncated or step.stop is StopReason.MAX_TOKENS for step in steps),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _has_image(parts: str | Iterable[PartSpec] | None) -> bool:
    return not isinstance(parts, str) and any(part.image is not None for part in parts or ())


def _trim(scenario: Scenario) -> Iterator[Problem]:
    if scenario.trim is None:
        return
    if len(scenario.turns) == 1:
        yield Problem(("trim",), "a history of one turn is never trimmed. Add a turn, or remove this.")
    yield from _names("tool", scenario.trim.tools, [tool.name for tool in scenario.tools], ("trim", "tools"))


_FOR_BOTH = {"version", "id", "title", "covers", "requires", "embeddings", "variants", "scripted"}


def _embeddings(scenario: Scenario) -> Iterator[Problem]:
    if scenario.embeddings is None:
        return
    for key in sorted(scenario.model_fields_set - _FOR_BOTH):
        yield Problem((key,), "this is of conversations, and embeddings are none. Remove it.")
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
            yield Problem(path, f"{scenario.embeddings.dimensions} is what the query has too. Give another length.")


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


def _apis(by_api: Iterable[str], path: Path) -> Iterator[Problem]:
    for name in by_api:
        if all(name != api.name for api in catalog.apis()):  # which are looked up once: a folder has many steps
            yield Problem((*path, name), str(UnknownName("API", name, catalog.APIS.names())))


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
    yield from _expectation_fits(scenario, path, turn)
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
    errors = _expected_errors(turn)
    endless = errors == _ENDLESS
    for index, step in enumerate(turn.model):
        last = index == len(turn.model) - 1
        pauses = step.stop is StopReason.PAUSE and not step.calls
        if pauses and last and not errors:
            yield Problem((*model, index), "the turn ends in a pause. Add what the model says when it is asked again.")
        elif not step.whole_calls and not pauses and (endless or not last):
            why = "expect.error is iteration-limit" if endless else "more answers follow"
            yield Problem((*model, index), f"an answer without calls ends the turn, and {why}.")
        elif step.whole_calls and last and not errors:
            yield Problem((*model, index), "the turn ends in a call. Add the model's answer to the results.")
    if endless and len(turn.model) != bound:
        yield Problem(
            model, f"{len(turn.model)} answers; the iteration limit is reached after max_iterations ({bound})."
        )
    elif len(turn.model) > bound:
        yield Problem(model, f"{len(turn.model)} answers in a turn, more than max_iterations ({bound}).")


def _expectation_fits(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    """The script is the answer that the reference server plays: an expectation that it misses would blame adapters."""
    if turn.expect is None:
        return
    fails = bool(_failures(scenario, turn))
    given = turn.model[:-1] if fails else turn.model
    outcome = Outcome(
        text="" if fails else turn.model[-1].text or "",
        calls=[ToolCall("", name, arguments) for step in given for name, arguments in step.whole_calls],
    )
    of_content = turn.expect.model_copy(update={"stop_reason": None, "error": None, "events": None})
    for mismatch in mismatches(of_content, outcome):
        yield Problem((*path, "expect"), f"the script itself does not meet {mismatch.path}: {mismatch.message}")
    yield from _events_fit(scenario, (*path, "expect", "events"), turn, turn.expect)


def _events_fit(scenario: Scenario, path: Path, turn: TurnSpec, expectation: Expectation) -> Iterator[Problem]:
    failures = [failure.name for failure in _failures(scenario, turn)]
    steps = turn.model[:-1] if failures else turn.model
    endings = failures or [*_expected_errors(turn)] or [None]
    found = [
        mismatches(Expectation(events=expectation.events), Outcome(events=told))
        for ending in endings
        if (told := scripted(scenario, steps, ending)) is not None
    ]
    if found and all(found):
        yield Problem(path, f"the script itself does not meet it: {found[0][0].message}")


_ENDLESS = ("iteration-limit",)


def _expected_errors(turn: TurnSpec) -> tuple[str, ...]:
    return turn.expect.errors if turn.expect else ()


def _failures(scenario: Scenario, turn: TurnSpec) -> list[Failure]:
    """The errors in which the turn may end, of which one is the right one: its last answer is the only one to fail."""
    last = len(_script(scenario)) - 1
    if turn is not scenario.turns[-1]:
        return []
    return [failure for fault in scenario.faults if fault.answer == last for failure in _outcomes(fault)]


def _script(scenario: Scenario) -> list[StepSpec]:
    return [step for turn in scenario.turns for step in turn.model]


def _outcomes(fault: FaultSpec) -> list[Failure]:
    """The errors in which a fault may end a chat; none if it is no failure."""
    if not fault.fails:
        return []
    if fault.status is not None:
        return [_of_status(fault.status, fault.retry_after)]
    if fault.stream_error is not None:  # said in words, and not every API has words for every status
        return [_of_status(fault.stream_error), _of_status(500 if fault.stream_error >= 500 else 400)]
    malformed, lost = Failure("malformed-response"), Failure("connection-failed")
    match fault.connection:
        case "cut" | "reset":  # errors.py has both for what breaks off: no answer came, and a cut body
            return [lost, malformed]
        case _:
            return [malformed]


def _of_status(status: int, retry_after: float | None = None) -> Failure:
    return Failure(error_name(type(provider_error(status, "")).__name__), status, retry_after)


def _faults(scenario: Scenario) -> Iterator[Problem]:
    count = len(_script(scenario))
    taken: set[int] = set()
    for index, fault in enumerate(scenario.faults):
        path = ("faults", index)
        if fault.answer >= count:
            yield Problem((*path, "answer"), f"there is no answer {fault.answer}: the script has {count}, from 0 on.")
        elif fault.answer in taken:
            yield Problem((*path, "answer"), f"a second fault of answer {fault.answer}.")
        elif fault.fails and fault.answer < count - 1:
            reason = f"a chat that fails is the last one: this can befall answer {count - 1} only."
            yield Problem((*path, "answer"), reason)
        taken.add(fault.answer)
        if fault.is_of_streams and scenario.variants != ["stream"]:
            what = "stream_error" if fault.stream_error is not None else "at: end"
            yield Problem(path, f"{what} is of streams alone. Add variants: [stream].")
    if scenario.faults and not scenario.scripted:
        yield Problem(("faults",), "a provider does not fail when asked to. Add scripted: true.")


def _errors(scenario: Scenario) -> Iterator[Problem]:
    """An error is expected of the last turn, and is the one that the fault brings about."""
    for index, turn in enumerate(scenario.turns):
        path = ("turns", index, "expect", "error")
        outcomes = _failures(scenario, turn)
        names = _expected_errors(turn)
        if outcomes and not names:
            yield Problem(("turns", index), f"its last answer fails. Add expect: {{error: {outcomes[0].name}}}.")
        if names not in ((), _ENDLESS) and turn is not scenario.turns[-1]:
            yield Problem(path, "a chat that fails is the last one, and more turns follow.")
        possible = [Failure("iteration-limit")] if names == _ENDLESS else [*outcomes, Failure("unsupported")]
        unexplained = [name for name in names if name not in {failure.name for failure in possible}]
        for name in unexplained:
            yield Problem(path, f"nothing ends the turn in {name}. Add faults that do.")
        if turn.expect is not None and names and not unexplained:
            yield from _error_fits(turn.expect, [failure for failure in possible if failure.name in names], path)


def _error_fits(expectation: Expectation, possible: list[Failure], path: Path) -> Iterator[Problem]:
    alone = Expectation(error=expectation.error)
    found = [mismatches(alone, Outcome(error=failure)) for failure in possible]
    if all(found):
        yield Problem(path, f"the script itself does not meet {found[0][0].path}: {found[0][0].message}")


def _variants(scenario: Scenario) -> Iterator[Problem]:
    variants = scenario.variants or []
    for index, variant in enumerate(variants):
        if variant in variants[:index]:
            yield Problem(("variants", index), f"{variant!r} stands here twice.")


def _provocations(scenario: Scenario) -> Iterator[Problem]:
    for index, provocation in enumerate(scenario.provocations):
        if provocation in scenario.provocations[:index]:
            yield Problem(("provocations", index), f"{provocation.value!r} stands here twice.")
    if not scenario.provocations:
        return
    if scenario.variants != ["stream"]:
        yield Problem(("provocations",), "they are of streams alone. Add variants: [stream].")
    if not scenario.scripted:
        yield Problem(("provocations",), "no provider does this when asked to. Add scripted: true.")
    parallel = any(len(step.calls) > 1 and not step.truncated for step in _script(scenario))
    if Provocation.INTERLEAVED_CALLS in scenario.provocations and not parallel:
        yield Problem(("provocations",), "no answer has two whole calls that could come in turns. Add one.")


def _step(scenario: Scenario, path: Path, step: StepSpec) -> Iterator[Problem]:
    yield from _apis(step.raw, (*path, "raw"))
    for api in catalog.apis():
        if step.stop is not None and step.stop in api.own_stops:
            yield from _of_one_api(scenario, (*path, "stop"), api, *api.own_stops[step.stop])
    for index, (name, arguments) in enumerate(step.named_calls):
        tool = scenario.tool_named(name)
        inner = (*path, "calls", index, name)
        if tool is not None:
            yield from _call(tool, arguments, inner, made=index < len(step.whole_calls))
        elif name not in scenario.undeclared_tools:
            reason = str(UnknownName("tool", name, [tool.name for tool in scenario.tools]))
            yield Problem(inner, f"{reason} If the model is meant to call it all the same, add it to undeclared_tools.")


def _of_one_api(scenario: Scenario, path: Path, api: Api, only: str, does: str) -> Iterator[Problem]:
    telling = [profile.name for profile in api.profiles]
    if not scenario.profiles or not set(scenario.profiles) <= set(telling):
        yield Problem(path, f"{only}. Add profiles: of {', '.join(telling)}.")
    if not scenario.scripted:
        yield Problem(path, f"no model {does} when asked to. Add scripted: true.")


def _call(tool: ToolSpec, arguments: dict[str, JSON], path: Path, *, made: bool) -> Iterator[Problem]:
    for at, message in misfits(tool.parameters or {"maxProperties": 0}, arguments):
        yield Problem((*path, *at), f"does not fit the parameters of {tool.name!r}: {message}.")
    if made and not any(includes(arguments, result.when or {}) for result in tool.results):
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
