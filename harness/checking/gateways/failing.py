"""What goes wrong: errors of the upstream, how long they ask to wait, answers that break off."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus

from harness.apis.view import ErrorView, WireError
from harness.checking.gateways.fact import Fact, Fared, lost, told
from harness.checking.gateways.passage import Passage, Side
from harness.contract.errors import provider_error
from harness.contract.http import EXHAUSTED, HttpResponse
from harness.results import Severity


def _errors(passage: Passage) -> tuple[ErrorView, ErrorView] | None:
    """The error at both ends, the upstream's first: of a request that it refuses too."""
    if _is_made_up(passage):
        return None
    theirs = passage.last.response if passage.last is not None else None
    ours = passage.client.response
    if theirs is None or theirs.error is None or ours is None or ours.error is None:
        return None
    return theirs.error, ours.error


def _is_made_up(passage: Passage) -> bool:
    """The harness had no answer left for the upstream: what it says of that is no provider's error."""
    return passage.last is not None and _is_exhausted(passage.last)


def _is_exhausted(side: Side) -> bool:
    response = side.exchange.response
    return response is not None and EXHAUSTED in response.headers


def _status(passage: Passage) -> Iterable[Fared]:
    """An error is one of the same kind for the client. One that the gateway mended by asking again needs none."""
    if any(side.response and side.response.error for side in passage.upstream[:-1]) and passage.answered:
        yield told(same=False)
        return
    found = _errors(passage)
    if found is not None:
        theirs, ours = ((each.meant or each.status) for each in found)
        kinds = [type(provider_error(status, "")).__name__ for status in (theirs, ours, _own_status(passage, theirs))]
        if theirs == ours:
            yield told(same=True)
        elif kinds[1] in (kinds[0], kinds[2]):
            yield told(same=False)
        else:
            message = f"the upstream's error is HTTP {theirs}, and the client gets HTTP {ours}"
            fails = theirs >= HTTPStatus.INTERNAL_SERVER_ERROR <= ours  # which may be asked again all the same
            yield lost(message, "", "", ours, theirs, Severity.WARNING if fails else Severity.ERROR)
        return
    last = passage.last
    if last is None or last.is_answer or not passage.client.is_answer:
        return
    error = _failure(passage)
    if error is not None:
        status = error.meant or error.status
        yield lost(f"the upstream fails ({status}: {error.message}), and the client is not told", "", "", None, status)
    elif last.unread is not None:
        yield lost(f"the upstream fails ({last.unread}), and the client is not told")


def _failure(passage: Passage) -> ErrorView | None:
    """The error that the upstream's attempts ended with, before the harness had to make one up."""
    real = [side for side in passage.upstream if not _is_exhausted(side)]
    return real[-1].response.error if real and real[-1].response is not None else None


def _text(passage: Passage) -> Iterable[Fared]:
    """What an error says is said to the client: as it is, or within words of the gateway's."""
    found = _errors(passage)
    if found is None or not found[0].message.strip():
        return
    theirs, ours = (" ".join(each.message.split()) for each in found)
    if theirs == ours:
        yield told(same=True)
    elif any(_unescaped(form) in _unescaped(ours) for form in (theirs, json.dumps(theirs)[1:-1])):
        yield told(same=False)
    else:
        refused = (found[0].meant or found[0].status) in _FOR_THE_CLIENT
        severity = Severity.ERROR if refused else Severity.WARNING
        message = "what the upstream says of its error does not reach the client"
        yield lost(message, "", "", found[1].message, found[0].message, severity)


def _unescaped(text: str) -> str:
    """Some repeat the whole body as a text, of JSON or of Python."""
    return text.replace("\\", "")


_FOR_THE_CLIENT = frozenset({400, 404, 409, 413, 422})
"""What the client itself has to mend, and only the text says how. The rest a gateway may keep to itself."""


def _own_status(passage: Passage, status: int) -> int:
    """The status that the client's API itself has for such a failure, before or inside of an answer."""
    api, request, response = passage.way.client, passage.client.request, passage.client.exchange.response
    own = api.fail(status, None, "own")
    if request is not None and request.stream and response is not None and response.status == HTTPStatus.OK:
        events = api.stream_error(status, "own", request)
        own = HttpResponse(HTTPStatus.OK, {"content-type": "text/event-stream"}, events)
    try:
        error = api.read(own).error
    except WireError:
        return status
    return status if error is None else error.meant or error.status


def _wait(passage: Passage) -> Iterable[Fared]:
    found = _errors(passage)
    if found is None or found[0].retry_after is None:
        return
    theirs, ours = found
    if theirs.retry_after in (ours.retry_after, ours.retry_after_rounded):
        yield told(same=True)
    else:
        what = "does not arrive" if ours.retry_after is None else "arrives as another"
        message = f"the time to wait before asking again (retry-after) {what}"
        yield lost(message, "", "", ours.retry_after, theirs.retry_after)


def _arrives(passage: Passage) -> Iterable[Fared]:
    """A whole answer arrives as one, and one that breaks off does not look like one."""
    last = passage.last
    if last is None:
        if not (passage.client.is_answer or passage.is_refused):
            yield lost(f"the upstream is not asked, and the client gets {_shown(passage)}")
    elif last.is_answer:
        if passage.client.is_answer and passage.client.unread is None:
            yield told(same=True)
        else:
            yield lost(f"the upstream has answered, and the client gets {_shown(passage)}", "", "", None, None)
    elif last.is_cut and (last.response is None or last.response.error is None):
        if passage.client.is_answer:
            yield lost("the upstream's answer breaks off, and the client gets it as a whole one")
        else:
            yield told(same=passage.client.is_cut)


def _shown(passage: Passage) -> str:
    client = passage.client
    if client.unread is not None:
        return f"what the witness cannot read: {client.unread}"
    if client.response is not None and client.response.error is not None:
        error = client.response.error
        is_stream = client.request is not None and client.request.stream
        where = " in place of the stream" if is_stream else ""
        return f"an error{where} (HTTP {error.status}: {error.message})"
    return "an answer that breaks off" if client.exchange.response is not None else "nothing"


def _asked(passage: Passage) -> Iterable[Fared]:
    """An answer comes from the upstream."""
    if passage.last is None and passage.client.is_answer:
        yield lost("the gateway answers, and has not asked the upstream")


FACTS = (
    Fact(
        "gateway-answer",
        "answer arrives",
        "A whole answer reaches the client, and one that breaks off does not look like one.",
        "the client has no answer, or takes a part of one for the whole",
        _arrives,
        of_answer=True,
    ),
    Fact(
        "gateway-unasked",
        "upstream is asked",
        "Every answer comes from the upstream.",
        "the client gets what no model said to this",
        _asked,
        of_answer=True,
    ),
    Fact(
        "gateway-error",
        "errors",
        "An error of the upstream reaches the client as one of the same kind.",
        "the client does not know whether to ask again",
        _status,
        of_answer=True,
    ),
    Fact(
        "gateway-error-text",
        "error texts",
        "What the upstream says of an error reaches the client.",
        "the client does not know what to change",
        _text,
        of_answer=True,
    ),
    Fact(
        "gateway-retry-after",
        "retry-after",
        "How long the upstream asks to wait reaches the client.",
        "the client asks again too early, and is refused again",
        _wait,
        of_answer=True,
    ),
)
