"""Hand-overs: a conversation that ran on one target is continued on another.

The first target runs a whole scenario. Its history is cut before the last answer or the last user turn, and the second
target continues from there against the reference server. The rules judge the second target's requests. The outcome
states whether the first request of the second target preserves the subject of the case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, TypeAlias

from harness.apis.registry import Target
from harness.apis.view import MediaView, OpaqueView, PartView, TextView
from harness.equivalence.result_meaning import same_medium
from harness.model.errors import InvalidRequest, Unsupported
from harness.model.http import HttpRequest
from harness.model.messages import JSON, File, Image, Message, Opaque, Part, Refusal, Thinking, ToolCall, ToolResult
from harness.model.protocols import Capability
from harness.results import (
    CellResult,
    Exchange,
    FindingBody,
    HandOver,
    HandOverOutcome,
    Kind,
    Severity,
    Verdict,
    verdict_of,
)
from harness.rules.call_matching import matched_calls
from harness.rules.evidence import ChatExchange, Evidence
from harness.rules.opaque_state import foreign_state
from harness.runner.cells import Cell, HandedHistory, NoHistory
from harness.runner.tool_loop import ScenarioRun
from harness.scenarios.schema import HistoryMessage, Scenario, Settings, StepSpec, TurnSpec, Variant

CutPlace: TypeAlias = Literal["turn", "results", "calls"]
"""Place of the cut: before the last user turn, after the last results, or after the last calls, whose results are
then missing."""

IdForm: TypeAlias = Literal["own", "long", "illegal", "composite", "absent", "repeated"]
"""Form of the call ids that the first target's server issued."""

HandOverSubject: TypeAlias = Literal[
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
    subject: HandOverSubject
    cut: CutPlace = "turn"
    ids: IdForm = "own"
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

_KEPT_REQUIREMENTS = frozenset({Capability.TOOLS, Capability.SYSTEM_PROMPT})
"""Capabilities that the second target also needs. All other capabilities that the scenario requires are needed by the
first target only.
"""

_NEXT_TURN = TurnSpec(
    user="Thank you. Say that once more, in one sentence.",
    model=[StepSpec(text="Here it is again, in one sentence.")],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverCell(Cell):
    """A cell whose conversation begins on the target `source`. `start` is the scenario that `source` runs."""

    source: Target
    case: HandOverCase
    start: Scenario

    @property
    def first(self) -> Cell:
        """The cell that `source` runs."""
        return Cell(self.start, self.source, self.variant)

    def continuation(self, history: HandedHistory) -> Cell:
        """Return the cell that the second target runs."""
        return Cell(self.scenario, self.target, self.variant, history)


def hand_over_cells(
    scenarios: Iterable[Scenario],
    chosen: Sequence[Target],
    others: Sequence[Target],
    variants: Sequence[Variant] = ("whole",),
) -> list[HandOverCell]:
    """Return a cell for each case and each ordered pair of targets of which at least one is among the `chosen`. Both
    run the same variant.
    """
    known = list({target.name: target for target in (*chosen, *others)}.values())
    names = {target.name for target in chosen}
    cases = [(case, scenario) for scenario in scenarios for case in cases_of(scenario)]
    return [
        HandOverCell(_continuation(start, case, source, target), target, variant, source=source, case=case, start=start)
        for variant in variants
        for case, scenario in cases
        for start in [_rename_tool(scenario, case.tool_name)]
        for source, target in product(known, known)
        if source.name != target.name and names & {source.name, target.name}
    ]


def cases_of(scenario: Scenario) -> list[HandOverCase]:
    """Return the cases that use a scenario. Any other scenario with turns is a case of its own."""
    found = [case for case in CASES if case.scenario == scenario.id]
    return found if found or not scenario.turns else [HandOverCase(scenario.id, scenario.id, "texts")]


def _rename_tool(scenario: Scenario, name: str | None) -> Scenario:
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


def _continuation(scenario: Scenario, case: HandOverCase, source: Target, target: Target) -> Scenario:
    """Return the scenario that the second target runs: a placeholder history, and the turn or answer after the cut."""
    lacks = set(Capability) - target.adapter.capabilities | target.profile.lacks
    runs_tools = target.adapter.api in scenario.provider_tools and Capability.PROVIDER_TOOLS not in lacks
    turn = scenario.turns[-1]
    if case.cut == "results":
        turn = turn.model_copy(update={"model": turn.model[-1:], "expect": None})
    elif case.cut == "calls" or len(scenario.turns) == 1:
        turn = _NEXT_TURN
    changes: dict[str, object] = {
        "id": f"{case.name}-after-{source.name}",
        "title": f"{case.subject} of a conversation with {source.name}",
        "requires": [Capability.HISTORY, *(each for each in scenario.requires if each in _KEPT_REQUIREMENTS)],
        "history": [HistoryMessage(role="user", text=f"A conversation with {source.name}.")],
        "turns": [turn],
        "profiles": None,
        "provider_tools": scenario.provider_tools if runs_tools else {},
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
        before, opening = list(ending.request.messages[:-1]), Message.user(str(_NEXT_TURN.user))
    else:
        assert ending.response is not None  # noqa: S101 - checked above
        before, opening = [*ending.request.messages, ending.response.message], Message.user(str(_NEXT_TURN.user))
    *messages, opening = _with_ids((*before, opening), cell.case.ids)
    return HandedHistory(tuple(messages), opening, last)


def _with_ids(messages: Sequence[Message], form: IdForm) -> Sequence[Message]:
    """Return the messages as if the first target's server had issued ids of another form."""
    if form == "own":
        return messages
    ids: dict[str, str] = {}
    for message in messages:
        for place, call in enumerate(message.tool_calls):
            ids[call.id] = _id(form, call.name, len(ids), place)
    return [Message(message.role, tuple(_part_with_ids(part, ids) for part in message.parts)) for message in messages]


def _id(form: IdForm, name: str, number: int, place: int) -> str:
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


_Found: TypeAlias = tuple[HandOverOutcome, str]

_PRESERVED, _TRANSLATED, _DROPPED, _REFUSED, _LOST = HandOverOutcome


def with_hand_over(cell: HandOverCell, result: CellResult, evidence: Evidence, history: HandedHistory) -> CellResult:
    """Return the result with the outcome of its hand-over. A finding that fails the cell shows both requests."""
    if cell.case.tool_name is not None:
        result = _with_name_excused(result, evidence, cell.case.tool_name)
    found = _outcome(cell, result, evidence, history)
    if found is None:
        reason = f"the history of {cell.source.name} has no {cell.case.subject}"
        return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason)
    outcome, reason = found
    hand_over = HandOver(cell.source.name, cell.case.name, cell.case.subject, outcome, reason)
    sent = evidence.transcript.exchanges[0].request if evidence.transcript.exchanges else None
    bodies = (
        *_body(f"the last request to {cell.source.name}", history.last and history.last.request),
        *_body(f"the request to {cell.target.name}", sent),
    )
    findings = tuple(replace(each, bodies=bodies) if each.fails else each for each in result.findings)
    return replace(result, hand_over=hand_over, findings=findings)


def _with_name_excused(result: CellResult, evidence: Evidence, name: str) -> CellResult:
    """Return the result with findings about the tool's name as warnings, because the caller chose it. The adapter may
    send it as it is, decline, or replace it everywhere.
    """
    about = [each for each in result.findings if each.kind is Kind.LIMIT and each.actual == name]
    excused = {"chat-refused"} if about else set[str]()
    if name in (evidence.transcript.chats[0].error_text or ""):
        excused.add("declared-and-declined")
    if evidence.chat_exchanges:
        view = evidence.chat_exchanges[0].view
        if view.calls and {call.name for call in view.calls} == {tool.name for tool in view.tools} != {name}:
            excused |= {"call-missing", "tools-declared"}
    findings = tuple(
        replace(each, severity=Severity.WARNING) if each in about or each.rule in excused else each
        for each in result.findings
    )
    return replace(result, findings=findings, verdict=verdict_of(findings))


def _body(end: str, request: HttpRequest | None) -> Iterator[FindingBody]:
    if request is not None:
        yield FindingBody(end, request.body.decode(errors="replace"))


def _outcome(cell: HandOverCell, result: CellResult, evidence: Evidence, history: HandedHistory) -> _Found | None:
    chat = evidence.transcript.chats[0]
    failing = next((each for each in result.findings if each.fails), None)
    if failing is not None:
        return _REFUSED if evidence.answer(0) is None else _LOST, failing.message
    if chat.response is None or not evidence.chat_exchanges:
        return _REFUSED, f"{chat.error}: {chat.error_text}"
    first = _FirstRequest(evidence, evidence.chat_exchanges[0], (*history.messages, history.opening))
    found = list(_FINDERS[cell.case.subject](first))
    return next((each for outcome in reversed(HandOverOutcome) for each in found if each[0] is outcome), None)


@dataclass(frozen=True, slots=True)
class _FirstRequest:
    """The first request of the second target, and the messages that it was given.

    Each method yields the outcomes of one subject.
    """

    evidence: Evidence
    req: ChatExchange
    messages: Sequence[Message]

    @property
    def sent(self) -> list[PartView]:
        """All parts of the conversation in the first request."""
        return [part for turn in self.req.view.turns for part in turn.parts]

    def ids(self) -> Iterator[_Found]:
        for expected, call in matched_calls(self.evidence, self.req):
            if call is None or not expected.foreign:
                continue
            if call.id == expected.id:
                yield _PRESERVED, "each call and its result keep their id"
            elif call.id is None:
                yield _TRANSLATED, "calls are sent without ids: results follow in the order of their calls"
            elif not expected.id:
                yield _TRANSLATED, f"a call without an id gets {call.id!r}, and so does its result"
            else:
                yield _TRANSLATED, f"{expected.id!r} becomes {call.id!r} in the call and in its result"

    def unanswered_calls(self) -> Iterator[_Found]:
        for expected, call in matched_calls(self.evidence, self.req):
            if not expected.foreign or expected.result is not None:
                continue
            if call is None:
                yield (
                    _DROPPED,
                    f"the call of {expected.name} is left out, because the API refuses calls without results",
                )
            elif self.evidence.pairing(self.req.view).of(call):
                yield _TRANSLATED, f"the call of {expected.name} gets a result with the text that there is no result"
            else:
                yield _PRESERVED, f"the call of {expected.name} is sent without a result"
        if any(isinstance(part, Opaque) for message in self.messages for part in message.parts):
            yield _DROPPED, "the call whose arguments are cut off is left out: it belongs to the other API"

    def names(self) -> Iterator[_Found]:
        sent = {call.name for call in self.req.view.calls}
        for call in (call for message in self.messages for call in message.tool_calls):
            if call.name in sent:
                yield _PRESERVED, f"the name {call.name!r} is sent as it is"
            else:
                yield _TRANSLATED, f"the name {call.name!r} is sent as {sorted(sent)}"

    def flags(self) -> Iterator[_Found]:
        for expected, call in matched_calls(self.evidence, self.req):
            results = self.evidence.pairing(self.req.view).of(call) if call is not None else ()
            if expected.foreign and expected.result is not None and expected.result.is_error and results:
                mark = results[0].error_mark
                if mark == "flag":
                    yield _PRESERVED, "the result has the API's field for errors"
                elif mark is not None:
                    yield _TRANSLATED, "the API has no field for errors: the result is sent under the key 'error'"

    def results(self) -> Iterator[_Found]:
        if any(message.tool_results for message in self.messages):
            yield _PRESERVED, "each result arrives with its call"

    def texts(self) -> Iterator[_Found]:
        if any(message.text for message in self.messages):
            yield _PRESERVED, "each text arrives as it was"

    def media(self) -> Iterator[_Found]:
        outside = [part for part in self.sent if isinstance(part, MediaView)]
        inside = [part for result in self.req.view.results for part in result.payload if isinstance(part, MediaView)]
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, Image | File):
                    yield _medium(part, outside, "the API does not accept this kind of file: its text is sent")
            for result in message.tool_results:
                for part in result.content if isinstance(result.content, tuple) else ():
                    if isinstance(part, Image | File):
                        moved = _medium(part, outside, "")[0] is _PRESERVED
                        said = "the API accepts only text in results: the image follows in a user message"
                        yield (_TRANSLATED, said) if moved else _medium(part, inside, "the image is sent as text")

    def reasoning(self) -> Iterator[_Found]:
        opaque = json.dumps([part.raw for part in self.sent if isinstance(part, OpaqueView)], ensure_ascii=False)
        texts = "\n".join(part.text for part in self.sent if isinstance(part, TextView))
        for part in (part for message in self.messages for part in message.parts if isinstance(part, Thinking)):
            if not part.text:
                continue
            if json.dumps(part.text, ensure_ascii=False)[1:-1] in opaque:
                yield _PRESERVED, "the reasoning is sent back where it was"
            elif part.text in texts:
                yield _TRANSLATED, "the reasoning is sent as text"
            elif self.req.view.api in part.provider_metadata:
                yield _DROPPED, "the reasoning belongs to this API and is left out"
            else:
                yield _DROPPED, "the reasoning is left out: it is another model's, and the API accepts only its own"

    def state(self) -> Iterator[_Found]:
        body = self.req.parsed.exchange.request.body.decode(errors="replace")
        for api, value in foreign_state(self.req.chat.request):
            if json.dumps(value)[1:-1] in body or value in body:
                yield _PRESERVED, "the state is sent back unchanged: it belongs to this API"
            elif api == self.req.view.api:
                yield _DROPPED, "the state belongs to this API and is left out"
            else:
                yield _DROPPED, f"state of {api} is left out: no other API can read it"

    def refusals(self) -> Iterator[_Found]:
        for part in (part for message in self.messages for part in message.parts if isinstance(part, Refusal)):
            if any(isinstance(each, TextView) and part.text in each.text for each in self.sent):
                yield _TRANSLATED, "the API has no refusals: the words are sent as text"
            elif any(
                isinstance(each, OpaqueView) and part.text in json.dumps(each.raw, ensure_ascii=False)
                for each in self.sent
            ):
                yield _PRESERVED, "the refusal is sent as a refusal"
            else:
                yield _DROPPED, "the refusal is left out"


def _medium(part: Image | File, sent: Sequence[MediaView], otherwise: str) -> _Found:
    if any(same_medium(each, part) for each in sent):
        return _PRESERVED, "the bytes arrive as they were"
    return _TRANSLATED, otherwise


_FINDERS: Mapping[HandOverSubject, Callable[[_FirstRequest], Iterator[_Found]]] = {
    "texts": _FirstRequest.texts,
    "cut answers": _FirstRequest.texts,
    "call ids": _FirstRequest.ids,
    "results": _FirstRequest.results,
    "error flags": _FirstRequest.flags,
    "media": _FirstRequest.media,
    "reasoning": _FirstRequest.reasoning,
    "opaque state": _FirstRequest.state,
    "unanswered calls": _FirstRequest.unanswered_calls,
    "tool names": _FirstRequest.names,
    "refusals": _FirstRequest.refusals,
}
