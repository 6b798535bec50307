"""The cells of a suite, and the reasons why a cell is not applicable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from http import HTTPStatus

from harness.apis import registry
from harness.apis.jsonvalue import as_list
from harness.apis.profiles import server_of
from harness.apis.registry import Target
from harness.model.http import HttpRequest
from harness.model.messages import JSON, ChatRequest, Message, StopReason, ToolCall, ToolResult
from harness.model.protocols import Capability, Conversation, ConversationTool, FinalCall
from harness.results import CellResult, Exchange, Lacking, Mode, Verdict
from harness.results.run_result import CellKey
from harness.scenarios.canonical import settings_of, tools, user_message
from harness.scenarios.schema import FaultSpec, Scenario, TurnSpec, Variant


@dataclass(frozen=True, slots=True)
class HandedHistory:
    """The history of a conversation that began on another target, and the message that comes next.

    `last` is the last exchange of that target.
    """

    messages: tuple[Message, ...]
    opening: Message
    last: Exchange | None = None


@dataclass(frozen=True, slots=True)
class NoHistory:
    """The reason why there is no history to hand over, and the verdict of the cells that would continue it."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario that runs on a target in one variant. It continues the conversation `handed`, if there is one."""

    scenario: Scenario
    target: Target
    variant: Variant
    handed: HandedHistory | None = None

    @property
    def key(self) -> CellKey:
        """The scenario, the target and the variant, as in `CellResult.key`."""
        return self.scenario.id, self.target.name, self.variant

    def result(self, verdict: Verdict = Verdict.PASS) -> CellResult:
        """Return a result of the cell without findings."""
        covers = tuple(subject.value for subject in self.scenario.covers)
        target = self.target
        return CellResult(
            self.scenario.id, target.name, target.adapter.name, target.api, self.variant, verdict, covers=covers
        )


UNOBSERVABLE = frozenset({Capability.CACHE_MARKS, Capability.EMBEDDINGS, Capability.PROVIDER_TOOLS})
"""Capabilities of a tool loop that its requests do not show, or that a conversation cannot request."""

_MAX_RETRY_SECONDS = 1.5
_TOOL_NAME = "[a-zA-Z0-9_-]{1,64}"


def conversation_for(scenario: Scenario, variant: Variant, run: Callable[[ToolCall], ToolResult]) -> Conversation:
    """Return the conversation for a tool loop that runs this scenario. `run` executes the scenario's tools, but not the
    loop's own.
    """
    settings = settings_of(scenario, 0)
    return Conversation(
        turns=tuple(map(user_message, scenario.turns)),
        tools=tuple(
            ConversationTool(tool.name, tool.description, tool.arguments_schema, run)
            for tool in scenario.tools
            if tool.answered_by == "scenario"
        ),
        system=scenario.system or None,
        stream=variant == "stream",
        tool_choice=settings.choice(),
        response_format=settings.format(),
        max_tokens=settings.max_tokens,
        thinking=settings.reasoning(),
        temperature=settings.temperature,
        max_answers=scenario.max_iterations,
    )


def with_final_calls(scenario: Scenario, final: FinalCall) -> Scenario:
    """Return the scenario with the final text of each turn replaced by a call of `final.tool`."""
    return scenario.model_copy(update={"turns": [_with_final_call(turn, final) for turn in scenario.turns]})


def _with_final_call(turn: TurnSpec, final: FinalCall) -> TurnSpec:
    *before, last = turn.model
    if last.calls or not last.text:
        return turn
    arguments = {**final.others, final.argument: last.text}
    ended = last.model_copy(update={"text": None, "calls": [{final.tool: arguments}]})
    return turn.model_copy(update={"model": [*before, ended], "ends_with_call": True})


def why_not_drivable(scenario: Scenario, capabilities: AbstractSet[Capability]) -> str | None:
    """Return why a tool loop with these capabilities cannot run a scenario, or `None` if it can."""
    if scenario.embeddings is not None:
        return "embeddings are no conversation"
    if Capability.ASYNC_TOOLS in scenario.requires:
        return "a loop is given each result at once"
    if any(re.fullmatch(_TOOL_NAME, tool.name) is None for tool in scenario.tools):
        return "APIs refuse the name of a tool, and the application chooses another"
    if scenario.history:
        return "a loop begins its conversations itself, and this one continues another"
    if scenario.trim is not None or scenario.kept_by_provider:
        return "a loop decides itself what it leaves out of a history"
    if unseen := sorted(UNOBSERVABLE.intersection(scenario.requires)):
        return f"what a loop makes of it is not seen from outside: {', '.join(unseen)}"
    returns_answers = Capability.ANSWERS in capabilities
    why_not = _why_not_turns(scenario, capabilities) or _why_not_answers(scenario, returns_answers=returns_answers)
    return why_not or _why_not_failures(scenario, capabilities)


def _why_not_turns(scenario: Scenario, capabilities: AbstractSet[Capability]) -> str | None:
    every = [settings_of(scenario, index) for index in range(len(scenario.turns))]
    if any("system" in turn.model_fields_set for turn in scenario.turns):
        return "a loop is given one system prompt, and here it changes"
    if any(tool.from_turn for tool in scenario.tools):
        return "a loop is given its tools once, and here one is added"
    if any(settings != every[0] for settings in every):
        return "a loop is given its settings once, and here they change"
    temperature = None if Capability.TEMPERATURE in capabilities else every[0].temperature
    if every[0].cache or any(each is not None for each in (temperature, every[0].top_p, every[0].stop)):
        return "a loop is given no word for these settings"
    return None


def _why_not_answers(scenario: Scenario, *, returns_answers: bool) -> str | None:
    if scenario.undeclared_tools:
        return "a loop decides itself how to answer a call of an unknown tool"
    steps = [step for turn in scenario.turns for step in turn.model]
    if any(step.truncated for step in steps[:-1]):
        return "a loop decides itself how to continue after a truncated answer"
    for step in steps:
        is_last_answer = returns_answers and step is steps[-1] and step.stop in _ENDS_BEFORE_THE_ANSWER and not step.raw
        if (step.refusal is not None or step.stop is not None or step.raw) and not is_last_answer:
            return "a loop decides itself how to continue after a refused or truncated answer"
        if not step.text and not step.calls and step.refusal is None:
            return "a loop decides itself whether to repeat a request after an empty answer"
    return None


_ENDS_BEFORE_THE_ANSWER = (None, StopReason.MAX_TOKENS, StopReason.REFUSAL)
"""Stop reasons after which a loop has no further request to send. `None` is that of a refusal."""


def _why_not_failures(scenario: Scenario, capabilities: AbstractSet[Capability]) -> str | None:
    failures = [fault for fault in scenario.faults if fault.fails or fault.body is not None]
    if not failures:
        fails = any(turn.expect is not None and turn.expect.error is not None for turn in scenario.turns)
        return "it ends in an error, which only the loop's caller sees" if fails else None
    if Capability.ANSWERS in capabilities:
        return None
    if not all(map(is_cured_by_retry, failures)):
        return "it ends in a failure, which only the loop's caller sees"
    return None if Capability.RETRIES in capabilities else f"the loop does not have: {Capability.RETRIES.value}"


def is_cured_by_retry(fault: FaultSpec) -> bool:
    """Return whether an immediate retry of the same request would succeed."""
    if fault.status is None:
        return False
    again = fault.status >= HTTPStatus.INTERNAL_SERVER_ERROR or fault.status == HTTPStatus.TOO_MANY_REQUESTS
    return again and (fault.retry_after or 0.0) <= _MAX_RETRY_SECONDS


VARIANTS: tuple[Variant, ...] = ("whole", "stream")


def cells(
    scenarios: Sequence[Scenario], targets: Sequence[Target], variants: Sequence[Variant] = VARIANTS
) -> list[Cell]:
    """Return a cell for each scenario, target and applicable variant, in the order of the scenarios."""
    return [
        Cell(scenario, target, variant)
        for scenario in scenarios
        for target in targets
        for variant in _variants_of(scenario, target, variants)
    ]


def scenarios_of(cells: Iterable[Cell]) -> Iterator[Scenario]:
    """Yield the scenarios of the cells without duplicates, in order."""
    yield from {cell.scenario.id: cell.scenario for cell in cells}.values()


def _variants_of(scenario: Scenario, target: Target, variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants to run.

    If the adapter cannot stream, return only the whole variant. If the scenario or the user excludes that one, return
    the streamed variant, which is later reported as not applicable.
    """
    wanted: list[Variant] = [each for each in variants if scenario.variants is None or each in scenario.variants]
    if "whole" in wanted and Capability.STREAMING not in target.adapter.capabilities:
        return ["whole"]
    return wanted


def _why_only_clients(scenario: Scenario) -> str | None:
    if any(tool.answered_by == "client" for tool in scenario.tools):
        return "its tools are answered by what runs it: 'harness serve' or '--agent-command'"
    if any(turn.ends_with_call for turn in scenario.turns):
        return "a turn ends with a call, as only clients with a loop of their own do: 'harness serve', '--conversation'"
    return None


def _why_absent(scenario: Scenario, api: str) -> str | None:
    if scenario.provider_tools and api not in scenario.provider_tools:
        return f"the scenario has no tool that the provider of {api} runs"
    if scenario.apis_with_fields and api not in scenario.apis_with_fields:
        return f"the API {api} has no field for it"
    return None


def _why_without_refusals(scenario: Scenario, target: Target) -> str | None:
    server = server_of(target.api, target.service)
    has_refusal = any(step.refusal is not None for turn in scenario.turns for step in turn.model)
    if server is None or server.has_refusals or not has_refusal:
        return None
    return f"the messages of {server.name} have no field for a refusal"


def _why_refused(scenario: Scenario, target: Target) -> str | None:
    """Return why a compatible server refuses the verbatim fields, tools or parts of a scenario, or `None` if it is not
    known to."""
    api, name = registry.api(target.api), target.api
    builder, minimal = api.request_builder, api.minimal_request
    fields, given = scenario.settings.fields.get(name, {}), scenario.provider_tools.get(name, [])
    entries = [*_entries(scenario, name)] if builder is not None and builder.takes_entries else []
    if target.service is None or builder is None or minimal is None or not (fields or given or entries):
        return None
    request = ChatRequest(target.model, [Message.user("Hello.")], scenario.system, tools(scenario))
    plain = builder.write(request, builder.bounds[0])
    offered: dict[str, JSON] = {"tools": [*as_list(plain.get("tools")), *given]} if given else {}
    whole: dict[str, JSON] = {**plain, **offered, **fields}
    whole[builder.conversation] = [*as_list(whole[builder.conversation]), *entries]
    rule_set = api.services.rules_of(target.profile, target.service, target.model)
    before, found = (
        [each for each in api.judge(_request(target, minimal.path, body), rule_set) if each.severity == "error"]
        for body in (plain, whole)
    )
    rules = {each.rule for each in before}
    refused = next((each for each in found if each.rule not in rules), None)
    return None if refused is None else f"{target.service} refuses what it sends: {refused.message} ({refused.rule})"


def _request(target: Target, path: str, body: Mapping[str, JSON]) -> HttpRequest:
    return HttpRequest("POST", target.url + path, {}, json.dumps(body).encode())


def _entries(scenario: Scenario, api: str) -> Iterator[JSON]:
    """Yield the parts of a scenario that only this API has."""
    for turn in scenario.turns:
        parts = [] if isinstance(turn.user, str) else turn.user
        yield from (part.raw[api] for part in parts if part.raw and api in part.raw)
        yield from (raw for step in turn.model for raw in step.raw.get(api, ()))


def not_applicable(cell: Cell, mode: Mode) -> str | None:
    """Return why a cell cannot run in a mode, or `None` if it can."""
    absence = not_applicable_reason(cell, mode)
    return None if absence is None else absence.reason


@dataclass(frozen=True, slots=True)
class NotApplicableReason:
    """The reason why a cell cannot run. `lacking` is `None` if neither API, model nor adapter is the reason."""

    reason: str
    lacking: Lacking | None = None

    def result(self, result: CellResult) -> CellResult:
        """Return the result as not applicable."""
        return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=self.reason, lacking=self.lacking)


def not_applicable_reason(cell: Cell, mode: Mode) -> NotApplicableReason | None:
    """Return why a cell cannot run in a mode and what lacks the feature, or `None` if it can run."""
    scenario, target = cell.scenario, cell.target
    if target.adapter.drive is not None and (reason := why_not_drivable(scenario, target.adapter.capabilities)):
        return NotApplicableReason(reason, Lacking.ADAPTER)
    reason = _why_absent(scenario, target.api) or _why_without_refusals(scenario, target)
    if reason := reason or _why_refused(scenario, target):
        return NotApplicableReason(reason, Lacking.API)
    required = set(scenario.requires)
    if cell.variant == "stream":
        required.add(Capability.STREAMING)
    by_adapter = sorted(required - target.adapter.capabilities)
    if by_adapter:
        return NotApplicableReason(
            f"the adapter {target.adapter.name!r} does not have: {', '.join(by_adapter)}", Lacking.ADAPTER
        )
    by_profile = sorted(required & target.profile.lacks)
    if by_profile:
        reason = f"{target.model} (profile {target.profile.name}) does not have: {', '.join(by_profile)}"
        return NotApplicableReason(reason, Lacking.MODEL)
    if scenario.profiles is not None and target.profile.name not in scenario.profiles:
        return NotApplicableReason(f"it is only for the profiles {', '.join(scenario.profiles)}", Lacking.MODEL)
    foreign = sorted(each for each in scenario.provocations if each not in registry.api(target.api).provocations)
    if foreign:
        return NotApplicableReason(
            f"the API {target.api} has nothing that could do it: {', '.join(foreign)}", Lacking.API
        )
    if target.adapter.drive is None and (reason := _why_only_clients(scenario)):
        return NotApplicableReason(reason)
    if scenario.scripted and mode == "live":
        return NotApplicableReason("scripted: no model does this on request, so it is never sent to a provider")
    return _NOT_RECORDED if scenario.uncommon_names and mode == "replay" else None


_NOT_RECORDED = NotApplicableReason(
    "an adapter that declines a tool's name sends nothing to record: see --mode reference"
)
