"""Rules for code with its own tool loop, and for clients of `harness serve`.

A library may word its requests freely, and add instructions, tools and settings. The user's input must be in the
requests, and each tool must run once per call. A truncated call must not run and must not get a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from harness.apis.jsonvalue import equal
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, OpaqueView, ResponseView, TextView
from harness.equivalence.result_meaning import reports_failure
from harness.model.messages import ChatResponse, Refusal, StopReason, Text, Usage
from harness.results import DrivenTranscript, Kind, ServedTranscript, Severity, ToolRun
from harness.rules.call_matching import match_calls
from harness.rules.chat_endings import is_retriable
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.loop_requests import (
    EARLY_ENDS,
    CutCall,
    LoopInputs,
    changed_retries,
    changed_settings,
    changed_tools,
    loop_inputs,
    may_end_here,
    may_wait,
    missing_messages,
    missing_system_prompt,
    missing_tools,
)
from harness.rules.rule import RuleTable, RuleViolation
from harness.scenarios.canonical import settings_of

RULES = RuleTable(Subject.TOOLS, "harness.model.protocols")

_LoopCheck: TypeAlias = Callable[[LoopInputs], Iterator[RuleViolation]]


def _loop_rule(
    name: str, requirement: str, *, of_clients: bool = False, **fields: Any
) -> Callable[[_LoopCheck], _LoopCheck]:
    """Return a decorator that adds a rule about loops and, with `of_clients`, about clients of `harness serve`."""

    def add(look: _LoopCheck) -> _LoopCheck:
        @RULES.add(name, requirement, **fields)
        def check(evidence: Evidence) -> Iterator[RuleViolation]:  # pyright: ignore[reportUnusedFunction]
            given = loop_inputs(evidence)
            if given is not None and (of_clients or given.driven is not None):
                yield from look(given)

        return look

    return add


_loop_rule(
    "loop-system",
    "Each request of a loop or a client contains its system prompt once.",
    subject=Subject.SYSTEM_PROMPT,
    because="the model does not know its instructions, or reads them several times",
    of_clients=True,
    remedy="put the system prompt into {system} once, in each request",
)(missing_system_prompt)
_loop_rule(
    "loop-tools-declared",
    "Each request of a loop declares all tools. A request for the final answer may declare none.",
    because="the model cannot call the tool, or the provider refuses the calls of earlier answers",
    remedy="declare all tools in {tools} of each request, also after results",
)(missing_tools)
_loop_rule(
    "loop-tools",
    "A loop declares its tools with their descriptions and schemas unchanged.",
    because="the model reads a wrong description of a tool",
    remedy="declare the tools in {tools} with their descriptions and schemas unchanged",
)(changed_tools)
_loop_rule(
    "loop-history",
    "Each request has the messages of the user and the model, in order.",
    subject=Subject.HISTORY,
    because="the model reads another conversation",
    of_clients=True,
    remedy="send all earlier messages of the user and the model with each request, unchanged and in order",
)(missing_messages)
_loop_rule(
    "loop-settings",
    "The first request of each turn has the model and the settings of the loop.",
    subject=Subject.REQUESTS,
    because="the model answers with other settings than the caller's",
    remedy="send the model and the settings that the loop was given with the first request of each turn",
)(changed_settings)


_loop_rule(
    "loop-retry-changed",
    "A request that is sent again after a failure has the same conversation.",
    subject=Subject.ERRORS,
    because="the model reads a message twice or not at all, and the conversation keeps the error",
    remedy="add messages to the conversation once, before the first attempt, and send that again",
)(changed_retries)


@dataclass(frozen=True, slots=True)
class _Call:
    answer: int
    exchange: int
    view: CallView


def _complete_calls(given: LoopInputs) -> list[_Call]:
    """Return the complete calls of all answers, including answers that were truncated in a later call."""
    names = {tool.name for tool in given.tools}
    parsed_exchanges = ((at, given.evidence.answer(at)) for at in range(given.transcript.played))
    return [
        _Call(at, parsed.index, call)
        for at, parsed in parsed_exchanges
        for call in (parsed.response.calls if parsed is not None and parsed.response is not None else ())
        if parsed is not None and call.malformed is None and call.name in names
    ]


_Pair: TypeAlias = tuple[ToolRun, _Call | None]


def pair_runs(given: LoopInputs) -> tuple[list[_Pair], list[_Call]]:
    """Pair each tool run with a call, and return the calls without a run.

    A run is paired with a call of the same name and arguments. If there is none, it is paired with a remaining call of
    the same name.
    """
    left = _complete_calls(given)
    pairs: list[_Pair] = []
    for exact in (True, False):
        again: list[_Pair] = []
        for run, of in pairs or [(run, None) for run in given.transcript.runs]:
            call = of or next((each for each in left if _fits(run, each, exact=exact)), None)
            left = [each for each in left if each is not call]
            again.append((run, call))
        pairs = again
    return pairs, left


def _fits(run: ToolRun, call: _Call, *, exact: bool) -> bool:
    same = run.name == call.view.name and call.answer < run.answers
    return same and (not exact or equal(run.arguments, call.view.arguments))


@_loop_rule(
    "tool-run-otherwise",
    "A tool is run with the arguments of the model's call.",
    because="the tool does something that the model did not ask for",
    remedy="run the tool with the arguments of the model's call, by its name and id",
)
def run_with_other_arguments(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a tool that ran with arguments other than the call's."""
    for run, call in pair_runs(given)[0]:
        if call is not None and not equal(run.arguments, call.view.arguments):
            yield RuleViolation(
                f"the tool {run.name} was run with different arguments than the model's",
                call.exchange,
                call.view.arguments_pointer,
                run.arguments,
                call.view.arguments,
                of_response=True,
            )


@_loop_rule(
    "tool-run-uncalled",
    "A tool runs only for a call of the model.",
    because="the tool does something that the model did not ask for",
    remedy="run a tool only for a call that the model has made",
)
def run_uncalled(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a tool that ran without a call."""
    for run, answered in _runs_without_call(given):
        if answered is None:
            yield RuleViolation(
                f"the tool {run.name} was run, although the model did not call it", actual=run.arguments
            )


@_loop_rule(
    "tool-run-again",
    "A tool is run once for each call of the model.",
    because="the tool does something twice that it should do once",
    remedy="run a tool once for each call",
)
def run_again(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a tool that ran again for a call that has a result."""
    for run, answered in _runs_without_call(given):
        if answered is not None:
            message = f"the tool {run.name} was run again for a call that already had its result"
            yield RuleViolation(message, answered.exchange, answered.view.pointer, run.arguments, of_response=True)


def _runs_without_call(given: LoopInputs) -> Iterator[_Pair]:
    """Yield the runs without a call, each with the earlier call that it repeats, if any."""
    pairs, _ = pair_runs(given)
    for run, call in pairs:
        if call is None and given.cut_call_of(run) is None:
            yield run, next((of for other, of in pairs if of is not None and _is_again(run, other, of)), None)


def _is_again(run: ToolRun, before: ToolRun, call: _Call) -> bool:
    return _fits(run, call, exact=False) and equal(run.arguments, before.arguments)


@_loop_rule(
    "tool-run-missing",
    "A tool that the model calls is run.",
    because="the model assumes that the tool ran, although it did not",
    remedy="run the tool that the model calls, and send its result",
)
def run_missing(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a call without a tool run.

    A call need not run if it ends its turn, was truncated, or precedes a truncated call. If the loop failed, a later
    request shows that it has run the tools of an answer. That request may be one that the provider refuses.
    """
    latest = max((req.index for req, _ in given.client_requests), default=0)
    parsed_exchanges = given.evidence.parsed_exchanges
    with_results = max(
        (each.index for each in parsed_exchanges if each.request is not None and each.request.results), default=0
    )
    failed = given.driven is None or given.driven.failure is not None
    ending = accumulate(len(turn.model) for turn in given.scenario.turns)
    left = {end - 1 for end, turn in zip(ending, given.scenario.turns, strict=True) if turn.ends_with_call}
    left |= {each.answer for each in given.cut_calls}
    for call in pair_runs(given)[1]:
        is_over = call.answer < latest or call.exchange < with_results or not failed
        if call.answer not in left and is_over:
            message = f"the model called {call.view.name}, but the tool was not run"
            yield RuleViolation(message, call.exchange, call.view.pointer, None, call.view.arguments, of_response=True)


@_loop_rule(
    "cut-call-run",
    "A tool is not run for a call that was cut off: the answer reached max_tokens, or its stream broke off.",
    because="a tool runs with half of its arguments",
    of_clients=True,
    remedy="before running a tool, check {stop} and that the stream is complete; drop a call that was cut off",
)
def cut_call_run(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a tool that ran for a truncated call."""
    for run, call in pair_runs(given)[0]:
        cut = given.cut_call_of(run) if call is None else None
        if cut is not None:
            message = f"the tool {run.name} was run for a call that was cut off {cut.when}"
            yield RuleViolation(message, cut.exchange, cut.view.arguments_pointer, run.arguments, of_response=True)


@_loop_rule(
    "cut-call-answered",
    "A call that was cut off by max_tokens or by the end of its stream is not sent back and has no result.",
    because="the model reads that its call failed, not that it was cut off, and writes the same call again",
    of_clients=True,
    remedy="leave a call that was cut off out of the history, and send no result for it",
)
def cut_call_answered(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a truncated call, or its result, in a later request. It is a convention if the result reports a failure:
    the model then writes the call again.
    """
    for cut in given.cut_calls:
        later = given.evidence.parsed_exchanges[cut.exchange + 1 :]
        yield from [violation for parsed in later for violation in _cut_call_in_request(given, cut, parsed)][:1]


def _cut_call_in_request(given: LoopInputs, cut: CutCall, parsed: ParsedExchange) -> Iterator[RuleViolation]:
    view, chat = parsed.request, parsed.exchange.chat
    if view is None:
        return
    expected = given.evidence.expected_calls(given.transcript.played if chat is None else chat)
    known = {id(call) for call in match_calls(expected, view)}
    calls = [call for call in view.calls if id(call) not in known and call.name == cut.view.name]
    results = [result for result in view.results if cut.view.id and result.call_id == cut.view.id]
    results += [result for call in calls for result in given.evidence.pairing(view).of(call)]
    if calls or results:
        how = "is answered with a result" if results else "is sent back"
        message = f"the call of {cut.view.name} {how}, and it was cut off {cut.when}"
        is_reported = bool(results) and all(map(reports_failure, results))
        kind = Kind.CONVENTION if is_reported else None
        yield parsed.violation(message, (*results, *calls)[0].pointer, kind=kind)


@_loop_rule(
    "loop-failed",
    "A loop completes the conversation unless a failure prevents it.",
    subject=Subject.ERRORS,
    because="the conversation breaks off",
    remedy="fix the cause of the exception: if no answer failed, the loop must complete the conversation",
)
def _failed_loop(given: LoopInputs) -> Iterator[RuleViolation]:
    driven = given.driven
    if driven is None or driven.failure is None:
        return
    is_waiting = driven.is_late and may_wait(given.evidence)
    if may_end_here(given.evidence) and (is_waiting or not driven.is_stopped):
        return
    yield RuleViolation(f"the conversation broke off: {driven.failure}")


@_loop_rule(
    "loop-elsewhere",
    "A loop sends its requests to the declared API.",
    subject=Subject.REQUESTS,
    because="those requests are not checked",
    remedy="send requests to `endpoint.base_url`, in the format of the API that the loop declares",
)
def _other_endpoints(given: LoopInputs) -> Iterator[RuleViolation]:
    for each in given.driven.elsewhere if given.driven is not None else ():
        yield RuleViolation(f"requests in another format than {given.transcript.api}: {each}")


def _returned_answers(given: LoopInputs) -> Iterator[tuple[int, ChatResponse]]:
    """Yield the answer that a loop returned for each turn, with the turn."""
    for turn, answer in enumerate(given.driven.answers if given.driven is not None else ()):
        if answer is not None and turn < len(given.scenario.turns) and not given.scenario.turns[turn].ends_with_call:
            yield turn, answer


def _final_answers(given: LoopInputs) -> Iterator[tuple[ChatResponse, ParsedExchange, ResponseView]]:
    """Yield what a loop returned for each turn, with the model's final answer of that turn."""
    lengths = [*accumulate(len(turn.model) for turn in given.scenario.turns)]
    for turn, answer in _returned_answers(given):
        parsed = given.evidence.answer(lengths[turn] - 1)
        if parsed is not None and parsed.answer is not None:
            yield answer, parsed, parsed.answer


def _visible_text(answer: ChatResponse) -> str:
    return " ".join(part.text for part in answer.message.parts if isinstance(part, Text | Refusal))


@_loop_rule(
    "loop-answer",
    "What a loop returns for a turn has the text of the model's final answer, without its reasoning.",
    subject=Subject.RESPONSES,
    because="the application shows something else than the model wrote",
    remedy="return all text of the model's final answer, or its refusal, and none of its reasoning",
)
def changed_text(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a final text that is not in the returned answer, and a refusal that is returned as an empty answer. Also
    report an answer that begins with the reasoning.

    An answer in JSON may be returned as a parsed value, so it is not compared. A loop may show the reasoning apart from
    the text, for example on a line of its own. A truncated text may be left out if a field or another text reports an
    error in its place.
    """
    for answer, parsed, wire in _final_answers(given) if given.settings.format() is None else ():
        shown = "".join(_visible_text(answer).split())
        is_replaced = wire.stop_reason in EARLY_ENDS and _reports_error_instead(answer, shown, wire)
        for part in wire.parts if not is_replaced else ():
            if isinstance(part, TextView) and "".join(part.text.split()) not in shown:
                message = "the model's final text is not in the answer that the loop returns"
                yield parsed.response_violation(message, part.pointer, answer.text, part.text)
        thoughts = "".join(wire.reasoning)
        if thoughts and wire.text and answer.text == thoughts + wire.text:
            message = "the answer that the loop returns begins with the model's reasoning"
            yield parsed.response_violation(message, "", answer.text, wire.text)
        if wire.refusal and not wire.text and not shown and answer.stop_reason not in EARLY_ENDS:
            pointer = next((part.pointer for part in wire.parts if isinstance(part, OpaqueView)), "")
            message = "the model refuses, and the loop returns an empty answer"
            yield parsed.response_violation(message, pointer, answer.text, wire.refusal)


def _reports_error_instead(answer: ChatResponse, shown: str, wire: ResponseView) -> bool:
    """Return whether an answer reports an error in a field, or may report it by a text of its own."""
    reported, is_own_text = answer.reported, shown not in "".join(wire.text.split())
    may_notice = reported.get("no-stop-reason") is True and reported.get("no-truncation") is not True
    return reported.get("error-field") is True or (is_own_text and may_notice)


@_loop_rule(
    "loop-stop-reason",
    "A loop does not report an answer as complete that was truncated or refused.",
    subject=Subject.RESPONSES,
    source="anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
    because="the application takes a part of an answer for the whole",
    remedy="return the reason in {stop}",
)
def wrong_stop_reason(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a truncated or refused answer with the stop reason of a complete one. A refusal with a text of its own is
    no such answer, because the application can show it.
    """
    for answer, parsed, wire in _final_answers(given):
        is_complete = answer.stop_reason is StopReason.END_TURN and answer.reported.get("no-stop-reason") is not True
        if is_complete and wire.stop_reason in EARLY_ENDS and not wire.refusal:
            word = answer.raw_stop_reason or answer.stop_reason.value
            yield parsed.response_violation(
                f"the model's answer ended with {wire.raw_stop_reason!r}, and the loop returns it as complete "
                f"({word!r})",
                "",
                word,
                wire.raw_stop_reason,
            )


@_loop_rule(
    "loop-stop-reason-missing",
    "What a loop returns for an answer that was truncated shows that it is incomplete.",
    subject=Subject.RESPONSES,
    source="anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
    because="the application takes a part of an answer for the whole",
    severity=Severity.WARNING,
    remedy="check the stop reason, and raise an exception or return the reason in {stop}",
)
def missing_stop_reason(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a truncated text that is returned alone, without a stop reason, a flag or a word about it. Also report an
    empty answer in place of a refusal that has no text.
    """
    for answer, parsed, wire in _final_answers(given):
        whole = "".join(wire.text.split())
        is_alone = all("".join(line.split()).replace(whole, "") in whole for line in answer.text.splitlines())
        is_silent = wire.stop_reason is StopReason.REFUSAL and not wire.refusal
        is_early = wire.stop_reason is StopReason.MAX_TOKENS if whole else is_silent
        if is_early and is_alone and answer.reported.get("no-truncation") is True:
            message = f"the model's answer ended with {wire.raw_stop_reason!r}, and the loop returns it as complete"
            yield parsed.response_violation(message, "", None, wire.raw_stop_reason)


@_loop_rule(
    "loop-usage",
    "The token counts that a loop returns are those of the last answer, or the sum for the turn or the conversation.",
    subject=Subject.RESPONSES,
    source="anthropic-usage, openai-chat-usage, openai-responses-usage, gemini-usage",
    because="the application computes other costs",
    remedy="read the counts from {usage} of each answer, and add them up",
)
def wrong_usage(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report token counts that are neither those of the last answer nor a sum. Cached and reasoning tokens may be
    counted separately.
    """
    every = [(each.index, each.answer) for each in given.evidence.parsed_exchanges if each.answer is not None]
    for answer, parsed, wire in _final_answers(given):
        before = [view.usage for index, view in every if index <= parsed.index]
        sums = [*accumulate(reversed(before))]
        for name, apart in (
            ("input_tokens", ("cache_read_tokens", "cache_write_tokens")),
            ("output_tokens", ("reasoning_tokens",)),
        ):
            known = {_count(each, name, apart) for each in sums} | {_count(each, name, ()) for each in sums}
            returned, on_wire = getattr(answer.usage, name), getattr(wire.usage, name)
            if returned is not None and on_wire is not None and returned not in known:
                message = f"{name} is neither that of the last answer nor a sum"
                yield parsed.response_violation(message, "", returned, on_wire)


def _count(usage: Usage, name: str, apart: tuple[str, ...]) -> int:
    return (getattr(usage, name) or 0) - sum(getattr(usage, each) or 0 for each in apart)


@_loop_rule(
    "loop-error",
    "A loop reports a failed request to its caller.",
    subject=Subject.ERRORS,
    because="the application takes the failure for an empty answer",
    remedy="raise the error of a failed request, or return it",
)
def hidden_error(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report an empty answer that is returned as complete after a request that failed, and the text of a stream that
    ended in an error. What a caller may learn in another way is not reported.
    """
    last = given.evidence.parsed_exchanges[-1] if given.evidence.parsed_exchanges else None
    if last is None or last.answer is not None or last.is_made_up:
        return
    error = last.response.error if last.response is not None else None
    if last.is_cut and error is None:
        return
    partial = last.response.text if last.response is not None and error is not None else ""
    for turn, answer in _returned_answers(given):
        is_named = answer.stop_reason not in (StopReason.END_TURN, StopReason.UNKNOWN)
        text = _visible_text(answer)
        is_partial = bool(partial) and not text.replace(partial, "").strip()
        if text and (not is_partial or answer.reported.get("errors-apart") is True):
            continue
        if turn == len(given.scenario.turns) - 1 and not is_named:
            why, case = ("the answer cannot be read", "unreadable: an empty answer")
            if error is not None:
                why, case = f"the provider answered with status {error.status}", None
            if text:
                why, case = "the stream ended with an error", "a part of a stream"
            what = "the text before it" if text else "an empty answer"
            message = f"{why}, but the loop returned {what} as if it were complete"
            yield last.response_violation(message, "", "a text" if text else "", "an error", case=case)


@_loop_rule(
    "loop-retry",
    "A loop does not repeat a request that the provider rejects as invalid.",
    subject=Subject.ERRORS,
    source="anthropic-error-body, openai-chat-error-body, openai-responses-error-codes, gemini-errors",
    because="the same request is rejected again; the user only waits longer",
    severity=Severity.WARNING,
    remedy="retry only after 408, 409, 429 and 5xx",
)
def repeated_request(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a request that is sent again unchanged after a status that a retry cannot change."""
    for before, again in pairwise(given.evidence.parsed_exchanges):
        error = before.response.error if before.response is not None else None
        is_same = before.exchange.request.body == again.exchange.request.body
        if given.driven is not None and error is not None and is_same and not is_retriable(before):
            yield again.violation(f"the same request is sent again after status {error.status}")


@RULES.add(
    "script-unplayed",
    "A client sends requests until the script is complete.",
    subject=Subject.REQUESTS,
    source="harness help serve",
    because="a part of the conversation is missing",
    remedy="send requests until an answer has no calls",
)
def _unfinished_script(evidence: Evidence) -> Iterator[RuleViolation]:
    transcript = evidence.transcript
    if not isinstance(transcript, ServedTranscript) or not transcript.ended or transcript.played == transcript.script:
        return
    if may_end_here(evidence):
        return
    left = transcript.script - transcript.played
    beside = f"; {transcript.beside} requests had none of its tools and none of its calls" if transcript.beside else ""
    message = f"the client stopped before {left} of the {transcript.script} answers of the script{beside}"
    yield RuleViolation(message, actual=transcript.played, expected=transcript.script)


@RULES.add(
    "client-tool-missing",
    "A client declares the tools that the scenario names.",
    source="harness help serve",
    because="the script calls a tool that the client does not have",
    remedy="declare the tool in {tools} under the scenario's name, or name the client's own tool in the scenario",
)
def _missing_tools(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report tools of the scenario that a client never declares. The rule `loop-tools-declared` covers
    loops."""
    transcript, scenario = evidence.transcript, evidence.transcript.scenario
    if not isinstance(transcript, ServedTranscript) or isinstance(transcript, DrivenTranscript) or scenario is None:
        return
    views = [parsed.request for parsed in evidence.parsed_exchanges if parsed.request is not None]
    declared = dict.fromkeys(tool.name for view in views for tool in view.tools)
    if not views or (not declared and settings_of(scenario, 0).tool_choice == "none"):
        return
    called = {name for turn in scenario.turns for step in turn.model for name, _ in step.named_calls}
    for tool in scenario.tools:
        if tool.name not in declared:
            arrived = f"the tools that arrived: {', '.join(declared)}" if declared else "no tools arrived"
            yield RuleViolation(
                f"the scenario names the tool {tool.name}, but the client does not declare it; {arrived}",
                actual=[*declared],
                expected=tool.name,
                severity=None if tool.name in called else Severity.WARNING,
            )


@RULES.add(
    "request-turned-away",
    "A request has a key, names an existing model, and uses only ids and signatures of earlier answers.",
    subject=Subject.LIMITS,
    source="harness help serve",
    kind=Kind.LIMIT,
    because="the provider refuses it before the model sees the conversation",
    remedy="send the key, name a model that exists, and send back only ids and signatures from earlier answers",
)
def _refused_requests(evidence: Evidence) -> Iterator[RuleViolation]:
    transcript = evidence.transcript
    for each in transcript.rejected_requests if isinstance(transcript, ServedTranscript) else ():
        yield RuleViolation(f"{each.request} is refused: {each.reason}")
