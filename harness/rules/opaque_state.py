"""Rules about opaque state: signatures, reasoning items and unknown parts are sent back unchanged, in their place. The
state of other APIs is not sent to this API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, dropwhile, takewhile

from harness.apis.jsonvalue import as_object, equal, parse_body, string, without_nulls
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, OpaqueView, PartView, ResponseView, TextView
from harness.equivalence.view_differences import json_pointer
from harness.model.messages import JSON, ChatRequest, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from harness.results import Kind, Severity
from harness.rules.call_matching import is_named
from harness.rules.evidence import ClientRequest, Evidence
from harness.rules.rule import RuleTable, RuleViolation

_FINAL: JSON = {"phase": "final_answer"}

RULES = RuleTable(Subject.HISTORY)


@RULES.add(
    "opaque-state-lost",
    "Signatures, reasoning items and unknown parts are sent back unchanged, in their place.",
    source="anthropic-thinking-verbatim, openai-responses-reasoning-back, openai-responses-phase, "
    "gemini-thought-signature, gemini-signature-once",
    because="the model continues without its own reasoning, or the provider refuses the request; a lost null is "
    "only a note",
    remedy="send {state} back unchanged, in the same place",
)
def _lost_state(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.client_requests:
        if not req.view.stateful:
            yield from _lost_in_request(evidence, req)
            yield from _repeated_in_request(evidence, req)
            yield from _copied_signatures(evidence, req)
            yield from _changed_thoughts(evidence, req)
        elif req.view.stateful == "compaction":
            yield from _changed_compaction(evidence, req)


def _lost_in_request(evidence: Evidence, req: ClientRequest) -> Iterator[RuleViolation]:
    """Report the first opaque part of earlier answers that is missing from its place in a request."""
    sent = [part for turn in req.view.turns for part in turn.parts]
    roles = [turn.role for turn in req.view.turns for _ in turn.parts]
    position = 0
    for earlier in range(evidence.first_answer_sent(req.index), req.index):
        parsed = evidence.answer(earlier)
        if parsed is None or parsed.response is None or not evidence.is_accepted(earlier):
            continue
        matched: dict[int, PartView] = {}
        start = position
        for part in _parts_to_return(parsed.response):
            place = next((i for i in range(position, len(sent)) if _is_sent_back(part, sent[i])), None)
            if place is not None:
                matched[place] = part
                position = place + 1
                yield from _changed_nulls(req, part, sent[place])
            elif (
                isinstance(part, TextView)
                and (beside := _place_after_neighbour(part, sent, roles, position)) is not None
            ):
                position = beside
            elif (bare := _place_without_state(evidence, req, part, sent, position)) is not None:
                matched[bare] = part
                position = bare + _is_same_part(part, sent[bare])  # further texts may be in the same joined text
                yield replace(_lost_violation(req, part, sent[bare:]), severity=Severity.WARNING)
            elif _is_empty_and_signed(part) and not any(map(_is_empty_and_signed, sent[position:])):
                yield replace(_lost_violation(req, part, []), severity=Severity.WARNING)
            elif _state_of(part) is not None:
                yield _lost_violation(req, part, sent[position:])
                return
            else:
                yield from _moved_state(req, part, sent[start:position], {place - start for place in matched})


def _repeated_in_request(evidence: Evidence, req: ClientRequest) -> Iterator[RuleViolation]:
    """Report opaque parts of earlier answers that were sent back more often than they were issued."""
    issued, sent = _issued_parts(evidence, req), _opaque_parts(req)
    for part in issued:
        places = [each for each in sent if _is_sent_back(part, each)]
        if len(places) > max(1, sum(_is_sent_back(other, part) for other in issued)):
            message = f"opaque state of an earlier answer ({part.kind}) was sent back more than once"
            yield req.parsed.violation(message, places[-1].pointer, part.raw, case="repeated")
            return


def _copied_signatures(evidence: Evidence, req: ClientRequest) -> Iterator[RuleViolation]:
    """Report the first signature of an earlier answer that is on more parts of a request than of the answers."""
    issued = [part for answer in _answers_before(evidence, req) for part in answer.parts]
    sent = [part for turn in req.view.turns if turn.role == "assistant" for part in turn.parts]
    signed = [part for part in sent if isinstance(part, CallView | TextView) and isinstance(part.opaque, str)]
    for part in signed:
        state = part.opaque
        carriers = [each for each in sent if _has_state(each, state)]
        if 0 < sum(_has_state(each, state) for each in issued) < len(carriers):
            message = f"the signature of an earlier answer is on {len(carriers)} parts, so on more than it came on"
            violation = req.parsed.violation(message, carriers[-1].pointer, state, case="copied signature")
            yield replace(violation, severity=Severity.WARNING)
            return


def _changed_compaction(evidence: Evidence, req: ClientRequest) -> Iterator[RuleViolation]:
    """Report a compaction that is not one of those that were issued, if any was. It may replace the turns before it."""
    issued = [part for part in _issued_parts(evidence, req) if part.kind == "compaction"]
    for part in _opaque_parts(req) if issued else ():
        if part.kind == "compaction" and not any(_is_sent_back(other, part) for other in issued):
            yield _lost_violation(req, issued[-1], [part])
            return


def _changed_thoughts(evidence: Evidence, req: ClientRequest) -> Iterator[RuleViolation]:
    """Report thoughts without a signature that are sent back in other words. They may be left out and joined."""
    given = _opaque_parts(evidence.client_requests[0])
    known = [_thought_text(part).strip() for part in (*_issued_parts(evidence, req), *given) if part.kind == "thought"]
    for part in _opaque_parts(req) if known else ():
        left = _thought_text(part) if part.kind == "thought" and part.signature is None else ""
        for text in sorted(known, key=len, reverse=True):
            left = left.replace(text, "", 1)
        if left.strip():
            message = "reasoning of an earlier answer was sent back with a different text"
            yield req.parsed.violation(message, part.pointer, part.raw, severity=Severity.WARNING, case="thought")
            return


def _thought_text(part: OpaqueView) -> str:
    return string(as_object(part.raw).get("text")) or ""


def _opaque_parts(req: ClientRequest) -> list[OpaqueView]:
    return [part for turn in req.view.turns for part in turn.parts if isinstance(part, OpaqueView)]


def _issued_parts(evidence: Evidence, req: ClientRequest) -> list[OpaqueView]:
    return [part for each in _answers_before(evidence, req) for part in each.parts if isinstance(part, OpaqueView)]


def _answers_before(evidence: Evidence, req: ClientRequest) -> list[ResponseView]:
    answers = [parsed.response for index in range(req.index) if (parsed := evidence.answer(index)) is not None]
    return [answer for answer in answers if answer is not None]


def _place_without_state(
    evidence: Evidence, req: ClientRequest, part: PartView, sent: list[PartView], position: int
) -> int | None:
    """Return the place of a text or call that was sent back without its state, if that does no harm.

    This applies to a final answer without its label (openai-responses-phase) and to a signature that is only
    recommended (gemini-thought-signature, gemini-unsigned-calls-taken).
    """
    is_final_answer = isinstance(part, TextView) and part.opaque == _FINAL
    if not is_final_answer and not isinstance(_state_of(part), str):
        return None
    places = range(position, len(sent))
    place = next((i for i in places if _is_same_part(part, sent[i]) or _is_joined(part, sent[i])), None)
    if place is None or _state_of(sent[place]) is not None:
        return None
    return None if _is_refused_at(evidence, req, sent[place].pointer) else place


def _is_refused_at(evidence: Evidence, req: ClientRequest, pointer: str) -> bool:
    return any(
        violation.severity == "error" and f"{violation.pointer}/".startswith(f"{pointer}/")
        for violation in evidence.violations(req.parsed)
    )


def _is_empty_and_signed(part: PartView) -> bool:
    """Return whether a part is an empty text with a signature. No provider is known to check it."""
    return isinstance(part, TextView) and not part.text and isinstance(part.opaque, str)


def _place_after_neighbour(part: TextView, sent: list[PartView], roles: list[str], position: int) -> int | None:
    """Return the position after a text if a neighbouring part of the same turn has its signature, or else `None`.

    The signature of a text is optional, so it may move. The signature of a call must stay on the call
    (gemini-thought-signature).
    """
    if part.opaque is None:
        return None
    answer = dropwhile(lambda place: roles[place] == "user", range(position, len(sent)))
    ahead = list(takewhile(lambda place: roles[place] == "assistant", answer))
    before = [place for place in (position - 1,) if place >= 0 and roles[place] == "assistant"]
    if not any(_has_state(sent[place], part.opaque) for place in (*before, *ahead)):
        return None
    words = takewhile(lambda place: not isinstance(sent[place], CallView), ahead)  # calls are matched separately
    return max([position, *(place + 1 for place in words if _is_all_of(part, sent[place]))])


def _has_state(part: PartView, state: JSON) -> bool:
    signature = part.signature if isinstance(part, OpaqueView) else None
    return equal(_state_of(part), state) or equal(signature, state)


def _is_all_of(text: TextView, sent: PartView) -> bool:
    """Return whether a part is the text without its signature, or the signature alone."""
    if isinstance(sent, TextView):
        return sent.text == text.text
    return isinstance(sent, OpaqueView) and _has_state(sent, text.opaque)


def _moved_state(
    req: ClientRequest, part: PartView, following: list[PartView], matched: set[int]
) -> Iterator[RuleViolation]:
    """Report a part that followed opaque state and now precedes it."""
    places = [i for i, other in enumerate(following) if i not in matched and _is_sent_back(part, other)]
    state = [other for other in following[places[0] :] if isinstance(other, OpaqueView)] if places else []
    if state:
        message = f"opaque state of an earlier answer ({state[0].kind}) comes after a part that it preceded"
        yield req.parsed.violation(
            message, state[0].pointer, state[0].pointer, f"before {following[places[0]].pointer}", case="moved"
        )


def _parts_to_return(response: ResponseView) -> Iterator[PartView]:
    """Yield the parts of a response that must be in the history, and the parts that mark their place. Truncated calls
    are omitted, and the reasoning before them if nothing else is left: OpenAI refuses a reasoning item alone."""
    kept = [part for part in response.parts if not (isinstance(part, CallView) and part.malformed is not None)]
    if len(kept) < len(response.parts) and all(isinstance(part, OpaqueView) for part in kept):
        return
    for part in response.parts:
        if isinstance(part, CallView) and part.malformed is not None:
            continue
        if isinstance(part, OpaqueView):
            for_people = part.kind in ("thought", "refusal") and part.signature is None
            if part.returns and not for_people:
                yield part
        elif not isinstance(part, TextView) or part.text.strip() or not _is_label(part.opaque):
            yield part


def _is_label(state: JSON) -> bool:
    """Return whether a text has no state, or only the label `phase`."""
    return state is None or (isinstance(state, dict) and state.keys() == {"phase"})


def _state_of(part: PartView) -> JSON:
    match part:
        case OpaqueView():
            return part.raw
        case CallView() | TextView():
            return part.opaque
        case _:
            return None


def _is_sent_back(issued: PartView, sent: PartView) -> bool:
    """Return whether a part of the request is the issued part with its state. Other rules check its content."""
    match issued, sent:
        case OpaqueView(), OpaqueView():
            return issued.kind == sent.kind and _is_same_but_for_nulls(sent, issued)
        case CallView(), CallView():
            # a client may have added an id to a call without one
            is_it = issued.opaque is not None or not issued.id or issued.id == sent.id
            same = is_named(sent.name, issued.name) and is_it
        case TextView(), TextView():
            same = issued.opaque is not None or issued.text == sent.text
        case _:
            return False
    return same and (issued.opaque is None or _carries(sent.opaque, issued.opaque))


def _carries(sent: JSON, issued: JSON) -> bool:
    """Return whether the sent state contains the issued state. Extra keys are accepted: limits check them."""
    if isinstance(sent, dict) and isinstance(issued, dict):
        return all(equal(sent.get(key), value) for key, value in issued.items())
    return equal(sent, issued)


def _is_same(sent: OpaqueView, issued: OpaqueView) -> bool:
    one, other = sent.raw, issued.raw
    if isinstance(one, dict) and isinstance(other, dict):
        labels = {key for key in issued.labels if one.get(key) is None}
        keys = (one.keys() | other.keys()) - labels
        return all(equal(one.get(key), other.get(key)) for key in keys)
    return equal(one, other)


def _is_same_but_for_nulls(sent: OpaqueView, issued: OpaqueView) -> bool:
    """Compare without nulls, since libraries with typed items add or omit them."""
    return _is_same(replace(sent, raw=without_nulls(sent.raw)), replace(issued, raw=without_nulls(issued.raw)))


def _changed_nulls(req: ClientRequest, issued: PartView, sent: PartView) -> Iterator[RuleViolation]:
    """Report state that differs only in nulls."""
    if isinstance(issued, OpaqueView) and isinstance(sent, OpaqueView) and not _is_same(sent, issued):
        message = f"opaque state of an earlier answer ({issued.kind}) was sent back with different null fields"
        yield req.parsed.violation(message, sent.pointer, sent.raw, issued.raw, kind=Kind.CONVENTION)


def _lost_violation(req: ClientRequest, part: PartView, following: list[PartView]) -> RuleViolation:
    state = _state_of(part)
    kind = _kind(part, state)
    holder = "a call" if isinstance(part, CallView) else "a text" if isinstance(part, TextView) else "a part of its own"
    bare = (other for other in following if _has_lost_its_state(part, other))
    near = next(bare, None) or next(
        (other for other in following if type(other) is type(part) and _state_of(other) is not None), None
    )
    message = f"opaque state of an earlier answer ({kind} on {holder}) was not sent back unchanged in its place"
    return req.parsed.violation(
        message, near.pointer if near else "", _state_of(near) if near else None, state, case=f"{kind} on {holder}"
    )


def _has_lost_its_state(issued: PartView, sent: PartView) -> bool:
    return _is_same_part(issued, sent) and _state_of(sent) is None


def _is_same_part(issued: PartView, sent: PartView) -> bool:
    """Return whether a part is the issued text or call, with any state."""
    match issued, sent:
        case TextView(), TextView():
            return issued.text == sent.text
        case CallView(), CallView():
            return issued.name == sent.name and (not sent.id or issued.id == sent.id)
        case _:
            return False


def _is_joined(issued: PartView, sent: PartView) -> bool:
    """Return whether a text was sent back as a piece of a longer one, as clients do that have one text per message."""
    return (
        isinstance(issued, TextView)
        and isinstance(sent, TextView)
        and 0 < len(issued.text) < len(sent.text)
        and issued.text in sent.text
    )


def _kind(part: PartView, state: JSON) -> str:
    """Describe the state: an item's type, its fields, or a signature."""
    if isinstance(part, OpaqueView):
        return part.kind
    return ", ".join(state) if isinstance(state, dict) else "signature" if isinstance(state, str) else "state"


_MIN_STATE_CHARACTERS = 12
"""Minimum length of a text that is unique enough to be recognised. Signatures and encrypted items are longer."""


@RULES.add(
    "foreign-state-sent",
    "Signatures and other state of another API are not sent to this API.",
    source="harness.model.messages: provider_metadata",
    because="the provider refuses a signature that it did not issue, or reads it as text of the conversation",
    remedy="send only the `provider_metadata` and `Opaque` parts of the API itself",
)
def _foreign_state_sent(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges[:1]:  # later requests contain texts that this API issued
        state = {text: api for api, text in foreign_state(req.chat.request)}
        for path, text in texts_of(parse_body(req.parsed.exchange.request.body)) if state else ():
            api = state.get(text, req.view.api)
            if api != req.view.api:
                message = f"state of {api} is sent to {req.view.api}, which did not issue it"
                yield req.parsed.violation(message, json_pointer(path), text, None, case=api)


def foreign_state(request: ChatRequest) -> Iterator[tuple[str, str]]:
    """Yield the texts in wire fields and opaque parts of a history, each with its API. Texts with spaces are no state,
    nor are texts that the request contains in other places.
    """
    parts = [part for message in request.messages for part in message.parts]
    known = set(chain.from_iterable(map(_texts_of_part, parts)))
    for tool in request.tools:
        known |= {tool.name, *(text for _, text in texts_of(tool.parameters))}
    for part in parts:
        fields = {part.api: part.raw} if isinstance(part, Opaque) else part.provider_metadata
        for api, value in fields.items():
            for _, text in texts_of(value):
                if len(text) >= _MIN_STATE_CHARACTERS and text not in known and " " not in text:
                    yield api, text


def _texts_of_part(part: Part) -> Iterable[str]:
    match part:
        case Text() | Thinking():
            return [part.text]
        case ToolCall():
            return [part.id, part.name, *(text for _, text in texts_of(part.arguments))]
        case ToolResult():
            return [part.call_id]
        case _:
            return []


def texts_of(value: JSON, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each text in a JSON value with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from texts_of(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from texts_of(each, (*path, place))
