"""The upstream's answer (its text, reasoning, calls, stop reason, usage), and what goes wrong with it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import fields
from http import HTTPStatus

from harness.apis.jsonvalue import equal, every, join, loads
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, TextView, WireError
from harness.checking.gateways.passage import (
    Fact,
    Fared,
    Passage,
    Side,
    added,
    arguments,
    lost,
    matched,
    of_answer,
    told,
)
from harness.contract.errors import provider_error
from harness.contract.http import EXHAUSTED, HttpResponse
from harness.contract.model import JSON, StopReason, Usage
from harness.results import Severity

_COUNTS = tuple(each.name for each in fields(Usage))
_COUNTED = ("input_tokens", "output_tokens")
"""What every API counts; the rest is counted by some."""


def _where(view: ResponseView) -> str:
    return next((part.pointer for part in view.parts if isinstance(part, TextView)), "")


@of_answer
def _text(theirs: ResponseView, ours: ResponseView) -> Iterable[Fared]:
    if theirs.text == ours.text:
        if theirs.text:
            yield told(same=True)
    elif theirs.refusal and ours.text == theirs.text + theirs.refusal:
        yield told(same=False)  # gateway-refusal says what is to be said of that
    elif not (theirs.text.strip() or ours.text.strip()):
        yield told(same=False)
    else:
        thoughts = any(text in ours.text for text in _thoughts(theirs))
        what = "with the model's reasoning in it" if thoughts else "changed"
        yield lost(f"the text of the answer arrives {what}", _where(theirs), _where(ours), ours.text, theirs.text)


def _thoughts(view: ResponseView) -> list[str]:
    found: list[str] = []
    for part in view.parts:
        if isinstance(part, OpaqueView) and part.kind != "refusal":
            found += [text for text in _strings(part.raw) if " " in text.strip()]
    return found


def _strings(value: JSON) -> Iterator[str]:
    return (each for each in every(value) if isinstance(each, str))


def _thinking(passage: Passage) -> Iterable[Fared]:
    if passage.answered is None:
        return
    theirs, ours = passage.answered
    told_words = "\n".join(_thoughts(ours))
    for words in _thoughts(theirs):
        if words in told_words:
            yield told(same=True)
        else:
            place = next(part.pointer for part in theirs.parts if isinstance(part, OpaqueView))
            has_none = passage.own is not None and not _thoughts(passage.own)
            yield lost(
                f"the model's reasoning does not arrive{_fieldless(passage) if has_none else ''}",
                place,
                "",
                None,
                words,
                Severity.WARNING if has_none else Severity.ERROR,
            )


def _fieldless(passage: Passage) -> str:
    return f"; {passage.way.client.name} has no field of its own for it"


_NO_WORDS = frozenset({"type"})
"""Keys whose values name a form and say nothing."""
_TELLING_CHARACTERS = 16
"""Length from which a text is recognised inside of a longer one."""


@of_answer
def _unsent(theirs: ResponseView, ours: ResponseView) -> Iterable[Fared]:
    """Reasoning, and calls and results of the provider's own tools, that are in the gateway's answer alone."""
    sent = set(_upstream_texts(theirs))
    has_state = any(isinstance(part, OpaqueView) or _state(part) for part in theirs.parts)
    for part in ours.parts:
        if not isinstance(part, OpaqueView) or part.kind == "refusal":
            continue
        texts = [text for text in _texts(part.raw, _NO_WORDS | part.labels) if text.strip()]
        has_words = any(" " in text.strip() for text in texts)
        is_part = part.returns and not isinstance(part.raw, str)  # else a field of the message, or a signature
        may_be_state = has_state and not has_words and _is_flat(part.raw)  # in a form that the gateway alone can read
        if not texts or may_be_state or not (is_part or has_words):
            continue
        if not any(_is_of(text, each) for text in texts for each in sent):
            yield added(f"the answer has {part.kind!r}, which the upstream has not sent", part.pointer, part.raw)


def _is_flat(raw: JSON) -> bool:
    return not isinstance(raw, dict) or not any(isinstance(each, dict | list) and each for each in raw.values())


def _is_of(text: str, sent: str) -> bool:
    """A text was sent; a long one also as a piece of another, or with others around it."""
    shorter, longer = sorted((text, sent), key=len)
    return text == sent or (len(shorter) >= _TELLING_CHARACTERS and shorter in longer)


def _state(part: PartView) -> JSON:
    return part.opaque if isinstance(part, CallView | TextView) else None


def _upstream_texts(view: ResponseView) -> Iterator[str]:
    """All that an answer says beside its text and its calls."""
    said = {part.pointer for part in view.parts if isinstance(part, CallView | TextView)}
    yield from (text for text in _texts(view.body, _NO_WORDS, said) if text != view.model)
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


def _refusal(passage: Passage) -> Iterable[Fared]:
    if passage.answered is None or not passage.answered[0].refusal:
        return
    theirs, ours = passage.answered
    place = next(part.pointer for part in theirs.parts if isinstance(part, OpaqueView) and part.kind == "refusal")
    if ours.refusal == theirs.refusal:
        yield told(same=True)
    elif theirs.refusal in ours.text + ours.refusal:
        yield told(same=False)
    else:
        words = passage.own is not None and not (passage.own.refusal or passage.own.text)
        aside = any(theirs.refusal in text for text in _strings(ours.body))
        how = f" but in a field that {passage.way.client.name} does not have" if aside else ""
        yield lost(
            f"the words of the refusal do not arrive{how}{_fieldless(passage) if words else ''}",
            place,
            "",
            ours.text or ours.refusal or None,
            theirs.refusal,
            Severity.WARNING if words else Severity.ERROR,
        )


@of_answer
def _calls(theirs: ResponseView, ours: ResponseView) -> Iterable[Fared]:
    whole = [call for call in theirs.calls if call.malformed is None]
    cut = [call for call in theirs.calls if call.malformed is not None]
    found = [call for call in ours.calls if call.malformed is None]
    for call in cut:
        invented = next((each for each in found if each.name == call.name and len(found) > len(whole)), None)
        if invented is None or _says_so(call, invented, ours):
            yield told(same=len(ours.calls) == len(theirs.calls))
        else:
            message = f"the call of {call.name} was cut short, and arrives as a whole one"
            yield lost(message, call.pointer, invented.pointer, invented.arguments, call.malformed)
            return
    if cut and len(found) > len(whole):
        return  # each of them is there, as what it is
    names, there = [call.name for call in whole], [call.name for call in found]
    if names == there:
        if names:
            yield told(same=True)
        return
    what = "in another order" if sorted(names) == sorted(there) else "not as the model made them"
    places = (whole[0].pointer if whole else "", found[0].pointer if found else "")
    yield lost(f"the calls of the answer arrive {what}", *places, [*there], [*names])


def _says_so(call: CallView, found: CallView, answer: ResponseView) -> bool:
    """The answer says that it was cut, and the call has no more than had come of it: where that is JSON by chance, the
    stop reason is all that tells it, as at the upstream."""
    try:
        came = loads(call.malformed or "{}")
    except WireError:
        return False
    return answer.stop_reason is StopReason.MAX_TOKENS and equal(came, found.arguments)


def _matched(passage: Passage) -> Iterator[tuple[CallView, CallView]]:
    if passage.answered is not None:
        theirs, ours = passage.answered
        yield from matched(theirs.calls, ours.calls)


def _arguments(passage: Passage) -> Iterable[Fared]:
    return arguments(_matched(passage))


def _ids(passage: Passage) -> Iterable[Fared]:
    """Each call comes with an id that no other of the conversation has, unless the client's API does without."""
    used = {call.id for earlier in passage.before for call in (earlier.answered[1].calls if earlier.answered else ())}
    theirs = [call.id for call, _ in _matched(passage)]
    optional = passage.way.client.traits.ids_optional
    for call, found in _matched(passage):
        if not found.id and not (optional and not call.id):
            what = "arrives without an id" if not call.id else f"was issued as {call.id!r} and arrives without an id"
            if not optional:
                yield lost(f"the call of {call.name} {what}", call.id_pointer, found.id_pointer, found.id, call.id)
            else:
                yield told(same=False)
        elif found.id and found.id in used and theirs.count(call.id) <= 1:
            message = f"the call of {call.name} arrives under the id of another one"
            yield lost(message, call.id_pointer, found.id_pointer, found.id, call.id)
        else:
            yield told(same=found.id == call.id)
        used.add(found.id)


def _word_for_calls(passage: Passage, ours: ResponseView) -> str | None:
    """What the client's API says of an answer that stops for calls which nobody has forced. Its clients go by the word:
    the witness takes a call for what it is."""
    own, request = passage.own, passage.client.request
    if own is None or request is None or (request.tool_choice is not None and request.tool_choice.mode == "named"):
        return None
    both_call = own.calls and ours.calls and own.stop_reason is ours.stop_reason is StopReason.TOOL_USE
    return own.raw_stop_reason if both_call else None


def _stop(passage: Passage) -> Iterable[Fared]:
    if passage.answered is None:
        return
    theirs, ours = passage.answered
    word = _word_for_calls(passage, ours)
    if word is not None and ours.raw_stop_reason != word:
        yield lost(
            f"the answer has calls and says {ours.raw_stop_reason!r}, where {ours.api} says {word!r}",
            "",
            "",
            ours.raw_stop_reason,
            word,
        )
    elif theirs.stop_reason is ours.stop_reason:
        yield told(same=theirs.raw_stop_reason == ours.raw_stop_reason)
    elif passage.own is not None and passage.own.stop_reason is ours.stop_reason:
        yield told(same=False)  # the client's API has no other word for it
    elif theirs.refusal != ours.refusal and theirs.api == ours.api and theirs.raw_stop_reason == ours.raw_stop_reason:
        return  # it follows from the words of the refusal, and gateway-answer-refusal says so
    else:
        yield lost(
            f"the upstream stopped for {theirs.stop_reason} ({theirs.raw_stop_reason!r}), and the answer says "
            f"{ours.stop_reason} ({ours.raw_stop_reason!r})",
            "",
            "",
            ours.stop_reason.value,
            theirs.stop_reason.value,
        )


def _usage(passage: Passage) -> Iterable[Fared]:
    return _counted(passage, _COUNTED)


def _details(passage: Passage) -> Iterable[Fared]:
    """What a cache and reasoning had of them: an API need not have a place for each, and no bill is wrong without."""
    return _counted(passage, tuple(name for name in _COUNTS if name not in _COUNTED))


def _counted(passage: Passage, names: Iterable[str]) -> Iterator[Fared]:
    if passage.answered is None:
        return
    theirs, ours = ({name: getattr(each.usage, name) for name in names} for each in passage.answered)
    for name, said in theirs.items():
        there = ours[name]
        if (said or 0) != (there or 0):
            what = "does not arrive" if there is None else "arrives as another number"
            yield lost(f"the usage's {name} {what}", "", "", there, said)
            return
    if any(said is not None for said in theirs.values()):
        yield told(same=theirs == ours)


ANSWERS = (
    Fact(
        "gateway-answer-text",
        "answer's text",
        "The text of the answer reaches the client to the code point.",
        "the client reads other words than the model said",
        _text,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-thinking",
        "answer's reasoning",
        "The reasoning that the upstream shows reaches the client.",
        "the client cannot show it, nor hand it back",
        _thinking,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-unsent",
        "answer's own parts",
        "Reasoning, and calls and results of provider tools, are in an answer only if the upstream sent them.",
        "the client shows and sends back what no model said or did",
        _unsent,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-refusal",
        "answer's refusal",
        "The words with which the model declines reach the client.",
        "the client sees an empty answer",
        _refusal,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-calls",
        "answer's calls",
        "The calls of the answer reach the client: all, in their order, and none that was cut short.",
        "the client runs other calls than the model made",
        _calls,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-arguments",
        "answer's arguments",
        "The arguments of calls reach the client as the model made them.",
        "the client runs another call than the model made",
        _arguments,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-ids",
        "answer's call ids",
        "Each call reaches the client with an id of its own.",
        "the client cannot say which call a result answers",
        _ids,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-stop-reason",
        "answer's stop reason",
        "Why the model stopped reaches the client, in the words of its API.",
        "the client cannot tell a whole answer from one that was cut",
        _stop,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-usage",
        "answer's usage",
        "The tokens that the upstream counts reach the client.",
        "the client reckons with other numbers than it is billed for",
        _usage,
        of_answer=True,
    ),
    Fact(
        "gateway-answer-usage-details",
        "answer's usage in detail",
        "What came out of a cache, went into one, or was reasoning reaches the client.",
        "the client cannot tell what the tokens were for",
        _details,
        of_answer=True,
        severity=Severity.WARNING,
    ),
)


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


def _error_text(passage: Passage) -> Iterable[Fared]:
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
    """Some gateways repeat the whole body as a text, of JSON or of Python."""
    return text.replace("\\", "")


_FOR_THE_CLIENT = frozenset({400, 404, 409, 413, 422})
"""What the client itself has to mend, and only the text says how. The rest a gateway may keep to itself."""


def _own_status(passage: Passage, status: int) -> int:
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
    if passage.last is None and passage.client.is_answer:
        yield lost("the gateway answers, and has not asked the upstream")


FAILURES = (
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
        _error_text,
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
