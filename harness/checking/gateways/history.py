"""What was called and answered before: calls, their ids, their results, and which of these are errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from harness.apis.view import CallView, JsonView, MediaView, RequestView, ResultView, TextView
from harness.checking.gateways.passage import Fact, Fared, Passage, arguments, lost, matched, of_request, told
from harness.contract.model import JSON, ToolResult
from harness.meaning.requests import paired
from harness.meaning.results import carries, core
from harness.results import Severity


@of_request
def _calls(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    if not sent.calls:
        return
    given, found = [call.name for call in sent.calls], [call.name for call in arrived.calls]
    if given == found:
        yield told(same=True)
        return
    at = next((at for at, (one, other) in enumerate(zip(given, found, strict=False)) if one != other), len(found))
    missing = sent.calls[min(at, len(given) - 1)]
    what = "in another order" if sorted(given) == sorted(found) else "not as they were made"
    there = arrived.calls[at].pointer if at < len(found) else ""
    yield lost(f"the calls of the history arrive {what}", missing.pointer, there, [*found], [*given])


def _matched(passage: Passage) -> Iterator[tuple[CallView, CallView]]:
    if passage.asked is not None:
        sent, arrived = passage.asked
        yield from matched(sent.calls, arrived.calls)


def _arguments(passage: Passage) -> Iterable[Fared]:
    return arguments(_matched(passage))


def _ids(passage: Passage) -> Iterable[Fared]:
    """An id that the upstream issued comes back as issued, or, like any other, as one that stands for it alone, in this
    request and in all later ones."""
    issued, before, taken = _issued(passage), _mapped(passage), dict[str, str]()
    same_id = [call.id for call, _ in _matched(passage)]
    for call, found in _matched(passage):
        if call.id is None:
            continue
        name = f"the id {call.id!r} of the call of {call.name}"
        repeated = same_id.count(call.id) > 1
        if found.id is not None and taken.setdefault(found.id, call.id) != call.id:
            yield lost(f"{name} arrives as that of another call", call.id_pointer, found.id_pointer, found.id, call.id)
        elif call.id in issued and issued[call.id] == found.id:
            yield told(same=call.id == found.id)
        elif not repeated and call.id in before and before[call.id] != found.id:
            was = before[call.id]
            message = f"{name} arrives as another one than in an earlier request, and was issued as {_of(issued, call)}"
            yield lost(message, call.id_pointer, found.id_pointer, found.id, was)
        else:
            yield told(same=call.id == found.id and call.id not in issued)


def _of(issued: Mapping[str, str | None], call: CallView) -> str:
    return repr(issued[call.id]) if call.id and call.id in issued else "none of the upstream's"


def _issued(passage: Passage) -> dict[str, str | None]:
    """By the id that the client was given for a call the one that the upstream issued."""
    found: dict[str, str | None] = {}
    for earlier in passage.before:
        if earlier.answered is not None:
            theirs, ours = earlier.answered
            for one, other in zip(theirs.calls, ours.calls, strict=False):
                if other.id:
                    found[other.id] = one.id or None
    return found


def _mapped(passage: Passage) -> dict[str, str | None]:
    """By the client's id of a call what it arrived as before."""
    return {call.id: found.id for earlier in passage.before for call, found in _matched(earlier) if call.id is not None}


def _results(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None or not passage.asked[0].results:
        return
    arrived_view = passage.asked[1]
    sent, arrived = map(paired, passage.asked)
    found = [_core(results[0]) if results else None for results in arrived.results]
    for place, (call, results) in enumerate(zip(sent.calls, sent.results, strict=True)):
        if not results or place >= len(arrived.calls) or arrived.calls[place].name != call.name:
            continue  # gateway-calls says the latter
        given, there = results[0], arrived.results[place]
        if not there:
            yield lost(f"the result of {call.name} ({call.id}) does not arrive", given.pointer, "", None, _core(given))
        elif _means(given, there[0], arrived_view):
            yield told(same=_plain(given) == _plain(there[0]))
        else:
            yield _changed(call, given, there[0], found)
    for orphan in arrived.orphans:
        if not sent.orphans:
            message = "a result arrives under an id that no call has"
            yield lost(message, "", orphan.id_pointer, orphan.call_id, [call.id for call in arrived.calls])


def _means(given: ResultView, there: ResultView, request: RequestView) -> bool:
    """They say the same, whatever tells it: text, JSON, or an object that an API wants around it."""
    if _core(given) == _core(there):
        return True
    plain = _plain(given)
    content = plain[0] if len(plain) == 1 else "".join(each for each in plain if isinstance(each, str))
    payload = tuple(part for part in there.payload if not isinstance(part, MediaView))
    told_as = ToolResult("", there.name or given.name or "", content, given.error_mark is not None)
    if carries(replace(there, payload=payload), told_as, request):
        return True
    moved = any(isinstance(part, MediaView) for part in given.payload) and len(payload) == len(there.payload)
    return moved and (_core(there) or "").startswith(_core(given) or "")  # a note may say behind it where they are


def _changed(call: CallView, given: ResultView, there: ResultView, found: list[str | None]) -> Fared:
    said, arrives = _core(given) or "", _core(there) or ""
    swapped = "that of another call" if _core(given) in found else "changed"
    message = f"the result of {call.name} ({call.id}) arrives {swapped}"
    return lost(message, given.pointer, there.pointer, arrives, said)


def _core(result: ResultView) -> str | None:
    payload = tuple(part for part in result.payload if not isinstance(part, MediaView))
    return core(replace(result, payload=payload))


def _plain(result: ResultView) -> list[JSON]:
    return [
        part.text if isinstance(part, TextView) else part.value
        for part in result.payload
        if isinstance(part, TextView | JsonView)
    ]


def _errors(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = map(paired, passage.asked)
    flags = passage.way.upstream.traits.flags_errors
    for call, results, there in zip(sent.calls, sent.results, arrived.results, strict=False):
        if not results or not there:
            continue
        given, found = results[0], there[0]
        if given.error_mark == "flag" and found.error_mark is None:
            has = "" if flags else f", which {passage.way.upstream.name} can say in words only"
            yield lost(
                f"that {call.name} failed does not arrive{has}",
                given.pointer,
                found.pointer,
                _plain(found),
                _plain(given),
                Severity.ERROR if flags else Severity.WARNING,
            )
        elif given.error_mark is None and found.error_mark == "flag":
            yield lost(f"{call.name} did not fail, and arrives as if it had", given.pointer, found.pointer)
        elif given.error_mark is not None and found.error_mark is not None:
            yield told(same=given.error_mark == found.error_mark)


def _fails(request: RequestView) -> bool:
    return any(result.error_mark for result in request.results)


STATE = Fact(
    "gateway-opaque-state",
    "signatures and state",
    "Signatures and other state that the upstream issued come back to it untouched.",
    "the model goes on without its own reasoning, or the provider refuses it",
    lambda _passage: (),
)
"""It is judged by what the upstream gets back, in a whole conversation."""

HISTORY = (
    Fact(
        "gateway-calls",
        "calls of the history",
        "The calls of the history reach the upstream, in their order.",
        "the model does not see what it called",
        _calls,
        lambda request: bool(request.calls),
    ),
    Fact(
        "gateway-arguments",
        "arguments of the history",
        "The arguments of earlier calls reach the upstream as the model made them.",
        "the model reads another call than it made",
        _arguments,
        lambda request: bool(request.calls),
    ),
    Fact(
        "gateway-call-ids",
        "call ids of the history",
        "An id that the upstream issued comes back to it, or one that stands for it alone.",
        "a result answers a call that the upstream never issued, or another one",
        _ids,
        lambda request: any(call.id for call in request.calls),
    ),
    Fact(
        "gateway-results",
        "results",
        "The results of tools reach the upstream, each with its call.",
        "the model reads another answer than the tool's",
        _results,
        lambda request: bool(request.results),
    ),
    Fact(
        "gateway-error-flag",
        "error flag",
        "That a tool failed reaches the upstream.",
        "the model takes a failure for an answer, or an answer for a failure",
        _errors,
        _fails,
    ),
    STATE,
)
