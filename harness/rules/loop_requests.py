"""Checks of the requests of a tool loop, or of a client of `harness serve`.

The requests must contain the scenario's system prompt, tools, messages and settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, MediaView, RequestView, ResponseView, TextView, TurnView
from harness.equivalence import request_meaning
from harness.equivalence.request_meaning import is_model_name
from harness.equivalence.result_meaning import same_medium
from harness.equivalence.schema_changes import change
from harness.model.messages import JSON, File, Image, JsonSchema, StopReason, Text
from harness.model.protocols import Capability
from harness.results import DrivenTranscript, ServedTranscript, Severity, ToolRun
from harness.rules.chat_endings import is_retriable
from harness.rules.evidence import ClientRequest, Evidence
from harness.rules.rule import RuleViolation
from harness.rules.sent_requests import thinking_violations
from harness.scenarios.canonical import settings_of, system_of, user_message
from harness.scenarios.schema import Scenario, Settings, ToolSpec


@dataclass(frozen=True, slots=True)
class CutCall:
    """A call whose arguments were truncated, with the indices of its scripted answer and its exchange.

    `is_broken` is true if the stream ended too early. Otherwise the answer reached `max_tokens`.
    """

    answer: int
    exchange: int
    view: CallView
    is_broken: bool

    @property
    def when(self) -> str:
        """The cause of the truncation, as a clause for messages."""
        return "when its stream broke off" if self.is_broken else "when the answer reached max_tokens"


@dataclass(frozen=True, slots=True)
class LoopInputs:
    """The scenario of a loop or a client, and its requests, each with its turn."""

    evidence: Evidence
    transcript: ServedTranscript
    scenario: Scenario
    client_requests: tuple[tuple[ClientRequest, int], ...]

    @property
    def tools(self) -> list[ToolSpec]:
        """The tools whose results the scenario defines. The loop may have more."""
        return [tool for tool in self.scenario.tools if tool.answered_by == "scenario"]

    @property
    def driven(self) -> DrivenTranscript | None:
        """The transcript of a loop, or `None` for a client of `harness serve`."""
        return self.transcript if isinstance(self.transcript, DrivenTranscript) else None

    @property
    def cut_calls(self) -> list[CutCall]:
        """The truncated calls, except those that a retry of the stream completed."""
        return [
            CutCall(at, parsed.index, call, parsed.is_cut)
            for parsed in self.evidence.parsed_exchanges
            if (at := parsed.exchange.chat) is not None and parsed.response is not None
            if (self.evidence.answer(at) is None if parsed.is_cut else is_cut_off(parsed.response))
            for call in parsed.response.calls
            if call.malformed is not None
        ]

    def cut_call_of(self, run: ToolRun) -> CutCall | None:
        """Return the truncated call that may have triggered a tool run, if any."""
        named = (cut for cut in self.cut_calls if cut.view.name == run.name)
        return next((cut for cut in named if cut.answer < run.answers or cut.is_broken), None)

    @property
    def settings(self) -> Settings:
        """The settings of the first turn. Loops do not run scenarios that change settings."""
        return settings_of(self.scenario, 0)

    @property
    def first(self) -> Iterator[ClientRequest]:
        """Yield the first request of each turn, because settings may apply to the first answer only."""
        turns: set[int] = set()
        for req, turn in self.client_requests:
            if turn not in turns:
                turns.add(turn)
                yield req


def is_cut_off(answer: ResponseView) -> bool:
    """Return whether an answer reached `max_tokens` in the middle of a call."""
    return answer.stop_reason is StopReason.MAX_TOKENS and any(call.malformed is not None for call in answer.calls)


def ends_in_cut_call(evidence: Evidence) -> bool:
    """Return whether the last answer reached `max_tokens` in the middle of a call. A client may then raise, stop or
    retry."""
    transcript = evidence.transcript
    last = evidence.answer(transcript.played - 1) if isinstance(transcript, ServedTranscript) else None
    return last is not None and last.response is not None and is_cut_off(last.response)


def may_end_here(evidence: Evidence) -> bool:
    """Return whether a client may raise, stop or retry after the last answer: it has a truncated call, or a loop that
    returns its answers got a failure, a refusal or a truncated text.
    """
    transcript = evidence.transcript
    if ends_in_cut_call(evidence):
        return True
    if not isinstance(transcript, DrivenTranscript) or Capability.ANSWERS not in transcript.capabilities:
        return False
    last = next((each for each in reversed(evidence.parsed_exchanges) if not each.is_made_up), None)
    return last is not None and (last.answer is None or last.answer.stop_reason in EARLY_ENDS)


def may_wait(evidence: Evidence) -> bool:
    """Return whether a loop may still be waiting before it sends its last request again."""
    last = evidence.parsed_exchanges[-1] if evidence.parsed_exchanges else None
    is_error = last is not None and last.response is not None and last.response.error is not None
    return last is not None and is_error and is_retriable(last)


EARLY_ENDS = frozenset({StopReason.MAX_TOKENS, StopReason.REFUSAL})
"""Stop reasons of an answer that is not the whole answer to the user."""


def loop_inputs(evidence: Evidence) -> LoopInputs | None:
    """Return the scenario and the requests of a loop or of a client of `harness serve`. Return `None` if harness itself
    ran the conversation.
    """
    transcript = evidence.transcript
    if not isinstance(transcript, ServedTranscript) or transcript.scenario is None:
        return None
    turns = [turn for turn, spec in enumerate(transcript.scenario.turns) for _ in spec.model]
    requests = tuple((each, turns[each.index]) for each in evidence.client_requests)
    return LoopInputs(evidence, transcript, transcript.scenario, requests)


def texts(view: RequestView, role: str) -> list[str]:
    """Return the text of each turn of a role, with its parts joined."""
    return [_text_of(turn) for turn in view.turns if turn.role == role]


def _text_of(turn: TurnView) -> str:
    return "".join(part.text for part in turn.parts if isinstance(part, TextView))


def instructions(view: RequestView) -> str:
    """Return the text of all system prompts."""
    return "\n".join(system.text for system in view.system)


def missing_system_prompt(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a request without the system prompt.

    If a client of `harness serve` chooses its own system prompt, later requests may change it, but not leave it out.
    Neither a loop nor a client may repeat it.
    """
    if given.driven is None and given.scenario.system_from == "client":
        first = instructions(given.client_requests[0][0].view).strip() if given.client_requests else ""
        for req, _ in given.client_requests[1:] if first else ():
            if not req.view.stateful and not instructions(req.view).strip():
                yield req.parsed.violation("the system prompt of the first request is left out here", "", None, first)
            yield from _repeated_system_prompt(req, first)
        return
    for req, turn in given.client_requests:
        system, view = (system_of(given.scenario, turn) or "").strip(), req.view
        if system in instructions(view) or system in "".join(part.text for part in view.system):
            yield from _repeated_system_prompt(req, system)
            continue
        in_user_text = any(system in text for text in texts(view, "user"))
        where = "is in a user message" if in_user_text else "is nowhere in the request"
        place = view.system[0].pointer if view.system else ""
        yield req.parsed.violation(f"the system prompt {where}", place, instructions(view) or None, system)


def _repeated_system_prompt(req: ClientRequest, system: str) -> Iterator[RuleViolation]:
    """Report a line of a system prompt that the request contains more often than the system prompt does. Also report a
    user message with the whole system prompt.
    """
    sent = instructions(req.view)
    parts = [
        part for turn in req.view.turns if turn.role == "user" for part in turn.parts if isinstance(part, TextView)
    ]
    for part in parts if len(system) >= _MIN_LINE else ():
        if system in part.text:
            yield req.parsed.violation("the system prompt is also in a user message", part.pointer, part.text, "")
            return
    for line in dict.fromkeys(each.strip() for each in system.splitlines()):
        if len(line) >= _MIN_LINE and sent.count(line) > system.count(line):
            place = req.view.system[-1].pointer
            yield req.parsed.violation("the system prompt is repeated in this request", place, sent, system)
            return


_MIN_LINE = 12
"""Minimum number of characters of a line that is not repeated by chance."""


def missing_tools(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a tool that a request does not declare. Without any declarations the model cannot call a tool, which is
    right if the caller forbids calls, or if the loop wants a final answer.
    """
    for req, turn in given.client_requests:
        sent = [tool.name for tool in req.view.tools if tool.kind == "function"]
        if not sent and (given.settings.tool_choice == "none" or _ends_turn(given, req, turn)):
            continue
        if given.tools and not sent:
            names: list[JSON] = [tool.name for tool in given.tools]
            yield req.parsed.violation("the request declares no tools", "", None, names)
            continue
        for tool in given.tools:
            if tool.name not in sent:
                yield req.parsed.violation(f"the tool {tool.name} is not declared", "", [*sent], tool.name)


def _ends_turn(given: LoopInputs, req: ClientRequest, turn: int) -> bool:
    """Return whether a request, but not the first, is the last of its turn, so that the loop runs no calls after it."""
    indices = [other.index for other, number in given.client_requests if number == turn]
    return min(indices) < req.index == max(indices) and not given.scenario.turns[turn].ends_with_call


def changed_tools(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a declared tool that differs from the caller's."""
    for req, _ in given.client_requests:
        sent = {tool.name: tool for tool in req.view.tools if tool.kind == "function"}
        for tool in given.tools:
            view = sent.get(tool.name)
            if view is None:
                continue
            if tool.description.strip() not in (view.description or ""):
                message = f"the description of {tool.name} was changed"
                yield req.parsed.violation(message, view.pointer, view.description, tool.description)
            found = change(dict(tool.parameters), view.parameters, view.dialect)
            if found is not None:
                place = found.pointer or "/"
                message = f"the parameters of {tool.name} were changed at {place} of their schema{found.describe()}"
                yield req.parsed.violation(message, view.pointer, found.actual, found.expected)


def missing_messages(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report user and assistant messages that are missing from a request. Clients of `harness serve` may phrase their
    user messages freely, so these are not checked.
    """
    is_stateful = any(req.view.stateful for req, _ in given.client_requests)
    for req, turn in given.client_requests if not is_stateful else ():
        left_out = given.evidence.left_out_turns(req.index)
        if left_out:
            message = f"the oldest {left_out} of the {turn} earlier turns are left out"
            yield req.parsed.violation(message, severity=Severity.NOTE)
        first = given.evidence.first_answer_sent(req.index)
        answers = (given.evidence.answer(at) for at in range(first, req.index))
        views = [answer.response for answer in answers if answer is not None and answer.response is not None]
        yield from _missing_texts(req, "assistant", [view.text for view in views if not is_cut_off(view)])
        if given.driven is not None:
            parts = [part for each in given.scenario.turns[left_out : turn + 1] for part in user_message(each).parts]
            yield from _missing_texts(req, "user", [part.text for part in parts if isinstance(part, Text)])
            yield from _missing_media(req, given.scenario, turn)


def _missing_texts(req: ClientRequest, role: str, wanted: list[str]) -> Iterator[RuleViolation]:
    sent = texts(req.view, role)
    at, start = 0, 0  # after the last match: a text that is wanted twice must be sent twice
    for text in filter(None, map(str.strip, wanted)):
        places = ((index, each.find(text, start if index == at else 0)) for index, each in enumerate(sent[at:], at))
        found = next(((index, place) for index, place in places if place >= 0), None)
        if found is None:
            who = "the user" if role == "user" else "the model"
            yield req.parsed.violation(f"what {who} wrote is not in the request", "", [*sent], text)
        else:
            at, start = found[0], found[1] + len(text)


def _missing_media(req: ClientRequest, scenario: Scenario, turn: int) -> Iterator[RuleViolation]:
    sent = [part for each in req.view.turns for part in each.parts if isinstance(part, MediaView)]
    for spec in scenario.turns[: turn + 1]:
        for part in user_message(spec).parts:
            if isinstance(part, Image | File) and not any(same_medium(view, part) for view in sent):
                message = f"{'an image' if isinstance(part, Image) else 'a file'} of the user is not in the request"
                yield req.parsed.violation(message, "", [view.media_type for view in sent], part.media_type)


def changed_retries(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a request that is sent again after a failure with one of its texts repeated, or without the user's last
    message. It may differ in other ways, such as in its model or its settings.
    """
    for chat in range(given.transcript.script):
        for before, again in pairwise(given.evidence.exchanges(chat)):
            if before.request is None or again.request is None or not is_retriable(before):
                continue
            error = before.response.error if before.response is not None else None
            after = "a response that broke off" if error is None else f"status {error.status}"
            changed = _repeated_text(before.request, again.request) or _lost_message(before.request, again.request)
            if changed is not None:
                how, pointer, sent = changed
                yield again.violation(f"after {after}, the request is sent again {how}", pointer, sent)


def _repeated_text(before: RequestView, again: RequestView) -> tuple[str, str, JSON] | None:
    """Return a text that a request has more often than the one before, as a phrase with its pointer and its words.
    Repeated calls and results are refused by the provider.
    """
    for role, name in (("user", "the user's message"), ("assistant", "the model's answer")):
        for text in filter(None, map(str.strip, texts(before, role))):
            number = "\n".join(texts(again, role)).count(text)
            if number > "\n".join(texts(before, role)).count(text):
                pointers = [turn.pointer for turn in again.turns if turn.role == role and text in _text_of(turn)]
                return f"with {name} {_times(number)}", pointers[-1] if pointers else "", text
    for text in (system.text.strip() for system in before.system):
        number = instructions(again).count(text)
        if text and number > instructions(before).count(text):
            return f"with the system prompt {_times(number)}", again.system[-1].pointer, text
    return None


def _times(number: int) -> str:
    return "twice" if number == 2 else f"{number} times"


def _lost_message(before: RequestView, again: RequestView) -> tuple[str, str, JSON] | None:
    """Return that a request lacks the last text of the user that the one before has, like `_repeated_text`."""
    wanted = next((text.strip() for text in reversed(texts(before, "user")) if text.strip()), "")
    if any(wanted in text for text in texts(again, "user")):
        return None
    return "without the user's last message", "", [*texts(again, "user")]


def changed_settings(given: LoopInputs) -> Iterator[RuleViolation]:
    """Report a different model, a changed setting, or an unrequested stream."""
    for req in given.first:
        yield from _changed_values(given, req)
        yield from _changed_choice(given, req)
        problem = _missing_format(given, req.view)
        if problem is not None:
            yield req.parsed.violation(
                problem,
                "",
                None,
                "json-schema" if isinstance(given.settings.format(), JsonSchema) else "json",
                case="format",
            )
        if given.transcript.variant == "stream" and not req.view.stream:
            yield req.parsed.violation(
                "a streamed answer was requested from the client, but its request does not ask for a stream",
                case="stream",
            )


def _changed_values(given: LoopInputs, req: ClientRequest) -> Iterator[RuleViolation]:
    settings = given.settings
    yield from _changed_number(req, "max_tokens", settings.max_tokens)
    if not req.view.enables_reasoning:  # which some models do not accept together with a temperature
        yield from _changed_number(req, "temperature", settings.temperature)
    if settings.thinking is not None:
        yield from thinking_violations(req, settings.thinking.effort)
    if req.view.model is not None and not is_model_name(req.view.model, given.transcript.model):
        message = "the request names another model"
        yield req.parsed.violation(message, "", req.view.model, given.transcript.model, case="model")


def _changed_number(req: ClientRequest, name: str, wanted: float | None) -> Iterator[RuleViolation]:
    sent = req.view.settings.get(name)
    if wanted is not None and (sent is None or not equal(sent.value, wanted)):
        pointer, value = (sent.pointer, sent.value) if sent else ("", None)
        yield req.parsed.violation(f"{name} was changed or left out", pointer, value, wanted, case=name)


def _changed_choice(given: LoopInputs, req: ClientRequest) -> Iterator[RuleViolation]:
    """Report a tool choice that affects the scenario's tools differently from the scenario's own choice."""
    wanted = given.settings.choice()
    if wanted in (None, "auto"):
        return
    names = [tool.name for tool in given.tools]
    requested, found = (
        request_meaning.canonical_choice(wanted, names),
        request_meaning.wire_choice(req.view.tool_choice, names),
    )
    if not req.view.tools and not requested.forced:
        return
    if found is None or found.forced != requested.forced or found.tools & {*names} != requested.tools:
        message = "the tool choice of the request differs from the caller's"
        yield req.parsed.violation(
            message,
            req.view.tool_choice.pointer if req.view.tool_choice else "",
            request_meaning.describe_choice(found, names),
            request_meaning.describe_choice(requested, names),
            case="choice",
        )


def _missing_format(given: LoopInputs, view: RequestView) -> str | None:
    """Return a message if no field, tool or instruction of a request asks for the JSON format of the scenario."""
    wanted, sent = given.settings.format(), view.response_format
    if wanted is None:
        return None
    if isinstance(wanted, JsonSchema):
        native = sent is not None and change(wanted.schema, sent.schema, sent.dialect) is None
        tools = (tool for tool in view.tools if tool.kind == "function")
        if native or any(change(wanted.schema, tool.parameters, tool.dialect) is None for tool in tools):
            return None
        return "JSON with a schema was requested, but no part of the request has this schema"
    text = "\n".join([instructions(view), *texts(view, "user")])
    for own in (given.scenario.system, *(user_message(turn).text for turn in given.scenario.turns)):
        text = text.replace(own, "") if own else text
    is_requested = sent is not None or "json" in text.lower()
    return None if is_requested else "JSON was requested, but no part of the request asks for it"
