"""ID matching: each call is answered once, by its own id, in its place, with its own result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

from harness.apis.view import CallView, MediaView, PartView, RequestView, ResultView, TextView, TurnView
from harness.contract.model import SYNTHESISED_ID, File, Image, ToolCall
from harness.meaning.pairing import answered
from harness.meaning.results import same_medium
from harness.results import Kind
from harness.rules.content import content_shown, shown
from harness.rules.evidence import Evidence, ExpectedCall
from harness.rules.pairing import answers, pairs
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _call_missing(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        if asked.view.stateful:
            continue
        for expected, call in pairs(evidence, asked):
            if call is None:
                yield Flaw(
                    f"the call of {expected.name} ({expected.id or 'without id'}) is not in the history that goes back",
                    asked.reading.index,
                    "",
                    [c.name for c in asked.view.calls],
                    expected.name,
                )


def _call_order(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        places = {id(call): place for place, call in enumerate(asked.view.calls)}
        latest: CallView | None = None
        for expected, call in pairs(evidence, asked):
            if call is None:
                continue
            if latest is not None and places[id(call)] < places[id(latest)]:
                yield Flaw(
                    f"the call of {expected.name} ({expected.id or 'without id'}) stands in front of one that came "
                    "before it",
                    asked.reading.index,
                    call.pointer,
                    call.pointer,
                    f"after {latest.pointer}",
                )
                break
            latest = call


def _call_id_changed(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        for expected, call in pairs(evidence, asked):
            if call is None or expected.foreign or expected.id is None or call.id == expected.id:
                continue
            yield Flaw(
                f"the call of {expected.name} was issued as {expected.id!r} and goes back as {call.id!r}",
                asked.reading.index,
                call.id_pointer,
                call.id,
                expected.id,
            )


def _issued_id_lost(evidence: Evidence) -> Iterator[Flaw]:
    """The id that the caller gets does not lead back to the issued one: a later request has the call under another, or,
    where there is none, the issued id is no part of it."""
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is None or reading.response is None or chat.response is None:
            continue
        issued = [call for call in reading.response.calls if call.malformed is None]
        for call, given in zip(issued, chat.response.tool_calls, strict=False):
            if call.id and given.id != call.id and not _is_kept(evidence, index, call, given):
                yield Flaw(
                    f"the API issued {call.id!r} for {call.name}; the adapter hands on {given.id!r}",
                    reading.index,
                    call.id_pointer,
                    given.id,
                    call.id,
                    of_response=True,
                )


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
        used = {call.id for message in chat.request.messages for call in message.tool_calls}
        issued = [call for call in reading.response.calls if call.malformed is None]
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
    for asked in evidence.asked:
        pairing = answered(asked.view)
        for expected, call in pairs(evidence, asked):
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
        for expected, call in pairs(evidence, asked):
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


def _requests(evidence: Evidence) -> Iterator[tuple[int, RequestView]]:
    for reading in evidence.readings:
        if reading.request is not None:
            yield reading.index, reading.request


def _result_missing(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, view in _requests(evidence):
        pairing = answered(view)
        last_call_turn = _turn_of_last_call(view)
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            ends_open = last_call_turn == len(view.turns) - 1 and _turn_of(view, call) == last_call_turn
            if not results and not ends_open:
                yield Flaw(
                    f"the call {call.id or call.name!r} of {call.name} has no result",
                    exchange,
                    call.pointer,
                    [result.call_id for result in view.results],
                    call.id,
                )


def _turn_of(view: RequestView, wanted: PartView) -> int:
    return next(index for index, turn in enumerate(view.turns) if any(part is wanted for part in turn.parts))


def _turn_of_last_call(view: RequestView) -> int:
    return max((i for i, t in enumerate(view.turns) if any(isinstance(p, CallView) for p in t.parts)), default=-1)


def _result_orphan(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, view in _requests(evidence):
        if view.stateful:
            continue  # the call may lie on the server
        for result in answered(view).orphans:
            yield Flaw(
                f"the result {result.call_id or result.name!r} answers no call before it",
                exchange,
                result.id_pointer,
                result.call_id,
                [call.id for call in view.calls],
            )


def _result_duplicate(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, view in _requests(evidence):
        pairing = answered(view)
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            for result in results[1:]:
                yield Flaw(
                    f"the call {call.id or call.name!r} of {call.name} is answered more than once",
                    exchange,
                    result.id_pointer,
                    len(results),
                    1,
                )


def _result_misplaced(evidence: Evidence) -> Iterator[Flaw]:
    """Between a call and its result stand only the results of its siblings, and in their turn media moved out of them.

    A text of no characters is nothing that could be read as an answer; where it is refused, a limit says so.
    """
    for exchange, view in _requests(evidence):
        pairing = answered(view)
        order = [part for turn in view.turns for part in turn.parts]
        roles = [turn.role for turn in view.turns for _ in turn.parts]
        given = _media_of_results(evidence, exchange)
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            for result in results[:1]:
                start = next(i for i, part in enumerate(order) if part is call)
                end = next(i for i, part in enumerate(order) if part is result)
                between = list(zip(order[start + 1 : end], roles[start + 1 : end], strict=True))
                seen_result = False
                for part, role in between:
                    seen_result = seen_result or isinstance(part, ResultView)
                    said = isinstance(part, TextView) and part.text != ""
                    if isinstance(part, MediaView):
                        moved = any(same_medium(part, each) for each in given)
                        said = not moved or _turn_of(view, part) != _turn_of(view, result)
                    user_text = role == "user" and said
                    new_answer = seen_result and isinstance(part, CallView)
                    if user_text or new_answer:
                        yield Flaw(
                            f"the result of {call.name} ({call.id or 'without id'}) does not directly follow its call",
                            exchange,
                            result.pointer,
                            result.pointer,
                            f"after {call.pointer}, before {part.pointer}",
                        )
                        break


def _media_of_results(evidence: Evidence, exchange: int) -> list[Image | File]:
    """The media that tools have answered with, up to a request."""
    chat = evidence.readings[exchange].exchange.chat
    if chat is None or not evidence.transcript.chats:
        return []
    results = (each for message in evidence.transcript.chats[chat].request.messages for each in message.tool_results)
    parts = (part for result in results if isinstance(result.content, tuple) for part in result.content)
    return [part for part in parts if isinstance(part, Image | File)]


def _results_split(evidence: Evidence) -> Iterator[Flaw]:
    """What a provider takes, and says what comes of it."""
    if not evidence.api.traits.one_turn_for_results:
        return
    for exchange, view in _requests(evidence):
        for run, replies in pairwise([*turn] for _, turn in groupby(view.turns, key=lambda turn: turn.role)):
            ids = {part.id for turn in run for part in turn.parts if isinstance(part, CallView)}
            carriers = [turn for turn in replies if turn.role == "user" and _answers_any(turn, ids)]
            if len(carriers) > 1:
                yield Flaw(
                    f"the results of parallel calls stand in {len(carriers)} user messages",
                    exchange,
                    carriers[1].pointer,
                    len(carriers),
                    1,
                )


def _answers_any(turn: TurnView, ids: set[str | None]) -> bool:
    return any(isinstance(part, ResultView) and part.call_id in ids for part in turn.parts)


def _result_swapped(evidence: Evidence) -> Iterator[Flaw]:
    """The result of a call has the content of another call's: answered by name, by order, or mixed up."""
    for asked in evidence.asked:
        for answer in answers(evidence, asked):
            other = answer.taken_from
            if other is not None:
                yield Flaw(
                    f"the call {_named(answer.expected)} is answered with the result of another call ({_named(other)})",
                    asked.reading.index,
                    answer.view.pointer,
                    shown(answer.view),
                    content_shown(answer.given),
                )


def _named(call: ExpectedCall) -> str:
    return f"{call.id} of {call.name}" if call.id else f"of {call.name}"


_IDS = "harness.contract.model: ids"

RULES = (
    Rule(
        "call-missing",
        Subject.ID_MATCHING,
        "Every call of the history goes back.",
        _IDS,
        _call_missing,
        kind=Kind.LOSS,
        because="the model does not see what it called",
    ),
    Rule(
        "call-order",
        Subject.ID_MATCHING,
        "Calls go back in the order in which they came.",
        _IDS,
        _call_order,
        kind=Kind.LOSS,
        because="the model reads its calls in another order",
    ),
    Rule(
        "call-id-changed",
        Subject.ID_MATCHING,
        "An id that the API issued returns to it unchanged.",
        "anthropic-call-fields, openai-chat-call-form, openai-responses-call-form, gemini-function-response-form",
        _call_id_changed,
        kind=Kind.LOSS,
        because="a result then answers a call that the API never issued",
    ),
    Rule(
        "issued-id-lost",
        Subject.ID_MATCHING,
        "The adapter hands on the id that the API issued.",
        _IDS,
        _issued_id_lost,
        kind=Kind.LOSS,
        because="the caller has no id to answer by",
    ),
    Rule(
        "synthesised-id-unique",
        Subject.ID_MATCHING,
        "An id that the adapter makes is like no other of the conversation.",
        _IDS,
        _synthesised_not_unique,
        kind=Kind.LOSS,
        because="two calls of one id cannot be told apart",
    ),
    Rule(
        "synthesised-id-marked",
        Subject.ID_MATCHING,
        "An id that the adapter makes is marked as synthesised.",
        _IDS,
        _synthesised_not_marked,
        kind=Kind.CONVENTION,
        because="the mark is ours: without it nothing is lost on the wire",
    ),
    Rule(
        "synthesised-id-sent",
        Subject.ID_MATCHING,
        "An id that the adapter made is never sent as if the provider had issued it.",
        _IDS,
        _synthesised_sent,
        kind=Kind.CONVENTION,
        because="where ids are optional, those that clients had made up were taken in every recording",
    ),
    Rule(
        "foreign-id-mapping",
        Subject.ID_MATCHING,
        "Ids of another API map one-to-one, and always the same way.",
        _IDS,
        _foreign_ids,
        kind=Kind.LOSS,
        because="a result then answers another call",
    ),
    Rule(
        "call-id-unique",
        Subject.ID_MATCHING,
        "No two calls have one id.",
        _IDS,
        _id_not_unique,
        kind=Kind.LOSS,
        because="two calls of one id cannot be told apart",
    ),
    Rule(
        "result-missing",
        Subject.ID_MATCHING,
        "Every call is answered.",
        "anthropic-call-answered-next, openai-chat-calls-answered, openai-responses-result-has-call, "
        "gemini-responses-counted",
        _result_missing,
        kind=Kind.LOSS,
        because="the model never learns what its call gave",
    ),
    Rule(
        "result-orphan",
        Subject.ID_MATCHING,
        "Every result answers a call before it, by its id.",
        "anthropic-result-has-call, openai-chat-result-has-call, openai-responses-result-has-call, "
        "gemini-responses-counted",
        _result_orphan,
        kind=Kind.LOSS,
        because="a result that answers no call is lost on the model",
    ),
    Rule(
        "result-duplicate",
        Subject.ID_MATCHING,
        "A call is answered once.",
        "anthropic-one-result-a-call, openai-responses-result-has-call, gemini-responses-counted",
        _result_duplicate,
        kind=Kind.LOSS,
        because="the model reads two answers to one call",
    ),
    Rule(
        "result-misplaced",
        Subject.ID_MATCHING,
        "Results directly follow their calls.",
        "anthropic-call-answered-next, anthropic-results-first, openai-chat-calls-answered, gemini-responses-counted, "
        "gemini-turn-order",
        _result_misplaced,
        kind=Kind.LOSS,
        because="what stands between a call and its result is read as its answer",
    ),
    Rule(
        "results-split",
        Subject.ID_MATCHING,
        "The results of one turn's calls go back in one message.",
        "anthropic-results-in-one-message",
        _results_split,
        kind=Kind.LOSS,
        because="documented as wrong: the model learns to stop calling in parallel",
    ),
    Rule(
        "result-swapped",
        Subject.ID_MATCHING,
        "A call is answered with its own result, also when another is of the same tool.",
        _IDS,
        _result_swapped,
        kind=Kind.LOSS,
        because="the model takes one call's answer for another's",
    ),
)
