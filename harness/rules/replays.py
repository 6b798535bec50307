"""Rules for replays: requests match the recording, and a stream has the same result in all its variants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile

from harness.apis.api import Api
from harness.apis.profiles import Framing
from harness.apis.response_rules import Subject
from harness.apis.view import OpaqueView, ResponseView
from harness.cassettes.player import RequestDifference, differences
from harness.cassettes.rechunk import BYTE_ORDER_MARK, COMMENTS
from harness.model.errors import ChatError
from harness.model.messages import JSON, ChatResponse, Refusal
from harness.results import Blame, Chat, Kind, ReplayVariant, Severity
from harness.rules import (
    call_matching,
    call_results,
    conversation_history,
    instructions,
    opaque_state,
    sent_requests,
    tool_use,
)
from harness.rules.chat_endings import CUT_ERRORS, DATE_TOLERANCE_SECONDS, same_wait, wrong_ending
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.expected_outcomes import declined_chat
from harness.rules.loop_requests import may_end_here
from harness.rules.response_diff import (
    MODEL,
    ORDER,
    IssuedValues,
    ResponseDifference,
    event_differences,
    response_differences,
    scalars,
)
from harness.rules.rule import RuleTable, RuleViolation


def _blame(evidence: Evidence) -> Blame | None:
    """Return `Blame.CASSETTE` if the cassette was recorded for another version of the scenario, otherwise `None`."""
    return Blame.CASSETTE if evidence.transcript.stale else None


_REPLAY = "harness.cassettes.player"
CASSETTE_AGE_RULE = "cassette-old"
"""Id of the rule that is an error in a strict run and a warning in any other run."""

RULES = RuleTable(Subject.REQUESTS, _REPLAY)


@RULES.add(
    "recorded-request",
    "The request has the same meaning as the recorded one.",
    because="the recorded answer belongs to a different request",
    remedy="send the recorded request; if the change is intended, record the cell again with 'harness record'",
)
def _changed_requests(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report requests that differ from the recording.

    The adapter that made the recording must send the same request. For another adapter, only differences that a rule
    reports as faults count.
    """
    transcript = evidence.transcript
    is_own = transcript.stale or transcript.recorded_by in (None, transcript.adapter)
    faulty = cache(lambda: _faulty_places(evidence))
    for parsed in evidence.parsed_exchanges:
        recorded = parsed.exchange.recorded
        if recorded is None:
            continue
        for found in differences(recorded, parsed.exchange.request, evidence.api, issued=evidence.issued_ids):
            at_fault = found.changes_meaning and not faulty().isdisjoint(
                {(parsed.index, _entry(found.pointer)), (parsed.index, "")}
            )
            asked_for = is_own or (at_fault and not _is_library_default(evidence, parsed, found))
            if not asked_for and (not found.changes_meaning or found.section in _JUDGED_SECTIONS):
                continue
            what = (
                "not the request that was recorded"
                if asked_for
                else "not as it was recorded, where the scenario leaves it open"
            )
            message = f"{what}: {found.message}"
            yield parsed.violation(
                message,
                found.pointer,
                found.sent,
                found.recorded,
                kind=None if asked_for else Kind.CONVENTION,
                severity=Severity.ERROR if found.changes_meaning else Severity.WARNING,
                blame=_blame(evidence),
            )


_JUDGED_SECTIONS = frozenset({"model", "system", "turns", "tool_choice"})
"""Fields of the parsed request that the scenario fully determines. If no rule reports a fault in them, both requests
mean the same.
"""

_JUDGES = (call_matching, call_results, conversation_history, instructions, opaque_state, sent_requests, tool_use)
"""Modules with the rules that compare a request with the scenario."""


def _faulty_places(evidence: Evidence) -> frozenset[tuple[int | None, str]]:
    """Return the exchange and the place of each error that the rules find in a request.

    Conventions and warnings, such as contested limits, are ignored.
    """
    found = (finding for judge in _JUDGES for rule in judge.RULES for finding in rule.findings(evidence))
    return frozenset(
        (each.exchange, _entry(each.pointer or ""))
        for each in found
        if each.kind is not Kind.CONVENTION and each.severity is Severity.ERROR and not each.of_response
    )


def _entry(pointer: str) -> str:
    """Return the part of a pointer that leads to a message, a tool or a setting."""
    return "/".join(pointer.split("/")[:3])


def _is_library_default(evidence: Evidence, parsed: ParsedExchange, found: RequestDifference) -> bool:
    """Return whether the difference is a setting that the scenario does not set, which makes it a library default."""
    if not found.setting or parsed.exchange.chat is None:
        return False
    request = evidence.transcript.chats[parsed.exchange.chat].request
    given = {**sent_requests.requested_settings(request), "thinking": request.thinking}
    return given.get(found.setting) is None


@RULES.add(
    "request-unexpected",
    "No request is sent beyond the script.",
    because="there is no answer to it",
    remedy="send no request after the last answer of the script",
)
def _requests_beyond(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed in evidence.parsed_exchanges if not may_end_here(evidence) else ():
        if parsed.is_made_up:
            message = "a request for which no answer is left"
            yield parsed.violation(message, severity=_severity(evidence, parsed.exchange.chat), blame=_blame(evidence))


def _severity(evidence: Evidence, chat: int | None) -> Severity | None:
    """Return `WARNING` if the adapter accepted an earlier stream that lacks only its last event, otherwise `None`."""
    before = filter(None, (wrong_ending(evidence, earlier) for earlier in range(chat or 0)))
    contested = any(violation.rule == "stream-cut" and violation.severity is Severity.WARNING for violation in before)
    return Severity.WARNING if contested else None


@RULES.add(
    "exchange-unplayed",
    "Every recorded exchange is used.",
    because="a part of the recorded conversation did not happen",
    remedy="send the recorded requests; if fewer are intended, record the cell again with 'harness record'",
)
def _unplayed_exchanges(evidence: Evidence) -> Iterator[RuleViolation]:
    if evidence.transcript.unplayed and declined_chat(evidence) is None:
        total = evidence.transcript.unplayed + len(evidence.transcript.exchanges)
        message = f"{evidence.transcript.unplayed} recorded exchanges were not used"
        yield RuleViolation(message, actual=len(evidence.transcript.exchanges), expected=total, blame=_blame(evidence))


@RULES.add(
    "cassette-stale",
    "A cassette belongs to the current version of the scenario.",
    source="harness help recording",
    because="the recorded answers belong to an older version of the scenario",
    blame=Blame.CASSETTE,
)
def _stale_cassette(evidence: Evidence) -> Iterator[RuleViolation]:
    if evidence.transcript.stale:
        yield RuleViolation("the scenario has changed since this cassette was recorded; record it again")


@RULES.add(
    CASSETTE_AGE_RULE,
    "A dated cassette is no older than --max-age.",
    source="harness help recording",
    because="the provider's answers may have changed since then",
    severity=Severity.WARNING,
    blame=Blame.CASSETTE,
)
def _old_cassette(evidence: Evidence) -> Iterator[RuleViolation]:
    if evidence.transcript.too_old is not None:
        yield RuleViolation(f"{evidence.transcript.too_old}; record it again: harness record --stale")


def _issued_values(evidence: Evidence) -> IssuedValues:
    """Return the values that the API issued. All other ids and values may be random."""
    views = [parsed.response for parsed in evidence.parsed_exchanges if parsed.response is not None]
    raws = [part.raw for view in views for part in view.parts if isinstance(part, OpaqueView)]
    ids = frozenset(call.id for view in views for call in view.calls if call.id)
    return IssuedValues(ids, frozenset(value for raw in raws for value in scalars(raw)))


def _compare_responses(evidence: Evidence, one: ChatResponse, other: ChatResponse) -> Iterator[ResponseDifference]:
    """Yield the differences between two responses.

    Some adapters fill in the requested model. Such a difference only breaks a convention if no response on the wire has
    that model name.
    """
    requested = evidence.transcript.model
    for each in response_differences(one, other, _issued_values(evidence), calls_apart=evidence.api.traits.calls_apart):
        if each.place == MODEL and requested in (each.one, each.other) and not _has_answered(evidence, requested):
            yield replace(each, kind=Kind.CONVENTION)
        else:
            yield each


def _has_answered(evidence: Evidence, model: str) -> bool:
    return any(parsed.response is not None and parsed.response.model == model for parsed in evidence.parsed_exchanges)


def _whole_differences(evidence: Evidence, chat: Chat, whole: Chat) -> list[ResponseDifference]:
    """Return the differences between a streamed answer and the same answer without streaming."""
    if chat.response is None or whole.response is None:
        return [ResponseDifference("whether it fails", _error_text(whole), None)]
    found = _compare_responses(evidence, whole.response, chat.response)
    has_counts = chat.response.reported.get("no-usage") is not True  # a client's stream may consist of texts
    return [replace(each, kind=Kind.LOSS) if has_counts and _is_lost_count(each) else each for each in found]


def _is_lost_count(difference: ResponseDifference) -> bool:
    """Return whether the whole answer has a token count that the streamed answer lacks."""
    return difference.place.startswith("the count ") and bool(difference.one) and difference.other is None


def is_same_answer(evidence: Evidence, whole: Sequence[Chat]) -> bool:
    """Return whether the streamed answers of a cell equal these unstreamed answers."""
    chats = evidence.transcript.chats
    return len(chats) == len(whole) and not any(
        chat.response is not None and _whole_differences(evidence, chat, other)
        for chat, other in zip(chats, whole, strict=True)
    )


@RULES.add(
    "stream-equals-whole",
    "A streamed answer equals the answer of the whole body.",
    subject=Subject.STREAMING,
    source="harness.model.messages: Finish",
    because="one of the two versions of an answer is wrong; a lost provider-specific field is only a note",
    remedy="collect all texts, calls and counts of a stream and its stop reason, so that nothing of the answer is lost",
)
def _equals_whole(evidence: Evidence) -> Iterator[RuleViolation]:
    answered = list(takewhile(lambda chat: chat.response is not None, evidence.transcript.chats))
    for replayed in evidence.transcript.replay_variants:
        if replayed.variant != "whole":
            continue
        for index, (chat, whole) in enumerate(zip(answered, replayed.chats, strict=False)):
            found = _whole_differences(evidence, chat, whole)
            mistaken = [each for each in found if _only_stream_matches_wire(evidence, index, whole, each.place)]
            yield from _violations_of(evidence, index, replayed.way, [each for each in found if each not in mistaken])
            way = f"{replayed.way}, whose framing no client has to accept"
            for violation in _violations_of(evidence, index, way, mistaken):
                yield replace(violation, actual=violation.expected, expected=violation.actual)


def _only_stream_matches_wire(evidence: Evidence, index: int, whole: Chat, place: str) -> bool:
    """Return whether the streamed answer matches the wire at a place and the unstreamed one does not."""
    chat, parsed = evidence.transcript.chats[index], evidence.answer(index)
    if chat.response is None or parsed is None or parsed.answer is None:
        return False
    on_wire = _values_at(place, chat.response, parsed.answer)
    return on_wire is not None and on_wire[0] == on_wire[1] and _decoded_at(place, whole, parsed.answer) != on_wire[1]


def _decoded_at(place: str, chat: Chat, wire: ResponseView) -> object:
    decoded = _values_at(place, chat.response, wire) if chat.response is not None else None
    return None if decoded is None else decoded[0]


def _values_at(place: str, response: ChatResponse, wire: ResponseView) -> tuple[object, object] | None:
    """Return the values at a place in the response and on the wire, or `None` if the wire has no such place."""
    refusals = "".join(part.text for part in response.message.parts if isinstance(part, Refusal))
    whole = [call for call in wire.calls if call.malformed is None]
    has_ids = all(call.id for call in whole)
    calls = [(call.id if has_ids else None, call.name, dict(call.arguments)) for call in response.tool_calls]
    issued = [(call.id if has_ids else None, call.name, call.arguments) for call in whole]
    match place.split():
        case ["the", "text", *_]:
            return response.text, wire.text
        case ["the", "refusal", *_]:
            return refusals, wire.refusal
        case ["the", "stop", "reason"]:
            return response.stop_reason, wire.stop_reason
        case ["the", "count", name]:
            return getattr(response.usage, name), getattr(wire.usage, name)
        case ["the", "model"]:
            return response.model, wire.model
        case ["whether", "it", "fails"]:
            return (response.text, refusals, calls), (wire.text, wire.refusal, issued)
        case _ if "call" in place.split():
            return calls, issued
        case _:
            return None


@RULES.add(
    "stream-recut",
    "The chunks in which a stream arrives make no difference.",
    subject=Subject.STREAMING,
    source="harness.results: ReplayVariant",
    because="the answer depends on the network; with a framing that official SDKs cannot parse it is only a note",
    remedy="collect bytes until an event is complete, even if a chunk ends inside a character",
)
def _changed_by_variants(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report the first variant whose result differs. Variants that an official SDK cannot parse are tried last."""
    recuts = [replayed for replayed in evidence.transcript.replay_variants if replayed.variant == "stream"]
    ways = sorted(recuts, key=lambda each: _is_disputed(evidence, each))
    found = [(each, index, difference) for each in ways for index, difference in _first_difference(evidence, each)]
    if found:
        first, index, difference = found[0]
        count = f", as {len(found)} of {len(recuts)} forms do" if len(recuts) > 1 else ""
        kind = Kind.CONVENTION if _is_disputed(evidence, first) else None
        message = f"the same stream gives another answer in another form ({first.way}){count}. It differs in {{places}}"
        for violation in _violations_with(evidence, index, message, difference, kind):
            yield replace(violation, remedy=_REMEDIES_OF_SHAPES.get(first.shape))


_BY_INDEX = "key the pieces of a call by `index`, and do not append an id or a name that comes again"
_FROM_EACH = "read arguments from each piece of a call, also if its first piece has all of them"

_REMEDIES_OF_SHAPES = {
    "repeated-ids": _BY_INDEX,
    "empty-strings": "key the pieces of a call by `index`, and ignore an empty id or name in a later one",
    "index-from-one": "key the pieces of a call by `index`, and do not expect that the first is 0",
    "one-index": "start another call if a piece has a new id and a name, even if its `index` is the same",
    "no-index": "add a piece without an index to the call with its id or, without one, to the last call",
    "id-per-piece": "key the pieces of a call by `index`, and keep the id of its first piece",
    "arguments-in-opening-piece": _FROM_EACH,
    "whole-calls": _FROM_EACH,
    "arguments-in-one-delta": _FROM_EACH,
    "calls-in-the-last-chunk": "read calls from every chunk, also from the one with the stop reason",
    "empty-arguments": "read empty arguments as {}",
    "early-usage": "read the token counts of the last chunk that has some",
    "output-tokens-alone": "keep the input tokens of the first event if the last one counts output tokens only",
}
"""Name of a form in which some servers stream calls → what a client has to do to read it."""


def _is_disputed(evidence: Evidence, replayed: ReplayVariant) -> bool:
    """Return whether an official SDK cannot parse the variant, or the API does not document it."""
    shape = evidence.api.stream_shapes.get(replayed.shape)
    return is_unreadable_variant(evidence, replayed.way) or (shape is not None and shape.departs)


_FRAMINGS: Mapping[Framing, str] = {"byte-order-mark": BYTE_ORDER_MARK, "comments": COMMENTS}
"""Words in a variant's name that identify its framing."""


def is_unreadable_variant(evidence: Evidence, way: str) -> bool:
    """Return whether an official SDK of the API cannot parse a variant."""
    return is_unreadable_by_sdk(evidence.api, way)


def is_unreadable_by_sdk(api: Api, way: str) -> bool:
    """Return whether the official SDK of an API cannot parse the framing of a variant."""
    return any(_FRAMINGS[framing] in way for framing in api.traits.unread_framings)


def differs(evidence: Evidence, replayed: ReplayVariant) -> bool:
    """Return whether the result of a chat differs in a variant."""
    return any(True for _ in _first_difference(evidence, replayed))


def _first_difference(evidence: Evidence, replayed: ReplayVariant) -> Iterator[tuple[int, list[ResponseDifference]]]:
    """Yield the first chat whose result differs in a variant, with its differences."""
    issued = _issued_values(evidence)
    for index, (chat, other) in enumerate(zip(evidence.transcript.chats, replayed.chats, strict=False)):
        exchanges = evidence.exchanges(index)
        broken = bool(exchanges) and _connection_broke(exchanges[-1])
        found = [*_error_differences(chat, other, broken=broken)]
        if not found and not broken:
            differences = event_differences(chat.events, other.events, issued)
            found += [each for each in differences if not replayed.shape or each.place != ORDER]
        if chat.response is not None and other.response is not None:
            found += _compare_responses(evidence, chat.response, other.response)
        if found:
            yield index, found
            return


def _error_differences(chat: Chat, recut: Chat, *, broken: bool) -> Iterator[ResponseDifference]:
    """Yield the differences between the errors of two chats. If the connection broke, any of `CUT_ERRORS` is right,
    and a client's own exception, too.
    """
    if not (broken and {chat.error, recut.error} <= {*CUT_ERRORS, ChatError.__name__}):
        if chat.error != recut.error:
            yield ResponseDifference("the error", _error_text(chat), _error_text(recut))
            return
        if chat.status != recut.status:
            yield ResponseDifference("the status of the error", chat.status, recut.status)
    if not same_wait(chat.retry_after, recut.retry_after, seconds=DATE_TOLERANCE_SECONDS):
        yield ResponseDifference("the time to wait", chat.retry_after, recut.retry_after)


def _error_text(chat: Chat) -> str | None:
    return f"{chat.error}: {chat.error_text}" if chat.error and chat.error_text else chat.error


def _connection_broke(parsed: ParsedExchange) -> bool:
    response = parsed.exchange.response
    return response is not None and response.delivery.ending != "complete"


def _violations_of(
    evidence: Evidence, index: int, way: str, found: Sequence[ResponseDifference], kind: Kind | None = None
) -> Iterator[RuleViolation]:
    """Yield one violation for all losses of a chat, and one for all broken conventions."""
    message = f"chat {index} has a different result when its stream is replayed {way}. It differs in {{places}}"
    yield from _violations_with(evidence, index, message, found, kind)


def _violations_with(
    evidence: Evidence, index: int, message: str, found: Sequence[ResponseDifference], kind: Kind | None
) -> Iterator[RuleViolation]:
    """Yield the violations of `_violations_of` with a message in which `{places}` is replaced."""
    exchanges = evidence.exchanges(index)
    for each in Kind:
        of_kind = [contrast for contrast in found if contrast.kind is each]
        if of_kind:
            yield RuleViolation(
                message.replace("{places}", _join_words(_first_places(of_kind))),
                exchanges[-1].index if exchanges else None,
                "" if exchanges else None,
                _by_place([(contrast.place, contrast.other) for contrast in of_kind]),
                _by_place([(contrast.place, contrast.one) for contrast in of_kind]),
                kind=kind or each,
                case=_NAMES.sub("", of_kind[0].place),
            )


def _first_places(contrasts: Sequence[ResponseDifference]) -> list[str]:
    places = [contrast.place for contrast in contrasts]
    return places if len(places) <= 4 else [*places[:3], f"{len(places) - 3} more places"]


_NAMES = re.compile(r" \([^()]*\)| at /\S+| \d+")
"""Parts of a place that vary from call to call: the name, a pointer, a number."""


def _join_words(places: Sequence[str]) -> str:
    *others, last = places
    return f"{', '.join(others)} and {last}" if others else last


def _by_place(values: Sequence[tuple[str, JSON]]) -> JSON:
    """Return the value if there is only one, otherwise a mapping from places to values."""
    return values[0][1] if len(values) == 1 else dict(values)
