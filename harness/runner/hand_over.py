"""Hand-overs: a conversation that ran on one target is continued on another.

The first target plays a whole scenario. Its history is cut before the last answer or the last user turn, and the second
target continues from there against the reference server. The rules judge the second target's requests, and
`harness.runner.hand_over_outcome` determines what became of the subject of the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, TypeAlias

from harness.apis.registry import Target
from harness.model.errors import InvalidRequest, Unsupported
from harness.model.messages import JSON, Message, Part, ToolCall, ToolResult
from harness.model.protocols import Capability
from harness.results import Exchange, Verdict
from harness.runner.cells import Cell, HandedHistory, NoHistory
from harness.runner.tool_loop import ScenarioRun
from harness.scenarios.schema import HistoryMessage, Scenario, Settings, StepSpec, TurnSpec

Cut: TypeAlias = Literal["turn", "results", "calls"]
"""Place of the cut: before the last user turn, after the last results, or after the last calls, whose results are
then missing."""

Ids: TypeAlias = Literal["own", "long", "illegal", "composite", "absent", "repeated"]
"""Form of the call ids that the first target's server issued."""

Subject: TypeAlias = Literal[
    "texts",
    "call ids",
    "results",
    "error flags",
    "media",
    "reasoning",
    "opaque state",
    "unanswered calls",
    "tool names",
    "refusals",
    "cut answers",
]


@dataclass(frozen=True, slots=True)
class HandOverCase:
    """A kind of conversation to hand over: a scenario, the place of the cut, and the forms of ids and tool names."""

    name: str
    scenario: str
    subject: Subject
    cut: Cut = "turn"
    ids: Ids = "own"
    tool_name: str | None = None


CASES = (
    HandOverCase("ids-own", "call-parallel-twice", "call ids"),
    HandOverCase("ids-own-results", "call-parallel-same-tool", "call ids", "results"),
    HandOverCase("ids-long", "call-parallel-twice", "call ids", ids="long"),
    HandOverCase("ids-illegal", "call-parallel-twice", "call ids", ids="illegal"),
    HandOverCase("ids-composite", "call-parallel-same-tool", "call ids", "results", ids="composite"),
    HandOverCase("ids-absent", "call-parallel-twice", "call ids", ids="absent"),
    HandOverCase("ids-repeated", "call-parallel-twice", "call ids", ids="repeated"),
    HandOverCase("reasoning-past", "thinking-two-turns", "reasoning"),
    HandOverCase("reasoning-results", "thinking-tool-loop", "reasoning", "results"),
    HandOverCase("state-past", "thinking-parallel-calls", "opaque state"),
    HandOverCase("state-results", "thinking-parallel-calls", "opaque state", "results"),
    HandOverCase("provider-tools", "history-opaque-parts", "opaque state"),
    HandOverCase("media-user", "image-from-user", "media"),
    HandOverCase("media-file", "file-from-user", "media"),
    HandOverCase("media-result", "result-image", "media"),
    HandOverCase("media-result-last", "result-image", "media", "results"),
    HandOverCase("error-text", "result-error", "error flags", "results"),
    HandOverCase("error-object", "result-error-object", "error flags"),
    HandOverCase("results-json", "result-object", "results", "results"),
    HandOverCase("unanswered", "call-single", "unanswered calls", "calls"),
    HandOverCase("unanswered-thinking", "thinking-tool-loop", "unanswered calls", "calls"),
    HandOverCase("cut-call", "call-truncated-next-turn", "unanswered calls"),
    HandOverCase("cut-text", "stop-max-tokens", "cut answers"),
    HandOverCase("refusal", "stop-refusal", "refusals"),
    HandOverCase("name-dotted", "call-single", "tool names", "results", tool_name="tools.weather:now"),
    HandOverCase("name-long", "call-single", "tool names", "results", tool_name="t" * 65),
)

CASE_SCENARIOS = frozenset(case.scenario for case in CASES)
"""Ids of the scenarios that the cases use."""

_DEMANDS = frozenset({Capability.TOOLS, Capability.SYSTEM_PROMPT})
"""Capabilities that the second target also needs. All other capabilities that the scenario requires are needed by the
first target only.
"""

_NEXT = TurnSpec(
    user="Thank you. Say that once more, in one sentence.",
    model=[StepSpec(text="Here it is again, in one sentence.")],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverCell(Cell):
    """A cell whose conversation begins on the target `source`. `start` is the scenario that `source` plays."""

    source: Target
    case: HandOverCase
    start: Scenario

    @property
    def first(self) -> Cell:
        """The cell that `source` plays."""
        return Cell(self.start, self.source, "whole")

    def continued(self, history: HandedHistory) -> Cell:
        """Return the cell that the second target plays."""
        return Cell(self.scenario, self.target, self.variant, history)


def hand_over_cells(
    scenarios: Iterable[Scenario], chosen: Sequence[Target], others: Sequence[Target]
) -> list[HandOverCell]:
    """Return a cell for each case and each ordered pair of targets of which at least one is among the `chosen`."""
    known = list({target.name: target for target in (*chosen, *others)}.values())
    names = {target.name for target in chosen}
    cases = [(case, scenario) for scenario in scenarios for case in cases_of(scenario)]
    return [
        HandOverCell(_rest(start, case, source, target), target, "whole", source=source, case=case, start=start)
        for case, scenario in cases
        for start in [_renamed(scenario, case.tool_name)]
        for source, target in product(known, known)
        if source.name != target.name and names & {source.name, target.name}
    ]


def cases_of(scenario: Scenario) -> list[HandOverCase]:
    """Return the cases that use a scenario. Any other scenario with turns is a case of its own."""
    found = [case for case in CASES if case.scenario == scenario.id]
    return found if found or not scenario.turns else [HandOverCase(scenario.id, scenario.id, "texts")]


def _renamed(scenario: Scenario, name: str | None) -> Scenario:
    """Return the scenario with its only tool renamed."""
    if name is None:
        return scenario
    tool = scenario.tools[0]
    turns = [
        turn.model_copy(update={"expect": None, "model": [_calling(step, tool.name, name) for step in turn.model]})
        for turn in scenario.turns
    ]
    return scenario.model_copy(update={"tools": [tool.model_copy(update={"name": name})], "turns": turns})


def _calling(step: StepSpec, old: str, new: str) -> StepSpec:
    calls = [{new if name == old else name: arguments for name, arguments in call.items()} for call in step.calls]
    return step.model_copy(update={"calls": calls})


def _rest(scenario: Scenario, case: HandOverCase, source: Target, target: Target) -> Scenario:
    """Return the scenario that the second target plays: a placeholder history, and the turn or answer after the cut."""
    lacks = set(Capability) - target.adapter.capabilities | target.profile.lacks
    turn = scenario.turns[-1]
    if case.cut == "results":
        turn = turn.model_copy(update={"model": turn.model[-1:], "expect": None})
    elif case.cut == "calls" or len(scenario.turns) == 1:
        turn = _NEXT
    changes: dict[str, object] = {
        "id": f"{case.name}-after-{source.name}",
        "title": f"{case.subject} of a conversation with {source.name}",
        "requires": [Capability.HISTORY, *(each for each in scenario.requires if each in _DEMANDS)],
        "history": [HistoryMessage(role="user", text=f"A conversation with {source.name}.")],
        "turns": [turn],
        "profiles": None,
        "provider_tools": {} if Capability.PROVIDER_TOOLS in lacks else scenario.provider_tools,
    }
    if Capability.THINKING in lacks:
        changes["settings"] = scenario.settings.model_copy(update={"thinking": None})
        changes["turns"] = [_without_thinking(turn)]
    return scenario.model_copy(update=changes)


def _without_thinking(turn: TurnSpec) -> TurnSpec:
    settings: Settings | None = turn.settings and turn.settings.model_copy(update={"thinking": None})
    steps = [step.model_copy(update={"thinking": None}) for step in turn.model]
    return turn.model_copy(update={"settings": settings, "model": steps})


# --- the history ---

_REFUSALS = (Unsupported.__name__, InvalidRequest.__name__)


def no_history(cell: HandOverCell, reason: str, verdict: Verdict = Verdict.NOT_APPLICABLE) -> NoHistory:
    """Return why the first target cannot begin the conversation."""
    return NoHistory(verdict, f"{cell.source.name} cannot begin this conversation: {reason}")


def handed_history(cell: HandOverCell, run: ScenarioRun, last: Exchange | None) -> HandedHistory | NoHistory:
    """Return the history that the first target's run leaves. There is none if a chat failed."""
    failed = next((chat for chat in run.chats if chat.response is None), None)
    if failed is not None or not run.chats:
        said = f"{failed.error}: {failed.error_text}" if failed else "it sends no request"
        is_refused = failed is not None and failed.error in _REFUSALS
        return no_history(cell, said, Verdict.NOT_APPLICABLE if is_refused else Verdict.ERROR)
    ending = run.chats[-1]
    cut = cell.case.cut
    if cut == "turn" and len(cell.start.turns) > 1:
        *before, opening = next(chat for chat in run.chats if chat.turn == ending.turn).request.messages
    elif cut == "results":
        *before, opening = ending.request.messages
    elif cut == "calls":
        before, opening = list(ending.request.messages[:-1]), Message.user(str(_NEXT.user))
    else:
        assert ending.response is not None  # noqa: S101 - checked above
        before, opening = [*ending.request.messages, ending.response.message], Message.user(str(_NEXT.user))
    *messages, opening = _with_ids((*before, opening), cell.case.ids)
    return HandedHistory(tuple(messages), opening, last)


def _with_ids(messages: Sequence[Message], form: Ids) -> Sequence[Message]:
    """Return the messages as if the first target's server had issued ids of another form."""
    if form == "own":
        return messages
    ids: dict[str, str] = {}
    for message in messages:
        for place, call in enumerate(message.tool_calls):
            ids[call.id] = _id(form, call.name, len(ids), place)
    return [Message(message.role, tuple(_part_with_ids(part, ids) for part in message.parts)) for message in messages]


def _id(form: Ids, name: str, number: int, place: int) -> str:
    match form:
        case "long":
            return f"call-9f1c2d3e-4b5a-6978-8796-a5b4c3d2e1f0-session-7731-branch-main-turn-0012-{number}"
        case "illegal":
            return f"functions.{name}:{number}"
        case "composite":
            return f"call_{number:024}|fc_{number:048x}"
        case "repeated":
            return f"call_{place}"
        case _:
            return ""


def _part_with_ids(part: Part, ids: Mapping[str, str]) -> Part:
    match part:
        case ToolCall():
            return replace(part, id=ids[part.id], provider_metadata=_metadata_with_ids(part.provider_metadata, ids))
        case ToolResult():
            return replace(part, call_id=ids.get(part.call_id, part.call_id))
        case _:
            return part


def _metadata_with_ids(metadata: Mapping[str, JSON], ids: Mapping[str, str]) -> dict[str, JSON]:
    """Replace the ids in wire fields. Remove the mark of a synthesised id, because the new id counts as issued by the
    server.
    """
    return {api: _value_with_ids(value, ids) for api, value in metadata.items() if api != "harness"}


def _value_with_ids(value: JSON, ids: Mapping[str, str]) -> JSON:
    if isinstance(value, dict):
        return {key: _value_with_ids(each, ids) for key, each in value.items()}
    if isinstance(value, list):
        return [_value_with_ids(each, ids) for each in value]
    return ids.get(value, value) if isinstance(value, str) else value
