"""Details of the history that a gateway must preserve: earlier calls, their ids, arguments and results, error marks,
and the unchanged prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.apis.api import Api
from harness.apis.jsonvalue import loads, parsed_object
from harness.apis.prefix import PrefixChange, PrefixPiece, Section, prefix_changes, prefix_pieces
from harness.apis.view import CallView, JsonView, MediaView, RequestView, ResultView, TextView
from harness.checks.gateway_exchange import (
    DetailResult,
    GatewayDetail,
    GatewayExchange,
    GatewaySide,
    Outcomes,
    argument_outcomes,
    exchange_detail,
    lost_detail,
    matched_calls,
    preserved_detail,
    request_detail,
)
from harness.equivalence.request_meaning import pair_results
from harness.equivalence.result_meaning import contains_result, core_text
from harness.model.messages import JSON, ToolResult
from harness.results import Severity


@request_detail(
    "gateway-calls",
    "calls of the history",
    "the model does not see what it called",
    stated=lambda request: bool(request.calls),
)
def _calls(sent: RequestView, arrived: RequestView) -> Outcomes:
    """The calls of the history reach the upstream, in their order."""
    if not sent.calls:
        return
    given, found = [call.name for call in sent.calls], [call.name for call in arrived.calls]
    if given == found:
        yield preserved_detail(same=True)
        return
    at = next((at for at, (one, other) in enumerate(zip(given, found, strict=False)) if one != other), len(found))
    missing = sent.calls[min(at, len(given) - 1)]
    what = "in another order" if sorted(given) == sorted(found) else "in a different form than they were made"
    there = arrived.calls[at].pointer if at < len(found) else ""
    yield lost_detail(f"the calls of the history arrive {what}", missing.pointer, there, [*found], [*given])


def _match_calls(exchange: GatewayExchange) -> Iterator[tuple[CallView, CallView]]:
    if exchange.requests is not None:
        sent, arrived = exchange.requests
        yield from matched_calls(sent.calls, arrived.calls)


@exchange_detail(
    "gateway-arguments",
    "arguments of the history",
    "the model reads a call that it did not make",
    stated=lambda request: bool(request.calls),
)
def _arguments(exchange: GatewayExchange) -> Outcomes:
    """The arguments of earlier calls reach the upstream as the model made them."""
    return argument_outcomes(_match_calls(exchange))


@exchange_detail(
    "gateway-call-ids",
    "call ids of the history",
    "a result answers a call that the upstream never issued, or another one",
    stated=lambda request: any(call.id for call in request.calls),
)
def _ids(exchange: GatewayExchange) -> Outcomes:
    """A call id that the upstream issued is sent back to it unchanged, or is replaced consistently."""
    # This holds within the request and in all later ones.
    issued, before, taken = _issued_ids(exchange), _arrived_ids(exchange), dict[str, str]()
    same_id = [call.id for call, _ in _match_calls(exchange)]
    for call, found in _match_calls(exchange):
        if call.id is None:
            continue
        name = f"the id {call.id!r} of the call of {call.name}"
        repeated = same_id.count(call.id) > 1
        if found.id is not None and taken.setdefault(found.id, call.id) != call.id:
            yield lost_detail(
                f"{name} arrives as that of another call", call.id_pointer, found.id_pointer, found.id, call.id
            )
        elif call.id in issued and issued[call.id] == found.id:
            yield preserved_detail(same=call.id == found.id)
        elif not repeated and call.id in before and before[call.id] != found.id:
            was = before[call.id]
            message = (
                f"{name} arrives with a different value than in an earlier request, and was issued as "
                f"{_issued_id_text(issued, call)}"
            )
            yield lost_detail(message, call.id_pointer, found.id_pointer, found.id, was)
        else:
            yield preserved_detail(same=call.id == found.id and call.id not in issued)


def _issued_id_text(issued: Mapping[str, str | None], call: CallView) -> str:
    return repr(issued[call.id]) if call.id and call.id in issued else "not one of the upstream's ids"


def _issued_ids(exchange: GatewayExchange) -> dict[str, str | None]:
    """Map each call id that the client received to the id that the upstream issued."""
    found: dict[str, str | None] = {}
    for earlier in exchange.before:
        if earlier.responses is not None:
            theirs, ours = earlier.responses
            for one, other in zip(theirs.calls, ours.calls, strict=False):
                if other.id:
                    found[other.id] = one.id or None
    return found


def _arrived_ids(exchange: GatewayExchange) -> dict[str, str | None]:
    """Map the client's call ids to the ids that arrived upstream in earlier requests."""
    return {
        call.id: found.id for earlier in exchange.before for call, found in _match_calls(earlier) if call.id is not None
    }


@exchange_detail(
    "gateway-results",
    "results",
    "the model reads something that the tool did not return",
    stated=lambda request: bool(request.results),
)
def _results(exchange: GatewayExchange) -> Outcomes:
    """The results of tools reach the upstream, each with its call."""
    if exchange.requests is None or not exchange.requests[0].results:
        return
    arrived_view = exchange.requests[1]
    sent, arrived = map(pair_results, exchange.requests)
    found = [_core(results[0]) if results else None for results in arrived.results]
    for place, (call, results) in enumerate(zip(sent.calls, sent.results, strict=True)):
        if not results or place >= len(arrived.calls) or arrived.calls[place].name != call.name:
            continue  # gateway-calls reports the last two cases
        given, there = results[0], arrived.results[place]
        if not there:
            yield lost_detail(
                f"the result of {call.name} ({call.id}) does not arrive", given.pointer, "", None, _core(given)
            )
        elif _means(given, there[0], arrived_view):
            yield preserved_detail(same=_plain(given) == _plain(there[0]))
        else:
            yield _changed_result(call, given, there[0], found)
    for orphan in arrived.orphans:
        if not sent.orphans:
            message = "a result arrives under an id that no call has"
            yield lost_detail(message, "", orphan.id_pointer, orphan.call_id, [call.id for call in arrived.calls])


def _means(given: ResultView, there: ResultView, request: RequestView) -> bool:
    """Return whether two results have the same meaning: as text, as JSON, or wrapped in an object
    that an API requires.
    """
    if _core(given) == _core(there):
        return True
    plain = _plain(given)
    content = plain[0] if len(plain) == 1 else "".join(each for each in plain if isinstance(each, str))
    payload = tuple(part for part in there.payload if not isinstance(part, MediaView))
    plain_result = ToolResult("", there.name or given.name or "", content, given.error_mark is not None)
    if contains_result(replace(there, payload=payload), plain_result, request):
        return True
    moved = any(isinstance(part, MediaView) for part in given.payload) and len(payload) == len(there.payload)
    return moved and (_core(there) or "").startswith(_core(given) or "")  # a note about their place may follow


def _changed_result(call: CallView, given: ResultView, there: ResultView, found: list[str | None]) -> DetailResult:
    sent, arrives = _core(given) or "", _core(there) or ""
    swapped = "as that of another call" if _core(given) in found else "changed"
    message = f"the result of {call.name} ({call.id}) arrives {swapped}"
    return lost_detail(message, given.pointer, there.pointer, arrives, sent)


def _core(result: ResultView) -> str | None:
    payload = tuple(part for part in result.payload if not isinstance(part, MediaView))
    return core_text(replace(result, payload=payload))


def _plain(result: ResultView) -> list[JSON]:
    return [
        part.text if isinstance(part, TextView) else part.value
        for part in result.payload
        if isinstance(part, TextView | JsonView)
    ]


@exchange_detail(
    "gateway-error-flag",
    "error flag",
    "the model treats a failure as a result, or a result as a failure",
    stated=lambda request: any(result.error_mark for result in request.results),
)
def _errors(exchange: GatewayExchange) -> Outcomes:
    """The error mark of a failed tool reaches the upstream."""
    if exchange.requests is None:
        return
    sent, arrived = map(pair_results, exchange.requests)
    flags = exchange.way.upstream.traits.flags_errors
    for call, results, there in zip(sent.calls, sent.results, arrived.results, strict=False):
        if not results or not there:
            continue
        given, found = results[0], there[0]
        if given.error_mark == "flag" and found.error_mark is None:
            has = "" if flags else f", which {exchange.way.upstream.name} can express only as text"
            message = f"the failure of {call.name} does not arrive{has}"
            severity = Severity.ERROR if flags else Severity.WARNING
            yield lost_detail(message, given.pointer, found.pointer, _plain(found), _plain(given), severity)
        elif given.error_mark is None and found.error_mark == "flag":
            yield lost_detail(
                f"the result of {call.name} arrives as a failure, although it was none", given.pointer, found.pointer
            )
        elif given.error_mark is not None and found.error_mark is not None:
            yield preserved_detail(same=given.error_mark == found.error_mark)


@exchange_detail(
    "gateway-prefix",
    "unchanged prefix",
    "the provider refuses or drops the reasoning after the change, and reads the prompt without its cache",
    stated=lambda request: any(turn.role == "assistant" for turn in request.turns),
)
def _prefix(exchange: GatewayExchange) -> Outcomes:
    """The parts that the client repeats reach the upstream as they did before, in the same order."""
    earlier = exchange.before[-1] if exchange.before else None
    if earlier is None or earlier.last is None or exchange.last is None:
        return
    before, now = earlier.client.request, exchange.client.request
    if before is None or now is None or before.response_format != now.response_format:
        return
    own = {change.section for change in _changes(exchange.way.client, earlier.client, exchange.client)}
    found = [
        change for change in _changes(exchange.way.upstream, earlier.last, exchange.last) if change.section not in own
    ]
    if not found:
        yield preserved_detail(same=True)
    for change in found:
        message = f"{_CHANGES[change.section]} differ from those of the previous request"
        yield lost_detail(message, "", change.pointer, _value(change.now), _value(change.then))


_CHANGES: Mapping[Section, str] = {
    "settings": "settings of the prefix",
    "tools": "the tools or their order",
    "system": "the parts of the system prompt",
    "turns": "earlier parts of the conversation",
}


def _changes(api: Api, before: GatewaySide, now: GatewaySide) -> list[PrefixChange]:
    if before.request is None or now.request is None or before.request.stateful or now.request.stateful:
        return []
    profile = api.profile_for(now.request.model or "")
    then, here = (
        prefix_pieces(request, parsed_object(side.exchange.request.body), trailing=profile.trailing_places)
        for side, request in ((before, before.request), (now, now.request))
    )
    changes = prefix_changes(then, here, may_leave=profile.first_thoughts_may_leave)
    return [change for change in changes if not change.by_spelling]


def _value(piece: PrefixPiece | None) -> JSON:
    return loads(piece.value) if piece else None


STATE = GatewayDetail(
    "gateway-opaque-state",
    "signatures and state",
    "Signatures and other state that the upstream issued are sent back to it unchanged.",
    "the model continues without its own reasoning, or the provider refuses the request",
)
"""Detail for the state that is sent back to the upstream. It is judged over a whole conversation, not over single
exchanges.
"""

HISTORY = (_calls, _arguments, _ids, _results, _errors, _prefix, STATE)
