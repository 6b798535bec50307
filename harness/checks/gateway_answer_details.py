"""Gateway details of the upstream's answer: text, reasoning, calls, stop reason, usage and errors."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import fields
from http import HTTPStatus

from harness.apis.jsonvalue import equal, join, loads, walk
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, TextView, WireError
from harness.checks.gateway_exchange import (
    DetailResult,
    GatewayExchange,
    GatewaySide,
    Outcomes,
    added_detail,
    argument_outcomes,
    exchange_detail,
    lost_detail,
    matched_calls,
    preserved_detail,
    response_detail,
)
from harness.model.errors import provider_error
from harness.model.http import EXHAUSTED, HttpResponse
from harness.model.messages import JSON, StopReason, Usage
from harness.results import Severity

_COUNTS = tuple(each.name for each in fields(Usage))
_TOTAL_COUNTS = ("input_tokens", "output_tokens")
"""Names of the token counts that every API reports."""


def _text_pointer(view: ResponseView) -> str:
    return next((part.pointer for part in view.parts if isinstance(part, TextView)), "")


@response_detail("gateway-answer-text", "answer's text", "the client gets a different text than the model wrote")
def _text(sent: ResponseView, received: ResponseView) -> Outcomes:
    """The text of the answer reaches the client unchanged."""
    if sent.text == received.text:
        if sent.text:
            yield preserved_detail(same=True)
    elif sent.refusal and received.text == sent.text + sent.refusal:
        yield preserved_detail(same=False)  # gateway-answer-refusal reports it
    elif not (sent.text.strip() or received.text.strip()):
        yield preserved_detail(same=False)
    else:
        thoughts = any(text in received.text for text in _thoughts(sent))
        what = "with the model's reasoning in it" if thoughts else "changed"
        yield lost_detail(
            f"the text of the answer arrives {what}",
            _text_pointer(sent),
            _text_pointer(received),
            received.text,
            sent.text,
        )


def _thoughts(view: ResponseView) -> list[str]:
    found: list[str] = []
    for part in view.parts:
        if isinstance(part, OpaqueView) and part.kind != "refusal":
            found += [text for text in _strings(part.raw) if " " in text.strip()]
    return found


def _strings(value: JSON) -> Iterator[str]:
    return (each for each in walk(value) if isinstance(each, str))


@exchange_detail(
    "gateway-answer-thinking", "answer's reasoning", "the client can neither show it nor send it back", of_answer=True
)
def _thinking(exchange: GatewayExchange) -> Outcomes:
    """The reasoning that the upstream shows reaches the client."""
    if exchange.responses is None:
        return
    sent, received = exchange.responses
    received_words = "\n".join(_thoughts(received))
    for words in _thoughts(sent):
        if words in received_words:
            yield preserved_detail(same=True)
        else:
            place = next(part.pointer for part in sent.parts if isinstance(part, OpaqueView))
            has_none = exchange.own is not None and not _thoughts(exchange.own)
            message = f"the model's reasoning does not arrive{_fieldless(exchange) if has_none else ''}"
            yield lost_detail(message, place, "", None, words, Severity.WARNING if has_none else Severity.ERROR)


def _fieldless(exchange: GatewayExchange) -> str:
    return f"; {exchange.way.client.name} has no field of its own for it"


_NO_WORDS = frozenset({"type"})
"""Keys whose values name a format, not content."""
_MIN_CONTAINED_CHARACTERS = 16


@response_detail(
    "gateway-answer-unsent", "answer's own parts", "the client shows and sends back something that no model produced"
)
def _nothing_invented(sent: ResponseView, received: ResponseView) -> Outcomes:
    """An answer contains reasoning, and calls and results of provider tools, only if the upstream sent them."""
    known = set(_upstream_texts(sent))
    has_state = any(isinstance(part, OpaqueView) or _state(part) for part in sent.parts)
    for part in received.parts:
        if not isinstance(part, OpaqueView) or part.kind == "refusal":
            continue
        texts = [text for text in _texts(part.raw, _NO_WORDS | part.labels) if text.strip()]
        has_words = any(" " in text.strip() for text in texts)
        is_part = part.returns and not isinstance(part.raw, str)  # else a field of the message, or a signature
        may_be_state = has_state and not has_words and _is_flat(part.raw)  # in a form that the gateway alone can read
        if not texts or may_be_state or not (is_part or has_words):
            continue
        if not any(_is_of(text, each) for text in texts for each in known):
            yield added_detail(f"the answer has {part.kind!r}, which the upstream did not send", part.pointer, part.raw)


def _is_flat(raw: JSON) -> bool:
    return not isinstance(raw, dict) or not any(isinstance(each, dict | list) and each for each in raw.values())


def _is_of(text: str, sent: str) -> bool:
    """Return whether `text` equals `sent`. If both are long, it is enough that one contains the other."""
    shorter, longer = sorted((text, sent), key=len)
    return text == sent or (len(shorter) >= _MIN_CONTAINED_CHARACTERS and shorter in longer)


def _state(part: PartView) -> JSON:
    return part.opaque if isinstance(part, CallView | TextView) else None


def _upstream_texts(view: ResponseView) -> Iterator[str]:
    """Yield all texts of an answer other than its main text and its calls."""
    shown = {part.pointer for part in view.parts if isinstance(part, CallView | TextView)}
    yield from (text for text in _texts(view.body, _NO_WORDS, shown) if text != view.model)
    for part in view.parts:
        yield from _texts(_state(part))


def _texts(value: JSON, left_out: Container[str] = (), places: Container[str] = (), pointer: str = "") -> Iterator[str]:
    if pointer in places:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in left_out:
                yield from _texts(each, left_out, places, join(pointer, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, left_out, places, join(pointer, index))


@exchange_detail("gateway-answer-refusal", "answer's refusal", "the client sees an empty answer", of_answer=True)
def _refusal(exchange: GatewayExchange) -> Outcomes:
    """The text of a refusal by the model reaches the client."""
    if exchange.responses is None or not exchange.responses[0].refusal:
        return
    sent, received = exchange.responses
    place = next(part.pointer for part in sent.parts if isinstance(part, OpaqueView) and part.kind == "refusal")
    if received.refusal == sent.refusal:
        yield preserved_detail(same=True)
    elif sent.refusal in received.text + received.refusal:
        yield preserved_detail(same=False)
    else:
        words = exchange.own is not None and not (exchange.own.refusal or exchange.own.text)
        aside = any(sent.refusal in text for text in _strings(received.body))
        how = f" but in a field that {exchange.way.client.name} does not have" if aside else ""
        message = f"the text of the refusal does not arrive{how}{_fieldless(exchange) if words else ''}"
        severity = Severity.WARNING if words else Severity.ERROR
        yield lost_detail(message, place, "", received.text or received.refusal or None, sent.refusal, severity)


@response_detail("gateway-answer-calls", "answer's calls", "the client runs calls that the model did not make")
def _calls(sent: ResponseView, received: ResponseView) -> Outcomes:
    """All calls of the answer reach the client, in their order, and no truncated call arrives as a complete one."""
    whole = [call for call in sent.calls if call.malformed is None]
    cut = [call for call in sent.calls if call.malformed is not None]
    found = [call for call in received.calls if call.malformed is None]
    for call in cut:
        invented = next((each for each in found if each.name == call.name and len(found) > len(whole)), None)
        if invented is None or _is_marked_truncated(call, invented, received):
            yield preserved_detail(same=len(received.calls) == len(sent.calls))
        else:
            message = f"the call of {call.name} was cut off, but arrives as a complete call"
            yield lost_detail(message, call.pointer, invented.pointer, invented.arguments, call.malformed)
            return
    if cut and len(found) > len(whole):
        return  # all of them arrived as calls
    names, there = [call.name for call in whole], [call.name for call in found]
    if names == there:
        if names:
            yield preserved_detail(same=True)
        return
    what = "in another order" if sorted(names) == sorted(there) else "in a different form than the model's"
    places = (whole[0].pointer if whole else "", found[0].pointer if found else "")
    yield lost_detail(f"the calls of the answer arrive {what}", *places, [*there], [*names])


def _is_marked_truncated(call: CallView, found: CallView, answer: ResponseView) -> bool:
    """Return whether the answer is marked as truncated, and the arguments of `found` are exactly the part that the
    upstream sent.

    The arguments of a truncated call may happen to be valid JSON. Then only the stop reason shows the truncation, in
    the upstream's answer as well.
    """
    try:
        came = loads(call.malformed or "{}")
    except WireError:
        return False
    return answer.stop_reason is StopReason.MAX_TOKENS and equal(came, found.arguments)


def _match_calls(exchange: GatewayExchange) -> Iterator[tuple[CallView, CallView]]:
    if exchange.responses is not None:
        sent, received = exchange.responses
        yield from matched_calls(sent.calls, received.calls)


@exchange_detail(
    "gateway-answer-arguments",
    "answer's arguments",
    "the client runs a different call than the model made",
    of_answer=True,
)
def _arguments(exchange: GatewayExchange) -> Outcomes:
    """The arguments of calls reach the client as the model made them."""
    return argument_outcomes(_match_calls(exchange))


@exchange_detail("gateway-answer-ids", "answer's call ids", "the client cannot match results to calls", of_answer=True)
def _ids(exchange: GatewayExchange) -> Outcomes:
    """Each call reaches the client with a unique id."""
    # The client's API may have no ids.
    used = {
        call.id for earlier in exchange.before for call in (earlier.responses[1].calls if earlier.responses else ())
    }
    sent = [call.id for call, _ in _match_calls(exchange)]
    optional = exchange.way.client.traits.ids_optional
    for call, found in _match_calls(exchange):
        if not found.id and not (optional and not call.id):
            what = "arrives without an id" if not call.id else f"was issued as {call.id!r} and arrives without an id"
            if not optional:
                yield lost_detail(
                    f"the call of {call.name} {what}", call.id_pointer, found.id_pointer, found.id, call.id
                )
            else:
                yield preserved_detail(same=False)
        elif found.id and found.id in used and sent.count(call.id) <= 1:
            message = f"the call of {call.name} arrives under the id of another one"
            yield lost_detail(message, call.id_pointer, found.id_pointer, found.id, call.id)
        else:
            yield preserved_detail(same=found.id == call.id)
        used.add(found.id)


def _word_for_calls(exchange: GatewayExchange, received: ResponseView) -> str | None:
    """Return the stop reason that the client's API uses for an answer with unforced calls. Return `None` if the stop
    reasons cannot be compared.

    Clients rely on this value, although the wire reader recognises calls without it.
    """
    own, request = exchange.own, exchange.client.request
    if own is None or request is None or (request.tool_choice is not None and request.tool_choice.mode == "named"):
        return None
    both_call = own.calls and received.calls and own.stop_reason is received.stop_reason is StopReason.TOOL_USE
    return own.raw_stop_reason if both_call else None


@exchange_detail(
    "gateway-answer-stop-reason",
    "answer's stop reason",
    "the client cannot tell a complete answer from one that was cut off",
    of_answer=True,
)
def _stop(exchange: GatewayExchange) -> Outcomes:
    """The stop reason reaches the client, with the value that the client's API uses."""
    if exchange.responses is None:
        return
    sent, received = exchange.responses
    word = _word_for_calls(exchange, received)
    if word is not None and received.raw_stop_reason != word:
        message = f"the answer has calls and says {received.raw_stop_reason!r}, where {received.api} says {word!r}"
        yield lost_detail(message, "", "", received.raw_stop_reason, word)
    elif sent.stop_reason is received.stop_reason:
        yield preserved_detail(same=sent.raw_stop_reason == received.raw_stop_reason)
    elif exchange.own is not None and exchange.own.stop_reason is received.stop_reason:
        yield preserved_detail(same=False)  # the client's API has no other word for it
    elif (
        sent.refusal != received.refusal
        and sent.api == received.api
        and sent.raw_stop_reason == received.raw_stop_reason
    ):
        return  # gateway-answer-refusal reports it
    else:
        upstream = f"the upstream stopped for {sent.stop_reason} ({sent.raw_stop_reason!r})"
        message = f"{upstream}, and the answer says {received.stop_reason} ({received.raw_stop_reason!r})"
        yield lost_detail(message, "", "", received.stop_reason.value, sent.stop_reason.value)


@exchange_detail(
    "gateway-answer-usage",
    "answer's usage",
    "the client gets different token counts than it is billed for",
    of_answer=True,
)
def _usage(exchange: GatewayExchange) -> Outcomes:
    """The token counts of the upstream reach the client."""
    return _compare_counts(exchange, _TOTAL_COUNTS)


@exchange_detail(
    "gateway-answer-usage-details",
    "answer's usage in detail",
    "the client cannot tell what the tokens were for",
    of_answer=True,
    severity=Severity.WARNING,
)
def _details(exchange: GatewayExchange) -> Outcomes:
    """Counts of cached and of reasoning tokens reach the client."""
    # An API may lack a field for a detail; no bill is wrong without it.
    return _compare_counts(exchange, tuple(name for name in _COUNTS if name not in _TOTAL_COUNTS))


def _compare_counts(exchange: GatewayExchange, names: Iterable[str]) -> Iterator[DetailResult]:
    if exchange.responses is None:
        return
    sent, received = ({name: getattr(each.usage, name) for name in names} for each in exchange.responses)
    for name, count in sent.items():
        there = received[name]
        if (count or 0) != (there or 0):
            what = "does not arrive" if there is None else "arrives with a different number"
            yield lost_detail(f"the usage's {name} {what}", "", "", there, count)
            return
    if any(count is not None for count in sent.values()):
        yield preserved_detail(same=sent == received)


ANSWERS = (_text, _thinking, _nothing_invented, _refusal, _calls, _arguments, _ids, _stop, _usage, _details)


def _errors(exchange: GatewayExchange) -> tuple[ErrorView, ErrorView] | None:
    """Return the upstream's and the client's error, including errors for refused requests."""
    if _is_made_up(exchange):
        return None
    sent = exchange.last.response if exchange.last is not None else None
    received = exchange.client.response
    if sent is None or sent.error is None or received is None or received.error is None:
        return None
    return sent.error, received.error


def _is_made_up(exchange: GatewayExchange) -> bool:
    """Return whether harness itself generated the error because its script was exhausted."""
    return exchange.last is not None and _is_exhausted(exchange.last)


def _is_exhausted(side: GatewaySide) -> bool:
    response = side.exchange.response
    return response is not None and EXHAUSTED in response.headers


@exchange_detail("gateway-error", "errors", "the client does not know whether to retry", of_answer=True)
def _status(exchange: GatewayExchange) -> Outcomes:
    """An upstream error reaches the client as an error of the same kind."""
    # An error that the gateway cured by a retry need not arrive.
    if any(side.response and side.response.error for side in exchange.upstream[:-1]) and exchange.responses:
        yield preserved_detail(same=False)
        return
    found = _errors(exchange)
    if found is not None:
        sent, received = ((each.meant or each.status) for each in found)
        kinds = [type(provider_error(status, "")).__name__ for status in (sent, received, _own_status(exchange, sent))]
        if sent == received:
            yield preserved_detail(same=True)
        elif kinds[1] in (kinds[0], kinds[2]):
            yield preserved_detail(same=False)
        else:
            message = f"the upstream's error is HTTP {sent}, and the client gets HTTP {received}"
            fails = sent >= HTTPStatus.INTERNAL_SERVER_ERROR <= received  # clients may retry either status
            yield lost_detail(message, "", "", received, sent, Severity.WARNING if fails else Severity.ERROR)
        return
    last, error = exchange.last, _failure(exchange)
    if error is not None and _hides_status(exchange, error):
        message = f"an upstream error (HTTP {error.status}) becomes HTTP 200 without an error: {error.message}"
        yield lost_detail(message, "", "", HTTPStatus.OK.value, error.status)
        return
    if last is None or last.is_answer or not exchange.client.is_answer:
        return
    if error is not None:
        status = error.meant or error.status
        yield lost_detail(
            f"the upstream fails ({status}: {error.message}), but the client gets no error", "", "", None, status
        )
    elif last.unread is not None:
        yield lost_detail(f"the upstream fails ({last.unread}), but the client gets no error")


def _hides_status(exchange: GatewayExchange, error: ErrorView) -> bool:
    """Return whether an upstream's error status became a stream with status 200 that ends without an error event."""
    response, view = exchange.client.exchange.response, exchange.client.response
    is_stream = response is not None and response.status == HTTPStatus.OK and view is not None and view.streamed
    return is_stream and exchange.client.is_cut and error.status >= HTTPStatus.BAD_REQUEST


def _failure(exchange: GatewayExchange) -> ErrorView | None:
    """Return the last upstream error that harness did not generate itself."""
    real = [side for side in exchange.upstream if not _is_exhausted(side)]
    return real[-1].response.error if real and real[-1].response is not None else None


@exchange_detail("gateway-error-text", "error texts", "the client does not know what to change", of_answer=True)
def _error_text(exchange: GatewayExchange) -> Outcomes:
    """The text of an upstream error reaches the client."""
    # The gateway may wrap it in its own words.
    found = _errors(exchange)
    if found is None or not found[0].message.strip():
        return
    sent, received = (" ".join(each.message.split()) for each in found)
    if sent == received:
        yield preserved_detail(same=True)
    elif any(_unescape(form) in _unescape(received) for form in (sent, json.dumps(sent)[1:-1])):
        yield preserved_detail(same=False)
    else:
        refused = (found[0].meant or found[0].status) in _CLIENT_ERROR_STATUSES
        severity = Severity.ERROR if refused else Severity.WARNING
        message = "the message of the upstream's error does not reach the client"
        yield lost_detail(message, "", "", found[1].message, found[0].message, severity)


def _unescape(text: str) -> str:
    """Remove backslashes, because some gateways repeat the whole body as a JSON or Python string."""
    return text.replace("\\", "")


_CLIENT_ERROR_STATUSES = frozenset({400, 404, 409, 413, 422})
"""Status codes of mistakes that only the client can correct, guided by the error text."""


def _own_status(exchange: GatewayExchange, status: int) -> int:
    api, request, response = exchange.way.client, exchange.client.request, exchange.client.exchange.response
    own = api.fail(status, None, "own")
    if request is not None and request.stream and response is not None and response.status == HTTPStatus.OK:
        events = api.stream_error(status, "own", request)
        own = HttpResponse(HTTPStatus.OK, {"content-type": "text/event-stream"}, events)
    try:
        error = api.read(own).error
    except WireError:
        return status
    return status if error is None else error.meant or error.status


@exchange_detail(
    "gateway-retry-after", "retry-after", "the client retries too early, and is refused again", of_answer=True
)
def _wait(exchange: GatewayExchange) -> Outcomes:
    """The retry delay of the upstream reaches the client."""
    found = _errors(exchange)
    if found is None or found[0].retry_after is None:
        return
    sent, received = found
    if sent.retry_after in (received.retry_after, received.retry_after_rounded):
        yield preserved_detail(same=True)
    else:
        what = "does not arrive" if received.retry_after is None else "arrives with a different value"
        message = f"the time to wait before a retry (retry-after) {what}"
        yield lost_detail(message, "", "", received.retry_after, sent.retry_after)


@exchange_detail(
    "gateway-answer",
    "answer arrives",
    "the client has no answer, or treats a part of an answer as all of it",
    of_answer=True,
)
def _arrives(exchange: GatewayExchange) -> Outcomes:
    """A complete answer reaches the client completely, and a truncated answer does not look complete."""
    last = exchange.last
    if last is None:
        if not (exchange.client.is_answer or exchange.is_refused):
            yield lost_detail(
                f"the gateway sends the upstream no request, and the client gets {_describe_answer(exchange)}"
            )
    elif last.is_answer:
        if exchange.client.is_answer and exchange.client.unread is None:
            yield preserved_detail(same=True)
        else:
            yield lost_detail(
                f"the upstream answered, but the client gets {_describe_answer(exchange)}", "", "", None, None
            )
    elif last.is_cut and (last.response is None or last.response.error is None):
        if exchange.client.is_answer:
            yield lost_detail("the upstream's answer ends early, but the client gets it as complete")
        else:
            yield preserved_detail(same=exchange.client.is_cut)


def _describe_answer(exchange: GatewayExchange) -> str:
    client = exchange.client
    if client.unread is not None:
        return f"an unreadable answer: {client.unread}"
    if client.response is not None and client.response.error is not None:
        error = client.response.error
        is_stream = client.request is not None and client.request.stream
        where = " in place of the stream" if is_stream else ""
        return f"an error{where} (HTTP {error.status}: {error.message})"
    return "an answer that ends early" if client.exchange.response is not None else "nothing"


@exchange_detail(
    "gateway-unasked",
    "upstream request",
    "the client gets an answer that no model gave to this request",
    of_answer=True,
)
def _asks_upstream(exchange: GatewayExchange) -> Outcomes:
    """Every answer comes from the upstream."""
    if exchange.last is None and exchange.client.is_answer:
        yield lost_detail("the gateway answers without a request to the upstream")


FAILURES = (_arrives, _asks_upstream, _status, _error_text, _wait)
