"""Rules about calls and results: calls are sent back in order, and each has exactly one result, which is its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from harness.apis.response_rules import Subject
from harness.apis.view import CallView, MediaView, PartView, RequestView, ResultView, TextView, TurnView
from harness.equivalence.result_meaning import same_medium
from harness.model.messages import JSON, File, Image
from harness.rules.call_matching import matched_calls, matched_results, program_results
from harness.rules.evidence import ClientRequest, Evidence, ExpectedCall
from harness.rules.rule import RuleTable, RuleViolation
from harness.rules.tool_use import shown_payload, shown_result

_IDS = "harness.model.messages: ids"
RULES = RuleTable(Subject.ID_MATCHING, _IDS)


@RULES.add(
    "call-missing",
    "Every call in the history is sent back.",
    because="the model does not see what it called",
    remedy="send each call of the earlier answers back as {call}",
)
def _missing_calls(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.client_requests:
        if req.view.stateful:
            continue
        for expected, call in matched_calls(evidence, req):
            unanswered = expected.foreign and expected.result is None  # most APIs refuse it
            if call is None and not unanswered:
                message = f"the call of {_name_and_id(expected)} is not sent back"
                yield req.parsed.violation(message, "", [c.name for c in req.view.calls], expected.name)


@RULES.add(
    "call-order",
    "Calls are sent back in the order in which they came.",
    because="the model reads its calls in another order",
    remedy="send calls back in the order of the answer",
)
def _reordered_calls(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.client_requests:
        places = {id(call): place for place, call in enumerate(req.view.calls)}
        sent = [(expected, call) for expected, call in matched_calls(evidence, req) if call is not None]
        for (first, before), (second, after) in pairwise(sent):
            if places[id(after)] < places[id(before)]:
                names = f"{_name_and_id(second)} is sent before the call of {_name_and_id(first)}"
                message = f"the call of {names}, which came first"
                in_request = sorted((call for _, call in sent), key=lambda call: places[id(call)])
                found: list[JSON] = [call.id or call.name for call in in_request]
                right: list[JSON] = [call.id or call.name for _, call in sent]
                yield req.parsed.violation(message, after.pointer, found, right)
                break


def _name_and_id(call: ExpectedCall) -> str:
    return f"{call.name} ({call.id or 'without id'})"


@RULES.add(
    "calls-split",
    "Calls of one answer are sent back together, before their results.",
    source=_IDS + "; anthropic-results-in-one-message, gemini-responses-counted",
    because="the model no longer sees that it made them together, and learns to call one tool at a time",
    remedy="send the calls of one answer back together, in one assistant turn before their results",
)
def _calls_split(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report a result between two calls of one answer. It makes the second call look like a later one."""
    for req in evidence.client_requests:
        parts = (part for turn in req.view.turns for part in turn.parts)
        places = {id(part): place for place, part in enumerate(parts)}
        pairing = evidence.pairing(req.view)
        reported: set[int] = set()
        for (before, first), (expected, second) in pairwise(matched_calls(evidence, req)):
            if first is None or second is None or before.answer != expected.answer or expected.answer in reported:
                continue
            results = [result for result in pairing.of(first) if places[id(result)] < places[id(second)]]
            if results:
                reported.add(expected.answer)
                message = (
                    f"the calls of {before.name} and {expected.name} were made at the same time, and are sent as two "
                    "turns: the result of the first is between them"
                )
                yield req.parsed.violation(message, second.pointer, results[0].pointer, f"after {second.pointer}")


def _requests(evidence: Evidence) -> Iterator[tuple[int, RequestView]]:
    for parsed in evidence.parsed_exchanges:
        if parsed.request is not None:
            yield parsed.index, parsed.request


@RULES.add(
    "result-missing",
    "Every call has a result.",
    source="anthropic-call-answered-next, openai-chat-calls-answered, openai-responses-result-has-call, "
    "gemini-responses-counted",
    because="the model never learns the result of its call",
    remedy="send {result} for each call, even if the tool failed",
)
def _result_missing(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, view in _requests(evidence):
        pairing = evidence.pairing(view)
        given = _given_results(evidence, exchange)
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            if call.asynchronous and call.id not in given:
                continue  # its result may come in a later turn
            if not results and not any(part is call for part in view.turns[-1].parts):  # its result may follow
                message = f"the call {call.id or call.name!r} of {call.name} has no result"
                yield RuleViolation(
                    message, exchange, call.pointer, [result.call_id for result in view.results], call.id
                )
        answered: list[JSON] = [result.call_id for result in view.results]
        for call in (call for last in evidence.continued_responses(view)[:1] for call in last.calls):
            if call.id not in answered and not call.asynchronous:
                message = f"the response that the request continues calls {call.name} ({call.id}), which has no result"
                yield RuleViolation(message, exchange, "", [*answered], call.id)


def _given_results(evidence: Evidence, exchange: int) -> frozenset[str]:
    """Return the ids of the results that the caller gave."""
    requests = (req.chat.request for req in evidence.chat_exchanges if req.parsed.index == exchange)
    return frozenset(
        result.call_id for each in requests for message in each.messages for result in message.tool_results
    )


def _turn_of(view: RequestView, wanted: PartView) -> int:
    return next(index for index, turn in enumerate(view.turns) if any(part is wanted for part in turn.parts))


@RULES.add(
    "result-orphan",
    "Every result answers a call before it, by its id.",
    source="anthropic-result-has-call, openai-chat-result-has-call, openai-responses-result-has-call, "
    "gemini-responses-counted",
    because="the model cannot use a result without a call",
    remedy="put the id of the call into {result_id}, and send no result without its call",
)
def _result_orphan(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, view in _requests(evidence):
        kept = {call.id for response in evidence.continued_responses(view) for call in response.calls}
        if view.stateful and not kept:
            continue  # the server may store the call
        for result in evidence.pairing(view).orphans:
            if result.call_id in kept:
                continue
            message = f"the result {result.call_id or result.name!r} answers no call before it"
            yield RuleViolation(message, exchange, result.id_pointer, result.call_id, [call.id for call in view.calls])


@RULES.add(
    "new-result-lost",
    "If the provider keeps the conversation, new results and texts are sent.",
    source="openai-responses-result-has-call, openai-responses-state-conflict",
    because="the provider has the call but not its result, and the model answers without the new message",
    remedy="send the new messages of the request, and {result} for each call that only the provider has",
)
def _new_result_lost(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report new results and texts that are missing. Other rules compare whole histories."""
    for req in evidence.chat_exchanges if evidence.is_kept_by_provider else ():
        results = {result.call_id for result in req.view.results}
        texts = "".join(part.text for turn in req.view.turns for part in turn.parts if isinstance(part, TextView))
        for message in req.chat.request.messages:
            for result in message.tool_results:
                if result.call_id not in results:
                    what = f"the result {result.call_id!r} of {result.name} is not sent"
                    yield req.parsed.violation(what, "", [*results], result.call_id)
            if message.text not in texts:
                yield req.parsed.violation("a text of the new message is not sent", "", texts, message.text)


@RULES.add(
    "kept-history-repeated",
    "If the provider keeps the conversation, nothing of it is sent again.",
    source="openai-responses-previous-response-unknown, openai-responses-duplicate-item-id, anthropic-thread-continue",
    because="the provider has it already: the model reads it twice, or the provider refuses the second copy",
    remedy="send only the messages of the request, without those of earlier requests and responses",
)
def _kept_history_repeated(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report calls and texts of the responses that a request continues, and texts of the user's earlier messages."""
    given = {req.parsed.index: req.chat.request.messages for req in evidence.chat_exchanges}
    earlier: list[str] = []
    for exchange, view in _requests(evidence):
        responses = evidence.continued_responses(view)
        calls = {call.id for response in responses for call in response.calls}
        said = {part.text for response in responses for part in response.parts if isinstance(part, TextView)}
        new = [message.text for message in given.get(exchange, ())]
        said.update(text for text in earlier if evidence.is_kept_by_provider and text not in "".join(new))
        for turn in view.turns:
            for part in turn.parts:
                if isinstance(part, CallView) and part.id in calls:
                    message = f"the call of {part.name} ({part.id}) is sent again, and the provider has kept it"
                    yield RuleViolation(message, exchange, part.pointer, part.id)
                elif isinstance(part, TextView) and part.text in said and part.text not in new:
                    yield RuleViolation("a text that the provider has kept is sent again", exchange, part.pointer)
        earlier.extend(filter(None, new))


@RULES.add(
    "result-ambiguous",
    "A result names its call by id where the turn has another call of the same tool.",
    source="gemini-function-response-form",
    because="only the order of the results distinguishes them",
    remedy="put the id of the call into {result_id}: the tool's name does not distinguish two calls of one tool",
)
def _result_ambiguous(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.client_requests:
        pairing = evidence.pairing(req.view)
        for turn in req.view.turns:
            calls = [part for part in turn.parts if isinstance(part, CallView)]
            for call in calls:
                twins = [each for each in calls if each.name == call.name and each.id != call.id]
                nameless = [result for result in pairing.of(call) if result.call_id is None] if call.id else []
                if twins and nameless:
                    message = (
                        f"the result of {call.name} ({call.id}) has no id, and its turn has another call of that tool"
                    )
                    yield req.parsed.violation(message, nameless[0].pointer, None, call.id)


@RULES.add(
    "result-duplicate",
    "A call has one result.",
    source="anthropic-one-result-a-call, openai-responses-result-has-call, gemini-responses-counted",
    because="the model reads two answers to one call",
    remedy="send one result for each call, with the id of that call in {result_id}",
)
def _result_duplicate(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, view in _requests(evidence):
        pairing = evidence.pairing(view)
        pairs = [*zip(pairing.calls, pairing.results, strict=True)]
        for call, results in pairs:
            turn = next((turn for turn in view.turns if any(part is call for part in turn.parts)), None)
            twins = [other for other, own in pairs if turn and not own and any(part is other for part in turn.parts)]
            without = f", and the call {twins[0].id or twins[0].name!r} next to it has no result" if twins else ""
            for result in results[1:]:
                message = f"the call {call.id or call.name!r} of {call.name} is answered more than once{without}"
                yield RuleViolation(message, exchange, result.id_pointer, len(results), 1)


@RULES.add(
    "result-misplaced",
    "Results directly follow their calls.",
    source="anthropic-call-answered-next, anthropic-results-first, openai-chat-calls-answered, "
    "gemini-responses-counted, gemini-turn-order",
    because="the model reads whatever is between a call and its result as the answer",
    remedy="put the results into {results}",
)
def _result_misplaced(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report user content between a call and its result. Also report a new call between them that comes after another
    result.

    Media that the adapter moved out of a result may be between them in the same turn. Empty texts are left to the
    limits.
    """
    for exchange, view in _requests(evidence):
        pairing = evidence.pairing(view)
        order = [(part, turn.role) for turn in view.turns for part in turn.parts]
        places = {id(part): place for place, (part, _) in enumerate(order)}
        given = _media_of_results(evidence, exchange) if any(isinstance(part, MediaView) for part, _ in order) else []
        for call, results in zip(pairing.calls, pairing.results, strict=True):
            if call.asynchronous or not results:
                continue
            result = results[0]
            part = _misplaced_part(view, order[places[id(call)] + 1 : places[id(result)]], result, given)
            if part is not None:
                yield RuleViolation(
                    f"the result of {call.name} ({call.id or 'without id'}) does not directly follow its call",
                    exchange,
                    result.pointer,
                    result.pointer,
                    f"after {call.pointer}, before {part.pointer}",
                )


def _misplaced_part(
    view: RequestView, between: Sequence[tuple[PartView, str]], result: ResultView, given: Sequence[Image | File]
) -> PartView | None:
    """Return the first part between a call and its result that must not be there, or `None`."""
    has_result = False
    for part, role in between:
        has_result = has_result or isinstance(part, ResultView)
        is_content = isinstance(part, TextView) and part.text != ""
        if isinstance(part, MediaView):
            is_of_result = any(same_medium(part, each) for each in given)
            is_content = not is_of_result or _turn_of(view, part) != _turn_of(view, result)
        if (role == "user" and is_content) or (has_result and isinstance(part, CallView)):
            return part
    return None


def _media_of_results(evidence: Evidence, exchange: int) -> list[Image | File]:
    chat = evidence.parsed_exchanges[exchange].exchange.chat
    if chat is None or not evidence.transcript.chats:
        return []
    results = (each for message in evidence.transcript.chats[chat].request.messages for each in message.tool_results)
    parts = (part for result in results if isinstance(result.content, tuple) for part in result.content)
    return [part for part in parts if isinstance(part, Image | File)]


@RULES.add(
    "results-split",
    "The results of one turn's calls are sent back in one message.",
    source="anthropic-results-in-one-message",
    because="the documentation warns against it: the model learns not to call tools in parallel",
    remedy="put all results of one turn together, into {results}",
)
def _results_split(evidence: Evidence) -> Iterator[RuleViolation]:
    if not evidence.api.traits.one_turn_for_results:
        return
    for exchange, view in _requests(evidence):
        for run, replies in pairwise([*turn] for _, turn in groupby(view.turns, key=lambda turn: turn.role)):
            if len(replies) < 2:
                continue
            ids = {part.id for turn in run for part in turn.parts if isinstance(part, CallView)}
            carriers = [turn for turn in replies if turn.role == "user" and _answers_any(turn, ids)]
            if len(carriers) > 1:
                message = f"the results of parallel calls are spread over {len(carriers)} user messages"
                yield RuleViolation(message, exchange, carriers[1].pointer, len(carriers), 1)


def _answers_any(turn: TurnView, ids: set[str | None]) -> bool:
    return any(isinstance(part, ResultView) and part.call_id in ids for part in turn.parts)


@RULES.add(
    "result-swapped",
    "A call gets its own result, even if the same tool is called twice.",
    source="harness.model.messages: ids",
    because="the model reads one call's result as another's",
    remedy="match results to calls by their ids, not by the order in which the tools finish",
)
def _result_swapped(evidence: Evidence) -> Iterator[RuleViolation]:
    singles: dict[int, tuple[str, str]] = {}
    for req in evidence.client_requests:
        for answer in matched_results(evidence, req):
            other = answer.taken_from
            if other is not None:
                call, owner = _words_of(answer.expected), _words_of(other)
                message = f"the call {call} is answered with the result of another call ({owner})"
                yield req.parsed.violation(
                    message, answer.view.pointer, shown_payload(answer.view), shown_result(answer.given)
                )
        given = [(one, view, str(shown_payload(view))) for one, view in program_results(evidence, req)]
        for answer, calls in groupby(given, key=lambda each: each[0].answer):
            (one, _, text), *others = calls
            if not others:
                singles.setdefault(answer, (_call_key(one), text))
        yield from _swapped_by_program(req, given, _constant_results(singles.values()))


def _swapped_by_program(
    req: ClientRequest, given: Sequence[tuple[ExpectedCall, ResultView, str]], single: Mapping[str, str]
) -> Iterator[RuleViolation]:
    """Report two results of a program's own tools if each repeats an argument of the other's call and none of its own
    call.

    Also report two calls that get the same text, if it contains the arguments of both, or only those of one call. A
    result is also that of the other call if both calls had each other's result when they were the only ones of an
    answer. `single` has these results by tool and arguments.
    """
    for (one, view, text), (other, _, other_text) in pairwise(given):
        before, other_before = single.get(_call_key(one)), single.get(_call_key(other))
        is_parallel = one.answer == other.answer and None not in (before, other_before)
        if is_parallel and before != other_before and (text, other_text) == (other_before, before):
            message = f"the call {_words_of(one)} is answered with the result of another call ({_words_of(other)})"
            yield req.parsed.violation(message, view.pointer, shown_payload(view), before)
            continue
        own = _repeats(text, one, other) or _repeats(other_text, other, one)
        if one.name == other.name and not own and _repeats(text, other, one) and _repeats(other_text, one, other):
            message = f"the call {_words_of(one)} is answered with the result of another call ({_words_of(other)})"
            yield req.parsed.violation(message, view.pointer, shown_payload(view), other_text)
        elif one.name == other.name and text == other_text and _repeats(text, one, other) != _repeats(text, other, one):
            lost, owner = (other, one) if _repeats(text, one, other) else (one, other)
            message = f"the call {_words_of(lost)} is answered with the result of another call ({_words_of(owner)})"
            yield req.parsed.violation(message, view.pointer, shown_payload(view))
        elif text == other_text and _repeats(text, one, other) and _repeats(text, other, one):
            message = f"the calls {_words_of(one)} and {_words_of(other)} get the same text, with the results of both"
            yield req.parsed.violation(message, view.pointer, shown_payload(view))


def _constant_results(results: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the results by their key, without keys that have several different ones."""
    found: dict[str, set[str]] = {}
    for key, text in results:
        found.setdefault(key, set()).add(text)
    return {key: next(iter(texts)) for key, texts in found.items() if len(texts) == 1}


def _call_key(call: ExpectedCall) -> str:
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"


def _repeats(text: str, call: ExpectedCall, other: ExpectedCall) -> bool:
    """Return whether a text contains one of a call's arguments that the other call does not have."""
    return any(each in text or json.dumps(each)[1:-1] in text for each in _texts(call) - _texts(other))


def _texts(call: ExpectedCall) -> set[str]:
    values = call.arguments.values() if isinstance(call.arguments, dict) else ()
    return {each for each in values if isinstance(each, str) and each}


def _words_of(call: ExpectedCall) -> str:
    return f"{call.id} of {call.name}" if call.id else f"of {call.name}"
