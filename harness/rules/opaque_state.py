"""Opaque state: signatures, reasoning items and unknown parts go back untouched and in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import dropwhile, takewhile

from harness.apis.jsonvalue import equal, without_nulls
from harness.apis.view import CallView, OpaqueView, PartView, ResponseView, TextView
from harness.contract.model import JSON
from harness.results import Kind, Severity
from harness.rules.evidence import Evidence, Heard
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject

_FINAL: JSON = {"phase": "final_answer"}


def _lost(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.heard:
        if not asked.view.stateful:
            yield from _lost_in(evidence, asked)


def _lost_in(evidence: Evidence, asked: Heard) -> Iterator[Flaw]:
    """The first opaque thing of earlier answers that a request does not carry where it has to stand."""
    sent = [part for turn in asked.view.turns for part in turn.parts]
    roles = [turn.role for turn in asked.view.turns for _ in turn.parts]
    position = 0
    for earlier in range(asked.index):
        reading = evidence.answer(earlier)
        if reading is None or reading.response is None or not evidence.is_taken(earlier):
            continue
        matched: dict[int, PartView] = {}
        start = position
        for part in _returned(reading.response):
            place = next((i for i in range(position, len(sent)) if _is_back(part, sent[i])), None)
            if place is not None:
                matched[place] = part
                position = place + 1
                yield from _respelled(asked, part, sent[place])
            elif isinstance(part, TextView) and (beside := _beside(part, sent, roles, position)) is not None:
                position = beside
            elif (bare := _bare(evidence, asked, part, sent, position)) is not None:
                matched[bare] = part
                position = bare + 1
                yield replace(_lost_flaw(asked, part, sent[bare:]), severity=Severity.WARNING)
            elif _is_empty_and_signed(part) and not any(map(_is_empty_and_signed, sent[position:])):
                yield replace(_lost_flaw(asked, part, []), severity=Severity.WARNING)
            elif _state_of(part) is not None:
                yield _lost_flaw(asked, part, sent[position:])
                return
            else:
                yield from _moved(asked, part, sent[start:position], {place - start for place in matched})


def _bare(evidence: Evidence, asked: Heard, part: PartView, sent: list[PartView], position: int) -> int | None:
    """Return the place of a text or call that came back without its state where nothing is known to break.

    That is a final answer without its label, which the model takes for a final answer anyway (openai-responses-phase),
    and a signature that is only recommended: on a text, or on a call whose request is not refused for it
    (gemini-thought-signature, gemini-unsigned-calls-taken).
    """
    is_final_answer = isinstance(part, TextView) and part.opaque == _FINAL
    if not is_final_answer and not isinstance(_state_of(part), str):
        return None
    place = next((i for i in range(position, len(sent)) if _is_same_part(part, sent[i])), None)
    if place is None or not _has_lost_its_state(part, sent[place]):
        return None
    return None if _is_refused_at(evidence, asked, sent[place].pointer) else place


def _is_refused_at(evidence: Evidence, asked: Heard, pointer: str) -> bool:
    return any(
        violation.severity == "error" and f"{violation.pointer}/".startswith(f"{pointer}/")
        for violation in evidence.violations(asked.reading)
    )


def _is_empty_and_signed(part: PartView) -> bool:
    """A text without characters that only carries a signature, which no provider was seen to check."""
    return isinstance(part, TextView) and not part.text and isinstance(part.opaque, str)


def _beside(part: TextView, sent: list[PartView], roles: list[str], position: int) -> int | None:
    """Where a request goes on behind a text whose signature came back on a neighbour of it, in the same turn: it is
    optional, and what counts is that the model has it (gemini-thought-signature). A signature of a call has to stand on
    the call."""
    if part.opaque is None:
        return None
    answer = dropwhile(lambda place: roles[place] == "user", range(position, len(sent)))
    ahead = list(takewhile(lambda place: roles[place] == "assistant", answer))
    before = [place for place in (position - 1,) if place >= 0 and roles[place] == "assistant"]
    if not any(_has_state(sent[place], part.opaque) for place in (*before, *ahead)):
        return None
    words = takewhile(lambda place: not isinstance(sent[place], CallView), ahead)  # calls are looked for themselves
    return max([position, *(place + 1 for place in words if _is_all_of(part, sent[place]))])


def _has_state(part: PartView, state: JSON) -> bool:
    return any(equal(own, state) for own in _states(part))


def _is_all_of(text: TextView, sent: PartView) -> bool:
    """What was sent is the text without its signature, or nothing but the signature: nothing else stands there."""
    if isinstance(sent, TextView):
        return sent.text == text.text
    return isinstance(sent, OpaqueView) and _has_state(sent, text.opaque)


def _states(part: PartView) -> tuple[JSON, JSON]:
    """The state of a part, and a signature inside of it."""
    return _state_of(part), part.signature if isinstance(part, OpaqueView) else None


def _moved(asked: Heard, part: PartView, behind: list[PartView], matched: set[int]) -> Iterator[Flaw]:
    """A part that came behind opaque state and stands in front of it now."""
    places = [i for i, other in enumerate(behind) if i not in matched and _is_back(part, other)]
    state = [other for other in behind[places[0] :] if isinstance(other, OpaqueView)] if places else []
    if state:
        yield Flaw(
            f"opaque state of an earlier answer ({state[0].kind}) stands behind what it came before",
            asked.reading.index,
            state[0].pointer,
            state[0].pointer,
            f"before {behind[places[0]].pointer}",
            case="moved",
        )


def _returned(response: ResponseView) -> Iterator[PartView]:
    """The parts of a response that have to stand in the history, and those that tell where.

    A call that was cut short cannot go back as one: nothing answers it.
    """
    for part in response.parts:
        if isinstance(part, CallView) and part.malformed is not None:
            continue
        if isinstance(part, OpaqueView):
            for_people = part.kind in ("thought", "refusal") and part.signature is None
            if part.returns and not for_people:
                yield part
        elif not isinstance(part, TextView) or part.text or not _is_label(part.opaque):
            yield part


def _is_label(state: JSON) -> bool:
    """Nothing, or what says how the words of a text are meant, which is nothing to one that has none."""
    return state is None or (isinstance(state, dict) and state.keys() == {"phase"})


def _state_of(part: PartView) -> JSON:
    match part:
        case OpaqueView():
            return part.raw
        case CallView() | TextView():
            return part.opaque
        case _:
            return None


def _is_back(issued: PartView, sent: PartView) -> bool:
    """What stands in the request is the issued part as far as its state goes; other rules look at the rest."""
    match issued, sent:
        case OpaqueView(), OpaqueView():
            return issued.kind == sent.kind and _is_same_but_for_nulls(sent, issued)
        case CallView(), CallView():
            # a call that came without an id may have one that somebody made up
            is_it = issued.opaque is not None or not issued.id or issued.id == sent.id
            same = issued.name == sent.name and is_it
        case TextView(), TextView():
            same = issued.opaque is not None or issued.text == sent.text
        case _:
            return False
    return same and (issued.opaque is None or _carries(sent.opaque, issued.opaque))


def _carries(sent: JSON, issued: JSON) -> bool:
    """The state is there; what else was added beside it is for the limits to judge."""
    if isinstance(sent, dict) and isinstance(issued, dict):
        return all(equal(sent.get(key), value) for key, value in issued.items())
    return equal(sent, issued)


def _is_same(sent: OpaqueView, issued: OpaqueView) -> bool:
    one, other = sent.raw, issued.raw
    if isinstance(one, dict) and isinstance(other, dict):
        keys = (one.keys() | other.keys()) - issued.labels
        return all(equal(one.get(key), other.get(key)) for key in keys)
    return equal(one, other)


def _is_same_but_for_nulls(sent: OpaqueView, issued: OpaqueView) -> bool:
    """Libraries that read an item into a class of theirs write the nulls too that were not there, or leave them out."""
    return _is_same(replace(sent, raw=without_nulls(sent.raw)), replace(issued, raw=without_nulls(issued.raw)))


def _respelled(asked: Heard, issued: PartView, sent: PartView) -> Iterator[Flaw]:
    """It is all there, and nulls were added or left out inside."""
    if isinstance(issued, OpaqueView) and isinstance(sent, OpaqueView) and not _is_same(sent, issued):
        message = f"opaque state of an earlier answer ({issued.kind}) came back with other nulls"
        yield Flaw(message, asked.reading.index, sent.pointer, sent.raw, issued.raw, kind=Kind.CONVENTION)


def _lost_flaw(asked: Heard, part: PartView, behind: list[PartView]) -> Flaw:
    state = _state_of(part)
    kind = _kind(part, state)
    holder = "a call" if isinstance(part, CallView) else "a text" if isinstance(part, TextView) else "a part of its own"
    bare = (other for other in behind if _has_lost_its_state(part, other))
    near = next(bare, None) or next(
        (other for other in behind if type(other) is type(part) and _state_of(other) is not None), None
    )
    return Flaw(
        f"opaque state of an earlier answer ({kind} on {holder}) did not come back untouched in its place",
        asked.reading.index,
        near.pointer if near else "",
        _state_of(near) if near else None,
        state,
        case=f"{kind} on {holder}",
    )


def _has_lost_its_state(issued: PartView, sent: PartView) -> bool:
    """It is the text or the call that the state was on, and it came back without any."""
    return _is_same_part(issued, sent) and _state_of(sent) is None


def _is_same_part(issued: PartView, sent: PartView) -> bool:
    """It is the issued text or call, whatever became of its state."""
    match issued, sent:
        case TextView(), TextView():
            return issued.text == sent.text
        case CallView(), CallView():
            return issued.name == sent.name and (not sent.id or issued.id == sent.id)
        case _:
            return False


def _kind(part: PartView, state: JSON) -> str:
    """What the state is, in a word: an item's type, the fields that stand beside a text or a call, or a signature."""
    if isinstance(part, OpaqueView):
        return part.kind
    return ", ".join(state) if isinstance(state, dict) else "signature" if isinstance(state, str) else "state"


RULES = (
    Rule(
        "opaque-state-lost",
        Subject.HISTORY,
        "Signatures, reasoning items and unknown parts go back untouched, in their place.",
        "anthropic-thinking-verbatim, openai-responses-reasoning-back, openai-responses-phase, "
        "gemini-thought-signature",
        _lost,
        kind=Kind.LOSS,
        because="the model goes on without its own reasoning, or the provider refuses it; nulls hold none of it",
        remedy="send {state} back unchanged, where they were",
    ),
)
