"""Ids: those that the API issued stay as they are, others are marked, and no two calls share one."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.view import CallView
from harness.contract.model import SYNTHESISED_ID, ToolCall
from harness.results import Kind, Severity
from harness.rules.evidence import Evidence, ExpectedCall, Heard
from harness.rules.matching import matched
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _call_id_changed(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.heard:
        for expected, call in matched(evidence, asked):
            if call is None or expected.foreign or expected.id is None or call.id == expected.id:
                continue
            yield Flaw(
                f"the call of {expected.name} was issued as {expected.id!r} and goes back as {call.id!r}",
                asked.reading.index,
                call.id_pointer,
                call.id,
                expected.id,
                severity=Severity.WARNING if _is_still_paired(evidence, asked, expected, call) else None,
            )


def _is_still_paired(evidence: Evidence, asked: Heard, expected: ExpectedCall, call: CallView) -> bool:
    """Check that the call can be told from the others of its turn, and that its result answers it.

    Providers match ids within a request, so an id that was replaced on call and result alike breaks nothing. Without
    an id, where the API allows that, a result belongs to the call by its name.
    """
    turn = next(turn for turn in asked.view.turns if any(part is call for part in turn.parts))
    others = [part for part in turn.parts if isinstance(part, CallView) and part is not call]
    alike = (each.name == call.name and each.id is None if call.id is None else each.id == call.id for each in others)
    is_answered = expected.result is None or bool(evidence.pairing(asked.view).of(call))
    return is_answered and not any(alike) and (call.id is not None or evidence.api.traits.ids_optional)


def _issued_id_lost(evidence: Evidence) -> Iterator[Flaw]:
    """Report an id that the caller gets and that does not lead back to the issued one.

    It is an error only where the caller cannot tell the calls of the turn apart by it.
    """
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is None or reading.response is None or chat.response is None:
            continue
        issued = [call for call in reading.response.calls if call.malformed is None]
        given_ids = [given.id for given in chat.response.tool_calls]
        for call, given in zip(issued, chat.response.tool_calls, strict=False):
            if call.id and given.id != call.id and not _is_kept(evidence, index, call, given):
                yield Flaw(
                    f"the API issued {call.id!r} for {call.name}; the adapter hands on {given.id!r}",
                    reading.index,
                    call.id_pointer,
                    given.id,
                    call.id,
                    of_response=True,
                    severity=Severity.WARNING if _is_told_apart(given, given_ids) else None,
                )


def _is_told_apart(given: ToolCall, given_ids: list[str]) -> bool:
    """The caller has an id for the call, and no other call of the answer has it. One that a wrapper made up, since the
    library had none, is no id of the library's."""
    mark = given.provider_metadata.get("harness")
    is_made_up = isinstance(mark, dict) and mark.get(SYNTHESISED_ID) is True
    return bool(given.id) and given_ids.count(given.id) == 1 and not is_made_up


def _is_kept(evidence: Evidence, chat: int, call: CallView, given: ToolCall) -> bool:
    """The adapter decorates ids for its caller, and strips what it has added on the wire."""
    later = [asked for asked in evidence.asked if asked.index > chat and not asked.view.stateful]
    if not later:
        return call.id is not None and call.id in given.id
    return any(each.id == call.id and each.name == call.name for each in later[0].view.calls)


def _synthesised(evidence: Evidence) -> Iterator[tuple[int, CallView, ToolCall, frozenset[str]]]:
    """Calls that came without an id: the exchange, the wire call, what the adapter made of it, ids in use before."""
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is None or reading.response is None or chat.response is None:
            continue
        issued = [call for call in reading.response.calls if call.malformed is None]
        if all(call.id for call in issued):
            continue
        used = {call.id for message in chat.request.messages for call in message.tool_calls}
        for call, given in zip(issued, chat.response.tool_calls, strict=False):
            if not call.id:
                yield reading.index, call, given, frozenset(used)
            used.add(given.id)


def _synthesised_not_unique(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, call, given, used in _synthesised(evidence):
        if not given.id or given.id in used:
            yield Flaw(
                f"{call.name} came without an id, and the one that the adapter made is "
                f"{'empty' if not given.id else 'in use already'}",
                exchange,
                call.pointer,
                given.id,
                "an id that no other call of the conversation has",
                of_response=True,
            )


def _synthesised_not_marked(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, call, given, _ in _synthesised(evidence):
        mark = given.provider_metadata.get("harness")
        if not (isinstance(mark, dict) and mark.get(SYNTHESISED_ID) is True):
            yield Flaw(
                f"{call.name} came without an id, and the one that the adapter made ({given.id!r}) is not marked as "
                "synthesised",
                exchange,
                call.pointer,
                mark,
                {SYNTHESISED_ID: True},
                of_response=True,
            )


def _synthesised_sent(evidence: Evidence) -> Iterator[Flaw]:
    if not evidence.api.traits.ids_optional:
        return
    for asked in evidence.heard:
        pairing = evidence.pairing(asked.view)
        for expected, call in matched(evidence, asked):
            if call is None or expected.foreign or expected.id is not None:
                continue
            if call.id is not None:
                yield Flaw(
                    f"the API issued no id for {expected.name}, and {call.id!r} goes back as if it had",
                    asked.reading.index,
                    call.id_pointer,
                    call.id,
                )
            for result in pairing.of(call):
                if result.call_id is not None:
                    yield Flaw(
                        f"the API issued no id for {expected.name}, and its result goes back under {result.call_id!r}",
                        asked.reading.index,
                        result.id_pointer,
                        result.call_id,
                    )


def _foreign_ids(evidence: Evidence) -> Iterator[Flaw]:
    mapped: dict[str, str | None] = {}
    for asked in evidence.asked:
        sent: dict[str, str] = {}
        for expected, call in matched(evidence, asked):
            if call is None or not expected.foreign or expected.id is None:
                continue
            if mapped.setdefault(expected.id, call.id) != call.id:
                yield Flaw(
                    f"the id {expected.id!r} of the earlier history became {mapped[expected.id]!r} before and is "
                    f"{call.id!r} now",
                    asked.reading.index,
                    call.id_pointer,
                    call.id,
                    mapped[expected.id],
                    kind=Kind.CONVENTION,  # each request pairs by itself, and no API issued either of them
                )
            if call.id is not None and sent.setdefault(call.id, expected.id) != expected.id:
                yield Flaw(
                    f"the ids {sent[call.id]!r} and {expected.id!r} of the earlier history both became {call.id!r}",
                    asked.reading.index,
                    call.id_pointer,
                    call.id,
                )


def _id_not_unique(evidence: Evidence) -> Iterator[Flaw]:
    """Ids may repeat where the provider itself repeated them, be it that an answer broke off
    and was given again: who took the one for whole is told so there."""
    for asked in evidence.asked:
        broken = (each.response for each in evidence.readings[: asked.reading.index] if each.answer is None)
        issued = [call.id for call in evidence.expected_calls(asked.index)]
        issued.extend(call.id for response in broken if response is not None for call in response.calls)
        seen: set[str] = set()
        for call in asked.view.calls:
            if call.id is not None and call.id in seen and issued.count(call.id) <= 1:
                yield Flaw(f"two calls have the id {call.id!r}", asked.reading.index, call.id_pointer, call.id)
            seen.add(call.id or "")
    if not evidence.transcript.chats:
        yield from _id_not_unique_within_turn(evidence)


def _id_not_unique_within_turn(evidence: Evidence) -> Iterator[Flaw]:
    for reading in evidence.readings:
        for turn in reading.request.turns if reading.request else ():
            ids = [part.id for part in turn.parts if isinstance(part, CallView) and part.id]
            for part in turn.parts:
                if isinstance(part, CallView) and part.id and ids.count(part.id) > 1:
                    yield Flaw(
                        f"two calls of one turn have the id {part.id!r}", reading.index, part.id_pointer, part.id
                    )


_IDS = "harness.contract.model: ids"

RULES = (
    Rule(
        "call-id-changed",
        Subject.ID_MATCHING,
        "An id that the API issued returns to it unchanged.",
        "anthropic-call-fields, openai-chat-call-form, openai-responses-call-form, gemini-function-response-form",
        _call_id_changed,
        kind=Kind.LOSS,
        because="a result then answers a call that the API never issued",
        remedy="send {call_id} back as the API issued it",
    ),
    Rule(
        "issued-id-lost",
        Subject.ID_MATCHING,
        "The adapter hands on the id that the API issued.",
        _IDS,
        _issued_id_lost,
        kind=Kind.LOSS,
        because="the caller has no id to answer by",
        remedy="return {call_id} as `ToolCall.id`",
    ),
    Rule(
        "synthesised-id-unique",
        Subject.ID_MATCHING,
        "An id that the adapter makes is like no other of the conversation.",
        _IDS,
        _synthesised_not_unique,
        kind=Kind.LOSS,
        because="two calls of one id cannot be told apart",
        remedy="make an id that no other call of the conversation has, from its place in the history",
    ),
    Rule(
        "synthesised-id-marked",
        Subject.ID_MATCHING,
        "An id that the adapter makes is marked as synthesised.",
        _IDS,
        _synthesised_not_marked,
        kind=Kind.CONVENTION,
        because="the mark is ours: without it nothing is lost on the wire",
        remedy="mark an id that the adapter makes as synthesised in `provider_metadata`",
    ),
    Rule(
        "synthesised-id-sent",
        Subject.ID_MATCHING,
        "An id that the adapter made is never sent as if the provider had issued it.",
        _IDS,
        _synthesised_sent,
        kind=Kind.CONVENTION,
        because="where ids are optional, those that clients had made up were taken in every recording",
        remedy="leave an id that the adapter made out of the request",
    ),
    Rule(
        "foreign-id-mapping",
        Subject.ID_MATCHING,
        "Ids of another API map one-to-one, and always the same way.",
        _IDS,
        _foreign_ids,
        kind=Kind.LOSS,
        because="a result then answers another call",
        remedy="map each id of another API to one legal id, the same in every request",
    ),
    Rule(
        "call-id-unique",
        Subject.ID_MATCHING,
        "No two calls have one id.",
        _IDS,
        _id_not_unique,
        kind=Kind.LOSS,
        because="two calls of one id cannot be told apart",
        remedy="give each call an id of its own",
    ),
)
