"""Matching of calls and results on the wire with the calls that the API issued, and checks of call ids.

An id that the API issued must not change. An id that the adapter creates must be marked and unique.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.apis.jsonvalue import equal
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, RequestView, ResponseView, ResultView
from harness.equivalence.result_meaning import contains_result, is_nothing, reports_failure, says_nothing
from harness.model.messages import SYNTHESISED_ID, ChatResponse, ToolCall, ToolResult
from harness.results import Kind, ServedTranscript, Severity
from harness.rules.evidence import ClientRequest, Evidence, ExpectedCall
from harness.rules.rule import RuleTable, RuleViolation

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that every API accepts (anthropic-tool-name-pattern, openai-chat-names, gemini-tool-name-form)."""


def is_named(sent: str, issued: str) -> bool:
    """Return whether a call or result has the issued name. If some API refuses the issued name, any name is accepted,
    because adapters have to change it.
    """
    return sent == issued or not _LEGAL_NAME.fullmatch(issued)


def match_calls(expected: tuple[ExpectedCall, ...], view: RequestView) -> list[CallView | None]:
    """Return the wire call for each expected call. It is found by issued id, by name and arguments, or by position
    among the calls with the same name. A call whose name is not accepted by every API is found by its id alone.
    """
    if len(expected) == len(view.calls) and all(map(_is_named, expected, view.calls)):
        return [*view.calls]  # the usual case
    issued: defaultdict[tuple[str | None, str], deque[CallView]] = defaultdict(deque)
    for call in view.calls:
        issued[call.id, call.name].append(call)
    found = [None if each.id is None else _take_call(issued[each.id, each.name], each) for each in expected]
    for place, each in enumerate(expected):
        if found[place] is None and each.id is not None and not _LEGAL_NAME.fullmatch(each.name):
            found[place] = next((call for call in view.calls if call.id == each.id), None)
    taken = {id(call) for call in found}
    named: defaultdict[str, deque[CallView]] = defaultdict(deque)
    for call in view.calls:
        if id(call) not in taken:
            named[call.name].append(call)
    for place, each in enumerate(expected):
        if found[place] is None:
            same = next((call for call in named[each.name] if equal(call.arguments, each.arguments)), None)
            if same is not None:
                found[place] = same
                named[each.name].remove(same)
    return [
        call if call is not None or not named[each.name] else named[each.name].popleft()
        for each, call in zip(expected, found, strict=True)
    ]


def _take_call(calls: deque[CallView], expected: ExpectedCall) -> CallView | None:
    """Return the first call with the expected arguments, or else the first call."""
    if not calls:
        return None
    same = next((call for call in calls if equal(call.arguments, expected.arguments)), calls[0])
    calls.remove(same)
    return same


def _is_named(expected: ExpectedCall, call: CallView) -> bool:
    return expected.id is not None and expected.id == call.id and expected.name == call.name


def matched_calls(evidence: Evidence, req: ClientRequest) -> Sequence[tuple[ExpectedCall, CallView | None]]:
    """Return the expected calls of a request, each with its wire call."""
    return evidence.compute_once(_match, req)


def _match(evidence: Evidence, req: ClientRequest) -> Sequence[tuple[ExpectedCall, CallView | None]]:
    expected = evidence.expected_calls(req.index)
    return tuple(zip(expected, match_calls(expected, req.view), strict=True))


@dataclass(frozen=True, slots=True)
class MatchedResult:
    """A call with a result: the result that the tool returned, and the first result on the wire.

    `is_own` is true if the two have the same meaning. `taken_from` is the call whose result was sent by mistake, if
    any.
    """

    expected: ExpectedCall
    given: ToolResult
    view: ResultView
    is_own: bool
    taken_from: ExpectedCall | None = None


def matched_results(evidence: Evidence, req: ClientRequest) -> Sequence[MatchedResult]:
    """Return the calls of a request that have results."""
    return evidence.compute_once(_match_results, req)


def _match_results(evidence: Evidence, req: ClientRequest) -> Sequence[MatchedResult]:
    pairing = evidence.pairing(req.view)
    found: list[MatchedResult] = []
    is_loop = isinstance(evidence.transcript, ServedTranscript)
    for one, call in matched_calls(evidence, req):
        results = pairing.of(call) if call is not None else ()
        if one.result is None or not results:
            continue
        taken_from: ExpectedCall | None = None
        is_own = contains_result(results[0], one.result, req.view, decode=is_loop)
        if not is_own:
            others = ((other, other.result) for other, _ in matched_calls(evidence, req) if other is not one)
            given = ((other, result) for other, result in others if result is not None)
            # a short error may occur in another result by chance
            taken_from = next(
                (o for o, r in given if contains_result(results[0], r, req.view, alone=True, decode=is_loop)), None
            )
            # some providers refuse an empty text, so clients write a text of their own, but it may not report a failure
            is_empty = not one.result.is_error and is_nothing(one.result)
            is_placeholder = is_loop or says_nothing(results[0])
            is_own = is_placeholder and taken_from is None and is_empty and not reports_failure(results[0])
        found.append(MatchedResult(one, one.result, results[0], is_own, taken_from))
    return found


def program_results(evidence: Evidence, req: ClientRequest) -> Iterator[tuple[ExpectedCall, ResultView]]:
    """Yield the calls of tools that the client program runs without harness, each with its first result on the wire."""
    if not isinstance(evidence.transcript, ServedTranscript):
        return
    pairing = evidence.pairing(req.view)
    for one, call in matched_calls(evidence, req):
        results = pairing.of(call) if call is not None and one.result is None else ()
        yield from ((one, each) for each in results[:1])


def cut_calls(wire: ResponseView, given: ChatResponse) -> list[tuple[CallView, ToolCall]]:
    """Return calls that the adapter returned although they are truncated or malformed on the wire."""
    left = list(given.tool_calls)
    for call in wire.calls:
        if call.malformed is None:
            whole = next(
                (c for c in left if _is_returned_as(call, c) and equal(dict(c.arguments), call.arguments)), None
            )
            left = [c for c in left if c is not whole]
    found: list[tuple[CallView, ToolCall]] = []
    for call in wire.calls:
        handed = next((c for c in left if _is_returned_as(call, c)), None) if call.malformed is not None else None
        if handed is not None:
            found.append((call, handed))
            left = [c for c in left if c is not handed]
    return found


def _is_returned_as(call: CallView, given: ToolCall) -> bool:
    return given.id == call.id if call.id else given.name == call.name


_IDS = "harness.model.messages: ids"
RULES = RuleTable(Subject.ID_MATCHING, _IDS)


@RULES.add(
    "call-id-changed",
    "An id that the API issued returns to it unchanged.",
    source="anthropic-call-fields, openai-chat-call-form, openai-responses-call-form, gemini-function-response-form",
    because="otherwise a result answers a call that the API never issued",
    remedy="send {call_id} back as the API issued it",
)
def _call_id_changed(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.client_requests:
        for expected, call in matched_calls(evidence, req):
            if call is None or expected.foreign or expected.id is None or call.id == expected.id:
                continue
            message = f"the call of {expected.name} was issued as {expected.id!r} and is sent back as {call.id!r}"
            yield req.parsed.violation(
                message,
                call.id_pointer,
                call.id,
                expected.id,
                severity=Severity.WARNING if _is_still_paired(evidence, req, expected, call) else None,
            )


def _is_still_paired(evidence: Evidence, req: ClientRequest, expected: ExpectedCall, call: CallView) -> bool:
    """Check that the call id is unique within its turn and that its result has the same id.

    Providers match ids within a request. Replacing an id on both call and result breaks nothing.
    """
    turn = next(turn for turn in req.view.turns if any(part is call for part in turn.parts))
    others = [part for part in turn.parts if isinstance(part, CallView) and part is not call]
    alike = (each.name == call.name and each.id is None if call.id is None else each.id == call.id for each in others)
    is_answered = expected.result is None or bool(evidence.pairing(req.view).of(call))
    return is_answered and not any(alike) and (call.id is not None or evidence.api.traits.ids_optional)


@RULES.add(
    "issued-id-lost",
    "The adapter returns the id that the API issued.",
    because="the caller has no id for the result",
    remedy="return {call_id} as `ToolCall.id`",
)
def _issued_id_lost(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report a call id that the adapter changed for the caller and does not map back to the issued id.

    It is an error only if the caller cannot use the id to distinguish the calls of the turn.
    """
    for index, chat in enumerate(evidence.transcript.chats):
        parsed = evidence.answer(index)
        if parsed is None or parsed.response is None or chat.response is None:
            continue
        issued = [call for call in parsed.response.calls if call.malformed is None]
        given_ids = [given.id for given in chat.response.tool_calls]
        for call, given in zip(issued, chat.response.tool_calls, strict=False):
            if call.id and given.id != call.id and not _is_mapped_back(evidence, index, call, given):
                message = f"the API issued {call.id!r} for {call.name}; the adapter returns {given.id!r}"
                yield parsed.response_violation(
                    message,
                    call.id_pointer,
                    given.id,
                    call.id,
                    severity=Severity.WARNING if _is_distinct(given, given_ids) else None,
                )


def _is_distinct(given: ToolCall, given_ids: list[str]) -> bool:
    """Check that the call's id is unique among the calls and was not created by the adapter."""
    mark = given.provider_metadata.get("harness")
    is_made_up = isinstance(mark, dict) and mark.get(SYNTHESISED_ID) is True
    return bool(given.id) and given_ids.count(given.id) == 1 and not is_made_up


def _is_mapped_back(evidence: Evidence, chat: int, call: CallView, given: ToolCall) -> bool:
    """Check that the adapter maps the caller's id back to the issued id in later requests."""
    later = [req for req in evidence.chat_exchanges if req.index > chat and not req.view.stateful]
    if not later:
        return call.id is not None and call.id in given.id
    return any(each.id == call.id and each.name == call.name for each in later[0].view.calls)


def _calls_without_id(evidence: Evidence) -> Iterator[tuple[int, CallView, ToolCall, frozenset[str]]]:
    """Yield each call without an id on the wire: exchange, wire call, decoded call, and ids that are already in use."""
    for index, chat in enumerate(evidence.transcript.chats):
        parsed = evidence.answer(index)
        if parsed is None or parsed.response is None or chat.response is None:
            continue
        issued = [call for call in parsed.response.calls if call.malformed is None]
        if all(call.id for call in issued):
            continue
        used = {call.id for message in chat.request.messages for call in message.tool_calls}
        for call, given in zip(issued, chat.response.tool_calls, strict=False):
            if not call.id:
                yield parsed.index, call, given, frozenset(used)
            used.add(given.id)


@RULES.add(
    "synthesised-id-unique",
    "An id that the adapter makes up is unique in the conversation.",
    because="two calls with one id cannot be distinguished",
    remedy="derive the id from the call's position in the history, so that no other call has it",
)
def _synthesised_not_unique(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, call, given, used in _calls_without_id(evidence):
        if not given.id or given.id in used:
            yield RuleViolation(
                f"{call.name} came without an id, and the one that the adapter made up is "
                f"{'empty' if not given.id else 'in use already'}",
                exchange,
                call.pointer,
                given.id,
                "an id that no other call of the conversation has",
                of_response=True,
            )


@RULES.add(
    "synthesised-id-marked",
    "An id that the adapter makes up is marked as synthesised.",
    kind=Kind.CONVENTION,
    because="this is only a convention: without the mark nothing is lost on the wire",
    remedy="mark an id that the adapter makes up as synthesised, in `provider_metadata`",
)
def _synthesised_not_marked(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, call, given, _ in _calls_without_id(evidence):
        mark = given.provider_metadata.get("harness")
        if not (isinstance(mark, dict) and mark.get(SYNTHESISED_ID) is True):
            message = (
                f"{call.name} came without an id, and the one that the adapter made up ({given.id!r}) is not marked as "
                "synthesised"
            )
            yield RuleViolation(message, exchange, call.pointer, mark, {SYNTHESISED_ID: True}, of_response=True)


@RULES.add(
    "synthesised-id-sent",
    "An id that the adapter made up is never sent as if the provider had issued it.",
    kind=Kind.CONVENTION,
    because="where ids are optional, providers accepted made-up ids in every recording",
    remedy="leave an id that the adapter made up out of the request",
)
def _synthesised_sent(evidence: Evidence) -> Iterator[RuleViolation]:
    if not evidence.api.traits.ids_optional:
        return
    for req in evidence.client_requests:
        pairing = evidence.pairing(req.view)
        for expected, call in matched_calls(evidence, req):
            if call is None or expected.foreign or expected.id is not None:
                continue
            if call.id is not None:
                message = f"the API issued no id for {expected.name}, and {call.id!r} is sent back as if it had"
                yield req.parsed.violation(message, call.id_pointer, call.id)
            for result in pairing.of(call):
                if result.call_id is not None:
                    message = f"the API issued no id for {expected.name}, and its result has {result.call_id!r}"
                    yield req.parsed.violation(message, result.id_pointer, result.call_id)


@RULES.add(
    "foreign-id-mapping",
    "Ids of another API map one-to-one, and always the same way.",
    because="otherwise a result answers another call",
    remedy="map each id of another API to one legal id, and use the same id in every request",
)
def _foreign_ids(evidence: Evidence) -> Iterator[RuleViolation]:
    mapped: dict[str, str | None] = {}
    for req in evidence.chat_exchanges:
        sent: dict[str, str] = {}
        for expected, call in matched_calls(evidence, req):
            if call is None or not expected.foreign or not expected.id:
                continue
            if mapped.setdefault(expected.id, call.id) != call.id:
                message = (
                    f"the id {expected.id!r} of the earlier history became {mapped[expected.id]!r} before and is "
                    f"{call.id!r} now"
                )
                # ids are unique per request, and no API issued these
                yield req.parsed.violation(message, call.id_pointer, call.id, mapped[expected.id], kind=Kind.CONVENTION)
            if call.id is not None and sent.setdefault(call.id, expected.id) != expected.id:
                message = (
                    f"the ids {sent[call.id]!r} and {expected.id!r} of the earlier history both became {call.id!r}"
                )
                yield req.parsed.violation(message, call.id_pointer, call.id)


@RULES.add(
    "call-id-unique",
    "No two calls have one id.",
    because="two calls with one id cannot be distinguished",
    remedy="give each call its own id",
)
def _id_not_unique(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report duplicate ids. A duplicate is allowed if the provider sent it, even in a truncated answer."""
    for req in evidence.chat_exchanges:
        broken = (each.response for each in evidence.parsed_exchanges[: req.parsed.index] if each.answer is None)
        issued = [call.id for call in evidence.expected_calls(req.index)]
        issued.extend(call.id for response in broken if response is not None for call in response.calls)
        seen: set[str] = set()
        for call in req.view.calls:
            if (
                call.id is not None
                and call.id in seen
                and issued.count(call.id) <= 1
                and not _repeats(evidence, req, call)
            ):
                yield req.parsed.violation(f"two calls have the id {call.id!r}", call.id_pointer, call.id)
            seen.add(call.id or "")
    if not evidence.transcript.chats:
        yield from _id_not_unique_within_turn(evidence)


def _repeats(evidence: Evidence, req: ClientRequest, call: CallView) -> bool:
    """Return whether the calls with this id also share one id in the caller's history."""
    own = [expected.id for expected, found in matched_calls(evidence, req) if found is not None and found.id == call.id]
    return len(own) > 1 and len(set(own)) == 1 and bool(own[0])


def _id_not_unique_within_turn(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed in evidence.parsed_exchanges:
        for turn in parsed.request.turns if parsed.request else ():
            ids = [part.id for part in turn.parts if isinstance(part, CallView) and part.id]
            for part in turn.parts:
                if isinstance(part, CallView) and part.id and ids.count(part.id) > 1:
                    yield parsed.violation(f"two calls of one turn have the id {part.id!r}", part.id_pointer, part.id)
