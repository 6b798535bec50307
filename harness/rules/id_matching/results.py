"""Results: one for each call, by its id, in its place, with its own content."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

from harness.apis.view import CallView, MediaView, PartView, RequestView, ResultView, TextView, TurnView
from harness.contract.model import File, Image
from harness.meaning.result_meaning import same_medium
from harness.results import Kind
from harness.rules.content import content_shown, shown
from harness.rules.evidence import Evidence, ExpectedCall
from harness.rules.matching import answers
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _requests(evidence: Evidence) -> Iterator[tuple[int, RequestView]]:
    for reading in evidence.readings:
        if reading.request is not None:
            yield reading.index, reading.request


def _result_missing(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, view in _requests(evidence):
        pairing = evidence.pairing(view)
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            if not results and not any(part is call for part in view.turns[-1].parts):  # else it may be answered yet
                yield Flaw(
                    f"the call {call.id or call.name!r} of {call.name} has no result",
                    exchange,
                    call.pointer,
                    [result.call_id for result in view.results],
                    call.id,
                )


def _turn_of(view: RequestView, wanted: PartView) -> int:
    return next(index for index, turn in enumerate(view.turns) if any(part is wanted for part in turn.parts))


def _result_orphan(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, view in _requests(evidence):
        if view.stateful:
            continue  # the call may lie on the server
        for result in evidence.pairing(view).orphans:
            yield Flaw(
                f"the result {result.call_id or result.name!r} answers no call before it",
                exchange,
                result.id_pointer,
                result.call_id,
                [call.id for call in view.calls],
            )


def _result_ambiguous(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.heard:
        pairing = evidence.pairing(asked.view)
        for turn in asked.view.turns:
            calls = [part for part in turn.parts if isinstance(part, CallView)]
            for call in calls:
                twins = [each for each in calls if each.name == call.name and each.id != call.id]
                nameless = [result for result in pairing.of(call) if result.call_id is None] if call.id else []
                if twins and nameless:
                    yield Flaw(
                        f"the result of {call.name} ({call.id}) has no id, and its turn has another call of that tool",
                        asked.reading.index,
                        nameless[0].pointer,
                        None,
                        call.id,
                    )


def _result_duplicate(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, view in _requests(evidence):
        pairing = evidence.pairing(view)
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
        pairing = evidence.pairing(view)
        order = [part for turn in view.turns for part in turn.parts]
        roles = [turn.role for turn in view.turns for _ in turn.parts]
        places = {id(part): place for place, part in enumerate(order)}
        given = _media_of_results(evidence, exchange) if any(isinstance(part, MediaView) for part in order) else []
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            for result in results[:1]:
                start, end = places[id(call)] + 1, places[id(result)]
                if start == end:
                    continue
                seen_result = False
                for part, role in zip(order[start:end], roles[start:end], strict=True):
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
            if len(replies) < 2:
                continue
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
    for asked in evidence.heard:
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


RULES = (
    Rule(
        "result-missing",
        Subject.ID_MATCHING,
        "Every call is answered.",
        "anthropic-call-answered-next, openai-chat-calls-answered, openai-responses-result-has-call, "
        "gemini-responses-counted",
        _result_missing,
        kind=Kind.LOSS,
        because="the model never learns what its call gave",
        remedy="send {result} for each call, also where the tool failed",
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
        remedy="put the id of the call into {result_id}, and send no result without its call",
    ),
    Rule(
        "result-ambiguous",
        Subject.ID_MATCHING,
        "A result names its call by id where the turn has another call of the same tool.",
        "gemini-function-response-form",
        _result_ambiguous,
        kind=Kind.LOSS,
        because="only the order of the results is left to tell them apart",
        remedy="put the id of the call into {result_id}: the name alone does not tell two calls of one tool apart",
    ),
    Rule(
        "result-duplicate",
        Subject.ID_MATCHING,
        "A call is answered once.",
        "anthropic-one-result-a-call, openai-responses-result-has-call, gemini-responses-counted",
        _result_duplicate,
        kind=Kind.LOSS,
        because="the model reads two answers to one call",
        remedy="send one result for each call",
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
        remedy="put the results into {results}",
    ),
    Rule(
        "results-split",
        Subject.ID_MATCHING,
        "The results of one turn's calls go back in one message.",
        "anthropic-results-in-one-message",
        _results_split,
        kind=Kind.LOSS,
        because="documented as wrong: the model learns to stop calling in parallel",
        remedy="put all results of one turn together, into {results}",
    ),
    Rule(
        "result-swapped",
        Subject.ID_MATCHING,
        "A call is answered with its own result, also when another is of the same tool.",
        "harness.contract.model: ids",
        _result_swapped,
        kind=Kind.LOSS,
        because="the model takes one call's answer for another's",
        remedy="match results to calls by their ids, not by the order in which the tools finish",
    ),
)
